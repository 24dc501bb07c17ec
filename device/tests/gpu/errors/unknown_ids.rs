// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls with ids that the GPU does not know: each is refused with the id that is missing, changes nothing, and
//! disturbs no guest.

use crate::support::rig::{
    COMPUTE, COPY, Guest, LAYOUT, Packets, fence_storage, guest_memory, quiesce, start,
};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    AccessedBits as _, AddressSpaceId, BusyOf, CurrentValues as _, DoorbellPages as _,
    Doorbells as _, Engines as _, FenceLogBuffer, FenceLogContents as _, FenceLogs as _,
    FenceStorage, Fences as _, GuestId, HardwareError, HwQueueDescription, HwQueueId,
    KernelSubmission, Memory as _, Observe as _, PageTables as _, PhysicalAddress,
    PhysicalDoorbell, Pte, QueueLog, Queues as _, RingBinding, SchedulingPriority, Segment,
    SlotValue, SystemContexts as _, UnknownId,
};
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::fence_log::FenceLogType;

const GUEST: GuestId = GuestId(u64::MAX);
const SPACE: AddressSpaceId = AddressSpaceId(u64::MAX);
const QUEUE: HwQueueId = HwQueueId(u64::MAX);
const NODE: u32 = 99;
const DOORBELL: PhysicalDoorbell = PhysicalDoorbell(9999);
/// A slot that no guest has.
const SLOT: u32 = LAYOUT.fence_count;

const RING: RingBinding = RingBinding {
    slot: 0,
    ring_va: 0,
    ring_size: 4096,
    control_va: 0,
    notify_each: false,
    has_line: false,
};

#[test]
fn a_guest_that_does_not_exist() {
    let gpu = start();
    let unknown = UnknownId::Guest(GUEST);
    let full = HardwareError::Unknown(unknown);
    let value = [SlotValue { slot: 0, value: 1 }];
    assert_eq!(gpu.create_address_space(GUEST), Err(full));
    assert_eq!(gpu.create_system_context(GUEST), Err(full));
    let no_context = UnknownId::SystemContext(GUEST);
    assert_eq!(gpu.submit_paging(GUEST, &[], 1), Err(no_context.into()));
    assert_eq!(gpu.abandon_paging(GUEST, 1), Err(no_context));
    assert_eq!(gpu.zero_memory(GUEST, Segment::Local, 0, 4096), Err(unknown));
    assert_eq!(gpu.place_area(GUEST, AreaKind::LOCAL_MEMORY, &[]), Err(unknown));
    assert_eq!(gpu.is_guest_memory(GUEST, 0, 4096), Err(unknown));
    assert_eq!(gpu.read_local_word(GUEST, 0), Err(unknown));
    assert_eq!(gpu.write_dma_buffer(GUEST, 0, &[]), Err(unknown));
    assert_eq!(gpu.create_fence(GUEST, 0, fence_storage(0), Some(0)), Err(unknown));
    assert_eq!(gpu.open_fence(GUEST, 0, 0, SPACE), Err(unknown));
    assert_eq!(gpu.close_fence(GUEST, 0), Err(unknown));
    assert_eq!(gpu.fence_value(GUEST, 0), Err(unknown));
    assert_eq!(gpu.update_monitored_values(GUEST, &value), Err(unknown));
    assert_eq!(gpu.update_current_values(GUEST, &value, false), Err(unknown));
    assert_eq!(gpu.notify_current_values(GUEST, &[0], false), Err(unknown));
    assert_eq!(gpu.doorbell_share(GUEST), Err(unknown));
    assert_eq!(gpu.guest_weight(GUEST), Err(unknown));
    assert_eq!(gpu.statistics(GUEST), Err(unknown));
    assert_eq!(gpu.front_end(GUEST), None);
    gpu.detach_guest(GUEST);
    gpu.update_guest_memory(GUEST, guest_memory());
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    guest.run(&mut queue, Packets::new());
}

#[test]
fn an_address_space_that_does_not_exist() {
    let gpu = start();
    let unknown = UnknownId::AddressSpace(SPACE);
    let (size, entries) = (PageSize::Small, [Pte::INVALID]);
    assert_eq!(gpu.destroy_address_space(SPACE), Err(unknown));
    assert_eq!(gpu.page_table_root(SPACE), Err(unknown));
    assert_eq!(gpu.update_page_table(SPACE, 0, size, &entries), Err(unknown.into()));
    assert_eq!(gpu.locate_page_table(SPACE, 0, size, 1, true), Err(unknown.into()));
    assert_eq!(gpu.take_accessed(SPACE, 0, 4096), Err(unknown));
}

#[test]
fn a_queue_that_does_not_exist_and_those_beside_it() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let unknown = UnknownId::HwQueue(QUEUE);
    let submission =
        KernelSubmission { gpu_va: 0, size: 8, progress_fence_value: 1, submission_fence: 1 };
    let storage = PhysicalAddress { segment: Segment::Fence, address: 0 };
    let log_type = FenceLogType::WAITS;
    let log = QueueLog { queue: QUEUE, log_type };
    assert_eq!(gpu.destroy_hw_queue(QUEUE), Err(unknown));
    assert_eq!(gpu.preempt_hw_queue(QUEUE, 1), Err(unknown));
    assert_eq!(gpu.submit_kernel_mode(QUEUE, submission), Err(unknown.into()));
    assert_eq!(gpu.current_fence(QUEUE), Err(unknown));
    assert_eq!(gpu.kick(QUEUE), Err(unknown));
    assert_eq!(gpu.set_fence_log(QUEUE, FenceLogBuffer { log_type, storage }), Err(unknown));
    assert_eq!(gpu.with_fence_log(log, &mut |_| panic!("there is a log")), Err(unknown));
    assert_eq!(gpu.last_use(QUEUE), Err(unknown));
    assert_eq!(gpu.bind_ring(QUEUE, RING), Err(unknown));
    assert_eq!(gpu.unbind_ring(QUEUE), Err(unknown));
    assert_eq!(gpu.last_queued_value(QUEUE), Err(unknown));
    assert_eq!(gpu.watch(PhysicalDoorbell(0), QUEUE), Err(unknown));
    assert_eq!(gpu.watch_global(QUEUE), Err(unknown));
    assert_eq!(gpu.unwatch_global(QUEUE), Err(unknown));
    assert_eq!(gpu.rotate_to_physical(QUEUE), Err(unknown));
    assert_eq!(gpu.rotate_to_dummy(QUEUE), Err(unknown));
    assert_eq!(gpu.publish_connected(QUEUE, ConnectionStatus::CONNECTED), Err(unknown));
    let retry = ConnectionStatus::DISCONNECTED_RETRY;
    assert_eq!(gpu.publish_disconnected(QUEUE, retry), Err(unknown));
    assert_eq!(gpu.busy_time(BusyOf::Queue(QUEUE)), Err(unknown));
    // Of several queues, those that exist are suspended, prioritised and resumed.
    let queue = guest.queue(COMPUTE);
    let both = [QUEUE, queue.id];
    assert_eq!(gpu.set_scheduling_priority(&both, SchedulingPriority::default()), Err(unknown));
    assert_eq!(gpu.suspend_hw_queues(&both), Err(unknown));
    assert_eq!(gpu.resume_hw_queues(&both), Err(unknown));
    quiesce(&gpu);
}

#[test]
fn a_queue_is_made_of_what_exists() {
    let gpu = start();
    let guest = Guest::attach(&gpu);
    let good = guest.description(0, 0);
    let bad = |description| gpu.create_hw_queue(description).unwrap_err();
    assert_eq!(bad(HwQueueDescription { guest: GUEST, ..good }), UnknownId::Guest(GUEST));
    let space = HwQueueDescription { address_space: SPACE, ..good };
    assert_eq!(bad(space), UnknownId::AddressSpace(SPACE));
    assert_eq!(bad(HwQueueDescription { node: NODE, ..good }), UnknownId::Node(NODE));
    let queue = gpu.create_hw_queue(good).unwrap();
    // The queue has no ring yet, and no log.
    let connected = ConnectionStatus::CONNECTED;
    assert_eq!(gpu.publish_connected(queue, connected), Err(UnknownId::Ring(queue)));
    let log_type = FenceLogType::SIGNALS;
    let log = gpu.with_fence_log(QueueLog { queue, log_type }, &mut |_| panic!("there is a log"));
    assert_eq!(log, Err(UnknownId::FenceLog { queue, log_type }));
    let slot = LAYOUT.doorbell_count;
    let ring = RingBinding { slot, ..RING };
    assert_eq!(gpu.bind_ring(queue, ring), Err(UnknownId::DoorbellSlot(slot)));
    assert_eq!(gpu.watch(DOORBELL, queue), Err(UnknownId::PhysicalDoorbell(DOORBELL)));
    assert_eq!(gpu.unwatch(DOORBELL), Err(UnknownId::PhysicalDoorbell(DOORBELL)));
}

#[test]
fn a_fence_that_does_not_exist_and_those_beside_it() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let slot = guest.fence(5);
    let unknown = Err(UnknownId::FenceSlot(SLOT));
    let id = guest.id;
    let values = [SlotValue { slot: SLOT, value: 9 }, SlotValue { slot, value: 9 }];
    assert_eq!(gpu.fence_value(id, SLOT), Err(UnknownId::FenceSlot(SLOT)));
    assert_eq!(gpu.update_monitored_values(id, &values), unknown);
    assert_eq!(gpu.update_current_values(id, &values, false), unknown);
    assert_eq!(gpu.notify_current_values(id, &[SLOT, slot], false), unknown);
    assert_eq!(gpu.fence_value(id, slot), Ok(9));
    let nowhere = PhysicalAddress { segment: Segment::Fence, address: u64::MAX - 7 };
    let storage = FenceStorage { current: nowhere, ..fence_storage(SLOT) };
    assert_eq!(gpu.create_fence(id, SLOT, storage, Some(0)), Err(UnknownId::Storage(nowhere)));
}

#[test]
fn a_node_that_does_not_exist() {
    let gpu = start();
    let unknown = UnknownId::Node(NODE);
    assert_eq!(gpu.engine_progress(NODE), Err(unknown));
    assert_eq!(gpu.reset_engine(NODE), Err(unknown));
    assert_eq!(gpu.set_engine_power(NODE, EnginePowerState::F1, 1), Err(unknown));
    assert_eq!(gpu.busy_time(BusyOf::Engine(NODE)), Err(unknown));
}
