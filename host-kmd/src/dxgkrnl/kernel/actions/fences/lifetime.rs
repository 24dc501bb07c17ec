// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fence from its creation to its end.
//!
//! A *global* fence has values, and waits for them. A process opens it once, regardless of how many handles it has:
//! that is the *local* fence, with a slot that the process's packets name. A fence that several guests share is a
//! global fence in each of them: see `cross`.
//!
//! Source: native GPU fence object, "Global and local handles for shared fences".

use crate::ddi;
use crate::ddi::SystemProcessGpuVas;
use crate::dxgkrnl::fence::pages::page_of;
use crate::dxgkrnl::fence::state::{FenceState, NativeFence};
use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::memory::process_bar::Placed;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::{FenceStorage, UnknownId};
use crate::port::CrossFenceId;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{
    FenceFlags, NOT_PUBLISHED, NativeFenceMapping, OpenedFence,
};
use bellhop_protocol::handoff::fence::SignalRule;

impl ProcessAccess<'_> {
    /// Opens a fence of the guest in this process.
    pub(crate) fn open_own_fence(
        &mut self,
        global: u32,
        device: Handle,
    ) -> Result<Handle, RequestError> {
        let process = self.process_id;
        match self.global_mut(global)?.slot_of(process) {
            Some(_) => self.insert_fence_handle(global, Some(device)),
            None => {
                let slot = self.take_fence_slot(false, None)?;
                self.open_global(global, slot, Some(device))
                    .inspect_err(|_| self.leave_fence_slot(slot))
            }
        }
    }

    /// Creates a fence and returns its handle.
    pub(crate) fn insert_fence(
        &mut self,
        device: Option<Handle>,
        kind: FenceKind,
        flags: FenceFlags,
        initial_value: u64,
    ) -> Result<Handle, RequestError> {
        let slot = self.take_fence_slot(flags.contains(FenceFlags::SHARED), None)?;
        self.place_in_own_bar(Placed::Fence(slot)).inspect_err(|_| self.leave_fence_slot(slot))?;
        let rule = if flags.contains(FenceFlags::REWINDABLE) {
            SignalRule::Rewindable
        } else {
            SignalRule::Monotonic
        };
        let storage = FenceStorage { rule, ..self.guest.fences.storage().of(slot, kind) };
        self.create_global(slot, kind, storage, Some(initial_value))
            .inspect_err(|_| self.leave_fence_slot(slot))?;
        let fence = FenceState::new(kind, storage, flags);
        let fence = if device.is_none() { fence.of_queue() } else { fence };
        self.guest.fences.add_global(slot, fence);
        self.open_global(slot, slot, device).inspect_err(|_| self.remove_global(slot))
    }

    /// Makes the driver create a global fence. Without an initial value, another guest has set its value.
    pub(crate) fn create_global(
        &mut self,
        slot: u32,
        kind: FenceKind,
        storage: FenceStorage,
        initial_value: Option<u64>,
    ) -> Result<(), UnknownId> {
        let fence = self.fence_id(slot);
        if kind == FenceKind::Monitored {
            return self.miniport.create_monitored_fence(fence, storage, initial_value);
        }
        let [current_value, monitored_value] =
            self.guest.fences.storage().value_vas(slot, &storage);
        let system_process = self
            .maps_to_system_process()
            .then_some(SystemProcessGpuVas { current_value, monitored_value });
        self.miniport.create_native_fence(ddi::CreateNativeFence {
            fence,
            storage,
            initial_value,
            system_process,
        })
    }

    /// Opens a global fence in this process, under a slot of the process. The process must not have opened it.
    pub(crate) fn open_global(
        &mut self,
        global: u32,
        slot: u32,
        device: Option<Handle>,
    ) -> Result<Handle, RequestError> {
        let space = self.process()?.space();
        if slot != global {
            // The fence is in a page of another process.
            let current = self.global_mut(global)?.storage().current;
            self.map_fence_page(page_of(global), Some(current))?;
            self.guest.fences.add_local(slot, global);
        }
        let process = self.process_id;
        let fence = self.global_mut(global)?;
        if slot == global {
            fence.set_parent(process, device);
        }
        fence.open(process, slot);
        let kind = fence.kind();
        let id = self.fence_id(global);
        let opened = match kind {
            FenceKind::Native(_) => self.miniport.open_native_fence(id, slot, space),
            FenceKind::Monitored => self.miniport.open_monitored_fence(id, slot, space),
        };
        if let Err(unknown) = opened {
            self.close_local(global);
            return Err(unknown.into());
        }
        self.insert_fence_handle(global, device).inspect_err(|_| {
            self.close_local(global);
        })
    }

    /// Adds a handle in a process that has opened the fence.
    fn insert_fence_handle(
        &mut self,
        global: u32,
        device: Option<Handle>,
    ) -> Result<Handle, RequestError> {
        let handle = self.insert(NativeFence { global, device })?;
        let process = self.process_id;
        self.global_mut(global)?.add_handle(process);
        if let Some(device) = device {
            self.get_mut::<Device>(device)?.add_fence(handle);
        }
        Ok(handle)
    }

    /// The reply for a fence that the process opened.
    pub(crate) fn opened_fence(&mut self, handle: Handle) -> Result<OpenedFence, RequestError> {
        let (process, global) = (self.process_id, self.global_of(handle)?);
        let fence = self.global_mut(global)?;
        let storage = fence.storage();
        let slot = fence.slot_of(process).ok_or(RequestError::InvalidHandle(handle))?;
        let vas = self.guest.fences.storage().value_vas(global, &storage);
        let [current_value_gpu_va, monitored_value_gpu_va] =
            if storage.native { vas } else { [vas[0], 0] };
        let current_value_offset =
            if storage.published { self.published_offset(global)? } else { NOT_PUBLISHED };
        let mapping = NativeFenceMapping {
            current_value_offset,
            current_value_gpu_va,
            monitored_value_gpu_va,
        };
        Ok(OpenedFence { fence: handle, mapping, slot, reserved: 0 })
    }

    /// Whether the fence was created on this device of this process, and not by another guest.
    pub(crate) fn is_parent_of(&mut self, device: Handle, fence: Handle) -> bool {
        let process = self.process_id;
        let Ok(slot) = self.global_of(fence) else { return false };
        let Ok(state) = self.global_mut(slot) else { return false };
        let (is_parent, cross) = (state.is_child_of(process, device), state.cross());
        is_parent && cross.is_none_or(|cross| self.cross_fences.is_creator(cross, self.guest_id))
    }

    /// Removes a handle to a fence. The last handle closes the fence in the process, and the last process destroys
    /// it.
    pub(crate) fn remove_fence(&mut self, handle: Handle) -> Result<(), RequestError> {
        let NativeFence { global, device } = self.remove::<NativeFence>(handle)?;
        // A device that is destroyed with its fences is already gone.
        if let Some(device) = device
            && let Ok(device) = self.get_mut::<Device>(device)
        {
            device.remove_fence(handle);
        }
        let process = self.process_id;
        if self.global_mut(global)?.drop_handle(process) {
            return Ok(());
        }
        self.with_signals(|signals| signals.lose_waits(process, global))?;
        if let Some(slot) = self.close_local(global)
            && slot != global
        {
            self.leave_fence_slot(slot);
        }
        if !self.global_mut(global)?.is_open() {
            self.remove_global(global);
        }
        Ok(())
    }

    /// Closes a fence in this process. Returns the slot that the process had for it.
    fn close_local(&mut self, global: u32) -> Option<u32> {
        let process = self.process_id;
        let fence = self.guest.fences.get_mut(global)?;
        let slot = fence.close(process)?;
        let others_have_it = fence.is_open();
        match fence.kind() {
            FenceKind::Native(_) => self.miniport.close_native_fence(self.fence_id(global), slot),
            FenceKind::Monitored => {
                self.miniport.close_monitored_fence(self.fence_id(global), slot);
            }
        }
        self.guest.fences.remove_local(slot);
        if others_have_it {
            // A fence that other processes have is alone in its page, which stays.
            self.unmap_fence_page(page_of(global));
            if self.guest.fences.has_optimized_interrupt() {
                // A log may still report a signal under this slot.
                self.give_up(Resource::FenceName(global));
            }
        }
        Some(slot)
    }

    /// Destroys a fence that no process has opened.
    pub(crate) fn remove_global(&mut self, global: u32) {
        let Some(fence) = self.guest.fences.remove_global(global) else { return };
        if fence.storage().native {
            self.miniport.destroy_native_fence(self.fence_id(global));
        }
        self.leave_fence_slot(global);
        if let Some(cross) = fence.cross() {
            self.leave_view(cross);
        }
    }

    /// Removes the view of a fence; engines may still know it until it is retired.
    pub(crate) fn leave_view(&mut self, cross: CrossFenceId) {
        self.guest.fences.remove_view(cross);
        self.cross_fences.leave(cross, self.guest_id);
        self.give_up(Resource::CrossFence(cross));
    }
}
