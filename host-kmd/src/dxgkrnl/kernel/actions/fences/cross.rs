// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences that several guests share.

use crate::dxgkrnl::fence::cross::current_value;
use crate::dxgkrnl::fence::state::{EVERY_SIGNAL, FenceState};
use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::memory::process_bar::Placed;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::hardware::{FenceStorage, SlotValue};
use crate::port::{CrossFenceId, SharingGroups};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{FenceFlags, NativeFenceType};

impl ProcessAccess<'_> {
    /// Creates a fence that other guests may have. Source: native GPU fence object, "Cross-adapter native fences":
    /// "must be created with type D3DDDI_NATIVEFENCE_TYPE_DEFAULT, otherwise D3DKMTCreateNativeFence fails."
    pub(crate) fn create_cross_fence(
        &mut self,
        device: Handle,
        kind: FenceKind,
        flags: FenceFlags,
        initial_value: u64,
    ) -> Result<Handle, RequestError> {
        if let FenceKind::Native(fence_type) = kind
            && fence_type != NativeFenceType::DEFAULT
        {
            return Err(RequestError::parameter("fence_type", fence_type.0.into()));
        }
        // No guest could tell which of two signals came last, so a lower value has no effect on such a fence.
        if !flags.contains(FenceFlags::SHARED) || flags.contains(FenceFlags::REWINDABLE) {
            return Err(RequestError::parameter("flags", flags.bits().into()));
        }
        let groups = self.guest.resources.sharing;
        if groups == SharingGroups::NONE {
            return Err(RequestError::NotSupported(
                "a cross-adapter fence of a guest that the host's [fence_sharing] does not name",
            ));
        }
        self.guest.quotas.charge(Limited::CrossAdapterFences, 1)?;
        let created = self.cross_fences.create(self.guest_id, groups);
        let cross =
            created.inspect_err(|_| self.guest.quotas.refund(Limited::CrossAdapterFences, 1))?;
        self.insert_view(cross, device, kind, Some(initial_value))
    }

    /// Opens another guest's fence by its name: "as a NativeFence" or "as a regular MonitoredFence", regardless of
    /// how it was created.
    pub(crate) fn open_cross_fence(
        &mut self,
        device: Handle,
        name: u64,
    ) -> Result<Handle, RequestError> {
        let groups = self.guest.resources.sharing;
        // A fence that the guest may not have is refused like an unknown name.
        let found = self.cross_fences.find(name, groups);
        let cross = found.ok_or(RequestError::parameter("nt_handle", name))?;
        self.guest.quotas.charge(Limited::CrossAdapterFences, 1)?;
        self.cross_fences.join(cross, self.guest_id, groups);
        let kind = if self.guest.has_native_fences() {
            FenceKind::Native(NativeFenceType::DEFAULT)
        } else {
            FenceKind::Monitored
        };
        let fence = self.insert_view(cross, device, kind, None)?;
        let slot = self.global_of(fence)?;
        self.guest.fences.set_name(slot, name);
        Ok(fence)
    }

    /// Creates this guest's view of a fence; the fence's books already name the guest. Returns the view's handle.
    /// Without an initial value, the fence keeps its value.
    fn insert_view(
        &mut self,
        cross: CrossFenceId,
        device: Handle,
        kind: FenceKind,
        initial_value: Option<u64>,
    ) -> Result<Handle, RequestError> {
        let current = current_value(cross);
        let slot =
            self.take_fence_slot(true, Some(current)).inspect_err(|_| self.leave_view(cross))?;
        self.place_in_own_bar(Placed::Fence(slot)).inspect_err(|_| {
            self.leave_fence_slot(slot);
            self.leave_view(cross);
        })?;
        let storage = FenceStorage { current, ..self.guest.fences.storage().of(slot, kind) };
        let created = self.create_global(slot, kind, storage, initial_value);
        let flags = FenceFlags::SHARED | FenceFlags::CROSS_ADAPTER;
        let fence = FenceState::new(kind, storage, flags).view_of(cross);
        self.guest.fences.add_global(slot, fence);
        self.guest.fences.add_view(cross, slot);
        let watched = created.and_then(|()| {
            if !storage.native {
                return Ok(());
            }
            // Set before the guest can name the fence, and permanently.
            let value = SlotValue { slot, value: EVERY_SIGNAL };
            self.miniport.update_monitored_values(self.guest_id, &[value])
        });
        let opened = match watched {
            Ok(()) => self.open_global(slot, slot, Some(device)),
            Err(unknown) => Err(unknown.into()),
        };
        opened.inspect_err(|_| self.remove_global(slot))
    }
}
