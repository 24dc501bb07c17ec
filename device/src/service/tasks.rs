// SPDX-License-Identifier: MIT OR Apache-2.0

//! The service's tasks, in one runtime: the control plane, the interrupts of each adapter, and a server for each
//! socket. Engines run on threads of their own.

use super::config::{AdapterChain, Config};
use super::control::ControlSocket;
use super::gate::Gate;
use super::kernels::Roles;
use super::operator::{Operated, OperatedSocket, OperatorSocket, Rates};
use super::readable::Readable;
use super::screens::Screens;
use super::server::{Served, Server};
use super::socket::Endpoint;
use crate::control_plane::{self, KernelHandle};
use crate::gpu::{ChainPlace, CrossAdapterMemory, Gpu, GpuConfig, KernelsConfig, SecurityConfig};
use crate::log::{SocketShares, socket_name, socket_span};
use crate::vhost::backend::Host;
use crate::vhost::calls::Calls;
use crate::vhost::lost_memory;
use crate::vhost::standing::Standing;
use anyhow::Context;
use bellhop_host_kmd::dxgkrnl::{Adapters, Kernel};
use bellhop_host_kmd::port::{AdapterId, SharingGroups};
use std::io;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tracing::{Instrument, Span, error};

/// Starts one of several GPUs.
pub(super) type StartGpu =
    dyn Fn(GpuConfig, Arc<CrossAdapterMemory>, ChainPlace) -> io::Result<Arc<Gpu>> + Send;

/// Starts the GPUs of a chain, the master first.
fn start_chain(
    config: &Config,
    chain: &AdapterChain<'_>,
    roles: &mut [Option<(Roles, Option<SecurityConfig>)>],
    memory: &Arc<CrossAdapterMemory>,
    start_gpu: &StartGpu,
) -> anyhow::Result<Vec<Arc<Gpu>>> {
    let mut gpus = Vec::new();
    let displays = chain.displays().context("cannot make the displays")?;
    for ((place, _, adapter), displays) in chain.members.iter().zip(displays) {
        let roles = roles.get_mut(*place).and_then(Option::take);
        let ((kernels, video), security) = roles.context("an adapter is in two chains")?;
        let kernels = kernels.unwrap_or_else(|why| KernelsConfig::none(&why));
        let gpu = GpuConfig { security, ..config.gpu(adapter, kernels, video, displays) };
        // The graphics kernel has the master's times.
        let GpuConfig { idle, hang, quantum, .. } = *gpus.first().unwrap_or(&gpu);
        gpus.push(GpuConfig { idle, hang, quantum, ..gpu });
    }
    let places = Gpu::chain(&gpus).context("cannot make the chain")?;
    let started = gpus.into_iter().zip(places);
    let started = started.map(|(gpu, place)| start_gpu(gpu, Arc::clone(memory), place));
    started.collect::<io::Result<_>>().context("cannot start the engines")
}

pub(super) struct Tasks {
    /// For each adapter, what its guests are attached to.
    hosts: Vec<Host>,
    kernel: KernelHandle,
    config: Config,
    control_plane: JoinHandle<()>,
    interrupts: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    servers: JoinSet<()>,
    tools: JoinSet<()>,
    gate: Gate,
    /// The sockets, for the operator.
    sockets: Vec<OperatedSocket>,
}

impl Tasks {
    /// Starts the control plane, and the engines with `start_gpu`; workers do this for adapters, and these are their
    /// security nodes, in the order of the adapters. Called within a runtime.
    pub(super) fn start(
        config: &Config,
        roles: Vec<Roles>,
        security: Vec<Option<SecurityConfig>>,
        start_gpu: &StartGpu,
    ) -> anyhow::Result<Self> {
        let cross_adapter_fences = config.cross_adapter_fences();
        let memory = CrossAdapterMemory::new(cross_adapter_fences);
        let memory = Arc::new(memory.context("cannot allocate memory for fences")?);
        let calls = Calls::new().context(
            "cannot set up asynchronous I/O for signaling guests; raise fs.aio-max-nr, or allow io_setup",
        )?;
        let calls = Arc::new(calls);
        // Before the first guest, so that this descriptor does not count as one that a guest leaves behind.
        lost_memory::event().context("cannot watch for memory that guests lose")?;
        let (kernel, mailbox) = control_plane::channel();
        let (mut hosts, mut states, mut interrupts) = (Vec::new(), Vec::new(), Vec::new());
        let mut roles: Vec<_> = roles.into_iter().zip(security).map(Some).collect();
        for (chain, ordinal) in config.chains().iter().zip(0..) {
            let mut gpus = start_chain(config, chain, &mut roles, &memory, start_gpu)?;
            let Some((_, name, adapter)) = chain.members.first() else { continue };
            let (gpu, slaves) = (gpus.remove(0), gpus);
            let state =
                Kernel::linked(gpu.clone(), slaves.clone(), adapter.os_features(), config.limits())
                    .context("cannot initialise the adapter")?
                    .with_name(name)
                    .with_power_policy(adapter.power())
                    .with_gpu_power_policy(chain.power())
                    .with_timeout(adapter.timeout.get())
                    .with_tdr_policy(adapter.tdr());
            states.push(state);
            let kernel = kernel.of(AdapterId(ordinal));
            for gpu in std::iter::once(&gpu).chain(&slaves) {
                let raised = Readable::watch(gpu.interrupt_fd());
                let raised = raised.context("cannot watch for interrupts")?;
                let forwarding = forward_interrupts(raised, gpu.clone(), kernel.clone());
                interrupts.push(tokio::spawn(forwarding));
            }
            gpu.link(slaves);
            hosts.push(Host {
                gpu,
                kernel,
                bar: config.bar(),
                segments: config.segments(),
                features: config.features(adapter),
                identity: None,
                sharing: SharingGroups::NONE,
                standing: Arc::new(Standing::new(
                    config.guest.weight.get(),
                    config.guest.physical_doorbells_reserved.get(),
                    config.guest.connections.get(),
                )),
                span: Span::none(),
                calls: Arc::clone(&calls),
                memory_limit: config.memory_limit(),
                maps_bar: config.guest.bar,
                connections: config.guest.connections.get(),
                remaps_doorbells: adapter.remaps_doorbells(),
            });
        }
        let adapters = Adapters::new(states).with_cross_adapter_fences(cross_adapter_fences);
        let control_plane = tokio::spawn(control_plane::run(adapters, mailbox));
        let (stop, _) = watch::channel(false);
        let (servers, tools) = (JoinSet::new(), JoinSet::new());
        let config = config.clone();
        let (gate, sockets) = (Gate::default(), Vec::new());
        Ok(Self {
            hosts,
            kernel,
            config,
            control_plane,
            interrupts,
            stop,
            servers,
            tools,
            gate,
            sockets,
        })
    }

    /// A handle to the kernel of the first adapter, which gives access to the others.
    pub(super) fn kernel(&self) -> &KernelHandle {
        &self.kernel
    }

    /// Starts to serve a socket.
    pub(super) fn serve(&mut self, endpoint: Endpoint) -> anyhow::Result<Served> {
        let address = endpoint.address.as_deref();
        let host = self.hosts.get(self.config.adapter_of(address));
        let host = host.context("there is no adapter for the socket")?;
        let (weight, sharing) = (self.config.weight(address), self.config.sharing(address));
        let reserved = self.config.guest.physical_doorbells_reserved.get();
        let connections = self.config.guest.connections.get();
        let standing = Arc::new(Standing::new(weight, reserved, connections));
        let span = socket_span(address);
        let identity = address.map(super::security::identity);
        let host = Host { standing, sharing, identity, span: span.clone(), ..host.clone() };
        let name = socket_name(address);
        let adapter = self.config.adapter_of(address);
        let server = Server::new(host.clone(), endpoint, self.stop.subscribe(), self.gate.clone());
        let server = server.context("cannot watch a socket")?;
        let served = server.served();
        let chains = self.config.chains();
        let master = chains.get(adapter).and_then(|chain| chain.members.first());
        let physical_doorbells = master.map_or(0, |(_, _, of)| of.physical_doorbells.get());
        self.sockets.push(OperatedSocket {
            address: name,
            adapter: u32::try_from(adapter).unwrap_or(u32::MAX),
            physical_doorbells,
            host,
            served: served.clone(),
        });
        self.servers.spawn(server.run().instrument(span));
        Ok(served)
    }

    /// Starts to serve tools of this host. Guests do not depend on this.
    pub(super) fn serve_tools(&mut self, control: ControlSocket) {
        let screens = Screens::new(self.hosts.iter().map(|host| Arc::clone(&host.gpu)));
        let serving = control.serve(self.kernel.clone(), screens, self.stop.subscribe());
        self.tools.spawn(async move {
            if let Err(error) = serving.await {
                error!(%error, "the control socket failed; tools can no longer connect");
            }
        });
    }

    /// Starts to serve the operator, for the sockets that are served by now. The receiver gets the operator's order to
    /// stop. Guests do not depend on this.
    pub(super) fn serve_operator(
        &mut self,
        operator: OperatorSocket,
        log: SocketShares,
    ) -> mpsc::Receiver<()> {
        let (stop, stopping) = mpsc::channel(1);
        let guest = &self.config.guest;
        let rates = [
            (guest.log_lines_per_second.get(), guest.log_burst.get()),
            (guest.worker_starts_per_second.get(), guest.worker_start_burst.get()),
        ];
        let sockets = std::mem::take(&mut self.sockets);
        let gpus: Vec<_> = self.hosts.iter().map(|host| Arc::clone(&host.gpu)).collect();
        let operated = Operated {
            rates: Rates { log, of_sockets: vec![rates; sockets.len()].into() },
            sockets,
            kernel: self.kernel.clone(),
            screens: Screens::new(gpus.iter().cloned()),
            gpus,
            gate: self.gate.clone(),
            stop,
        };
        let serving = operator.serve(operated, self.stop.subscribe());
        self.tools.spawn(async move {
            if let Err(error) = serving.await {
                error!(%error, "the operator's socket failed; nobody can operate the daemon");
            }
        });
        stopping
    }

    /// Number of served sockets.
    pub(super) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Waits until a server ends; `None` when all have ended.
    pub(super) async fn server_ended(&mut self) -> Option<anyhow::Result<()>> {
        let ended = self.servers.join_next().await?;
        Some(ended.context("a server ended"))
    }

    /// Ends all connections, then all other tasks.
    pub(super) async fn stop(mut self) {
        // An error means that all servers have ended already.
        let _ = self.stop.send(true);
        while self.servers.join_next().await.is_some() {}
        // Ending them removes their sockets' files.
        while self.tools.join_next().await.is_some() {}
        for forwarding in &self.interrupts {
            forwarding.abort();
        }
        self.control_plane.abort();
    }
}

/// Forwards the hardware's interrupts to the kernel.
async fn forward_interrupts(raised: Readable, gpu: Arc<Gpu>, kernel: KernelHandle) {
    loop {
        if let Err(error) = raised.readable().await {
            error!(%error, "cannot watch for interrupts any longer; restart the daemon");
            return;
        }
        // Acknowledged before the kernel takes the interrupts, so that one raised in between is announced again.
        gpu.acknowledge_interrupt();
        kernel.interrupt();
    }
}
