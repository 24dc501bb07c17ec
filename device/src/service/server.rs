//! Serving one socket: one guest after another.

use super::peer;
use super::readable::Readable;
use super::socket::{Endpoint, Source};
use crate::gpu::GuestPlace;
use crate::log::LogSource;
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

/// How long no guest is accepted after one could not be: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// How long a front end waits for another's end before that is said.
const BUSY: Duration = Duration::from_secs(1);

/// A socket that is served, as others in the process see it.
#[derive(Clone, Default)]
pub struct Served {
    connection: Arc<Mutex<Option<Arc<Connection>>>>,
}

impl Served {
    /// The guest that runs behind the socket now: there from the first request of its driver
    /// until the device is reset or the connection ends. A guest that comes again is another.
    #[must_use]
    pub fn guest(&self) -> Option<GuestId> {
        self.lock().as_ref()?.guest()
    }

    /// No code panics while it holds the lock, so what is in it is whole.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, connection: Option<&Arc<Connection>>) {
        *self.lock() = connection.cloned();
    }
}

/// Serves one guest after another on one socket.
pub(super) struct Server {
    host: Host,
    endpoint: Endpoint,
    /// Tells of arrivals, where there may be some.
    arrivals: Option<Readable>,
    served: Served,
    stopped: watch::Receiver<bool>,
    /// Kept while a guest may come.
    _place: GuestPlace,
}

impl Server {
    /// Serves until `stopped` says so.
    pub(super) fn new(
        host: Host,
        endpoint: Endpoint,
        stopped: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let arrivals = match &endpoint.source {
            Source::Listener(listener) => Some(Readable::watch(listener)?),
            Source::Connected(_) => None,
        };
        let (served, _place) = (Served::default(), host.gpu.add_place());
        Ok(Self { host, endpoint, arrivals, served, stopped, _place })
    }

    pub(super) fn served(&self) -> Served {
        self.served.clone()
    }

    /// Whatever becomes of a guest, it is no reason to end but where there is no other.
    pub(super) async fn run(mut self) {
        let mut pause = Duration::ZERO;
        while let Some(stream) = self.accept(&mut pause).await {
            if let Err(error) = self.serve(stream).await {
                let socket = self.host.log.name();
                self.host.log.during(|| error!(socket, %error, "a front end is sent away"));
            }
            if *self.stopped.borrow() || self.arrivals.is_none() {
                break;
            }
        }
    }

    /// The next guest; none when no more are served. It waits in the listener's backlog while it cannot be
    /// accepted, which is tried again later and later. `pause` is how long it was waited last.
    async fn accept(&mut self, pause: &mut Duration) -> Option<UnixStream> {
        loop {
            let accepted = tokio::select! {
                accepted = accept(&self.endpoint.source, self.arrivals.as_ref()) => accepted,
                _ = self.stopped.changed() => return None,
            };
            let (socket, log) = (self.host.log.name(), &self.host.log);
            match accepted {
                Ok(stream) => {
                    if !std::mem::take(pause).is_zero() {
                        log.during(|| info!(socket, "front ends are accepted again"));
                    }
                    return Some(stream);
                }
                Err(error) if is_nobody(&error) => {}
                Err(error) => {
                    if pause.is_zero() {
                        log.during(|| {
                            error!(socket, %error, "a front end cannot be accepted; it waits");
                        });
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

    /// Serves a guest until it goes, or is to go.
    async fn serve(&mut self, stream: UnixStream) -> io::Result<()> {
        let front_end = peer::look(&stream, self.host.log.name())?;
        let connection = Arc::new(Connection::new(self.host.clone(), stream, front_end)?);
        self.served.set(Some(&connection));
        let current = Arc::clone(&connection);
        let mut serving = pin!(on_its_own_thread(move || current.serve()));
        let busy = tell_of_who_waits(self.arrivals.as_ref(), &self.host.log);
        let ended = tokio::select! {
            ended = &mut serving => ended,
            never = busy => match never {},
            _ = self.stopped.changed() => {
                connection.shut_down();
                serving.await
            }
        };
        // Nothing of the guest is left when this is said.
        self.served.set(None);
        drop(connection);
        self.tell(ended?);
        Ok(())
    }

    fn tell(&self, ended: Option<Result<(), ConnectionError>>) {
        let socket = self.host.log.name();
        self.host.log.during(|| match ended {
            _ if *self.stopped.borrow() => debug!(socket, ?ended, "connection shut down"),
            Some(Ok(())) => info!(socket, "front end gone"),
            Some(Err(error)) => warn!(socket, %error, "connection ended"),
            None => error!(socket, "the thread of a guest panicked"),
        });
    }
}

/// The next guest of a socket, as soon as there is one.
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

/// Whether there is nobody to accept after all.
fn is_nobody(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}

/// Says once when somebody has waited for a while for a socket that is busy.
async fn tell_of_who_waits(
    arrivals: Option<&Readable>,
    log: &LogSource,
) -> std::convert::Infallible {
    if let Some(arrivals) = arrivals
        && arrivals.readable().await.is_ok()
    {
        sleep(BUSY).await;
        let socket = log.name();
        log.during(|| {
            warn!(
                socket,
                "another front end waits: a socket serves one guest at a time; give each its own"
            );
        });
    }
    std::future::pending().await
}

/// Does something that blocks; the thread is gone when this is done. None when it panicked.
async fn on_its_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (done, finished) = oneshot::channel();
    let spawned = thread::Builder::new().name("guest".into()).spawn(move || {
        // The receiver waits below for as long as this takes.
        let _ = done.send(work());
    });
    let thread = spawned.map_err(|error| {
        io::Error::new(error.kind(), format!("there is no thread for it: {error}"))
    })?;
    let result = finished.await;
    // It has nothing left to do but end; a panic shows in the result.
    let _ = thread.join();
    Ok(result.ok())
}
