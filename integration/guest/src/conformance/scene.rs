//! What behaviours are tried with.

use super::{Mismatch, require};
use crate::guest::Guest;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{
    Adapter, CommandBuffer, Context, Device, Error, GpuMapping, PlacementPolicy, QueueFault,
    UserModeQueue,
};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::features::Features;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The longest that anything may take before it is taken not to happen.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of memory on a [`Bench`].
pub(super) const MEMORY: u64 = 256 << 10;

/// A guest with its adapter open.
pub(super) struct Scene {
    guest: Arc<dyn Guest>,
    adapter: Adapter,
    shown: Mutex<Option<String>>,
}

impl Scene {
    pub(super) fn new(guest: Arc<dyn Guest>, placement: PlacementPolicy) -> Result<Self, Error> {
        let transport = Arc::clone(&guest) as Arc<dyn Transport>;
        let adapter = Adapter::open_with(transport, placement)?;
        Ok(Self { guest, adapter, shown: Mutex::default() })
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

    /// Tells people what was counted, beside that the behaviour was seen.
    pub(super) fn show(&self, counted: String) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
    }

    /// What was to be told.
    pub(super) fn take_shown(&self) -> Option<String> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends a behaviour that needs what was not negotiated here.
    pub(super) fn needs(&self, features: Features) -> Result<(), Mismatch> {
        let missing = features - self.adapter.features();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Mismatch::NotOffered(format!("{missing} is not on")))
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

    /// A bench in a process of its own, on the compute node.
    pub(super) fn bench(&self) -> Result<Bench, Mismatch> {
        self.bench_on(EngineType::THREE_D)
    }

    /// A bench in a process of its own.
    pub(super) fn bench_on(&self, engine_type: EngineType) -> Result<Bench, Mismatch> {
        Bench::new(self.adapter.open_process()?, self.node(engine_type)?)
    }
}

/// A process with a device, a queue, a command buffer and some memory.
pub(super) struct Bench {
    // Dropped in this order.
    pub(super) queue: UserModeQueue,
    pub(super) commands: CommandBuffer,
    pub(super) memory: GpuMapping,
    pub(super) context: Context,
    pub(super) device: Device,
    pub(super) process: Adapter,
}

impl Bench {
    fn new(process: Adapter, node: u32) -> Result<Self, Mismatch> {
        let device = process.create_device()?;
        let context = device.create_context(node)?;
        let queue = context.create_user_mode_queue(4096)?;
        let commands = CommandBuffer::new(&device, 4096 - 64)?;
        let memory = device.create_allocation(AllocationKind::SYSTEM, MEMORY)?;
        let memory = memory.map(Protection::WRITE)?;
        Ok(Self { queue, commands, memory, context, device, process })
    }

    /// GPU virtual address of a byte of the memory.
    pub(super) fn va(&self, offset: u64) -> u64 {
        self.memory.gpu_va() + offset
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Mismatch> {
        Ok(self.memory.allocation().write(offset, bytes)?)
    }

    pub(super) fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>, Mismatch> {
        let mut bytes = vec![0; length];
        self.memory.allocation().read(offset, &mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn word(&self, offset: usize) -> Result<u64, Mismatch> {
        let mut bytes = [0; 8];
        self.memory.allocation().read(offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Submits the commands and waits until they are done.
    pub(super) fn run(&mut self) -> Result<(), Mismatch> {
        let value = self.queue.submit(&mut self.commands)?;
        self.queue.progress_fence().poll(value, TIMEOUT)?;
        self.commands.reset();
        Ok(())
    }

    /// Submits the commands and asserts that the queue is lost for this reason, while another
    /// queue of the same context goes on.
    pub(super) fn expect_fault(
        &mut self,
        reason: FaultReason,
        address: u64,
    ) -> Result<QueueFault, Mismatch> {
        let submitted = self.queue.submit(&mut self.commands);
        let ended = submitted.and_then(|value| self.queue.progress_fence().poll(value, TIMEOUT));
        self.expect_lost(ended, reason, address)
    }

    /// Asserts that an operation on the queue ended with its loss.
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
        let status = self.queue.status()?;
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
