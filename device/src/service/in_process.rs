// SPDX-License-Identifier: MIT OR Apache-2.0

//! The service embedded in another program.

use super::config::Config;
use super::kernels::{self, Roles, Worker};
use super::security;
use super::server::Served;
use super::socket::Endpoint;
use super::tasks::{StartGpu, Tasks};
use crate::control_plane::KernelHandle;
use crate::gpu::{Gpu, SecurityConfig};
use anyhow::Context;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::warn;

/// Engines, control plane and sockets of `bellhopd` in this process, without its command line, signals and log.
/// Dropping it ends them all.
pub struct Service {
    /// Dropped to end the service's thread.
    orders: Option<UnboundedSender<Order>>,
    kernel: KernelHandle,
    thread: Option<JoinHandle<()>>,
}

/// A socket to serve, and the channel for the result.
struct Order {
    endpoint: Endpoint,
    answer: mpsc::SyncSender<anyhow::Result<Served>>,
}

impl Service {
    /// Starts the service, without a socket. Its guests cannot run kernels.
    ///
    /// # Errors
    /// If engines or threads cannot be started.
    pub fn start(config: &Config) -> anyhow::Result<Self> {
        Self::start_with(config, None, Box::new(Gpu::start_in_chain))
    }

    /// Starts the service, without a socket, after a test of the host's Vulkan. Workers that run kernels are started
    /// with this program.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with_workers(config: &Config, worker: &Worker) -> anyhow::Result<Self> {
        Self::start_with(config, Some(worker), Box::new(Gpu::start_in_chain))
    }

    /// Starts the service with one adapter; the caller runs its first engine.
    ///
    /// # Errors
    /// As [`Self::start`].
    #[cfg(feature = "stepped")]
    pub fn start_stepped(config: &Config) -> anyhow::Result<(Self, crate::gpu::SteppedEngine)> {
        let (engine, started) = mpsc::channel();
        let start = move |config, memory, place| Gpu::start_stepped(config, memory, place, &engine);
        let service = Self::start_with(config, None, Box::new(start))?;
        Ok((service, started.recv().context("there is no engine")?))
    }

    fn start_with(
        config: &Config,
        worker: Option<&Worker>,
        start_gpu: Box<StartGpu>,
    ) -> anyhow::Result<Self> {
        let security = security::find(config, worker)?;
        let roles = match worker {
            Some(worker) => kernels::find_roles(config, worker),
            None => {
                kernels::no_roles(config, "the program that contains this device has no workers")
            }
        };
        let (orders, received) = unbounded_channel();
        let (started, starting) = mpsc::sync_channel(1);
        let config = config.clone();
        let thread = Builder::new()
            .name("control-plane".into())
            .spawn(move || run(&config, roles, security, &start_gpu, received, &started))
            .context("cannot start the control plane")?;
        let kernel = starting.recv().context("the control plane ended at its start")??;
        Ok(Self { orders: Some(orders), kernel, thread: Some(thread) })
    }

    /// The kernel, for host commands.
    #[must_use]
    pub fn kernel(&self) -> &KernelHandle {
        &self.kernel
    }

    /// Starts to serve a socket.
    ///
    /// # Errors
    /// If the socket cannot be watched.
    pub fn serve(&self, endpoint: Endpoint) -> anyhow::Result<Served> {
        let (answer, answered) = mpsc::sync_channel(1);
        let sent = self.orders.as_ref().map(|orders| orders.send(Order { endpoint, answer }));
        sent.and_then(Result::ok).context("the service has ended")?;
        answered.recv().context("the service has ended")?
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn run(
    config: &Config,
    roles: Vec<Roles>,
    security: Vec<Option<SecurityConfig>>,
    start_gpu: &StartGpu,
    orders: UnboundedReceiver<Order>,
    started: &mpsc::SyncSender<anyhow::Result<KernelHandle>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // The receivers exist: `start` waits for this result, and `serve` for each answer.
    let runtime = match runtime.context("cannot start the control plane") {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        match Tasks::start(config, roles, security, start_gpu) {
            Ok(tasks) => {
                let _ = started.send(Ok(tasks.kernel().clone()));
                serve(tasks, orders).await;
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    });
}

async fn serve(mut tasks: Tasks, mut orders: UnboundedReceiver<Order>) {
    loop {
        let serves = tasks.servers() > 0;
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order { endpoint, answer }) => {
                    let _ = answer.send(tasks.serve(endpoint));
                }
                None => break,
            },
            ended = tasks.server_ended(), if serves => if let Some(Err(error)) = ended {
                warn!(%error, "stopped serving a socket");
            },
        }
    }
    tasks.stop().await;
}
