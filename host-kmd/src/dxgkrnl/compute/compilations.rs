// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that the hardware compiles, each with the request that waits for it.
//!
//! A kernel has no handle before it is compiled, so nobody can name half a kernel. It is charged for from the beginning.

use crate::dxgkrnl::object::promises::Promise;
use crate::hardware::{AddressSpaceId, GuestId, KernelNumber};
use bellhop_protocol::control::Handle;
use std::collections::BTreeMap;

/// A kernel that the hardware compiles.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Compilation {
    /// The guest.
    pub(crate) guest: GuestId,
    /// The process.
    pub(crate) process: u32,
    /// The device that will own the kernel.
    pub(crate) device: Handle,
    /// The request that is answered at the end.
    pub(crate) promise: Promise,
}

/// All kernels that the hardware compiles, for all guests.
#[derive(Debug, Default)]
pub(crate) struct Compilations(BTreeMap<(AddressSpaceId, KernelNumber), Compilation>);

impl Compilations {
    /// The hardware began to compile a kernel.
    pub(crate) fn begin(
        &mut self,
        space: AddressSpaceId,
        kernel: KernelNumber,
        compilation: Compilation,
    ) {
        if let Some(before) = self.0.insert((space, kernel), compilation) {
            tracing::error!(?space, ?kernel, ?before, "the hardware used a kernel's number twice");
        }
    }

    /// The hardware is done with a kernel. `None` if nobody waits for it any more.
    pub(crate) fn end(
        &mut self,
        space: AddressSpaceId,
        kernel: KernelNumber,
    ) -> Option<Compilation> {
        self.0.remove(&(space, kernel))
    }

    /// Takes the compilations of a device, which ends.
    pub(crate) fn take_of(
        &mut self,
        space: AddressSpaceId,
        device: Handle,
    ) -> Vec<(KernelNumber, Compilation)> {
        let of_space = (space, KernelNumber(0))..=(space, KernelNumber(u32::MAX));
        self.0
            .extract_if(of_space, |_, compilation| compilation.device == device)
            .map(|((_, kernel), compilation)| (kernel, compilation))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compilation(device: u64, number: u64) -> Compilation {
        let (guest, device, promise) = (GuestId(1), Handle(device), Promise::numbered(number));
        Compilation { guest, process: 2, device, promise }
    }

    #[test]
    fn a_device_takes_its_own_compilations_and_each_ends_once() {
        let mut all = Compilations::default();
        let (space, other) = (AddressSpaceId(3), AddressSpaceId(4));
        all.begin(space, KernelNumber(1), compilation(7, 10));
        all.begin(space, KernelNumber(2), compilation(8, 11));
        all.begin(space, KernelNumber(3), compilation(7, 12));
        // Handles are unique in a guest only.
        all.begin(other, KernelNumber(1), compilation(7, 13));
        assert_eq!(all.end(space, KernelNumber(3)), Some(compilation(7, 12)));
        assert_eq!(all.end(space, KernelNumber(3)), None);
        assert_eq!(all.take_of(space, Handle(7)), [(KernelNumber(1), compilation(7, 10))]);
        assert_eq!(all.end(space, KernelNumber(1)), None);
        assert_eq!(all.end(space, KernelNumber(2)), Some(compilation(8, 11)));
        assert_eq!(all.end(other, KernelNumber(1)), Some(compilation(7, 13)));
    }
}
