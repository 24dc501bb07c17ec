//! The control socket: where tools on this host ask what there is.
//!
//! A connection carries lines of JSON: a [`ListRequest`], then a [`ListReply`], as often as the
//! client likes. Clients are bounded in number, patience and size, and one page is the most that
//! any of them makes the daemon hold: so none of them, however it behaves, keeps the daemon from
//! its guests. Who may connect is whom the file's mode lets: the daemon's own user.

use super::socket::{self, ControlListener};
use anyhow::Context;
use bellhop_host_kmd::actor::KernelHandle;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{AdapterId, ListObjects, TraceAction, TracePage};
use bellhop_protocol::fence_log::FenceLogEntry;
use bellhop_protocol::snapshot::{
    ListReply, ListRequest, MAX_LIST_REPLY, MAX_LIST_REQUEST, Name, SNAPSHOT_VERSION,
};
use bellhop_protocol::trace::{
    DEFAULT_TRACE_BUFFER_MIB, MAX_TRACE_BUFFER_MIB, TraceReply, TraceRequest,
};
use serde::Serialize;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, warn};

/// Clients at once.
const MAX_CLIENTS: usize = 8;
/// How long a client may take to ask, and to take an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long no client is accepted after one could not be.
const RECOVERY: Duration = Duration::from_millis(100);

/// A control socket that listens.
pub struct ControlSocket(ControlListener);

impl ControlSocket {
    /// Listens at a path, for this process's user alone.
    ///
    /// # Errors
    /// When the path cannot be had; says what to do.
    pub fn listen(path: &Path) -> anyhow::Result<Self> {
        socket::listen_for_control(path).map(Self)
    }

    /// Serves clients until told to stop.
    pub(super) async fn serve(
        self,
        kernel: KernelHandle,
        mut stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        // Within the runtime, which `listen` need not be.
        let listener = self.0.listener.try_clone().and_then(UnixListener::from_std);
        let listener = listener.context("cannot watch the control socket")?;
        let mut clients = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) if clients.len() < MAX_CLIENTS => {
                        let kernel = kernel.clone();
                        clients.spawn(async move {
                            if let Err(error) = converse(stream, &kernel).await {
                                debug!(%error, "a client of the control socket was left");
                            }
                        });
                    }
                    Ok((stream, _)) => {
                        let full = format!("{MAX_CLIENTS} clients are served already; try again");
                        // It is empty, so that this fits, or the client has gone.
                        let _ = stream.try_write(&line(&ListReply::<()>::Error(full)));
                    }
                    Err(error) => {
                        warn!(%error, "a client of the control socket could not be accepted");
                        tokio::time::sleep(RECOVERY).await;
                    }
                },
                Some(_) = clients.join_next() => {}
                _ = stopped.changed() => return Ok(()),
            }
        }
    }
}

/// Answers a client until it goes, or does not go on.
async fn converse(stream: UnixStream, kernel: &KernelHandle) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(MAX_LIST_REQUEST, stream);
    let mut request = Vec::new();
    let mut tracing = None;
    loop {
        request.clear();
        let mut limited = (&mut stream).take(MAX_LIST_REQUEST as u64);
        if timeout(PATIENCE, limited.read_until(b'\n', &mut request)).await?? == 0 {
            return Ok(());
        }
        let is_whole = request.last() == Some(&b'\n');
        let reply = match is_whole {
            true => match serde_json::from_slice(&request) {
                Ok(request) => trace(request, kernel, &mut tracing).await,
                // Requests of the two kinds have other fields that they must have.
                Err(_) => answer(&request, kernel).await,
            },
            false => line(&ListReply::<()>::Error(format!(
                "a request is one line of at most {MAX_LIST_REQUEST} bytes"
            ))),
        };
        timeout(PATIENCE, stream.write_all(&reply)).await??;
        if !is_whole {
            // Nobody knows where the next request begins.
            return Ok(());
        }
    }
}

/// A client traces an adapter, until it says that it does not any more, or goes.
struct Tracing {
    kernel: KernelHandle,
}

impl Drop for Tracing {
    fn drop(&mut self) {
        self.kernel.end_trace();
    }
}

async fn trace(
    request: TraceRequest,
    kernel: &KernelHandle,
    tracing: &mut Option<Tracing>,
) -> Vec<u8> {
    let error = |why: String| to_line(&TraceReply::Error(why));
    if request.version != SNAPSHOT_VERSION {
        return error(other_version(request.version));
    }
    if request.buffer_mib > MAX_TRACE_BUFFER_MIB {
        let wanted = request.buffer_mib;
        return error(format!("buffer_mib is {wanted}; it must be 0 to {MAX_TRACE_BUFFER_MIB}"));
    }
    let begin = TraceAction::Begin { entries: trace_entries(request.buffer_mib) };
    let (action, kernel) = match (&*tracing, request.trace) {
        (None, true) => (begin, kernel.of(AdapterId(request.adapter))),
        (Some(tracing), true) => (TraceAction::Fetch, tracing.kernel.clone()),
        (Some(tracing), false) => (TraceAction::End, tracing.kernel.clone()),
        (None, false) => return error("nothing is traced by this connection".into()),
    };
    match kernel.trace(action).await {
        Ok(TracePage { records, more }) => {
            match action {
                TraceAction::Begin { .. } => *tracing = Some(Tracing { kernel }),
                TraceAction::Fetch => {}
                // It has ended, and dropping this is not to end another's.
                TraceAction::End => std::mem::forget(tracing.take()),
            }
            to_line(&TraceReply::Records { records, more })
        }
        Err(refused) => error(refused.to_string()),
    }
}

/// How many entries have room in a trace log of so many MiB.
fn trace_entries(mib: u32) -> u32 {
    let mib = if mib == 0 { DEFAULT_TRACE_BUFFER_MIB } else { mib };
    let entries = (u64::from(mib) << 20) / size_of::<FenceLogEntry>() as u64;
    u32::try_from(entries).unwrap_or(u32::MAX)
}

fn other_version(version: u32) -> String {
    format!(
        "version {version} is wanted, this daemon has {SNAPSHOT_VERSION}; use the bellhop that came with it"
    )
}

async fn answer(request: &[u8], kernel: &KernelHandle) -> Vec<u8> {
    let error = |why: String| line(&ListReply::<()>::Error(why));
    let request: ListRequest = match serde_json::from_slice(request) {
        Ok(request) => request,
        Err(why) => return error(format!("not a request: {why}")),
    };
    if request.version != SNAPSHOT_VERSION {
        return error(other_version(request.version));
    }
    let wanted = ListObjects {
        list: request.list(),
        guest: GuestId(request.guest),
        process: request.process,
        parent: request.parent.into(),
        after: request.after.0,
    };
    match kernel.of(AdapterId(request.adapter)).list(wanted, MAX_LIST_REPLY).await {
        Ok(page) => {
            let mut reply =
                format!("{{\"objects\":{{\"next\":\"{}\",\"objects\":", Name(page.next))
                    .into_bytes();
            reply.extend(page.objects);
            reply.extend_from_slice(b"}}\n");
            reply
        }
        Err(refused) if refused.gone => line(&ListReply::<()>::Gone(refused.to_string())),
        Err(refused) => error(refused.to_string()),
    }
}

fn line(reply: &ListReply<()>) -> Vec<u8> {
    to_line(reply)
}

fn to_line(reply: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(reply).unwrap_or_default();
    line.push(b'\n');
    line
}
