// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's native fences: where their values are, in memory that no guest can map, and which processes may name
//! them in packets.
//!
//! A slot can be a *local* fence, which one process names, and a *global* one, which has values. If only one
//! process has a fence, one slot is both. If several processes have it, each has a slot of its own that names the
//! slot of the global fence. A fence shared with other guests is a global fence in each guest, with one
//! CurrentValue in memory that all GPUs share.
//!
//! Source: native GPU fence object, "Global and local handles for shared fences" and "Physical memory
//! storage for current and monitored fence values".

use crate::gpu::memory::bar::Bar;
use crate::gpu::memory::process_bar::BarWord;
use crate::gpu::memory::region::Region;
use crate::gpu::memory::violation::Violation;
use crate::gpu::memory::words::word_at;
use bellhop_host_kmd::hardware::AddressSpaceId;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::fence::{FenceCell, NOT_MONITORED, SignalRule, Signaled};
use bellhop_protocol::handoff::owner::{Opening, Owner};
use bellhop_protocol::handoff::pending::Pending;
use bellhop_protocol::handoff::publication;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The place of a value: an offset, a multiple of 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the guest's own host memory.
    Own(u64),
    /// In the memory that all GPUs share.
    Shared(u64),
}

impl Place {
    /// A bit above every offset.
    const SHARED: u64 = 1 << 63;

    const fn to_word(self) -> u64 {
        match self {
            Self::Own(offset) => offset,
            Self::Shared(offset) => offset | Self::SHARED,
        }
    }

    const fn from_word(word: u64) -> Self {
        match word & Self::SHARED {
            0 => Self::Own(word),
            _ => Self::Shared(word & !Self::SHARED),
        }
    }
}

/// The places of a fence's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// CurrentValue.
    pub current: Place,
    /// MonitoredValue.
    pub monitored: Place,
}

/// The properties of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// A native fence, not a monitored one.
    pub native: bool,
    /// Whether its CurrentValue is published in the BAR.
    pub published: bool,
    /// The values that a signal may give it.
    pub rule: SignalRule,
}

/// A slot of the table. It never moves during the guest's life, so that an engine may still look at a fence that is
/// being destroyed.
///
/// One cache line holds what is constant during the fence's life, which every packet that names it reads. A second
/// one holds what waiting or interrupting engines write, so that their writes do not invalidate the first.
#[derive(Debug)]
#[repr(align(64))]
struct FenceSlot {
    /// The process that may name the slot.
    owner: Owner,
    /// The slot of the global fence that the process means.
    global: AtomicU32,
    /// The remaining fields belong to the global fence in this slot.
    native: AtomicBool,
    published: AtomicBool,
    rewindable: AtomicBool,
    current: AtomicU64,
    monitored: AtomicU64,
    always: AtomicU64,
    waiters: Waiters,
}

/// The waiters for a fence.
#[derive(Debug)]
#[repr(align(64))]
struct Waiters {
    interrupt: Pending,
    engines: AtomicU64,
}

/// `Waiters` fills one cache line, the rest of the slot another.
const _: () = assert!(size_of::<Waiters>() == 64 && size_of::<FenceSlot>() == 128);

/// A global fence.
#[derive(Debug)]
pub struct Fence<'a> {
    /// The fence's slot, by which interrupts name it.
    pub slot: u32,
    /// The values and their waiters.
    pub cell: FenceCell<'a>,
    /// The published CurrentValue, if the guest polls it.
    published: Option<BarWord<'a>>,
    /// Whether the control plane was told of a signal and has yet to look at the fence: see `Interrupts`.
    pub interrupt: &'a Pending,
    /// Whether packets may wait for the fence. Otherwise it is a monitored fence, and each of its signals
    /// interrupts.
    pub is_native: bool,
    /// Whether other guests may have it.
    pub is_shared: bool,
}

/// A fence that a process may name.
#[derive(Debug)]
pub struct Named<'a> {
    /// The opening under which it was found.
    pub opening: Opening,
    /// Tells which opening is current.
    pub owner: &'a Owner,
    /// The fence.
    pub fence: Fence<'a>,
}

impl Fence<'_> {
    /// The published copy of a guest's that waits, if the guest shares the fence: others signal it, and the control plane
    /// publishes for this guest after that. A fence of one guest's is published by the engine that signals it, right after
    /// CurrentValue, and what a packet wrote only when the guest wants it evaluated.
    #[inline]
    pub fn late_copy(&self) -> Option<&AtomicU64> {
        self.published().filter(|_| self.is_shared)
    }

    /// The published CurrentValue, if a CPU polls it.
    #[inline]
    pub fn published(&self) -> Option<&AtomicU64> {
        self.published.as_deref()
    }

    /// Control plane: marks the fence permanently signaled for this guest. Its CurrentValue, which other guests may
    /// share, does not change. Returns the engines that wait for it.
    pub fn abandon(&self) -> Signaled {
        self.cell.abandon(self.published())
    }
}

impl FenceSlot {
    fn empty() -> Self {
        Self {
            owner: Owner::new(),
            global: AtomicU32::new(0),
            native: AtomicBool::new(true),
            published: AtomicBool::new(false),
            rewindable: AtomicBool::new(false),
            current: AtomicU64::new(0),
            monitored: AtomicU64::new(0),
            always: AtomicU64::new(0),
            waiters: Waiters { interrupt: Pending::new(), engines: AtomicU64::new(0) },
        }
    }
}

/// Slots that are made together: as many as a process takes at once.
const CHUNK: usize = 64;

/// One guest's fences.
#[derive(Debug)]
pub struct FenceTable {
    /// The slots, each made when the control plane first fills one of its chunk: a guest may have thousands, and most have
    /// few. `OnceLock` releases its slots to the engines. A power of two: see [`Self::slot`].
    chunks: Box<[OnceLock<Box<[FenceSlot]>>]>,
    /// Number of usable slots.
    count: u32,
    memory: Region,
    shared: Region,
}

impl FenceTable {
    /// A table of `count` empty slots. Values are in `memory`, or in `shared`.
    pub fn new(count: u32, memory: Region, shared: Region) -> Self {
        let chunks = (count as usize).div_ceil(CHUNK).next_power_of_two();
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        Self { chunks, count, memory, shared }
    }

    /// A slot, if its chunk was made. The guest chooses its number. A processor that speculates past the range check
    /// reads before it knows the result; the masks keep that read inside the table.
    #[inline]
    fn slot(&self, slot: u32) -> Option<&FenceSlot> {
        self.chunk(slot)?.get()?.get(slot as usize % CHUNK)
    }

    /// Control plane: a slot, to fill it.
    fn slot_to_fill(&self, slot: u32) -> Option<&FenceSlot> {
        let make = || (0..CHUNK).map(|_| FenceSlot::empty()).collect();
        self.chunk(slot)?.get_or_init(make).get(slot as usize % CHUNK)
    }

    /// The chunk of a slot.
    #[inline]
    fn chunk(&self, slot: u32) -> Option<&OnceLock<Box<[FenceSlot]>>> {
        if slot >= self.count {
            return None;
        }
        self.chunks.get((slot as usize / CHUNK) & self.chunks.len().wrapping_sub(1))
    }

    #[inline]
    fn word(&self, place: Place) -> Option<&AtomicU64> {
        let (memory, offset) = match place {
            Place::Own(offset) => (&self.memory, offset),
            Place::Shared(offset) => (&self.shared, offset),
        };
        word_at(memory, offset)
    }

    /// The global fence in a slot, or the remains of one.
    #[inline]
    pub fn global<'a>(&'a self, slot: u32, bar: &'a Bar) -> Option<Fence<'a>> {
        let found = self.slot(slot)?;
        // Ordered by the owner; the control plane stored it itself.
        let place = |word: &AtomicU64| Place::from_word(word.load(Ordering::Relaxed));
        let (current, monitored) = (place(&found.current), place(&found.monitored));
        let is_shared = matches!(current, Place::Shared(_));
        let (current, monitored) = (self.word(current)?, self.word(monitored)?);
        let rule = if found.rewindable.load(Ordering::Relaxed) {
            SignalRule::Rewindable
        } else {
            SignalRule::Monotonic
        };
        let FenceSlot { always, waiters: Waiters { interrupt, engines: waiting_engines }, .. } =
            found;
        let cell = FenceCell { current, monitored, waiting_engines, always, rule };
        let published =
            if found.published.load(Ordering::Relaxed) { Some(bar.fence(slot)?) } else { None };
        let is_native = found.native.load(Ordering::Relaxed);
        Some(Fence { slot, cell, published, interrupt, is_native, is_shared })
    }

    /// Engine: the fence that a packet names.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED`.
    pub fn named<'a>(
        &'a self,
        slot: u32,
        space: AddressSpaceId,
        bar: &'a Bar,
    ) -> Result<Named<'a>, Violation> {
        let find = || {
            let FenceSlot { owner, global, .. } = self.slot(slot)?;
            let opening = owner.find(space.0)?;
            let fence = self.global(global.load(Ordering::Relaxed), bar)?;
            // Without this, the values read might belong to the slot's next fence.
            owner.confirm(opening).then_some(Named { opening, owner, fence })
        };
        find().ok_or(Violation::new(FaultReason::FENCE_NOT_OWNED, u64::from(slot)))
    }

    /// Engine `engine`: holds a queue until the fence reaches `value`; returns true if it already has.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED`, or `FENCE_NOT_NATIVE` for a monitored fence: "what isn't supported is a native
    /// on-the-GPU wait for a monitored fence value".
    pub fn wait(
        &self,
        slot: u32,
        space: AddressSpaceId,
        bar: &Bar,
        engine: u32,
        value: u64,
    ) -> Result<bool, Violation> {
        let Named { opening, owner, fence } = self.named(slot, space, bar)?;
        if !fence.is_native {
            return Err(Violation::new(FaultReason::FENCE_NOT_NATIVE, u64::from(slot)));
        }
        let reached = fence.cell.wait(fence.late_copy(), engine, value);
        // Pairs with `close`: see `handoff::owner`.
        if !reached && !owner.is_open(opening) {
            return Err(Violation::new(FaultReason::FENCE_NOT_OWNED, u64::from(slot)));
        }
        Ok(reached)
    }

    /// Control plane: puts a global fence into an empty slot and publishes its CurrentValue if `kind` says so.
    /// Without `initial`, the CurrentValue is kept.
    pub fn create(&self, slot: u32, places: Places, kind: Kind, initial: Option<u64>, bar: &Bar) {
        let Some(found) = self.slot_to_fill(slot) else { return };
        found.current.store(places.current.to_word(), Ordering::Relaxed);
        found.monitored.store(places.monitored.to_word(), Ordering::Relaxed);
        found.native.store(kind.native, Ordering::Relaxed);
        found.published.store(kind.published, Ordering::Relaxed);
        found.rewindable.store(kind.rule == SignalRule::Rewindable, Ordering::Relaxed);
        // `open` determines which processes may use it.
        let Some(fence) = self.global(slot, bar) else { return };
        fence.cell.reset(initial, if kind.native { NOT_MONITORED } else { 0 });
        if let Some(published) = fence.published() {
            publication::publish(published, fence.cell.current());
        }
    }

    /// Control plane: makes a slot the process's name for a global fence.
    pub fn open(&self, slot: u32, global: u32, owner: AddressSpaceId) {
        if let Some(local) = self.slot_to_fill(slot) {
            local.global.store(global, Ordering::Relaxed);
            local.owner.open(owner.0);
        }
    }

    /// Control plane: removes a process's name for a fence. Returns the engines that wait for the fence, one bit
    /// each, which must re-check it.
    pub fn close(&self, slot: u32, bar: &Bar) -> u64 {
        let Some(local) = self.slot(slot) else { return 0 };
        local.owner.close();
        let global = self.global(local.global.load(Ordering::Relaxed), bar);
        // Pairs with `wait`: see `handoff::owner`.
        global.map_or(0, |fence| fence.cell.evaluate(None).engines)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use bellhop_protocol::bar::BarLayout;
    use vm_memory::MmapRegion;

    const OWNER: AddressSpaceId = AddressSpaceId(7);
    const OTHER: AddressSpaceId = AddressSpaceId(8);
    const LAYOUT: BarLayout = BarLayout { doorbell_count: 1, fence_count: 4, local_memory: 0x1000 };
    const PLACES: Places = Places { current: Place::Own(0x40), monitored: Place::Own(0x1040) };
    const PUBLISHED: Kind = Kind { native: true, published: true, rule: SignalRule::Monotonic };

    /// A table of the BAR's size with a fence of [`OWNER`]'s in slot 1.
    pub fn table_with_fence(initial: u64) -> (FenceTable, Bar) {
        let bar = Bar::new(LAYOUT, 0).unwrap();
        let memory = || Region::from(MmapRegion::new(0x2000).unwrap());
        let table = FenceTable::new(4, memory(), memory());
        table.create(1, PLACES, PUBLISHED, Some(initial), &bar);
        table.open(1, 1, OWNER);
        assert_eq!(bar.fence(1).unwrap().load(Ordering::Relaxed), initial);
        (table, bar)
    }

    impl FenceTable {
        fn owned<'a>(
            &'a self,
            slot: u32,
            space: AddressSpaceId,
            bar: &'a Bar,
        ) -> Result<Fence<'a>, Violation> {
            self.named(slot, space, bar).map(|named| named.fence)
        }
    }

    fn not_owned(slot: u32) -> Violation {
        Violation::new(FaultReason::FENCE_NOT_OWNED, u64::from(slot))
    }

    #[test]
    fn only_the_owner_of_an_existing_fence_finds_it() {
        let (table, bar) = table_with_fence(3);
        assert_eq!(table.owned(1, OWNER, &bar).unwrap().cell.current(), 3);
        assert_eq!(table.owned(1, OTHER, &bar).unwrap_err(), not_owned(1));
        assert_eq!(table.owned(0, OWNER, &bar).unwrap_err(), not_owned(0));
        assert_eq!(table.owned(4, OWNER, &bar).unwrap_err(), not_owned(4));
        table.close(1, &bar);
        assert_eq!(table.owned(1, OWNER, &bar).unwrap_err(), not_owned(1));
    }

    #[test]
    fn a_table_has_the_slots_that_are_used_and_no_others() {
        let bar = Bar::new(BarLayout { fence_count: 1000, ..LAYOUT }, 0).unwrap();
        let memory = || Region::from(MmapRegion::new(0x2000).unwrap());
        let table = FenceTable::new(1000, memory(), memory());
        let made = || table.chunks.iter().filter(|chunk| chunk.get().is_some()).count();
        for slot in [0, 1, 999, 1000, u32::MAX] {
            assert_eq!(table.owned(slot, OWNER, &bar).unwrap_err(), not_owned(slot));
            assert_eq!(table.close(slot, &bar), 0);
        }
        assert_eq!(made(), 0);
        for (slots, chunks) in [([0, 63], 1), ([64, 999], 3), ([1000, u32::MAX], 3)] {
            for slot in slots {
                table.create(slot, PLACES, PUBLISHED, Some(u64::from(slot)), &bar);
                table.open(slot, slot, OWNER);
            }
            assert_eq!(made(), chunks, "{slots:?}");
        }
        assert!(table.owned(999, OWNER, &bar).is_ok());
        assert_eq!(table.owned(998, OWNER, &bar).unwrap_err(), not_owned(998));
        assert_eq!(table.owned(1000, OWNER, &bar).unwrap_err(), not_owned(1000));
    }

    #[test]
    fn a_fence_that_another_process_opens_is_the_same_fence_until_that_closes_it() {
        let (table, bar) = table_with_fence(3);
        table.open(2, 1, OTHER);
        let opened = table.owned(2, OTHER, &bar).unwrap();
        assert_eq!(opened.slot, 1);
        opened.cell.signal(opened.published(), 9).unwrap();
        assert_eq!(table.owned(1, OWNER, &bar).unwrap().cell.current(), 9);
        assert_eq!(table.owned(2, OWNER, &bar).unwrap_err(), not_owned(2));
        table.close(1, &bar);
        assert_eq!(table.owned(2, OTHER, &bar).unwrap().cell.current(), 9);
        table.close(2, &bar);
        assert_eq!(table.owned(2, OTHER, &bar).unwrap_err(), not_owned(2));
    }

    #[test]
    fn closing_a_fence_names_the_engines_that_wait_for_it() {
        let (table, bar) = table_with_fence(3);
        assert_eq!(table.wait(1, OWNER, &bar, 2, 3), Ok(true));
        assert_eq!(table.wait(1, OWNER, &bar, 2, 4), Ok(false));
        assert_eq!(table.wait(1, OWNER, &bar, 0, 5), Ok(false));
        assert_eq!(table.close(1, &bar), 0b101);
        assert_eq!(table.wait(1, OWNER, &bar, 2, 4), Err(not_owned(1)));
    }

    #[test]
    fn an_always_signaled_fence_holds_no_waiter_whatever_its_value_becomes() {
        let (table, bar) = table_with_fence(3);
        let fence = table.global(1, &bar).unwrap();
        fence.abandon();
        fence.cell.signal(fence.published(), u64::MAX).unwrap();
        fence.cell.current.store(1, Ordering::Relaxed);
        assert_eq!(table.wait(1, OWNER, &bar, 2, 4), Ok(true));
        let _ = fence.cell.evaluate(fence.published());
        assert_eq!(bar.fence(1).unwrap().load(Ordering::Relaxed), u64::MAX);
    }

    #[test]
    fn a_rewindable_fence_holds_who_waits_until_it_is_reached_again() {
        let (table, bar) = table_with_fence(3);
        let places = Places { current: Place::Own(0x80), monitored: Place::Own(0x1080) };
        let kind = Kind { rule: SignalRule::Rewindable, ..PUBLISHED };
        table.create(2, places, kind, Some(5), &bar);
        table.open(2, 2, OWNER);
        let fence = table.owned(2, OWNER, &bar).unwrap();
        assert_eq!(table.wait(2, OWNER, &bar, 0, 5), Ok(true));
        fence.cell.signal(fence.published(), 1).unwrap();
        assert_eq!(bar.fence(2).unwrap().load(Ordering::Relaxed), 1);
        assert_eq!(table.wait(2, OWNER, &bar, 0, 5), Ok(false));
        assert_eq!(fence.cell.signal(fence.published(), 5).unwrap().engines, 1);
        // A permanently signaled fence stays signaled.
        fence.abandon();
        fence.cell.signal(fence.published(), u64::MAX).unwrap();
        assert!(fence.cell.signal(fence.published(), 1).is_err());
        assert_eq!(table.wait(2, OWNER, &bar, 0, 9), Ok(true));
        // The slot's next fence has its own kind.
        table.close(2, &bar);
        table.create(2, PLACES, PUBLISHED, Some(5), &bar);
        table.open(2, 2, OWNER);
        let fence = table.owned(2, OWNER, &bar).unwrap();
        assert!(fence.cell.signal(fence.published(), 4).is_err());
    }

    #[test]
    fn each_signal_of_a_monitored_fence_interrupts_and_no_packet_waits_for_it() {
        let (table, bar) = table_with_fence(3);
        let monitored = Kind { native: false, ..PUBLISHED };
        let places = Places { current: Place::Own(0x80), monitored: Place::Own(0x1080) };
        table.create(2, places, monitored, Some(5), &bar);
        table.open(2, 2, OWNER);
        let fence = table.owned(2, OWNER, &bar).unwrap();
        for value in 6..9 {
            assert!(fence.cell.signal(fence.published(), value).unwrap().interrupt);
        }
        let refused = Violation::new(FaultReason::FENCE_NOT_NATIVE, 2);
        for value in [0, 8, 9] {
            assert_eq!(table.wait(2, OWNER, &bar, 0, value), Err(refused));
        }
        // Opening the slot again sets its next owner.
        table.close(2, &bar);
        table.create(2, PLACES, PUBLISHED, Some(5), &bar);
        table.open(2, 2, OWNER);
        assert_eq!(table.wait(2, OWNER, &bar, 0, 5), Ok(true));
    }

    #[test]
    fn a_fence_that_a_guest_has_closed_no_longer_holds_it_and_keeps_its_value() {
        let (table, bar) = table_with_fence(3);
        let places = Places { current: Place::Shared(0x1000), monitored: Place::Own(0x1080) };
        table.create(2, places, PUBLISHED, Some(5), &bar);
        // Another view of this fence.
        let places = Places { current: Place::Shared(0x1000), monitored: Place::Own(0x10c0) };
        table.create(3, places, PUBLISHED, None, &bar);
        table.open(2, 2, OWNER);
        table.open(3, 3, OTHER);
        assert_eq!(bar.fence(3).unwrap().load(Ordering::Relaxed), 5);
        let [two, three] = [2, 3].map(|slot| table.global(slot, &bar).unwrap());
        assert!(two.is_shared && !table.global(1, &bar).unwrap().is_shared);
        assert_eq!(table.wait(2, OWNER, &bar, 4, 9), Ok(false));
        assert_eq!(two.abandon().engines, 1 << 4);
        assert_eq!(bar.fence(2).unwrap().load(Ordering::Relaxed), u64::MAX);
        assert_eq!(table.wait(2, OWNER, &bar, 4, 9), Ok(true));
        assert_eq!(table.wait(3, OTHER, &bar, 4, 9), Ok(false));
        assert_eq!((three.cell.current(), bar.fence(3).unwrap().load(Ordering::Relaxed)), (5, 5));
    }

    #[test]
    fn a_wait_that_is_over_leaves_no_older_value_of_a_fence_of_several_guests_published() {
        let (table, bar) = table_with_fence(3);
        let places = Places { current: Place::Shared(0x80), monitored: Place::Own(0x1080) };
        table.create(2, places, PUBLISHED, Some(3), &bar);
        table.open(2, 2, OWNER);
        for (slot, left) in [(1, 3), (2, 4)] {
            let fence = table.global(slot, &bar).unwrap();
            // Another guest's engine signaled: its own copy is published, this guest's is not yet. An own packet may have
            // written the value, too, which is published when the guest wants it evaluated.
            fence.cell.write(4).unwrap();
            assert_eq!(table.wait(slot, OWNER, &bar, 2, 5), Ok(false));
            assert_eq!(bar.fence(slot).unwrap().load(Ordering::Relaxed), 3);
            assert_eq!(table.wait(slot, OWNER, &bar, 2, 4), Ok(true));
            assert_eq!(bar.fence(slot).unwrap().load(Ordering::Relaxed), left);
        }
    }

    #[test]
    fn a_fence_that_is_not_published_leaves_the_bar_alone() {
        let (table, bar) = table_with_fence(3);
        let hidden = Kind { published: false, ..PUBLISHED };
        let places = Places { current: Place::Own(0x80), monitored: Place::Own(0x1080) };
        table.create(2, places, hidden, Some(5), &bar);
        table.open(2, 2, OWNER);
        let fence = table.owned(2, OWNER, &bar).unwrap();
        fence.cell.signal(fence.published(), 6).unwrap();
        assert_eq!(bar.fence(2).unwrap().load(Ordering::Relaxed), 0);
    }
}
