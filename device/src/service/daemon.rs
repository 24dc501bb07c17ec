// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs the daemon: starts its parts, serves its sockets, and ends at a signal.

use super::config::Config;
use super::control::ControlSocket;
use super::kernels::{self, Roles, Worker};
use super::manager;
use super::operator::OperatorSocket;
use super::security;
use super::socket::Endpoint;
use super::tasks::Tasks;
use crate::cgroup;
use crate::gpu::Gpu;
use crate::log::{SocketShares, Suppressed};
use anyhow::Context;
use std::thread::Builder;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tracing::{error, info};

/// Maximum time from a signal to the end of the process. The operating system then cleans up the rest.
const LAST_MOMENT: Duration = Duration::from_millis(1500);

/// Serves the endpoints until SIGTERM, SIGINT or SIGHUP, or until no endpoint can bring another guest.
///
/// # Errors
/// If the engines cannot be started or a socket cannot be watched.
pub fn run(
    config: &Config,
    endpoints: Vec<Endpoint>,
    tools: ToolSockets,
    worker: Worker,
    log: Log,
) -> anyhow::Result<()> {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let control_plane = runtime().context("cannot start the control plane")?;
    let last_resort = runtime().context("cannot watch for signals")?;
    // On a separate thread: a signal ends the daemon even if the control plane's thread is stuck.
    Builder::new()
        .name("last-resort".into())
        .spawn(move || last_resort.block_on(end_in_time()))
        .context("cannot watch for signals")?;
    control_plane.block_on(serve(config, endpoints, tools, worker, log))
}

/// Waits for the operator's order to stop.
async fn order(ordered: &mut Option<mpsc::Receiver<()>>) {
    let order = match ordered {
        Some(ordered) => ordered.recv().await,
        None => None,
    };
    // Without a sender the operator's socket has failed.
    if order.is_none() {
        std::future::pending().await
    }
}

/// The sockets for tools of this host.
#[derive(Default)]
pub struct ToolSockets {
    /// Shows guests, and changes nothing.
    pub control: Option<ControlSocket>,
    /// Changes them.
    pub operator: Option<OperatorSocket>,
}

/// What the log has of guests.
pub struct Log {
    /// Lines that were suppressed.
    pub suppressed: Suppressed,
    /// The shares of sockets.
    pub shares: SocketShares,
}

/// The signals that end the daemon.
struct Ends([Signal; 3]);

impl Ends {
    fn watch() -> anyhow::Result<Self> {
        let watch = |kind, name| signal(kind).with_context(|| format!("cannot watch for {name}"));
        Ok(Self([
            watch(SignalKind::terminate(), "SIGTERM")?,
            watch(SignalKind::interrupt(), "SIGINT")?,
            watch(SignalKind::hangup(), "SIGHUP")?,
        ]))
    }

    async fn received(&mut self) {
        let [terminate, interrupt, hang_up] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

/// Ends the process if it still runs some time after a signal.
async fn end_in_time() {
    match Ends::watch() {
        Ok(mut ends) => ends.received().await,
        Err(error) => {
            error!(%error, "cannot watch for signals; the daemon may take long to end");
            return;
        }
    }
    sleep(LAST_MOMENT).await;
    error!(
        "a guest's resources were not freed in time; the daemon exits, and the operating system frees them"
    );
    std::process::exit(0);
}

/// Tests the host's Vulkan on a thread of its own. Its workers end with that thread, and so with this process.
async fn find_roles(config: &Config, worker: Worker) -> anyhow::Result<Vec<Roles>> {
    let (found, finding) = oneshot::channel();
    let config = config.clone();
    Builder::new()
        .name("find-kernels".into())
        .spawn(move || {
            // The receiver is gone after a signal.
            let _ = found.send(kernels::find_roles(&config, &worker));
        })
        .context("cannot look for a Vulkan")?;
    finding.await.context("the search for a Vulkan panicked")
}

async fn serve(
    config: &Config,
    endpoints: Vec<Endpoint>,
    tools: ToolSockets,
    worker: Worker,
    log: Log,
) -> anyhow::Result<()> {
    let mut ends = Ends::watch()?;
    // With a handler, exceeding the file-size limit is an error instead of the daemon's end.
    let _too_large = signal(SignalKind::from_raw(libc::SIGXFSZ));
    let security = security::find(config, Some(&worker))?;
    // Before any worker is started: nothing else may be in the daemon's cgroup.
    let groups = cgroup::divide_own();
    // Before the first guest, since what a device can do never changes; but a signal must not wait for it.
    let roles = tokio::select! {
        roles = find_roles(config, worker) => roles?,
        () = ends.received() => return Ok(()),
    };
    let has_workers = roles.iter().any(|(kernels, video)| kernels.is_ok() || video.is_ok());
    let mut tasks = Tasks::start(config, roles, security, &Gpu::start_in_chain)?;
    tokio::spawn(log.suppressed.report());
    for endpoint in endpoints {
        tasks.serve(endpoint)?;
    }
    if let Some(control) = tools.control {
        tasks.serve_tools(control);
    }
    let mut ordered = tools.operator.map(|operator| tasks.serve_operator(operator, log.shares));
    info!(sockets = tasks.servers(), "ready");
    if has_workers {
        match groups {
            Ok(controllers) => info!(controllers, "the workers of each guest have a cgroup"),
            Err(why) => info!(%why, "workers have no cgroups: their own limits alone bound them"),
        }
    }
    manager::ready(tasks.servers());
    let result = loop {
        tokio::select! {
            () = ends.received() => break Ok(()),
            () = order(&mut ordered) => break Ok(()),
            ended = tasks.server_ended() => match ended {
                Some(Ok(())) => {}
                Some(Err(error)) => break Err(error),
                None => break Ok(()),
            },
        }
    };
    info!("stopping");
    manager::stopping();
    tasks.stop().await;
    result
}
