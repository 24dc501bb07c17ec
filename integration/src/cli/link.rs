// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop link`.

use super::{HostArguments, hosted, with};
use crate::hosted::Outcome;
use crate::link::{self, Seen};
use bellhop_guest::cli::HostsPart;
use bellhop_guest::files::NewFile;
use bellhop_guest::output::{note, put};
use bellhop_processes::daemon::Options;
use clap::Args;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The configuration with a chain that a bellhopd gets where none is given. Each GPU has a monitor.
const CHAIN: &str = "\
[[adapter.displays]]
modes = [\"640x480@60\"]
[[adapters.second.displays]]
modes = [\"640x480@60\"]
[link.pair]
adapters = [\"\", \"second\"]
power = \"when_needed\"
";

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
            HostsPart::Operator(gpu) => {
                start(host, work, |options, work| link::detach(options, gpu, work))
            }
            HostsPart::Monitors { png, json } => start(host, work, |options, work| {
                // An unwritable file fails before there is work.
                let file = png.as_deref().filter(|path| *path != Path::new("-"));
                let file = file.map(NewFile::create).transpose()?;
                let (outcome, shown) = link::surface(options, work)?;
                let Some(Seen { report, parts }) = shown else { return Ok(outcome) };
                let text =
                    if json { serde_json::to_string(&report)? + "\n" } else { report.to_string() };
                if let Some(mut file) = file {
                    report.wall().write_png(&parts, &mut file)?;
                    file.finish()?;
                } else if png.is_some() {
                    report.wall().write_png(&parts, std::io::stdout().lock())?;
                    note(text.trim_end());
                    return Ok(outcome);
                }
                put(text)?;
                Ok(outcome)
            }),
        })
    }
}

/// Starts a daemon and a guest for this work.
fn start(
    host: &HostArguments,
    work: Vec<OsString>,
    act: impl FnOnce(Options<'_>, &[OsString]) -> anyhow::Result<Outcome>,
) -> anyhow::Result<ExitCode> {
    let worker = host.vulkan.worker(None)?;
    let options = Options { config: host.config.as_deref(), worker: &worker, ..Options::default() };
    act(options, &[host.place.to_command_line(), work].concat()).map(Outcome::exit_code)
}
