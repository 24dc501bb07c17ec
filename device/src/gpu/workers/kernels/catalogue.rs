// SPDX-License-Identifier: MIT OR Apache-2.0

//! The control plane's side of kernels.

use super::kernel::Kernel;
use super::source::Source;
use super::table::KernelSpace;
use crate::gpu::workers::mailboxes::{Compile, Mailboxes, Order, Outcome};
use crate::gpu::workers::tenant::GuestWorkers;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, GuestId, Interrupt, KernelNumber, KernelOutcome, KernelRefusal, UnknownId,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A guest with kernels.
#[derive(Debug)]
struct Owner {
    guest: Arc<GuestWorkers>,
    spaces: Vec<Arc<KernelSpace>>,
    /// The latest kernel's number.
    last: u32,
}

/// All kernels.
#[derive(Debug)]
pub struct Kernels {
    mailboxes: Arc<Mailboxes>,
    most: usize,
    /// No engine ever takes this lock.
    owners: Mutex<BTreeMap<GuestId, Owner>>,
}

impl Kernels {
    /// No kernels. A guest may have this many.
    pub fn new(mailboxes: Arc<Mailboxes>, kernels_per_guest: u32) -> Self {
        Self { mailboxes, most: kernels_per_guest as usize, owners: Mutex::default() }
    }

    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn owners(&self) -> MutexGuard<'_, BTreeMap<GuestId, Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an address space, which has no kernels yet. Its worker, once it needs one, also executes its commands.
    pub fn begin_space(&self, space: AddressSpaceId, workers: &Arc<GuestWorkers>) {
        let mut owners = self.owners();
        let owner = owners.entry(workers.id).or_insert_with(|| Owner {
            guest: Arc::clone(workers),
            spaces: Vec::new(),
            last: 0,
        });
        let new = Arc::new(KernelSpace::new(space, Arc::clone(&owner.guest)));
        owner.spaces.push(Arc::clone(&new));
        let mut spaces = HashMap::clone(&self.mailboxes.spaces.load());
        spaces.insert(space, new);
        self.mailboxes.spaces.store(Arc::new(spaces));
    }

    /// Copies a kernel's source, without looking at it, and begins to compile it, under this number if one is given: see
    /// [`create_kernel`](bellhop_host_kmd::hardware::Kernels::create_kernel).
    ///
    /// # Errors
    /// If there can be no such kernel.
    pub fn create(
        &self,
        guest: GuestId,
        space: AddressSpaceId,
        source: Source,
        number: Option<KernelNumber>,
    ) -> Result<KernelNumber, KernelRefusal> {
        let unknown = UnknownId::AddressSpace(space);
        let mut owners = self.owners();
        let owner = owners.get_mut(&guest).ok_or(unknown)?;
        if owner.spaces.iter().map(|space| space.len()).sum::<usize>() >= self.most {
            return Err(KernelRefusal::Full);
        }
        let next = owner.last.checked_add(1).ok_or(KernelRefusal::Full)?;
        let number = number.map_or(next, |number| number.0);
        owner.last = number;
        let known = owner.spaces.iter().find(|known| known.id() == space);
        let space = Arc::clone(known.ok_or(unknown)?);
        // Whether it was compiled before, the manager finds out: to look at that much takes long.
        space.add(number, Kernel::new(source));
        self.mailboxes.order(Order::Compile(Compile { space, number }));
        Ok(KernelNumber(number))
    }

    /// Destroys a kernel. Returns false if there is no such kernel.
    pub fn destroy(&self, space: AddressSpaceId, kernel: KernelNumber) -> bool {
        self.mailboxes.space(space).is_some_and(|space| space.remove(kernel.0))
    }

    /// Destroys the kernels of an address space. Its workers end soon, and before any engine passes a later ticket.
    pub fn end_space(&self, space: AddressSpaceId) {
        let mut owners = self.owners();
        for owner in owners.values_mut() {
            owner.spaces.retain(|known| known.id() != space);
        }
        self.forget(|known| known.id() == space);
    }

    /// Destroys all kernels of a guest.
    pub fn end_guest(&self, guest: GuestId) {
        self.owners().remove(&guest);
        self.forget(|known| known.tenant.guest.id == guest);
    }

    fn forget(&self, which: impl Fn(&KernelSpace) -> bool) {
        let known = self.mailboxes.spaces.load_full();
        let (ended, left): (Vec<_>, HashMap<_, _>) = {
            let (ended, left): (Vec<_>, Vec<_>) = known.iter().partition(|(_, space)| which(space));
            let copy = |(id, space): (&AddressSpaceId, &Arc<KernelSpace>)| (*id, Arc::clone(space));
            (ended, left.into_iter().map(copy).collect())
        };
        if ended.is_empty() {
            return;
        }
        self.mailboxes.spaces.store(Arc::new(left));
        for (_, space) in ended {
            space.tenant.end();
            self.mailboxes.order(Order::EndTenant(space.tenant.id));
        }
    }

    /// The interrupts for what the compiler said since the last call. Forgets what it refused.
    pub fn take_interrupts(&self) -> Vec<Interrupt> {
        let told = std::iter::from_fn(|| self.mailboxes.take_outcome());
        told.filter_map(|Outcome { space: id, number, outcome }| {
            // The process may have destroyed the kernel meanwhile.
            let space = self.mailboxes.space(id).filter(|space| space.contains(number))?;
            if matches!(outcome, KernelOutcome::Failed(..)) {
                space.remove(number);
            }
            Some(Interrupt::KernelCompiled { space: id, kernel: KernelNumber(number), outcome })
        })
        .collect()
    }
}
