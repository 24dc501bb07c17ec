// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest, the adapter and the objects with which behaviours are tried.

use crate::client::Shape;
use crate::conformance::behaviour::{Mismatch, Place, require};
use crate::guest::Guest;
use crate::onlooker::Onlooker;
use bellhop_guest_umd::transport::{Transport, TransportError};
use bellhop_guest_umd::{Adapter, Error, PlacementPolicy, QueueFault};
use bellhop_protocol::control::adapter::{EngineType, NodeMetadata};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::features::Features;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The longest that an event may take before it counts as not happening: long, because in an emulated machine a worker
/// for kernels takes tens of seconds to start.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of memory on a [`Bench`].
pub(super) const MEMORY: u64 = 256 << 10;

/// A guest with its adapter open.
pub(super) struct Scene {
    guest: Arc<dyn Guest>,
    adapter: Adapter,
    onlooker: Option<Arc<dyn Onlooker>>,
    shown: Mutex<Option<String>>,
}

impl Scene {
    pub(super) fn new(
        guest: Arc<dyn Guest>,
        placement: PlacementPolicy,
        onlooker: Option<Arc<dyn Onlooker>>,
    ) -> Result<Self, Error> {
        let transport = Arc::clone(&guest) as Arc<dyn Transport>;
        let adapter = Adapter::open_with(transport, placement)?;
        Ok(Self { guest, adapter, onlooker, shown: Mutex::default() })
    }

    pub(super) fn guest(&self) -> &dyn Guest {
        &*self.guest
    }

    pub(super) fn transport(&self) -> &dyn Transport {
        &*self.guest
    }

    pub(super) fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Who looks at the guest's monitors, if somebody does.
    pub(super) fn onlooker(&self) -> Option<&Arc<dyn Onlooker>> {
        self.onlooker.as_ref()
    }

    /// Shows a count beside the verdict, for people.
    pub(super) fn show(&self, counted: String) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
    }

    /// Fails with "not offered" unless these features are on.
    pub(super) fn needs(&self, features: Features) -> Result<(), Mismatch> {
        let missing = features - self.adapter.features();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Mismatch::NotOffered(format!("{missing} is not on")))
    }

    /// Fails with "not offered" behind a broker, where this is the broker's or not to be had.
    pub(super) fn needs_whole_guest(&self, what: &str) -> Result<(), Mismatch> {
        if self.guest.is_shared() {
            return Err(Mismatch::NotOffered(format!("behind a broker there is no {what}")));
        }
        Ok(())
    }

    /// The first node of a type.
    pub(super) fn node(&self, engine_type: EngineType) -> Result<u32, Mismatch> {
        let nodes = self.adapter.nodes()?;
        let mut ordinals = (0..).zip(&nodes);
        let found = ordinals.find(|(_, node)| node.engine_type == engine_type);
        found
            .map(|(ordinal, _)| ordinal)
            .ok_or(Mismatch::Seen(format!("there is no {engine_type} node")))
    }

    /// The type of Compute nodes, if there are any. "Not offered" if there are none.
    pub(super) fn compute_nodes(&self) -> Result<EngineType, Mismatch> {
        let is_compute = |node: &NodeMetadata| node.engine_type == EngineType::COMPUTE;
        if self.adapter.nodes()?.iter().any(is_compute) {
            return Ok(EngineType::COMPUTE);
        }
        Err(Mismatch::NotOffered("there is no Compute node".into()))
    }

    /// A bench in a process of its own, on the 3D node.
    pub(super) fn bench(&self) -> Result<Bench, Mismatch> {
        self.bench_on(EngineType::THREE_D)
    }

    /// A bench in a process of its own.
    pub(super) fn bench_on(&self, engine_type: EngineType) -> Result<Bench, Mismatch> {
        let shape = Shape { node: self.node(engine_type)?, memory: MEMORY, ..Shape::default() };
        Ok(Bench::new(self.adapter.open_process()?, shape)?)
    }
}

impl Place for Scene {
    fn take_shown(&self) -> Option<String> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_part(&self) -> bool {
        self.guest.is_shared()
    }

    fn check(&self) -> Result<(), TransportError> {
        self.transport().check()
    }
}

/// The client with which most behaviours are tried.
pub(super) use crate::client::Client as Bench;

impl Bench {
    /// Submits the commands and asserts that this loses the queue for this reason, and that another queue
    /// of the context works.
    pub(super) fn expect_fault(
        &mut self,
        reason: FaultReason,
        address: u64,
    ) -> Result<QueueFault, Mismatch> {
        let ended = self.submit().and_then(|value| self.finish(value));
        self.expect_lost(ended, reason, address)
    }

    /// Asserts that an operation failed because the queue was lost.
    pub(super) fn expect_lost(
        &mut self,
        ended: Result<(), Error>,
        reason: FaultReason,
        address: u64,
    ) -> Result<QueueFault, Mismatch> {
        let fault = match ended {
            Err(Error::QueueLost { fault: Some(fault), .. }) => fault,
            Err(error) => return Err(Mismatch::Seen(format!("instead of a fault: {error}"))),
            Ok(()) => return Err(Mismatch::Seen(format!("no {reason}, but success"))),
        };
        require!(fault.reason == reason, "{fault}, not {reason}");
        require!(fault.address == address, "{fault}, not at {address:#x}");
        let status = self.queue.status();
        let expected = ConnectionStatus::DISCONNECTED_ABORT;
        require!(status == expected, "the doorbell reads {status}");
        let mut neighbour = self.context.create_user_mode_queue(4096)?;
        self.commands.reset();
        self.commands.nop()?;
        let value = neighbour.submit(&mut self.commands)?;
        neighbour.progress_fence().poll(value, TIMEOUT)?;
        Ok(fault)
    }
}
