//! What a service consists of, as tasks of one runtime: control plane, interrupts of each adapter, and a
//! server for each socket. The engines have threads of their own.

use super::config::Config;
use super::control::ControlSocket;
use super::readable::Readable;
use super::server::{Served, Server};
use super::socket::Endpoint;
use crate::gpu::{CrossAdapterMemory, Gpu};
use crate::log::LogSource;
use crate::vhost::backend::Host;
use crate::vhost::calls::Calls;
use crate::vhost::lost_memory;
use anyhow::Context;
use bellhop_host_kmd::actor::{self, KernelHandle};
use bellhop_host_kmd::dxgkrnl::{Adapters, Kernel};
use bellhop_host_kmd::port::{AdapterId, SharingGroups};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::error;

pub(super) struct Tasks {
    /// One for each adapter.
    hosts: Vec<Host>,
    kernel: KernelHandle,
    config: Config,
    control_plane: JoinHandle<()>,
    interrupts: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    servers: JoinSet<()>,
    tools: JoinSet<()>,
}

impl Tasks {
    /// Starts engines and control plane. Within a runtime.
    pub(super) fn start(config: &Config) -> anyhow::Result<Self> {
        let cross_adapter_fences = config.cross_adapter_fences();
        let memory = CrossAdapterMemory::new(cross_adapter_fences);
        let memory = Arc::new(memory.context("cannot make memory for fences")?);
        let calls = Calls::new().context(
            "cannot signal guests: the kernel gives no asynchronous requests; raise fs.aio-max-nr, or allow io_setup",
        )?;
        let calls = Arc::new(calls);
        // Before the first guest comes, so that no guest leaves a descriptor behind that is the daemon's.
        lost_memory::event().context("cannot watch for memory that guests lose")?;
        let (kernel, mailbox) = actor::channel();
        let (mut hosts, mut kernels, mut interrupts) = (Vec::new(), Vec::new(), Vec::new());
        for ((name, adapter), ordinal) in config.adapters().zip(0..) {
            let gpu = Gpu::start_beside(adapter.gpu(), Arc::clone(&memory));
            let gpu = gpu.context("cannot start the engines")?;
            let state = Kernel::new(gpu.clone(), adapter.os_features(), config.limits())
                .context("cannot initialise the adapter")?
                .with_name(name)
                .with_power_policy(adapter.power())
                .with_timeout(adapter.timeout())
                .with_tdr_policy(adapter.tdr());
            kernels.push(state);
            let raised = Readable::watch(gpu.interrupt_fd());
            let raised = raised.context("cannot watch for interrupts")?;
            let kernel = kernel.of(AdapterId(ordinal));
            let forwarding = forward_interrupts(raised, gpu.clone(), kernel.clone());
            interrupts.push(tokio::spawn(forwarding));
            hosts.push(Host {
                gpu,
                kernel,
                bar: config.bar(),
                segments: config.segments(),
                features: config.features(adapter),
                sharing: SharingGroups::NONE,
                weight: config.guest.weight,
                doorbell_share: config.guest.physical_doorbells_reserved,
                log: Arc::new(LogSource::of(None)),
                calls: Arc::clone(&calls),
                memory_limit: config.memory_limit(),
                maps_bar: config.guest.bar,
                remaps_doorbells: adapter.remaps_doorbells(),
            });
        }
        let adapters = Adapters::new(kernels).with_cross_adapter_fences(cross_adapter_fences);
        let control_plane = tokio::spawn(actor::run(adapters, mailbox));
        let (stop, _) = watch::channel(false);
        let (servers, tools) = (JoinSet::new(), JoinSet::new());
        let config = config.clone();
        Ok(Self { hosts, kernel, config, control_plane, interrupts, stop, servers, tools })
    }

    /// The kernel of the first adapter, from which one gets the others'.
    pub(super) fn kernel(&self) -> &KernelHandle {
        &self.kernel
    }

    /// Serves a socket from now on.
    pub(super) fn serve(&mut self, endpoint: Endpoint) -> anyhow::Result<Served> {
        let address = endpoint.address.as_deref();
        let host = self.hosts.get(self.config.adapter_of(address));
        let host = host.context("there is no adapter for the socket")?;
        let (weight, sharing) = (self.config.weight(address), self.config.sharing(address));
        let log = Arc::new(LogSource::of(address));
        let host = Host { weight, sharing, log, ..host.clone() };
        let server = Server::new(host, endpoint, self.stop.subscribe());
        let server = server.context("cannot watch a socket")?;
        let served = server.served();
        self.servers.spawn(server.run());
        Ok(served)
    }

    /// Serves tools of this host from now on. Guests do not depend on it.
    pub(super) fn serve_tools(&mut self, control: ControlSocket) {
        let serving = control.serve(self.kernel.clone(), self.stop.subscribe());
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
        Some(ended.context("a server ended"))
    }

    /// Ends all connections, then everything else.
    pub(super) async fn stop(mut self) {
        // An error means that all servers have ended already.
        let _ = self.stop.send(true);
        while self.servers.join_next().await.is_some() {}
        // Their sockets' files go with them.
        while self.tools.join_next().await.is_some() {}
        for forwarding in &self.interrupts {
            forwarding.abort();
        }
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
