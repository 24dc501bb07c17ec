//! The registers: what the control plane can do to the GPU.

use super::Gpu;
use super::chip::{attention, reset};
use super::host_memory::PAGING_BUFFERS;
use super::hw_queue::{HwQueue, Role, SUBMISSIONS};
use super::page_table::AddressSpace;
use super::partition::Partition;
use super::windows::PAGING_BUFFERS_START;
use bellhop_host_kmd::ddi::paging::{PAGING_BUFFER_SIZE, PageSize};
use bellhop_host_kmd::hardware::{
    AddressSpaceId, DoorbellModel, EngineProgress, FenceLogBuffer, FenceStorage, GuestId, Hardware,
    HardwareFull, HwQueueDescription, HwQueueId, Interrupt, KernelSubmission, NodeDescription,
    PageTableRange, PhysicalDoorbell, Pte, QueueLog, RingBinding, RotationProgress,
    SchedulingPriority, Segment, SlotValue, SystemContext, Ticket,
};
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::adapter::Statistics;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus, LoggingLevel};
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::fence::FenceCell;
use bellhop_protocol::handoff::fence_log::FenceLog;
use bellhop_protocol::handoff::power::Asked;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Logs that the caller named something that does not exist, which the trait asks not to panic
/// over.
macro_rules! no_such {
    ($($what:tt)*) => { tracing::error!("the GPU has no {}", format_args!($($what)*)) };
}

impl Gpu {
    pub(super) fn guest(&self, guest: GuestId) -> Option<Arc<Partition>> {
        let partition = self.registry().guests.get(&guest).cloned();
        if partition.is_none() {
            no_such!("{guest:?}");
        }
        partition
    }

    pub(super) fn queue(&self, queue: HwQueueId) -> Option<Arc<HwQueue>> {
        let found = self.registry().queues.get(&queue).cloned();
        if found.is_none() {
            no_such!("{queue:?}");
        }
        found
    }

    fn space(&self, space: AddressSpaceId) -> Option<Arc<AddressSpace>> {
        let found = self.registry().spaces.get(&space).map(|(_, space)| Arc::clone(space));
        if found.is_none() {
            no_such!("{space:?}");
        }
        found
    }

    /// Does something with the words of a queue's doorbell, if it has a ring.
    fn with_doorbell(&self, queue: &HwQueue, act: impl FnOnce(DoorbellWords<'_>)) {
        let ring = queue.ring.load_full();
        match ring.as_ref().and_then(|ring| queue.doorbell(ring)) {
            Some(words) => act(words),
            None => no_such!("doorbell of {:?}", queue.id),
        }
    }

    /// What a doorbell reads.
    fn status(&self, connection: ConnectionStatus) -> DoorbellStatus {
        DoorbellStatus::new(connection).with_logging_level(self.chip.logging_level())
    }

    fn kick_queue(&self, queue: &Arc<HwQueue>) {
        if let Some(port) = self.chip.engines.get(queue.engine as usize) {
            port.kick(queue);
        }
    }
}

impl Hardware for Gpu {
    fn nodes(&self) -> &[NodeDescription] {
        &self.nodes
    }

    fn doorbell_model(&self) -> DoorbellModel {
        self.doorbell_model
    }

    fn optimized_fence_interrupt(&self) -> bool {
        self.chip.optimized_fence_interrupt
    }

    fn physical_doorbells(&self) -> u32 {
        self.physical_doorbells
    }

    fn doorbell_share(&self, guest: GuestId) -> u32 {
        let own = self.guest(guest).and_then(|guest| guest.doorbell_share());
        own.unwrap_or_else(|| self.equal_doorbell_share())
    }

    fn last_use(&self, queue: HwQueueId) -> u64 {
        self.queue(queue).map_or(0, |queue| queue.last_use())
    }

    fn create_address_space(&self, guest: GuestId) -> Result<AddressSpaceId, HardwareFull> {
        let partition = self.guest(guest).ok_or(HardwareFull("guest"))?;
        let mut registry = self.registry();
        let id = AddressSpaceId(registry.new_id());
        let space = AddressSpace::new(id, &self.chip.nodes, partition.page_tables())?;
        registry.spaces.insert(id, (guest, Arc::new(space)));
        Ok(id)
    }

    fn destroy_address_space(&self, space: AddressSpaceId) {
        let mut registry = self.registry();
        match registry.spaces.remove(&space) {
            Some((guest, space)) => registry.park(guest, space),
            None => no_such!("{space:?}"),
        }
    }

    fn update_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareFull> {
        let Some(found) = self.space(space) else { return Ok(()) };
        for (entry, page) in entries.iter().zip(0u64..) {
            // An address that does not fit into 64 bits is as far out of range as any.
            let offset = page.saturating_mul(page_size.bytes());
            found.set(gpu_va.saturating_add(offset), page_size, *entry)?;
        }
        Ok(())
    }

    fn page_table_root(&self, space: AddressSpaceId) -> Option<u64> {
        self.space(space).map(|space| space.root())
    }

    fn locate_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        pages: u64,
        create: bool,
    ) -> Result<Vec<PageTableRange>, HardwareFull> {
        let Some(found) = self.space(space) else { return Ok(Vec::new()) };
        found.locate(gpu_va, page_size, pages, create)
    }

    fn take_accessed(&self, space: AddressSpaceId, gpu_va: u64, length: u64) -> bool {
        self.space(space).is_some_and(|space| space.take_accessed(gpu_va, length))
    }

    fn forget_translations(&self) {
        self.chip.forget_translations();
    }

    fn create_system_context(&self, guest: GuestId) -> Result<SystemContext, HardwareFull> {
        let partition = self.guest(guest).ok_or(HardwareFull("guest"))?;
        // The last node is a copy node if there is one.
        let node = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let mut registry = self.registry();
        let address_space = AddressSpaceId(registry.new_id());
        let space = AddressSpace::new(address_space, &self.chip.nodes, partition.page_tables())?;
        let space = Arc::new(space.with_windows(Arc::clone(partition.windows())));
        registry.spaces.insert(address_space, (guest, Arc::clone(&space)));
        let hw_queue = HwQueueId(registry.new_id());
        let queue = Arc::new(HwQueue::new(hw_queue, node, partition, space, Role::System));
        registry.queues.insert(hw_queue, Arc::clone(&queue));
        registry.system_queues.insert(guest, queue);
        Ok(SystemContext { address_space, hw_queue, node })
    }

    fn submit_paging(
        &self,
        guest: GuestId,
        packets: &[u8],
        fence: u64,
    ) -> Result<(), HardwareFull> {
        const FULL: HardwareFull = HardwareFull("paging buffer of this guest");
        let Some(queue) = self.registry().system_queues.get(&guest).cloned() else {
            no_such!("system context of {guest:?}");
            return Ok(());
        };
        if packets.len() > PAGING_BUFFER_SIZE {
            no_such!("paging buffer of {} bytes", packets.len());
            return Err(FULL);
        }
        // Buffers are fewer than the queue holds, so that from here on nothing is full.
        const { assert!(PAGING_BUFFERS as usize <= SUBMISSIONS) };
        let index = queue.partition.paging().take_buffer(fence).ok_or(FULL)?;
        if let Err(error) = queue.partition.write_paging_buffer(index, packets) {
            tracing::error!(%error, guest = guest.0, index, "a paging buffer was not written");
        }
        let submission = KernelSubmission {
            gpu_va: PAGING_BUFFERS_START + index * PAGING_BUFFER_SIZE as u64,
            size: u32::try_from(packets.len()).unwrap_or(u32::MAX),
            progress_fence_value: 0,
            submission_fence: fence,
        };
        // Hands over what is in the buffer, and whatever the control plane did before.
        queue.submissions.push(submission).map_err(|_| FULL)?;
        self.kick_queue(&queue);
        Ok(())
    }

    fn abandon_paging(&self, guest: GuestId, fence: u64) {
        let Some(queue) = self.registry().system_queues.get(&guest).cloned() else {
            no_such!("system context of {guest:?}");
            return;
        };
        // Before the kick, at which the engine looks.
        queue.partition.paging().abandon(fence);
        queue.membership.resume();
        self.kick_queue(&queue);
    }

    fn zero_memory(&self, guest: GuestId, segment: Segment, offset: u64, length: u64) {
        let Some(partition) = self.guest(guest) else { return };
        if let Err(error) = partition.zero(segment, offset, length) {
            tracing::error!(%error, guest = guest.0, ?segment, offset, length, "memory was not zeroed");
        }
    }

    fn place_area(&self, guest: GuestId, kind: AreaKind, extents: &[Extent]) -> bool {
        let Some(partition) = self.guest(guest) else { return false };
        if kind != AreaKind::LOCAL_MEMORY {
            return partition.bar().donate(kind, partition.memory(), extents);
        }
        partition.windows().place_local(extents);
        true
    }

    fn is_guest_memory(&self, guest: GuestId, address: u64, length: u64) -> bool {
        self.guest(guest).is_some_and(|guest| guest.memory().is_system_memory(address, length))
    }

    fn read_local_word(&self, guest: GuestId, offset: u64) -> u64 {
        let Some(partition) = self.guest(guest) else { return 0 };
        partition.bar().local_word(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn create_fence(&self, guest: GuestId, slot: u32, storage: FenceStorage, initial: Option<u64>) {
        let Some(partition) = self.guest(guest) else { return };
        if !partition.create_fence(slot, storage, initial) {
            no_such!("fence slot {slot} at {storage:?}");
        }
    }

    fn open_fence(&self, guest: GuestId, slot: u32, global: u32, owner: AddressSpaceId) {
        if let Some(partition) = self.guest(guest) {
            partition.fences().open(slot, global, owner);
        }
    }

    fn close_fence(&self, guest: GuestId, slot: u32) {
        if let Some(partition) = self.guest(guest) {
            self.chip.release_waiters(partition.fences().close(slot, partition.bar()));
        }
    }

    fn fence_value(&self, guest: GuestId, slot: u32) -> u64 {
        let Some(partition) = self.guest(guest) else { return 0 };
        partition.fence(slot).map_or(0, |fence| fence.cell.current())
    }

    fn update_monitored_values(&self, guest: GuestId, values: &[SlotValue]) {
        let Some(partition) = self.guest(guest) else { return };
        FenceCell::monitor(
            values.iter().filter_map(|SlotValue { slot, value }| {
                Some((partition.fence(*slot)?.cell, *value))
            }),
        );
    }

    fn update_current_values(&self, guest: GuestId, values: &[SlotValue], always: bool) {
        let Some(partition) = self.guest(guest) else { return };
        for SlotValue { slot, value } in values {
            let Some(fence) = partition.fence(*slot) else {
                no_such!("fence slot {slot}");
                continue;
            };
            if always {
                // First: no later signal is one then, but one that goes backwards.
                self.chip.release_waiters(fence.abandon().engines);
            }
            // Where an engine got further there is nothing to do. Who waits on a CPU is the caller's to
            // find.
            if let Ok(signaled) = fence.cell.signal(fence.published, *value) {
                self.chip.release_waiters(signaled.engines);
            }
        }
    }

    fn notify_current_values(&self, guest: GuestId, slots: &[u32], always: bool) {
        let Some(partition) = self.guest(guest) else { return };
        for slot in slots {
            let Some(fence) = partition.fence(*slot) else {
                no_such!("fence slot {slot}");
                continue;
            };
            let signaled = match always {
                true => fence.abandon(),
                false => fence.cell.evaluate(fence.published),
            };
            // Who waits on a CPU is the caller's to find.
            self.chip.release_waiters(signaled.engines);
        }
    }

    fn create_hw_queue(&self, description: HwQueueDescription) -> HwQueueId {
        let HwQueueDescription { guest, context, address_space, process, node, .. } = description;
        let HwQueueDescription { progress_fence, disable_gpu_timeout, .. } = description;
        let mut registry = self.registry();
        let id = HwQueueId(registry.new_id());
        let partition = registry.guests.get(&guest).cloned();
        let space = registry.spaces.get(&address_space).map(|(_, space)| Arc::clone(space));
        match (partition, space) {
            (Some(partition), Some(space)) if (node as usize) < self.nodes.len() => {
                let role = Role::Guest { context, process, progress_fence, disable_gpu_timeout };
                let queue = HwQueue::new(id, node, partition, space, role);
                registry.queues.insert(id, Arc::new(queue));
            }
            _ => no_such!("guest, address space or node as in {description:?}"),
        }
        id
    }

    fn set_fence_log(&self, queue: HwQueueId, log: FenceLogBuffer) {
        if let Some(queue) = self.queue(queue)
            && !queue.partition.set_fence_log(&queue.logs, log)
        {
            no_such!("room for a log at {:?}", log.storage);
        }
    }

    fn with_fence_log(&self, log: QueueLog, act: &mut dyn FnMut(FenceLog<'_>)) {
        let Some(queue) = self.queue(log.queue) else { return };
        match queue.logs.get(log.log_type) {
            Some(content) => act(content),
            None => no_such!("{log:?}"),
        }
    }

    fn flush_fence_logs(&self, _queues: &[HwQueueId]) {
        // One barrier is all queues'.
        FenceLog::<0>::flush();
    }

    fn set_logging_level(&self, level: LoggingLevel) {
        self.chip.set_logging_level(level);
    }

    fn bind_ring(&self, queue: HwQueueId, ring: RingBinding) {
        let Some(queue) = self.queue(queue) else { return };
        let bar = queue.partition.bar();
        let words = (bar.doorbell(ring.slot), bar.doorbell_word(ring.slot));
        let (Some(doorbell), Some(word), Some(last_queued)) =
            (words.0, words.1, bar.last_queued(ring.slot))
        else {
            no_such!("doorbell slot {}", ring.slot);
            return;
        };
        doorbell.connect(self.status(ConnectionStatus::DISCONNECTED_RETRY));
        // The word of a global doorbell is other queues', too, and nothing need be in it.
        if self.doorbell_model == DoorbellModel::Dedicated {
            word.store(0, Ordering::Release);
        }
        last_queued.store(0, Ordering::Release);
        queue.ring.store(Some(Arc::new(ring)));
    }

    fn unbind_ring(&self, queue: HwQueueId) {
        if let Some(queue) = self.queue(queue) {
            queue.ring.store(None);
            // The engine lets go of it, as it does of what was there when it was kicked last.
            self.kick_queue(&queue);
        }
    }

    fn destroy_hw_queue(&self, queue: HwQueueId) {
        if !self.registry().remove_queue(&self.chip, queue) {
            no_such!("{queue:?}");
        }
    }

    fn suspend_hw_queues(&self, queues: &[HwQueueId]) {
        for queue in queues {
            if let Some(queue) = self.queue(*queue) {
                queue.membership.suspend();
            }
        }
    }

    fn resume_hw_queues(&self, queues: &[HwQueueId]) {
        for queue in queues {
            if let Some(queue) = self.queue(*queue) {
                queue.membership.resume();
                self.kick_queue(&queue);
            }
        }
    }

    fn preempt_hw_queue(&self, queue: HwQueueId, preemption_fence: u64) {
        let Some(queue) = self.queue(queue) else { return };
        let Some(port) = self.chip.engines.get(queue.engine as usize) else { return };
        queue.membership.suspend();
        queue.preemption.ask(preemption_fence);
        port.preempted.push(queue);
        port.raise(attention::PREEMPT);
    }

    fn engine_progress(&self, node: u32) -> EngineProgress {
        let Some(port) = self.chip.engines.get(node as usize) else {
            no_such!("node {node}");
            return EngineProgress::default();
        };
        let (turns, executing) = port.turns.read();
        EngineProgress { is_asleep: port.attention.is_asleep(), turns, executing }
    }

    fn reset_engine(&self, node: u32) {
        match self.chip.engines.get(node as usize) {
            Some(port) => port.reset(reset::ENGINE),
            None => no_such!("node {node}"),
        }
    }

    fn reset_adapter(&self) {
        for port in &self.chip.engines {
            port.reset(reset::ADAPTER);
        }
    }

    fn set_scheduling_priority(&self, queues: &[HwQueueId], priority: SchedulingPriority) {
        for queue in queues {
            if let Some(queue) = self.queue(*queue) {
                queue.set_priority(priority);
            }
        }
    }

    fn set_engine_power(&self, node: u32, state: EnginePowerState, transition: u64) {
        let Some(port) = self.chip.engines.get(node as usize) else {
            no_such!("node {node}");
            return;
        };
        port.power.ask(Asked { on: state == EnginePowerState::F0, transition });
        port.raise(attention::POWER);
    }

    fn watch(&self, doorbell: PhysicalDoorbell, queue: HwQueueId) {
        let Some(queue) = self.queue(queue) else { return };
        if !self.registry().set_watch(&self.chip, doorbell.0, Some(queue)) {
            no_such!("{doorbell:?}");
        }
    }

    fn unwatch(&self, doorbell: PhysicalDoorbell) {
        if !self.registry().set_watch(&self.chip, doorbell.0, None) {
            no_such!("{doorbell:?}");
        }
    }

    fn rotate_to_physical(&self, queue: HwQueueId) -> RotationProgress {
        let Some(queue) = self.queue(queue) else { return RotationProgress::Done };
        let doorbell = self.registry().doorbell_of(queue.id);
        let ring = queue.ring.load_full();
        let (Some(rotation), Some(doorbell), Some(ring)) =
            (queue.partition.rotation(), doorbell, ring)
        else {
            return RotationProgress::Done;
        };
        queue.set_settling(true);
        rotation.connect(ring.slot, doorbell, queue.id);
        RotationProgress::Pending
    }

    fn rotate_to_dummy(&self, queue: HwQueueId) {
        let Some(queue) = self.queue(queue) else { return };
        if let (Some(rotation), Some(ring)) = (queue.partition.rotation(), queue.ring.load_full()) {
            rotation.disconnect(ring.slot);
        }
    }

    fn watch_global(&self, queue: HwQueueId) {
        let Some(queue) = self.queue(queue) else { return };
        self.registry().watch_global(&self.chip, queue);
    }

    fn unwatch_global(&self, queue: HwQueueId) {
        if !self.registry().unwatch_global(&self.chip, queue) {
            no_such!("{queue:?} at a global doorbell");
        }
    }

    fn kick(&self, queue: HwQueueId) {
        if let Some(queue) = self.queue(queue) {
            self.kick_queue(&queue);
        }
    }

    fn publish_connected(&self, queue: HwQueueId, status: ConnectionStatus) {
        let Some(queue) = self.queue(queue) else { return };
        if status == ConnectionStatus::CONNECTED {
            queue.set_settling(false);
        }
        self.with_doorbell(&queue, |words| words.connect(self.status(status)));
        // Only now: an engine that fell asleep before this has not armed the doorbell, which was
        // not connected yet. And a guest may have rung before anybody watched.
        self.kick_queue(&queue);
    }

    fn publish_disconnected(&self, queue: HwQueueId, reason: ConnectionStatus) {
        if let Some(queue) = self.queue(queue) {
            self.with_doorbell(&queue, |words| words.disconnect(self.status(reason)));
        }
    }

    fn last_queued_value(&self, queue: HwQueueId) -> u64 {
        let Some(queue) = self.queue(queue) else { return 0 };
        let ring = queue.ring.load_full();
        let word = ring.as_ref().and_then(|ring| queue.partition.bar().last_queued(ring.slot));
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn submit_kernel_mode(
        &self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareFull> {
        let Some(queue) = self.queue(queue) else { return Ok(()) };
        queue.submissions.push(submission).map_err(|_| HardwareFull("submission to this queue"))
    }

    fn write_dma_buffer(&self, guest: GuestId, offset: u64, packets: &[u8]) {
        let Some(partition) = self.guest(guest) else { return };
        // Handed over to the engine with the submission that names it.
        if let Err(error) = partition.write_dma_buffer(offset, packets) {
            tracing::error!(%error, guest = guest.0, offset, "a DMA buffer was not written");
        }
    }

    fn current_fence(&self, queue: HwQueueId) -> u64 {
        self.queue(queue).map_or(0, |queue| queue.last_completed())
    }

    fn quiesce(&self, guest: Option<GuestId>) -> Ticket {
        let registry = self.registry();
        // Of one that is gone nothing is remembered.
        for (_, partition) in
            registry.guests.iter().filter(|(id, _)| guest.is_none_or(|guest| guest == **id))
        {
            partition.flush();
        }
        self.chip.quiesce()
    }

    fn quiesced(&self) -> Ticket {
        self.chip.quiesced()
    }

    fn take_interrupts(&self) -> Vec<Interrupt> {
        self.collect_interrupts()
    }

    fn guest_weight(&self, guest: GuestId) -> u32 {
        self.guest(guest).map_or(0, |guest| guest.weight())
    }

    fn statistics(&self, guest: GuestId) -> Statistics {
        self.guest(guest).map_or_else(Statistics::default, |guest| guest.counters().read())
    }
}
