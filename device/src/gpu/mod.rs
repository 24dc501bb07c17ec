//! The virtual GPU.
//!
//! *A submission* goes from a doorbell through `engine` to `command_processor`, `fetch`,
//! `packets` (which reach memory through `mmu`) and ends in a fence of `fence_table`. All of
//! that is the data plane: one thread for each engine.
//!
//! The control plane comes in through `hardware`, keeps its books in `registry`, and meets the
//! engines in `chip` (attention, kicks, the watch list, tickets), `hw_queue`, `partition` (a
//! guest) and `interrupt`.

mod address_map;
mod bar;
mod busy;
mod chip;
mod command_processor;
mod compression;
mod cross_memory;
mod engine;
mod event;
mod fence_logs;
mod fence_table;
mod fetch;
mod hardware;
mod hints;
mod host_memory;
mod hw_queue;
mod interrupt;
mod isr;
mod line;
mod mmu;
mod observe;
mod packets;
mod page_table;
mod paging;
mod partition;
mod prefetch;
mod registry;
mod rotation;
mod run_list;
mod scans;
mod schedule;
mod statistics;
mod tlb;
mod trace_log;
mod uses;
mod violation;
mod wake;
mod watches;
mod windows;
mod words;

pub use bar::Page;
use bellhop_host_kmd::hardware::{DoorbellModel, GuestId, NodeDescription, SegmentSizes};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::adapter::EngineType;
use chip::{Chip, EnginePort, attention, reset};
pub use cross_memory::CrossAdapterMemory;
use engine::{Engine, Times};
use interrupt::Interrupts;
use page_table::NodePool;
pub use partition::DEFAULT_WEIGHT;
use partition::Partition;
use registry::Registry;
pub use rotation::{Move, Moved, Rotation, SETTLING};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use vm_memory::GuestMemoryMmap;

/// Names of the copy engines, of which there can be so many.
const COPY_ENGINES: [&str; 8] =
    ["SDMA0", "SDMA1", "SDMA2", "SDMA3", "SDMA4", "SDMA5", "SDMA6", "SDMA7"];

/// Interrupts that wait to be taken before a scan of everything is asked for instead.
const INTERRUPTS: usize = 1024;

/// Ids of guests: those of all GPUs of this process, so that a host's guests are told apart whatever
/// adapter they are attached to.
static GUESTS: AtomicU64 = AtomicU64::new(1);

/// A guest can have one page-table page in so many.
const PAGE_TABLE_SHARE: u32 = 4;

/// What a GPU is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuConfig {
    /// Copy engines beside the 3D/compute engine: at most 8.
    pub copy_engines: u32,
    /// Physical doorbells, which all guests share.
    pub physical_doorbells: u32,
    /// Whether queues have doorbells of their own, or a guest's share one and none of the above.
    pub doorbell_model: DoorbellModel,
    /// Whether doorbells' pages are moved, for guests whose VMM does that: see
    /// [`Gpu::rotate_doorbells`].
    pub remaps_doorbells: bool,
    /// How many of the copy engines take kernel-mode submissions only: the last so many.
    pub kernel_mode_copy_engines: u32,
    /// How long an engine without work looks at its doorbells before it sleeps.
    pub spin: Duration,
    /// How long an engine sleeps without work before it asks for F1. `None` is for ever.
    pub idle: Option<Duration>,
    /// How long an engine executes a queue that makes no progress before that is a hang.
    pub hang: Duration,
    /// How long a context keeps its engine while others of its guest and its priority wait.
    pub quantum: Duration,
    /// Whether the kernels that hang until a reset exist. They are for tests: whoever may dispatch them
    /// can have the adapter reset.
    pub test_kernels: bool,
    /// Whether interrupts for signals that are logged name the HW queue instead of the fences.
    pub optimized_fence_interrupt: bool,
    /// Page-table pages of 4 KiB, which all guests share. One guest can have a quarter of them.
    pub page_table_pages: u32,
}

impl Default for GpuConfig {
    fn default() -> Self {
        Self {
            copy_engines: 2,
            kernel_mode_copy_engines: 0,
            physical_doorbells: 64,
            doorbell_model: DoorbellModel::Dedicated,
            remaps_doorbells: false,
            spin: Duration::from_micros(50),
            idle: Some(Duration::from_secs(1)),
            hang: Duration::from_secs(2),
            quantum: Duration::from_micros(200),
            test_kernels: false,
            optimized_fence_interrupt: false,
            page_table_pages: 1 << 15,
        }
    }
}

/// What an engine did with its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineHabits {
    /// Times that it woke from its sleep.
    pub wakeups: u64,
    /// Times that it gave its processor away while it looked for work.
    pub yields: u64,
}

/// Room for a guest that may come.
#[derive(Debug)]
pub struct GuestPlace(Arc<Gpu>);

impl Drop for GuestPlace {
    fn drop(&mut self) {
        self.0.places.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A GPU whose engines run. They stop when it is dropped.
#[derive(Debug)]
pub struct Gpu {
    chip: Arc<Chip>,
    nodes: Vec<NodeDescription>,
    physical_doorbells: u32,
    doorbell_model: DoorbellModel,
    remaps_doorbells: bool,
    /// What it shares with other GPUs.
    cross_adapter: Arc<CrossAdapterMemory>,
    /// Guests that may come at the same time.
    places: AtomicU32,
    /// No engine ever takes this lock.
    registry: Mutex<Registry>,
    threads: Vec<JoinHandle<()>>,
}

impl Gpu {
    /// Makes a GPU and starts a thread for each of its engines.
    ///
    /// # Errors
    /// When there are more copy engines than there can be, or the operating system gives no
    /// memory, file descriptors or threads.
    pub fn start(config: GpuConfig) -> io::Result<Arc<Self>> {
        Self::start_beside(config, Arc::new(CrossAdapterMemory::new(0)?))
    }

    /// The same for one of several GPUs that have this memory together.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_beside(
        config: GpuConfig,
        cross_adapter: Arc<CrossAdapterMemory>,
    ) -> io::Result<Arc<Self>> {
        let copy_engines = COPY_ENGINES
            .get(..config.copy_engines as usize)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "too many copy engines"))?;
        let user_mode = copy_engines.len().saturating_sub(config.kernel_mode_copy_engines as usize);
        let copy_nodes = copy_engines.iter().zip(0..).map(|(name, index)| NodeDescription {
            engine_type: EngineType::COPY,
            name,
            user_mode_submission: index < user_mode,
        });
        let compute_node = NodeDescription {
            engine_type: EngineType::THREE_D,
            name: "3D",
            user_mode_submission: true,
        };
        let nodes: Vec<_> = std::iter::once(compute_node).chain(copy_nodes).collect();
        let pages =
            NodePool::new(config.page_table_pages, config.page_table_pages / PAGE_TABLE_SHARE)?;
        let interrupts = Arc::new(Interrupts::new(INTERRUPTS)?);
        let chip = Chip::new(nodes.len(), Arc::new(pages), interrupts, &config)?;
        let mut gpu = Self {
            chip: Arc::new(chip),
            nodes,
            physical_doorbells: config.physical_doorbells,
            doorbell_model: config.doorbell_model,
            remaps_doorbells: config.remaps_doorbells,
            cross_adapter,
            places: AtomicU32::new(0),
            registry: Mutex::new(Registry::new(config.physical_doorbells)),
            threads: Vec::new(),
        };
        for (node, index) in gpu.nodes.iter().zip(0..) {
            let chip = Arc::clone(&gpu.chip);
            let times = Times {
                spin: config.spin,
                idle: config.idle,
                hang: config.hang,
                quantum: config.quantum,
            };
            let engine = Engine::new(chip, index, node.engine_type, times);
            let name = format!("engine-{}", node.name.to_lowercase());
            gpu.threads.push(Builder::new().name(name).spawn(|| engine.run())?);
        }
        Ok(Arc::new(gpu))
    }

    /// Attaches a guest: makes its BAR, with the header page written, and the segments beside it.
    ///
    /// # Errors
    /// When the operating system gives no memory for them.
    pub fn attach_guest(
        &self,
        layout: BarLayout,
        segments: SegmentSizes,
        memory: Arc<GuestMemoryMmap>,
    ) -> io::Result<GuestId> {
        // Relaxed: a number that nobody has is all that is wanted.
        let guest = GuestId(GUESTS.fetch_add(1, Ordering::Relaxed));
        let pages = if self.remaps_doorbells { self.physical_doorbells } else { 0 };
        let engines = self.chip.engines.len();
        let cross_adapter = Arc::clone(&self.cross_adapter);
        let partition =
            Partition::new(guest, layout, segments, pages, &memory, cross_adapter, engines)?;
        self.registry().guests.insert(guest, Arc::new(partition));
        Ok(guest)
    }

    /// The file behind a guest's BAR, to map into it.
    pub fn bar_file(&self, guest: GuestId) -> Option<Arc<File>> {
        let registry = self.registry();
        registry.guests.get(&guest).map(|partition| Arc::clone(partition.bar().file()))
    }

    /// A guest's doorbells all show its dummy page now, and whoever calls this will move them as
    /// [`Rotation::next`] says. None when there is no such guest, or pages are not moved here.
    pub fn rotate_doorbells(&self, guest: GuestId) -> Option<Arc<Rotation>> {
        let partition = self.registry().guests.get(&guest).cloned()?;
        self.remaps_doorbells.then(|| partition.rotate(&self.chip.interrupts))
    }

    /// Where in the file behind a guest's BAR a page is that a doorbell can show.
    pub fn doorbell_page(&self, guest: GuestId, page: Page) -> Option<u64> {
        let partition = self.registry().guests.get(&guest).cloned()?;
        partition.bar().doorbell_page(page)
    }

    /// A guest's doorbells are moved no more; its VMM may be about to drop all mappings.
    pub fn stop_rotation(&self, guest: GuestId) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.stop_rotation();
        }
    }

    /// The guest's own memory has changed. Engines use what they found of the old until they have
    /// quiesced, which this asks for; it stays mapped for so long.
    pub fn update_guest_memory(&self, guest: GuestId, memory: Arc<GuestMemoryMmap>) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.update_memory(&memory);
        }
        self.chip.change_memory();
        self.chip.quiesce();
    }

    /// Sets a guest's weight, by which engines share their time among guests, [`DEFAULT_WEIGHT`]
    /// before that; not 0.
    pub fn set_guest_weight(&self, guest: GuestId, weight: u32) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_weight(weight);
        }
    }

    /// Sets how many physical doorbells are a guest's share, which no other guest takes from it; 0, as before
    /// that, is an equal part of all.
    pub fn set_doorbell_share(&self, guest: GuestId, share: u32) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_doorbell_share(share);
        }
    }

    /// One more guest may come while this is kept: equal parts are made for all that may.
    #[must_use]
    pub fn add_place(self: &Arc<Self>) -> GuestPlace {
        self.places.fetch_add(1, Ordering::Relaxed);
        GuestPlace(Arc::clone(self))
    }

    /// The part of the physical doorbells that each guest has for which none is set: at least one.
    fn equal_doorbell_share(&self) -> u32 {
        let attached = u32::try_from(self.registry().guests.len()).unwrap_or(u32::MAX);
        let guests = self.places.load(Ordering::Relaxed).max(attached);
        (self.physical_doorbells / guests.max(1)).max(1)
    }

    /// A guest's kicks of its control queue wake engines that watch its doorbells, once. The descriptor is
    /// the one that becomes readable.
    pub fn set_guest_kick(&self, guest: GuestId, kick: OwnedFd) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_kick(kick);
        }
    }

    /// Forgets a guest that the kernel has detached. Whatever it left behind goes with it, as
    /// soon as the engines have quiesced.
    pub fn detach_guest(&self, guest: GuestId) {
        self.registry().remove_guest(&self.chip, guest);
        self.chip.quiesce();
    }

    /// How each engine sleeps and shares its processor, by node, since the GPU started. It is for whoever
    /// runs the GPU: it tells of all guests together.
    pub fn engine_habits(&self) -> Vec<EngineHabits> {
        let habits = |port: &EnginePort| EngineHabits {
            wakeups: port.wakeups.load(Ordering::Relaxed),
            yields: port.yields.load(Ordering::Relaxed),
        };
        self.chip.engines.iter().map(habits).collect()
    }

    /// Readable when [`take_interrupts`](bellhop_host_kmd::hardware::Hardware::take_interrupts)
    /// has something to give.
    pub fn interrupt_fd(&self) -> BorrowedFd<'_> {
        self.chip.interrupts.fd()
    }

    /// Makes [`Self::interrupt_fd`] unreadable again. Interrupts must be taken *after* this: those
    /// raised in between make it readable again.
    pub fn acknowledge_interrupt(&self) {
        self.chip.interrupts.acknowledge();
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        for engine in &self.chip.engines {
            engine.reset.store(reset::STOP, Ordering::Release);
            engine.raise(attention::STOP);
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("an engine had panicked");
            }
        }
    }
}
