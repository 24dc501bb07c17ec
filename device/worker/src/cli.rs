// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `bellhop-worker`, which other programs of Bellhop start.

use crate::bench;
use crate::probe::Listed;
use crate::security;
use crate::self_test;
use crate::serve;
use crate::serve::sandbox::{self, Confined};
use crate::vulkan::{Instance, VulkanError};
use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

/// Runs kernels with Vulkan, for other programs of Bellhop.
#[derive(Debug, Parser)]
#[command(name = "bellhop-worker", version)]
struct Arguments {
    /// The Vulkan loader's library
    #[arg(long, value_name = "LIBRARY", default_value = "libvulkan.so.1", global = true)]
    loader: OsString,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print this machine's Vulkan devices as JSON
    List,
    /// Test a device for what kernels rely on, and print each step as a line of JSON
    Test {
        /// The device's index in the list
        device: usize,
    },
    /// Measure a device in this process, and print the figures as JSON
    #[command(hide = true)]
    NativeBench {
        /// The device's index in the list
        device: usize,
    },
    /// Run kernels for the owner at the other end of standard input
    Serve,
    /// Keep the keys of a security node, for the owner at the other end of standard input
    #[command(hide = true)]
    Secure,
    /// Enter the sandbox and try to escape; fails if any way out works
    TrySandbox {
        /// Whose sandbox
        #[arg(value_enum, default_value_t = Confined::Kernels)]
        of: Confined,
    },
}

/// Runs `bellhop-worker`.
#[must_use]
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match run(&Arguments::parse_from(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(stderr(), "bellhop-worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { loader, task }: &Arguments) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot arrange to end with the parent process")?;
    match task {
        Task::List => print(&list(loader)?),
        Task::Test { device } => {
            let instance = Instance::load(loader)?;
            let devices = instance.devices()?;
            let physical = devices.get(*device).context("there is no such device")?;
            let mut failed = None;
            self_test::run(*physical, |progress| {
                failed = failed.take().or_else(|| print(&progress).err());
            });
            failed.map_or(Ok(()), Err)
        }
        Task::NativeBench { device } => print(&bench::native(loader, *device)?),
        Task::Serve => serve::serve(loader),
        Task::Secure => security::serve(),
        Task::TrySandbox { of } => {
            let left = sandbox::try_to_leave(*of)?;
            ensure!(left.is_empty(), "the sandbox does not refuse to {}", left.join(", "));
            Ok(())
        }
    }
}

fn list(loader: &OsString) -> anyhow::Result<Listed> {
    let instance = match Instance::load(loader) {
        Ok(instance) => instance,
        Err(error @ (VulkanError::NoLoader(_) | VulkanError::NoDriver)) => {
            return Ok(Listed::None(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    match instance.devices() {
        Ok(devices) => Ok(Listed::Devices(devices.iter().map(|d| d.description()).collect())),
        Err(error @ VulkanError::NoDriver) => Ok(Listed::None(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Prints a line and flushes it: a driver may end this process at any time.
fn print(line: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    let mut out = stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).context("cannot write to standard output")
}
