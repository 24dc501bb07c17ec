// SPDX-License-Identifier: MIT OR Apache-2.0

//! The virtual GPU.
//!
//! Each room may use the rooms to its right:
//!
//! ```text
//! control  ->  engine  ->  workers, security, display  ->  shared  ->  memory
//! ```
//!
//! * `memory`: bytes, segments, page tables and translation; the BAR.
//! * `shared`: the state that engines and the control plane share: the chip with its engines' ports, guests,
//!   queues, fences, interrupts.
//! * `workers`: the worker processes of each role, and guests' own kernels, which they execute.
//! * `security`: the worker that has the keys of a security node.
//! * `display`: CRTCs, which scan out what guests flip, and viewers.
//! * `engine`: the data plane, one thread for each engine.
//! * `control`: the control plane's side: the GPU as a whole, the kernel's calls, and the interrupts that the
//!   kernel takes.
//!
//! *A submission*: `engine::main_loop` sees it and gives its queue a turn; `engine::command_processor` fetches the
//! packets and `engine::packets` executes them, through `memory::mmu`, until a fence of `shared::fence::table` is
//! signaled. *A connect* arrives in `control::kernel_calls`, is entered in `control::registry`, and reaches the
//! engine as a changed watch and a kick in `shared::chip`.

mod control;
pub mod display;
mod engine;
mod memory;
pub mod processors;
mod security;
mod shared;
#[cfg(feature = "stepped")]
mod stepped;
mod workers;

use crate::allowance::Rate;
use bellhop_host_kmd::hardware::{
    DoorbellModel, GpuOrdinal, GuestId, NodeDescription, SegmentSizes,
};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::kernel::KernelCaps;
use bellhop_protocol::control::video::{VIDEO_DECODES, VIDEO_ENCODES, VideoCaps};
use control::hand::Hand;
use control::registry::Registry;
use display::Displays;
use engine::main_loop::{Engine, Times};
pub use memory::bar::Page;
pub use memory::cross_memory::CrossAdapterMemory;
pub use security::config::SecurityConfig;
use security::manager::Security;
pub use shared::account::Account;
pub use shared::chain::ChainPlace;
use shared::chain::{Chain, Member};
use shared::chip::{Chip, EnginePort, attention};
pub use shared::config::GpuConfig;
pub use shared::event::Event as EventFd;
use shared::interrupt::Interrupts;
pub use shared::nudge::{GuestEvents, Nudge};
use shared::partition::Partition;
pub use shared::partition::{DEFAULT_WEIGHT, Stay};
pub use shared::rotation::{Move, Moved, Rotation, SETTLING};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
#[cfg(feature = "stepped")]
pub use stepped::SteppedEngine;
use vm_memory::GuestMemoryMmap;
use workers::config::WorkersConfig;
pub use workers::config::{KernelsConfig, RoleConfig, VideoConfig, WorkerProgram};
use workers::kernels::catalogue::Kernels;
use workers::service::Workers;
use workers::video::VideoSessions;

/// Names of the 3D engines, and so their maximum number.
const GRAPHICS_ENGINES: [&str; 8] = ["3D", "3D1", "3D2", "3D3", "3D4", "3D5", "3D6", "3D7"];
/// Names of the copy engines, and so their maximum number.
const COPY_ENGINES: [&str; 8] =
    ["SDMA0", "SDMA1", "SDMA2", "SDMA3", "SDMA4", "SDMA5", "SDMA6", "SDMA7"];
/// Names of the Compute engines, and so their maximum number.
const COMPUTE_ENGINES: [&str; 8] = [
    "Compute0", "Compute1", "Compute2", "Compute3", "Compute4", "Compute5", "Compute6", "Compute7",
];
/// Names of the video decode and video encode engines, and so their maximum numbers.
const DECODE_ENGINES: [&str; 4] =
    ["VIDEO_DECODE0", "VIDEO_DECODE1", "VIDEO_DECODE2", "VIDEO_DECODE3"];
const ENCODE_ENGINES: [&str; 4] =
    ["VIDEO_ENCODE0", "VIDEO_ENCODE1", "VIDEO_ENCODE2", "VIDEO_ENCODE3"];
/// Sets of engines are words with a bit per engine. There may be a security node beside these.
const _: () = assert!(
    GRAPHICS_ENGINES.len()
        + COPY_ENGINES.len()
        + COMPUTE_ENGINES.len()
        + DECODE_ENGINES.len()
        + ENCODE_ENGINES.len()
        < u64::BITS as usize
);

/// Capacity of the interrupt queue. Once it is full, the control plane is asked to scan instead.
const INTERRUPTS: usize = 1024;

/// The next guest id. All GPUs of this process draw from it, so that ids are unique in the host.
static GUESTS: AtomicU64 = AtomicU64::new(1);

/// The guests of a socket can have 1/4 of the page-table pages.
const PAGE_TABLE_SHARE: u32 = 4;

/// An engine's use of its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineHabits {
    /// Number of wake-ups from sleep.
    pub wakeups: u64,
    /// Number of times that it yielded its processor while it looked for work.
    pub yields: u64,
}

/// A place reserved for the guests of a socket.
#[derive(Debug)]
pub struct GuestPlace(Arc<Gpu>);

impl Drop for GuestPlace {
    fn drop(&mut self) {
        self.0.places.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A GPU with running engines. They stop when it is dropped.
#[derive(Debug)]
pub struct Gpu {
    chip: Arc<Chip>,
    nodes: Vec<NodeDescription>,
    physical_doorbells: u32,
    doorbell_model: DoorbellModel,
    remaps_doorbells: bool,
    /// The memory that it shares with other GPUs.
    cross_adapter: Arc<CrossAdapterMemory>,
    /// Number of sockets whose guests may be attached at once.
    places: AtomicU32,
    /// Touches guests' memory for the control plane.
    hand: Hand,
    /// No engine ever takes this lock.
    registry: Mutex<Registry>,
    /// What guests are told of kernels.
    kernel_caps: KernelCaps,
    /// The kernels that guests brought.
    kernels: Option<Kernels>,
    /// What guests are told of video.
    video_caps: VideoCaps,
    /// The video sessions.
    video: Option<VideoSessions>,
    /// The processes of all roles, if there is one. Dropped after the engines have stopped.
    workers: Option<Workers>,
    /// The security node's worker, if there is such a node. Dropped after the engines have stopped.
    security: Option<Security>,
    /// What guests show, and who sees it.
    displays: Displays,
    /// The other GPUs of its chain, if it is the master of one. They have its guests.
    slaves: OnceLock<Box<[Arc<Gpu>]>>,
    threads: Vec<JoinHandle<()>>,
}

/// The nodes of a GPU, by ordinal.
fn nodes_of(config: &GpuConfig) -> io::Result<Vec<NodeDescription>> {
    if config.graphics_engines == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no 3D engines"));
    }
    let user_mode = config.copy_engines.saturating_sub(config.kernel_mode_copy_engines);
    let mut nodes = Vec::new();
    for (engine_type, names, engines) in [
        (EngineType::THREE_D, &GRAPHICS_ENGINES[..], config.graphics_engines),
        (EngineType::COPY, &COPY_ENGINES, config.copy_engines),
        (EngineType::COMPUTE, &COMPUTE_ENGINES, config.compute_engines),
        (EngineType::VIDEO_DECODE, &DECODE_ENGINES, config.video_decode_engines),
        (EngineType::VIDEO_ENCODE, &ENCODE_ENGINES, config.video_encode_engines),
        (EngineType::CRYPTO, &["PSP"], config.security.iter().len() as u32),
    ] {
        let names = names.get(..engines as usize).ok_or_else(|| {
            let many = format!("more {engine_type} engines than {}", names.len());
            io::Error::new(io::ErrorKind::InvalidInput, many)
        })?;
        nodes.extend((0..).zip(names).map(|(index, name)| NodeDescription {
            engine_type,
            name,
            user_mode_submission: engine_type != EngineType::COPY || index < user_mode,
            processor: None,
        }));
    }
    // No processors, or one for each node.
    for (node, processor) in nodes.iter_mut().zip(config.engine_processors.iter().cycle()) {
        node.processor = Some(*processor);
    }
    Ok(nodes)
}

/// The roles that workers have.
fn workers_of(kernels: &KernelsConfig, video: Option<&VideoConfig>) -> WorkersConfig {
    let own = kernels.caps.are_supported().then(|| kernels.role());
    let roles = own.into_iter().chain(video.map(|video| video.role.clone())).collect();
    let starts = video.map_or(kernels.starts, |video| video.starts);
    let KernelsConfig { compiling, compile_timeout, .. } = *kernels;
    WorkersConfig { roles, starts, compiling, compile_timeout }
}

/// What guests are told of video.
fn video_caps(config: &GpuConfig) -> VideoCaps {
    let has = |engines: u32, flag| if engines > 0 { flag } else { 0 };
    let flags = has(config.video_decode_engines, VIDEO_DECODES)
        | has(config.video_encode_engines, VIDEO_ENCODES);
    match &config.video {
        Ok(video) if flags != 0 => VideoCaps::new(flags, video.sessions_per_guest),
        Ok(_) => VideoCaps::none("the host's configuration has no video nodes for this adapter"),
        Err(why) => VideoCaps::none(why),
    }
}

impl Gpu {
    /// Creates a GPU and starts a thread for each of its engines.
    ///
    /// # Errors
    /// If there are more engines of a type than allowed, or the operating system has no memory, file descriptors or
    /// threads.
    pub fn start(config: GpuConfig) -> io::Result<Arc<Self>> {
        Self::start_beside(config, Arc::new(CrossAdapterMemory::new(0)?))
    }

    /// Starts one of several GPUs that share this memory.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_beside(
        config: GpuConfig,
        cross_adapter: Arc<CrossAdapterMemory>,
    ) -> io::Result<Arc<Self>> {
        let place = Self::alone(&config)?;
        Self::start_in_chain(config, cross_adapter, place)
    }

    /// Starts a GPU at its place in a chain.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_in_chain(
        config: GpuConfig,
        cross_adapter: Arc<CrossAdapterMemory>,
        place: ChainPlace,
    ) -> io::Result<Arc<Self>> {
        Self::start_engines(config, cross_adapter, place, |name, engine| {
            Builder::new().name(name).spawn(|| engine.run()).map(Some)
        })
    }

    /// The places of the GPUs of a chain, the master first.
    ///
    /// # Errors
    /// As [`Self::start`], or if the chain has more engines than a set can hold.
    pub fn chain(configs: &[GpuConfig]) -> io::Result<Vec<ChainPlace>> {
        let member = |config: &GpuConfig| {
            let pages = config.page_table_pages;
            let engines = u32::try_from(nodes_of(config)?.len()).map_err(io::Error::other)?;
            let share = pages / PAGE_TABLE_SHARE / config.guests_per_socket.max(1);
            Ok(Member { engines, page_table_pages: (pages, share) })
        };
        Chain::of(&configs.iter().map(member).collect::<io::Result<Vec<_>>>()?)
    }

    /// The place of a GPU that is not linked.
    fn alone(config: &GpuConfig) -> io::Result<ChainPlace> {
        let mut places = Self::chain(std::slice::from_ref(config))?;
        places.pop().ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Makes this GPU the master of the others of its chain, once, before the first guest.
    pub fn link(&self, slaves: Vec<Arc<Gpu>>) {
        if self.slaves.set(slaves.into()).is_err() {
            tracing::error!("a chain was linked twice");
        }
    }

    /// The other GPUs of its chain, if it is the master of one.
    pub fn slaves(&self) -> &[Arc<Gpu>] {
        self.slaves.get().map_or(&[], |slaves| slaves)
    }

    /// Creates a GPU; `start` starts each of its engines, on a thread if it returns one.
    fn start_engines(
        config: GpuConfig,
        cross_adapter: Arc<CrossAdapterMemory>,
        place: ChainPlace,
        mut start: impl FnMut(String, Engine) -> io::Result<Option<JoinHandle<()>>>,
    ) -> io::Result<Arc<Self>> {
        let nodes = nodes_of(&config)?;
        let interrupts = Arc::new(Interrupts::new(INTERRUPTS)?);
        let gpu = place.gpu;
        let chip = Arc::new(Chip::new(place, interrupts, &config)?);
        let none = || KernelsConfig::none("this adapter has no kernels");
        let kernels = config.kernels.clone().unwrap_or_else(none);
        let kernel_caps = kernels.caps;
        let video_caps = video_caps(&config);
        let video = config.video.clone().ok().filter(|_| video_caps.are_supported());
        let workers = workers_of(&kernels, video.as_ref());
        let workers = (!workers.roles.is_empty())
            .then(|| Workers::start(workers, kernel_caps, Arc::clone(&chip)))
            .transpose()?;
        let kernels = workers.as_ref().filter(|_| kernel_caps.are_supported()).map(|workers| {
            Kernels::new(Arc::clone(workers.mailboxes()), kernels.kernels_per_guest)
        });
        let video = workers.as_ref().zip(video).map(|(workers, video)| {
            VideoSessions::new(Arc::clone(workers.mailboxes()), video.role.workers)
        });
        let node = nodes.iter().position(|node| node.engine_type == EngineType::CRYPTO);
        let security = config.security.clone().zip(node).map(|(security, node)| {
            Security::start(security, Arc::clone(&chip), u32::try_from(node).unwrap_or(u32::MAX))
        });
        let displays = Displays::new(config.display.clone(), Arc::clone(&chip));
        let mut gpu = Self {
            chip,
            nodes,
            physical_doorbells: config.physical_doorbells,
            doorbell_model: config.doorbell_model,
            remaps_doorbells: config.remaps_doorbells,
            cross_adapter,
            places: AtomicU32::new(0),
            hand: Hand::start()?,
            registry: Mutex::new(Registry::new(gpu, config.physical_doorbells)),
            kernel_caps,
            kernels,
            video_caps,
            video,
            workers,
            security: security.transpose()?,
            displays,
            slaves: OnceLock::new(),
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
            let has_workers = match node.engine_type {
                kind if kind.computes() => gpu.kernels.is_some(),
                EngineType::VIDEO_DECODE | EngineType::VIDEO_ENCODE => gpu.video.is_some(),
                _ => false,
            };
            let workers = gpu.workers.as_ref().filter(|_| has_workers);
            let mailboxes = workers.map(|workers| Arc::clone(workers.mailboxes()));
            let security = gpu.security.as_ref().map(|security| Arc::clone(security.mailbox()));
            let security = security.filter(|_| node.engine_type == EngineType::CRYPTO);
            let number = chip.engine_of(index);
            let engine = Engine::new(chip, number, node.engine_type, times, mailboxes, security);
            let name = match gpu.chip.place().gpu {
                GpuOrdinal::MASTER => format!("engine-{}", node.name.to_lowercase()),
                slave => format!("engine-{}.{}", slave.0, node.name.to_lowercase()),
            };
            let started = match node.processor {
                Some(processor) => processors::start_on(processor, || start(name, engine))?,
                None => start(name, engine)?,
            };
            gpu.threads.extend(started);
        }
        Ok(Arc::new(gpu))
    }

    /// The GPUs of its chain, if it is the master of one; otherwise it alone.
    fn gpus_of_chain(&self) -> impl Iterator<Item = &Gpu> {
        std::iter::once(self).chain(self.slaves().iter().map(AsRef::as_ref))
    }

    /// Number of nodes of the GPUs of its chain.
    pub fn chain_nodes(&self) -> u32 {
        self.gpus_of_chain().map(|gpu| gpu.chip.place().engines).sum()
    }

    /// Attaches a guest to this GPU and the others of its chain: creates its BAR, with the header page written, and the
    /// segments beside it. Each GPU has as much private memory as `segments` says. The guest is charged to `account`, with the
    /// other guests of its socket.
    ///
    /// # Errors
    /// If the operating system has no memory for them.
    pub fn attach_guest(
        &self,
        layout: BarLayout,
        segments: SegmentSizes,
        memory: Arc<GuestMemoryMmap>,
        account: &Arc<Account>,
    ) -> io::Result<GuestId> {
        // Relaxed: only the uniqueness of the number matters.
        let guest = GuestId(GUESTS.fetch_add(1, Ordering::Relaxed));
        let pages = if self.remaps_doorbells { self.physical_doorbells } else { 0 };
        let engines = self.chip.engines.len();
        let cross_adapter = Arc::clone(&self.cross_adapter);
        // One physical address space for the local memory of all GPUs of the chain.
        let gpus = 1 + self.slaves().len() as u64;
        let private = segments.private.checked_mul(gpus).ok_or(io::ErrorKind::InvalidInput)?;
        let segments = SegmentSizes { private, ..segments };
        let partition =
            Partition::new(guest, layout, segments, pages, &memory, cross_adapter, engines)?;
        // Before anybody finds the guest, and asks whose it is.
        let partition = Arc::new(partition.charged_to(Arc::clone(account)));
        let attached = self.gpus_of_chain().try_for_each(|gpu| gpu.displays.attach(&partition));
        if let Err(error) = attached {
            self.gpus_of_chain().for_each(|gpu| gpu.displays.detach(guest));
            return Err(error);
        }
        for slave in self.slaves() {
            slave.registry().guests.insert(guest, Arc::clone(&partition));
        }
        self.registry().guests.insert(guest, partition);
        Ok(guest)
    }

    /// The file behind a guest's BAR, which its VMM maps.
    pub fn bar_file(&self, guest: GuestId) -> Option<Arc<File>> {
        let registry = self.registry();
        registry.guests.get(&guest).map(|partition| Arc::clone(partition.bar().file()))
    }

    /// Begins the rotation of a guest's doorbells, which all show the dummy page now. The caller moves pages as
    /// [`Rotation::next`] says. `None` if the guest does not exist, or if this GPU moves no pages.
    pub fn rotate_doorbells(&self, guest: GuestId) -> Option<Arc<Rotation>> {
        let partition = self.registry().guests.get(&guest).cloned()?;
        self.remaps_doorbells.then(|| partition.rotate(&self.chip.interrupts))
    }

    /// Offset in the file behind a guest's BAR of a page that a doorbell can show.
    pub fn doorbell_page(&self, guest: GuestId, page: Page) -> Option<u64> {
        let partition = self.registry().guests.get(&guest).cloned()?;
        partition.bar().doorbell_page(page)
    }

    /// Ends the rotation of a guest's doorbells: its VMM may be about to drop all mappings.
    pub fn stop_rotation(&self, guest: GuestId) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.stop_rotation();
        }
    }

    /// Replaces the guest's own memory and asks the engines to quiesce. Until they have, they use the old memory,
    /// which stays mapped.
    pub fn update_guest_memory(&self, guest: GuestId, memory: Arc<GuestMemoryMmap>) {
        let partition = self.registry().guests.get(&guest).cloned();
        // Without the lock: the earlier memory may be unmapped here, which waits while the VMM punches a hole there.
        if let Some(partition) = partition {
            partition.update_memory(&memory);
            if let Some(workers) = &self.workers {
                workers.resize(&partition);
            }
        }
        self.chip.change_memory();
        self.chip.quiesce();
    }

    /// Sets the weight of a guest's socket, which determines the share of engine time of the socket's guests together; not
    /// 0. The default is [`DEFAULT_WEIGHT`].
    pub fn set_guest_weight(&self, guest: GuestId, weight: u32) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_weight(weight);
        }
    }

    /// Sets what a guest is known by, of which its keys are derived: SHA-256 of a name that no other guest has. Once.
    pub fn set_guest_identity(&self, guest: GuestId, identity: [u8; 32]) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_identity(identity);
        }
    }

    /// Sets the number of physical doorbells that no guest of another socket takes from the guests of a guest's socket. The
    /// default, 0, stands for an equal share.
    pub fn set_doorbell_share(&self, guest: GuestId, share: u32) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_doorbell_share(share);
        }
    }

    /// Changes how often workers of each GPU of the chain are started for the guests of a socket. Does nothing where there
    /// are no workers.
    pub fn set_worker_starts(&self, socket: &str, rate: Rate) {
        for slave in self.slaves() {
            slave.set_worker_starts(socket, rate);
        }
        if let Some(workers) = &self.workers {
            workers.set_starts(socket, rate);
        }
    }

    /// Reserves room for the guests of one more socket while the returned place exists: equal shares count it.
    #[must_use]
    pub fn add_place(self: &Arc<Self>) -> GuestPlace {
        self.places.fetch_add(1, Ordering::Relaxed);
        GuestPlace(Arc::clone(self))
    }

    /// The share of the physical doorbells of a socket without a configured share: at least one.
    fn equal_doorbell_share(&self) -> u32 {
        let accounts = |guest: &Arc<Partition>| guest.account().id();
        let attached: BTreeSet<_> = self.registry().guests.values().map(accounts).collect();
        let attached = u32::try_from(attached.len()).unwrap_or(u32::MAX);
        let sockets = self.places.load(Ordering::Relaxed).max(attached);
        (self.physical_doorbells / sockets.max(1)).max(1)
    }

    /// Before a guest runs: sets what it keeps as long as anything of it is there: its memory, or a process that works for
    /// it.
    pub fn set_guest_stay(&self, guest: GuestId, stay: Stay) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_stay(stay);
        }
    }

    /// Makes a guest's kicks of its event queue wake the engines that watch its doorbells; set once. The
    /// descriptor becomes readable with each kick.
    pub fn set_guest_kick(&self, guest: GuestId, kick: OwnedFd) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_kick(kick);
        }
    }

    /// A guest kicked its event queue, and engines do not wait on that kick: those that sleep look at their doorbells.
    pub fn guest_kicked(&self) {
        self.chip.engines.iter().for_each(|port| port.raise(attention::DOORBELLS));
    }

    /// Makes engines nudge a guest when a fence reaches a value that one of its CPUs waits for; set once.
    pub fn set_guest_nudge(&self, guest: GuestId, nudge: Arc<dyn Nudge>) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_nudge(nudge);
        }
    }

    /// Makes the hardware tell a guest of VSYNCs; set once.
    pub fn set_guest_events(&self, guest: GuestId, events: Arc<dyn GuestEvents>) {
        if let Some(partition) = self.registry().guests.get(&guest) {
            partition.set_events(events);
        }
    }

    /// Removes a guest that the kernel has detached, and frees all that it left once the engines have quiesced.
    pub fn detach_guest(&self, guest: GuestId) {
        for slave in self.slaves() {
            slave.detach_guest(guest);
        }
        if let Some(kernels) = &self.kernels {
            kernels.end_guest(guest);
        }
        if let Some(video) = &self.video {
            video.end_guest(guest);
        }
        if let Some(workers) = &self.workers {
            workers.end_guest(guest);
        }
        self.displays.detach(guest);
        // Dropped without the lock, as in [`Self::update_guest_memory`].
        let partition = self.registry().remove_guest(&self.chip, guest);
        drop(partition);
        self.chip.quiesce();
    }

    /// Each engine's sleeps and yields since the GPU started, by node. For the operator only: the figures cover all
    /// guests together.
    pub fn engine_habits(&self) -> Vec<EngineHabits> {
        let habits = |port: &EnginePort| EngineHabits {
            wakeups: port.wakeups.load(Ordering::Relaxed),
            yields: port.yields.load(Ordering::Relaxed),
        };
        self.chip.own_engines().iter().map(habits).collect()
    }

    /// Readable while [`take_interrupts`](bellhop_host_kmd::hardware::Interrupts::take_interrupts) has something to
    /// return.
    pub fn interrupt_fd(&self) -> BorrowedFd<'_> {
        self.chip.interrupts.fd()
    }

    /// Makes [`Self::interrupt_fd`] unreadable again. Interrupts must be taken *after* this: those raised in
    /// between make it readable again.
    pub fn acknowledge_interrupt(&self) {
        self.chip.interrupts.acknowledge();
    }

    /// What guests show, for tools.
    pub fn displays(&self) -> &Displays {
        &self.displays
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a lock that is held for look-ups, and while entries come and go; nothing is unmapped under it"
    )]
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Gpu {
    #[expect(
        clippy::disallowed_methods,
        reason = "the end of the adapter: an engine that stands in a guest's memory ends when that is there again"
    )]
    fn drop(&mut self) {
        if let Some(security) = &self.security {
            // Its worker ends with the engine's side of the conversation, and is not to be started again.
            security.mailbox().stop();
        }
        for engine in self.chip.own_engines() {
            engine.stop();
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("an engine panicked");
            }
        }
    }
}
