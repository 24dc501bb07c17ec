//! GPU virtual addresses that are taken first and mapped later.

use crate::allocation::Allocation;
use crate::device::Device;
use crate::error::Error;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, Protection, ReserveGpuVirtualAddress, UpdateGpuVirtualAddress,
};

/// Addresses that paged allocations are mapped to, part by part. Freed when dropped, with all that is
/// mapped there.
pub struct Reservation {
    device: Device,
    gpu_va: u64,
    size: u64,
}

impl Reservation {
    pub(crate) fn new(device: Device, base: u64, size: u64) -> Result<Self, Error> {
        let gpu_va = device.session().call(&ReserveGpuVirtualAddress { base, size })?.gpu_va;
        Ok(Self { device, gpu_va, size })
    }

    /// The first of them.
    #[must_use]
    pub fn gpu_va(&self) -> u64 {
        self.gpu_va
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Maps `size` addresses from the reservation's byte `at` to an allocation's bytes from `offset`
    /// (`D3DKMTUpdateGpuVirtualAddress`); all in bytes and multiples of the page size. What was mapped
    /// there is not any more. The allocation must live as long as it is mapped: it takes its mappings
    /// with it.
    ///
    /// # Errors
    /// When the addresses lie outside, or the allocation is not paged.
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

    /// Maps addresses to nothing.
    ///
    /// # Errors
    /// When they lie outside.
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
        // A device that cannot be reached has forgotten it already.
        let request = FreeGpuVirtualAddress { gpu_va: self.gpu_va, size: self.size };
        let _ = self.device.session().call(&request);
    }
}
