// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model as the driver and dxgkrnl reach it.

use super::{Call, Fence, GUEST_MEMORY, Model, Table, Work};
use bellhop_host_kmd::ddi::VirtualAddressingModel;
use bellhop_host_kmd::ddi::dma_buffer::DMA_BUFFERS_SIZE;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    Adapter, AddressSpaceId, BusyOf, DoorbellModel, Doorbells, EngineProgress, Engines,
    FenceLogBuffer, FenceLogs, FenceStorage, Fences, FrontEnd, GuestId, HardwareError,
    HardwareFull, HostClocks, HwQueueDescription, HwQueueId, Interrupt, Interrupts,
    KernelSubmission, Memory, NodeDescription, Observe, PageTableRange, PageTables,
    PhysicalDoorbell, Pte, QueueLog, Queues, RingBinding, RotationProgress, SchedulingPriority,
    Segment, SlotValue, SystemContext, SystemContexts, Ticket, UnknownId,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::adapter::{EngineType, Statistics};
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::doorbell::{ConnectionStatus, LoggingLevel};
use bellhop_protocol::fence_log::FENCE_LOG_SIZE;
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::handoff::fence_log::FenceLog;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

fn is_connected(status: ConnectionStatus) -> bool {
    [ConnectionStatus::CONNECTED, ConnectionStatus::CONNECTED_NOTIFY].contains(&status)
}

const NODES: &[NodeDescription] = &[
    NodeDescription {
        engine_type: EngineType::THREE_D,
        name: "compute",
        user_mode_submission: true,
    },
    NodeDescription { engine_type: EngineType::COPY, name: "copy", user_mode_submission: true },
];

impl Adapter for Model {
    fn nodes(&self) -> &[NodeDescription] {
        NODES
    }

    fn doorbell_model(&self) -> DoorbellModel {
        self.state().model
    }

    fn virtual_addressing_model(&self) -> VirtualAddressingModel {
        self.state().addressing
    }

    fn optimized_fence_interrupt(&self) -> bool {
        self.optimized_fence_interrupt
    }

    fn physical_doorbells(&self) -> u32 {
        self.physical_doorbells
    }
}

impl PageTables for Model {
    fn create_address_space(&self, guest: GuestId) -> Result<AddressSpaceId, HardwareError> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        if state.page_table_room == 0 {
            return Err(HardwareFull("page table").into());
        }
        let space = AddressSpaceId(state.id());
        state.spaces.insert(space, BTreeMap::new());
        Ok(space)
    }

    fn destroy_address_space(&self, space: AddressSpaceId) -> Result<(), UnknownId> {
        self.known(UnknownId::AddressSpace(space))?;
        let mut state = self.state();
        assert!(state.queues.values().all(|queue| queue.address_space != space));
        assert!(state.systems.values().all(|system| system.address_space != space));
        assert!(state.opened.values().all(|(_, owner)| *owner != space));
        assert!(state.passed > 0, "no ticket has passed since the queues went");
        state.spaces.remove(&space).expect("an address space that exists");
        Ok(())
    }

    fn take_accessed(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        length: u64,
    ) -> Result<bool, UnknownId> {
        self.known(UnknownId::AddressSpace(space))?;
        let accessed = &mut self.state().accessed;
        let before = accessed.len();
        accessed.retain(|(of, at)| *of != space || !(gpu_va..gpu_va + length).contains(at));
        Ok(accessed.len() < before)
    }

    fn forget_translations(&self) {
        self.state().looks += 1;
    }

    fn update_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError> {
        self.known(UnknownId::AddressSpace(space))?;
        let mut state = self.state();
        assert_eq!(gpu_va % page_size.bytes(), 0);
        for (index, entry) in entries.iter().enumerate() {
            let va = gpu_va + index as u64 * page_size.bytes();
            if entry.page().is_none() {
                state.log.push(Call::Invalidate(va));
                if state.spaces.get_mut(&space).unwrap().remove(&va).is_some() {
                    state.page_table_room += 1;
                }
                continue;
            }
            if state.page_table_room == 0 {
                return Err(HardwareFull("page table").into());
            }
            state.page_table_room -= 1;
            let before = state.spaces.get_mut(&space).unwrap().insert(va, *entry);
            assert_eq!(before, None, "{va:#x} was mapped already");
        }
        Ok(())
    }

    fn page_table_root(&self, space: AddressSpaceId) -> Result<u64, UnknownId> {
        self.known(UnknownId::AddressSpace(space))?;
        assert!(self.state().spaces.contains_key(&space));
        Ok(space.0 << 40)
    }

    fn locate_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        pages: u64,
        create: bool,
    ) -> Result<Vec<PageTableRange>, HardwareError> {
        self.known(UnknownId::AddressSpace(space))?;
        let mut state = self.state();
        assert_eq!(gpu_va % page_size.bytes(), 0);
        assert!(state.spaces.contains_key(&space));
        let mut ranges = Vec::new();
        let mut done = 0;
        while done < pages {
            let page = gpu_va / page_size.bytes() + done;
            let entries = (pages - done).min(512 - page % 512);
            let wanted = Table { space, page_size, first: page - page % 512 };
            let index = match state.tables.iter().position(|table| *table == wanted) {
                None if create && state.page_table_room == 0 => {
                    return Err(HardwareFull("page table").into());
                }
                None if create => {
                    state.page_table_room -= 1;
                    state.tables.push(wanted);
                    Some(state.tables.len() - 1)
                }
                found => found,
            };
            let address = index.map(|index| index as u64 * 4096 + page % 512 * 8);
            ranges.push(PageTableRange { address, entries: entries as u32 });
            done += entries;
        }
        Ok(ranges)
    }
}

impl SystemContexts for Model {
    fn create_system_context(&self, guest: GuestId) -> Result<SystemContext, HardwareError> {
        self.known(UnknownId::Guest(guest))?;
        let address_space = self.create_address_space(guest)?;
        let mut state = self.state();
        let hw_queue = HwQueueId(state.id());
        let node = NODES.len() as u32 - 1;
        let system = SystemContext { address_space, hw_queue, node };
        assert_eq!(state.systems.insert(guest, system), None, "a second system context");
        Ok(system)
    }

    fn submit_paging(
        &self,
        guest: GuestId,
        packets: &[u8],
        fence: u64,
    ) -> Result<(), HardwareError> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        let system = state.systems[&guest];
        assert!(!state.without_power.contains(&system.node), "power first");
        let room = state.paging_room;
        let queued = state.paging.entry(guest).or_default();
        if queued.len() >= room {
            return Err(HardwareFull("paging buffer").into());
        }
        assert!(queued.back().is_none_or(|(last, _)| *last < fence), "fences only increase");
        queued.push_back((fence, packets.to_vec()));
        if state.prompt_paging {
            drop(state);
            self.complete_paging(guest);
        }
        Ok(())
    }

    fn abandon_paging(&self, guest: GuestId, fence: u64) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        let queue = state.systems[&guest].hw_queue;
        assert!(state.suspended.remove(&queue), "it was not pre-empted");
        state.log.push(Call::AbandonPaging(guest, fence));
        Ok(())
    }
}

impl Memory for Model {
    fn zero_memory(
        &self,
        guest: GuestId,
        segment: Segment,
        offset: u64,
        length: u64,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        match segment {
            Segment::System => panic!("the guest's own memory"),
            Segment::Local => {
                state.local_words.retain(|(owner, at), _| {
                    *owner != guest || *at < offset || *at >= offset + length
                });
                state.log.push(Call::Zero(guest, offset, length));
            }
            Segment::CrossAdapter => {
                self.cross_adapter.lock().unwrap().remove(&offset);
                assert!(state.mappings_of(segment, offset).is_empty(), "an engine reaches it");
                state.log.push(Call::Zero(guest, offset, length));
            }
            Segment::Private | Segment::Backing | Segment::Fence => {}
        }
        Ok(())
    }

    fn place_area(
        &self,
        guest: GuestId,
        kind: AreaKind,
        extents: &[Extent],
    ) -> Result<bool, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        if state.places_nothing {
            return Ok(false);
        }
        let length: u64 = extents.iter().map(|extent| extent.length).sum();
        let before = state.placed.insert((guest, kind), length);
        assert_eq!(before, None, "{kind} was placed already");
        Ok(true)
    }

    fn is_guest_memory(
        &self,
        guest: GuestId,
        address: u64,
        length: u64,
    ) -> Result<bool, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(address.checked_add(length).is_some_and(|end| end <= GUEST_MEMORY))
    }

    fn read_local_word(&self, guest: GuestId, offset: u64) -> Result<u64, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        assert_eq!(offset % 8, 0);
        Ok(self.state().local_words.get(&(guest, offset)).copied().unwrap_or(0))
    }

    fn write_dma_buffer(
        &self,
        guest: GuestId,
        offset: u64,
        packets: &[u8],
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        assert!(offset + packets.len() as u64 <= DMA_BUFFERS_SIZE);
        self.state().log.push(Call::WriteDmaBuffer(guest, offset, packets.to_vec()));
        Ok(())
    }
}

impl Fences for Model {
    fn create_fence(
        &self,
        guest: GuestId,
        slot: u32,
        storage: FenceStorage,
        initial: Option<u64>,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        assert_ne!(storage.current, storage.monitored);
        let monitored = if storage.native { NOT_MONITORED } else { 0 };
        let fence = Fence { current: initial.unwrap_or(0), monitored, storage };
        let view = fence.view();
        let mut state = self.state();
        assert!(!state.opened.contains_key(&(guest, slot)), "somebody knows another by this slot");
        match (view, initial) {
            (Some(address), Some(initial)) => {
                let before = self.cross_adapter.lock().unwrap().insert(address, initial);
                assert_eq!(before, None, "a fence is there already");
            }
            (Some(address), None) => {
                assert!(self.cross_adapter.lock().unwrap().contains_key(&address), "no such fence");
            }
            (None, initial) => assert!(initial.is_some()),
        }
        state.fences.insert((guest, slot), fence);
        Ok(())
    }

    fn open_fence(
        &self,
        guest: GuestId,
        slot: u32,
        global: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        assert!(state.spaces.contains_key(&owner));
        let fence = state.fences.get(&(guest, global)).expect("there is such a fence");
        assert!(fence.view().is_none() || fence.monitored == 0, "signals would not interrupt");
        let before = state.opened.insert((guest, slot), (global, owner));
        assert_eq!(before, None, "a slot is one fence's");
        Ok(())
    }

    fn close_fence(&self, guest: GuestId, slot: u32) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        self.state().opened.remove(&(guest, slot)).expect("a fence that is open");
        Ok(())
    }

    fn fence_value(&self, guest: GuestId, slot: u32) -> Result<u64, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(self.current(self.state().fences[&(guest, slot)]))
    }

    fn update_monitored_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        state.log.push(Call::Monitor(values.to_vec()));
        let signal = state.signal_during_update.take();
        for SlotValue { slot, value } in values {
            let fence = state.fences.get_mut(&(guest, *slot)).unwrap();
            assert!(fence.storage.native, "a monitored fence's is 0");
            assert!(fence.view().is_none() || *value == 0, "it is 0 for the fence's life");
            fence.monitored = *value;
            fence.current = signal.unwrap_or(fence.current);
        }
        Ok(())
    }

    fn notify_current_values(
        &self,
        guest: GuestId,
        slots: &[u32],
        always: bool,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        assert!(slots.iter().all(|slot| state.fences[&(guest, *slot)].view().is_some()));
        state.log.push(Call::Notify(slots.to_vec(), always));
        Ok(())
    }

    fn update_current_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
        always: bool,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        state.log.push(Call::Signal(values.to_vec(), always));
        for SlotValue { slot, value } in values {
            let fence = state.fences.get_mut(&(guest, *slot)).unwrap();
            let least = fence.storage.rule.least(self.current(*fence));
            assert!(*value >= least, "a fence cannot go back");
            self.set_current(fence, *value);
        }
        Ok(())
    }
}

impl FenceLogs for Model {
    fn set_fence_log(&self, queue: HwQueueId, log: FenceLogBuffer) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(state.queues.contains_key(&queue));
        let words = (0..FENCE_LOG_SIZE / 8).map(|_| AtomicU64::new(0)).collect::<Arc<[_]>>();
        FenceLog::<6>::new(&words).unwrap().reset(log.log_type);
        let log = (queue, log.log_type, log.storage);
        let guest_of = |queue| state.queues[queue].guest;
        let mut others =
            state.fence_logs.iter().filter(|((other, _), _)| guest_of(other) == guest_of(&queue));
        assert!(others.all(|(_, (_, at))| *at != log.2), "another's log is there");
        let before = state.fence_logs.insert((log.0, log.1), (words, log.2));
        assert!(before.is_none(), "it has that log");
        Ok(())
    }

    fn with_fence_log(
        &self,
        log: QueueLog,
        act: &mut dyn FnMut(FenceLog<'_>),
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(log.queue))?;
        let (words, _) = self.state().fence_logs[&(log.queue, log.log_type)].clone();
        act(FenceLog::new(&words).unwrap());
        Ok(())
    }

    fn flush_fence_logs(&self, queues: &[HwQueueId]) {
        FenceLog::<6>::flush();
        self.state().log.push(Call::FlushLogs(queues.to_vec()));
    }

    fn set_logging_level(&self, level: LoggingLevel) {
        self.state().log.push(Call::LoggingLevel(level));
    }
}

impl Queues for Model {
    fn create_hw_queue(&self, description: HwQueueDescription) -> Result<HwQueueId, UnknownId> {
        self.known(UnknownId::AddressSpace(description.address_space))?;
        let mut state = self.state();
        assert!(state.spaces.contains_key(&description.address_space));
        let (_, owner) = state.opened[&(description.guest, description.progress_fence)];
        assert_eq!(owner, description.process, "it cannot signal its progress fence");
        let fence = state.fences[&(description.guest, description.progress_fence)];
        assert_eq!(fence.storage.native, description.native_progress_fence);
        let queue = HwQueueId(state.id());
        state.queues.insert(queue, description);
        Ok(queue)
    }

    fn destroy_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        if let Some((guest, _)) = state.systems.iter().find(|(_, system)| system.hw_queue == queue)
        {
            let guest = *guest;
            state.systems.remove(&guest);
            state.paging.remove(&guest);
            return Ok(());
        }
        assert!(!state.rings.contains_key(&queue));
        state.queues.remove(&queue).expect("a queue that exists");
        state.engines.forget(queue);
        state.fence_logs.retain(|(of, _), _| *of != queue);
        state.suspended.remove(&queue);
        state.log.push(Call::DestroyQueue(queue));
        Ok(())
    }

    fn kick(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(state.queues.contains_key(&queue));
        state.engines.kick(queue);
        state.use_doorbell(queue);
        state.log.push(Call::Kick(queue));
        Ok(())
    }

    fn suspend_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        queues.iter().try_for_each(|queue| self.known(UnknownId::HwQueue(*queue)))?;
        let mut state = self.state();
        for queue in queues {
            if state.systems.values().any(|system| system.hw_queue == *queue) {
                continue;
            }
            assert!(state.queues.contains_key(queue));
            state.suspended.insert(*queue);
        }
        state.log.push(Call::Suspend(queues.to_vec()));
        Ok(())
    }

    fn set_scheduling_priority(
        &self,
        queues: &[HwQueueId],
        priority: SchedulingPriority,
    ) -> Result<(), UnknownId> {
        queues.iter().try_for_each(|queue| self.known(UnknownId::HwQueue(*queue)))?;
        let mut state = self.state();
        assert!(queues.iter().all(|queue| state.queues.contains_key(queue)));
        state.log.push(Call::Priority(queues.to_vec(), priority));
        Ok(())
    }

    fn preempt_hw_queue(&self, queue: HwQueueId, preemption_fence: u64) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        let is_system = state.systems.values().any(|system| system.hw_queue == queue);
        assert!(is_system || state.queues.contains_key(&queue));
        state.suspended.insert(queue);
        state.log.push(Call::Preempt(queue, preemption_fence));
        Ok(())
    }

    fn resume_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        queues.iter().try_for_each(|queue| self.known(UnknownId::HwQueue(*queue)))?;
        let mut state = self.state();
        for queue in queues {
            let description = state.queues[queue];
            assert!(!state.without_power.contains(&description.node), "power first");
            if let Some(ring) = state.rings.get(queue) {
                let space = description.address_space;
                assert!(state.mapped(space, ring.ring_va).is_some(), "the ring is evicted");
            }
            assert!(state.suspended.remove(queue), "{queue:?} was not suspended");
            state.engines.kick(*queue);
        }
        state.log.push(Call::Resume(queues.to_vec()));
        Ok(())
    }

    fn submit_kernel_mode(
        &self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        if state.submission_room == 0 {
            return Err(HardwareFull("submission").into());
        }
        state.submission_room -= 1;
        let work = Work {
            value: submission.progress_fence_value,
            submission: Some(submission.submission_fence),
            ..Work::default()
        };
        state.engines.give(queue, work);
        state.log.push(Call::Submit(queue, submission));
        Ok(())
    }

    fn current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        Ok(self.state().completed.get(&queue).copied().unwrap_or(0))
    }
}

impl Doorbells for Model {
    fn doorbell_share(&self, guest: GuestId) -> Result<u32, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(self.state().doorbell_shares.get(&guest).copied().unwrap_or(0))
    }

    fn last_use(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        Ok(self.state().last_uses.get(&queue).copied().unwrap_or(0))
    }

    fn bind_ring(&self, queue: HwQueueId, ring: RingBinding) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        let guest = state.queues[&queue].guest;
        let space = state.queues[&queue].address_space;
        for offset in (0..ring.ring_size).step_by(PAGE_SIZE as usize) {
            assert!(!state.mapped(space, ring.ring_va + offset).unwrap().is_writable());
        }
        assert!(state.mapped(space, ring.control_va).unwrap().is_writable());
        for (other, binding) in &state.rings {
            assert!(state.queues[other].guest != guest || binding.slot != ring.slot);
        }
        assert_eq!(state.rings.insert(queue, ring), None);
        state.status.insert(queue, ConnectionStatus::DISCONNECTED_RETRY);
        state.log.push(Call::Bind(queue, ring));
        Ok(())
    }

    fn unbind_ring(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(state.watches.values().all(|watched| *watched != queue));
        assert!(!state.global_watches.contains(&queue));
        state.rings.remove(&queue).expect("a ring");
        state.engines.forget(queue);
        state.log.push(Call::Unbind(queue));
        Ok(())
    }

    fn watch(&self, doorbell: PhysicalDoorbell, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(doorbell.0 < self.physical_doorbells);
        assert!(state.rings.contains_key(&queue));
        assert!(!state.without_power.contains(&state.queues[&queue].node), "power first");
        assert!(state.watches.values().all(|watched| *watched != queue));
        assert_eq!(state.watches.insert(doorbell, queue), None, "{doorbell:?} is taken");
        state.use_doorbell(queue);
        state.log.push(Call::Watch(doorbell, queue));
        Ok(())
    }

    fn unwatch(&self, doorbell: PhysicalDoorbell) -> Result<(), UnknownId> {
        let mut state = self.state();
        let queue = state.watches.remove(&doorbell).expect("a watch");
        assert!(!is_connected(state.status[&queue]), "the status must be published first");
        state.log.push(Call::Unwatch(doorbell));
        Ok(())
    }

    fn rotate_to_physical(&self, queue: HwQueueId) -> Result<RotationProgress, UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        if !state.rotates {
            return Ok(RotationProgress::Done);
        }
        assert!(state.watches.values().any(|watched| *watched == queue), "watch first");
        state.log.push(Call::RotateToPhysical(queue));
        Ok(RotationProgress::Pending)
    }

    fn rotate_to_dummy(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(!is_connected(state.status[&queue]), "the status must be published first");
        if state.rotates {
            state.log.push(Call::RotateToDummy(queue));
        }
        Ok(())
    }

    fn watch_global(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert_eq!(state.model, DoorbellModel::Global);
        assert!(state.rings.contains_key(&queue));
        assert!(state.global_watches.insert(queue), "watched already");
        state.log.push(Call::WatchGlobal(queue));
        Ok(())
    }

    fn unwatch_global(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(state.global_watches.remove(&queue), "not watched");
        assert!(!is_connected(state.status[&queue]), "the status must be published first");
        state.log.push(Call::UnwatchGlobal(queue));
        Ok(())
    }

    fn publish_connected(
        &self,
        queue: HwQueueId,
        status: ConnectionStatus,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        let is_watched = state.watches.values().any(|watched| *watched == queue);
        assert!(is_watched || state.global_watches.contains(&queue), "watch first");
        state.status.insert(queue, status);
        state.engines.kick(queue);
        state.log.push(Call::Connected(queue, status));
        Ok(())
    }

    fn publish_disconnected(
        &self,
        queue: HwQueueId,
        reason: ConnectionStatus,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        state.status.insert(queue, reason);
        state.log.push(Call::Disconnected(queue, reason));
        Ok(())
    }

    fn last_queued_value(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let state = self.state();
        Ok(state.last_queued.get(&queue).copied().unwrap_or(0))
    }
}

impl Engines for Model {
    fn engine_progress(&self, node: u32) -> Result<EngineProgress, UnknownId> {
        self.known(UnknownId::Node(node))?;
        let asleep = EngineProgress { is_asleep: true, ..EngineProgress::default() };
        Ok(self.state().progress.get(&node).copied().unwrap_or(asleep))
    }

    fn reset_engine(&self, node: u32) -> Result<(), UnknownId> {
        self.known(UnknownId::Node(node))?;
        self.state().log.push(Call::ResetEngine(node));
        Ok(())
    }

    fn reset_adapter(&self) {
        self.state().log.push(Call::ResetAdapter);
    }

    fn set_engine_power(
        &self,
        node: u32,
        power: EnginePowerState,
        transition: u64,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Node(node))?;
        let mut state = self.state();
        let changed = match power {
            EnginePowerState::F1 => {
                let connected =
                    state.watches.values().any(|queue| state.queues[queue].node == node);
                assert!(!connected, "a doorbell of the engine is connected");
                state.without_power.insert(node)
            }
            _ => state.without_power.remove(&node),
        };
        assert!(changed, "engine {node} was in {power} already");
        let last = state.transitions.insert(node, transition);
        assert!(last.is_none_or(|last| last < transition), "a transition's number is used again");
        state.engines.change_power(node, power == EnginePowerState::F0, transition);
        state.log.push(Call::EnginePower(node, power));
        Ok(())
    }

    fn quiesce(&self, _: Option<GuestId>) -> Ticket {
        let mut state = self.state();
        state.log.push(Call::Quiesce);
        state.issued += 1;
        if state.prompt {
            state.passed = state.issued;
        }
        Ticket(state.issued)
    }

    fn quiesced(&self) -> Ticket {
        Ticket(self.state().passed)
    }
}

impl Interrupts for Model {
    fn take_interrupts(&self) -> Vec<Interrupt> {
        std::mem::take(&mut self.state().interrupts)
    }
}

impl Observe for Model {
    fn guest_weight(&self, guest: GuestId) -> Result<u32, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(100)
    }

    fn statistics(&self, guest: GuestId) -> Result<Statistics, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(Statistics { packets: 7, ..Statistics::default() })
    }

    fn gpu_clock(&self) -> u64 {
        let mut state = self.state();
        state.clock += 1;
        state.clock
    }

    fn host_clocks(&self) -> HostClocks {
        HostClocks { monotonic: 10, boottime: 20, realtime: 30 }
    }

    fn begin_trace(&self, entries: u32) -> Result<(), HardwareFull> {
        let words = 5 + 6 * entries as usize;
        self.state().trace_log = Some((0..words).map(|_| AtomicU64::new(0)).collect());
        Ok(())
    }

    fn with_trace_log(&self, node: u32, act: &mut dyn FnMut(FenceLog<'_>)) {
        // All queues are on the first node's.
        let log = self.state().trace_log.clone().filter(|_| node == 0);
        log.iter().for_each(|words| act(FenceLog::new(words).unwrap()));
    }

    fn end_trace(&self) {
        self.state().trace_log = None;
    }

    fn front_end(&self, guest: GuestId) -> Option<FrontEnd> {
        Some(FrontEnd { socket: format!("/run/{}.sock", guest.0), ..FrontEnd::default() })
    }

    fn busy_time(&self, of: BusyOf) -> Result<u64, UnknownId> {
        Ok(match of {
            BusyOf::Engine(node) => 100 + u64::from(node),
            BusyOf::Queue(queue) => queue.0,
        })
    }
}
