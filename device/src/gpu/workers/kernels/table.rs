// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernels of address spaces, as engines see them.

use super::kernel::Kernel;
use super::module::Module;
use crate::gpu::workers::tenant::{GuestWorkers, Tenant, TenantId};
use arc_swap::ArcSwap;
use bellhop_host_kmd::hardware::AddressSpaceId;
use bellhop_worker::owner::Role;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The kernels of an address space.
#[derive(Debug)]
pub struct KernelSpace {
    /// The address space, as workers have it.
    pub tenant: Arc<Tenant>,
    /// Replaced as a whole. `ArcSwap` hands the content over.
    kernels: ArcSwap<HashMap<u32, Arc<Kernel>>>,
}

impl KernelSpace {
    /// An address space without kernels.
    pub fn new(id: AddressSpaceId, guest: Arc<GuestWorkers>) -> Self {
        let number = TenantId { role: Role::Kernels, number: id.0 };
        Self { tenant: Arc::new(Tenant::new(number, id, guest)), kernels: ArcSwap::default() }
    }

    /// The address space.
    pub fn id(&self) -> AddressSpaceId {
        self.tenant.space
    }

    /// Engine: a kernel that was compiled, by its number.
    pub fn compiled(&self, number: u32) -> Option<Arc<Module>> {
        self.kernels.load().get(&number).and_then(|kernel| kernel.compiled().cloned())
    }

    /// Manager: a kernel, by its number.
    pub fn kernel(&self, number: u32) -> Option<Arc<Kernel>> {
        self.kernels.load().get(&number).cloned()
    }

    /// Control plane: adds a kernel, which engines find once it is compiled.
    pub fn add(&self, number: u32, kernel: Kernel) {
        let mut kernels = HashMap::clone(&self.kernels.load());
        kernels.insert(number, Arc::new(kernel));
        self.kernels.store(Arc::new(kernels));
    }

    /// Control plane: removes a kernel. Returns false if there is none of this number.
    pub fn remove(&self, number: u32) -> bool {
        let mut kernels = HashMap::clone(&self.kernels.load());
        let was_there = kernels.remove(&number).is_some();
        self.kernels.store(Arc::new(kernels));
        was_there
    }

    /// Control plane: whether there is a kernel of this number, compiled or not.
    pub fn contains(&self, number: u32) -> bool {
        self.kernels.load().contains_key(&number)
    }

    /// Any thread: the kernels, by number.
    pub fn all(&self) -> BTreeMap<u32, Arc<Kernel>> {
        self.kernels.load().iter().map(|(number, kernel)| (*number, Arc::clone(kernel))).collect()
    }

    /// Control plane: the number of kernels.
    pub fn len(&self) -> usize {
        self.kernels.load().len()
    }
}
