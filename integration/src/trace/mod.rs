//! `bellhop trace`: what engines and queues of a running `bellhopd` do, as a file for Perfetto.

mod perfetto;

use crate::daemon::{self, Daemon};
use crate::hosted::{self, Outcome, start_guest};
use crate::inspect::ControlClient;
use crate::process::{Signals, block_on, end};
use anyhow::{Context, bail};
use bellhop_guest::inspect::Source;
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::snapshot::{ListRequest, Name, Node, SNAPSHOT_VERSION};
use bellhop_protocol::trace::{Record, TraceReply, TraceRequest};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// How often records are fetched: a log of 84 entries is to be read before it is full.
const INTERVAL: Duration = Duration::from_millis(2);
/// How long a daemon that was just started may take to serve its control socket.
const START: Duration = Duration::from_secs(10);

/// A trace that is being recorded. The daemon records no more once this is dropped.
pub struct Trace {
    client: ControlClient,
    adapter: u32,
    nodes: Vec<Node>,
    records: Vec<Record>,
}

impl Trace {
    /// Begins to record an adapter of the daemon that has this control socket.
    ///
    /// # Errors
    /// When nobody serves it, somebody else traces, or there is no such adapter.
    pub fn begin(socket: &Path, adapter: u32) -> anyhow::Result<Self> {
        let mut client = ControlClient::connect(socket)?;
        let request = ListRequest {
            version: SNAPSHOT_VERSION,
            list: ObjectList::NODES.0,
            adapter,
            guest: 0,
            process: 0,
            parent: Name(0),
            after: Name(0),
        };
        let (_, nodes) = client.list(&request)?.context("there is no such adapter")?;
        let mut trace = Self { client, adapter, nodes, records: Vec::new() };
        trace.fetch()?;
        Ok(trace)
    }

    fn ask(&mut self, trace: bool) -> anyhow::Result<bool> {
        let request = TraceRequest { version: SNAPSHOT_VERSION, adapter: self.adapter, trace };
        match self.client.trace(&request)? {
            TraceReply::Records { records, more } => {
                self.records.extend(records);
                Ok(more)
            }
            TraceReply::Error(why) => bail!("the daemon refuses: {why}"),
        }
    }

    /// Fetches what was recorded since.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn fetch(&mut self) -> anyhow::Result<()> {
        while self.ask(true)? {}
        Ok(())
    }

    /// Fetches the rest and ends the recording. Returns it for Perfetto.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn end(mut self) -> anyhow::Result<Vec<u8>> {
        self.fetch()?;
        self.ask(false)?;
        Ok(perfetto::encode(&self.nodes, self.records))
    }

    /// Fetches again and again; returns only when the daemon does not answer.
    async fn follow(&mut self) -> anyhow::Error {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(error) = self.fetch() {
                return error;
            }
        }
    }
}

/// Records a daemon until somebody presses Ctrl-C or the time is over, and writes the file.
///
/// # Errors
/// When the daemon cannot be traced or ends, or the file cannot be written.
pub fn record(
    socket: &Path,
    adapter: u32,
    limit: Option<Duration>,
    output: &Path,
) -> anyhow::Result<()> {
    block_on(async {
        let mut signals = Signals::new()?;
        let mut trace = Trace::begin(socket, adapter)?;
        tokio::select! {
            error = trace.follow() => return Err(error),
            () = signals.received() => {}
            () = tokio::time::sleep(limit.unwrap_or(Duration::MAX)) => {}
        }
        write(output, &trace.end()?)
    })
}

/// Records what a guest does that is started with a daemon for it, and writes the file.
///
/// # Errors
/// When one of them cannot be started, the daemon ends before the guest, or the file cannot be written.
pub fn record_run(work: &[OsString], output: &Path) -> anyhow::Result<Outcome> {
    let folder = daemon::folder()?;
    let (path, control) = (folder.path().join("gpu.sock"), folder.path().join("control.sock"));
    block_on(async {
        let mut signals = Signals::new()?;
        let daemon = Daemon::start_with_control(&[&path], None, Some(&control))?;
        let mut trace = begin_soon(&control).await?;
        let mut guest = start_guest(&path, work)?;
        let outcome = tokio::select! {
            status = guest.wait() => hosted::outcome(status?),
            error = trace.follow() => return Err(error),
            () = signals.received() => Outcome::Interrupted,
        };
        end(guest).await?;
        let bytes = trace.end()?;
        daemon.end().await?;
        write(output, &bytes)?;
        Ok(outcome)
    })
}

/// Begins when a daemon that was just started serves its control socket.
async fn begin_soon(control: &Path) -> anyhow::Result<Trace> {
    let begun = async {
        // The daemon makes the file when it listens.
        while !control.exists() {
            tokio::time::sleep(INTERVAL).await;
        }
        Trace::begin(control, 0)
    };
    tokio::time::timeout(START, begun).await.context("bellhopd does not start")?
}

fn write(output: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(output, bytes).with_context(|| {
        format!("cannot write {}; name another file with --output", output.display())
    })
}
