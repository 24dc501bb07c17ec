// SPDX-License-Identifier: MIT OR Apache-2.0

//! A GPU with well-behaved guests, which tests make misbehave.

use bellhop_device::gpu::{Gpu, GpuConfig};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    Adapter as _, AddressSpaceId, CurrentValues as _, DoorbellPages as _, Doorbells as _,
    Engines as _, Fault, FenceStorage, Fences as _, GlobalFence, GuestId, HwContextId,
    HwQueueDescription, HwQueueId, Interrupt, Interrupts as _, KernelSubmission, PageTables as _,
    PhysicalAddress, PhysicalDoorbell, PhysicalPage, ProcessShare, Pte, Queues as _,
    Quiescence as _, RingBinding, Segment, SegmentSizes, SlotValue, Ticket, fence_storage_size,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{BarLayout, FENCE_STRIDE};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::doorbell::{DoorbellWords, RingPointers};
use bellhop_protocol::handoff::fence::SignalRule;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::ring::{READ_POINTER_OFFSET, WRITE_POINTER_OFFSET};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::retry_on_intr;
use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap, MmapRegion, VolatileMemory};
use zerocopy::{Immutable, IntoBytes};

/// Where a guest finds all of its local memory.
pub const LOCAL: u64 = 0x1000_0000;
/// Where a guest finds all of its own memory.
pub const SYSTEM: u64 = 0x2000_0000;
/// Guest-physical address of a guest's own memory.
pub const PHYSICAL: u64 = 0x10_0000;
/// Bytes of each of the two memories.
pub const SIZE: u64 = 8 << 20;
/// Bytes of either that tests may use freely; rings and buffers follow.
pub const FREE: u64 = 4 << 20;
/// The compute node, and a node for copies.
pub const COMPUTE: u32 = 0;
pub const COPY: u32 = 1;

pub const LAYOUT: BarLayout = BarLayout { doorbell_count: 32, fence_count: 64, local_memory: SIZE };

/// Where local memory is in the BAR.
const LOCAL_MEMORY: u64 = LAYOUT.local_memory();

/// The sizes of a guest's segments beside its BAR.
pub const SEGMENTS: SegmentSizes =
    SegmentSizes { private: 4 << 20, backing: 16 << 20, aperture: 1 << 20 };

/// How long a step may take before a test calls it a hang.
const HANG: Duration = Duration::from_secs(120);

thread_local! {
    static MEANWHILE: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// From now on this thread does that while it waits: it takes a step of engines that have no threads.
#[allow(dead_code, reason = "the fuzz targets use it")]
pub fn while_waiting(step: fn()) {
    MEANWHILE.set(Some(step));
}

/// Waits until `done`, or panics and names what did not happen.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < HANG, "never happened: {what}");
        if let Some(step) = MEANWHILE.get() {
            step();
            continue;
        }
        // What is looked at has no event. Whoever only yields takes half a processor from those that it waits for.
        if start.elapsed() < Duration::from_millis(1) {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Where the values of fences are.
pub fn fence_storage(slot: u32) -> FenceStorage {
    let current = u64::from(slot) * FENCE_STRIDE;
    let monitored = fence_storage_size(LAYOUT.fence_count) / 2 + current;
    let at = |address| PhysicalAddress { segment: Segment::Fence, address };
    let rule = SignalRule::Monotonic;
    let (current, monitored) = (at(current), at(monitored));
    FenceStorage { current, monitored, published: true, native: true, rule }
}

/// Creates a fence in a slot, for packets of `owner`.
pub fn create_fence(gpu: &Gpu, guest: GuestId, slot: u32, owner: AddressSpaceId, initial: u64) {
    gpu.create_fence(guest, slot, fence_storage(slot), Some(initial)).unwrap();
    gpu.open_fence(guest, slot, slot, owner).unwrap();
}

/// Sets a fence's MonitoredValue; returns CurrentValue as a waiter then loads it.
pub fn monitor(gpu: &Gpu, guest: GuestId, slot: u32, value: u64) -> u64 {
    gpu.update_monitored_values(guest, &[SlotValue { slot, value }]).unwrap();
    gpu.fence_value(guest, slot).unwrap()
}

/// The interrupt of a fence.
pub fn fence_signaled(guest: GuestId, slot: u32) -> Interrupt {
    Interrupt::NativeFenceSignaled {
        signaled: vec![GlobalFence { guest, slot }],
        evaluate_legacy_monitored_fences: false,
    }
}

pub fn start() -> Arc<Gpu> {
    start_with(GpuConfig::default())
}

pub fn start_with(config: GpuConfig) -> Arc<Gpu> {
    Gpu::start(config).unwrap()
}

/// The bytes of packets, one after another.
#[derive(Default, Clone)]
pub struct Packets(pub Vec<u8>);

impl Packets {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn then(mut self, packet: impl IntoBytes + Immutable) -> Self {
        self.0.extend_from_slice(packet.as_bytes());
        self
    }
}

/// A guest with one address space.
pub struct Guest {
    pub gpu: Arc<Gpu>,
    pub id: GuestId,
    pub space: AddressSpaceId,
    pub memory: Arc<GuestMemoryMmap>,
    pub bar: Arc<MmapRegion>,
    fences: u32,
    doorbells: u32,
    allocated: u64,
    first_physical_doorbell: u32,
    /// Whether engines read packets in the lines of the doorbells that are created from now on.
    pub has_lines: bool,
}

pub fn guest_memory() -> Arc<GuestMemoryMmap> {
    // A front end shares its memory as a file.
    let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(SIZE).unwrap();
    let range = (GuestAddress(PHYSICAL), SIZE as usize, Some(FileOffset::new(file, 0)));
    Arc::new(GuestMemoryMmap::from_ranges_with_files([range]).unwrap())
}

impl Guest {
    /// A guest on a new GPU.
    pub fn start() -> Self {
        Self::attach(&start())
    }

    pub fn attach(gpu: &Arc<Gpu>) -> Self {
        Self::attach_with(gpu, 0)
    }

    /// A guest with queues that the physical doorbells from this one on watch.
    pub fn attach_with(gpu: &Arc<Gpu>, first_physical_doorbell: u32) -> Self {
        let memory = guest_memory();
        let id = gpu.attach_guest(LAYOUT, SEGMENTS, Arc::clone(&memory), &Arc::default()).unwrap();
        let file = FileOffset::from_arc(gpu.bar_file(id).unwrap(), 0);
        let bar = Arc::new(MmapRegion::from_file(file, LAYOUT.bar_size() as usize).unwrap());
        let space = gpu.create_address_space(id).unwrap();
        let guest = Self {
            gpu: Arc::clone(gpu),
            id,
            space,
            memory,
            bar,
            fences: 0,
            doorbells: 0,
            allocated: FREE,
            first_physical_doorbell,
            has_lines: false,
        };
        guest.map(LOCAL, Segment::Local, 0, SIZE, true);
        guest.map(SYSTEM, Segment::System, PHYSICAL, SIZE, true);
        guest
    }

    pub fn map(&self, va: u64, segment: Segment, address: u64, size: u64, writable: bool) {
        let pages = (0..size / PAGE_SIZE).map(|page| {
            Pte::new(PhysicalPage { segment, address: address + page * PAGE_SIZE }, writable)
        });
        self.gpu
            .update_page_table(self.space, va, PageSize::Small, &pages.collect::<Vec<_>>())
            .unwrap();
    }

    pub fn unmap(&self, va: u64, size: u64) {
        let entries = vec![Pte::INVALID; (size / PAGE_SIZE) as usize];
        self.gpu.update_page_table(self.space, va, PageSize::Small, &entries).unwrap();
        quiesce(&self.gpu);
    }

    pub fn word(&self, offset: u64) -> &AtomicU64 {
        self.bar.get_atomic_ref(offset as usize).unwrap()
    }

    /// Writes at a GPU virtual address of the two linear mappings.
    pub fn write(&self, va: u64, bytes: &[u8]) {
        if va >= SYSTEM {
            self.memory.write_slice(bytes, GuestAddress(PHYSICAL + va - SYSTEM)).unwrap();
        } else {
            let offset = LOCAL_MEMORY + va - LOCAL;
            self.bar.as_volatile_slice().write_slice(bytes, offset as usize).unwrap();
        }
    }

    pub fn read(&self, va: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.read_into(va, &mut bytes);
        bytes
    }

    pub fn read_into(&self, va: u64, bytes: &mut [u8]) {
        if va >= SYSTEM {
            self.memory.read_slice(bytes, GuestAddress(PHYSICAL + va - SYSTEM)).unwrap();
        } else {
            let offset = LOCAL_MEMORY + va - LOCAL;
            self.bar.as_volatile_slice().read_slice(bytes, offset as usize).unwrap();
        }
    }

    pub fn read_word(&self, va: u64) -> u64 {
        u64::from_le_bytes(self.read(va, 8).try_into().unwrap())
    }

    /// Allocates local memory for a buffer; returns its GPU virtual address.
    pub fn allocate(&mut self, size: u64) -> u64 {
        let at = self.allocated;
        self.allocated += size.next_multiple_of(PAGE_SIZE);
        assert!(self.allocated <= SIZE);
        LOCAL + at
    }

    /// A buffer with these packets.
    pub fn buffer(&mut self, packets: &Packets) -> IndirectBuffer {
        let va = self.allocate(packets.0.len() as u64);
        self.buffer_at(va, packets)
    }

    /// A buffer with these packets at this address.
    pub fn buffer_at(&self, va: u64, packets: &Packets) -> IndirectBuffer {
        self.write(va, &packets.0);
        IndirectBuffer::new(va, packets.0.len() as u32)
    }

    pub fn fence(&mut self, initial: u64) -> u32 {
        let slot = self.fences;
        self.fences += 1;
        create_fence(&self.gpu, self.id, slot, self.space, initial);
        slot
    }

    /// The value of a fence that is published to the guest.
    pub fn published(&self, slot: u32) -> u64 {
        self.word(LAYOUT.fence(slot)).load(Ordering::Acquire)
    }

    pub fn wait(&self, slot: u32, value: u64) {
        eventually("a fence's signal", || self.published(slot) >= value);
    }

    /// A queue without a ring.
    pub fn kernel_mode_queue(&mut self, node: u32) -> (HwQueueId, u32) {
        let progress_fence = self.fence(0);
        (self.queue_with_progress(node, progress_fence), progress_fence)
    }

    /// A queue without a ring that signals an existing fence.
    pub fn queue_with_progress(&self, node: u32, progress_fence: u32) -> HwQueueId {
        self.gpu.create_hw_queue(self.description(node, progress_fence)).unwrap()
    }

    /// The description for [`Self::queue_with_progress`].
    pub fn description(&self, node: u32, progress_fence: u32) -> HwQueueDescription {
        HwQueueDescription {
            guest: self.id,
            context: HwContextId(progress_fence.into()),
            address_space: self.space,
            process: self.space,
            share: ProcessShare::default(),
            node,
            progress_fence,
            native_progress_fence: true,
            disable_gpu_timeout: false,
        }
    }

    /// Submits `size` bytes of packets to a queue without a ring; both fences get `value`.
    pub fn submit_kernel_mode(&self, queue: HwQueueId, gpu_va: u64, size: u32, value: u64) {
        let (progress_fence_value, submission_fence) = (value, value);
        let submission = KernelSubmission { gpu_va, size, progress_fence_value, submission_fence };
        self.gpu.submit_kernel_mode(queue, submission).unwrap();
        self.gpu.kick(queue).unwrap();
    }

    /// A queue whose doorbell is not connected.
    pub fn disconnected_queue(&mut self, node: u32) -> Queue {
        let (id, progress) = self.kernel_mode_queue(node);
        self.with_ring(id, progress)
    }

    /// A queue without a time-out.
    pub fn queue_without_timeout(&mut self, node: u32) -> Queue {
        let progress = self.fence(0);
        let description = self.description(node, progress);
        let id = self
            .gpu
            .create_hw_queue(HwQueueDescription { disable_gpu_timeout: true, ..description })
            .unwrap();
        let queue = self.with_ring(id, progress);
        self.connect(&queue);
        queue
    }

    fn with_ring(&mut self, id: HwQueueId, progress: u32) -> Queue {
        let ring_va = self.allocate(PAGE_SIZE);
        let control_va = self.allocate(PAGE_SIZE);
        let slot = self.doorbells;
        self.doorbells += 1;
        let binding = RingBinding {
            slot,
            ring_va,
            ring_size: PAGE_SIZE,
            control_va,
            notify_each: false,
            has_line: self.has_lines,
        };
        self.gpu.bind_ring(id, binding).unwrap();
        Queue { id, binding, progress, submitted: 0, written: 0 }
    }

    pub fn queue(&mut self, node: u32) -> Queue {
        let queue = self.disconnected_queue(node);
        self.connect(&queue);
        queue
    }

    pub fn physical_doorbell(&self, queue: &Queue) -> PhysicalDoorbell {
        PhysicalDoorbell(self.first_physical_doorbell + queue.binding.slot)
    }

    pub fn connect(&self, queue: &Queue) {
        self.gpu.watch(self.physical_doorbell(queue), queue.id).unwrap();
        self.gpu.kick(queue.id).unwrap();
        self.gpu.publish_connected(queue.id, ConnectionStatus::CONNECTED).unwrap();
    }

    pub fn doorbell(&self, queue: &Queue) -> DoorbellWords<'_> {
        let slot = queue.binding.slot;
        DoorbellWords::new(self.word(LAYOUT.doorbell(slot)), self.word(LAYOUT.status(slot)))
    }

    pub fn pointers(&self, queue: &Queue) -> RingPointers<'_> {
        let at = |offset| self.word(LOCAL_MEMORY + queue.binding.control_va - LOCAL + offset);
        RingPointers::new(at(WRITE_POINTER_OFFSET), at(READ_POINTER_OFFSET))
    }

    /// Puts packets into the ring, once there is room.
    pub fn put(&self, queue: &mut Queue, packets: &Packets) {
        let size = queue.binding.ring_size;
        let length = packets.0.len() as u64;
        assert!(length <= size);
        eventually("room in the ring", || {
            queue.written + length - self.pointers(queue).consumed() <= size
        });
        for unit in packets.0.chunks(8) {
            self.write(queue.binding.ring_va + queue.written % size, unit);
            queue.written += unit.len() as u64;
        }
        self.pointers(queue).publish(queue.written);
    }

    /// Rings, and notifies if the status asks for it.
    pub fn ring(&self, queue: &Queue) -> ConnectionStatus {
        let status = self.doorbell(queue).ring(queue.written);
        if status == ConnectionStatus::CONNECTED_NOTIFY {
            self.gpu.kick(queue.id).unwrap();
        }
        status
    }

    pub fn submit(&self, queue: &mut Queue, packets: &Packets) {
        self.put(queue, packets);
        self.ring(queue);
    }

    /// Submits packets with a signal of the progress fence behind them.
    pub fn submit_with_progress(&self, queue: &mut Queue, packets: Packets) {
        queue.submitted += 1;
        self.submit(queue, &packets.then(SignalFence::new(queue.progress, queue.submitted)));
    }

    /// Submits and waits until it is done.
    pub fn run(&self, queue: &mut Queue, packets: Packets) {
        self.submit_with_progress(queue, packets);
        self.wait(queue.progress, queue.submitted);
    }

    /// Submits packets that fault, and waits for the fault.
    pub fn run_into_fault(&self, queue: &mut Queue, packets: &Packets) -> Fault {
        self.submit(queue, packets);
        fault_of(&self.gpu, queue.id)
    }

    /// Destroys the guest's queues and fences, once engines have quiesced. It may have others then, in their places.
    #[allow(dead_code, reason = "the fuzz targets use it")]
    pub fn clear(&mut self, queues: &[&Queue]) {
        for queue in queues {
            self.gpu.unwatch(self.physical_doorbell(queue)).unwrap();
            self.gpu.destroy_hw_queue(queue.id).unwrap();
        }
        quiesce(&self.gpu);
        for slot in 0..self.fences {
            self.gpu.close_fence(self.id, slot).unwrap();
        }
        for slot in 0..self.doorbells {
            for offset in [LAYOUT.doorbell(slot), LAYOUT.status(slot), LAYOUT.last_queued(slot)] {
                self.word(offset).store(0, Ordering::Relaxed);
            }
        }
        (self.fences, self.doorbells, self.allocated) = (0, 0, FREE);
    }

    pub fn detach(self, queues: &[&Queue]) {
        for queue in queues {
            self.gpu.unwatch(self.physical_doorbell(queue)).unwrap();
        }
        self.detach_global(queues.iter().copied());
    }

    /// Detaches a guest with queues that no physical doorbell watches.
    pub fn detach_global<'q>(self, queues: impl IntoIterator<Item = &'q Queue>) {
        for queue in queues {
            self.gpu.destroy_hw_queue(queue.id).unwrap();
        }
        quiesce(&self.gpu);
        self.gpu.destroy_address_space(self.space).unwrap();
        self.gpu.detach_guest(self.id);
    }
}

/// A queue, from its guest's side.
#[derive(Debug)]
pub struct Queue {
    pub id: HwQueueId,
    pub binding: RingBinding,
    pub progress: u32,
    pub submitted: u64,
    pub written: u64,
}

/// Waits for interrupts and takes them.
pub fn take_interrupts(gpu: &Gpu) -> Vec<Interrupt> {
    let fd = gpu.interrupt_fd();
    let timeout = Timespec { tv_sec: HANG.as_secs() as i64, tv_nsec: 0 };
    let ready = retry_on_intr(|| poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)));
    assert_eq!(ready, Ok(1), "no interrupt came");
    gpu.acknowledge_interrupt();
    gpu.take_interrupts()
}

/// Waits for a queue's fault, and takes other interrupts meanwhile.
pub fn fault_of(gpu: &Gpu, queue: HwQueueId) -> Fault {
    loop {
        for interrupt in take_interrupts(gpu) {
            match interrupt {
                Interrupt::HwQueueFault { queue: faulted, fault }
                | Interrupt::PageFault { queue: faulted, fault }
                    if faulted == queue =>
                {
                    assert_eq!(
                        fault.reason.is_page_fault(),
                        matches!(interrupt, Interrupt::PageFault { .. })
                    );
                    return fault;
                }
                _ => {}
            }
        }
    }
}

/// Waits until every engine has quiesced.
pub fn quiesce(gpu: &Gpu) -> Ticket {
    let ticket = gpu.quiesce(None);
    eventually("a quiesce", || gpu.quiesced() >= ticket);
    ticket
}

/// Waits until every engine sleeps and has handled all earlier calls.
pub fn wait_until_asleep(gpu: &Gpu) {
    // An engine that was just called still counts as asleep, but not after a quiesce.
    quiesce(gpu);
    let nodes = 0..gpu.nodes().len() as u32;
    eventually("sleep", || nodes.clone().all(|node| gpu.engine_progress(node).unwrap().is_asleep));
}
