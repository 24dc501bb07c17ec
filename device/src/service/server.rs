//! Serving one socket: one guest after another.

use super::readable::Readable;
use super::socket::Endpoint;
use crate::gpu::GuestPlace;
use crate::log::LogSource;
use crate::vhost::backend::{GuestBackend, Host};
use anyhow::Context;
use bellhop_host_kmd::hardware::GuestId;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::sync::{oneshot, watch};
use tracing::{debug, info, warn};
use vhost::vhost_user::Listener;
use vhost_user_backend::{ShutdownHandle, VhostUserDaemon};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

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
    listener: Listener,
    arrivals: Readable,
    served: Served,
    /// Kept while a guest may come.
    place: GuestPlace,
}

impl Server {
    pub(super) fn new(host: Host, endpoint: Endpoint) -> io::Result<Self> {
        let listener = Listener::from(endpoint.listener.try_clone()?);
        let arrivals = Readable::watch(&endpoint.listener)?;
        let place = host.gpu.add_place();
        Ok(Self { host, endpoint, listener, arrivals, served: Served::default(), place })
    }

    pub(super) fn served(&self) -> Served {
        self.served.clone()
    }

    pub(super) async fn run(self, mut stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
        let Self { host, endpoint, mut listener, arrivals, served, place: _place } = self;
        loop {
            tokio::select! {
                ready = arrivals.readable() => ready.context("cannot watch a socket")?,
                _ = stopped.changed() => return Ok(()),
            }
            let connection = Arc::new(Connection::new(host.clone()));
            served.set(Some(&connection));
            let current = connection.clone();
            // vhost-user-backend blocks its caller for as long as the guest stays.
            let mut serving = pin!(on_its_own_thread(move || {
                let ended = current.serve(&mut listener);
                (listener, ended)
            }));
            let (returned, ended) = tokio::select! {
                served = &mut serving => served?,
                _ = stopped.changed() => {
                    connection.shut_down();
                    let (_, ended) = serving.await?;
                    host.log.during(|| debug!(?ended, "connection shut down"));
                    return Ok(());
                }
            };
            listener = returned;
            // Nothing of the guest is left when this is said.
            served.set(None);
            drop(connection);
            let socket = host.log.name();
            host.log.during(|| match ended {
                Ok(()) => info!(socket, "front end gone"),
                Err(error) => warn!(socket, %error, "connection ended"),
            });
            if endpoint.single {
                return Ok(());
            }
        }
    }
}

/// Does something that blocks; the thread is gone when this is done.
async fn on_its_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (done, finished) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("guest".into())
        .spawn(move || {
            // The receiver waits below for as long as this takes.
            let _ = done.send(work());
        })
        .context("cannot start a thread for a guest")?;
    let result = finished.await;
    // It has nothing left to do but end; a panic shows in the result.
    let _ = thread.join();
    result.context("the thread of a guest panicked")
}

/// A connection that can be ended from another thread, before it is made and after.
struct Connection {
    backend: GuestBackend,
    log: Arc<LogSource>,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
enum ConnectionState {
    #[default]
    New,
    Serving(ShutdownHandle),
    ShutDown,
}

impl Connection {
    fn new(host: Host) -> Self {
        let log = Arc::clone(&host.log);
        Self { backend: GuestBackend::new(host), log, state: Mutex::default() }
    }

    fn guest(&self) -> Option<GuestId> {
        self.backend.guest()
    }

    fn serve(&self, listener: &mut Listener) -> Result<(), vhost_user_backend::Error> {
        self.log.take_thread();
        let backend = self.backend.clone();
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let mut daemon = VhostUserDaemon::new("vhost-user".into(), backend.clone(), memory)?;
        daemon.start(listener)?;
        if self.is_wanted(daemon.shutdown_handle()) {
            info!(socket = self.log.name(), "front end connected");
        } else {
            daemon.request_shutdown();
        }
        let result = daemon.wait();
        backend.close();
        use vhost::vhost_user::Error::{Disconnected, PartialMessage};
        match result {
            // How a front end that ends, or is killed, goes.
            Err(vhost_user_backend::Error::HandleRequest(Disconnected | PartialMessage)) => Ok(()),
            other => other,
        }
    }

    fn is_wanted(&self, handle: Option<ShutdownHandle>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*state, handle) {
            (ConnectionState::New, Some(handle)) => {
                *state = ConnectionState::Serving(handle);
                true
            }
            _ => false,
        }
    }

    fn shut_down(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *state, ConnectionState::ShutDown);
        if let ConnectionState::Serving(handle) = before {
            handle.shutdown();
        }
    }
}
