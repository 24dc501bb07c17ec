//! The daemon's life: what it serves, and what ends it.

use super::config::Config;
use super::control::ControlSocket;
use super::manager;
use super::socket::Endpoint;
use super::tasks::Tasks;
use crate::log::report_suppressed;
use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// Serves the endpoints until SIGTERM or SIGINT, or until every guest that could come has gone.
///
/// # Errors
/// When the engines cannot be started or a socket cannot be watched.
pub fn run(
    config: &Config,
    endpoints: Vec<Endpoint>,
    control: Option<ControlSocket>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the control plane")?;
    runtime.block_on(serve(config, endpoints, control))
}

async fn serve(
    config: &Config,
    endpoints: Vec<Endpoint>,
    control: Option<ControlSocket>,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
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
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
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
