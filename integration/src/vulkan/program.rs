// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program of the guest's, with the driver and nothing else for its Vulkan.

use super::driver;
use super::validation::Validation;
use crate::hosted::{self, Outcome};
use anyhow::Context;
use bellhop_guest_umd::transport::find::{BROKER_VARIABLE, SOCKET_VARIABLE};
use bellhop_processes::daemon::{self, Options};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable with which the driver says why there is no device, and why one was lost.
pub const DEBUG: &str = "BELLHOP_VULKAN_DEBUG";

/// Where the program's GPU is.
#[derive(Debug, Clone, Copy)]
pub enum Host<'a> {
    /// A daemon listens here already.
    At(&'a Path),
    /// A daemon is started with these options.
    Start(Options<'a>),
}

/// A program, and what it finds its Vulkan by.
#[derive(Debug)]
pub struct Program {
    /// What is run.
    pub command: Command,
    /// The driver.
    pub driver: PathBuf,
    /// The folder with a loader, where the machine has none.
    pub loader: Option<PathBuf>,
    /// What looks at what the program does.
    pub validation: Option<Validation>,
}

impl Program {
    /// Runs it, and waits for it. All that was started has ended when this returns. A program in which validation finds an error has
    /// failed.
    ///
    /// # Errors
    /// When it or a daemon cannot be started, or the daemon ends first.
    pub fn run(mut self, host: Host<'_>) -> anyhow::Result<Outcome> {
        let validation = self.validation.take();
        if let Some(validation) = &validation {
            self.command.envs(validation.variables());
        }
        let outcome = self.run_alone(host)?;
        validation.map_or(Ok(outcome), |validation| validation.judge(outcome))
    }

    fn run_alone(self, host: Host<'_>) -> anyhow::Result<Outcome> {
        let folder = daemon::folder()?;
        let manifest = driver::write_manifest(&self.driver, folder.path())?;
        match host {
            Host::At(socket) => {
                // The program may be in another folder.
                let socket = std::path::absolute(socket)
                    .with_context(|| format!("cannot use {}", socket.display()))?;
                hosted::alone(self.with(&manifest, &socket))
            }
            Host::Start(options) => {
                hosted::beside(options, None, |socket| Ok(self.with(&manifest, socket)))
            }
        }
    }

    /// The command, with the variables that it finds its GPU and its Vulkan by.
    fn with(self, manifest: &Path, socket: &Path) -> tokio::process::Command {
        let Self { mut command, loader, .. } = self;
        name_gpu(&mut command, manifest, socket);
        if let Some(loader) = loader {
            command.env("LD_LIBRARY_PATH", before(loader, std::env::var_os("LD_LIBRARY_PATH")));
        }
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true);
        command
    }
}

/// Sets the variables by which a program finds the GPU at a socket, and its driver.
pub fn name_gpu(command: &mut Command, manifest: &Path, socket: &Path) {
    // A broker's variable would count for more.
    command.env_remove(BROKER_VARIABLE).env(SOCKET_VARIABLE, socket);
    // The second name is that of loaders before 1.3.207.
    command.env("VK_DRIVER_FILES", manifest).env("VK_ICD_FILENAMES", manifest);
    // People want to know why there is no device, or why one was lost.
    if std::env::var_os(DEBUG).is_none() {
        command.env(DEBUG, "1");
    }
}

/// A list of folders that begins with this one.
fn before(folder: PathBuf, others: Option<OsString>) -> OsString {
    let mut list = folder.into_os_string();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_s_folder_comes_before_those_that_the_user_named() {
        let list = |others: Option<&str>| before("/one".into(), others.map(Into::into));
        assert_eq!(
            [list(None), list(Some("")), list(Some("/a:/b"))],
            ["/one", "/one", "/one:/a:/b"]
        );
    }

    #[test]
    fn a_program_has_the_driver_and_the_socket_and_no_broker() {
        let program = Program {
            command: Command::new("program"),
            driver: "/driver.so".into(),
            loader: None,
            validation: None,
        };
        let command = program.with(Path::new("/m.json"), Path::new("/gpu.sock"));
        let variables: Vec<_> = command.as_std().get_envs().collect();
        let expected = [
            ("BELLHOP_BROKER", None),
            ("BELLHOP_SOCKET", Some("/gpu.sock")),
            ("BELLHOP_VULKAN_DEBUG", Some("1")),
            ("VK_DRIVER_FILES", Some("/m.json")),
            ("VK_ICD_FILENAMES", Some("/m.json")),
        ];
        let expected = expected.map(|(name, value)| (name.as_ref(), value.map(AsRef::as_ref)));
        assert_eq!(variables, expected);
    }
}
