// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operator's socket: what changes guests and adapters while they run.
//!
//! A connection carries lines of JSON: an [`OperatorRequest`], then an [`OperatorReply`]. Root, the daemon's own user and
//! one group may connect. The control socket is another one, which changes nothing. Source: Windows KMD overview, "EEU".

mod actions;
mod agent;
mod peer;
mod setting;

use super::access::SocketAccess;
use super::gate::Gate;
use super::lines::{self, Sent, other_version, to_line, too_long};
use super::screens::Screens;
use super::server::Served;
use super::socket::{self, ControlListener};
use crate::allowance::Rate;
use crate::control_plane::KernelHandle;
use crate::log::SocketShares;
use crate::vhost::backend::Host;
use actions::Operator;
use anyhow::Context;
use bellhop_protocol::operator::{
    MAX_OPERATOR_REQUEST, OPERATOR_VERSION, OperatorReply, OperatorRequest,
};
use peer::Peer;
use rustix::fs::Gid;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, warn};

/// Maximum number of clients at once.
const MAX_CLIENTS: usize = 16;
/// Longest time for a client to send a request, and to receive a reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// A listening operator's socket.
pub struct OperatorSocket {
    listener: ControlListener,
    group: Option<Gid>,
}

/// A socket of the daemon's, as the operator sees it.
pub(super) struct OperatedSocket {
    /// Its path.
    pub(super) address: String,
    /// The adapter's number.
    pub(super) adapter: u32,
    /// The adapter's physical doorbells.
    pub(super) physical_doorbells: u32,
    /// What its guests are attached to.
    pub(super) host: Host,
    /// Its guests.
    pub(super) served: Served,
}

/// What the operator reaches.
pub(super) struct Operated {
    /// The daemon's sockets.
    pub(super) sockets: Vec<OperatedSocket>,
    /// The kernel of the first adapter, which gives access to the others.
    pub(super) kernel: KernelHandle,
    /// One GPU for each adapter.
    pub(super) gpus: Vec<Arc<crate::gpu::Gpu>>,
    /// The guests' displays.
    pub(super) screens: Screens,
    /// The gate that guests come through.
    pub(super) gate: Gate,
    /// Lines of log that guests may cause, and how often workers are started for them, by the configuration.
    pub(super) rates: Rates,
    /// Ends the daemon.
    pub(super) stop: mpsc::Sender<()>,
}

/// Rates that may change.
pub(super) struct Rates {
    /// The shares of the log.
    pub(super) log: SocketShares,
    /// The rates of each socket, as they are now: of log lines, and of workers' starts. Each in a second, and at once.
    pub(super) of_sockets: Mutex<Vec<[(u32, u32); 2]>>,
}

impl Rates {
    /// Changes a rate of a socket by `change`. Returns the new one.
    fn change(&self, socket: usize, which: usize, change: impl FnOnce(&mut (u32, u32))) -> Rate {
        let mut all = self.of_sockets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(rate) = all.get_mut(socket).and_then(|rates| rates.get_mut(which)) else {
            return Rate::new(1, 1);
        };
        change(rate);
        Rate::new(rate.0, rate.1)
    }
}

impl OperatorSocket {
    /// Listens at a path, for root, this process's user, and a group.
    ///
    /// # Errors
    /// If the socket cannot be created at the path, or the group cannot have it; the error says what to do.
    pub fn listen(path: &Path, group: Option<Gid>) -> anyhow::Result<Self> {
        let listener = socket::listen_for_tools(path, "--operator-socket")?;
        let access = SocketAccess { group, mode: None };
        access.give(path).with_context(|| {
            let group = group.map_or(0, Gid::as_raw);
            format!(
                "control.operator_group: the daemon's user must be a member of group {group}; in the packaged service, \
                 `systemctl edit bellhopd.service` with PrivateUsers=no and SupplementaryGroups={group}"
            )
        })?;
        Ok(Self { listener, group })
    }

    /// Serves clients until told to stop.
    pub(super) async fn serve(
        self,
        operated: Operated,
        mut stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let arriving = self.listener.clients("the operator's socket")?;
        let operated = Arc::new(operated);
        let places = Arc::new(Semaphore::new(MAX_CLIENTS));
        let mut clients = JoinSet::new();
        loop {
            let stream = tokio::select! {
                stream = arriving.next() => stream,
                Some(_) = clients.join_next() => continue,
                _ = stopped.changed() => return Ok(()),
            };
            let peer = match self.admit(&stream) {
                Ok(peer) => peer,
                Err(why) => {
                    // The socket's buffer is empty, so the line fits, unless the client has gone.
                    let _ = stream.try_write(&to_line(&OperatorReply::Error(why)));
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                let full =
                    format!("the daemon already serves {MAX_CLIENTS} operators; try again later");
                let _ = stream.try_write(&to_line(&OperatorReply::Error(full)));
                continue;
            };
            let operator = Operator { operated: Arc::clone(&operated), peer };
            clients.spawn(async move {
                let _place = place;
                if let Err(error) = converse(stream, operator).await {
                    debug!(%error, "dropped a client of the operator's socket");
                }
            });
        }
    }

    /// Who connected, if they may.
    fn admit(&self, stream: &UnixStream) -> Result<Peer, String> {
        let peer = Peer::of(stream).map_err(|error| format!("cannot tell who you are: {error}"))?;
        if peer.may_operate(self.group) {
            return Ok(peer);
        }
        warn!(uid = peer.uid, pid = peer.pid, command = peer.command, "refused an operator");
        Err("you may not operate this daemon; root may, its own user, and members of control.operator_group".into())
    }
}

/// Answers a client until it disconnects or stays silent for too long.
async fn converse(stream: UnixStream, operator: Operator) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(MAX_OPERATOR_REQUEST, stream);
    let mut request = Vec::new();
    loop {
        let sent = lines::read(&mut stream, &mut request, MAX_OPERATOR_REQUEST, PATIENCE).await?;
        let reply = match sent {
            Sent::Line => {
                // Some answers come late. A client that has gone, or sends more, does not wait for them.
                tokio::select! {
                    reply = answer(&request, &operator) => reply,
                    _ = stream.fill_buf() => return Ok(()),
                }
            }
            Sent::NoLine => OperatorReply::Error(too_long(MAX_OPERATOR_REQUEST)),
            Sent::End => return Ok(()),
        };
        timeout(PATIENCE, stream.write_all(&to_line(&reply))).await??;
        if sent == Sent::NoLine {
            return Ok(());
        }
    }
}

async fn answer(request: &[u8], operator: &Operator) -> OperatorReply {
    let request: OperatorRequest = match serde_json::from_slice(request) {
        Ok(request) => request,
        Err(why) => return OperatorReply::Error(format!("not a request: {why}")),
    };
    if request.version != OPERATOR_VERSION {
        return OperatorReply::Error(other_version(request.version, OPERATOR_VERSION));
    }
    operator.act(request.operate).await.unwrap_or_else(OperatorReply::Error)
}
