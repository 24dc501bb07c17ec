// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop trace`: records engines and queues of a running `bellhopd` into a file for Perfetto.

mod names;
mod perfetto;
mod timeline;

use crate::hosted::{self, Outcome, start_guest};
use crate::inspect::ControlClient;
use anyhow::{Context, bail};
use bellhop_guest::files::NewFile;
use bellhop_guest::inspect::Source;
use bellhop_processes::daemon::{self, Daemon, Options};
use bellhop_processes::process::{Signals, block_on, end};
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::snapshot::{ListRequest, Name, SNAPSHOT_VERSION};
use bellhop_protocol::trace::{TraceReply, TraceRequest};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{BufWriter, IntoInnerError, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use timeline::Timeline;

/// How often records are fetched.
const INTERVAL: Duration = Duration::from_millis(2);
/// How long a daemon that was just started may take to serve its control socket.
const START: Duration = Duration::from_secs(10);

/// The subject of a trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct What {
    /// The adapter, by its number.
    pub adapter: u32,
    /// MiB of each engine's trace log; 0 for the daemon's default.
    pub buffer_mib: u32,
}

/// The summary of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Events that were recorded.
    pub events: u64,
    /// Events that were lost; the file also shows where.
    pub lost: u64,
    /// The recorded time.
    pub seconds: f64,
}

/// A trace in progress. The daemon stops recording when this is dropped.
pub struct Trace<W> {
    client: ControlClient,
    what: What,
    begun: Instant,
    timeline: Timeline<W>,
}

impl<W: Write> Trace<W> {
    /// Begins to record an adapter of the daemon that has this control socket. Records are written as they are
    /// fetched.
    ///
    /// # Errors
    /// When no daemon serves the socket, another tool traces, there is no such adapter, or the file cannot be written.
    pub fn begin(socket: &Path, what: What, output: W) -> anyhow::Result<Self> {
        let mut client = ControlClient::connect(socket)?;
        let request = ListRequest {
            version: SNAPSHOT_VERSION,
            list: ObjectList::NODES.0,
            adapter: what.adapter,
            guest: 0,
            process: 0,
            parent: Name(0),
            after: Name(0),
        };
        let (_, nodes) = client.list(&request)?.context("there is no such adapter")?;
        let timeline = Timeline::begin(&nodes, output).context(CANNOT_WRITE)?;
        let mut trace = Self { client, what, begun: Instant::now(), timeline };
        trace.fetch()?;
        Ok(trace)
    }

    fn ask(&mut self, trace: bool) -> anyhow::Result<bool> {
        let What { adapter, buffer_mib } = self.what;
        let request = TraceRequest { version: SNAPSHOT_VERSION, adapter, trace, buffer_mib };
        match self.client.trace(&request)? {
            TraceReply::Records { records, more } => {
                for record in records {
                    self.timeline.add(record).context(CANNOT_WRITE)?;
                }
                Ok(more)
            }
            TraceReply::Error(why) => bail!("the daemon refuses: {why}"),
        }
    }

    /// Fetches the records since the last call.
    ///
    /// # Errors
    /// When the daemon does not answer, or nothing can be written.
    pub fn fetch(&mut self) -> anyhow::Result<()> {
        while self.ask(true)? {}
        Ok(())
    }

    /// Fetches the rest and ends the recording. Returns the summary and the output.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub fn end(mut self) -> anyhow::Result<(Summary, W)> {
        self.fetch()?;
        self.ask(false)?;
        let Timeline { events, lost, .. } = self.timeline;
        let seconds = self.begun.elapsed().as_secs_f64();
        let output = self.timeline.end().context(CANNOT_WRITE)?;
        Ok((Summary { events, lost, seconds }, output))
    }

    /// Fetches repeatedly; returns only when that fails.
    async fn follow(&mut self) -> anyhow::Error {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.fetch() {
                return error;
            }
        }
    }
}

const CANNOT_WRITE: &str = "cannot write the trace; name a file with room for it with --output";

/// Creates the file before anything runs. It appears at its path when the trace is complete.
fn create(path: &Path) -> anyhow::Result<BufWriter<NewFile>> {
    NewFile::create(path).map(BufWriter::new)
}

/// Ends a trace into a file.
fn end_file(trace: Trace<BufWriter<NewFile>>) -> anyhow::Result<Summary> {
    let (summary, file) = trace.end()?;
    finish(file)?;
    Ok(summary)
}

fn finish(file: BufWriter<NewFile>) -> anyhow::Result<()> {
    let file = file.into_inner().map_err(IntoInnerError::into_error).context(CANNOT_WRITE)?;
    file.finish()
}

/// The error of a recording that ended early. Unless the file could not be written, it is kept, with the records
/// until then.
fn broken_off(trace: Trace<BufWriter<NewFile>>, error: anyhow::Error) -> anyhow::Error {
    if error.downcast_ref() == Some(&CANNOT_WRITE) {
        return error;
    }
    let kept = trace.timeline.end().context(CANNOT_WRITE).and_then(finish);
    match kept {
        Ok(()) => {
            error.context("the trace ends early; what was recorded until then is in its file")
        }
        Err(also) => error.context(also),
    }
}

/// Records a daemon into a file, until Ctrl-C or the end of the time.
///
/// # Errors
/// When the daemon cannot be traced or ends, or the file cannot be written.
pub fn record(
    socket: &Path,
    what: What,
    limit: Option<Duration>,
    output: &Path,
) -> anyhow::Result<Summary> {
    block_on(async {
        let mut signals = Signals::new()?;
        let mut trace = Trace::begin(socket, what, create(output)?)?;
        tokio::select! {
            error = trace.follow() => return Err(broken_off(trace, error)),
            () = signals.received() => {}
            () = tokio::time::sleep(limit.unwrap_or(Duration::MAX)) => {}
        }
        end_file(trace)
    })
}

/// Starts a daemon and a guest, and records them into a file.
///
/// # Errors
/// When one of them cannot be started, the daemon ends before the guest, or the file cannot be written.
pub fn record_run(
    work: &[OsString],
    what: What,
    output: &Path,
) -> anyhow::Result<(Outcome, Summary)> {
    let folder = daemon::folder()?;
    let (path, control) = (folder.path().join("gpu.sock"), folder.path().join("control.sock"));
    block_on(async {
        let mut signals = Signals::new()?;
        let file = create(output)?;
        let daemon =
            Daemon::start(&[&path], Options { control: Some(&control), ..Options::default() })?;
        let mut trace = begin_soon(&control, what, file).await?;
        let mut guest = start_guest(&path, work)?;
        let outcome = tokio::select! {
            status = guest.wait() => hosted::outcome(status?),
            error = trace.follow() => return Err(broken_off(trace, error)),
            () = signals.received() => Outcome::Interrupted,
        };
        end(guest).await?;
        let summary = end_file(trace)?;
        daemon.end().await?;
        Ok((outcome, summary))
    })
}

/// Begins once a daemon that was just started serves its control socket.
async fn begin_soon<W: Write>(control: &Path, what: What, output: W) -> anyhow::Result<Trace<W>> {
    let begun = async {
        // The kernel makes the file a moment before the daemon listens, so only a connection tells.
        while UnixStream::connect(control).is_err() {
            tokio::time::sleep(INTERVAL).await;
        }
        Trace::begin(control, what, output)
    };
    tokio::time::timeout(START, begun).await.context("bellhopd did not start in time")?
}
