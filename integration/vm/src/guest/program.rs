// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program of others' in a guest, with a root of its own: none of the guest's files, but those that it would find on a machine
//! where the Vulkan driver is installed.

use super::archive::{Entries, Entry};
use super::command_line::command_line;
use super::share::OPTIONS;
use super::users::{GROUP, PASSWD};
use crate::packages::unpacked::LIBRARIES;
use crate::task::Program;
use anyhow::Context;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The modules of its guest's kernel, beside those that share folders.
pub const MODULES: &[&str] = &["overlay"];
/// The folder in the guest that is its root, and the one whose `usr` adds to its `/usr`.
const ROOT: &str = "program";
const DRIVER: &str = "driver";
/// The shell that starts it, and what that runs: a program's packages need not have one.
const SHELL: &str = "bellhop/busybox";
const TASK: &str = "bellhop/task";
/// What makes its root, which the guest's first process runs.
pub const MOUNTS: &str = "mounts.sh";
const MAKE_ROOT: &[u8] = include_bytes!("program.sh");
/// The file that names the driver to the loader, as it is shipped, and its folder.
const MANIFEST: &str = include_str!("../../../../guest-umd/vulkan/dist/bellhop_icd.json");
const MANIFESTS: &str = "usr/share/vulkan/icd.d/bellhop_icd.json";
/// The names of libraries, by which the loader finds the driver, and programs the loader.
const LIBRARY: &str = "libvulkan_bellhop.so";
const LOADER: &str = "libvulkan.so.1";
/// Links where Debian has folders in `/usr`.
const LINKS: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// The lines of its service. It has the guest's devices and the broker's socket, if there is a broker. Of the drivers that its loader
/// finds, it takes Bellhop's; people want to know why there is no device, or why one was lost.
pub const SERVICE: &str = "RootDirectory=/program\nMountAPIVFS=yes\n\
    BindPaths=-/run/bellhop\nBindReadOnlyPaths=-/files\n\
    Environment=PATH=/usr/local/bin:/usr/bin:/usr/sbin HOME=/tmp\n\
    Environment=VK_LOADER_DRIVERS_SELECT=bellhop_icd.json BELLHOP_VULKAN_DEBUG=1\n\
    ExecStart=/bellhop/busybox sh /bellhop/task\n";

/// The files of its guest.
///
/// # Errors
/// When a name has a zero byte in it.
pub fn files(program: &Program, busybox: &Path) -> anyhow::Result<Entries> {
    let library = |name: &str| format!("{DRIVER}/{}/{name}", LIBRARIES[0]);
    let of_root = |path: &str| format!("{ROOT}/{path}");
    let mut files = Entries::from([
        (library(LIBRARY), Entry::Program(program.driver.clone())),
        (format!("{DRIVER}/{MANIFESTS}"), Entry::Text(MANIFEST.into())),
        (of_root(SHELL), Entry::Program(busybox.into())),
        (of_root(TASK), command_line(program.words.iter().map(AsRef::as_ref))?),
        (of_root("etc/passwd"), Entry::Text(PASSWD.into())),
        (of_root("etc/group"), Entry::Text(GROUP.into())),
        (MOUNTS.into(), Entry::Text(mounts(program)?)),
    ]);
    files.extend(LINKS.map(|link| (of_root(link), Entry::Link(format!("usr/{link}")))));
    files.extend(program.loader.clone().map(|loader| (library(LOADER), Entry::Program(loader))));
    Ok(files)
}

/// What makes its root.
fn mounts(program: &Program) -> anyhow::Result<Vec<u8>> {
    let mut script = format!("options={OPTIONS}\n").into_bytes();
    script.extend(MAKE_ROOT);
    for folder in &program.folders {
        let place = [b"/program", folder.as_os_str().as_bytes()].concat();
        let words = [b"share".as_slice(), &place];
        script
            .extend(shlex::bytes::try_join(words).context("a folder has a zero byte in its name")?);
        script.push(b'\n');
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        Program {
            usr: "/cache/tools/usr".into(),
            folders: vec!["/my venv".into()],
            driver: "/d/driver.so".into(),
            loader: None,
            words: vec!["/usr/bin/vulkaninfo".into(), "a b".into()],
        }
    }

    #[test]
    fn a_program_finds_the_driver_where_loaders_look_and_its_folders_at_their_paths() {
        let files = files(&program(), Path::new("/busybox")).unwrap();
        let library = "driver/usr/lib/x86_64-linux-gnu/libvulkan_bellhop.so";
        assert_eq!(files[library], Entry::Program("/d/driver.so".into()));
        assert!(files.contains_key("driver/usr/share/vulkan/icd.d/bellhop_icd.json"));
        assert!(MANIFEST.contains(&format!("\"{LIBRARY}\"")), "{MANIFEST}");
        let Entry::Text(mounts) = &files[MOUNTS] else { panic!("{:?}", files[MOUNTS]) };
        assert!(mounts.ends_with(b"share '/program/my venv'\n"));
        let task = Entry::Text(b"/usr/bin/vulkaninfo 'a b'\n".into());
        assert_eq!(files["program/bellhop/task"], task);
    }

    #[test]
    fn a_loader_is_added_where_there_is_none() {
        let path = "driver/usr/lib/x86_64-linux-gnu/libvulkan.so.1";
        let of = |loader| files(&Program { loader, ..program() }, Path::new("/busybox")).unwrap();
        assert!(!of(None).contains_key(path));
        assert_eq!(of(Some("/l/1".into()))[path], Entry::Program("/l/1".into()));
    }

    #[test]
    fn the_service_starts_the_shell_with_the_task_in_the_root() {
        let line = format!("ExecStart=/{SHELL} sh /{TASK}\n");
        assert!(SERVICE.contains(&line) && SERVICE.contains(&format!("RootDirectory=/{ROOT}\n")));
    }
}
