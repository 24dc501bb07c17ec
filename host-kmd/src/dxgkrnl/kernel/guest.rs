// SPDX-License-Identifier: MIT OR Apache-2.0

//! One guest: the state that each subsystem keeps for it.

use crate::ddi::dma_buffer::DMA_BUFFERS_SIZE;
use crate::dxgkrnl::agent::state::AgentRegistration;
use crate::dxgkrnl::display::paths::Claimant;
use crate::dxgkrnl::display::state::Display;
use crate::dxgkrnl::fence::features::NativeFences;
use crate::dxgkrnl::fence::log::FenceLogs;
use crate::dxgkrnl::fence::state::NativeFence;
use crate::dxgkrnl::fence::storage::local_storage_size;
use crate::dxgkrnl::fence::table::Fences;
use crate::dxgkrnl::kernel::objects::KernelObject;
use crate::dxgkrnl::kernel::process::Process;
use crate::dxgkrnl::kernel::waiter::Waiter;
use crate::dxgkrnl::memory::donation::Donations;
use crate::dxgkrnl::memory::paging::Paging;
use crate::dxgkrnl::memory::process_bar::ProcessBars;
use crate::dxgkrnl::memory::sharing::SharedAllocations;
use crate::dxgkrnl::object::changes::Changes;
use crate::dxgkrnl::object::handles::Handles;
use crate::dxgkrnl::object::limits::Limits;
use crate::dxgkrnl::object::pool::SlotPool;
use crate::dxgkrnl::object::presence::Presence;
use crate::dxgkrnl::object::quotas::Quotas;
use crate::dxgkrnl::object::recorder::Recorder;
use crate::dxgkrnl::recovery::tdr::Hangs;
use crate::hardware::{GuestId, HardwareError, SystemContext};
use crate::port::GuestResources;
use crate::vidmm::pool::PagePool;
use crate::vidmm::{PrivateMemory, VidMm};
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::Handle;
use bellhop_protocol::features::Features;
use bellhop_protocol::snapshot;
use std::collections::BTreeMap;

/// An attached guest. Each subsystem's state keeps its own rules, so the fields are open to all of `kernel`.
#[derive(Debug)]
pub(crate) struct Guest {
    /// Names it.
    pub(crate) id: GuestId,
    /// The resources that it got when it attached. They never change.
    pub(crate) resources: GuestResources,
    system: Result<SystemContext, HardwareError>,
    open: bool,
    features: Features,
    /// Whether a refused version was logged. A guest can repeat the refusal at will, so it is logged once.
    mismatch_logged: bool,
    detaching: bool,
    /// Its processes, by id.
    pub(crate) processes: BTreeMap<u32, Process>,
    /// The handles of all its processes.
    pub(crate) handles: Handles<KernelObject>,
    /// Its fences.
    pub(crate) fences: Fences,
    /// The logs of its HW queues.
    pub(crate) logs: FenceLogs,
    /// Its doorbell slots.
    pub(crate) doorbell_slots: SlotPool,
    /// Its memory.
    pub(crate) vidmm: VidMm,
    /// Allocations that its processes share.
    pub(crate) shared_allocations: SharedAllocations,
    /// Its paging.
    pub(crate) paging: Paging<Waiter>,
    /// BAR areas that it keeps in its own memory.
    pub(crate) donations: Donations,
    /// BARs of its processes' own.
    pub(crate) process_bars: ProcessBars,
    /// What it shows.
    pub(crate) display: Display,
    /// Its aperture, by offset.
    pub(crate) aperture: PagePool,
    /// Space for DMA buffers, by offset.
    pub(crate) dma_buffers: PagePool,
    /// The nodes on which its work begins, one of each type.
    suggested: Vec<u32>,
    /// Its use of its quotas.
    pub(crate) quotas: Quotas,
    /// Number of doorbells that it created in the global model, modulo 2^16.
    global_doorbells: u16,
    /// Number of requests that it sent.
    control_messages: u64,
    /// Number of `NOTIFY_WORK_SUBMISSION` requests among them.
    notifies: u64,
    /// The hangs that it caused.
    pub(crate) hangs: Hangs,
    /// Whether the host's operator has suspended it.
    pub(crate) is_suspended: bool,
    /// Its agent, and what that is asked for.
    pub(crate) agency: AgentRegistration,
    /// Whether it has its GPU.
    pub(crate) presence: Presence,
    /// What the host's operator has changed of it.
    pub(crate) changes: Changes,
}

impl Guest {
    /// Creates a guest without objects on an adapter of this number of GPUs.
    pub(crate) fn new(
        id: GuestId,
        resources: GuestResources,
        system: Result<SystemContext, HardwareError>,
        window: u64,
        limits: &Limits,
        native: Option<NativeFences>,
        gpus: u8,
    ) -> Self {
        let (local, segments) = (resources.bar.local_memory, resources.segments);
        let (fences, all_private) =
            (resources.bar.fence_count, segments.private.saturating_mul(gpus.into()));
        // The end of the segment, in the master's part, holds values of fences.
        let reserved = local_storage_size(fences, segments.private, native);
        let private = PrivateMemory { size: segments.private, reserved, gpus };
        Self {
            id,
            resources,
            system,
            open: false,
            features: Features::empty(),
            mismatch_logged: false,
            detaching: false,
            processes: BTreeMap::new(),
            handles: Handles::new(id),
            fences: Fences::new(fences, (segments.private, all_private), native),
            logs: FenceLogs::default(),
            doorbell_slots: SlotPool::new(resources.bar.doorbell_count),
            vidmm: VidMm::of_chain(local, private, segments.backing),
            shared_allocations: SharedAllocations::default(),
            paging: Paging::new(system.ok(), window),
            donations: Donations::default(),
            process_bars: ProcessBars::default(),
            display: Display::new(id),
            aperture: PagePool::new(0, resources.segments.aperture),
            dma_buffers: PagePool::new(0, DMA_BUFFERS_SIZE),
            suggested: Vec::new(),
            quotas: Quotas::new(limits),
            global_doorbells: 0,
            control_messages: 0,
            notifies: 0,
            hangs: Hangs::default(),
            is_suspended: false,
            agency: AgentRegistration::default(),
            presence: Presence::default(),
            changes: Changes::default(),
        }
    }

    /// Sets the nodes on which its work begins, one of each type.
    pub(crate) fn with_suggested(self, suggested: Vec<u32>) -> Self {
        Self { suggested, ..self }
    }

    /// Whether its work begins on this node rather than others of the node's type.
    pub(crate) fn is_suggested(&self, node: u32) -> bool {
        self.suggested.contains(&node)
    }

    /// The context that executes its paging buffers. Without one, the kernel refuses all its requests.
    pub(crate) fn system(&self) -> Result<SystemContext, HardwareError> {
        self.system
    }

    /// Opens the adapter with these features.
    pub(crate) fn open(&mut self, features: Features) {
        (self.open, self.features) = (true, features);
    }

    /// Whether it has opened the adapter.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The features that it negotiated.
    pub(crate) fn features(&self) -> Features {
        self.features
    }

    /// Whether it has negotiated native fences.
    pub(crate) fn has_native_fences(&self) -> bool {
        self.features.contains(Features::NATIVE_FENCES)
    }

    /// Its version or features were refused. Returns whether that was the first time.
    pub(crate) fn note_mismatch(&mut self) -> bool {
        !std::mem::replace(&mut self.mismatch_logged, true)
    }

    /// Begins to detach it. Returns false if it was detaching already.
    pub(crate) fn begin_detach(&mut self) -> bool {
        !std::mem::replace(&mut self.detaching, true)
    }

    /// Whether it has detached, and only what engines may still use remains.
    pub(crate) fn is_detaching(&self) -> bool {
        self.detaching
    }

    /// Counts a doorbell created in the global model. Returns how many it has created, modulo 2^16.
    pub(crate) fn count_global_doorbell(&mut self) -> u16 {
        self.global_doorbells = self.global_doorbells.wrapping_add(1);
        self.global_doorbells
    }

    /// A process that would show something.
    pub(crate) fn claimant(&self, process: u32) -> Claimant {
        Claimant { process, agent: self.agency.process() }
    }

    /// Counts a request.
    pub(crate) fn count_control_message(&mut self) {
        self.control_messages += 1;
    }

    /// Counts a `NOTIFY_WORK_SUBMISSION`.
    pub(crate) fn count_notify(&mut self) {
        self.notifies += 1;
    }

    /// Number of requests that it sent.
    pub(crate) fn control_messages(&self) -> u64 {
        self.control_messages
    }

    /// Number of `NOTIFY_WORK_SUBMISSION` requests among them.
    pub(crate) fn notifies(&self) -> u64 {
        self.notifies
    }

    /// Whether the guest can reach the areas that a doorbell needs.
    pub(crate) fn has_doorbells(&self) -> bool {
        let mut areas = [AreaKind::DOORBELLS, AreaKind::PROGRESS, AreaKind::STATUS].into_iter();
        self.resources.bar_mapped || areas.all(|area| self.donations.is_in_force(area))
    }

    /// Records for a tool that traces what a process calls an object, or that it calls it nothing.
    pub(crate) fn record_name(&self, process: u32, handle: Handle, recorder: &Recorder) {
        let fence = self.handles.get::<NativeFence>(process, handle);
        let slot = fence.ok().map(|fence| fence.global);
        recorder.called((self.id, process), (handle, slot), self.handles.name(process, handle));
    }

    /// Its use of its quotas and of its BAR, for tools.
    pub(crate) fn describe_quotas(&self) -> Vec<snapshot::Quota> {
        let bar = &self.resources.bar;
        let slots = [
            ("doorbells", self.doorbell_slots.used(), bar.doorbell_count),
            ("native fences", self.fences.used_slots(), bar.fence_count),
        ];
        let slots = slots.into_iter().map(|(what, used, limit)| snapshot::Quota {
            what: what.into(),
            used: used.into(),
            limit: limit.into(),
        });
        self.quotas.describe().chain(slots).collect()
    }

    /// Whether it has given back everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty()
            && self.handles.is_empty()
            && self.fences.is_unused()
            && self.logs.is_unused()
            && self.doorbell_slots.is_unused()
            && self.process_bars.is_unused()
            && self.vidmm.is_unused()
            && self.shared_allocations.is_empty()
            && self.display.is_unused()
            && self.aperture.is_unused()
            && self.dma_buffers.is_unused()
            && self.quotas.is_unused()
    }
}
