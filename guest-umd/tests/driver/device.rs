//! A device in the same process that keeps every rule until a test's script breaks one.

use bellhop_guest_umd::transport::{
    BarMapping, Donations, MemoryType, SystemMemory, Transport, TransportError,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{BarHeader, BarLayout};
use bellhop_protocol::config::{CONFIG_MAGIC, ConfigSpace};
use bellhop_protocol::control::adapter::{
    ADAPTER_BAR_MAPPED, AdapterInfo, EngineType, NodeMetadata, OpenAdapter, Statistics,
    UserModeSubmissionCaps,
};
use bellhop_protocol::control::allocation::{
    AllocationKind, CreateAllocation, CreateAllocationReply, Extent, NOT_IN_BAR,
};
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, ConnectDoorbellReply, CreateDoorbell, CreateDoorbellReply,
};
use bellhop_protocol::control::fence::{
    CancelWait, CreateNativeFence, CreateNativeFenceReply, WaitForFence,
};
use bellhop_protocol::control::gpu_va::{
    GPU_VA_START, MapGpuVirtualAddress, MapGpuVirtualAddressReply,
};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, CreateHwQueueReply};
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, CreateNodeContext, CreateNodeContextReply, PATCH_LOCATION_LIST_MAX,
    RENDER_COMMANDS_MAX, SubmissionModel, SubmissionReply, VIRTUAL_COMMAND_BUFFER_SIZE,
};
use bellhop_protocol::control::process::CreateProcessReply;
use bellhop_protocol::control::{Handle, ReplyHeader, Request, RequestCode, RequestHeader};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus, RingTag};
use bellhop_protocol::event::{Event, EventKind};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::handoff::doorbell::RingPointers;
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::{Packet, PacketHeader};
use bellhop_protocol::ring::{READ_POINTER_OFFSET, WRITE_POINTER_OFFSET};
use bellhop_protocol::status::Status;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::panicking;
use std::time::{Duration, Instant};
use vm_memory::{Bytes, MmapRegion, VolatileMemory};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

pub const LAYOUT: BarLayout =
    BarLayout { doorbell_count: 4, fence_count: 16, local_memory: 2 << 20 };
/// Guest-physical address of the memory that the driver is given.
const SYSTEM_BASE: u64 = 1 << 32;
const SYSTEM_SIZE: usize = 8 << 20;
/// How long something may take before a test calls it a hang.
pub const HANG: Duration = Duration::from_secs(30);

/// What a device says of itself, before anything goes wrong.
pub struct Shape {
    pub config: ConfigSpace,
    /// What was negotiated before the adapter is opened.
    pub features: Features,
    /// What is left of that when it is.
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
            features: Features::USER_MODE_SUBMISSION,
            opened: Features::USER_MODE_SUBMISSION,
            bar: Some(LAYOUT.header()),
            bar_size: LAYOUT.bar_size() as usize,
        }
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Sent {
    pub code: RequestCode,
    pub process: u32,
    body: Vec<u8>,
}

impl Sent {
    fn new(request: &[u8]) -> Self {
        let (header, body) = RequestHeader::read_from_prefix(request).unwrap();
        assert_eq!(header.length as usize, request.len(), "{} has another length", header.code);
        Self { code: header.code, process: header.process, body: body.to_vec() }
    }

    /// The request's structure.
    pub fn read<T: Request>(&self) -> T {
        assert_eq!(self.code, T::CODE);
        T::read_from_prefix(&self.body).unwrap().0
    }

    /// What follows its fixed structure.
    pub fn following<T: Request>(&self) -> &[u8] {
        assert_eq!(self.code, T::CODE);
        &self.body[size_of::<T>()..]
    }

    /// The first field of every request that names one object.
    fn named(&self) -> u64 {
        u64::read_from_prefix(&self.body).unwrap().0
    }
}

/// What becomes of a reply, header and all.
type Alteration = Box<dyn FnOnce(&mut Vec<u8>)>;

/// What a script makes of a request.
pub enum Answer {
    AsUsual,
    Refuse(Status, u64),
    /// Header and all.
    Reply(Vec<u8>),
    /// As usual, but for what this makes of the reply.
    Alter(Alteration),
    /// A reply that claims a length of its own.
    Length(usize),
    Disconnect,
}

impl Answer {
    /// As usual, but for a word of the reply's body.
    pub fn with_word(offset: usize, word: u64) -> Self {
        let at = size_of::<ReplyHeader>() + offset;
        Self::Alter(Box::new(move |reply| reply[at..at + 8].copy_from_slice(&word.to_le_bytes())))
    }
}

/// A reply with a body.
pub fn success(body: &(impl IntoBytes + Immutable)) -> Vec<u8> {
    reply(Status::SUCCESS, 0, body.as_bytes())
}

pub fn reply(status: Status, detail: u64, body: &[u8]) -> Vec<u8> {
    let length = (size_of::<ReplyHeader>() + body.len()) as u32;
    [ReplyHeader { status, length, detail }.as_bytes(), body].concat()
}

type Script = dyn Fn(&ScriptedDevice, &Sent) -> Answer + Send + Sync;

struct Object {
    creator: RequestCode,
    /// What must not go before it.
    parents: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Place {
    Local(u64),
    System(u64),
}

struct Wait {
    process: u32,
    fence: Handle,
    value: u64,
    cookie: u64,
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
    /// GPU virtual address of the first byte: place and size.
    mappings: BTreeMap<u64, (Place, u64)>,
    doorbells: Vec<Doorbell>,
    /// Slot and CurrentValue.
    fences: BTreeMap<Handle, (u32, u64)>,
    /// The device has gone away.
    gone: bool,
    waits: Vec<Wait>,
    events: VecDeque<Event>,
    /// What comes only once somebody waits for it.
    late: Option<Event>,
    /// How often somebody waited for an event.
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
            mappings: BTreeMap::new(),
            doorbells: Vec::new(),
            fences: BTreeMap::new(),
            gone: false,
            waits: Vec::new(),
            events: VecDeque::new(),
            late: None,
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
        // A test that fails lets go of its objects, which must not fail over the lock again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on every request goes to `script` first.
    pub fn script(&self, script: impl Fn(&Self, &Sent) -> Answer + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// What was sent since this was called last.
    pub fn take_sent(&self) -> Vec<Sent> {
        std::mem::take(&mut self.state().sent)
    }

    /// The codes of [`Self::take_sent`].
    pub fn take_codes(&self) -> Vec<RequestCode> {
        self.take_sent().iter().map(|sent| sent.code).collect()
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

    /// Waits until somebody has waited for an event `count` times.
    pub fn wait_for_reads(&self, count: usize) {
        self.wait_until("a wait for an event", |state| state.reads >= count);
    }

    pub fn registered_waits(&self) -> usize {
        self.state().waits.len()
    }

    /// Bytes that the driver has allocated and not given back.
    pub fn system_memory_in_use(&self) -> usize {
        self.system_in_use.load(Ordering::Relaxed)
    }

    /// How many objects exist.
    pub fn live(&self) -> usize {
        self.state().live.len()
    }

    /// Fails when an object is left, went twice, or went before what needs it.
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

    pub fn set_status(&self, slot: u32, status: ConnectionStatus) {
        self.status(slot).store(DoorbellStatus::new(status).0, Ordering::Release);
    }

    pub fn rung(&self, slot: u32) -> u64 {
        self.word(LAYOUT.doorbell(slot)).load(Ordering::Acquire)
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
            if let Packet::SignalFence(signal) = packet {
                self.signal_slot(signal.slot(), signal.value);
            }
            rest = &rest[size..];
        }
        self.state().executed.push(buffer);
    }

    /// Executes at most `limit` packets of the ring of `slot`.
    pub fn execute(&self, slot: u32, limit: usize) {
        let ring = self.ring(slot);
        for _ in 0..limit {
            let read = ring.pointers().consumed();
            if read == ring.pointers().written() {
                return;
            }
            let header = PacketHeader::read_from_bytes(&ring.read(read, 8)).unwrap();
            let bytes = ring.read(read, header.size());
            if let (Packet::IndirectBuffer(buffer), _) = Packet::decode(&bytes).unwrap() {
                self.execute_buffer(buffer);
            }
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
        let mut state = self.state();
        let (slot, current) = state.fences.get_mut(&fence).unwrap();
        *current = value;
        if self.shape.bar.is_some() {
            self.word(LAYOUT.fence(*slot)).store(value, Ordering::Release);
        }
        let (satisfied, waits) = std::mem::take(&mut state.waits)
            .into_iter()
            .partition(|wait| wait.fence == fence && wait.value <= value);
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

    /// Posts an event.
    pub fn post(&self, event: Event) {
        self.state().events.push_back(event);
        self.changed.notify_all();
    }

    /// Posts an event as soon as somebody waits for one.
    pub fn post_late(&self, event: Event) {
        self.state().late = Some(event);
    }

    /// Goes away: there are no more events.
    pub fn go_away(&self) {
        self.state().gone = true;
        self.changed.notify_all();
    }

    /// The answer of a device that keeps the rules.
    fn answer(&self, state: &mut State, sent: &Sent) -> Vec<u8> {
        let create = |state: &mut State, parents: &[u64]| {
            state.next_handle += 1;
            let handle = state.next_handle;
            state.create(handle, sent.code, parents);
            Handle(handle)
        };
        let process = u64::from(sent.process);
        let layout = LAYOUT;
        match sent.code {
            RequestCode::OPEN_ADAPTER => {
                let features = sent.read::<OpenAdapter>().features;
                if features & !self.shape.opened.bits() != 0 {
                    return reply(Status::REVISION_MISMATCH, self.shape.opened.bits(), &[]);
                }
                success(&AdapterInfo {
                    version: self.shape.config.version,
                    node_count: self.shape.config.node_count,
                    features,
                    local_memory: LAYOUT.local_memory,
                    flags: if self.shape.bar.is_some() { ADAPTER_BAR_MAPPED } else { 0 },
                })
            }
            RequestCode::GET_NODE_METADATA => success(&NodeMetadata {
                engine_type: EngineType::COPY,
                flags: 0,
                friendly_name: [0; 32],
            }),
            RequestCode::QUERY_USER_MODE_SUBMISSION_CAPS => success(&UserModeSubmissionCaps {
                flags: 0,
                doorbell_size: PAGE_SIZE as u32,
                secondary_doorbell_size: 0,
                physical_doorbells: 1,
            }),
            RequestCode::QUERY_STATISTICS => success(&Statistics::default()),
            RequestCode::CREATE_PROCESS => {
                let process = create(state, &[]).0 as u32;
                success(&CreateProcessReply { process, reserved: 0 })
            }
            RequestCode::CREATE_DEVICE => success(&create(state, &[process])),
            RequestCode::CREATE_CONTEXT => {
                let request = sent.read::<CreateContext>();
                success(&create(state, &[process, request.device.0]))
            }
            RequestCode::CREATE_HW_QUEUE => {
                let request = sent.read::<CreateHwQueue>();
                let hw_queue = create(state, &[process, request.context.0]);
                let (progress_fence, slot) = state.create_fence(0);
                success(&CreateHwQueueReply {
                    hw_queue,
                    progress_fence,
                    progress_fence_offset: layout.fence(slot),
                    progress_fence_slot: slot,
                    reserved: 0,
                })
            }
            RequestCode::SUBMIT_COMMAND => success(&()),
            RequestCode::CREATE_NODE_CONTEXT => {
                let request = sent.read::<CreateNodeContext>();
                let context = create(state, &[process, request.device.0]);
                let (progress_fence, slot) = state.create_fence(0);
                let mut reply = CreateNodeContextReply {
                    context,
                    progress_fence,
                    progress_fence_offset: layout.fence(slot),
                    progress_fence_slot: slot,
                    command_buffer_size: RENDER_COMMANDS_MAX,
                    allocation_list_size: ALLOCATION_LIST_MAX,
                    patch_location_list_size: PATCH_LOCATION_LIST_MAX,
                    command_buffer_offset: NOT_IN_BAR,
                    command_buffer_gpu_va: 0,
                };
                if request.model == SubmissionModel::VIRTUAL {
                    let size = u64::from(VIRTUAL_COMMAND_BUFFER_SIZE);
                    reply.command_buffer_size = VIRTUAL_COMMAND_BUFFER_SIZE;
                    reply.command_buffer_offset = state.next_local;
                    reply.command_buffer_gpu_va = state.next_va;
                    let place = (Place::Local(state.next_local), size);
                    state.mappings.insert(state.next_va, place);
                    state.next_local += size;
                    state.next_va += size;
                }
                success(&reply)
            }
            RequestCode::RENDER | RequestCode::SUBMIT_COMMAND_VIRTUAL => {
                state.submitted += 1;
                let submitted = state.submitted;
                success(&SubmissionReply {
                    submission_fence: 100 + submitted,
                    progress_fence_value: submitted,
                })
            }
            RequestCode::CREATE_ALLOCATION => {
                let request = sent.read::<CreateAllocation>();
                let allocation = create(state, &[process, request.device.0]);
                let (place, bar_offset) = if request.kind == AllocationKind::LOCAL {
                    let offset = state.next_local;
                    state.next_local += request.size;
                    (Place::Local(offset), offset)
                } else {
                    let extents = &sent.body[size_of::<CreateAllocation>()..];
                    // This device gives out one run at a time.
                    let extent = Extent::read_from_bytes(extents).unwrap();
                    assert_eq!(extent.length, request.size);
                    (Place::System(extent.address), NOT_IN_BAR)
                };
                state.allocations.insert(allocation, (place, request.size));
                success(&CreateAllocationReply { allocation, bar_offset })
            }
            RequestCode::MAP_GPU_VIRTUAL_ADDRESS => {
                let request = sent.read::<MapGpuVirtualAddress>();
                let gpu_va = state.next_va;
                state.next_va += request.size;
                state.create(gpu_va, sent.code, &[process, request.allocation.0]);
                let mapping = state.allocations[&request.allocation];
                state.mappings.insert(gpu_va, mapping);
                success(&MapGpuVirtualAddressReply { gpu_va })
            }
            RequestCode::CREATE_NATIVE_FENCE => {
                let request = sent.read::<CreateNativeFence>();
                let (fence, slot) = state.create_fence(request.initial_value);
                state.create(fence.0, sent.code, &[process, request.device.0]);
                if self.shape.bar.is_some() {
                    self.word(layout.fence(slot)).store(request.initial_value, Ordering::Release);
                }
                let current_value_offset = layout.fence(slot);
                success(&CreateNativeFenceReply { fence, current_value_offset, slot, reserved: 0 })
            }
            RequestCode::WAIT_FOR_FENCE => {
                let WaitForFence { fence, value, cookie } = sent.read();
                if state.fences[&fence].1 >= value {
                    return success(&());
                }
                state.waits.push(Wait { process: sent.process, fence, value, cookie });
                reply(Status::PENDING, 0, &[])
            }
            RequestCode::CANCEL_WAIT => {
                let CancelWait { fence, cookie } = sent.read();
                let is_it = |wait: &Wait| (wait.fence, wait.cookie) == (fence, cookie);
                match state.waits.iter().position(is_it) {
                    Some(index) => {
                        state.waits.remove(index);
                        success(&())
                    }
                    None => reply(Status::INVALID_PARAMETER, cookie, &[]),
                }
            }
            RequestCode::CREATE_DOORBELL => {
                let CreateDoorbell { hw_queue, ring_buffer, ring_control, .. } = sent.read();
                let parents = [process, hw_queue.0, ring_buffer.0, ring_control.0];
                let handle = create(state, &parents);
                let slot = state.doorbells.len() as u32;
                state.doorbells.push(Doorbell {
                    handle,
                    slot,
                    hw_queue,
                    ring: ring_buffer,
                    control: ring_control,
                });
                self.set_status(slot, ConnectionStatus::DISCONNECTED_RETRY);
                success(&CreateDoorbellReply {
                    doorbell: handle,
                    doorbell_offset: layout.doorbell(slot),
                    status_offset: layout.status(slot),
                    last_queued_offset: layout.last_queued(slot),
                    ring_tag: RingTag(0),
                    reserved: 0,
                })
            }
            RequestCode::CONNECT_DOORBELL => {
                let ConnectDoorbell { hw_queue } = sent.read();
                let status = ConnectionStatus::CONNECTED;
                let mut doorbells = state.doorbells.iter();
                let doorbell = doorbells.find(|doorbell| doorbell.hw_queue == hw_queue).unwrap();
                self.set_status(doorbell.slot, status);
                success(&ConnectDoorbellReply { status, reserved: 0 })
            }
            RequestCode::NOTIFY_WORK_SUBMISSION => {
                let doorbell = Handle(sent.named());
                assert!(state.doorbells.iter().any(|other| other.handle == doorbell));
                success(&())
            }
            RequestCode::DESTROY_PROCESS => state.destroy(process),
            RequestCode::FREE_GPU_VIRTUAL_ADDRESS => {
                state.mappings.remove(&sent.named());
                state.destroy(sent.named())
            }
            RequestCode::DESTROY_HW_QUEUE => {
                let is_its = |doorbell: &&Doorbell| doorbell.hw_queue.0 == sent.named();
                // Its doorbell goes with it.
                if let Some(handle) = state.doorbells.iter().find(is_its).map(|found| found.handle)
                {
                    state.live.remove(&handle.0);
                }
                state.destroy(sent.named())
            }
            RequestCode::DESTROY_DEVICE
            | RequestCode::DESTROY_CONTEXT
            | RequestCode::DESTROY_ALLOCATION
            | RequestCode::DESTROY_NATIVE_FENCE
            | RequestCode::DESTROY_DOORBELL => state.destroy(sent.named()),
            code => panic!("no request has code {code}"),
        }
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

impl Transport for ScriptedDevice {
    fn config(&self) -> ConfigSpace {
        self.shape.config
    }

    fn features(&self) -> Features {
        self.shape.features
    }

    fn donations(&self) -> &Donations {
        &self.donations
    }

    fn bar(&self) -> Option<BarMapping> {
        self.shape.bar.as_ref()?;
        let region = Arc::clone(&self.bar);
        Some(BarMapping { region, memory_type: MemoryType::WriteBack })
    }

    fn request(&self, request: &[u8], reply_buffer: &mut [u8]) -> Result<usize, TransportError> {
        let sent = Sent::new(request);
        let script = Arc::clone(&*self.script.lock().unwrap());
        // A test that has failed already lets go of its objects.
        let answer = if panicking() { Answer::AsUsual } else { script(self, &sent) };
        let mut state = self.state();
        let bytes = match answer {
            Answer::AsUsual => self.answer(&mut state, &sent),
            Answer::Refuse(status, detail) => reply(status, detail, &[]),
            Answer::Reply(bytes) => bytes,
            Answer::Alter(alter) => {
                let mut bytes = self.answer(&mut state, &sent);
                alter(&mut bytes);
                bytes
            }
            Answer::Length(length) => {
                state.sent.push(sent);
                return Ok(length);
            }
            Answer::Disconnect => return Err(TransportError::Disconnected("as scripted".into())),
        };
        state.sent.push(sent);
        self.changed.notify_all();
        reply_buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        let deadline = Instant::now() + timeout.expect("the driver always names a time");
        let mut state = self.state();
        state.reads += 1;
        self.changed.notify_all();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.gone {
                return Err(TransportError::Disconnected("as scripted".into()));
            }
            if state.events.is_empty()
                && let Some(event) = state.late.take()
            {
                state.events.push_back(event);
            }
            if !state.events.is_empty() || left.is_zero() {
                return Ok(state.events.pop_front());
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        let length = size as usize;
        let offset = self.next_system.fetch_add(length, Ordering::Relaxed);
        if offset + length > SYSTEM_SIZE {
            return Err(TransportError::OutOfMemory(size));
        }
        self.system_in_use.fetch_add(length, Ordering::Relaxed);
        Ok(Box::new(Pages {
            region: Arc::clone(&self.system),
            offset,
            extents: [Extent { address: SYSTEM_BASE + offset as u64, length: size }],
            in_use: Arc::clone(&self.system_in_use),
        }))
    }
}

/// Memory that the driver was given.
struct Pages {
    region: Arc<MmapRegion>,
    offset: usize,
    extents: [Extent; 1],
    in_use: Arc<AtomicUsize>,
}

impl SystemMemory for Pages {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.region
    }

    fn offset(&self) -> usize {
        self.offset
    }

    fn len(&self) -> usize {
        self.extents[0].length as usize
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.in_use.fetch_sub(self.len(), Ordering::Relaxed);
    }
}

/// A ring as the device sees it.
pub struct DeviceRing<'a> {
    device: &'a ScriptedDevice,
    buffer: u64,
    pub size: u64,
    control: u64,
}

impl DeviceRing<'_> {
    pub fn pointers(&self) -> RingPointers<'_> {
        RingPointers::new(
            self.device.word(self.control + WRITE_POINTER_OFFSET),
            self.device.word(self.control + READ_POINTER_OFFSET),
        )
    }

    /// Bytes from `position` on, around the ring's end.
    pub fn read(&self, position: u64, length: usize) -> Vec<u8> {
        let place = |unit: usize| self.buffer + (position + unit as u64 * 8) % self.size;
        let units = 0..length.div_ceil(8);
        let unit = |unit| self.device.word(place(unit)).load(Ordering::Relaxed).to_le_bytes();
        units.flat_map(unit).take(length).collect()
    }
}
