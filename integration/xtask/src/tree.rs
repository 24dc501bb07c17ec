// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contents of a folder, for comparing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Files and links below a folder.
pub struct Tree(BTreeMap<PathBuf, Entry>);

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    /// A file's access bits.
    File(u32),
    /// The target of a link.
    Link(PathBuf),
}

impl Tree {
    /// Reads a folder.
    ///
    /// # Errors
    /// When an entry cannot be read.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let mut tree = Self(BTreeMap::new());
        tree.add(folder, Path::new(""))
            .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        Ok(tree)
    }

    fn add(&mut self, folder: &Path, inner: &Path) -> std::io::Result<()> {
        for entry in fs::read_dir(folder.join(inner))? {
            let entry = entry?;
            let path = inner.join(entry.file_name());
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                self.add(folder, &path)?;
            } else if metadata.is_symlink() {
                self.0.insert(path, Entry::Link(fs::read_link(entry.path())?));
            } else {
                // Debian's man pages are compressed.
                let path = if path.extension().is_some_and(|extension| extension == "gz") {
                    path.with_extension("")
                } else {
                    path
                };
                self.0.insert(path, Entry::File(metadata.permissions().mode() & 0o7777));
            }
        }
        Ok(())
    }

    /// Checks that a package's tree has everything of this one.
    ///
    /// # Errors
    /// Names the first entry that is missing or different.
    pub fn must_be_in(&self, packed: &Self, package: &Path) -> Result<(), String> {
        if self.0.is_empty() {
            return Err(format!("there is nothing to put into {}", package.display()));
        }
        for (path, entry) in &self.0 {
            match packed.0.get(path) {
                Some(found) if found == entry => {}
                Some(found) => {
                    let (package, path) = (package.display(), path.display());
                    return Err(format!("{package} has {path} as {found:?}, not as {entry:?}"));
                }
                None => return Err(format!("{} lacks {}", package.display(), path.display())),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A separate folder for each test.
    fn folder(name: &str) -> PathBuf {
        let folder = crate::workspace::root().join("target/tmp/xtask-tree").join(name);
        // An earlier run may have left the folder.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("usr/share")).unwrap();
        fs::write(folder.join("usr/share/page.1"), "text").unwrap();
        symlink("share/page.1", folder.join("usr/page")).unwrap();
        folder
    }

    fn compared(tree: &Path, packed: &Path) -> Result<(), String> {
        Tree::read(tree)?.must_be_in(&Tree::read(packed)?, packed)
    }

    #[test]
    fn a_package_may_compress_and_add() {
        let (tree, packed) = (folder("compressing/tree"), folder("compressing/packed"));
        fs::rename(packed.join("usr/share/page.1"), packed.join("usr/share/page.1.gz")).unwrap();
        fs::write(packed.join("usr/copyright"), "text").unwrap();
        assert_eq!(compared(&tree, &packed), Ok(()));
    }

    #[test]
    fn a_package_must_not_lack_a_file_or_change_a_mode_or_a_link() {
        let tree = folder("changing/tree");
        let missing = folder("changing/missing");
        fs::remove_file(missing.join("usr/share/page.1")).unwrap();
        assert!(compared(&tree, &missing).unwrap_err().contains("lacks usr/share/page.1"));

        let mode = folder("changing/mode");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(mode.join("usr/share/page.1"), executable).unwrap();
        assert!(compared(&tree, &mode).unwrap_err().contains("usr/share/page.1 as"));

        let link = folder("changing/link");
        fs::remove_file(link.join("usr/page")).unwrap();
        symlink("elsewhere", link.join("usr/page")).unwrap();
        assert!(compared(&tree, &link).unwrap_err().contains("usr/page as"));
    }
}
