// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls that one GPU answers: the one of the queue or of the node, or the master for what the chain shares.

use super::LinkedPlatform;
use crate::hardware::{
    Adapter, AddressSpaceId, BusyOf, Chain, ConnectorUse, CurrentValues, DoorbellModel,
    DoorbellPages, FenceLogContents, FrontEnd, GpuOrdinal, GuestId, HardwareFull, HostClocks,
    HwQueueId, KernelDescription, Memory, NodeDescription, Observe, Platform, ProcessBarId,
    ProcessBarPlace, ProcessBars, QueueLog, Quiescence, RotationProgress, Segment, SlotValue,
    Ticket, UnknownId, WorkerDescription,
};
use bellhop_protocol::bar::{AreaKind, BarLayout};
use bellhop_protocol::control::adapter::Statistics;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::security::SecurityCaps;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::fence_log::FenceLog;
use bellhop_protocol::snapshot::{Cgroup, Cgroups};
use delegate::delegate;

impl Adapter for LinkedPlatform {
    fn nodes(&self) -> &[NodeDescription] {
        &self.nodes
    }

    fn physical_doorbells(&self) -> u32 {
        self.gpus.iter().map(|gpu| gpu.physical_doorbells()).sum()
    }

    delegate! {
        to self.master() {
            fn doorbell_model(&self) -> DoorbellModel;
        }
    }
}

impl Chain for LinkedPlatform {
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
}

impl Memory for LinkedPlatform {
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

impl ProcessBars for LinkedPlatform {
    delegate! {
        to self.master() {
            fn add_process_bar(&self, guest: GuestId, bar: ProcessBarId, layout: BarLayout, extents: &[Extent]) -> Result<bool, UnknownId>;
            fn remove_process_bar(&self, guest: GuestId, bar: ProcessBarId) -> Result<(), UnknownId>;
            fn place_doorbell(&self, guest: GuestId, slot: u32, place: Option<ProcessBarPlace>) -> Result<(), UnknownId>;
            fn place_fence(&self, guest: GuestId, slot: u32, place: Option<ProcessBarPlace>) -> Result<(), UnknownId>;
        }
    }
}

impl CurrentValues for LinkedPlatform {
    delegate! {
        to self.master() {
            fn fence_value(&self, guest: GuestId, slot: u32) -> Result<u64, UnknownId>;
            fn update_current_values(&self, guest: GuestId, values: &[SlotValue], always: bool) -> Result<(), UnknownId>;
            fn notify_current_values(&self, guest: GuestId, slots: &[u32], always: bool) -> Result<(), UnknownId>;
        }
    }
}

impl FenceLogContents for LinkedPlatform {
    delegate! {
        to self.of(log.queue) {
            fn with_fence_log(&self, log: QueueLog, act: &mut dyn FnMut(FenceLog<'_>)) -> Result<(), UnknownId>;
        }
    }
}

impl DoorbellPages for LinkedPlatform {
    delegate! {
        to self.of(queue) {
            fn last_queued_value(&self, queue: HwQueueId) -> Result<u64, UnknownId>;
            fn rotate_to_physical(&self, queue: HwQueueId) -> Result<RotationProgress, UnknownId>;
            fn rotate_to_dummy(&self, queue: HwQueueId) -> Result<(), UnknownId>;
            fn publish_connected(&self, queue: HwQueueId, status: ConnectionStatus) -> Result<(), UnknownId>;
            fn publish_disconnected(&self, queue: HwQueueId, reason: ConnectionStatus) -> Result<(), UnknownId>;
        }
    }
}

impl Quiescence for LinkedPlatform {
    delegate! {
        to self.of(queue) {
            fn lose_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId>;
        }
        to self.master() {
            // A ticket of one GPU is a ticket of all engines of the chain.
            fn quiesce(&self, guest: Option<GuestId>) -> Ticket;
            fn quiesced(&self) -> Ticket;
            fn withheld(&self) -> Vec<(GuestId, Ticket)>;
        }
    }
}

impl Observe for LinkedPlatform {
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
        let of_gpu = |(_, first_node, gpu): (_, u32, &dyn Platform)| {
            let node = move |worker: &WorkerDescription| worker.node.map(|node| first_node + node);
            let workers = gpu.workers().into_iter();
            workers.map(move |worker| WorkerDescription { node: node(&worker), ..worker })
        };
        let mut workers: Vec<_> = self.each().flat_map(of_gpu).collect();
        workers.sort_unstable_by_key(|worker| worker.pid);
        workers
    }

    fn connector_use(&self, guest: GuestId, child: u32) -> Result<ConnectorUse, UnknownId> {
        // The master reports a child that no GPU has.
        let own = self.shared.displays().children.own(child);
        let (gpu, child) = own.unwrap_or((GpuOrdinal::MASTER, child));
        self.gpu(gpu).connector_use(guest, child)
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
