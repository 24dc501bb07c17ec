// SPDX-License-Identifier: MIT OR Apache-2.0

//! The control plane's side of kernels.

use super::config::KernelsConfig;
use super::desk::{Compile, Desk, Order, Outcome};
use super::manager::Manager;
use super::module::Module;
use super::source::Source;
use super::table::{GuestKernels, KernelSpace};
use crate::allowance::{Allowance, Rate};
use crate::gpu::memory::page_table::AddressSpace;
use crate::gpu::shared::chip::Chip;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, GuestId, Interrupt, KernelNumber, KernelOutcome, KernelRefusal, KernelSource,
};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Most modules of a guest that are remembered, and most bytes of their SPIR-V.
const REMEMBERED: usize = 64;
const REMEMBERED_BYTES: usize = 4 << 20;

/// The modules that a guest has had compiled. No guest learns from, or suffers by, what another's compiler said.
#[derive(Debug, Default)]
struct Remembered {
    modules: HashMap<Arc<Source>, Arc<Module>>,
    /// Oldest first.
    order: VecDeque<Arc<Source>>,
    bytes: usize,
}

impl Remembered {
    /// The module of a source, perhaps of an earlier kernel.
    fn module(&mut self, source: Source) -> io::Result<Arc<Module>> {
        if let Some(module) = self.modules.get(&source) {
            return Ok(Arc::clone(module));
        }
        let module = Arc::new(Module::new(&source)?);
        let source = Arc::new(source);
        self.bytes += source.spirv.len();
        self.modules.insert(Arc::clone(&source), Arc::clone(&module));
        self.order.push_back(source);
        while self.order.len() > REMEMBERED || self.bytes > REMEMBERED_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= oldest.spirv.len();
            self.modules.remove(&oldest);
        }
        Ok(module)
    }
}

/// A guest with kernels.
#[derive(Debug)]
struct Owner {
    guest: Arc<GuestKernels>,
    remembered: Remembered,
    spaces: Vec<Arc<KernelSpace>>,
    /// The latest kernel's number.
    last: u32,
}

/// All kernels, and the thread that manages workers. It ends when this is dropped.
#[derive(Debug)]
pub struct Kernels {
    desk: Arc<Desk>,
    most: usize,
    /// No engine ever takes this lock.
    owners: Mutex<HashMap<GuestId, Owner>>,
    /// By the paths of sockets, of which the daemon has few.
    sockets: Mutex<HashMap<String, Arc<Allowance>>>,
    manager: Option<JoinHandle<()>>,
}

impl Kernels {
    /// Starts the manager.
    ///
    /// # Errors
    /// If the operating system has no file descriptors or threads.
    pub fn start(config: KernelsConfig, chip: Arc<Chip>) -> io::Result<Self> {
        let desk = Arc::new(Desk::new(chip, config.caps)?);
        let most = config.kernels_per_guest as usize;
        let manager = Manager::new(Arc::clone(&desk), config);
        let manager = Builder::new().name("kernels".into()).spawn(|| manager.run())?;
        Ok(Self {
            desk,
            most,
            owners: Mutex::default(),
            sockets: Mutex::default(),
            manager: Some(manager),
        })
    }

    /// Where engines meet the manager.
    pub fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// The workers that may be started for a guest. Those that come to one socket share them: whoever connects anew gains
    /// nothing.
    fn starts(&self, partition: &Partition) -> Arc<Allowance> {
        let socket = partition.front_end.get().map(|front_end| front_end.socket.as_str());
        let Some(socket) = socket.filter(|socket| !socket.is_empty()) else {
            return Arc::default();
        };
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(sockets.entry(socket.to_owned()).or_default())
    }

    /// Changes how often workers are started for the guests of a socket.
    pub fn set_worker_starts(&self, socket: &str, rate: Rate) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.entry(socket.to_owned()).or_default().set_rate(rate);
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<GuestId, Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a kernel's source, and begins to compile it.
    ///
    /// # Errors
    /// If there can be no such kernel.
    pub fn create(
        &self,
        partition: &Partition,
        space: &AddressSpace,
        source: KernelSource,
    ) -> Result<KernelNumber, KernelRefusal> {
        let guest = partition.id();
        let mut owners = self.owners();
        let owner = owners.entry(guest).or_insert_with(|| Owner {
            guest: Arc::new(GuestKernels::new(guest, self.starts(partition))),
            remembered: Remembered::default(),
            spaces: Vec::new(),
            last: 0,
        });
        if owner.spaces.iter().map(|space| space.len()).sum::<usize>() >= self.most {
            return Err(KernelRefusal::Full);
        }
        let number = owner.last.checked_add(1).ok_or(KernelRefusal::Full)?;
        let memory = partition.memory();
        let source = Source::read(source, space, &memory).map_err(KernelRefusal::Unreadable)?;
        let module = owner.remembered.module(source).map_err(|error| {
            tracing::error!(%error, guest = guest.0, "cannot keep a kernel");
            KernelRefusal::Full
        })?;
        owner.last = number;
        let space = match owner.spaces.iter().find(|known| known.id == space.id()) {
            Some(known) => Arc::clone(known),
            None => {
                let new = Arc::new(KernelSpace::new(space.id(), Arc::clone(&owner.guest)));
                owner.spaces.push(Arc::clone(&new));
                let mut spaces = HashMap::clone(&self.desk.spaces.load());
                spaces.insert(new.id, Arc::clone(&new));
                self.desk.spaces.store(Arc::new(spaces));
                new
            }
        };
        space.add(number, Arc::clone(&module));
        match module.outcome() {
            Some(outcome) => self.desk.tell(Outcome { space: space.id, number, outcome }),
            None => self.desk.order(Order::Compile(Compile { space, number, module })),
        }
        Ok(KernelNumber(number))
    }

    /// Destroys a kernel. Returns false if there is no such kernel.
    pub fn destroy(&self, space: AddressSpaceId, kernel: KernelNumber) -> bool {
        self.desk.space(space).is_some_and(|space| space.remove(kernel.0))
    }

    /// Destroys the kernels of an address space. Its workers end soon, and before any engine passes a later ticket.
    pub fn end_space(&self, space: AddressSpaceId) {
        let mut owners = self.owners();
        for owner in owners.values_mut() {
            owner.spaces.retain(|known| known.id != space);
        }
        self.forget(|known| known.id == space);
    }

    /// Destroys all kernels of a guest.
    pub fn end_guest(&self, guest: GuestId) {
        self.owners().remove(&guest);
        self.forget(|known| known.guest.id == guest);
        self.desk.order(Order::EndGuest(guest));
    }

    fn forget(&self, which: impl Fn(&KernelSpace) -> bool) {
        let known = self.desk.spaces.load_full();
        let (ended, left): (Vec<_>, HashMap<_, _>) = {
            let (ended, left): (Vec<_>, Vec<_>) = known.iter().partition(|(_, space)| which(space));
            let copy = |(id, space): (&AddressSpaceId, &Arc<KernelSpace>)| (*id, Arc::clone(space));
            (ended, left.into_iter().map(copy).collect())
        };
        if ended.is_empty() {
            return;
        }
        self.desk.spaces.store(Arc::new(left));
        for (id, space) in ended {
            space.end();
            self.desk.order(Order::EndSpace(*id));
        }
    }

    /// The interrupts for what the compiler said since the last call. Forgets what it refused.
    pub fn take_interrupts(&self) -> Vec<Interrupt> {
        let told = std::iter::from_fn(|| self.desk.take_outcome());
        told.filter_map(|Outcome { space: id, number, outcome }| {
            // The process may have destroyed the kernel meanwhile.
            let space = self.desk.space(id).filter(|space| space.contains(number))?;
            if matches!(outcome, KernelOutcome::Failed(..)) {
                space.remove(number);
            }
            Some(Interrupt::KernelCompiled { space: id, kernel: KernelNumber(number), outcome })
        })
        .collect()
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        self.desk.order(Order::Stop);
        if let Some(manager) = self.manager.take()
            && manager.join().is_err()
        {
            tracing::error!("the manager of workers panicked");
        }
    }
}
