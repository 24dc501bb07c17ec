// SPDX-License-Identifier: MIT OR Apache-2.0

//! A simulated GPU that keeps its state in maps. It logs the kernel's calls, so that tests can assert their order,
//! and panics when the kernel breaks the rules of `Gpu` or `Platform`.

pub mod displays;
mod engines;
mod hardware;
pub mod monitors;

use displays::Displays;
pub use engines::{Engines, Work};
pub use hardware::ModelKernel;

use bellhop_host_kmd::ddi::VirtualAddressingModel;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, DisplayCaps, DoorbellModel, DriverProtection, EngineProgress, Fault,
    FenceStorage, GpuOrdinal, GuestId, HwQueueDescription, HwQueueId, Interrupt, KernelNumber,
    KernelSubmission, NodeDescription, PhysicalAddress, PhysicalDoorbell, PhysicalPage,
    ProcessBarId, ProcessBarPlace, Pte, RingBinding, SchedulingPriority, Segment, SlotValue,
    SystemContext, Ticket, UnknownId, VideoSessionNumber, VideoSettings, WorkerDescription,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::gpu_va::GPU_VA_END;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::doorbell::{ConnectionStatus, LoggingLevel};
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogOperation, FenceLogType};
use bellhop_protocol::handoff::fence_log::FenceLog;
use bellhop_protocol::packet::Packet;
use bellhop_protocol::packet::paging::WritePageTable;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

/// Each guest's guest-physical memory starts at 0 and has this many bytes.
pub const GUEST_MEMORY: u64 = 1 << 30;

/// One call that the kernel made to the GPU, or one write that a packet made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Bind(HwQueueId, RingBinding),
    Unbind(HwQueueId),
    Watch(PhysicalDoorbell, HwQueueId),
    Unwatch(PhysicalDoorbell),
    RotateToPhysical(HwQueueId),
    RotateToDummy(HwQueueId),
    WatchGlobal(HwQueueId),
    UnwatchGlobal(HwQueueId),
    Kick(HwQueueId),
    Connected(HwQueueId, ConnectionStatus),
    Disconnected(HwQueueId, ConnectionStatus),
    DestroyQueue(HwQueueId),
    Zero(GuestId, u64, u64),
    /// A packet filled this page with this pattern.
    FillPage(GuestId, PhysicalPage, u32),
    Monitor(Vec<SlotValue>),
    FlushLogs(Vec<HwQueueId>),
    LoggingLevel(LoggingLevel),
    Submit(HwQueueId, KernelSubmission),
    WriteDmaBuffer(GuestId, u64, Vec<u8>),
    Suspend(Vec<HwQueueId>),
    Resume(Vec<HwQueueId>),
    Preempt(HwQueueId, u64),
    AbandonPaging(GuestId, u64),
    ResetEngine(u32),
    ResetAdapter,
    Signal(Vec<SlotValue>, bool),
    Notify(Vec<u32>, bool),
    Priority(Vec<HwQueueId>, SchedulingPriority),
    EnginePower(u32, EnginePowerState),
    Invalidate(u64),
    Quiesce,
    DestroyKernel(KernelNumber),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub current: u64,
    pub monitored: u64,
    pub storage: FenceStorage,
}

impl Fence {
    /// The address of the CurrentValue, if the fence's CurrentValue is shared with other guests.
    pub fn view(self) -> Option<u64> {
        let PhysicalAddress { segment, address } = self.storage.current;
        (segment == Segment::CrossAdapter).then_some(address)
    }
}

/// Where addresses of page tables have the ordinal of the GPU.
const TABLES_SHIFT: u32 = 48;

/// A page table. `first` is the number of the first page that it maps. Its address is its index in `State::tables`
/// times 4096, behind the ordinal of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    space: AddressSpaceId,
    page_size: PageSize,
    first: u64,
}

/// A fence log: its words and the address of its memory.
pub type Log = (Arc<[AtomicU64]>, PhysicalAddress);

#[derive(Debug, Default)]
pub struct State {
    /// The number of doorbells that is reserved for each guest.
    pub doorbell_shares: BTreeMap<GuestId, u32>,
    /// When each queue last used its doorbell, as a count of doorbell uses.
    pub last_uses: BTreeMap<HwQueueId, u64>,
    pub log: Vec<Call>,
    pub spaces: HashMap<AddressSpaceId, BTreeMap<u64, Pte>>,
    /// The page tables that have been allocated for packets to write.
    pub tables: Vec<Table>,
    pub queues: BTreeMap<HwQueueId, HwQueueDescription>,
    /// The guests' system contexts.
    pub systems: BTreeMap<GuestId, SystemContext>,
    /// Paging buffers that have neither completed nor failed, oldest first, each with its fence.
    pub paging: HashMap<GuestId, VecDeque<(u64, Vec<u8>)>>,
    /// The contents of pages; a page without an entry holds 0.
    pub contents: HashMap<(GuestId, PhysicalPage), u64>,
    /// Pages that engines have accessed.
    pub accessed: BTreeSet<(AddressSpaceId, u64)>,
    /// How often the kernel asked engines to forget their translations only so that later accesses set the accessed
    /// bits again.
    pub looks: u64,
    /// Whether a paging buffer completes as soon as it is submitted.
    pub prompt_paging: bool,
    /// The number of paging buffers that a guest may have in flight.
    pub paging_room: usize,
    pub rings: BTreeMap<HwQueueId, RingBinding>,
    pub status: HashMap<HwQueueId, ConnectionStatus>,
    /// Queues that are off the run list.
    pub suspended: BTreeSet<HwQueueId>,
    /// Engines that are in F1.
    pub without_power: BTreeSet<u32>,
    /// The number of each engine's last power transition.
    pub transitions: BTreeMap<u32, u64>,
    /// The last-queued values that guests wrote for their queues.
    pub last_queued: HashMap<HwQueueId, u64>,
    pub watches: HashMap<PhysicalDoorbell, HwQueueId>,
    /// Whether the GPU moves the pages of doorbells, so that a rotation completes later.
    pub rotates: bool,
    pub model: DoorbellModel,
    pub addressing: VirtualAddressingModel,
    pub global_watches: BTreeSet<HwQueueId>,
    /// The global fences, by slot.
    pub fences: BTreeMap<(GuestId, u32), Fence>,
    /// For each opened slot: the slot of its global fence, and the address space of the packets that name it.
    pub opened: BTreeMap<(GuestId, u32), (u32, AddressSpaceId)>,
    /// The fence logs of queues, and the addresses of their memory.
    pub fence_logs: BTreeMap<(HwQueueId, FenceLogType), Log>,
    /// The first engine's trace log.
    pub trace_log: Option<Arc<[AtomicU64]>>,
    /// The adapter's clock.
    pub clock: u64,
    pub local_words: HashMap<(GuestId, u64), u64>,
    /// The lengths of the areas that are in guest memory.
    pub placed: HashMap<(GuestId, AreaKind), u64>,
    /// BARs of processes' own.
    pub process_bars: HashSet<(GuestId, ProcessBarId)>,
    /// Doorbell slots in such BARs.
    pub own_doorbells: HashMap<(GuestId, u32), ProcessBarPlace>,
    /// Fence slots in such BARs.
    pub own_fences: HashMap<(GuestId, u32), ProcessBarPlace>,
    /// The number of page tables that can still be allocated.
    pub page_table_room: usize,
    /// The number of kernel-mode submissions that the GPU still has room for.
    pub submission_room: usize,
    /// The fence id of each queue's last completed submission.
    pub completed: HashMap<HwQueueId, u64>,
    /// Whether placing an area fails as if the guest had lost the memory after the kernel checked it.
    pub places_nothing: bool,
    /// The CurrentValue that a fence gets during the next update of MonitoredValues, as if an engine signaled it at
    /// that moment.
    pub signal_during_update: Option<u64>,
    /// The progress of each engine; an engine without an entry is asleep.
    pub progress: HashMap<u32, EngineProgress>,
    /// The kernels of guests.
    pub kernels: BTreeMap<(AddressSpaceId, KernelNumber), ModelKernel>,
    /// The video sessions of guests.
    pub video_sessions: BTreeMap<(AddressSpaceId, VideoSessionNumber), VideoSettings>,
    /// The most video sessions that the GPU has room for; 0: it has no video nodes.
    pub video_room: u32,
    /// The processes that run kernels.
    pub workers: Vec<WorkerDescription>,
    /// The number of kernels that the GPU still has room for.
    pub kernel_room: usize,
    /// Whether the GPU has no kernels.
    pub has_no_kernels: bool,
    /// The displays of guests.
    pub displays: Displays,
    /// Whether engines pass a ticket as soon as it is issued.
    pub prompt: bool,
    /// The engines that execute work without being told to by the test.
    pub engines: Engines,
    /// Ids that the model reports as unknown, so that a test can see what the kernel does after a bug of its own. The
    /// model panics for any other id that does not exist.
    pub lost: Vec<UnknownId>,
    /// The guests for which only earlier tickets have passed.
    pub withheld: Vec<(GuestId, Ticket)>,
    issued: u64,
    passed: u64,
    interrupts: Vec<Interrupt>,
    next_id: u64,
}

impl State {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Lets every engine pass all issued tickets. An engine that is stuck passes none.
    fn pass_tickets(&mut self) {
        if !self.engines.is_any_stuck() {
            self.passed = self.issued;
            self.interrupts.push(Interrupt::Quiesced);
        }
    }

    /// Executes the packets of a paging buffer, which write page tables of the slaves, too. The content of a page is
    /// modeled as one number.
    fn execute_paging(&mut self, guest: GuestId, mut packets: &[u8], slaves: &[Arc<Model>]) {
        let Some(system) = self.systems.get(&guest).map(|system| system.address_space) else {
            return;
        };
        while let Ok((packet, size)) = Packet::decode(packets) {
            packets = &packets[size..];
            match packet {
                Packet::WritePageTable(write) => {
                    match (write.address >> TABLES_SHIFT).checked_sub(1) {
                        Some(slave) => slaves[slave as usize].state().write_page_table(&write),
                        None => self.write_page_table(&write),
                    }
                }
                Packet::Fill(fill) => {
                    for at in (0..fill.length).step_by(PAGE_SIZE as usize) {
                        let page = self.page(system, fill.destination + at).expect("a page");
                        let pattern = fill.header.argument;
                        self.contents.insert((guest, page), pattern.into());
                        if page.segment == Segment::Local {
                            let inside = page.address..page.address + PAGE_SIZE;
                            self.local_words
                                .retain(|(of, at), _| *of != guest || !inside.contains(at));
                        }
                        self.log.push(Call::FillPage(guest, page, pattern));
                    }
                }
                Packet::Copy(copy) => {
                    for at in (0..copy.length).step_by(PAGE_SIZE as usize) {
                        let from = self.page(system, copy.source + at).expect("a source");
                        let to = self.page(system, copy.destination + at).expect("a target");
                        let content = self.contents.get(&(guest, from)).copied().unwrap_or(0);
                        self.contents.insert((guest, to), content);
                    }
                }
                _ => {}
            }
        }
    }

    fn write_page_table(&mut self, write: &WritePageTable) {
        let table = self.tables[(write.address % (1 << TABLES_SHIFT) / 4096) as usize];
        let entries = self.spaces.get_mut(&table.space).expect("a space that exists");
        for index in 0..u64::from(write.count()) {
            let page = table.first + write.address % 4096 / 8 + index;
            let large = page * table.page_size.bytes();
            let bits = write.first.wrapping_add(write.increment.wrapping_mul(index));
            for at in (0..table.page_size.bytes()).step_by(PAGE_SIZE as usize) {
                let entry = Pte::from_bits(bits);
                match entry.page() {
                    Some(PhysicalPage { segment, address }) => {
                        let page = PhysicalPage { segment, address: address + at };
                        entries.insert(
                            large + at,
                            Pte::new(page, entry.is_writable()).protected(DriverProtection {
                                compressed: entry.compressed(),
                                protected: entry.is_protected(),
                            }),
                        )
                    }
                    None => entries.remove(&(large + at)),
                };
            }
        }
    }

    /// The physical page that a GPU virtual address maps to.
    pub fn page(&self, space: AddressSpaceId, gpu_va: u64) -> Option<PhysicalPage> {
        self.mapped(space, gpu_va)?.page()
    }

    /// Whether a raised interrupt reports a paging buffer that completed at its submission.
    pub fn is_paging_done(&self) -> bool {
        let is_it = |interrupt: &Interrupt| matches!(interrupt, Interrupt::PagingCompleted { .. });
        self.prompt_paging && self.interrupts.iter().any(is_it)
    }

    /// The mappings in the part of the address space that guests can map.
    pub fn guest_mappings(&self, space: AddressSpaceId) -> Vec<(u64, Pte)> {
        let mapped = self.spaces[&space].iter().map(|(va, pte)| (*va, *pte));
        mapped.filter(|(va, _)| *va < GPU_VA_END).collect()
    }

    /// The address spaces and GPU virtual addresses at which a page of physical memory is mapped.
    pub fn mappings_of(&self, segment: Segment, address: u64) -> Vec<(AddressSpaceId, u64)> {
        let page = Some(PhysicalPage { segment, address });
        let entries = self.spaces.iter().flat_map(|(space, ptes)| {
            ptes.iter().filter(|(_, pte)| pte.page() == page).map(|(va, _)| (*space, *va))
        });
        entries.collect()
    }

    /// Records that the queue used its doorbell.
    pub fn use_doorbell(&mut self, queue: HwQueueId) {
        let last = self.last_uses.values().max().copied().unwrap_or(0);
        self.last_uses.insert(queue, last + 1);
    }

    /// The page table entry of a GPU virtual address.
    pub fn mapped(&self, space: AddressSpaceId, gpu_va: u64) -> Option<Pte> {
        self.spaces[&space].get(&gpu_va).copied()
    }
}

/// The nodes of an adapter, and one that decodes.
pub const NODES_WITH_VIDEO: &[NodeDescription] = &[
    hardware::NODES[0],
    hardware::NODES[1],
    NodeDescription {
        engine_type: EngineType::VIDEO_DECODE,
        name: "decode",
        user_mode_submission: true,
        processor: None,
    },
];

pub struct Model {
    /// Its place in its chain.
    gpu: GpuOrdinal,
    /// The master of its chain, if it is a slave, and the slaves, if it is the master.
    master: OnceLock<Weak<Self>>,
    slaves: OnceLock<Vec<Arc<Self>>>,
    physical_doorbells: u32,
    /// The GPU's nodes.
    pub nodes: &'static [NodeDescription],
    /// What displays can do: none, unless a test chooses.
    pub display_caps: DisplayCaps,
    /// Whether fence interrupts name the queues.
    pub optimized_fence_interrupt: bool,
    state: Mutex<State>,
    /// The CurrentValues of cross-adapter fences by address, shared by all GPUs of a host.
    cross_adapter: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl Model {
    pub fn new(physical_doorbells: u32) -> Self {
        let state = State {
            page_table_room: 1 << 20,
            submission_room: 16,
            kernel_room: 1000,
            prompt: true,
            prompt_paging: true,
            paging_room: 32,
            ..State::default()
        };
        Self {
            gpu: GpuOrdinal::MASTER,
            master: OnceLock::new(),
            slaves: OnceLock::new(),
            physical_doorbells,
            nodes: hardware::NODES,
            display_caps: DisplayCaps::default(),
            optimized_fence_interrupt: false,
            state: Mutex::new(state),
            cross_adapter: Arc::default(),
        }
    }

    /// The same GPU at another place of a chain.
    #[allow(dead_code, reason = "for tests of the proxy")]
    pub fn at(self, gpu: GpuOrdinal) -> Self {
        Self { gpu, ..self }
    }

    /// The GPUs of a chain, the master first. They share the master's fences and tickets, and its engine writes the page
    /// tables of all.
    #[allow(dead_code, reason = "for tests of chains")]
    pub fn chain(models: Vec<Self>) -> Vec<Arc<Self>> {
        let places = (0..).map(GpuOrdinal);
        let models: Vec<_> =
            places.zip(models).map(|(gpu, model)| Arc::new(model.at(gpu))).collect();
        let (master, slaves) = models.split_first().expect("a master");
        for slave in slaves {
            slave.master.set(Arc::downgrade(master)).expect("a slave of one chain");
        }
        assert!(master.slaves.set(slaves.to_vec()).is_ok());
        models
    }

    /// What the master of its chain says.
    fn of_chain<R>(&self, say: impl FnOnce(&State) -> R) -> R {
        let master = self.master.get().and_then(Weak::upgrade);
        say(&master.as_deref().unwrap_or(self).state())
    }

    /// Several GPUs of one host, with shared cross-adapter fences.
    pub fn several(count: usize) -> Vec<Arc<Self>> {
        let cross_adapter: Arc<Mutex<_>> = Arc::default();
        let model = || Self { cross_adapter: Arc::clone(&cross_adapter), ..Self::new(2) };
        (0..count).map(|_| Arc::new(model())).collect()
    }

    fn known(&self, id: UnknownId) -> Result<(), UnknownId> {
        if self.state().lost.contains(&id) { Err(id) } else { Ok(()) }
    }

    fn current(&self, fence: Fence) -> u64 {
        match fence.view() {
            Some(address) => self.cross_adapter.lock().unwrap()[&address],
            None => fence.current,
        }
    }

    fn set_current(&self, fence: &mut Fence, value: u64) {
        match fence.view() {
            Some(address) => *self.cross_adapter.lock().unwrap().get_mut(&address).unwrap() = value,
            None => fence.current = value,
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The page table entry of a GPU virtual address.
    pub fn mapped(&self, space: AddressSpaceId, gpu_va: u64) -> Option<Pte> {
        self.state().mapped(space, gpu_va)
    }

    /// The physical page that a GPU virtual address maps to.
    pub fn page(&self, space: AddressSpaceId, gpu_va: u64) -> Option<PhysicalPage> {
        self.state().page(space, gpu_va)
    }

    /// Takes the log: the calls since the last time it was taken.
    pub fn take_log(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().log)
    }

    pub fn raise(&self, interrupt: Interrupt) {
        self.state().interrupts.push(interrupt);
    }

    /// Drops all raised interrupts.
    pub fn forget_interrupts(&self) {
        self.state().interrupts.clear();
    }

    /// Lets every engine pass all issued tickets. An engine that is stuck passes none.
    pub fn pass_tickets(&self) {
        self.state().pass_tickets();
    }

    /// Completes the oldest paging buffer of a guest. Returns its packets.
    pub fn complete_paging(&self, guest: GuestId) -> Vec<u8> {
        self.end_paging(guest, None)
    }

    /// The fence of a guest's oldest paging buffer.
    pub fn oldest_paging(&self, guest: GuestId) -> Option<u64> {
        self.state().paging.get(&guest)?.front().map(|(fence, _)| *fence)
    }

    /// Fails the oldest paging buffer of a guest with a fault. Returns its packets.
    pub fn fail_paging(&self, guest: GuestId, fault: Fault) -> Vec<u8> {
        self.end_paging(guest, Some(fault))
    }

    fn end_paging(&self, guest: GuestId, fault: Option<Fault>) -> Vec<u8> {
        let mut state = self.state();
        let queued = state.paging.get_mut(&guest).and_then(VecDeque::pop_front);
        let (fence, packets) = queued.expect("a paging buffer");
        if fault.is_none() {
            let slaves = self.slaves.get().map_or(&[][..], Vec::as_slice);
            state.execute_paging(guest, &packets, slaves);
        }
        let failed = fault.map(|fault| Interrupt::PagingFaulted { guest, fence, fault });
        state.interrupts.extend(failed);
        state.interrupts.push(Interrupt::PagingCompleted { guest, fence });
        packets
    }

    /// Signals a fence as an engine does.
    pub fn signal(&self, guest: GuestId, slot: u32, value: u64) {
        self.signal_with(&mut self.state(), guest, slot, value);
    }

    /// Sets a fence's CurrentValue as an engine does that raises no interrupt.
    pub fn write(&self, guest: GuestId, slot: u32, value: u64) {
        self.state().fences.get_mut(&(guest, slot)).unwrap().current = value;
    }

    /// Logs an operation of a queue as an engine does, in the queue's fence log and in the trace log.
    pub fn log(&self, queue: HwQueueId, operation: FenceLogOperation, slot: u32, value: u64) {
        let (words, _) = self.state().fence_logs[&(queue, operation.log().unwrap())].clone();
        let entry = FenceLogEntry {
            fence_value: value,
            fence: slot,
            operation: operation.0,
            ..FenceLogEntry::default()
        };
        FenceLog::new(&words).unwrap().write_entry(entry);
        self.trace(FenceLogEntry { reserved: queue.0, ..entry });
    }

    /// Writes an entry into the trace log, if there is one.
    pub fn trace(&self, entry: FenceLogEntry) {
        let log = self.state().trace_log.clone();
        if let Some(words) = log {
            FenceLog::new(&words).unwrap().write_entry(entry);
        }
    }

    /// Whether nothing of the guests' processes is left on the GPU.
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        let systems: Vec<_> = state.systems.values().map(|system| system.address_space).collect();
        state.spaces.keys().all(|space| systems.contains(space))
            && state.queues.is_empty()
            && state.rings.is_empty()
            && state.watches.is_empty()
            && state.global_watches.is_empty()
            && state.opened.is_empty()
            && state.fence_logs.is_empty()
            && state.kernels.is_empty()
            && state.video_sessions.is_empty()
            && state.displays.sources.is_empty()
            && state.process_bars.is_empty()
            && state.own_doorbells.is_empty()
            && state.own_fences.is_empty()
    }
}
