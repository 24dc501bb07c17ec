// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop link`.

use super::{HostArguments, hosted, with};
use crate::link;
use bellhop_guest::cli::HostsPart;
use bellhop_processes::daemon::Options;
use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;

/// The configuration with a chain that a bellhopd gets where none is given.
const CHAIN: &str = "[adapters.second]\n[link.pair]\nadapters = [\"\", \"second\"]\n";

#[derive(Debug, Clone, Args)]
pub(super) struct LinkArguments {
    #[command(flatten)]
    link: bellhop_guest::cli::LinkArguments,
    #[command(flatten)]
    host: HostArguments,
}

impl LinkArguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When daemon or guest cannot be started, or the daemon does not do its part.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let Self { mut link, host } = self;
        // Only who starts a daemon is its operator.
        let part = if host.socket_path.is_none() { link.with_cues() } else { HostsPart::Nothing };
        let work = link.to_command_line();
        with(&host, CHAIN, |host| match part {
            HostsPart::Nothing => hosted(host, None, work),
            HostsPart::Operator(gpu) => detach(host, gpu, work),
        })
    }
}

fn detach(host: &HostArguments, gpu: u8, work: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let worker = host.vulkan.worker(None)?;
    let options = Options { config: host.config.as_deref(), worker: &worker, ..Options::default() };
    let work = [host.place.to_command_line(), work].concat();
    link::detach(options, gpu, &work).map(crate::hosted::Outcome::exit_code)
}
