// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an engine does between two turns: no more than what one guest asked for.

use super::*;
use crate::gpu::GpuConfig;
use crate::gpu::engine::scans::PERIOD_OF_A_DOORBELL;
use crate::gpu::memory::cross_memory::CrossAdapterMemory;
use crate::gpu::memory::page_table::{AddressSpace, NodePool};
use crate::gpu::shared::chip::Watched;
use crate::gpu::shared::hw_queue::Role;
use crate::gpu::shared::interrupt::Interrupts;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, FenceStorage, GuestId, HwContextId, HwQueueId, KernelSubmission,
    PhysicalAddress, PhysicalPage, Pte, RingBinding, Segment, SegmentSizes,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{BarLayout, FENCE_STRIDE};
use bellhop_protocol::handoff::fence::SignalRule;
use bellhop_protocol::packet::fence::WaitFence;
use bellhop_protocol::packet::flow::NOP;
use vm_memory::GuestMemoryMmap;
use zerocopy::IntoBytes;

const LAYOUT: BarLayout =
    BarLayout { doorbell_count: 4, fence_count: 64, local_memory: 32 * PAGE_SIZE };
/// Where the process has its local memory, all of it packets that do nothing.
const COMMANDS: u64 = 0x1000_0000;
/// Where its ring would be.
const RING: RingBinding = RingBinding {
    slot: 0,
    ring_va: COMMANDS,
    ring_size: PAGE_SIZE,
    control_va: COMMANDS,
    notify_each: false,
};

/// An engine that runs when a test has it do something, and a queue of a guest.
struct Rig {
    engine: Engine,
    chip: Arc<Chip>,
    queue: Arc<HwQueue>,
    submitted: u64,
}

impl Rig {
    fn new() -> Self {
        let config = GpuConfig::default();
        let nodes = Arc::new(NodePool::new(64, 64).unwrap());
        let interrupts = Arc::new(Interrupts::new(64).unwrap());
        let chip = Arc::new(Chip::new(1, Arc::clone(&nodes), interrupts, &config).unwrap());
        let segments = SegmentSizes { private: PAGE_SIZE, backing: PAGE_SIZE, aperture: 0 };
        let (memory, shared) = (GuestMemoryMmap::new(), CrossAdapterMemory::new(0).unwrap());
        let partition =
            Partition::new(GuestId(1), LAYOUT, segments, 0, &memory, Arc::new(shared), 1).unwrap();
        let process = AddressSpaceId(1);
        let space = AddressSpace::new(process, &nodes, &Arc::default()).unwrap();
        for address in (0..LAYOUT.local_memory).step_by(PAGE_SIZE as usize) {
            let entry = Pte::new(PhysicalPage { segment: Segment::Local, address }, true);
            space.set(COMMANDS + address, PageSize::Small, entry).unwrap();
        }
        let nops = NOP.as_bytes().repeat(LAYOUT.local_memory as usize / size_of_val(&NOP));
        rustix::io::pwrite(partition.bar().file(), &nops, LAYOUT.local_memory()).unwrap();
        let at = |address| PhysicalAddress { segment: Segment::Fence, address };
        let (current, monitored) = (at(0), at(FENCE_STRIDE));
        let rule = SignalRule::Monotonic;
        let storage = FenceStorage { current, monitored, published: true, native: true, rule };
        assert!(partition.create_fence(0, storage, Some(0)));
        partition.fences().open(0, 0, process);
        let role = Role::Guest {
            context: HwContextId(1),
            process,
            progress_fence: 0,
            disable_gpu_timeout: false,
        };
        let queue = HwQueue::new(HwQueueId(1), 0, Arc::new(partition), Arc::new(space), role);
        let GpuConfig { spin, idle, hang, quantum, .. } = config;
        let times = Times { spin, idle, hang, quantum };
        let engine = Engine::new(Arc::clone(&chip), 0, EngineType::THREE_D, times);
        Self { engine, chip, queue: Arc::new(queue), submitted: 0 }
    }

    fn attend(&mut self) {
        assert_eq!(self.engine.attend(&self.chip.engines[0]), Next::GoOn);
    }

    /// One turn of the queue, which always has work.
    fn turn(&mut self) -> Scan {
        loop {
            if let Some(scan) = self.engine.give_a_turn(&self.chip.engines[0]) {
                return scan;
            }
            self.submitted += 1;
            let submission = KernelSubmission {
                gpu_va: COMMANDS,
                size: LAYOUT.local_memory as u32,
                progress_fence_value: self.submitted,
                submission_fence: self.submitted,
            };
            self.queue.submissions.push(submission).unwrap();
            self.engine.kick(&self.queue);
        }
    }
}

/// Of another guest that flushes or destroys something, an engine needs to know nothing.
#[test]
fn a_ticket_has_an_engine_look_at_no_queue_and_list_no_doorbell_anew() {
    let mut rig = Rig::new();
    rig.turn();
    let port = &rig.chip.engines[0];
    rig.queue.ring.store(Some(Arc::new(RING)));
    let watched = Watched { queue: Arc::clone(&rig.queue), at: WatchedAt::OwnPage };
    port.watch_list.store(Arc::new(vec![watched]));
    port.raise(attention::WATCH_LIST);
    rig.attend();
    assert_eq!(rig.engine.watches.len(), 1);
    let flushes = rig.queue.partition.flushes();
    // There is another list, and a flush, of which the engine is not told.
    rig.chip.engines[0].watch_list.store(Arc::default());
    rig.queue.partition.flush();
    let ticket = rig.chip.quiesce();
    rig.attend();
    assert!(rig.chip.quiesced() >= ticket);
    assert_eq!(rig.engine.watches.len(), 1, "it listed doorbells");
    let entry = rig.engine.run_list.get(0).unwrap();
    assert_eq!(entry.view.flushes(), flushes, "it went through its queues");
    // What it has to know it finds where it needs it.
    rig.turn();
    let entry = rig.engine.run_list.get(0).unwrap();
    assert_eq!(entry.view.flushes(), rig.queue.partition.flushes());
    rig.chip.engines[0].raise(attention::WATCH_LIST);
    rig.attend();
    assert_eq!(rig.engine.watches.len(), 0);
}

#[test]
fn an_engine_looks_at_all_doorbells_no_more_often_than_time_says_however_many_turns_it_gives() {
    const DOORBELLS: u64 = 16_384;
    let mut rig = Rig::new();
    rig.turn();
    let (ring, index) = (Arc::new(RING), rig.queue.run_list_index().unwrap());
    let watch = || Watch::new(Arc::clone(&rig.queue), Arc::clone(&ring), index, 0).unwrap();
    rig.engine.watches.replace((0..DOORBELLS).map(|_| watch()).collect());
    let start = rig.chip.now();
    let looks = (0..1000).filter(|_| rig.turn() == Scan::Full).count() as u64;
    let time = rig.chip.now() - start;
    let most = time / (PERIOD_OF_A_DOORBELL * DOORBELLS) + 1;
    assert!(looks <= most, "{looks} times in {time} ns, and not {most}");
}

#[test]
fn an_engine_that_polls_a_fence_in_vain_asks_to_be_called() {
    let mut rig = Rig::new();
    let wait = WaitFence::new(0, 5);
    let file = rig.queue.partition.bar().file();
    rustix::io::pwrite(file, wait.as_bytes(), LAYOUT.local_memory()).unwrap();
    rig.turn();
    assert!(rig.engine.run_list.has_work() && !rig.engine.run_list.is_runnable());
    let fence = rig.queue.partition.fence(0).unwrap();
    let signaled = fence.cell.signal(fence.published, 5).unwrap();
    assert_eq!(signaled.engines, 1, "the wait never ends");
    rig.chip.release_waiters(signaled.engines);
    rig.attend();
    assert!(rig.engine.run_list.is_runnable());
}

#[test]
fn an_engine_polls_for_a_queue_until_anybody_else_wants_it() {
    let rig = Rig::new();
    let port = &rig.chip.engines[0];
    let (mut watches, hints) = (Watches::default(), Hints::default());
    let ring = Arc::new(RING);
    watches.replace(vec![Watch::new(Arc::clone(&rig.queue), Arc::clone(&ring), 7, 0).unwrap()]);
    let wanted =
        |watches: &Watches, index| Others { port, watches, hints: &hints, index }.want_the_engine();
    assert!(!wanted(&watches, 8));
    let _ = rig.queue.doorbell(&ring).unwrap().ring(1);
    // Its own ring is no reason: it has work, and waits.
    assert_eq!([7, 8].map(|index| wanted(&watches, index)), [false, true]);
    watches.look(|_, _| ());
    assert!(!wanted(&watches, 8));
    port.raise(attention::KICK);
    assert!(wanted(&watches, 7));
}
