// SPDX-License-Identifier: MIT OR Apache-2.0

//! Finds out for `bellhop probe` whether this machine can run kernels.

use anyhow::Context;
use bellhop_vm::{Mesa, Sources};
use bellhop_worker::probe::{PATIENCE, Search, probe};
use bellhop_worker::report::Report;
use clap::{Args, ValueEnum};
use std::process::Command;

/// The Vulkan to test.
#[derive(Debug, Clone, Args)]
pub struct VulkanArguments {
    /// Which Vulkan to test
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = Whose::System)]
    vulkan: Whose,
    /// Test only the Vulkan devices with this in their names
    #[arg(long, value_name = "NAME")]
    vulkan_device: Option<String>,
    /// The Debian mirror, instead of the one that this machine's apt uses
    #[arg(long, value_name = "URL", env = "BELLHOP_MIRROR")]
    mirror: Option<String>,
}

/// Where a Vulkan comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Whose {
    /// This machine's own
    System,
    /// Debian 13's Mesa, fetched once (55 MB) and not installed
    #[value(name = "debian-13")]
    Debian13,
    /// Debian 12's Mesa, which computes wrongly, to see it refused
    #[value(name = "debian-12", hide = true)]
    Debian12,
}

impl VulkanArguments {
    /// Tests this Vulkan's devices.
    ///
    /// # Errors
    /// When the Vulkan cannot be fetched, or no worker can be started.
    pub fn report(&self) -> anyhow::Result<Report> {
        let mesa = match self.vulkan {
            Whose::System => None,
            Whose::Debian13 => Some(Mesa::Debian13),
            Whose::Debian12 => Some(Mesa::Debian12),
        };
        let sources = Sources { mirror: self.mirror.clone(), ..Sources::default() };
        let vulkan = mesa.map(|mesa| bellhop_vm::fetch_vulkan(mesa, &sources)).transpose()?;
        let executable = std::env::current_exe().context("cannot find bellhop's own executable")?;
        let start = || {
            let mut command = match &vulkan {
                Some(vulkan) => vulkan.command(&executable),
                None => Command::new(&executable),
            };
            command.args(["worker", "--"]);
            Ok(command)
        };
        let name = self.vulkan_device.as_deref();
        let mut report = probe(start, Search { name, first: false, patience: PATIENCE })?;
        if self.vulkan == Whose::System {
            report.missing =
                report.missing.map(|why| format!("{why}. To try one first: --vulkan debian-13"));
        }
        Ok(report)
    }
}
