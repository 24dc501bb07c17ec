// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device in the test's process that keeps every rule until the test's script breaks one.

mod answers;
mod fences;
mod paged;
mod ring;
mod script;
mod transport;

pub use ring::DeviceRing;
pub use script::{Answer, Sent, reply, success};

use bellhop_guest_umd::transport::Donations;
use bellhop_protocol::bar::{BarHeader, BarLayout};
use bellhop_protocol::config::{CONFIG_MAGIC, ConfigSpace};
use bellhop_protocol::control::gpu_va::GPU_VA_START;
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::doorbell::DoorbellStatus;
use bellhop_protocol::event::{Event, EventKind};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::{Packet, PacketHeader};
use bellhop_protocol::status::Status;
use fences::Wait;
use paged::Paged;
use script::Script;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vm_memory::{Bytes, MmapRegion, VolatileMemory};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

pub const LAYOUT: BarLayout =
    BarLayout { doorbell_count: 4, fence_count: 16, local_memory: 2 << 20 };
/// The features that are negotiated by default.
pub const FEATURES: Features =
    Features::USER_MODE_SUBMISSION.union(Features::NATIVE_FENCES).union(Features::DOORBELL_LINES);
/// Guest-physical address of the memory that the driver gets.
const SYSTEM_BASE: u64 = 1 << 32;
const SYSTEM_SIZE: usize = 8 << 20;
/// How long a step may take before a test calls it a hang.
pub const HANG: Duration = Duration::from_secs(30);

/// What a device reports about itself.
pub struct Shape {
    pub config: ConfigSpace,
    /// The features that were negotiated.
    pub features: Features,
    /// The features that are left when the adapter is opened.
    pub opened: Features,
    /// `None`: no BAR is mapped.
    pub bar: Option<BarHeader>,
    pub bar_size: usize,
}

impl Default for Shape {
    fn default() -> Self {
        let config = ConfigSpace {
            magic: CONFIG_MAGIC,
            version: Version::CURRENT,
            node_count: 2,
            bar_size: LAYOUT.bar_size(),
            doorbell_count: LAYOUT.doorbell_count,
            fence_count: LAYOUT.fence_count,
            features: Features::all().bits(),
            reserved: [0; 3],
        };
        Self {
            config,
            features: FEATURES,
            opened: FEATURES,
            bar: Some(LAYOUT.header()),
            bar_size: LAYOUT.bar_size() as usize,
        }
    }
}
struct Object {
    creator: RequestCode,
    /// The objects that must not be destroyed before it.
    parents: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Place {
    Local(u64),
    System(u64),
}

#[derive(Clone, Copy)]
struct Doorbell {
    handle: Handle,
    slot: u32,
    hw_queue: Handle,
    ring: Handle,
    control: Handle,
}

struct State {
    sent: Vec<Sent>,
    next_handle: u64,
    next_va: u64,
    next_local: u64,
    /// Submissions to contexts that submit to their node.
    submitted: u64,
    next_fence_slot: u32,
    live: BTreeMap<u64, Object>,
    mistakes: Vec<String>,
    allocations: BTreeMap<Handle, (Place, u64)>,
    /// The allocations that the device places.
    paged: BTreeMap<Handle, Paged>,
    /// Places and sizes by GPU virtual address.
    mappings: BTreeMap<u64, (Place, u64)>,
    doorbells: Vec<Doorbell>,
    /// Slots and CurrentValues.
    fences: BTreeMap<Handle, (u32, u64)>,
    /// Kicks of the event queue.
    kicks: u64,
    /// The device has gone away.
    gone: bool,
    waits: Vec<Wait>,
    events: VecDeque<Event>,
    /// Events that come only once a thread waits.
    late: Option<Event>,
    /// The driver was notified, and no thread that waits for an event has seen that.
    notified: bool,
    /// How often a thread waited for an event.
    reads: usize,
    executed: Vec<IndirectBuffer>,
}

pub struct ScriptedDevice {
    shape: Shape,
    bar: Arc<MmapRegion>,
    donations: Donations,
    system: Arc<MmapRegion>,
    next_system: AtomicUsize,
    system_in_use: Arc<AtomicUsize>,
    state: Mutex<State>,
    changed: Condvar,
    script: Mutex<Arc<Script>>,
}

impl ScriptedDevice {
    pub fn new() -> Arc<Self> {
        Self::with(Shape::default())
    }

    pub fn with(shape: Shape) -> Arc<Self> {
        let bar = MmapRegion::new(shape.bar_size).unwrap();
        if let Some(header) = &shape.bar {
            let length = shape.bar_size.min(size_of::<BarHeader>());
            bar.as_volatile_slice().write_slice(&header.as_bytes()[..length], 0).unwrap();
        }
        let state = State {
            sent: Vec::new(),
            next_handle: 0,
            next_va: GPU_VA_START,
            next_local: LAYOUT.local_memory(),
            submitted: 0,
            next_fence_slot: 0,
            live: BTreeMap::new(),
            mistakes: Vec::new(),
            allocations: BTreeMap::new(),
            paged: BTreeMap::new(),
            mappings: BTreeMap::new(),
            doorbells: Vec::new(),
            fences: BTreeMap::new(),
            kicks: 0,
            gone: false,
            waits: Vec::new(),
            events: VecDeque::new(),
            late: None,
            notified: false,
            reads: 0,
            executed: Vec::new(),
        };
        Arc::new(Self {
            shape,
            bar: Arc::new(bar),
            donations: Donations::default(),
            system: Arc::new(MmapRegion::new(SYSTEM_SIZE).unwrap()),
            next_system: AtomicUsize::new(0),
            system_in_use: Arc::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            script: Mutex::new(Arc::new(|_, _| Answer::AsUsual)),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A failing test drops its objects, which must not fail again over the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives every later request to `script` first.
    pub fn script(&self, script: impl Fn(&Self, &Sent) -> Answer + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// The requests since the last call.
    pub fn take_sent(&self) -> Vec<Sent> {
        std::mem::take(&mut self.state().sent)
    }

    /// The codes of [`Self::take_sent`].
    pub fn take_codes(&self) -> Vec<RequestCode> {
        self.take_sent().iter().map(|sent| sent.code).collect()
    }

    /// The number of kicks of the event queue.
    pub fn kicks(&self) -> u64 {
        self.state().kicks
    }

    fn wait_until(&self, what: &str, done: impl Fn(&State) -> bool) {
        let (_state, result) =
            self.changed.wait_timeout_while(self.state(), HANG, |state| !done(state)).unwrap();
        assert!(!result.timed_out(), "never happened: {what}");
    }

    /// Waits until `count` waits for fences are registered.
    pub fn wait_for_waits(&self, count: usize) {
        self.wait_until("a wait for a fence", |state| state.waits.len() == count);
    }

    /// Waits until threads have waited for an event `count` times.
    pub fn wait_for_reads(&self, count: usize) {
        self.wait_until("a wait for an event", |state| state.reads >= count);
    }

    pub fn registered_waits(&self) -> usize {
        self.state().waits.len()
    }

    /// How often a device made an allocation resident; `None` if it does not have it open.
    pub fn wanted(&self, device: Handle, allocation: Handle) -> Option<u32> {
        self.state().wanted(device, allocation)
    }

    /// Where a paged allocation is in the BAR when it is locked.
    pub fn bar_offset(&self, allocation: Handle) -> u64 {
        self.state().paged[&allocation].bar_offset
    }

    /// The process of a device.
    pub fn process_of(&self, device: Handle) -> u32 {
        self.state().live[&device.0].parents[0] as u32
    }

    /// Bytes that the driver has allocated and not freed.
    pub fn system_memory_in_use(&self) -> usize {
        self.system_in_use.load(Ordering::Relaxed)
    }

    /// How many objects exist.
    pub fn live(&self) -> usize {
        self.state().live.len()
    }

    /// Fails when an object is left, was destroyed twice, or was destroyed before what needs it.
    pub fn assert_all_destroyed(&self) {
        let state = self.state();
        assert_eq!(state.mistakes, Vec::<String>::new());
        let left: Vec<_> = state.live.values().map(|object| object.creator).collect();
        assert_eq!(left, []);
    }

    pub fn word(&self, offset: u64) -> &AtomicU64 {
        self.bar.get_atomic_ref(offset as usize).unwrap()
    }

    pub fn status(&self, slot: u32) -> &AtomicU64 {
        self.word(LAYOUT.status(slot))
    }

    pub fn set_status(&self, slot: u32, status: impl Into<DoorbellStatus>) {
        self.status(slot).store(status.into().0, Ordering::Release);
    }

    pub fn rung(&self, slot: u32) -> u64 {
        self.word(LAYOUT.doorbell(slot)).load(Ordering::Acquire)
    }

    /// The words of a doorbell's line.
    pub fn line(&self, slot: u32) -> [u64; 8] {
        std::array::from_fn(|index| {
            self.word(LAYOUT.doorbell(slot) + 8 * index as u64).load(Ordering::Acquire)
        })
    }

    pub fn last_queued(&self, slot: u32) -> u64 {
        self.word(LAYOUT.last_queued(slot)).load(Ordering::Acquire)
    }

    /// The ring of the doorbell in `slot`.
    pub fn ring(&self, slot: u32) -> DeviceRing<'_> {
        let state = self.state();
        let doorbell = state.doorbells.iter().find(|doorbell| doorbell.slot == slot).unwrap();
        let local = |handle| match state.allocations[&handle] {
            (Place::Local(offset), size) => (offset, size),
            (Place::System(_), _) => panic!("the ring is not in local memory"),
        };
        let (buffer, size) = local(doorbell.ring);
        DeviceRing { device: self, buffer, size, control: local(doorbell.control).0 }
    }

    /// Bytes at a GPU virtual address.
    pub fn read_gpu(&self, gpu_va: u64, length: usize) -> Vec<u8> {
        let state = self.state();
        let (start, (place, size)) = state.mappings.range(..=gpu_va).next_back().unwrap();
        let offset = gpu_va - start;
        assert!(offset + length as u64 <= *size, "{gpu_va:#x} is not mapped that far");
        let mut bytes = vec![0; length];
        match *place {
            Place::Local(at) => {
                self.bar.as_volatile_slice().read_slice(&mut bytes, (at + offset) as usize)
            }
            Place::System(at) => self
                .system
                .as_volatile_slice()
                .read_slice(&mut bytes, (at + offset - SYSTEM_BASE) as usize),
        }
        .unwrap();
        bytes
    }

    /// Executes an indirect buffer, as far as fences go.
    pub fn execute_buffer(&self, buffer: IndirectBuffer) {
        let bytes = self.read_gpu(buffer.gpu_va, buffer.size() as usize);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (packet, size) = Packet::decode(rest).unwrap();
            self.execute_packet(packet);
            rest = &rest[size..];
        }
        self.state().executed.push(buffer);
    }

    fn execute_packet(&self, packet: Packet<'_>) {
        match packet {
            Packet::IndirectBuffer(buffer) => self.execute_buffer(buffer),
            Packet::SignalFence(signal) => self.signal_slot(signal.slot(), signal.value),
            Packet::WriteFence(write) => self.signal_slot(write.slot(), write.value),
            _ => {}
        }
    }

    /// Executes at most `limit` submissions of the ring of `slot`: each a command buffer and the packets behind
    /// it.
    pub fn execute(&self, slot: u32, limit: usize) {
        let ring = self.ring(slot);
        let mut executed = 0;
        loop {
            let read = ring.pointers().consumed();
            if read == ring.pointers().written() {
                return;
            }
            let header = PacketHeader::read_from_bytes(&ring.read(read, 8)).unwrap();
            let bytes = ring.read(read, header.size());
            let (packet, _) = Packet::decode(&bytes).unwrap();
            if matches!(packet, Packet::IndirectBuffer(_)) {
                executed += 1;
                if executed > limit {
                    return;
                }
            }
            self.execute_packet(packet);
            ring.pointers().consume(read + bytes.len() as u64);
        }
    }

    /// Every indirect buffer that was executed, in order.
    pub fn executed(&self) -> Vec<IndirectBuffer> {
        self.state().executed.clone()
    }

    fn signal_slot(&self, slot: u32, value: u64) {
        let fence = {
            let state = self.state();
            let (fence, _) = state.fences.iter().find(|(_, fence)| fence.0 == slot).unwrap();
            *fence
        };
        self.signal(fence, value);
    }

    /// Publishes a CurrentValue and posts the events of the waits that it satisfies.
    pub fn signal(&self, fence: Handle, value: u64) {
        self.signal_locked(&mut self.state(), fence, value);
    }

    fn signal_locked(&self, state: &mut State, fence: Handle, value: u64) {
        let (slot, current) = state.fences.get_mut(&fence).unwrap();
        *current = value;
        if self.shape.bar.is_some() {
            self.word(LAYOUT.fence(*slot)).store(value, Ordering::Release);
        }
        let (satisfied, waits) = std::mem::take(&mut state.waits)
            .into_iter()
            .partition(|wait| wait.is_satisfied(&state.fences));
        state.waits = waits;
        for Wait { process, cookie, .. } in satisfied {
            let mut event = Event::new_zeroed();
            event.kind = EventKind::FENCE_SIGNALED;
            (event.process, event.object, event.value) = (process, fence.0, value);
            event.cookie = cookie;
            state.events.push_back(event);
        }
        self.changed.notify_all();
    }

    /// Publishes a CurrentValue and notifies the driver, without the events of the waits that it satisfies.
    pub fn nudge(&self, fence: Handle, value: u64) {
        let mut state = self.state();
        let (slot, current) = state.fences.get_mut(&fence).unwrap();
        *current = value;
        self.word(LAYOUT.fence(*slot)).store(value, Ordering::Release);
        state.notified = true;
        self.changed.notify_all();
    }

    /// Posts an event.
    pub fn post(&self, event: Event) {
        self.state().events.push_back(event);
        self.changed.notify_all();
    }

    /// Posts an event as soon as a thread waits for one.
    pub fn post_late(&self, event: Event) {
        self.state().late = Some(event);
    }

    /// Goes away: there are no more events.
    pub fn go_away(&self) {
        self.state().gone = true;
        self.changed.notify_all();
    }
}

impl State {
    fn create(&mut self, handle: u64, creator: RequestCode, parents: &[u64]) {
        for parent in parents {
            if !self.live.contains_key(parent) {
                self.mistakes.push(format!("{creator} names {parent:#x}, which is gone"));
            }
        }
        self.live.insert(handle, Object { creator, parents: parents.to_vec() });
    }

    fn create_fence(&mut self, value: u64) -> (Handle, u32) {
        self.next_handle += 1;
        let slot = self.next_fence_slot;
        self.next_fence_slot += 1;
        self.fences.insert(Handle(self.next_handle), (slot, value));
        (Handle(self.next_handle), slot)
    }

    fn destroy(&mut self, handle: u64) -> Vec<u8> {
        let Some(object) = self.live.remove(&handle) else {
            self.mistakes.push(format!("{handle:#x} is destroyed and is not there"));
            return reply(Status::INVALID_HANDLE, handle, &[]);
        };
        for child in self.live.values().filter(|child| child.parents.contains(&handle)) {
            let mistake =
                format!("that of {} went before that of {}", object.creator, child.creator);
            self.mistakes.push(mistake);
        }
        success(&())
    }
}
