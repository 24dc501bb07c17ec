// SPDX-License-Identifier: MIT OR Apache-2.0

//! Libraries that several packages offer. Each has its own in a folder that is called as the library is, and a script of the package,
//! which does not run here, links it to where programs look (update-alternatives).

use super::unpacked::LIBRARIES;
use anyhow::Context;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Links such libraries in a folder of unpacked packages, where a program would find none.
///
/// # Errors
/// When the folder cannot be read or written.
pub fn link(root: &Path) -> anyhow::Result<()> {
    let libraries = root.join(LIBRARIES[0]);
    let linked = offered(&libraries).and_then(|offered| {
        for library in offered {
            let place = libraries.join(library.file_name().unwrap_or_default());
            if !place.exists() {
                symlink(&library, place)?;
            }
        }
        Ok(())
    });
    linked.with_context(|| format!("cannot link libraries in {}", libraries.display()))
}

/// The libraries `NAME/libNAME.so.NUMBER` in a folder.
fn offered(libraries: &Path) -> io::Result<Vec<PathBuf>> {
    let mut offered = Vec::new();
    let folders = match fs::read_dir(libraries) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(offered),
        folders => folders?,
    };
    for folder in folders {
        let folder = folder?;
        let Ok(name) = folder.file_name().into_string() else { continue };
        if !folder.file_type()?.is_dir() {
            continue;
        }
        let prefix = format!("lib{name}.so.");
        for file in fs::read_dir(folder.path())? {
            let file = file?.file_name();
            let number = file.to_str().and_then(|file| file.strip_prefix(&prefix));
            if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
                offered.push(Path::new(&name).join(file));
            }
        }
    }
    Ok(offered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_in_a_folder_of_its_name_is_linked_where_there_is_no_other() {
        let root = tempfile::tempdir().unwrap();
        link(root.path()).unwrap();
        let libraries = root.path().join(LIBRARIES[0]);
        let put = |path: &str| {
            let path = libraries.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        for path in [
            "blas/libblas.so.3",
            "blas/libblas.so.3.12.1",
            "lapack/liblapack.so.3",
            "caca/libgl_plugin.so.0",
        ] {
            put(path);
        }
        put("liblapack.so.3");
        link(root.path()).unwrap();
        let target = |name: &str| fs::read_link(libraries.join(name)).ok();
        assert_eq!(target("libblas.so.3"), Some("blas/libblas.so.3".into()));
        assert_eq!(
            ["libblas.so.3.12.1", "liblapack.so.3", "libgl_plugin.so.0"].map(target),
            [None, None, None]
        );
    }
}
