// SPDX-License-Identifier: MIT OR Apache-2.0

//! Serves one socket: one guest after another, or several at once.

use super::gate::{Entered, Gate};
use super::peer;
use super::readable::Readable;
use super::socket::{Endpoint, Source};
use crate::allowance::{Allowance, Rate};
use crate::gpu::GuestPlace;
use crate::log::socket_name;
use crate::vhost::backend::Host;
use crate::vhost::connection::{Connection, ConnectionError};
use crate::vhost::place::{Place, Places};
use bellhop_host_kmd::hardware::{FrontEnd, GuestId};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{Instrument as _, Span, debug, error, info, warn};

/// Pauses after a failure to accept a guest: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// How long a front end waits for a busy socket before a warning is logged.
const BUSY: Duration = Duration::from_secs(1);
/// How many front ends a socket with several connections takes or refuses in a second in the long run: no more than one that
/// serves one guest after another would. The others wait in its backlog.
const ACCEPTED_PER_SECOND: u32 = 100;

/// A served socket, for the rest of the process.
#[derive(Clone, Default)]
pub struct Served {
    /// By place.
    connections: Arc<Mutex<BTreeMap<u32, Arc<Connection>>>>,
}

impl Served {
    /// The guest behind the socket now, that of the first connection with one: from the first request of its driver until the
    /// device is reset or the connection ends. After a reset it is another guest.
    #[must_use]
    pub fn guest(&self) -> Option<GuestId> {
        self.lock().values().find_map(|connection| connection.guest())
    }

    /// No code panics while it holds the lock, so its content is consistent.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection at a place, or all. Returns how many there were.
    pub(super) fn disconnect(&self, place: Option<u32>) -> usize {
        let connections = self.lock().clone();
        let is_it = |at: u32| place.is_none_or(|place| place == at);
        let chosen = connections.into_iter().filter(|(at, _)| is_it(*at)).collect::<Vec<_>>();
        chosen.iter().for_each(|(_, connection)| connection.shut_down());
        chosen.len()
    }

    /// The front ends that are connected, by place.
    pub(super) fn front_ends(&self) -> BTreeMap<u32, FrontEnd> {
        let connections = self.lock();
        connections.iter().map(|(place, of)| (*place, of.front_end().clone())).collect()
    }

    fn insert(&self, place: u32, connection: &Arc<Connection>) {
        self.lock().insert(place, Arc::clone(connection));
    }

    fn remove(&self, place: u32) {
        self.lock().remove(&place);
    }
}

/// Serves the guests of one socket.
pub(super) struct Server {
    host: Host,
    endpoint: Endpoint,
    /// Becomes readable when a front end connects; `None` for a connected socket.
    arrivals: Option<Arc<Readable>>,
    served: Served,
    stopped: watch::Receiver<bool>,
    gate: Gate,
    places: Places,
    pace: Pace,
    /// The guests' share of the doorbells, reserved while a guest may come.
    _place: GuestPlace,
}

/// How often front ends are accepted at a socket with several connections.
struct Pace {
    rate: Option<Rate>,
    used: Allowance,
    start: Instant,
}

impl Pace {
    /// That of a socket with so many connections. The front end that comes when the one before has gone needs none.
    fn new(connections: u32) -> Self {
        let rate = Rate::new(ACCEPTED_PER_SECOND, connections.saturating_mul(2));
        let (used, start) = (Allowance::default(), Instant::now());
        Self { rate: (connections > 1).then_some(rate), used, start }
    }

    /// How long until another may be accepted.
    fn wait(&self) -> Option<Duration> {
        self.used.check(self.start.elapsed(), self.rate?).err()
    }

    fn accepted(&self) {
        if let Some(rate) = self.rate {
            self.used.charge(self.start.elapsed(), rate, 1);
        }
    }
}

impl Server {
    /// A server that runs until `stopped` is true.
    pub(super) fn new(
        host: Host,
        endpoint: Endpoint,
        stopped: watch::Receiver<bool>,
        gate: Gate,
    ) -> io::Result<Self> {
        let (arrivals, connections) = match &endpoint.source {
            Source::Listener(listener) => {
                (Some(Arc::new(Readable::watch(listener)?)), host.connections)
            }
            Source::Connected(_) => (None, 1),
        };
        let (served, _place) = (Served::default(), host.gpu.add_place());
        let (places, pace) = (Places::new(connections), Pace::new(connections));
        Ok(Self { host, endpoint, arrivals, served, stopped, gate, places, pace, _place })
    }

    pub(super) fn served(&self) -> Served {
        self.served.clone()
    }

    /// Serves guests until it is stopped. No fault of a guest ends it, unless the socket can bring no other guest.
    pub(super) async fn run(mut self) {
        let mut pause = Duration::ZERO;
        let mut guests = JoinSet::new();
        loop {
            let Some((stream, place)) = self.next(&mut pause).await else { break };
            // Those that have gone meanwhile.
            while guests.try_join_next().is_some() {}
            match self.begin(stream, place) {
                Ok(guest) => {
                    guests.spawn(guest.serve().instrument(Span::current()));
                }
                Err(error) => error!(%error, "rejected a front end"),
            }
            if self.arrivals.is_none() {
                break;
            }
        }
        while guests.join_next().await.is_some() {}
    }

    /// The next guest, and its place; `None` when the server is stopped. It waits for a place that a guest is leaving. Where
    /// several guests have all places and stay, one more is told so by the end of its connection; where a socket has one
    /// place, others wait for that.
    async fn next(&mut self, pause: &mut Duration) -> Option<(UnixStream, Place)> {
        loop {
            if self.places.count() == 1 || !self.is_full() {
                let place = self.place().await?;
                return Some((self.accept(pause).await?, place));
            }
            let stream = self.accept(pause).await?;
            if self.is_full() {
                self.refuse(&stream);
            } else {
                return Some((stream, self.place().await?));
            }
        }
    }

    /// Whether front ends are connected at all places, and stay.
    fn is_full(&self) -> bool {
        let connections = self.served.lock();
        let staying = connections.values().filter(|connection| !connection.has_hung_up());
        staying.count() >= self.places.count() as usize
    }

    /// A place, once one is free; `None` when the server is stopped.
    async fn place(&mut self) -> Option<Place> {
        tokio::select! {
            place = self.places.take_next() => Some(place),
            _ = self.stopped.changed() => None,
        }
    }

    /// Logs that a front end finds no place. Its connection ends when the stream is dropped.
    fn refuse(&self, stream: &UnixStream) {
        let connections = self.places.count();
        let pid = peer::process(stream).ok().flatten();
        warn!(
            pid,
            connections,
            "refused a front end: every connection of the socket has a guest; raise guest.connections, or use another \
             socket"
        );
    }

    /// The next front end; `None` when the server is stopped. A front end that cannot be accepted waits in the listener's
    /// backlog; the server retries after growing pauses. `pause` is the last one.
    async fn accept(&mut self, pause: &mut Duration) -> Option<UnixStream> {
        loop {
            if let Some(wait) = self.pace.wait() {
                tokio::select! {
                    () = sleep(wait) => {}
                    _ = self.stopped.changed() => return None,
                }
            }
            let accepted = tokio::select! {
                accepted = self.gate.when_open(accept(&self.endpoint.source, self.arrivals.as_deref())) => accepted,
                _ = self.stopped.changed() => return None,
            };
            match accepted {
                Ok(stream) => {
                    self.pace.accepted();
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

    /// A guest that came.
    fn begin(&self, stream: UnixStream, place: Place) -> io::Result<Guest> {
        let entered = self.gate.enter();
        let name = socket_name(self.endpoint.address.as_deref());
        let front_end = peer::look(&stream, &name, &place)?;
        let number = place.number();
        let connection = Arc::new(Connection::new(self.host.clone(), stream, front_end, place)?);
        self.served.insert(number, &connection);
        let arrivals = self.arrivals.clone().filter(|_| self.places.count() == 1);
        let (served, stopped) = (self.served.clone(), self.stopped.clone());
        Ok(Guest { number, connection, served, stopped, arrivals, _entered: entered })
    }
}

/// A guest while it is served.
struct Guest {
    /// Its place.
    number: u32,
    connection: Arc<Connection>,
    served: Served,
    stopped: watch::Receiver<bool>,
    /// Where others wait for its place.
    arrivals: Option<Arc<Readable>>,
    _entered: Entered,
}

impl Guest {
    /// Serves the guest until it disconnects or the server is stopped.
    async fn serve(self) {
        let Self { number, connection, served, mut stopped, arrivals, _entered } = self;
        let current = Arc::clone(&connection);
        let mut serving = pin!(on_its_own_thread(move || current.serve()));
        let busy = tell_of_who_waits(arrivals.as_deref());
        let ended = tokio::select! {
            ended = &mut serving => ended,
            never = busy => match never {},
            () = becomes_true(&mut stopped) => {
                connection.shut_down();
                serving.await
            }
        };
        // Logged after everything of the guest is freed. Another guest may come to its place from then on.
        served.remove(number);
        drop(connection);
        match ended {
            Ok(ended) => tell(ended, *stopped.borrow()),
            Err(error) => error!(%error, "rejected a front end"),
        }
    }
}

async fn becomes_true(watched: &mut watch::Receiver<bool>) {
    // Without a sender the service has ended, and it stops its servers before.
    if watched.wait_for(|is_true| *is_true).await.is_err() {
        std::future::pending().await
    }
}

fn tell(ended: Option<Result<(), ConnectionError>>, is_stopped: bool) {
    match ended {
        _ if is_stopped => debug!(?ended, "connection shut down"),
        Some(Ok(())) => info!("front end disconnected"),
        Some(Err(error)) => warn!(%error, "connection ended"),
        None => error!("a guest's thread panicked"),
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
            "another front end waits: a socket serves one guest at a time; give each guest a socket, or raise \
             guest.connections"
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
