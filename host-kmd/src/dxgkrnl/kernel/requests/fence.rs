// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests that create, share, open and destroy fences, native and monitored. Monitored fences work without native
//! ones.
//!
//! A *global* fence has values, and waits for them. A process opens it once, regardless of how many handles it has:
//! that is the *local* fence, with a slot that the process's packets name. A fence that several guests share is a
//! global fence in each of them: see `cross_fences`.
//!
//! Source: native GPU fence object, "Global and local handles for shared fences".

use crate::ddi;
use crate::ddi::SystemProcessGpuVas;
use crate::ddi::paging::PageSize;
use crate::dxgkrnl::fence::pages::page_of;
use crate::dxgkrnl::fence::state::{FenceState, NativeFence};
use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::page_tables::invalidate_entries;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::{FenceStorage, GlobalFence as FenceId, PhysicalAddress, Pte, UnknownId};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{
    CreateMonitoredFence, CreateNativeFence, DestroyNativeFence, FenceFlags, NOT_PUBLISHED,
    NativeFenceMapping, NativeFenceType, NtHandle, OpenNativeFence, OpenedFence, ShareNativeFence,
};
use bellhop_protocol::features::Features;
use bellhop_protocol::handoff::fence::SignalRule;

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
    fn fence_id(&self, slot: u32) -> FenceId {
        FenceId { guest: self.guest_id, slot }
    }

    /// Refuses a request that needs native fences if the guest has none.
    pub(crate) fn check_native_fences(&self) -> Result<(), RequestError> {
        if self.has_native_fences() {
            Ok(())
        } else {
            Err(RequestError::NotSupported("native fences"))
        }
    }

    /// Whether the guest has negotiated native fences.
    pub(crate) fn has_native_fences(&self) -> bool {
        self.guest.features().contains(Features::NATIVE_FENCES)
    }

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

    /// Opens a fence of the guest in this process.
    fn open_own_fence(&mut self, global: u32, device: Handle) -> Result<Handle, RequestError> {
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
            if storage.published { self.guest.resources.bar.fence(global) } else { NOT_PUBLISHED };
        let mapping = NativeFenceMapping {
            current_value_offset,
            current_value_gpu_va,
            monitored_value_gpu_va,
        };
        Ok(OpenedFence { fence: handle, mapping, slot, reserved: 0 })
    }

    /// Maps a page of fences, all of it or nothing. Packets may write CurrentValues and read MonitoredValues.
    /// `current` is the place of the CurrentValue of a fence that is alone in its page.
    fn map_fence_page(
        &mut self,
        page: u32,
        current: Option<PhysicalAddress>,
    ) -> Result<(), RequestError> {
        let space = self.process()?.space();
        let pages = self.guest.fences.storage().pages(page, current).into_iter();
        let entries: Vec<_> = pages.map(|(page, writable)| Pte::new(page, writable)).collect();
        let va = self.guest.fences.storage().page_va(page);
        let mapped = self.miniport.update_page_table(space, va, PageSize::Small, &entries);
        if mapped.is_err() {
            self.unmap_fence_page(page);
        }
        Ok(mapped?)
    }

    /// Unmaps a page of fences. Once a later quiesce has passed, no packet of the process reaches it.
    fn unmap_fence_page(&mut self, page: u32) {
        let Ok(space) = self.process().map(|process| process.space()) else { return };
        invalidate_entries(self.miniport, space, self.guest.fences.page_range(page));
    }

    /// Whether the driver wants the values of fences in the GPU's system process.
    fn maps_to_system_process(&self) -> bool {
        self.guest.fences.native().is_some_and(|native| native.driver.map_to_gpu_system_process)
    }

    /// Maps a page of fences that is new to this process, for the process and for the context management processor,
    /// all of it or nothing.
    fn map_new_fence_page(
        &mut self,
        page: u32,
        current: Option<PhysicalAddress>,
    ) -> Result<(), RequestError> {
        self.map_fence_page(page, current)?;
        if !self.maps_to_system_process() {
            return Ok(());
        }
        let space = self.guest.system()?.address_space;
        let pages = self.guest.fences.storage().pages(page, current).into_iter();
        let entries: Vec<_> = pages.map(|(page, _)| Pte::new(page, true)).collect();
        let va = self.guest.fences.storage().page_va(page);
        let mapped = self.miniport.update_page_table(space, va, PageSize::Small, &entries);
        if mapped.is_err() {
            self.unmap_old_fence_page(page);
        }
        Ok(mapped?)
    }

    /// Unmaps a page of fences for the process and for the context management processor. Once a later quiesce has
    /// passed, neither reaches it.
    fn unmap_old_fence_page(&mut self, page: u32) {
        self.unmap_fence_page(page);
        if self.maps_to_system_process()
            && let Ok(system) = self.guest.system()
        {
            let range = self.guest.fences.page_range(page);
            invalidate_entries(self.miniport, system.address_space, range);
        }
    }

    /// Takes a slot for a fence of this process in a mapped page, beside the process's other fences or alone. A fence
    /// that is alone may have its CurrentValue elsewhere.
    pub(crate) fn take_fence_slot(
        &mut self,
        alone: bool,
        current: Option<PhysicalAddress>,
    ) -> Result<u32, RequestError> {
        let taken = self.guest.fences.take_slot(self.process_id, alone);
        let (slot, is_new) = taken.ok_or(RequestError::QuotaExceeded {
            what: "native fences",
            limit: self.guest.resources.bar.fence_count.into(),
        })?;
        if is_new {
            self.map_new_fence_page(page_of(slot), current)
                .inspect_err(|_| self.leave_fence_slot(slot))?;
        }
        Ok(slot)
    }

    /// The process gives up a slot.
    fn leave_fence_slot(&mut self, slot: u32) {
        if self.guest.fences.leave_slot(slot) {
            self.unmap_old_fence_page(page_of(slot));
        }
        self.give_up(Resource::FenceSlot(slot));
    }

    /// Whether the fence was created on this device of this process, and not by another guest.
    pub(crate) fn is_parent_of(&mut self, device: Handle, fence: Handle) -> bool {
        let process = self.process_id;
        let Ok(slot) = self.global_of(fence) else { return false };
        let Ok(state) = self.global_mut(slot) else { return false };
        let (is_parent, cross) = (state.is_child_of(process, device), state.cross());
        is_parent && cross.is_none_or(|cross| self.cross_fences.is_creator(cross, self.guest_id))
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
        self.forget_waits_for(global)?;
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
}
