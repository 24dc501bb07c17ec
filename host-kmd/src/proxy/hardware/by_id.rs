// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls that one GPU answers: the one of the queue or of the node, or the master for what the chain shares.

use super::LinkedHardware;
use crate::hardware::{
    Adapter, AddressSpaceId, BusyOf, DoorbellModel, Doorbells, EngineProgress, Engines,
    FenceLogBuffer, FenceLogs, FenceStorage, Fences, FrontEnd, GpuOrdinal, GuestId, Hardware,
    HardwareError, HardwareFull, HostClocks, HwQueueDescription, HwQueueId, Interrupt, Interrupts,
    KernelDescription, KernelSubmission, Memory, NodeDescription, Observe, PhysicalDoorbell,
    QueueLog, Queues, RingBinding, RotationProgress, SchedulingPriority, Segment, SlotValue,
    SystemContext, SystemContexts, Ticket, UnknownId, VirtualAddressingModel, WorkerDescription,
};
use crate::proxy::callbacks::of_chain;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::adapter::Statistics;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::control::security::SecurityCaps;
use bellhop_protocol::doorbell::{ConnectionStatus, LoggingLevel};
use bellhop_protocol::handoff::fence_log::FenceLog;
use bellhop_protocol::snapshot::{Cgroup, Cgroups};
use delegate::delegate;

impl Adapter for LinkedHardware {
    fn nodes(&self) -> &[NodeDescription] {
        &self.nodes
    }

    fn optimized_fence_interrupt(&self) -> bool {
        self.gpus.iter().all(|gpu| gpu.optimized_fence_interrupt())
    }

    fn gpu_count(&self) -> u8 {
        u8::try_from(self.gpus.len()).unwrap_or(u8::MAX)
    }

    /// A chain has one security node, whose keys its guests have: that of the first GPU with one.
    fn security_caps(&self) -> SecurityCaps {
        let mut caps = self.each().map(|(_, first_node, gpu)| {
            let caps = gpu.security_caps();
            SecurityCaps { node: first_node + caps.node, ..caps }
        });
        caps.find(SecurityCaps::is_supported).unwrap_or_default()
    }

    fn physical_doorbells(&self) -> u32 {
        self.gpus.iter().map(|gpu| gpu.physical_doorbells()).sum()
    }

    delegate! {
        to self.master() {
            fn doorbell_model(&self) -> DoorbellModel;
            fn virtual_addressing_model(&self) -> VirtualAddressingModel;
        }
    }
}

/// The graphics kernel creates and drives system contexts through the proxy.
impl SystemContexts for LinkedHardware {
    delegate! {
        to self.master() {
            fn create_system_context(&self, guest: GuestId) -> Result<SystemContext, HardwareError>;
            fn submit_paging(&self, guest: GuestId, packets: &[u8], fence: u64) -> Result<(), HardwareError>;
            fn abandon_paging(&self, guest: GuestId, fence: u64) -> Result<(), UnknownId>;
        }
    }
}

impl Memory for LinkedHardware {
    delegate! {
        to self.master() {
            fn zero_memory(&self, guest: GuestId, segment: Segment, offset: u64, length: u64) -> Result<(), UnknownId>;
            fn place_area(&self, guest: GuestId, kind: AreaKind, extents: &[Extent]) -> Result<bool, UnknownId>;
            fn is_guest_memory(&self, guest: GuestId, address: u64, length: u64) -> Result<bool, UnknownId>;
            fn read_local_word(&self, guest: GuestId, offset: u64) -> Result<u64, UnknownId>;
            fn write_dma_buffer(&self, guest: GuestId, offset: u64, packets: &[u8]) -> Result<(), UnknownId>;
        }
    }
}

impl Fences for LinkedHardware {
    delegate! {
        to self.master() {
            fn create_fence(&self, guest: GuestId, slot: u32, storage: FenceStorage, initial: Option<u64>) -> Result<(), UnknownId>;
            fn open_fence(&self, guest: GuestId, slot: u32, global: u32, owner: AddressSpaceId) -> Result<(), UnknownId>;
            fn close_fence(&self, guest: GuestId, slot: u32) -> Result<(), UnknownId>;
            fn fence_value(&self, guest: GuestId, slot: u32) -> Result<u64, UnknownId>;
            fn update_monitored_values(&self, guest: GuestId, values: &[SlotValue]) -> Result<(), UnknownId>;
            fn update_current_values(&self, guest: GuestId, values: &[SlotValue], always: bool) -> Result<(), UnknownId>;
            fn notify_current_values(&self, guest: GuestId, slots: &[u32], always: bool) -> Result<(), UnknownId>;
        }
    }
}

impl FenceLogs for LinkedHardware {
    delegate! {
        to self.of(queue) {
            fn set_fence_log(&self, queue: HwQueueId, log: FenceLogBuffer) -> Result<(), UnknownId>;
        }
        to self.of(log.queue) {
            fn with_fence_log(&self, log: QueueLog, act: &mut dyn FnMut(FenceLog<'_>)) -> Result<(), UnknownId>;
        }
        to self.master() {
            // One barrier serves the queues of all GPUs.
            fn flush_fence_logs(&self, queues: &[HwQueueId]);
        }
    }

    fn set_logging_level(&self, level: LoggingLevel) {
        self.gpus.iter().for_each(|gpu| gpu.set_logging_level(level));
    }
}

impl Queues for LinkedHardware {
    fn create_hw_queue(&self, description: HwQueueDescription) -> Result<HwQueueId, UnknownId> {
        let (gpu, node) = self.place(description.node);
        let address_space = self.shared.space(description.address_space, gpu);
        self.gpu(gpu).create_hw_queue(HwQueueDescription { node, address_space, ..description })
    }

    fn suspend_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        self.each_gpu(queues, |gpu, queues| gpu.suspend_hw_queues(queues))
    }

    fn resume_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        self.each_gpu(queues, |gpu, queues| gpu.resume_hw_queues(queues))
    }

    fn set_scheduling_priority(
        &self,
        queues: &[HwQueueId],
        priority: SchedulingPriority,
    ) -> Result<(), UnknownId> {
        self.each_gpu(queues, |gpu, queues| gpu.set_scheduling_priority(queues, priority))
    }

    delegate! {
        to self.of(queue) {
            fn destroy_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId>;
            fn lose_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId>;
            fn preempt_hw_queue(&self, queue: HwQueueId, preemption_fence: u64) -> Result<(), UnknownId>;
            fn submit_kernel_mode(&self, queue: HwQueueId, submission: KernelSubmission) -> Result<(), HardwareError>;
            fn current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId>;
            fn kick(&self, queue: HwQueueId) -> Result<(), UnknownId>;
        }
    }
}

impl Doorbells for LinkedHardware {
    delegate! {
        to self.master() {
            fn doorbell_share(&self, guest: GuestId) -> Result<u32, UnknownId>;
            // Drivers watch with the physical doorbells of their own GPUs.
            fn unwatch(&self, doorbell: PhysicalDoorbell) -> Result<(), UnknownId>;
        }
        to self.of(queue) {
            fn last_use(&self, queue: HwQueueId) -> Result<u64, UnknownId>;
            fn bind_ring(&self, queue: HwQueueId, ring: RingBinding) -> Result<(), UnknownId>;
            fn unbind_ring(&self, queue: HwQueueId) -> Result<(), UnknownId>;
            fn last_queued_value(&self, queue: HwQueueId) -> Result<u64, UnknownId>;
            fn watch(&self, doorbell: PhysicalDoorbell, queue: HwQueueId) -> Result<(), UnknownId>;
            fn watch_global(&self, queue: HwQueueId) -> Result<(), UnknownId>;
            fn unwatch_global(&self, queue: HwQueueId) -> Result<(), UnknownId>;
            fn rotate_to_physical(&self, queue: HwQueueId) -> Result<RotationProgress, UnknownId>;
            fn rotate_to_dummy(&self, queue: HwQueueId) -> Result<(), UnknownId>;
            fn publish_connected(&self, queue: HwQueueId, status: ConnectionStatus) -> Result<(), UnknownId>;
            fn publish_disconnected(&self, queue: HwQueueId, reason: ConnectionStatus) -> Result<(), UnknownId>;
        }
    }
}

impl Engines for LinkedHardware {
    fn engine_progress(&self, node: u32) -> Result<EngineProgress, UnknownId> {
        let (gpu, own) = self.node(node);
        gpu.engine_progress(own)
    }

    fn reset_engine(&self, node: u32) -> Result<(), UnknownId> {
        let (gpu, own) = self.node(node);
        gpu.reset_engine(own)
    }

    fn reset_adapter(&self) {
        self.gpus.iter().for_each(|gpu| gpu.reset_adapter());
    }

    fn set_engine_power(
        &self,
        node: u32,
        state: EnginePowerState,
        transition: u64,
    ) -> Result<(), UnknownId> {
        let (gpu, own) = self.node(node);
        gpu.set_engine_power(own, state, transition)
    }

    delegate! {
        to self.master() {
            // A ticket of one GPU is a ticket of all engines of the chain.
            fn quiesce(&self, guest: Option<GuestId>) -> Ticket;
            fn quiesced(&self) -> Ticket;
            fn withheld(&self) -> Vec<(GuestId, Ticket)>;
        }
    }
}

impl Interrupts for LinkedHardware {
    fn take_interrupts(&self) -> Vec<Interrupt> {
        let of_gpu = |(ordinal, first_node, gpu): (GpuOrdinal, u32, &dyn Hardware)| {
            let taken = gpu.take_interrupts().into_iter();
            taken
                .filter_map(|interrupt| of_chain(interrupt, (ordinal, first_node), &self.shared))
                .collect::<Vec<_>>()
        };
        self.each().flat_map(of_gpu).collect()
    }
}

impl Observe for LinkedHardware {
    fn begin_trace(&self, entries: u32) -> Result<(), HardwareFull> {
        for gpu in &self.gpus {
            if let Err(full) = gpu.begin_trace(entries) {
                self.end_trace();
                return Err(full);
            }
        }
        Ok(())
    }

    fn with_trace_log(&self, node: u32, act: &mut dyn FnMut(FenceLog<'_>)) {
        let (gpu, own) = self.node(node);
        gpu.with_trace_log(own, act);
    }

    fn end_trace(&self) {
        self.gpus.iter().for_each(|gpu| gpu.end_trace());
    }

    fn busy_time(&self, of: BusyOf) -> Result<u64, UnknownId> {
        match of {
            BusyOf::Engine(node) => {
                let (gpu, own) = self.node(node);
                gpu.busy_time(BusyOf::Engine(own))
            }
            BusyOf::Queue(queue) => self.of(queue).busy_time(of),
        }
    }

    fn workers(&self) -> Vec<WorkerDescription> {
        let of_gpu = |(_, first_node, gpu): (_, u32, &dyn Hardware)| {
            let node = move |worker: &WorkerDescription| worker.node.map(|node| first_node + node);
            let workers = gpu.workers().into_iter();
            workers.map(move |worker| WorkerDescription { node: node(&worker), ..worker })
        };
        let mut workers: Vec<_> = self.each().flat_map(of_gpu).collect();
        workers.sort_unstable_by_key(|worker| worker.pid);
        workers
    }

    fn cgroups(&self) -> Option<Cgroups> {
        self.gpus.iter().find_map(|gpu| gpu.cgroups())
    }

    fn guest_cgroups(&self, guest: GuestId) -> Vec<Cgroup> {
        self.gpus.iter().flat_map(|gpu| gpu.guest_cgroups(guest)).collect()
    }

    delegate! {
        to self.master() {
            fn gpu_clock(&self) -> u64;
            fn host_clocks(&self) -> HostClocks;
            fn front_end(&self, guest: GuestId) -> Option<FrontEnd>;
            fn guest_weight(&self, guest: GuestId) -> Result<u32, UnknownId>;
            fn statistics(&self, guest: GuestId) -> Result<Statistics, UnknownId>;
            fn kernels(&self, space: AddressSpaceId) -> Vec<KernelDescription>;
        }
    }
}
