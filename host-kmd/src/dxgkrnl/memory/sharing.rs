// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations that processes of a guest share, and the names for opening them.

use crate::ddi::paging::AllocationId;
use crate::dxgkrnl::object::names::Namer;
use bellhop_protocol::control::Handle;
use std::collections::BTreeMap;

/// An allocation that was created for sharing.
#[derive(Debug, Default)]
struct Shared {
    name: Option<u64>,
    /// The handle of each process that has it.
    handles: BTreeMap<u32, Handle>,
}

/// All shared allocations of a guest.
#[derive(Debug, Default)]
pub(crate) struct SharedAllocations {
    shared: BTreeMap<AllocationId, Shared>,
    names: BTreeMap<u64, AllocationId>,
    namer: Namer,
}

impl SharedAllocations {
    /// Whether nothing is shared.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.names.is_empty()
    }

    /// Adds a process that has an allocation, with its handle.
    pub(crate) fn insert(&mut self, id: AllocationId, process: u32, handle: Handle) {
        self.shared.entry(id).or_default().handles.insert(process, handle);
    }

    /// The allocation with a name.
    pub(crate) fn with_name(&self, name: u64) -> Option<AllocationId> {
        self.names.get(&name).copied()
    }

    /// The handle of a process that has an allocation.
    pub(crate) fn handle_of(&self, id: AllocationId, process: u32) -> Option<Handle> {
        self.shared.get(&id)?.handles.get(&process).copied()
    }

    /// A process that has an allocation, and its handle.
    pub(crate) fn any_handle(&self, id: AllocationId) -> Option<(u32, Handle)> {
        let (process, handle) = self.shared.get(&id)?.handles.first_key_value()?;
        Some((*process, *handle))
    }

    /// Number of processes that have an allocation created for sharing; 0 for any other.
    pub(crate) fn count(&self, id: AllocationId) -> u64 {
        self.shared.get(&id).map_or(0, |shared| shared.handles.len() as u64)
    }

    /// Removes a process that had an allocation. Returns whether others have it.
    pub(crate) fn leave(&mut self, id: AllocationId, process: u32) -> bool {
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
    pub(crate) fn name(&mut self, id: AllocationId) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const ID: AllocationId = AllocationId(7);

    #[test]
    fn a_name_goes_with_the_last_process_that_has_the_allocation() {
        let mut shared = SharedAllocations::default();
        shared.insert(ID, 1, Handle(11));
        shared.insert(ID, 2, Handle(12));
        let name = shared.name(ID).unwrap();
        assert_eq!(shared.name(ID), Some(name));
        assert_eq!(shared.with_name(name), Some(ID));
        assert_eq!((shared.count(ID), shared.handle_of(ID, 2)), (2, Some(Handle(12))));
        assert!(shared.leave(ID, 1));
        assert_eq!(shared.any_handle(ID), Some((2, Handle(12))));
        assert!(!shared.leave(ID, 2));
        assert_eq!(shared.with_name(name), None);
        assert!(shared.is_empty());
    }
}
