// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of `bellhop vm` for a program of others', which uses the GPU through Vulkan.

use crate::cli::vulkan::{Whose, loader};
use crate::container::OF_THIS_MACHINE;
use crate::vulkan::driver;
use anyhow::{Context, bail, ensure};
use bellhop_vm::{Packaged, Program, Sources, fetch_vulkan_programs};
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The releases of Debian whose packages a VM can have.
const RELEASES: [&str; 1] = ["13"];
/// Where a program of this machine's is looked for by its name.
const PROGRAMS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/usr/sbin"];

/// The options.
#[derive(Debug, Clone, Args)]
pub(super) struct ProgramArguments {
    /// Run a program with Bellhop's Vulkan driver instead of bellhop-guest, as a user without privileges who shares the GPU with others
    ///
    /// Boots systemd, and by it the guest's broker. The program finds this machine's /usr, and the folders that --folder names, to read
    /// from, or what --install says. It may write to /tmp.
    #[arg(long, requires = "task")]
    vulkan_driver: bool,
    /// Run a program with the Vulkan driver and this package of Debian's, with all that it depends on; may be given several times
    ///
    /// Packages are fetched once, and unpacked, not installed. The program finds nothing of this machine's but what --folder names.
    #[arg(long, value_name = "NAME", requires = "task")]
    install: Vec<String>,
    /// The release of Debian that --install takes packages of
    #[arg(long, value_name = "RELEASE", value_parser = RELEASES, default_value = RELEASES[0], requires = "install")]
    debian: String,
    /// Give the program this folder, at the same path, to read from; may be given several times
    #[arg(long, value_name = "PATH", requires = "others")]
    folder: Vec<PathBuf>,
    /// The Vulkan driver for the program, instead of the one that belongs to this bellhop
    #[arg(long, value_name = "FILE", env = "BELLHOP_VULKAN_DRIVER")]
    driver: Option<PathBuf>,
}

impl ProgramArguments {
    /// Whether the command is a program of others'.
    pub(super) fn are_given(&self) -> bool {
        self.vulkan_driver || !self.install.is_empty()
    }

    /// The program of this command line, with what it needs.
    ///
    /// # Errors
    /// When something that it needs is neither here nor can be fetched, or the guest would not find the program.
    pub(super) fn program(
        &self,
        words: &[OsString],
        whose: Whose,
        sources: &Sources,
    ) -> anyhow::Result<Program> {
        let [name, arguments @ ..] = words else { bail!("name a program after --") };
        let mut folders: Vec<_> =
            self.folder.iter().map(|folder| shared(folder)).collect::<Result<_, _>>()?;
        let driver = driver::find(self.driver.as_deref())?;
        let packages = match &self.install[..] {
            [] => None,
            packages => Some(fetch_vulkan_programs(packages, sources)?),
        };
        let mut of_machine = None;
        if packages.is_none() {
            of_machine = loader(whose)?.map(|folder| folder.join(driver::LOADER));
            folders.extend(OF_THIS_MACHINE[1..].iter().map(PathBuf::from).filter(|f| f.is_dir()));
        }
        let path = find(name, &folders, packages.as_ref())?;
        Ok(Program {
            usr: packages.map_or_else(|| "/usr".into(), |packages| packages.root().join("usr")),
            folders,
            driver,
            loader: of_machine,
            words: [&[path.into_os_string()], arguments].concat(),
        })
    }
}

/// The whole path of a folder that a guest may read.
fn shared(folder: &Path) -> anyhow::Result<PathBuf> {
    let path = absolute(folder)?;
    ensure!(path.is_dir(), "there is no folder at {}", path.display());
    ensure!(
        path.parent().is_some(),
        "--folder / would hide what a guest has itself; name what the program needs"
    );
    Ok(path)
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}

/// The path in the guest of a program, which is given by its path or by its name.
///
/// # Errors
/// When the guest would not find it.
fn find(
    program: &OsStr,
    folders: &[PathBuf],
    packages: Option<&Packaged>,
) -> anyhow::Result<PathBuf> {
    let is_name = Path::new(program).file_name() == Some(program);
    match packages {
        Some(packages) if is_name => {
            let path = packages.program(program)?;
            Ok(Path::new("/").join(path.strip_prefix(packages.root())?))
        }
        None if is_name => {
            let paths = PROGRAMS.map(|folder| Path::new(folder).join(program));
            paths.into_iter().find(|path| path.is_file()).with_context(|| {
                format!(
                    "this machine has no {} in {}; give its path, and --folder with what it needs",
                    program.display(),
                    PROGRAMS.join(", ")
                )
            })
        }
        _ => {
            let path = absolute(Path::new(program))?;
            // A guest has a link there, as Debian has.
            let path = path
                .strip_prefix("/bin")
                .map(|rest| Path::new("/usr/bin").join(rest))
                .unwrap_or(path);
            let is_shared = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
            let mut needed = vec![path.clone()];
            if is_shared(&path) {
                // The Python of an environment is elsewhere.
                needed.extend(path.canonicalize());
            }
            for path in needed {
                let there = match (path.strip_prefix("/usr"), packages) {
                    _ if is_shared(&path) => path.clone(),
                    (Ok(rest), Some(packages)) => packages.root().join("usr").join(rest),
                    (Ok(_), None) => path.clone(),
                    (Err(_), _) => bail!(
                        "{} is in no folder that the guest has; add --folder {}",
                        path.display(),
                        folder_of(&path).display()
                    ),
                };
                ensure!(there.is_file(), "there is no program {} for the guest", path.display());
            }
            Ok(path)
        }
    }
}

/// The folder that a program is likely to need: of one in `bin`, what is beside that.
fn folder_of(program: &Path) -> &Path {
    let folder = program.parent().unwrap_or(program);
    match (folder.file_name(), folder.parent()) {
        (Some(name), Some(parent)) if name == "bin" => parent,
        _ => folder,
    }
}
