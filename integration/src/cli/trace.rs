// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop trace`.

use crate::hosted::Outcome;
use crate::inspect::CONTROL_SOCKET;
use crate::trace::{self, Summary, What};
use bellhop_guest::output::note;
use bellhop_protocol::trace::{DEFAULT_TRACE_BUFFER_MIB, MAX_TRACE_BUFFER_MIB};
use clap::Args;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The exit status of a trace that lacks events.
const INCOMPLETE: u8 = 3;

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  bellhop trace -o run.pftrace -- run                 the main job, from its first submission to its last
  bellhop trace -o test.pftrace -- selftest fence     what the conformance suite does with fences
  sudo bellhop trace -o now.pftrace --seconds 5       five seconds of the service's guests
Open the file at https://ui.perfetto.dev, which reads it in your browser and uploads nothing.

Exits with 3 if events were lost, unless --allow-loss is given.")]
pub(super) struct TraceArguments {
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// The control socket of the bellhopd
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    socket: PathBuf,
    /// The number of the adapter to record
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    adapter: u32,
    /// End after this time; without it, record until Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u32>,
    /// Buffer for events of each engine until they are recorded; 1 MiB holds about 21,000 events
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = DEFAULT_TRACE_BUFFER_MIB,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TRACE_BUFFER_MIB))
    )]
    buffer: u32,
    /// Exit with 0 even if events were lost
    #[arg(long)]
    allow_loss: bool,
    /// Print how many events were recorded, and how many were lost, as JSON
    #[arg(long)]
    json: bool,
    /// Start a bellhopd and a guest that runs this command, and trace both until it ends
    #[arg(last = true, value_name = "GUEST-COMMAND", conflicts_with_all = ["socket", "adapter", "seconds"])]
    task: Vec<OsString>,
}

impl TraceArguments {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let what = What { adapter: self.adapter, buffer_mib: self.buffer };
        if !self.task.is_empty() {
            let (outcome, summary) = trace::record_run(&self.task, what, &self.output)?;
            let code = self.report(summary)?;
            let has_succeeded = matches!(outcome, Outcome::Succeeded);
            return Ok(if has_succeeded { code.into() } else { outcome.exit_code() });
        }
        let limit = self.seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let summary = trace::record(&self.socket, what, limit, &self.output)?;
        self.report(summary).map(ExitCode::from)
    }

    /// Prints the summary, with advice if events were lost. Returns the exit status.
    fn report(&self, summary: Summary) -> anyhow::Result<u8> {
        if self.json {
            writeln!(stdout(), "{}", serde_json::to_string(&summary)?)?;
        }
        let Summary { events, lost, .. } = summary;
        if lost == 0 {
            return Ok(0);
        }
        note(format_args!(
            "bellhop: {lost} of {} events were lost; {} marks where they are missing; to lose fewer, give \
             more memory than --buffer {}, or record a shorter time or fewer guests",
            events.saturating_add(lost),
            self.output.display(),
            self.buffer
        ));
        Ok(if self.allow_loss { 0 } else { INCOMPLETE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_lacks_events_fails_unless_that_is_allowed() {
        let status = |allow_loss, lost| {
            let arguments = TraceArguments {
                output: "trace".into(),
                socket: CONTROL_SOCKET.into(),
                adapter: 0,
                seconds: None,
                buffer: 16,
                allow_loss,
                json: false,
                task: Vec::new(),
            };
            arguments.report(Summary { events: 5, lost, seconds: 1.0 }).unwrap()
        };
        assert_eq!([(false, 0), (false, 1), (true, 1)].map(|(a, l)| status(a, l)), [0, 3, 0]);
    }
}
