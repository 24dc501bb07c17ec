// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an engine does between two turns: only what a guest asked for.

use super::*;
use crate::gpu::GpuConfig;
use crate::gpu::engine::hints::Hints;
use crate::gpu::engine::others::Nap;
use crate::gpu::engine::scans::PERIOD_OF_A_DOORBELL;
use crate::gpu::engine::visits;
use crate::gpu::engine::watches::{Watch, Watches};
use crate::gpu::memory::bar::BarDoorbell;
use crate::gpu::memory::cross_memory::CrossAdapterMemory;
use crate::gpu::memory::page_table::{AddressSpace, NodePool};
use crate::gpu::shared::chain::{Chain, Member};
use crate::gpu::shared::event::Event;
use crate::gpu::shared::hw_queue::Role;
use crate::gpu::shared::interrupt::Interrupts;
use crate::gpu::shared::partition::Partition;
use crate::gpu::shared::watching::WatchedAt;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, FenceStorage, GuestId, HwContextId, HwQueueId, KernelSubmission,
    PhysicalAddress, PhysicalPage, ProcessShare, Pte, RingBinding, Segment, SegmentSizes,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{BarLayout, FENCE_STRIDE};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::fence::SignalRule;
use bellhop_protocol::packet::fence::WaitFence;
use bellhop_protocol::packet::flow::NOP;
use std::os::fd::AsFd;
use vm_memory::GuestMemoryMmap;
use zerocopy::IntoBytes;

const LAYOUT: BarLayout =
    BarLayout { doorbell_count: 4, fence_count: 64, local_memory: 32 * PAGE_SIZE };
/// Address of the process's local memory, which is full of packets that do nothing.
const COMMANDS: u64 = 0x1000_0000;
/// A ring that is never read.
const RING: RingBinding = RingBinding {
    slot: 0,
    ring_va: COMMANDS,
    ring_size: PAGE_SIZE,
    control_va: COMMANDS,
    notify_each: false,
    has_line: false,
};

/// A queue of a guest, and an engine that runs only when a test calls it.
struct Rig {
    engine: Engine,
    chip: Arc<Chip>,
    nodes: Arc<NodePool>,
    queue: Arc<HwQueue>,
    submitted: u64,
}

/// A guest and one of its processes, which can execute what is in the guest's local memory.
fn guest_of(number: u64, nodes: &Arc<NodePool>) -> (Arc<Partition>, Arc<AddressSpace>) {
    guest_with(number, 0, nodes)
}

/// As [`guest_of`], with this number of pages for physical doorbells.
fn guest_with(
    number: u64,
    physical_pages: u32,
    nodes: &Arc<NodePool>,
) -> (Arc<Partition>, Arc<AddressSpace>) {
    let segments = SegmentSizes { private: PAGE_SIZE, backing: PAGE_SIZE, aperture: 0 };
    let (memory, shared) = (GuestMemoryMmap::new(), CrossAdapterMemory::new(0).unwrap());
    let (guest, process) = (GuestId(number), AddressSpaceId(number));
    let partition =
        Partition::new(guest, LAYOUT, segments, physical_pages, &memory, Arc::new(shared), 1)
            .unwrap();
    let space = AddressSpace::new(process, nodes, &Arc::default()).unwrap();
    for address in (0..LAYOUT.local_memory).step_by(PAGE_SIZE as usize) {
        let entry = Pte::new(PhysicalPage { segment: Segment::Local, address }, true);
        space.set(COMMANDS + address, PageSize::Small, entry).unwrap();
    }
    let at = |address| PhysicalAddress { segment: Segment::Fence, address };
    let (current, monitored) = (at(0), at(FENCE_STRIDE));
    let rule = SignalRule::Monotonic;
    let storage = FenceStorage { current, monitored, published: true, native: true, rule };
    assert!(partition.create_fence(0, storage, Some(0)));
    partition.fences().open(0, 0, process);
    (Arc::new(partition), Arc::new(space))
}

/// A queue of a guest, in a context of its own.
fn queue_of(guest: &(Arc<Partition>, Arc<AddressSpace>), number: u64) -> Arc<HwQueue> {
    let (partition, space) = guest;
    let role = Role::Guest {
        context: HwContextId(number),
        process: space.id(),
        share: ProcessShare::default(),
        progress_fence: 0,
        disable_gpu_timeout: false,
    };
    let id = HwQueueId(number);
    Arc::new(HwQueue::new(id, 0, Arc::clone(partition), Arc::clone(space), role))
}

impl Rig {
    fn new() -> Self {
        let config = GpuConfig::default();
        let interrupts = Arc::new(Interrupts::new(64).unwrap());
        let member = Member { engines: 1, page_table_pages: (4096, 4096) };
        let place = Chain::of(&[member]).unwrap().remove(0);
        let chip = Arc::new(Chip::new(place, interrupts, &config).unwrap());
        let nodes = Arc::clone(&chip.nodes);
        let guest = guest_of(1, &nodes);
        let nops = NOP.as_bytes().repeat(LAYOUT.local_memory as usize / size_of_val(&NOP));
        rustix::io::pwrite(guest.0.bar().file(), &nops, LAYOUT.local_memory()).unwrap();
        let GpuConfig { spin, idle, hang, quantum, .. } = config;
        let times = Times { spin, idle, hang, quantum };
        let engine = Engine::new(Arc::clone(&chip), 0, EngineType::THREE_D, times, None, None);
        Self { engine, chip, nodes, queue: queue_of(&guest, 1), submitted: 0 }
    }

    fn attend(&mut self) {
        assert_eq!(self.engine.attend(&self.chip.engines[0]), Next::GoOn);
    }

    /// Has the engine watch for a queue's rings, and gives the queue a submission.
    fn occupy(&self, queue: &Arc<HwQueue>, slot: u32, at: WatchedAt) {
        let port = &self.chip.engines[0];
        queue.ring.store(Some(Arc::new(RingBinding { slot, ..RING })));
        port.change_watch(queue, Some(at));
        let submission = KernelSubmission {
            gpu_va: COMMANDS,
            size: 64,
            progress_fence_value: 1,
            submission_fence: 1,
        };
        queue.submissions.push(submission).unwrap();
        port.kick(queue);
    }

    /// One turn of the queue, which always has work.
    fn turn(&mut self) {
        while !self.engine.give_a_turn(&self.chip.engines[0]) {
            self.submitted += 1;
            let submission = KernelSubmission {
                gpu_va: COMMANDS,
                size: LAYOUT.local_memory as u32,
                progress_fence_value: self.submitted,
                submission_fence: self.submitted,
            };
            self.queue.submissions.push(submission).unwrap();
            self.engine.kick(&self.chip.engines[0], &self.queue);
        }
    }
}

impl Rig {
    /// The queue waits for a fence.
    fn block(&mut self) {
        let wait = WaitFence::new(0, 5);
        let file = self.queue.partition.bar().file();
        rustix::io::pwrite(file, wait.as_bytes(), LAYOUT.local_memory()).unwrap();
        self.turn();
    }

    /// Whether a queue waits for a fence and none for a turn.
    fn waits(&self) -> bool {
        self.engine.run_list.has_work() && !self.engine.run_list.is_runnable()
    }
}

/// An engine need not react when another guest flushes.
#[test]
fn a_ticket_has_an_engine_look_at_no_queue() {
    let mut rig = Rig::new();
    rig.turn();
    let flushes = rig.queue.partition.flushes();
    rig.queue.partition.flush();
    let ticket = rig.chip.quiesce();
    assert_eq!(visits::during(|| rig.attend()), 0, "it went through its queues");
    assert!(rig.chip.quiesced() >= ticket);
    let entry = rig.engine.run_list.get(0).unwrap();
    assert_eq!(entry.view.flushes(), flushes);
    // It learns what it must know when it needs it.
    rig.turn();
    let entry = rig.engine.run_list.get(0).unwrap();
    assert_eq!(entry.view.flushes(), rig.queue.partition.flushes());
}

#[test]
fn after_a_turn_an_engine_looks_at_no_more_doorbells_than_its_time_calls_for() {
    const DOORBELLS: u32 = 16_384;
    let mut rig = Rig::new();
    rig.turn();
    let ring = Arc::new(RING);
    let watch = |index| Watch::new(&rig.queue, Arc::clone(&ring), index, 0).unwrap();
    (0..DOORBELLS).for_each(|index| rig.engine.doorbells.watches.add(watch(index)));
    let start = rig.chip.now();
    let mut looks_after_a_turn = || {
        rig.turn();
        let Engine { clock, doorbells, .. } = &mut rig.engine;
        clock.due(doorbells.watches.others()) as u64
    };
    let first = looks_after_a_turn();
    let looks = (0..1000).map(|_| looks_after_a_turn()).sum::<u64>();
    let time = rig.chip.now() - start;
    let most = time / PERIOD_OF_A_DOORBELL + 1;
    assert!(first <= u64::from(DOORBELLS) && looks <= most, "{looks} in {time} ns, and not {most}");
}

/// The looks that an engine takes when a guest destroys a queue that the engine watches and that has work, while
/// other guests have `others` such queues, up to four each.
fn looks_of_a_destroy(others: u32, at: fn(u32) -> WatchedAt) -> u64 {
    let mut rig = Rig::new();
    for first in (0..others).step_by(4) {
        let guest = guest_of(u64::from(first) + 10, &rig.nodes);
        for slot in 0..4.min(others - first) {
            let number = first + slot;
            rig.occupy(&queue_of(&guest, u64::from(number) + 10), slot, at(number + 1));
        }
    }
    let doomed = queue_of(&guest_of(2, &rig.nodes), 2);
    rig.occupy(&doomed, 0, at(0));
    rig.attend();
    assert_eq!(rig.engine.doorbells.count() as u32, others + 1);
    doomed.membership.destroy();
    let port = &rig.chip.engines[0];
    port.change_watch(&doomed, None);
    port.kick(&doomed);
    let looks = visits::during(|| rig.attend());
    assert_eq!(rig.engine.doorbells.count() as u32, others);
    assert_eq!(rig.engine.run_list.enlist(&doomed), None);
    // All others are still in line.
    let turns = std::iter::repeat_with(|| rig.engine.give_a_turn(&rig.chip.engines[0]));
    assert_eq!(turns.take_while(|gave| *gave).count() as u32, others);
    looks
}

#[test]
fn a_destroyed_queue_costs_an_engine_the_same_however_many_queues_others_have() {
    for at in [|_| WatchedAt::OwnPage, WatchedAt::Physical, |_| WatchedAt::Global] {
        let looks = [10, 1000].map(|others| looks_of_a_destroy(others, at));
        assert_eq!(looks[0], looks[1]);
        assert!((1..20).contains(&looks[0]), "{looks:?}");
    }
}

#[test]
fn an_engine_that_polls_a_fence_in_vain_asks_to_be_called() {
    let mut rig = Rig::new();
    rig.block();
    assert!(rig.waits());
    let fence = rig.queue.partition.fence(0).unwrap();
    let signaled = fence.cell.signal(fence.published(), 5).unwrap();
    assert_eq!(signaled.engines, 1, "the wait never ends");
    rig.chip.release_waiters(signaled.engines);
    rig.attend();
    assert!(rig.engine.run_list.is_runnable());
}

/// Its device was reset, or it connected anew.
#[test]
fn the_next_guest_of_a_socket_makes_up_for_the_time_for_which_an_engine_stood_for_the_last() {
    let mut rig = Rig::new();
    let [owes, honest] = [2, 3].map(|number| guest_of(number, &rig.nodes));
    owes.0.account().owe(0, 3_600_000_000_000);
    let queues = [queue_of(&owes, 2), queue_of(&honest, 3)];
    // The one that owes comes first.
    queues.iter().for_each(|queue| rig.occupy(queue, 0, WatchedAt::OwnPage));
    rig.attend();
    let list = &mut rig.engine.run_list;
    let [first, second] = queues.each_ref().map(|queue| list.enlist(queue).unwrap());
    let mut turn = || {
        let (Pick { queue, .. }, _) = list.next().unwrap();
        list.end_turn(queue, Turn::Runnable, Some(Duration::from_secs(600)));
        queue
    };
    let turns: Vec<_> = (0..7).map(|_| turn()).collect();
    assert_eq!(turns[..6], [second; 6]);
    // After an hour of the other's they take turns, and a moment has passed since.
    assert!(turns[6..].contains(&first) || turn() == first, "{turns:?}");
}

/// A queue that is lost while it waits for a fence is no work any more.
#[test]
fn an_engine_of_which_a_waiting_queue_is_lost_gives_up_its_power() {
    let mut rig = Rig::new();
    rig.block();
    assert!(rig.waits());
    rig.queue.lose();
    let port = &rig.chip.engines[0];
    port.kick(&rig.queue);
    rig.attend();
    let port = &rig.chip.engines[0];
    port.power.ask(Asked { on: false, transition: 1 });
    port.raise(attention::POWER);
    rig.attend();
    assert_eq!(rig.chip.engines[0].power.take_refusal(), None);
    assert!(!rig.engine.has_power && !rig.engine.run_list.has_work());
    // Others wait as before, and the queue can still be destroyed.
    rig.queue.membership.destroy();
    rig.chip.engines[0].kick(&rig.queue);
    rig.attend();
    assert_eq!(rig.engine.run_list.enlist(&rig.queue), None);
}

/// The control plane has changed the queue that takes over before the one that had the doorbell, and changes it again.
#[test]
fn a_queue_that_takes_over_a_physical_doorbell_is_found_when_it_rings() {
    let mut rig = Rig::new();
    let guest = guest_with(2, 1, &rig.nodes);
    let [before, after] = [2, 3].map(|number| queue_of(&guest, number));
    for (queue, slot) in [(&before, 0), (&after, 1)] {
        queue.ring.store(Some(Arc::new(RingBinding { slot, ..RING })));
    }
    let at = WatchedAt::Physical(0);
    rig.chip.engines[0].change_watch(&before, Some(at));
    rig.attend();
    let port = &rig.chip.engines[0];
    port.change_watch(&after, None);
    port.change_watch(&before, None);
    port.change_watch(&after, Some(at));
    rig.attend();
    let hints = &mut rig.engine.doorbells.hints;
    assert_eq!(hints.count(), 1);
    let mut round = || {
        let mut seen = Vec::new();
        hints.look(|_| (), |hinted| seen.push(hinted.queue.id));
        seen
    };
    // The first rounds look at its ring, and the next only when it rings.
    assert_eq!([(); 4].map(|()| round().len()), [1, 0, 0, 0]);
    guest.0.bar().physical_word(0, 1).unwrap().store(8, Ordering::Relaxed);
    assert!(round().contains(&after.id), "it waits until the engine doubts its hints");
}

#[test]
fn an_engine_polls_for_a_queue_until_anybody_else_wants_it() {
    let rig = Rig::new();
    let port = &rig.chip.engines[0];
    let (mut watches, hints) = (Watches::default(), Hints::default());
    let ring = Arc::new(RING);
    watches.add(Watch::new(&rig.queue, Arc::clone(&ring), 7, 0).unwrap());
    let wanted = |watches: &Watches, index| {
        let longest_nap = Duration::ZERO;
        let hints = &hints;
        Others { port, watches, hints, index, may_poll: true, longest_nap }.want_the_engine()
    };
    assert!(!wanted(&watches, 8));
    let _ = rig.queue.doorbell(&ring).unwrap().words().ring(1);
    // The queue's own ring is no reason to stop: it has work, and waits.
    assert_eq!([7, 8].map(|index| wanted(&watches, index)), [false, true]);
    watches.look(|_| 0, |_, _| ());
    assert!(!wanted(&watches, 8));
    port.raise(attention::KICK);
    assert!(wanted(&watches, 7));
}

#[test]
fn an_engine_that_naps_wakes_for_its_worker_for_a_ring_and_for_a_call() {
    let mut rig = Rig::new();
    let (own, chip) = (Arc::clone(&rig.queue), Arc::clone(&rig.chip));
    let other = queue_of(&guest_of(2, &rig.nodes), 2);
    let kick = Event::new().unwrap();
    other.partition.set_kick(kick.as_fd().try_clone_to_owned().unwrap());
    for queue in [&own, &other] {
        rig.occupy(queue, 0, WatchedAt::OwnPage);
        doorbell(queue).words().connect(ConnectionStatus::CONNECTED);
    }
    rig.attend();
    let index = rig.engine.run_list.enlist(&own).unwrap();
    let socket = Event::new().unwrap();
    let nap = |rig: &Rig| {
        let Doorbells { watches, hints, .. } = &rig.engine.doorbells;
        let (port, longest_nap) = (&rig.chip.engines[0], Duration::from_secs(60));
        let others = Others { port, watches, hints, index, may_poll: true, longest_nap };
        others.nap(socket.as_fd(), Instant::now() + longest_nap)
    };
    // Acts once the engine has asked the other guest to notify, and returns what ended the nap.
    let nap_until = |rig: &Rig, act: &(dyn Fn() + Sync)| {
        let (own, other) = (&own, &other);
        thread::scope(|scope| {
            scope.spawn(move || {
                while doorbell(other).words().status() != ConnectionStatus::CONNECTED_NOTIFY {
                    thread::yield_now();
                }
                // It looks at this one after the turn.
                assert_eq!(doorbell(own).words().status(), ConnectionStatus::CONNECTED);
                act();
            });
            let nap = nap(rig);
            assert_eq!(doorbell(other).words().status(), ConnectionStatus::CONNECTED);
            nap
        })
    };
    assert_eq!(nap_until(&rig, &|| socket.signal()), Nap::Over);
    socket.clear();
    let ring = || {
        assert_eq!(doorbell(&other).words().ring(64), ConnectionStatus::CONNECTED_NOTIFY);
        kick.signal();
    };
    assert_eq!(nap_until(&rig, &ring), Nap::Disturbed);
    // It does not fall asleep before it has seen the ring.
    assert_eq!(nap(&rig), Nap::Disturbed);
    rig.engine.look_at_doorbells();
    let call = || chip.engines[0].raise(attention::WORKERS);
    assert_eq!(nap_until(&rig, &call), Nap::Disturbed);
    assert_eq!(nap(&rig), Nap::Disturbed);
    rig.attend();
    assert!(!chip.engines[0].attention.is_asleep());
    // A kick without a ring, and then the worker.
    let idle_kick = || {
        kick.signal();
        socket.signal();
    };
    assert_eq!(nap_until(&rig, &idle_kick), Nap::Over);
}

/// The words of a queue's doorbell.
fn doorbell(queue: &HwQueue) -> BarDoorbell<'_> {
    queue.doorbell(&RING).unwrap()
}
