// SPDX-License-Identifier: MIT OR Apache-2.0

//! GPU virtual addresses that a process reserves first and maps later.

use crate::device::Device;
use crate::error::Error;
use crate::memory::allocation::Allocation;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, Protection, ReserveGpuVirtualAddress, UpdateGpuVirtualAddress,
};

impl Device {
    /// Reserves `size` GPU virtual addresses from `base` on (`D3DKMTReserveGpuVirtualAddress`); 0 lets the host
    /// choose. Both are multiples of the page size.
    ///
    /// # Errors
    /// [`Error::Refused`] if they are taken.
    pub fn reserve(&self, base: u64, size: u64) -> Result<Reservation, Error> {
        let gpu_va = self.session().call(&ReserveGpuVirtualAddress { base, size })?.gpu_va;
        Ok(Reservation { device: self.clone(), gpu_va, size })
    }
}

/// Reserved addresses, to which a program maps paged allocations part by part. Freed on drop, with everything
/// mapped there.
pub struct Reservation {
    device: Device,
    gpu_va: u64,
    size: u64,
}

impl Reservation {
    /// The first address.
    #[must_use]
    pub fn gpu_va(&self) -> u64 {
        self.gpu_va
    }

    /// Number of addresses, one per byte.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Maps `size` bytes of an allocation, from byte `offset` on, to the addresses from byte `at` of the
    /// reservation on (`D3DKMTUpdateGpuVirtualAddress`). All are multiples of the page size. Replaces the previous
    /// mapping. Dropping the allocation unmaps it.
    ///
    /// # Errors
    /// [`Error::Refused`] if the addresses or the bytes are out of range, or the allocation is not paged.
    pub fn map(
        &self,
        at: u64,
        allocation: &Allocation,
        offset: u64,
        size: u64,
        protection: Protection,
    ) -> Result<(), Error> {
        self.update(at, size, allocation.handle(), offset, protection.bits())
    }

    /// Unmaps `size` addresses from byte `at` of the reservation on.
    ///
    /// # Errors
    /// [`Error::Refused`] if they are out of range.
    pub fn unmap(&self, at: u64, size: u64) -> Result<(), Error> {
        self.update(at, size, Handle(0), 0, 0)
    }

    fn update(
        &self,
        at: u64,
        size: u64,
        allocation: Handle,
        offset: u64,
        protection: u32,
    ) -> Result<(), Error> {
        let gpu_va = self.gpu_va.saturating_add(at);
        let request =
            UpdateGpuVirtualAddress { gpu_va, size, allocation, offset, protection, reserved: 0 };
        self.device.session().call(&request)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // An unreachable device has already forgotten it.
        let request = FreeGpuVirtualAddress { gpu_va: self.gpu_va, size: self.size };
        let _ = self.device.session().call(&request);
    }
}
