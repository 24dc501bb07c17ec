// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs, and files that are in the repository.

use crate::folder;
use crate::third_party;
use anyhow::{Context, anyhow};
use bellhop_integration::guest_binary;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The documentation.
const DOCUMENTS: &str = "usr/share/doc/bellhop";

/// Files of the repository, and the folders where a package has them.
const FILES: [(&str, &str); 13] = [
    ("device/dist/bellhop.toml", "etc/bellhop"),
    ("device/dist/bellhopd.service", "usr/lib/systemd/system"),
    ("device/dist/bellhopd.socket", "usr/lib/systemd/system"),
    ("device/dist/sysusers.d/bellhop.conf", "usr/lib/sysusers.d"),
    // For guests: nothing enables it.
    ("integration/guest/dist/agent.toml", "etc/bellhop"),
    ("integration/guest/dist/bellhop-agent.service", "usr/lib/systemd/system"),
    ("integration/guest/dist/broker.toml", "etc/bellhop"),
    ("integration/guest/dist/bellhop-broker.service", "usr/lib/systemd/system"),
    // Where Debian's policy looks for the licence.
    ("integration/package/copyright", DOCUMENTS),
    ("LICENSE-APACHE", DOCUMENTS),
    ("LICENSE-MIT", DOCUMENTS),
    ("CHANGELOG.md", DOCUMENTS),
    ("README.md", DOCUMENTS),
];

/// Copies the documentation and systemd's files.
pub fn write(tree: &Path) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (source, place) in FILES {
        copy(&root.join(source), tree, place, 0o644)?;
    }
    third_party::write(tree, DOCUMENTS)?;
    // The documents refer to each other and are referred to from beside their folder.
    for document in documents(&root.join("docs"))? {
        copy(&document, tree, "usr/share/doc/bellhop/docs", 0o644)?;
    }
    Ok(())
}

fn documents(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(|| format!("cannot list {}", folder.display()))
}

/// Copies the programs of the host from the folder where cargo put them, and builds and copies
/// the static one for guests.
pub fn write_programs(built: &Path, tree: &Path) -> anyhow::Result<()> {
    for program in ["bellhop", "bellhopd"] {
        copy(&built.join(program), tree, "usr/bin", 0o755)?;
    }
    // Where `bellhopd` looks for it. Nobody else starts it.
    copy(&built.join("bellhop-worker"), tree, "usr/lib/bellhop", 0o755)?;
    // Where `bellhop vulkan` looks for it, for programs of this machine's.
    copy(&built.join("libvulkan_bellhop.so"), tree, "usr/lib/bellhop", 0o644)?;
    // Where `bellhop` looks for it. In a container it is also a separate command.
    copy(&guest_binary::find(None)?, tree, "usr/lib/bellhop", 0o755)?;
    let link = tree.join("usr/bin/bellhop-guest");
    symlink("../lib/bellhop/bellhop-guest", &link)
        .with_context(|| format!("cannot create the link {}; remove the folder", link.display()))
}

fn copy(source: &Path, tree: &Path, place: &str, mode: u32) -> anyhow::Result<()> {
    let name = source.file_name().ok_or_else(|| anyhow!("{} is not a file", source.display()))?;
    let target = folder::make(tree, place)?.join(name);
    fs::copy(source, &target)
        .and_then(|_| fs::set_permissions(&target, Permissions::from_mode(mode)))
        .with_context(|| format!("cannot copy {} to {}", source.display(), target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_where_distributions_look() {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path()).unwrap();
        let read = |name| fs::read_to_string(tree.path().join(DOCUMENTS).join(name)).unwrap();
        let copyright = read("copyright");
        let licence = format!("License: {}\n", env!("CARGO_PKG_LICENSE").replace("OR", "or"));
        assert!(copyright.contains(&licence), "{copyright}");
        // Debian's form indents a licence's text, and has a dot for an empty line.
        let text = copyright.lines().map(|line| line.trim_start().trim_end_matches('.'));
        let text: Vec<_> = text.filter(|line| !line.is_empty()).collect();
        let mit = read("LICENSE-MIT");
        for line in mit.lines().filter(|line| !line.is_empty()).skip(2) {
            assert!(text.contains(&line.trim_end_matches('.')), "copyright lacks {line:?}");
        }
        assert!(read("LICENSE-APACHE").contains("Version 2.0"));
    }

    #[test]
    fn the_service_finds_its_program_and_its_configuration() {
        let tree = tempfile::tempdir().unwrap();
        let built = tempfile::tempdir().unwrap();
        for program in ["bellhop", "bellhopd", "bellhop-worker", "libvulkan_bellhop.so"] {
            fs::write(built.path().join(program), program).unwrap();
        }
        write(tree.path()).unwrap();
        write_programs(built.path(), tree.path()).unwrap();
        let unit = tree.path().join("usr/lib/systemd/system/bellhopd.service");
        let unit = fs::read_to_string(unit).unwrap();
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let paths = start.split(' ').filter_map(|word| word.strip_prefix('/'));
        // The service makes its own files in the folder that systemd makes for it.
        assert!(unit.lines().any(|line| line == "RuntimeDirectory=bellhopd"));
        for path in paths.filter(|path| !path.starts_with("run/bellhopd/")) {
            assert!(tree.path().join(path).is_file(), "the service names /{path}");
        }
        assert!(tree.path().join("usr/bin/bellhop-guest").is_file());
        assert!(tree.path().join("usr/lib/bellhop/bellhop-worker").is_file());
        assert!(tree.path().join("usr/lib/bellhop/libvulkan_bellhop.so").is_file());
    }
}
