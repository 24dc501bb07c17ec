// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop vulkan`, and the suite of behaviours that it runs.

use super::vulkan::{Whose, loader, sources, validation};
use crate::hosted::this_executable;
use crate::vulkan::program::{Host, Program};
use crate::vulkan::{driver, opengl};
use anyhow::bail;
use bellhop_processes::daemon::Options;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The hidden command that is the suite.
pub(super) const SUITE: &str = "vulkan-suite";

/// The arguments of `bellhop vulkan`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  bellhop vulkan --vulkan debian-13 --package vulkan-tools -- vulkaninfo --summary
                                           what the driver offers, as Debian's vulkaninfo says it
  bellhop vulkan --vulkan debian-13 --opengl --package mesa-utils -- glxgears
                                           a program of Debian's that draws with OpenGL
  bellhop vulkan --vulkan debian-13 -- python3 compute.py
                                           a program of this machine's
  bellhop vulkan --socket-path gpu.sock -- ./program
                                           a program beside a bellhopd that already runs
  bellhop vulkan --vulkan debian-13 --validate -- ./program
                                           what the program does that Vulkan does not allow
  bellhop vulkan --vulkan debian-13 --selftest
                                           the behaviours that programs may rely on
  bellhop vulkan --vulkan debian-13 --selftest -- fence. semaphore.
                                           those whose names contain one of these

Exits with the program's status; with 128 and the signal's number if one ended it.")]
pub(super) struct ProgramArguments {
    /// Use the bellhopd that listens on this socket instead of starting one
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket_path: Option<PathBuf>,
    /// The configuration file for the bellhopd that this starts
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Whose Vulkan executes what the program submits, in the bellhopd that this starts
    ///
    /// With debian-13, also fetches a Vulkan loader for the program if this machine has none.
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = Whose::System)]
    vulkan: Whose,
    /// The Vulkan driver for the program, instead of the one that belongs to this bellhop
    #[arg(long, value_name = "FILE", env = "BELLHOP_VULKAN_DRIVER")]
    driver: Option<PathBuf>,
    /// Run a program of this package of Debian 13's, fetched once and not installed; may be given several times
    #[arg(long, value_name = "NAME")]
    package: Vec<String>,
    /// Give the program of the packages OpenGL, too: Mesa's zink, fetched with them, which draws with the Vulkan driver
    #[arg(long, requires = "package")]
    opengl: bool,
    /// Have Khronos' validation layer look at what the program does, and at its synchronization
    ///
    /// It is fetched once and not installed. Its errors are printed at the end; with one, the exit status is at least 1.
    #[arg(long)]
    validate: bool,
    /// Try the behaviours that programs may rely on; words select some, and --list names them
    #[arg(long, conflicts_with = "package")]
    selftest: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "selftest")]
    program: Vec<OsString>,
}

impl ProgramArguments {
    /// Runs the program.
    ///
    /// # Errors
    /// When it or a daemon cannot be started, or something that they need is neither here nor can be fetched.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let driver = driver::find(self.driver.as_deref())?;
        let command = self.command()?;
        // Debian's program comes with the loader that it depends on.
        let loader = if !self.package.is_empty() { None } else { loader(self.vulkan)? };
        let validation = self.validate.then(validation).transpose()?;
        let program = Program { command, driver, loader, validation };
        let outcome = match &self.socket_path {
            Some(socket) => program.run(Host::At(socket)),
            None => {
                let worker = self.vulkan.worker(None)?;
                let config = self.config.as_deref();
                program.run(Host::Start(Options { config, worker: &worker, ..Options::default() }))
            }
        };
        outcome.map(|outcome| outcome.exit_code())
    }

    /// What is run.
    fn command(&self) -> anyhow::Result<Command> {
        if self.selftest {
            let this = this_executable()?;
            let mut command = Command::new(this);
            command.arg(SUITE).args(&self.program);
            return Ok(command);
        }
        let [program, arguments @ ..] = &self.program[..] else { bail!("name a program") };
        let mut command = match &self.package[..] {
            [] => Command::new(program),
            packages if self.opengl => {
                let packages = opengl::with_packages(packages);
                let packages = bellhop_vm::fetch_programs(&packages, &sources(None))?;
                let mut command = packages.command(program)?;
                command.envs(opengl::variables(&packages.root()));
                command
            }
            packages => bellhop_vm::fetch_programs(packages, &sources(None))?.command(program)?,
        };
        command.args(arguments);
        Ok(command)
    }
}

/// The arguments of the suite.
#[derive(Debug, Clone, Args)]
pub(super) struct SuiteArguments {
    /// Words in the names of behaviours to try, instead of all
    words: Vec<String>,
    /// Name the behaviours, and try none
    #[arg(long)]
    list: bool,
    /// The number of the physical device to try, in the order in which the loader lists them
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    device: usize,
}

impl SuiteArguments {
    /// Tries behaviours on this process's Vulkan. Exits with 1 if one fails.
    ///
    /// # Errors
    /// When there is no Vulkan device, or its report cannot be written.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        if self.list {
            bellhop_vulkan_suite::list(&self.words, &mut out)?;
            return Ok(ExitCode::SUCCESS);
        }
        let lab = crate::vulkan::lab(self.device)?;
        let tally = bellhop_vulkan_suite::run(&lab, &self.words, &mut out)?;
        Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
