// SPDX-License-Identifier: MIT OR Apache-2.0

//! Folders of this machine's that a guest reads while it runs, by virtio-9p: QEMU has it, and it takes no copies.

use crate::attachment::escape;
use std::path::Path;

/// The modules of a guest's kernel.
pub const MODULES: &[&str] = &["9p", "9pnet_virtio"];
/// How a guest mounts them. What it has read stays as it is, so it may keep that.
pub const OPTIONS: &str = "trans=virtio,version=9p2000.L,cache=loose,msize=262144,ro";

/// The name by which a guest mounts the folder of this number.
#[must_use]
pub fn tag(number: usize) -> String {
    format!("folder{number}")
}

/// QEMU's arguments for these folders, which no guest may write.
///
/// # Errors
/// When a path is not UTF-8.
pub fn arguments<'a>(folders: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<Vec<String>> {
    let mut arguments = Vec::new();
    for (number, folder) in folders.into_iter().enumerate() {
        let (tag, path) = (tag(number), escape(folder)?);
        arguments.extend([
            "-fsdev".into(),
            // A folder may have others mounted in it, whose files have the same numbers.
            format!("local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap"),
            "-device".into(),
            format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"),
        ]);
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_has_a_name_of_its_own_and_none_can_be_written() {
        let arguments = arguments([Path::new("/a,b"), Path::new("/c")]).unwrap();
        let expected = ["path=/a,,b,", "fsdev=folder0,mount_tag=folder0", "path=/c,", "folder1"];
        let values: Vec<_> = arguments.chunks(2).map(|pair| &pair[1]).collect();
        assert_eq!(values.len(), expected.len());
        for (value, part) in values.iter().zip(expected) {
            assert!(value.contains(part), "{value} lacks {part}");
            assert!(!value.starts_with("local") || value.contains(",readonly=on"), "{value}");
        }
    }
}
