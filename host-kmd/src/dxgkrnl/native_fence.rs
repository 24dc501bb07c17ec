//! Fences: created, shared, opened and destroyed. They are native ones, or monitored ones, which
//! need no native fences to be enabled.
//!
//! A *global* fence has values, and whoever waits for them. A process has it open once, however many
//! handles it has to it: that is the *local* fence, with a slot that the process's packets name. A fence
//! that other guests may have is a global one in each of them: see `cross_fences`.
//!
//! Source: native GPU fence object, "Global and local handles for shared fences".

use super::device::Device;
use super::error::RequestError;
use super::features::NativeFences;
use super::fence_pages::{FencePages, page_of};
use super::fence_storage::{FenceKind, ValueStorage};
use super::gpu_va::invalidate;
use super::interrupts::Scan;
use super::pool::PageRange;
use super::request::{Answer, Handled, zero};
use super::retire::Resource;
use super::scope::Scope;
use super::sharing::Namer;
use super::waits::{Waiters, Waits};
use crate::ddi;
use crate::ddi::SystemProcessGpuVas;
use crate::ddi::paging::PageSize;
use crate::hardware::{FenceStorage, GlobalFence as FenceId, PhysicalAddress, PhysicalPage, Pte};
use crate::port::CrossFenceId;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{
    CreateMonitoredFence, CreateNativeFence, DestroyNativeFence, FenceFlags, NOT_PUBLISHED,
    NativeFenceMapping, NativeFenceType, NtHandle, OpenNativeFence, OpenedFence, ShareNativeFence,
};
use bellhop_protocol::features::Features;
use bellhop_protocol::handoff::fence::{NOT_MONITORED, SignalRule};
use bellhop_protocol::snapshot;
use std::collections::BTreeMap;

/// MonitoredValue of a fence each of whose signals interrupts, since CurrentValue is greater after it.
pub(super) const EVERY_SIGNAL: u64 = 0;

/// A handle to a fence.
#[derive(Debug)]
pub(super) struct NativeFence {
    /// The global fence's slot.
    pub(super) global: u32,
    /// The device that it was created or opened on; none for the progress fence of a HW queue, which
    /// goes with that.
    device: Option<Handle>,
}

/// A fence.
#[derive(Debug)]
pub(super) struct GlobalFence {
    /// Who may do what with it.
    pub(super) kind: FenceKind,
    storage: FenceStorage,
    flags: FenceFlags,
    /// The fence that it is a view of, if other guests may have one.
    pub(super) cross: Option<CrossFenceId>,
    /// Whether it is the progress fence of a HW queue.
    pub(super) is_progress: bool,
    /// The process and the device that it was made on; none of a progress fence.
    parent: Option<(u32, Handle)>,
    /// Who has it open, by process.
    opened: BTreeMap<u32, LocalFence>,
    /// The name that it was shared by.
    pub(super) name: Option<u64>,
    /// Who waits for it on a CPU.
    pub(super) waiters: Waiters,
    /// Whether it is signaled for good.
    pub(super) always_signaled: bool,
    /// The value that the end of its queue waits for, while that is not reached.
    pub(super) drain: Option<u64>,
    /// MonitoredValue as it was last told to the driver.
    pub(super) monitored: u64,
    /// Tells it from what had its slot before, and will after: set when it is made.
    pub(super) serial: u64,
}

/// What one process has of a fence.
#[derive(Debug, Clone, Copy)]
struct LocalFence {
    /// What its packets name it by.
    slot: u32,
    /// How many handles it has.
    handles: u32,
}

impl GlobalFence {
    /// One that nobody has open or waits for.
    pub(super) fn new(kind: FenceKind, storage: FenceStorage, flags: FenceFlags) -> Self {
        Self {
            kind,
            storage,
            flags,
            cross: None,
            is_progress: false,
            parent: None,
            opened: BTreeMap::new(),
            name: None,
            waiters: Waiters::default(),
            always_signaled: false,
            drain: None,
            serial: 0,
            monitored: match kind {
                FenceKind::Native(_) => NOT_MONITORED,
                FenceKind::Monitored => EVERY_SIGNAL,
            },
        }
    }

    /// What MonitoredValue must be, with all who wait: where other guests may have the fence, they are told
    /// of every signal.
    pub(super) fn wanted_monitored(&self) -> u64 {
        if self.kind == FenceKind::Monitored || self.cross.is_some() {
            return EVERY_SIGNAL;
        }
        let drain = self.drain.map_or(NOT_MONITORED, |value| value.saturating_sub(1));
        self.waiters.monitored().min(drain)
    }

    /// The least value that it may be signaled with where CurrentValue is `current`.
    pub(super) fn least(&self, current: u64) -> u64 {
        self.storage.rule.least(current)
    }

    /// Whether anybody is to be told when it was signaled.
    fn concerns_anybody(&self) -> bool {
        self.cross.is_some() || self.drain.is_some() || self.waiters.len() > 0
    }

    /// What tools are told of it, by one of its handles.
    pub(super) fn describe(&self, handle: Handle, value: u64) -> snapshot::Fence {
        snapshot::Fence {
            handle: handle.into(),
            value,
            monitored: (self.storage.native && self.monitored != NOT_MONITORED)
                .then_some(self.monitored),
            waits: self.waiters.len() as u64,
            cross_adapter: self.cross.is_some(),
        }
    }
}

/// The fences of one guest.
#[derive(Debug)]
pub(super) struct Fences {
    /// What was agreed on with the driver, if there are native fences.
    pub(super) native: Option<NativeFences>,
    pub(super) storage: ValueStorage,
    /// Their slots.
    pub(super) pages: FencePages,
    /// Global fences by slot, which is what interrupts name.
    pub(super) globals: BTreeMap<u32, GlobalFence>,
    /// Which global fence those slots name that have none of their own.
    locals: BTreeMap<u32, u32>,
    /// Slots of those that are shared, by name.
    pub(super) names: BTreeMap<u64, u32>,
    /// Slots of those that other guests may have.
    pub(super) views: BTreeMap<CrossFenceId, u32>,
    namer: Namer,
    /// How many fences there were.
    made: u64,
    /// Who waits on a CPU.
    pub(super) waits: Waits,
}

impl Fences {
    /// Those that a scan is about: "Dxgkrnl only scans all pending native fence waiters".
    pub(super) fn concerned(&self, scan: Scan) -> Vec<u32> {
        let is_one = |fence: &GlobalFence| scan.includes(fence) && fence.concerns_anybody();
        let concerned = self.globals.iter().filter(|(_, fence)| is_one(fence));
        concerned.map(|(slot, _)| *slot).collect()
    }

    /// None, and room for `slots`. The guest has so much memory in the segment `Private`; where there are
    /// `native` fences, they are what was agreed on.
    pub(super) fn new(slots: u32, private: u64, native: Option<NativeFences>) -> Self {
        Self {
            native,
            storage: ValueStorage::new(slots, private, native),
            pages: FencePages::new(slots),
            globals: BTreeMap::new(),
            locals: BTreeMap::new(),
            names: BTreeMap::new(),
            views: BTreeMap::new(),
            namer: Namer::default(),
            made: 0,
            waits: Waits::default(),
        }
    }

    /// A fence is made in a slot.
    pub(super) fn add_global(&mut self, slot: u32, fence: GlobalFence) {
        self.made += 1;
        self.globals.insert(slot, GlobalFence { serial: self.made, ..fence });
    }

    /// Where their values are, and logs.
    pub(super) fn storage(&self) -> &ValueStorage {
        &self.storage
    }

    /// Whether interrupts name the queues whose logs say which fences were signaled.
    pub(super) fn has_optimized_interrupt(&self) -> bool {
        self.native.is_some_and(|native| native.optimized_interrupt)
    }

    /// The fence that a slot names, of whichever process.
    pub(super) fn named_by(&self, slot: u32) -> Option<u32> {
        let is_own = self.globals.contains_key(&slot);
        if is_own { Some(slot) } else { self.locals.get(&slot).copied() }
    }

    /// Bytes for values of fences whose pages are some process's.
    pub(super) fn used_storage(&self) -> u64 {
        2 * u64::from(self.pages.used_pages()) * PAGE_SIZE
    }

    /// The same of local memory.
    pub(super) fn used_local_storage(&self) -> u64 {
        if self.storage.is_local() { self.used_storage() } else { 0 }
    }

    /// GPU virtual addresses of the values of a page of fences.
    fn page_range(&self, page: u32) -> PageRange {
        let pages = self.storage.pages(page, None).len() as u64;
        PageRange { start: self.storage.page_va(page), length: pages * PAGE_SIZE }
    }

    /// Engines have forgotten a slot. Returns the pages of values that are nobody's with that.
    pub(super) fn free_slot(&mut self, slot: u32) -> Vec<PhysicalPage> {
        let page = self.pages.give_back(slot);
        let pages = page.map(|page| self.storage.pages(page, None)).unwrap_or_default();
        pages.into_iter().map(|(page, _)| page).collect()
    }

    /// Whether everything is given back.
    pub(super) fn is_unused(&self) -> bool {
        self.globals.is_empty()
            && self.locals.is_empty()
            && self.names.is_empty()
            && self.views.is_empty()
            && self.pages.is_unused()
    }
}

impl Scope<'_> {
    /// The slot of the global fence that a handle of the process names.
    pub(super) fn global_of(&self, handle: Handle) -> Result<u32, RequestError> {
        self.get::<NativeFence>(handle).map(|fence| fence.global)
    }

    /// The global fence in a slot, which a handle names.
    pub(super) fn global_mut(&mut self, slot: u32) -> Result<&mut GlobalFence, RequestError> {
        let fence = self.guest.fences.globals.get_mut(&slot);
        fence.ok_or(RequestError::parameter("fence slot", slot.into()))
    }

    /// `hGlobalNativeFence`
    fn fence_id(&self, slot: u32) -> FenceId {
        FenceId { guest: self.guest_id, slot }
    }

    /// Refuses what needs native fences of a guest that has none.
    pub(super) fn check_native_fences(&self) -> Result<(), RequestError> {
        match self.has_native_fences() {
            true => Ok(()),
            false => Err(RequestError::NotSupported("native fences")),
        }
    }

    /// Whether the guest has native fences: they are enabled, and it took them.
    pub(super) fn has_native_fences(&self) -> bool {
        self.guest.features.contains(Features::NATIVE_FENCES)
    }

    /// `D3DKMTCreateNativeFence`.
    pub(super) fn create_native_fence(
        &mut self,
        request: CreateNativeFence,
    ) -> Handled<OpenedFence> {
        self.check_native_fences()?;
        self.get::<Device>(request.device)?;
        if request.fence_type.name().is_none() {
            return Err(RequestError::parameter("fence_type", request.fence_type.0.into()));
        }
        let os = self.guest.fences.native.map(|native| native.os).unwrap_or_default();
        if request.fence_type == NativeFenceType::INTRA_GPU && !os.intra_gpu_fence_type {
            return Err(RequestError::NotSupported("intra-GPU fences"));
        }
        let flags = FenceFlags::from_bits(request.flags)
            .ok_or(RequestError::parameter("flags", request.flags.into()))?;
        let CreateNativeFence { device, initial_value, fence_type, .. } = request;
        let kind = FenceKind::Native(fence_type);
        let fence = match flags.contains(FenceFlags::CROSS_ADAPTER) {
            true => self.create_cross_fence(device, kind, flags, initial_value)?,
            false => self.insert_fence(Some(device), kind, flags, initial_value)?,
        };
        self.opened_fence(fence).map(Answer::Done)
    }

    /// `D3DKMTCreateSynchronizationObject2` of a monitored fence.
    pub(super) fn create_monitored_fence(
        &mut self,
        request: CreateMonitoredFence,
    ) -> Handled<OpenedFence> {
        zero("reserved", request.reserved)?;
        self.get::<Device>(request.device)?;
        let flags = FenceFlags::from_bits(request.flags)
            .ok_or(RequestError::parameter("flags", request.flags.into()))?;
        let CreateMonitoredFence { device, initial_value, .. } = request;
        let kind = FenceKind::Monitored;
        let fence = match flags.contains(FenceFlags::CROSS_ADAPTER) {
            true => self.create_cross_fence(device, kind, flags, initial_value)?,
            false => self.insert_fence(Some(device), kind, flags, initial_value)?,
        };
        self.opened_fence(fence).map(Answer::Done)
    }

    /// `D3DKMTShareObjects`.
    pub(super) fn share_native_fence(&mut self, request: ShareNativeFence) -> Handled<NtHandle> {
        let slot = self.global_of(request.fence)?;
        let fence = self.global_mut(slot)?;
        if !fence.flags.contains(FenceFlags::SHARED) {
            return Err(RequestError::NotSupported("sharing a fence that was not created for it"));
        }
        if let Some(name) = fence.name {
            return Ok(Answer::Done(NtHandle(name)));
        }
        let name = match fence.cross {
            Some(cross) => self.cross_fences.name(cross),
            None => {
                let Fences { namer, names, .. } = &mut self.guest.fences;
                namer.next(|name| names.contains_key(&name))
            }
        };
        self.guest.fences.names.insert(name, slot);
        self.global_mut(slot)?.name = Some(name);
        Ok(Answer::Done(NtHandle(name)))
    }

    /// `D3DKMTOpenNativeFenceFromNTHandle`.
    pub(super) fn open_native_fence(&mut self, request: OpenNativeFence) -> Handled<OpenedFence> {
        self.get::<Device>(request.device)?;
        let NtHandle(name) = request.nt_handle;
        let fence = match self.guest.fences.names.get(&name).copied() {
            Some(global) => self.open_own_fence(global, request.device)?,
            None => self.open_cross_fence(request.device, name)?,
        };
        self.opened_fence(fence).map(Answer::Done)
    }

    /// A process opens a fence that the guest has.
    fn open_own_fence(&mut self, global: u32, device: Handle) -> Result<Handle, RequestError> {
        let process = self.process_id;
        match self.global_mut(global)?.opened.get(&process) {
            Some(_) => self.insert_fence_handle(global, Some(device)),
            None => {
                let slot = self.take_fence_slot(false, None)?;
                self.open_global(global, slot, Some(device))
                    .inspect_err(|_| self.leave_fence_slot(slot))
            }
        }
    }

    /// Makes a fence; returns its handle.
    pub(super) fn insert_fence(
        &mut self,
        device: Option<Handle>,
        kind: FenceKind,
        flags: FenceFlags,
        initial_value: u64,
    ) -> Result<Handle, RequestError> {
        let slot = self.take_fence_slot(flags.contains(FenceFlags::SHARED), None)?;
        let rule = match flags.contains(FenceFlags::REWINDABLE) {
            true => SignalRule::Rewindable,
            false => SignalRule::Monotonic,
        };
        let storage = FenceStorage { rule, ..self.guest.fences.storage.of(slot, kind) };
        self.create_global(slot, kind, storage, Some(initial_value));
        let is_progress = device.is_none();
        let fence = GlobalFence { is_progress, ..GlobalFence::new(kind, storage, flags) };
        self.guest.fences.add_global(slot, fence);
        self.open_global(slot, slot, device).inspect_err(|_| self.remove_global(slot))
    }

    /// Has the driver make a global fence, whose value others have set where no initial one is given.
    pub(super) fn create_global(
        &mut self,
        slot: u32,
        kind: FenceKind,
        storage: FenceStorage,
        initial_value: Option<u64>,
    ) {
        let fence = self.fence_id(slot);
        if kind == FenceKind::Monitored {
            return self.miniport.create_monitored_fence(fence, storage, initial_value);
        }
        let [current_value, monitored_value] = self.guest.fences.storage.value_vas(slot, &storage);
        let system_process = self
            .maps_to_system_process()
            .then_some(SystemProcessGpuVas { current_value, monitored_value });
        self.miniport.create_native_fence(ddi::CreateNativeFence {
            fence,
            storage,
            initial_value,
            system_process,
        });
    }

    /// Opens a global fence in this process, which has not, by a slot of the process's.
    pub(super) fn open_global(
        &mut self,
        global: u32,
        slot: u32,
        device: Option<Handle>,
    ) -> Result<Handle, RequestError> {
        let space = self.process()?.space;
        if slot != global {
            // It is in a page of another process's.
            let current = self.global_mut(global)?.storage.current;
            self.map_fence_page(page_of(global), Some(current))?;
            self.guest.fences.locals.insert(slot, global);
        }
        let local = LocalFence { slot, handles: 0 };
        let process = self.process_id;
        let fence = self.global_mut(global)?;
        if slot == global {
            fence.parent = device.map(|device| (process, device));
        }
        fence.opened.insert(process, local);
        match fence.kind {
            FenceKind::Native(_) => {
                self.miniport.open_native_fence(self.fence_id(global), slot, space);
            }
            FenceKind::Monitored => {
                self.miniport.open_monitored_fence(self.fence_id(global), slot, space);
            }
        }
        self.insert_fence_handle(global, device).inspect_err(|_| {
            self.close_local(global);
        })
    }

    /// Another handle of a process that has the fence open.
    fn insert_fence_handle(
        &mut self,
        global: u32,
        device: Option<Handle>,
    ) -> Result<Handle, RequestError> {
        let handle = self.insert(NativeFence { global, device })?;
        let process = self.process_id;
        if let Some(local) = self.global_mut(global)?.opened.get_mut(&process) {
            local.handles += 1;
        }
        if let Some(device) = device {
            self.get_mut::<Device>(device)?.fences.insert(handle);
        }
        Ok(handle)
    }

    /// What a process is told of a fence that it opened.
    pub(super) fn opened_fence(&mut self, handle: Handle) -> Result<OpenedFence, RequestError> {
        let (process, global) = (self.process_id, self.global_of(handle)?);
        let fence = self.global_mut(global)?;
        let storage = fence.storage;
        let local = fence.opened.get(&process).copied();
        let LocalFence { slot, .. } = local.ok_or(RequestError::InvalidHandle(handle))?;
        let vas = self.guest.fences.storage.value_vas(global, &storage);
        let [current_value_gpu_va, monitored_value_gpu_va] = match storage.native {
            true => vas,
            false => [vas[0], 0],
        };
        let current_value_offset = match storage.published {
            true => self.guest.resources.bar.fence(global),
            false => NOT_PUBLISHED,
        };
        let mapping = NativeFenceMapping {
            current_value_offset,
            current_value_gpu_va,
            monitored_value_gpu_va,
        };
        Ok(OpenedFence { fence: handle, mapping, slot, reserved: 0 })
    }

    /// Maps a page of fences, all of it or nothing: packets may write CurrentValues, and read
    /// MonitoredValues. `current` is where the CurrentValue is of a fence that is alone in it.
    fn map_fence_page(
        &mut self,
        page: u32,
        current: Option<PhysicalAddress>,
    ) -> Result<(), RequestError> {
        let space = self.process()?.space;
        let pages = self.guest.fences.storage.pages(page, current).into_iter();
        let entries: Vec<_> = pages.map(|(page, writable)| Pte::new(page, writable)).collect();
        let va = self.guest.fences.storage.page_va(page);
        let mapped = self.miniport.update_page_table(space, va, PageSize::Small, &entries);
        if mapped.is_err() {
            self.unmap_fence_page(page);
        }
        Ok(mapped?)
    }

    /// No packet of the process reaches a page of fences, once a later quiesce has passed.
    fn unmap_fence_page(&mut self, page: u32) {
        let Ok(space) = self.process().map(|process| process.space) else { return };
        invalidate(self.miniport, space, self.guest.fences.page_range(page));
    }

    /// Whether the driver finds the values of fences in the GPU's system process.
    fn maps_to_system_process(&self) -> bool {
        self.guest.fences.native.is_some_and(|native| native.driver.map_to_gpu_system_process)
    }

    /// Maps a page of fences that is new to this process, for it and for the context management
    /// processor, all of it or nothing.
    fn map_new_fence_page(
        &mut self,
        page: u32,
        current: Option<PhysicalAddress>,
    ) -> Result<(), RequestError> {
        self.map_fence_page(page, current)?;
        if !self.maps_to_system_process() {
            return Ok(());
        }
        let space = self.guest.system?.address_space;
        let pages = self.guest.fences.storage.pages(page, current).into_iter();
        let entries: Vec<_> = pages.map(|(page, _)| Pte::new(page, true)).collect();
        let va = self.guest.fences.storage.page_va(page);
        let mapped = self.miniport.update_page_table(space, va, PageSize::Small, &entries);
        if mapped.is_err() {
            self.unmap_old_fence_page(page);
        }
        Ok(mapped?)
    }

    /// Neither packets of the process nor the context management processor reach a page of fences, once
    /// a later quiesce has passed.
    fn unmap_old_fence_page(&mut self, page: u32) {
        self.unmap_fence_page(page);
        if self.maps_to_system_process()
            && let Ok(system) = self.guest.system
        {
            let range = self.guest.fences.page_range(page);
            invalidate(self.miniport, system.address_space, range);
        }
    }

    /// A slot for a fence of this process, in a page that is mapped: with its others, or alone, and then
    /// perhaps with its CurrentValue elsewhere.
    pub(super) fn take_fence_slot(
        &mut self,
        alone: bool,
        current: Option<PhysicalAddress>,
    ) -> Result<u32, RequestError> {
        let taken = self.guest.fences.pages.take(self.process_id, alone);
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

    /// A slot of this process's is nobody's any more.
    fn leave_fence_slot(&mut self, slot: u32) {
        if self.guest.fences.pages.leave(slot) {
            self.unmap_old_fence_page(page_of(slot));
        }
        self.given_up.push(Resource::FenceSlot(slot));
    }

    /// Whether a fence was created on this device of the process's, and not by another guest.
    pub(super) fn is_parent_of(&mut self, device: Handle, fence: Handle) -> bool {
        let process = self.process_id;
        let Ok(slot) = self.global_of(fence) else { return false };
        let Ok(GlobalFence { parent, cross, .. }) = self.global_mut(slot) else { return false };
        let (is_parent, cross) = (*parent == Some((process, device)), *cross);
        is_parent && cross.is_none_or(|cross| self.cross_fences.is_creator(cross, self.guest_id))
    }

    /// `D3DKMTDestroySynchronizationObject`. A progress fence goes with its queue only.
    pub(super) fn destroy_native_fence(&mut self, request: DestroyNativeFence) -> Handled<()> {
        let slot = self.global_of(request.fence)?;
        if self.global_mut(slot)?.is_progress {
            return Err(RequestError::Busy(request.fence));
        }
        self.remove_fence(request.fence)?;
        Ok(Answer::AfterQuiesce)
    }

    /// Takes a handle to a fence away. With its last the process has the fence open no more, and with the
    /// last process the fence is gone.
    pub(super) fn remove_fence(&mut self, handle: Handle) -> Result<(), RequestError> {
        let NativeFence { global, device } = self.remove::<NativeFence>(handle)?;
        // The device is gone already when it takes its fences with it.
        if let Some(device) = device
            && let Ok(device) = self.get_mut::<Device>(device)
        {
            device.fences.remove(&handle);
        }
        let process = self.process_id;
        if let Some(local) = self.global_mut(global)?.opened.get_mut(&process) {
            local.handles -= 1;
            if local.handles > 0 {
                return Ok(());
            }
        }
        self.forget_waits_for(global)?;
        if let Some(slot) = self.close_local(global)
            && slot != global
        {
            self.leave_fence_slot(slot);
        }
        if self.global_mut(global)?.opened.is_empty() {
            self.remove_global(global);
        }
        Ok(())
    }

    /// This process has a fence open no more. Returns the slot that it had for it.
    fn close_local(&mut self, global: u32) -> Option<u32> {
        let process = self.process_id;
        let fence = self.guest.fences.globals.get_mut(&global)?;
        let LocalFence { slot, .. } = fence.opened.remove(&process)?;
        let others_have_it = !fence.opened.is_empty();
        match fence.kind {
            FenceKind::Native(_) => self.miniport.close_native_fence(self.fence_id(global), slot),
            FenceKind::Monitored => {
                self.miniport.close_monitored_fence(self.fence_id(global), slot);
            }
        }
        self.guest.fences.locals.remove(&slot);
        if others_have_it {
            // It is alone in its page, which stays.
            self.unmap_fence_page(page_of(global));
            if self.guest.fences.has_optimized_interrupt() {
                // What it was signaled by this name, a log may say too late.
                self.given_up.push(Resource::FenceName(global));
            }
        }
        Some(slot)
    }

    /// A fence that nobody has open is gone.
    pub(super) fn remove_global(&mut self, global: u32) {
        let Some(fence) = self.guest.fences.globals.remove(&global) else { return };
        if let Some(name) = fence.name {
            self.guest.fences.names.remove(&name);
        }
        if fence.storage.native {
            self.miniport.destroy_native_fence(self.fence_id(global));
        }
        self.leave_fence_slot(global);
        if let Some(cross) = fence.cross {
            self.leave_view(cross);
        }
    }
}
