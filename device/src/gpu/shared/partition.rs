// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest from the GPU's point of view.

use super::account::Account;
use super::fence::logs::FenceLogs;
use super::fence::table::{Fence, FenceTable, Kind, Place, Places};
use super::interrupt::Interrupts;
use super::nudge::{GuestEvents, Nudge};
use super::paging::Paging;
use super::rotation::Rotation;
use super::statistics::Counters;
use crate::gpu::memory::address_map::AddressMap;
use crate::gpu::memory::bar::Bar;
use crate::gpu::memory::compression::Metadata;
use crate::gpu::memory::cross_memory::CrossAdapterMemory;
use crate::gpu::memory::drawn::Drawn;
use crate::gpu::memory::host_memory::HostMemory;
use crate::gpu::memory::page_table::Charge;
use crate::gpu::memory::windows::Windows;
use arc_swap::ArcSwap;
use bellhop_host_kmd::hardware::{
    FenceLogBuffer, FenceStorage, FrontEnd, GuestId, PhysicalAddress, Segment, SegmentSizes,
};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::event::Event;
use bellhop_protocol::handoff::tlb::Flushes;
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use vm_memory::GuestMemoryMmap;

/// The weight of a guest without a configured weight.
pub const DEFAULT_WEIGHT: u32 = 100;

/// One guest: its BAR, its memory, its fences and its share of the page-table pool.
#[derive(Debug)]
pub struct Partition {
    id: GuestId,
    bar: Bar,
    host_memory: HostMemory,
    /// Memory that all guests share.
    cross_adapter: Arc<CrossAdapterMemory>,
    windows: Arc<Windows>,
    paging: Paging,
    metadata: Metadata,
    drawn: Drawn,
    memory: ArcSwap<AddressMap>,
    flushes: Flushes,
    fences: FenceTable,
    page_tables: Arc<Charge>,
    counters: Counters,
    /// The front end that attached the guest.
    pub front_end: OnceLock<FrontEnd>,
    weight: AtomicU32,
    /// Its socket's share of the physical doorbells; 0 stands for an equal share.
    doorbell_share: AtomicU32,
    /// SHA-256 of what it is known by, of which its keys are derived.
    identity: OnceLock<[u8; 32]>,
    account: Arc<Account>,
    /// Becomes readable when the guest kicks its event queue, if engines wait on that.
    kick: OnceLock<OwnedFd>,
    /// An engine's direct way to reach the guest, if there is one.
    nudge: OnceLock<Arc<dyn Nudge>>,
    /// Its event queue, for hardware that tells it of something by itself.
    events: OnceLock<Arc<dyn GuestEvents>>,
    /// Whether its VMM keeps its memory from the host.
    is_withheld: AtomicBool,
    /// The rotation of its doorbell pages, if its VMM moves them.
    rotation: OnceLock<Arc<Rotation>>,
    /// What ends when nothing of the guest is left.
    stay: OnceLock<Stay>,
}

/// What a guest keeps as long as anything of it is there: its memory, or a process that works for it. Others learn from its
/// end that the guest has gone wholly.
pub type Stay = Arc<dyn Any + Send + Sync>;

impl Partition {
    /// A guest with an empty BAR.
    ///
    /// # Errors
    /// If the operating system has no memory for the BAR or the segments beside it.
    pub fn new(
        id: GuestId,
        layout: BarLayout,
        segments: SegmentSizes,
        physical_pages: u32,
        memory: &GuestMemoryMmap,
        cross_adapter: Arc<CrossAdapterMemory>,
        engines: usize,
    ) -> io::Result<Self> {
        let bar = Bar::new(layout, physical_pages)?;
        let host_memory = HostMemory::new(segments, layout.fence_count)?;
        let memory = ArcSwap::from_pointee(snapshot(&bar, &host_memory, &cross_adapter, memory));
        let (own, shared) = (host_memory.region(), cross_adapter.region());
        let fences = FenceTable::new(layout.fence_count, own, shared);
        Ok(Self {
            id,
            bar,
            windows: Arc::new(Windows::new(layout.local_memory, segments.private)),
            paging: Paging::new(),
            metadata: Metadata::new(host_memory.metadata()),
            drawn: Drawn::default(),
            host_memory,
            cross_adapter,
            memory,
            flushes: Flushes::new(),
            fences,
            page_tables: Arc::default(),
            counters: Counters::new(engines),
            front_end: OnceLock::new(),
            weight: AtomicU32::new(DEFAULT_WEIGHT),
            doorbell_share: AtomicU32::new(0),
            identity: OnceLock::new(),
            account: Arc::default(),
            kick: OnceLock::new(),
            nudge: OnceLock::new(),
            events: OnceLock::new(),
            is_withheld: AtomicBool::new(false),
            rotation: OnceLock::new(),
            stay: OnceLock::new(),
        })
    }

    /// Its id.
    #[inline]
    pub fn id(&self) -> GuestId {
        self.id
    }

    /// Its BAR.
    #[inline]
    pub fn bar(&self) -> &Bar {
        &self.bar
    }

    /// The current snapshot of its memory.
    pub fn memory(&self) -> Arc<AddressMap> {
        self.memory.load_full()
    }

    /// Control plane: replaces its memory. Engines see the change when they quiesce.
    pub fn update_memory(&self, memory: &GuestMemoryMmap) {
        let host = (&self.host_memory, &self.cross_adapter);
        self.memory.store(Arc::new(snapshot(&self.bar, host.0, host.1, memory)));
        self.flush();
    }

    /// Called after the guest's memory moved: translations that engines cached are invalid from their next turns
    /// on. Returns the count of flushes.
    pub fn flush(&self) -> u64 {
        self.flushes.advance()
    }

    /// Engine, before a turn: the count of flushes.
    #[inline]
    pub fn flushes(&self) -> u64 {
        self.flushes.current()
    }

    /// Before the guest runs: sets the descriptor that becomes readable when it kicks its event queue.
    pub fn set_kick(&self, kick: OwnedFd) {
        // A guest keeps one descriptor while it is attached.
        let _ = self.kick.set(kick);
    }

    /// The descriptor that becomes readable when it kicks its event queue, if engines wait on that.
    pub fn kick(&self) -> Option<BorrowedFd<'_>> {
        self.kick.get().map(AsFd::as_fd)
    }

    /// Before the guest runs: sets an engine's direct way to reach it.
    pub fn set_nudge(&self, nudge: Arc<dyn Nudge>) {
        // A guest keeps one nudge while it is attached.
        let _ = self.nudge.set(nudge);
    }

    /// Engine, after it published a value that a CPU waits for: makes the guest re-check its fences.
    pub fn nudge(&self) {
        if let Some(nudge) = self.nudge.get() {
            nudge.nudge();
        }
    }

    /// Before the guest runs: sets its event queue.
    pub fn set_events(&self, events: Arc<dyn GuestEvents>) {
        // A guest keeps one event queue while it is attached.
        let _ = self.events.set(events);
    }

    /// Tells it of something, without the control plane.
    pub fn tell(&self, event: Event) {
        if let Some(events) = self.events.get() {
            events.send(event);
        }
    }

    /// Control plane: its VMM keeps memory from the host that the host needs, so its connection ends.
    pub fn withhold(&self) {
        // Relaxed: only the control plane looks at it.
        self.is_withheld.store(true, Ordering::Relaxed);
        tracing::error!(
            guest = self.id.0,
            "the guest's VMM keeps memory from the host; the guest's connection ends"
        );
        self.hang_up();
    }

    /// Ends its connection, if it has one.
    pub fn hang_up(&self) {
        if let Some(events) = self.events.get() {
            events.hang_up();
        }
    }

    /// Control plane: whether its VMM kept memory from the host. The control plane touches none of it then.
    pub fn is_withheld(&self) -> bool {
        self.is_withheld.load(Ordering::Relaxed)
    }

    /// The windows of its system context.
    pub fn windows(&self) -> &Arc<Windows> {
        &self.windows
    }

    /// Its paging.
    pub fn paging(&self) -> &Paging {
        &self.paging
    }

    /// The metadata of its compressed pages.
    #[inline]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The pictures in its memory that somebody watches.
    #[inline]
    pub fn drawn(&self) -> &Drawn {
        &self.drawn
    }

    /// Control plane: fills one of its paging buffers.
    ///
    /// # Errors
    /// If the packets do not fit.
    pub fn write_paging_buffer(&self, index: u64, packets: &[u8]) -> io::Result<()> {
        self.host_memory.write_paging_buffer(index, packets)
    }

    /// Control plane: fills a part of its DMA buffers.
    ///
    /// # Errors
    /// If the packets do not fit there.
    pub fn write_dma_buffer(&self, offset: u64, packets: &[u8]) -> io::Result<()> {
        self.host_memory.write_dma_buffer(offset, packets)
    }

    /// Zeroes a range of a segment other than its own memory, and frees the pages.
    ///
    /// # Errors
    /// If the range is not in the segment, or the operating system refuses.
    pub fn zero(&self, segment: Segment, offset: u64, length: u64) -> io::Result<()> {
        let memory = &self.host_memory;
        match segment {
            Segment::Local => self.bar.zero_local_memory(offset, length),
            Segment::Private => memory.zero(&memory.private(), offset, length),
            Segment::Backing => memory.zero(&memory.backing(), offset, length),
            Segment::Fence => memory.zero(&memory.fences(), offset, length),
            Segment::CrossAdapter => self.cross_adapter.zero(offset, length),
            Segment::System => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Begins the rotation of its doorbell pages: its VMM moves them from now on.
    pub fn rotate(&self, interrupts: &Arc<Interrupts>) -> Arc<Rotation> {
        let slots = self.bar.doorbell_count();
        Arc::clone(
            self.rotation.get_or_init(|| Arc::new(Rotation::new(Arc::clone(interrupts), slots))),
        )
    }

    /// The rotation of its doorbell pages, if there is one. Doorbells in the guest's own memory never move, and
    /// engines watch that memory.
    pub fn rotation(&self) -> Option<&Arc<Rotation>> {
        self.rotation.get().filter(|_| self.bar.has_doorbells())
    }

    /// Ends the rotation: its VMM moves no more pages.
    pub fn stop_rotation(&self) {
        if let Some(rotation) = self.rotation.get() {
            rotation.stop();
        }
    }

    /// Its fences.
    #[inline]
    pub fn fences(&self) -> &FenceTable {
        &self.fences
    }

    /// The global fence in a slot.
    #[inline]
    pub fn fence(&self, slot: u32) -> Option<Fence<'_>> {
        self.fences.global(slot, &self.bar)
    }

    /// Control plane: puts a global fence into an empty slot. Returns false if its values would lie outside host
    /// memory.
    pub fn create_fence(&self, slot: u32, storage: FenceStorage, initial: Option<u64>) -> bool {
        let place = |address: PhysicalAddress| match address.segment {
            Segment::CrossAdapter => Some(Place::Shared(address.address)),
            _ => self.host_memory.offset_of(address).map(Place::Own),
        };
        let (Some(current), Some(monitored)) = (place(storage.current), place(storage.monitored))
        else {
            return false;
        };
        self.host_memory.keep_from_kernels(storage.current);
        self.host_memory.keep_from_kernels(storage.monitored);
        let places = Places { current, monitored };
        let FenceStorage { native, published, rule, .. } = storage;
        let kind = Kind { native, published, rule };
        self.fences.create(slot, places, kind, initial, &self.bar);
        true
    }

    /// Control plane: gives a queue of the guest an empty log. Returns false if the log would lie outside host
    /// memory, or if the queue has one.
    pub fn set_fence_log(&self, logs: &FenceLogs, log: FenceLogBuffer) -> bool {
        let offset = self.host_memory.offset_of(log.storage);
        let region = self.host_memory.region();
        offset.is_some_and(|offset| logs.set(log.log_type, region, offset))
    }

    /// Before the guest runs: sets what it keeps as long as anything of it is there.
    pub fn set_stay(&self, stay: Stay) {
        // A guest keeps one while it is attached.
        let _ = self.stay.set(stay);
    }

    /// What it keeps as long as anything of it is there.
    pub fn stay(&self) -> Option<&Stay> {
        self.stay.get()
    }

    /// The guest, charged to the account of its socket. Without this it has an account of its own.
    #[must_use]
    pub fn charged_to(self, account: Arc<Account>) -> Self {
        Self { account, ..self }
    }

    /// What it is charged to, with the other guests of its socket.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Sets what the guest is known by; once.
    pub fn set_identity(&self, identity: [u8; 32]) {
        if self.identity.set(identity).is_err() {
            tracing::error!(guest = self.id.0, "a guest's identity was set twice");
        }
    }

    /// SHA-256 of what the guest is known by. Nothing is known of one that no front end attached.
    pub fn identity(&self) -> &[u8; 32] {
        self.identity.get_or_init(|| {
            let mut unknown = [0xFF; 32];
            unknown[..8].copy_from_slice(&self.id.0.to_le_bytes());
            unknown
        })
    }

    /// Control plane: sets its socket's weight, which determines the share of engine time of the socket's guests together.
    pub fn set_weight(&self, weight: u32) {
        // Relaxed: it hands nothing over, and an engine may see it late.
        self.weight.store(weight, Ordering::Relaxed);
    }

    /// Its socket's weight.
    #[inline]
    pub fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Control plane: sets its socket's share of the physical doorbells; 0 stands for an equal share.
    pub fn set_doorbell_share(&self, share: u32) {
        self.doorbell_share.store(share, Ordering::Relaxed);
    }

    /// Its socket's share of the physical doorbells, or `None` for an equal share.
    pub fn doorbell_share(&self) -> Option<u32> {
        let share = self.doorbell_share.load(Ordering::Relaxed);
        (share != 0).then_some(share)
    }

    /// The page-table pages in use by its address spaces.
    pub fn page_tables(&self) -> &Arc<Charge> {
        &self.page_tables
    }

    /// The counters that engines keep for it.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

fn snapshot(
    bar: &Bar,
    host: &HostMemory,
    cross_adapter: &CrossAdapterMemory,
    memory: &GuestMemoryMmap,
) -> AddressMap {
    let host = host.mappings(bar.local_memory(), cross_adapter.mapping());
    AddressMap::new(host, memory)
}
