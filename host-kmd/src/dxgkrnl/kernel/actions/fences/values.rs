// SPDX-License-Identifier: MIT OR Apache-2.0

//! The values of fences: who may read and signal them.
//!
//! Source: native GPU fence object, "Synchronization issues".

use crate::dxgkrnl::fence::state::{FenceState, NativeFence};
use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::GlobalFence as FenceId;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{MAX_FENCE_LIST, NativeFenceType};

/// Refuses a list that is too short or too long.
pub(crate) fn check_count(count: u32) -> Result<(), RequestError> {
    match count {
        1..=MAX_FENCE_LIST => Ok(()),
        count => Err(RequestError::parameter("count", count.into())),
    }
}

impl ProcessAccess<'_> {
    /// The slot of the global fence that a handle of the process names.
    pub(crate) fn global_of(&self, handle: Handle) -> Result<u32, RequestError> {
        self.get::<NativeFence>(handle).map(|fence| fence.global)
    }

    /// The global fence in a slot that a handle names.
    pub(crate) fn global_mut(&mut self, slot: u32) -> Result<&mut FenceState, RequestError> {
        let fence = self.guest.fences.get_mut(slot);
        fence.ok_or(RequestError::parameter("fence slot", slot.into()))
    }

    /// `hGlobalNativeFence`
    pub(crate) fn fence_id(&self, slot: u32) -> FenceId {
        FenceId { guest: self.guest_id, slot }
    }

    /// Refuses a request that needs native fences if the guest has none.
    pub(crate) fn check_native_fences(&self) -> Result<(), RequestError> {
        if self.guest.has_native_fences() {
            Ok(())
        } else {
            Err(RequestError::NotSupported("native fences"))
        }
    }

    /// The slot of a global fence that CPUs may wait for and signal.
    pub(crate) fn cpu_fence(&mut self, handle: Handle) -> Result<u32, RequestError> {
        let slot = self.global_of(handle)?;
        match self.global_mut(slot)?.kind() {
            FenceKind::Native(NativeFenceType::INTRA_GPU) => {
                Err(RequestError::NotSupported("a CPU waiting for or signaling an intra-GPU fence"))
            }
            _ => Ok(slot),
        }
    }

    /// The value of the fence in a slot.
    pub(crate) fn current_value(&self, slot: u32) -> u64 {
        self.guest.fences.current_value(self.platform, self.guest_id, slot)
    }
}
