//! A guest as the GPU sees it.

use super::address_map::AddressMap;
use super::bar::Bar;
use super::fence_table::FenceTable;
use super::interrupt::Interrupts;
use super::page_table::Charge;
use super::rotation::Rotation;
use super::statistics::Counters;
use arc_swap::ArcSwap;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_protocol::bar::BarLayout;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use vm_memory::GuestMemoryMmap;

/// Generations of memory snapshots, over all guests.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// One guest: its BAR, its memory, its fences and its share of the page-table pool.
#[derive(Debug)]
pub struct Partition {
    id: GuestId,
    bar: Bar,
    memory: ArcSwap<AddressMap>,
    fences: FenceTable,
    page_tables: Arc<Charge>,
    counters: Counters,
    /// There where its VMM moves doorbells' pages.
    rotation: OnceLock<Arc<Rotation>>,
}

impl Partition {
    /// A guest with an empty BAR.
    ///
    /// # Errors
    /// When the operating system gives no memory for the BAR.
    pub fn new(
        id: GuestId,
        layout: BarLayout,
        physical_pages: u32,
        memory: &GuestMemoryMmap,
        engines: usize,
    ) -> io::Result<Self> {
        let bar = Bar::new(layout, physical_pages)?;
        let memory = ArcSwap::from_pointee(snapshot(&bar, memory));
        Ok(Self {
            id,
            bar,
            memory,
            fences: FenceTable::new(layout.fence_count),
            page_tables: Arc::default(),
            counters: Counters::new(engines),
            rotation: OnceLock::new(),
        })
    }

    /// Who.
    #[inline]
    pub fn id(&self) -> GuestId {
        self.id
    }

    /// Its BAR.
    #[inline]
    pub fn bar(&self) -> &Bar {
        &self.bar
    }

    /// Its memory as it is now.
    pub fn memory(&self) -> Arc<AddressMap> {
        self.memory.load_full()
    }

    /// Control plane: its memory has changed. Engines learn of it when they quiesce.
    pub fn update_memory(&self, memory: &GuestMemoryMmap) {
        self.memory.store(Arc::new(snapshot(&self.bar, memory)));
    }

    /// Its VMM moves doorbells' pages from now on.
    pub fn rotate(&self, interrupts: &Arc<Interrupts>) -> Arc<Rotation> {
        let slots = self.bar.doorbell_count();
        Arc::clone(
            self.rotation.get_or_init(|| Arc::new(Rotation::new(Arc::clone(interrupts), slots))),
        )
    }

    /// How its doorbells' pages are moved, if they are. Doorbells in its own memory stay where they
    /// are, and engines watch that.
    pub fn rotation(&self) -> Option<&Arc<Rotation>> {
        self.rotation.get().filter(|_| self.bar.has_doorbells())
    }

    /// Its VMM moves no page any more.
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

    /// What its address spaces take of the page-table pool.
    pub fn page_tables(&self) -> &Arc<Charge> {
        &self.page_tables
    }

    /// What engines count for it.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

fn snapshot(bar: &Bar, memory: &GuestMemoryMmap) -> AddressMap {
    let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
    AddressMap::new(generation, bar.local_memory(), memory)
}
