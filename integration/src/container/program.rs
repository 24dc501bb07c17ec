// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program in a container, with the Vulkan driver and the files that it is to have.

use super::Contents;
use super::engine::{self, Engine};
use super::guest::mount;
use crate::vulkan::driver;
use crate::vulkan::program::DEBUG;
use anyhow::Context;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The image whose files are all those that programs have from the host: links, where Debian has folders in `/usr`.
const NAME: &str = "localhost/bellhop-program";
/// Its Containerfile.
const CONTAINERFILE: &str = "FROM scratch\nCOPY . /\n";
const LINKS: [(&str, &str); 4] =
    [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"), ("sbin", "usr/sbin")];
/// The user nobody.
const NOBODY: &str = "65534:65534";
/// The folders of a machine that its programs need, beside those that the user names.
pub const OF_THIS_MACHINE: [&str; 3] = ["/usr", "/etc/alternatives", "/etc/ssl"];
/// Where the driver, its manifest and a Vulkan loader are in the container.
const DRIVER: &str = "/bellhop/libvulkan_bellhop.so";
const MANIFEST: &str = "/bellhop/vulkan_bellhop.json";
const LOADER: &str = "/bellhop/loader";

/// The files that a program finds in its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// Those of an image, which podman has or fetches.
    Image(String),
    /// Those of unpacked packages, in this folder.
    Packages(PathBuf),
    /// This machine's system.
    ThisMachine,
}

impl Root {
    /// What the image is made of.
    pub fn contents(&self) -> Contents<'static> {
        match self {
            Self::Image(_) => Contents::Made,
            Self::Packages(_) | Self::ThisMachine => Contents::Links,
        }
    }
}

/// A program in a container.
#[derive(Debug)]
pub struct Program {
    /// The files that it finds.
    pub root: Root,
    /// The driver.
    pub driver: PathBuf,
    /// The driver's manifest for the container.
    pub manifest: PathBuf,
    /// The folder with a Vulkan loader, where the root has none.
    pub loader: Option<PathBuf>,
    /// Folders of the host's that it finds at the same paths.
    pub folders: Vec<PathBuf>,
    /// Variables that it has, beside those for the driver.
    pub variables: Vec<(&'static str, OsString)>,
    /// The program and its arguments.
    pub words: Vec<OsString>,
}

impl Program {
    /// Writes the driver's manifest for the container into a folder. Returns its path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_manifest(folder: &Path) -> anyhow::Result<PathBuf> {
        driver::write_manifest(Path::new(DRIVER), folder)
    }

    /// The arguments of `podman run` from the program's files on.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let Self { root, driver, manifest, loader, folders, variables, words } = self;
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |source: &Path, place: &Path| arguments.extend(mount(source, place));
        match root {
            Root::Image(_) => {}
            Root::Packages(folder) => add(&folder.join("usr"), Path::new("/usr")),
            Root::ThisMachine => {
                let system = OF_THIS_MACHINE.map(Path::new);
                system.into_iter().filter(|folder| folder.is_dir()).for_each(|f| add(f, f));
            }
        }
        folders.iter().for_each(|folder| add(folder, folder));
        add(driver, Path::new(DRIVER));
        add(manifest, Path::new(MANIFEST));
        if let Some(loader) = loader {
            add(loader, Path::new(LOADER));
        }
        let mut set = |name: &str, value: &OsStr| {
            let mut variable = OsString::from(name);
            variable.push("=");
            variable.push(value);
            arguments.extend(["--env".into(), variable]);
        };
        set("VK_DRIVER_FILES", MANIFEST.as_ref());
        set("VK_ICD_FILENAMES", MANIFEST.as_ref());
        set(DEBUG, "1".as_ref());
        // Nobody has a home.
        set("HOME", "/tmp".as_ref());
        if loader.is_some() {
            set("LD_LIBRARY_PATH", LOADER.as_ref());
        }
        variables.iter().for_each(|(name, value)| set(name, value));
        // Many programs want a place for files, and nothing else of theirs can be written.
        arguments.extend(["--tmpfs".into(), "/tmp:rw,size=256m,mode=1777".into()]);
        arguments.extend(["--user".into(), NOBODY.into()]);
        let (pull, image) = match root {
            Root::Image(image) => ("missing", image.as_str()),
            Root::Packages(_) | Root::ThisMachine => ("never", NAME),
        };
        arguments.extend(["--pull".into(), pull.into(), image.into()]);
        arguments.extend_from_slice(words);
        arguments
    }
}

/// Builds the image of links, without a network.
///
/// # Errors
/// When `folder` cannot be written, or podman fails.
pub(super) async fn build(engine: &Engine, folder: &Path) -> anyhow::Result<()> {
    let context = folder.join("program");
    let containerfile = folder.join("Containerfile.program");
    let write = || {
        fs::create_dir(&context)?;
        LINKS.iter().try_for_each(|(link, to)| symlink(to, context.join(link)))?;
        fs::write(&containerfile, CONTAINERFILE)
    };
    write().with_context(|| format!("cannot write {}", context.display()))?;
    let mut podman = engine.command();
    podman.args(["build", "--quiet", "--network", "none", "--layers=false", "--tag", NAME]);
    podman.arg("--file").arg(&containerfile).arg(&context);
    engine::output(&mut podman).await.context("cannot build the image").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(root: Root, loader: Option<&str>) -> String {
        let program = Program {
            root,
            driver: "/d/driver.so".into(),
            manifest: "/d/m.json".into(),
            loader: loader.map(Into::into),
            folders: vec!["/my/venv".into()],
            variables: vec![("VK_LAYER_PATH", "/my/layer".into())],
            words: vec!["python3".into(), "-c".into()],
        };
        let words = program.arguments();
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_program_has_the_driver_its_folders_and_no_other_user() {
        let line = line(Root::Image("debian:13".into()), None);
        for part in [
            "source=/d/driver.so,destination=/bellhop/libvulkan_bellhop.so,ro",
            "source=/my/venv,destination=/my/venv,ro",
            "--env VK_DRIVER_FILES=/bellhop/vulkan_bellhop.json",
            "--env VK_LAYER_PATH=/my/layer",
            "--user 65534:65534",
        ] {
            assert!(line.contains(part), "{line} lacks {part}");
        }
        assert!(!line.contains("destination=/usr") && !line.contains("LD_LIBRARY_PATH"), "{line}");
        assert!(line.ends_with("--pull missing debian:13 python3 -c"), "{line}");
    }

    #[test]
    fn the_system_of_a_program_without_an_image_is_this_machine_s_or_that_of_packages() {
        let of = |root| line(root, Some("/cache/loader"));
        let here = of(Root::ThisMachine);
        assert!(here.contains("source=/usr,destination=/usr,ro"), "{here}");
        assert!(here.contains("LD_LIBRARY_PATH=/bellhop/loader"), "{here}");
        let packages = of(Root::Packages("/cache/tools".into()));
        assert!(packages.contains("source=/cache/tools/usr,destination=/usr,ro"), "{packages}");
        assert!(packages.ends_with("--pull never localhost/bellhop-program python3 -c"));
    }
}
