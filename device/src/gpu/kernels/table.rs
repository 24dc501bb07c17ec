// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernels of address spaces, as engines see them.

use super::module::Module;
use crate::allowance::Allowance;
use arc_swap::ArcSwap;
use bellhop_host_kmd::hardware::{AddressSpaceId, GuestId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What all address spaces of a guest share.
#[derive(Debug)]
pub struct GuestKernels {
    /// The guest.
    pub id: GuestId,
    /// The workers that may be started for it, and for the other guests of its socket.
    pub starts: Arc<Allowance>,
    /// How many requests for a worker wait until the guest has fewer workers.
    waiting: AtomicU32,
}

impl GuestKernels {
    /// A guest without kernels.
    pub fn new(id: GuestId, starts: Arc<Allowance>) -> Self {
        Self { id, starts, waiting: AtomicU32::new(0) }
    }

    /// Manager: sets how many requests wait until the guest has fewer workers. Relaxed: it hands nothing over, and an
    /// engine may see it late.
    pub fn set_waiting(&self, requests: u32) {
        self.waiting.store(requests, Ordering::Relaxed);
    }

    /// Engine: whether a request waits until the guest has fewer workers.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// The kernels of an address space.
#[derive(Debug)]
pub struct KernelSpace {
    /// The address space.
    pub id: AddressSpaceId,
    /// Its guest.
    pub guest: Arc<GuestKernels>,
    /// Replaced as a whole. `ArcSwap` hands the content over.
    kernels: ArcSwap<HashMap<u32, Arc<Module>>>,
    has_ended: AtomicBool,
}

impl KernelSpace {
    /// An address space without kernels.
    pub fn new(id: AddressSpaceId, guest: Arc<GuestKernels>) -> Self {
        Self { id, guest, kernels: ArcSwap::default(), has_ended: AtomicBool::new(false) }
    }

    /// Engine: a kernel that was compiled, by its number.
    pub fn compiled(&self, number: u32) -> Option<Arc<Module>> {
        self.kernels.load().get(&number).filter(|module| module.is_compiled()).cloned()
    }

    /// Control plane: adds a kernel, which engines find once it is compiled.
    pub fn add(&self, number: u32, module: Arc<Module>) {
        let mut kernels = HashMap::clone(&self.kernels.load());
        kernels.insert(number, module);
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
    pub fn all(&self) -> BTreeMap<u32, Arc<Module>> {
        self.kernels.load().iter().map(|(number, module)| (*number, Arc::clone(module))).collect()
    }

    /// Control plane: the number of kernels.
    pub fn len(&self) -> usize {
        self.kernels.load().len()
    }

    /// Control plane: the address space is about to be destroyed. Relaxed: the order or the ticket that follows hands
    /// it over.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether the address space is destroyed.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}
