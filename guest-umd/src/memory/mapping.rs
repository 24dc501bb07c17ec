// SPDX-License-Identifier: MIT OR Apache-2.0

//! GPU virtual addresses of an allocation.

use crate::error::Error;
use crate::memory::allocation::Allocation;
use bellhop_protocol::control::gpu_va::{FreeGpuVirtualAddress, MapGpuVirtualAddress, Protection};
use std::sync::Arc;

impl Allocation {
    /// Maps all of the allocation at addresses that the host chooses (`D3DKMTMapGpuVirtualAddress`).
    ///
    /// # Errors
    /// As [`Self::map_at`].
    pub fn map(self: &Arc<Self>, protection: Protection) -> Result<GpuMapping, Error> {
        self.map_at(0, 0, self.size(), protection)
    }

    /// Maps `size` bytes of the allocation, from byte `offset` on, at GPU virtual address `base`; 0 lets the host
    /// choose. All are multiples of the page size.
    ///
    /// # Errors
    /// [`Error::Refused`] if the addresses are taken, or the range lies outside the allocation.
    pub fn map_at(
        self: &Arc<Self>,
        base: u64,
        offset: u64,
        size: u64,
        protection: Protection,
    ) -> Result<GpuMapping, Error> {
        let request = MapGpuVirtualAddress {
            allocation: self.handle(),
            base,
            offset,
            size,
            protection: protection.bits(),
            reserved: 0,
        };
        let gpu_va = self.device().session().call(&request)?.gpu_va;
        Ok(GpuMapping { allocation: Arc::clone(self), gpu_va, size })
    }
}

/// The GPU virtual addresses of a mapped allocation. Freed on drop.
pub struct GpuMapping {
    allocation: Arc<Allocation>,
    gpu_va: u64,
    size: u64,
}

impl GpuMapping {
    /// GPU virtual address of the first byte.
    #[must_use]
    pub fn gpu_va(&self) -> u64 {
        self.gpu_va
    }

    /// Number of mapped bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The mapped allocation.
    #[must_use]
    pub fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }
}

impl Drop for GpuMapping {
    fn drop(&mut self) {
        let request = FreeGpuVirtualAddress { gpu_va: self.gpu_va, size: self.size };
        // An unreachable device has already forgotten it.
        let _ = self.allocation.device().session().call(&request);
    }
}
