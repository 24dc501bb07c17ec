//! Sharing: allocations that processes of a guest have together, and the names that they are opened by.
//!
//! Each process has an object of its own, with its handle, devices and mappings. What they have together
//! is what VidMm knows: the bytes, wherever they are. The last process to close it destroys it.

use super::allocation::{Allocation, Content};
use super::device::Device;
use super::error::RequestError;
use super::request::{Answer, Handled};
use super::scope::Scope;
use crate::ddi::paging::{APERTURE_START, AllocationId};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    OpenAllocation, OpenSharedAllocation, OpenedAllocation, ShareAllocation,
};
use bellhop_protocol::control::fence::NtHandle;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Makes names that cannot be guessed.
#[derive(Debug, Default)]
pub(super) struct Namer {
    state: RandomState,
    /// How many names there were.
    named: u64,
}

impl Namer {
    /// A name, not 0, that is not taken. Far fewer than there are numbers may be.
    pub(super) fn next(&mut self, is_taken: impl Fn(u64) -> bool) -> u64 {
        loop {
            self.named += 1;
            let name = self.state.hash_one(self.named);
            if name != 0 && !is_taken(name) {
                return name;
            }
        }
    }
}

/// An allocation that was created for sharing.
#[derive(Debug, Default)]
struct Shared {
    name: Option<u64>,
    /// The handle of each process that has it.
    handles: BTreeMap<u32, Handle>,
}

/// All of a guest's.
#[derive(Debug, Default)]
pub(super) struct SharedAllocations {
    shared: BTreeMap<AllocationId, Shared>,
    names: BTreeMap<u64, AllocationId>,
    namer: Namer,
}

impl SharedAllocations {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.names.is_empty()
    }

    /// A process has an allocation, by this handle.
    pub(super) fn insert(&mut self, id: AllocationId, process: u32, handle: Handle) {
        self.shared.entry(id).or_default().handles.insert(process, handle);
    }

    /// How many processes have an allocation that was created for sharing; none have another.
    pub(super) fn count(&self, id: AllocationId) -> u64 {
        self.shared.get(&id).map_or(0, |shared| shared.handles.len() as u64)
    }

    /// A process has an allocation no more. Whether others do.
    pub(super) fn leave(&mut self, id: AllocationId, process: u32) -> bool {
        let Some(shared) = self.shared.get_mut(&id) else { return false };
        shared.handles.remove(&process);
        if !shared.handles.is_empty() {
            return true;
        }
        if let Some(name) = self.shared.remove(&id).and_then(|shared| shared.name) {
            self.names.remove(&name);
        }
        false
    }

    /// The name of an allocation that was created for sharing.
    fn name(&mut self, id: AllocationId) -> Option<u64> {
        let Self { shared, names, namer } = self;
        let shared = shared.get_mut(&id)?;
        let name = shared.name.get_or_insert_with(|| {
            let name = namer.next(|name| names.contains_key(&name));
            names.insert(name, id);
            name
        });
        Some(*name)
    }
}

impl Scope<'_> {
    /// `D3DKMTShareObjects`.
    pub(super) fn share_allocation(&mut self, request: ShareAllocation) -> Handled<NtHandle> {
        let id = self.get::<Allocation>(request.allocation)?.paged();
        let name = id.and_then(|id| self.guest.shared_allocations.name(id));
        let why = "sharing an allocation that was not created for it";
        name.map(|name| Answer::Done(NtHandle(name))).ok_or(RequestError::NotSupported(why))
    }

    /// `D3DKMTOpenResourceFromNtHandle`.
    pub(super) fn open_shared_allocation(
        &mut self,
        request: OpenSharedAllocation,
    ) -> Handled<OpenedAllocation> {
        let OpenSharedAllocation { device, nt_handle: NtHandle(name) } = request;
        self.get::<Device>(device)?;
        let SharedAllocations { names, shared, .. } = &self.guest.shared_allocations;
        let unknown = RequestError::parameter("nt_handle", name);
        let id = *names.get(&name).ok_or(unknown.clone())?;
        let handles = shared.get(&id).map(|shared| &shared.handles).ok_or(unknown.clone())?;
        let allocation = match handles.get(&self.process_id).copied() {
            Some(allocation) => {
                self.open_allocation(OpenAllocation { device, allocation })?;
                allocation
            }
            None => {
                let (other, handle) = handles.first_key_value().ok_or(unknown)?;
                let original = self.guest.handles.get::<Allocation>(*other, *handle)?;
                let opened = original.open_elsewhere(id, device);
                self.insert_opened(id, device, opened)?
            }
        };
        let size = self.get::<Allocation>(allocation)?.size;
        Ok(Answer::Done(OpenedAllocation { allocation, size }))
    }

    /// The process has an allocation from now on that others have.
    fn insert_opened(
        &mut self,
        id: AllocationId,
        device: Handle,
        opened: Allocation,
    ) -> Result<Handle, RequestError> {
        let process = self.process_id;
        let handle = self.insert(opened)?;
        self.guest.vidmm.open(process, id)?;
        self.guest.shared_allocations.insert(id, process, handle);
        self.get_mut::<Device>(device)?.allocations.insert(handle);
        Ok(handle)
    }

    /// The process has an allocation no more that others have: its own mappings go, the bytes stay.
    pub(super) fn leave_shared_allocation(
        &mut self,
        id: AllocationId,
        allocation: &Allocation,
    ) -> Result<(), RequestError> {
        let space = self.process()?.space;
        for start in &allocation.mappings {
            self.guest.vidmm.unmap(id, space, *start)?;
        }
        if let Some(range) = allocation.aperture {
            let system = self.guest.system?.address_space;
            self.guest.vidmm.unmap(id, system, APERTURE_START + range.start)?;
        }
        Ok(self.guest.vidmm.leave_to_others(self.process_id, id)?)
    }
}

impl Allocation {
    /// The same bytes to another process, on this device of its.
    fn open_elsewhere(&self, id: AllocationId, device: Handle) -> Self {
        Self::new(device, self.size, Content::Paged(id), self.driver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_names_are_the_same_and_none_is_0() {
        let mut namer = Namer::default();
        let mut names = BTreeSet::new();
        for _ in 0..1000 {
            let name = namer.next(|name| names.contains(&name));
            assert!(name != 0 && names.insert(name));
        }
        // Another guest's are others.
        let other = Namer::default().next(|_| false);
        assert!(!names.contains(&other));
    }
}
