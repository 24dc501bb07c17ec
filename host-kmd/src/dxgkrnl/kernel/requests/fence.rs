// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests that create, share, open and destroy fences, native and monitored. Monitored fences work without native
//! ones.
//!
//! Source: native GPU fence object, "Global and local handles for shared fences".

use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::fence::{
    CreateMonitoredFence, CreateNativeFence, DestroyNativeFence, FenceFlags, NativeFenceType,
    NtHandle, OpenNativeFence, OpenedFence, ShareNativeFence,
};

impl ProcessAccess<'_> {
    /// `D3DKMTCreateNativeFence`.
    pub(crate) fn create_native_fence(
        &mut self,
        request: CreateNativeFence,
    ) -> Handled<OpenedFence> {
        self.check_native_fences()?;
        self.get::<Device>(request.device)?;
        if request.fence_type.name().is_none() {
            return Err(RequestError::parameter("fence_type", request.fence_type.0.into()));
        }
        let os = self.guest.fences.native().map(|native| native.os).unwrap_or_default();
        if request.fence_type == NativeFenceType::INTRA_GPU && !os.intra_gpu_fence_type {
            return Err(RequestError::NotSupported("intra-GPU fences"));
        }
        let flags = FenceFlags::from_bits(request.flags)
            .ok_or(RequestError::parameter("flags", request.flags.into()))?;
        let CreateNativeFence { device, initial_value, fence_type, .. } = request;
        let kind = FenceKind::Native(fence_type);
        let fence = if flags.contains(FenceFlags::CROSS_ADAPTER) {
            self.create_cross_fence(device, kind, flags, initial_value)?
        } else {
            self.insert_fence(Some(device), kind, flags, initial_value)?
        };
        self.opened_fence(fence).map(Answer::Done)
    }

    /// `D3DKMTCreateSynchronizationObject2` of a monitored fence.
    pub(crate) fn create_monitored_fence(
        &mut self,
        request: CreateMonitoredFence,
    ) -> Handled<OpenedFence> {
        zero("reserved", request.reserved)?;
        self.get::<Device>(request.device)?;
        let flags = FenceFlags::from_bits(request.flags)
            .ok_or(RequestError::parameter("flags", request.flags.into()))?;
        let CreateMonitoredFence { device, initial_value, .. } = request;
        let kind = FenceKind::Monitored;
        let fence = if flags.contains(FenceFlags::CROSS_ADAPTER) {
            self.create_cross_fence(device, kind, flags, initial_value)?
        } else {
            self.insert_fence(Some(device), kind, flags, initial_value)?
        };
        self.opened_fence(fence).map(Answer::Done)
    }

    /// `D3DKMTShareObjects`.
    pub(crate) fn share_native_fence(&mut self, request: ShareNativeFence) -> Handled<NtHandle> {
        let slot = self.global_of(request.fence)?;
        let fence = self.global_mut(slot)?;
        if !fence.is_shareable() {
            return Err(RequestError::NotSupported("sharing a fence that was not created for it"));
        }
        if let Some(name) = fence.name() {
            return Ok(Answer::Done(NtHandle(name)));
        }
        let name = match fence.cross() {
            Some(cross) => self.cross_fences.name(cross),
            None => self.guest.fences.new_name(),
        };
        self.guest.fences.set_name(slot, name);
        Ok(Answer::Done(NtHandle(name)))
    }

    /// `D3DKMTOpenNativeFenceFromNTHandle`.
    pub(crate) fn open_native_fence(&mut self, request: OpenNativeFence) -> Handled<OpenedFence> {
        self.get::<Device>(request.device)?;
        let NtHandle(name) = request.nt_handle;
        let fence = match self.guest.fences.with_name(name) {
            Some(global) => self.open_own_fence(global, request.device)?,
            None => self.open_cross_fence(request.device, name)?,
        };
        self.opened_fence(fence).map(Answer::Done)
    }

    /// `D3DKMTDestroySynchronizationObject`. A progress fence is destroyed only with its queue.
    pub(crate) fn destroy_native_fence(&mut self, request: DestroyNativeFence) -> Handled<()> {
        let slot = self.global_of(request.fence)?;
        if self.global_mut(slot)?.is_progress() {
            return Err(RequestError::Busy(request.fence));
        }
        self.remove_fence(request.fence)?;
        Ok(Answer::AfterQuiesce)
    }
}
