// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whose Vulkan runs kernels: this machine's, or one that is fetched.

use crate::hosted::{WORKER, this_executable};
use crate::vulkan::driver;
use crate::vulkan::validation::{self, Validation};
use anyhow::ensure;
use bellhop_vm::{Mesa, Sources, Vulkan};
use bellhop_worker::probe::{PATIENCE, Search, probe};
use bellhop_worker::report::Report;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The devices that `bellhop probe` tests.
#[derive(Debug, Clone, Args)]
pub struct VulkanArguments {
    /// Test only the Vulkan devices with this in their names
    #[arg(long, value_name = "NAME")]
    vulkan_device: Option<String>,
    /// The Debian mirror, instead of the one that this machine's apt uses
    #[arg(long, value_name = "URL", env = MIRROR)]
    mirror: Option<String>,
}

/// Where a Vulkan comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Whose {
    /// This machine's own
    System,
    /// Debian 13's Mesa, fetched once (55 MB) and not installed
    #[value(name = "debian-13")]
    Debian13,
    /// Debian 12's Mesa, which computes wrongly, to see it refused
    #[value(name = "debian-12", hide = true)]
    Debian12,
}

impl Whose {
    /// Fetches this Vulkan; `None` for the machine's own.
    fn fetch(self, mirror: Option<String>) -> anyhow::Result<Option<Vulkan>> {
        let mesa = match self {
            Self::System => return Ok(None),
            Self::Debian13 => Mesa::Debian13,
            Self::Debian12 => Mesa::Debian12,
        };
        bellhop_vm::fetch_vulkan(mesa, &sources(mirror)).map(Some)
    }

    /// What to do where this Vulkan runs no kernels; `None` if there is nothing better.
    pub fn advice(self) -> Option<&'static str> {
        (self == Self::System).then_some("to fetch one for a run: --vulkan debian-13")
    }

    /// The words of the command line of a daemon's workers with this Vulkan; none for the machine's own.
    ///
    /// # Errors
    /// When the Vulkan cannot be fetched.
    pub fn worker(self, mirror: Option<String>) -> anyhow::Result<Vec<OsString>> {
        Ok(match self.fetch(mirror)? {
            Some(vulkan) => vulkan.words(&this_executable()?, WORKER),
            None => Vec::new(),
        })
    }
}

/// The variable with Debian's mirror.
const MIRROR: &str = "BELLHOP_MIRROR";

/// Where packages come from: this mirror, or the variable's.
pub(super) fn sources(mirror: Option<String>) -> Sources {
    let mirror = mirror.or_else(|| std::env::var(MIRROR).ok());
    Sources { mirror, ..Sources::default() }
}

/// The folder with a Vulkan loader for a program of this machine's, unless the machine has one.
///
/// # Errors
/// When there is none, and none is to be fetched or can be.
pub(super) fn loader(whose: Whose) -> anyhow::Result<Option<PathBuf>> {
    if driver::has_loader() {
        return Ok(None);
    }
    ensure!(
        whose != Whose::System,
        "this machine has no Vulkan loader (libvulkan.so.1) for the program; install it (Debian: libvulkan1), or have one \
         fetched with --vulkan debian-13"
    );
    bellhop_vm::fetch_vulkan_loader(&sources(None)).map(Some)
}

/// The validation layer, which is fetched.
///
/// # Errors
/// When it cannot be fetched or set up.
pub(super) fn validation() -> anyhow::Result<Validation> {
    let package = validation::PACKAGE;
    Validation::new(&bellhop_vm::fetch_library(package, package, &sources(None))?)
}

impl VulkanArguments {
    /// Tests the devices of a Vulkan.
    ///
    /// # Errors
    /// When the Vulkan cannot be fetched, or no worker can be started.
    pub fn report(&self, whose: Whose) -> anyhow::Result<Report> {
        let vulkan = whose.fetch(self.mirror.clone())?;
        let executable = this_executable()?;
        let start = || {
            let mut command = match &vulkan {
                Some(vulkan) => vulkan.command(&executable),
                None => Command::new(&executable),
            };
            command.args(WORKER);
            Ok(command)
        };
        let name = self.vulkan_device.as_deref();
        let mut report =
            probe(start, Search { name, gpus: true, first: false, patience: PATIENCE })?;
        if let Some(advice) = whose.advice() {
            report.missing = report.missing.map(|why| format!("{why}; {advice}"));
        }
        Ok(report)
    }
}
