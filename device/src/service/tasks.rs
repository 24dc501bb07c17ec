//! What a service consists of, as tasks of one runtime: control plane, interrupts, and a server
//! for each socket. The engines have threads of their own.

use super::config::Config;
use super::control::ControlSocket;
use super::readable::Readable;
use super::server::{Served, Server};
use super::socket::Endpoint;
use crate::gpu::Gpu;
use crate::vhost::backend::Host;
use anyhow::Context;
use bellhop_host_kmd::actor::{self, KernelHandle};
use bellhop_host_kmd::dxgkrnl::Kernel;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::error;

pub(super) struct Tasks {
    host: Host,
    config: Config,
    control_plane: JoinHandle<()>,
    interrupts: JoinHandle<()>,
    stop: watch::Sender<bool>,
    servers: JoinSet<anyhow::Result<()>>,
    tools: JoinSet<()>,
}

impl Tasks {
    /// Starts engines and control plane. Within a runtime.
    pub(super) fn start(config: &Config) -> anyhow::Result<Self> {
        let gpu = Gpu::start(config.gpu()).context("cannot start the engines")?;
        let (kernel, mailbox) = actor::channel();
        let state = Kernel::new(gpu.clone(), config.limits())
            .with_power_policy(config.power())
            .with_timeout(config.timeout())
            .with_tdr_policy(config.tdr());
        let control_plane = tokio::spawn(actor::run(state, mailbox));
        let raised = Readable::watch(gpu.interrupt_fd()).context("cannot watch for interrupts")?;
        let interrupts = tokio::spawn(forward_interrupts(raised, gpu.clone(), kernel.clone()));
        let host = Host {
            gpu,
            kernel,
            bar: config.bar(),
            segments: config.segments(),
            features: config.features(),
            weight: config.guest.weight,
            maps_bar: config.guest.bar,
            remaps_doorbells: config.remaps_doorbells(),
        };
        let (stop, _) = watch::channel(false);
        let (servers, tools) = (JoinSet::new(), JoinSet::new());
        let config = config.clone();
        Ok(Self { host, config, control_plane, interrupts, stop, servers, tools })
    }

    pub(super) fn kernel(&self) -> &KernelHandle {
        &self.host.kernel
    }

    /// Serves a socket from now on.
    pub(super) fn serve(&mut self, endpoint: Endpoint) -> anyhow::Result<Served> {
        let weight = self.config.weight(endpoint.address.as_deref());
        let host = Host { weight, ..self.host.clone() };
        let server = Server::new(host, endpoint).context("cannot watch a socket")?;
        let served = server.served();
        self.servers.spawn(server.run(self.stop.subscribe()));
        Ok(served)
    }

    /// Serves tools of this host from now on. Guests do not depend on it.
    pub(super) fn serve_tools(&mut self, control: ControlSocket) {
        let serving = control.serve(self.host.kernel.clone(), self.stop.subscribe());
        self.tools.spawn(async move {
            if let Err(error) = serving.await {
                error!(%error, "tools are not served");
            }
        });
    }

    /// How many sockets are served.
    pub(super) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Waits until a server has ended; none when all have.
    pub(super) async fn server_ended(&mut self) -> Option<anyhow::Result<()>> {
        let ended = self.servers.join_next().await?;
        Some(ended.context("a server ended").and_then(|result| result))
    }

    /// Ends all connections, then everything else.
    pub(super) async fn stop(mut self) {
        // An error means that all servers have ended already.
        let _ = self.stop.send(true);
        while self.servers.join_next().await.is_some() {}
        // Their sockets' files go with them.
        while self.tools.join_next().await.is_some() {}
        self.interrupts.abort();
        self.control_plane.abort();
    }
}

/// Tells the kernel when the hardware has interrupts.
async fn forward_interrupts(raised: Readable, gpu: Arc<Gpu>, kernel: KernelHandle) {
    loop {
        if let Err(error) = raised.readable().await {
            error!(%error, "interrupts cannot be watched for any more; restart the daemon");
            return;
        }
        // Acknowledge before taking, so that what comes in between is announced again.
        gpu.acknowledge_interrupt();
        kernel.interrupt();
    }
}
