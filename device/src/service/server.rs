// SPDX-License-Identifier: MIT OR Apache-2.0

//! Serves one socket: one guest after another.

use super::gate::Gate;
use super::peer;
use super::readable::Readable;
use super::socket::{Endpoint, Source};
use crate::gpu::GuestPlace;
use crate::log::socket_name;
use crate::vhost::backend::Host;
use crate::vhost::connection::{Connection, ConnectionError};
use bellhop_host_kmd::hardware::GuestId;
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;
use tracing::{debug, error, info, warn};

/// Pauses after a failure to accept a guest: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// How long a front end waits for a busy socket before a warning is logged.
const BUSY: Duration = Duration::from_secs(1);

/// A served socket, for the rest of the process.
#[derive(Clone, Default)]
pub struct Served {
    connection: Arc<Mutex<Option<Arc<Connection>>>>,
}

impl Served {
    /// The guest behind the socket now: from the first request of its driver until the device is reset or the
    /// connection ends. After a reset it is another guest.
    #[must_use]
    pub fn guest(&self) -> Option<GuestId> {
        self.lock().as_ref()?.guest()
    }

    /// No code panics while it holds the lock, so its content is consistent.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection, if there is one. Returns whether there was.
    pub(super) fn disconnect(&self) -> bool {
        let connection = self.lock().clone();
        connection.inspect(|connection| connection.shut_down()).is_some()
    }

    /// Whether a front end is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.lock().is_some()
    }

    fn set(&self, connection: Option<&Arc<Connection>>) {
        *self.lock() = connection.cloned();
    }
}

/// Serves one guest after another on one socket.
pub(super) struct Server {
    host: Host,
    endpoint: Endpoint,
    /// Becomes readable when a front end connects; `None` for a connected socket.
    arrivals: Option<Readable>,
    served: Served,
    stopped: watch::Receiver<bool>,
    gate: Gate,
    /// The guest's share of the doorbells, reserved while a guest may come.
    _place: GuestPlace,
}

impl Server {
    /// A server that runs until `stopped` is true.
    pub(super) fn new(
        host: Host,
        endpoint: Endpoint,
        stopped: watch::Receiver<bool>,
        gate: Gate,
    ) -> io::Result<Self> {
        let arrivals = match &endpoint.source {
            Source::Listener(listener) => Some(Readable::watch(listener)?),
            Source::Connected(_) => None,
        };
        let (served, _place) = (Served::default(), host.gpu.add_place());
        Ok(Self { host, endpoint, arrivals, served, stopped, gate, _place })
    }

    pub(super) fn served(&self) -> Served {
        self.served.clone()
    }

    /// Serves guests until it is stopped. No fault of a guest ends it, unless the socket can bring no other guest.
    pub(super) async fn run(mut self) {
        let mut pause = Duration::ZERO;
        while let Some(stream) = self.accept(&mut pause).await {
            if let Err(error) = self.serve(stream).await {
                error!(%error, "rejected a front end");
            }
            if *self.stopped.borrow() || self.arrivals.is_none() {
                break;
            }
        }
    }

    /// The next guest; `None` when the server is stopped. A guest that cannot be accepted waits in the listener's
    /// backlog; the server retries after growing pauses. `pause` is the last one.
    async fn accept(&mut self, pause: &mut Duration) -> Option<UnixStream> {
        loop {
            let accepted = tokio::select! {
                accepted = self.gate.when_open(accept(&self.endpoint.source, self.arrivals.as_ref())) => accepted,
                _ = self.stopped.changed() => return None,
            };
            match accepted {
                Ok(stream) => {
                    if !std::mem::take(pause).is_zero() {
                        info!("accepting front ends again");
                    }
                    return Some(stream);
                }
                Err(error) if is_nobody(&error) => {}
                Err(error) => {
                    if pause.is_zero() {
                        error!(%error, "cannot accept a front end; it waits");
                    }
                    let [first, last] = PAUSES;
                    *pause = (2 * *pause).clamp(first, last);
                    tokio::select! {
                        () = sleep(*pause) => {}
                        _ = self.stopped.changed() => return None,
                    }
                }
            }
        }
    }

    /// Serves a guest until it disconnects or the server is stopped.
    async fn serve(&mut self, stream: UnixStream) -> io::Result<()> {
        let _entered = self.gate.enter();
        let front_end = peer::look(&stream, &socket_name(self.endpoint.address.as_deref()))?;
        let connection = Arc::new(Connection::new(self.host.clone(), stream, front_end)?);
        self.served.set(Some(&connection));
        let current = Arc::clone(&connection);
        let mut serving = pin!(on_its_own_thread(move || current.serve()));
        let busy = tell_of_who_waits(self.arrivals.as_ref());
        let ended = tokio::select! {
            ended = &mut serving => ended,
            never = busy => match never {},
            _ = self.stopped.changed() => {
                connection.shut_down();
                serving.await
            }
        };
        // Logged after everything of the guest is freed.
        self.served.set(None);
        drop(connection);
        self.tell(ended?);
        Ok(())
    }

    fn tell(&self, ended: Option<Result<(), ConnectionError>>) {
        match ended {
            _ if *self.stopped.borrow() => debug!(?ended, "connection shut down"),
            Some(Ok(())) => info!("front end disconnected"),
            Some(Err(error)) => warn!(%error, "connection ended"),
            None => error!("a guest's thread panicked"),
        }
    }
}

/// Waits for the next guest of a socket.
async fn accept(source: &Source, arrivals: Option<&Readable>) -> io::Result<UnixStream> {
    match (source, arrivals) {
        (Source::Listener(listener), Some(arrivals)) => {
            arrivals.readable().await?;
            Ok(listener.accept()?.0)
        }
        (Source::Listener(listener), None) => Ok(listener.accept()?.0),
        (Source::Connected(stream), _) => stream.try_clone(),
    }
}

/// Returns whether the error means that no front end is waiting.
fn is_nobody(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}

/// Logs once that a front end is waiting for a busy socket.
async fn tell_of_who_waits(arrivals: Option<&Readable>) -> std::convert::Infallible {
    if let Some(arrivals) = arrivals
        && arrivals.readable().await.is_ok()
    {
        sleep(BUSY).await;
        warn!(
            "another front end waits: a socket serves one guest at a time; give each guest a socket"
        );
    }
    std::future::pending().await
}

/// Runs blocking work on a separate thread, which has ended when this returns. `None` if the work panicked.
async fn on_its_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (done, finished) = oneshot::channel();
    let spawned = thread::Builder::new().name("guest".into()).spawn(move || {
        // The receiver below exists until the work ends.
        let _ = done.send(work());
    });
    let thread = spawned.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot start a thread for the guest: {error}"))
    })?;
    let result = finished.await;
    // Only waits for the thread's end; the result shows a panic.
    let _ = thread.join();
    Ok(result.ok())
}
