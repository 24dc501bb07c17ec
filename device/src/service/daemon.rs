//! The daemon's life: what it serves, and what ends it.

use super::config::Config;
use super::control::ControlSocket;
use super::manager;
use super::socket::Endpoint;
use super::tasks::Tasks;
use crate::log::report_suppressed;
use anyhow::Context;
use std::thread::Builder;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use tracing::{error, info};

/// How long the end of the daemon may take. What is not done then is left to the kernel.
const LAST_MOMENT: Duration = Duration::from_millis(1500);

/// Serves the endpoints until SIGTERM, SIGINT or SIGHUP, or until every guest that could come has gone.
///
/// # Errors
/// When the engines cannot be started or a socket cannot be watched.
pub fn run(
    config: &Config,
    endpoints: Vec<Endpoint>,
    control: Option<ControlSocket>,
) -> anyhow::Result<()> {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let control_plane = runtime().context("cannot start the control plane")?;
    let last_resort = runtime().context("cannot watch for signals")?;
    // Not on the control plane's own thread: whatever that waits for, a signal ends the daemon.
    Builder::new()
        .name("last-resort".into())
        .spawn(move || last_resort.block_on(end_in_time()))
        .context("cannot watch for signals")?;
    control_plane.block_on(serve(config, endpoints, control))
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

/// Ends the process if it has not ended by itself in time after it was told to.
async fn end_in_time() {
    match Ends::watch() {
        Ok(mut ends) => ends.received().await,
        Err(error) => {
            error!(%error, "the daemon ends when the control plane comes round to it");
            return;
        }
    }
    sleep(LAST_MOMENT).await;
    error!("something that belongs to a guest does not end; it is left to the kernel");
    std::process::exit(0);
}

async fn serve(
    config: &Config,
    endpoints: Vec<Endpoint>,
    control: Option<ControlSocket>,
) -> anyhow::Result<()> {
    let mut ends = Ends::watch()?;
    // A file that may not be so large is an error then, and does not end the daemon.
    let _too_large = signal(SignalKind::from_raw(libc::SIGXFSZ));
    let mut tasks = Tasks::start(config)?;
    tokio::spawn(report_suppressed());
    for endpoint in endpoints {
        tasks.serve(endpoint)?;
    }
    if let Some(control) = control {
        tasks.serve_tools(control);
    }
    info!(sockets = tasks.servers(), "ready");
    manager::ready(tasks.servers());
    let result = loop {
        tokio::select! {
            () = ends.received() => break Ok(()),
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
