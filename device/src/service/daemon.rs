//! The daemon's life: engines, control plane, one server for each socket, and their end.

use super::config::Config;
use super::manager;
use super::readable::Readable;
use super::socket::Endpoint;
use crate::gpu::Gpu;
use crate::vhost::backend::{GuestBackend, Host};
use anyhow::Context;
use bellhop_host_kmd::actor::{self, KernelHandle};
use bellhop_host_kmd::dxgkrnl::{Kernel, Limits};
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};
use vhost::vhost_user::Listener;
use vhost_user_backend::{ShutdownHandle, VhostUserDaemon};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

/// Serves the endpoints until SIGTERM or SIGINT, or until every guest that could come has gone.
///
/// # Errors
/// When the engines cannot be started or a socket cannot be watched.
pub fn run(config: &Config, endpoints: Vec<Endpoint>) -> anyhow::Result<()> {
    let gpu = Gpu::start(config.gpu()).context("cannot start the engines")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the control plane")?;
    runtime.block_on(serve(config, gpu, endpoints))
}

async fn serve(config: &Config, gpu: Arc<Gpu>, endpoints: Vec<Endpoint>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
    let (kernel, mailbox) = actor::channel();
    let state = Kernel::new(gpu.clone(), Limits::default())
        .with_power_policy(config.power())
        .with_timeout(config.timeout());
    let control_plane = tokio::spawn(actor::run(state, mailbox));
    let raised = Readable::watch(gpu.interrupt_fd()).context("cannot watch for interrupts")?;
    let interrupts = tokio::spawn(forward_interrupts(raised, gpu.clone(), kernel.clone()));
    let host = Host {
        gpu,
        kernel,
        bar: config.bar(),
        features: config.features(),
        maps_bar: config.guest.bar,
        remaps_doorbells: config.remaps_doorbells(),
    };

    let (stop, stopped) = watch::channel(false);
    let mut servers = JoinSet::new();
    for endpoint in endpoints {
        let server = Server::new(host.clone(), endpoint).context("cannot watch a socket")?;
        servers.spawn(server.run(stopped.clone()));
    }
    info!(sockets = servers.len(), "ready");
    manager::ready(servers.len());
    let result = loop {
        tokio::select! {
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            ended = servers.join_next() => match ended {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => break Err(error),
                Some(Err(error)) => break Err(error).context("a server ended"),
                None => break Ok(()),
            },
        }
    };
    info!("stopping");
    manager::stopping();
    // Every server has a receiver of its own; there is none only when all have ended.
    let _ = stop.send(true);
    while servers.join_next().await.is_some() {}
    interrupts.abort();
    control_plane.abort();
    result
}

/// Tells the kernel when the hardware has interrupts.
async fn forward_interrupts(
    raised: Readable,
    gpu: Arc<Gpu>,
    kernel: KernelHandle,
) -> anyhow::Result<()> {
    loop {
        raised.readable().await.context("interrupt event")?;
        // Acknowledge before taking, so that what comes in between is announced again.
        gpu.acknowledge_interrupt();
        kernel.interrupt();
    }
}

/// Serves one guest after another on one socket.
struct Server {
    host: Host,
    endpoint: Endpoint,
    listener: Listener,
    arrivals: Readable,
}

impl Server {
    fn new(host: Host, endpoint: Endpoint) -> io::Result<Self> {
        let listener = Listener::from(endpoint.listener.try_clone()?);
        let arrivals = Readable::watch(&endpoint.listener)?;
        Ok(Self { host, endpoint, listener, arrivals })
    }

    async fn run(self, mut stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
        let Self { host, endpoint, mut listener, arrivals } = self;
        loop {
            tokio::select! {
                ready = arrivals.readable() => ready.context("cannot watch a socket")?,
                _ = stopped.changed() => return Ok(()),
            }
            let connection = Arc::new(Connection::default());
            let (host, current) = (host.clone(), connection.clone());
            // vhost-user-backend blocks its caller for as long as the guest stays.
            let mut serving = pin!(on_its_own_thread(move || {
                let ended = current.serve(host, &mut listener);
                (listener, ended)
            }));
            let (returned, ended) = tokio::select! {
                served = &mut serving => served?,
                _ = stopped.changed() => {
                    connection.shut_down();
                    let (_, ended) = serving.await?;
                    debug!(?ended, "connection shut down");
                    return Ok(());
                }
            };
            listener = returned;
            // Nothing of the guest is left when this is said.
            drop(connection);
            match ended {
                Ok(()) => info!("front end gone"),
                Err(error) => warn!(%error, "connection ended"),
            }
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
#[derive(Default)]
struct Connection {
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
    fn serve(&self, host: Host, listener: &mut Listener) -> Result<(), vhost_user_backend::Error> {
        let backend = GuestBackend::new(host);
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let mut daemon = VhostUserDaemon::new("vhost-user".into(), backend.clone(), memory)?;
        daemon.start(listener)?;
        if self.is_wanted(daemon.shutdown_handle()) {
            info!("front end connected");
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
