//! `bellhop trace`.

use crate::inspect::CONTROL_SOCKET;
use crate::trace;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  bellhop trace -o run.pftrace -- run                 the main job, from its first submission to its last
  bellhop trace -o test.pftrace -- selftest fence     what the conformance suite does with fences
  sudo bellhop trace -o now.pftrace --seconds 5       five seconds of the service's guests
Open the file at https://ui.perfetto.dev, which sends it nowhere.")]
pub(super) struct TraceArguments {
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// The control socket of the bellhopd
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    socket: PathBuf,
    /// Which of its adapters
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    adapter: u32,
    /// End after so long, and not only with Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u32>,
    /// Start a bellhopd, and a guest that does this; trace both until it is done
    #[arg(last = true, value_name = "GUEST-COMMAND", conflicts_with_all = ["socket", "adapter", "seconds"])]
    task: Vec<OsString>,
}

impl TraceArguments {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if !self.task.is_empty() {
            return trace::record_run(&self.task, &self.output).map(super::exit_code);
        }
        let limit = self.seconds.map(|seconds| Duration::from_secs(seconds.into()));
        trace::record(&self.socket, self.adapter, limit, &self.output)?;
        Ok(ExitCode::SUCCESS)
    }
}
