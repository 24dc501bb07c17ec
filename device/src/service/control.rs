// SPDX-License-Identifier: MIT OR Apache-2.0

//! The control socket, on which tools of this host inspect and trace the daemon, and see its guests' displays.
//!
//! A connection carries lines of JSON: a [`ListRequest`], then a [`ListReply`], any number of times. The number of
//! clients, their requests and their time are bounded, and the daemon holds at most one page for each, so no client
//! can keep the daemon from its guests. The file's mode admits only the daemon's own user. What changes something is
//! refused here: see [`operator`](super::operator).

use super::lines::{self, Sent, other_version, to_line, too_long};
use super::screens::{self, Screens};
use super::socket::{self, ControlListener};
use crate::control_plane::KernelHandle;
use crate::gpu::display::Viewer;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{AdapterId, ListObjects, TraceAction, TracePage};
use bellhop_protocol::fence_log::FenceLogEntry;
use bellhop_protocol::operator::{OperatorReply, OperatorRequest};
use bellhop_protocol::screen::{ScreenAction, ScreenReply, ScreenRequest};
use bellhop_protocol::snapshot::{
    ListReply, ListRequest, MAX_LIST_REPLY, MAX_LIST_REQUEST, Name, SNAPSHOT_VERSION,
};
use bellhop_protocol::trace::{
    DEFAULT_TRACE_BUFFER_MIB, MAX_TRACE_BUFFER_MIB, TraceReply, TraceRequest,
};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

/// Maximum number of clients at once that do not view a display.
const MAX_CLIENTS: usize = 8;
/// Maximum number of clients at once that do. They stay, and must not keep others out.
const MAX_VIEWERS: usize = 32;
/// Longest time for a client to send a request, and to receive a reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// The refusal of what changes something.
const CHANGES_NOTHING: &str = "the control socket changes nothing; ask on the operator's socket, with `bellhop ctl \
     --socket PATH`, or `bellhop screen plug --socket PATH`. bellhopd has one with --operator-socket PATH, the packaged \
     service at /run/bellhopd/operator.sock";

/// A listening control socket.
pub struct ControlSocket(ControlListener);

impl ControlSocket {
    /// Listens at a path, for this process's user alone.
    ///
    /// # Errors
    /// If the socket cannot be created at the path; the error says what to do.
    pub fn listen(path: &Path) -> anyhow::Result<Self> {
        socket::listen_for_tools(path, "--control-socket").map(Self)
    }

    /// Serves clients until told to stop.
    pub(super) async fn serve(
        self,
        kernel: KernelHandle,
        screens: Screens,
        mut stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let arriving = self.0.clients("the control socket")?;
        let mut clients = JoinSet::new();
        let (places, viewers) = (Semaphore::new(MAX_CLIENTS), Semaphore::new(MAX_VIEWERS));
        let (places, viewers) = (Arc::new(places), Arc::new(viewers));
        loop {
            let stream = tokio::select! {
                stream = arriving.next() => stream,
                Some(_) = clients.join_next() => continue,
                _ = stopped.changed() => return Ok(()),
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                let full =
                    format!("the daemon already serves {MAX_CLIENTS} clients; try again later");
                // The socket's buffer is empty, so the line fits, unless the client has gone.
                let _ = stream.try_write(&line(&ListReply::<()>::Error(full)));
                continue;
            };
            let tools = Tools {
                kernel: kernel.clone(),
                screens: screens.clone(),
                viewers: Arc::clone(&viewers),
            };
            clients.spawn(async move {
                if let Err(error) = converse(stream, tools, place).await {
                    debug!(%error, "dropped a client of the control socket");
                }
            });
        }
    }
}

/// What clients reach.
struct Tools {
    kernel: KernelHandle,
    screens: Screens,
    /// Places for clients that view.
    viewers: Arc<Semaphore>,
}

/// Answers a client until it disconnects or stays silent for too long. `place` is its place among the clients that do
/// not view.
async fn converse(stream: UnixStream, tools: Tools, place: OwnedSemaphorePermit) -> io::Result<()> {
    let kernel = &tools.kernel;
    let mut stream = BufReader::with_capacity(MAX_LIST_REQUEST, stream);
    let mut request = Vec::new();
    let mut tracing = None;
    loop {
        let is_whole =
            match lines::read(&mut stream, &mut request, MAX_LIST_REQUEST, PATIENCE).await? {
                Sent::Line => true,
                Sent::NoLine => false,
                Sent::End => return Ok(()),
            };
        if is_whole && let Ok(request) = serde_json::from_slice::<ScreenRequest>(&request) {
            let (reply, viewer) = tools.answer(&request);
            timeout(PATIENCE, stream.write_all(&to_line(&reply))).await??;
            match viewer {
                Some((viewer, _viewing)) => {
                    drop(place);
                    return screens::show(&mut stream, viewer, PATIENCE).await;
                }
                None => continue,
            }
        }
        let reply = if is_whole && serde_json::from_slice::<OperatorRequest>(&request).is_ok() {
            to_line(&OperatorReply::Error(CHANGES_NOTHING.to_owned()))
        } else if is_whole {
            match serde_json::from_slice(&request) {
                Ok(request) => trace(request, kernel, &mut tracing).await,
                // The two kinds of requests have different required fields.
                Err(_) => answer(&request, kernel).await,
            }
        } else {
            line(&ListReply::<()>::Error(too_long(MAX_LIST_REQUEST)))
        };
        timeout(PATIENCE, stream.write_all(&reply)).await??;
        if !is_whole {
            // The start of the next request is unknown.
            return Ok(());
        }
    }
}

impl Tools {
    /// Answers a request about displays; with what to view, and its place.
    fn answer(
        &self,
        request: &ScreenRequest,
    ) -> (ScreenReply, Option<(Viewer, OwnedSemaphorePermit)>) {
        if request.version != SNAPSHOT_VERSION {
            return (ScreenReply::Error(other_version(request.version, SNAPSHOT_VERSION)), None);
        }
        if let ScreenAction::Plug { .. } = request.screen {
            return (ScreenReply::Error(CHANGES_NOTHING.to_owned()), None);
        }
        match self.screens.answer(&request.screen) {
            (reply, None) => (reply, None),
            (reply, Some(viewer)) => match Arc::clone(&self.viewers).try_acquire_owned() {
                Ok(place) => (reply, Some((viewer, place))),
                Err(_) => {
                    let full = format!("the daemon already serves {MAX_VIEWERS} viewers");
                    (ScreenReply::Error(full), None)
                }
            },
        }
    }
}

/// A client's trace of an adapter. It ends when the client asks or disconnects.
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
        return error(other_version(request.version, SNAPSHOT_VERSION));
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
        (None, false) => return error("this connection has no trace".into()),
    };
    match kernel.trace(action).await {
        Ok(TracePage { records, more }) => {
            match action {
                TraceAction::Begin { .. } => *tracing = Some(Tracing { kernel }),
                TraceAction::Fetch => {}
                // The trace has ended; dropping this must not end another client's trace.
                TraceAction::End => std::mem::forget(tracing.take()),
            }
            to_line(&TraceReply::Records { records, more })
        }
        Err(refused) => error(refused.to_string()),
    }
}

/// Number of entries in a trace log of this many MiB.
fn trace_entries(mib: u32) -> u32 {
    let mib = if mib == 0 { DEFAULT_TRACE_BUFFER_MIB } else { mib };
    let entries = (u64::from(mib) << 20) / size_of::<FenceLogEntry>() as u64;
    u32::try_from(entries).unwrap_or(u32::MAX)
}

async fn answer(request: &[u8], kernel: &KernelHandle) -> Vec<u8> {
    let error = |why: String| line(&ListReply::<()>::Error(why));
    let request: ListRequest = match serde_json::from_slice(request) {
        Ok(request) => request,
        Err(why) => return error(format!("not a request: {why}")),
    };
    if request.version != SNAPSHOT_VERSION {
        return error(other_version(request.version, SNAPSHOT_VERSION));
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
