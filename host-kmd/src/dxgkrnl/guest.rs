//! One guest: its processes, its handles, and what it may have.

use super::donation::Donations;
use super::error::RequestError;
use super::features::NativeFences;
use super::fence_log::FenceLogs;
use super::fence_storage::local_storage_size;
use super::handles::{Handles, MAX_HANDLES, ObjectKind};
use super::limits::{Limits, Quota};
use super::native_fence::Fences;
use super::paging::Paging;
use super::pool::{PagePool, SlotPool};
use super::process::Process;
use super::sharing::SharedAllocations;
use super::tdr::Hangs;
use crate::ddi::dma_buffer::DMA_BUFFERS_SIZE;
use crate::hardware::{GuestId, HardwareFull, SystemContext};
use crate::port::GuestResources;
use crate::vidmm::VidMm;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::features::Features;
use bellhop_protocol::snapshot;
use std::collections::BTreeMap;

/// What a guest has used of its [`Limits`].
#[derive(Debug)]
pub(super) struct Quotas {
    /// [`Limits::processes`]
    pub(super) processes: Quota,
    /// [`Limits::handles`]
    pub(super) handles: Quota,
    /// [`Limits::allocations`]
    pub(super) allocations: Quota,
    /// [`Limits::hw_queues`]
    pub(super) hw_queues: Quota,
    /// [`Limits::waits`]
    pub(super) waits: Quota,
    /// [`Limits::mappings`]
    pub(super) mappings: Quota,
    /// [`Limits::mapped_bytes`]
    pub(super) mapped_bytes: Quota,
    /// [`Limits::extents`]
    pub(super) extents: Quota,
    /// [`Limits::submissions`]
    pub(super) submissions: Quota,
    /// [`Limits::listed_allocations`]
    pub(super) listed_allocations: Quota,
    /// [`Limits::cross_adapter_fences`]
    pub(super) cross_adapter_fences: Quota,
    /// [`Limits::held`]
    pub(super) held: Quota,
}

impl Quotas {
    /// The limit that objects of a kind have beside that of [`Limits::handles`].
    fn of(&mut self, kind: ObjectKind) -> Option<&mut Quota> {
        match kind {
            ObjectKind::Allocation => Some(&mut self.allocations),
            ObjectKind::HwQueue => Some(&mut self.hw_queues),
            ObjectKind::Device
            | ObjectKind::Context
            | ObjectKind::Doorbell
            | ObjectKind::NativeFence => None,
        }
    }

    /// Charges for one more object, or for nothing when there may be no more.
    pub(super) fn charge_object(&mut self, kind: ObjectKind) -> Result<(), RequestError> {
        if let Some(quota) = self.of(kind) {
            quota.charge(1)?;
        }
        self.handles.charge(1).inspect_err(|_| {
            if let Some(quota) = self.of(kind) {
                quota.refund(1);
            }
        })
    }

    /// Gives back what was charged for an object.
    pub(super) fn refund_object(&mut self, kind: ObjectKind) {
        self.handles.refund(1);
        if let Some(quota) = self.of(kind) {
            quota.refund(1);
        }
    }
}

/// A guest that is attached.
#[derive(Debug)]
pub(super) struct Guest {
    /// What it got when it attached.
    pub(super) resources: GuestResources,
    /// What its paging buffers are executed in. Without it the guest is refused everything.
    pub(super) system: Result<SystemContext, HardwareFull>,
    /// Whether it has opened the adapter.
    pub(super) open: bool,
    /// The features that it took when it did.
    pub(super) features: Features,
    /// Whether a refused version was logged: a guest can repeat it as often as it likes.
    pub(super) mismatch_logged: bool,
    /// It has gone, and only what engines may still use is left.
    pub(super) detaching: bool,
    /// By id.
    pub(super) processes: BTreeMap<u32, Process>,
    /// Of all its processes.
    pub(super) handles: Handles,
    /// Its native fences.
    pub(super) fences: Fences,
    /// The logs of its HW queues.
    pub(super) logs: FenceLogs,
    /// Doorbell slots to give out.
    pub(super) doorbell_slots: SlotPool,
    /// Its memory.
    pub(super) vidmm: VidMm,
    /// What of that its processes may have together.
    pub(super) shared_allocations: SharedAllocations,
    /// What moves it.
    pub(super) paging: Paging,
    /// Which areas are in its own memory.
    pub(super) donations: Donations,
    /// The aperture to give out, by offset.
    pub(super) aperture: PagePool,
    /// Places for DMA buffers, by offset.
    pub(super) dma_buffers: PagePool,
    /// What it has used of its limits.
    pub(super) quotas: Quotas,
    /// Doorbells that it has created in the global model.
    pub(super) global_doorbells: u16,
    /// Requests that it sent.
    pub(super) control_messages: u64,
    /// `NOTIFY_WORK_SUBMISSION` requests among them.
    pub(super) notifies: u64,
    /// How often it hung an engine.
    pub(super) hangs: Hangs,
}

impl Guest {
    /// A guest that has nothing yet.
    pub(super) fn new(
        id: GuestId,
        resources: GuestResources,
        system: Result<SystemContext, HardwareFull>,
        window: u64,
        limits: &Limits,
        native: Option<NativeFences>,
    ) -> Self {
        let (local, segments) = (resources.bar.local_memory, resources.segments);
        // Its end is for values of fences.
        let private = segments.private
            - local_storage_size(resources.bar.fence_count, segments.private, native);
        Self {
            resources,
            system,
            open: false,
            features: Features::empty(),
            mismatch_logged: false,
            detaching: false,
            processes: BTreeMap::new(),
            handles: Handles::new(id),
            fences: Fences::new(resources.bar.fence_count, segments.private, native),
            logs: FenceLogs::default(),
            doorbell_slots: SlotPool::new(resources.bar.doorbell_count),
            vidmm: VidMm::new(local, private, segments.backing),
            shared_allocations: SharedAllocations::default(),
            paging: Paging::new(system.ok(), window),
            donations: Donations::default(),
            aperture: PagePool::new(0, resources.segments.aperture),
            dma_buffers: PagePool::new(0, DMA_BUFFERS_SIZE),
            quotas: Quotas {
                processes: Quota::new(limits.processes, "processes"),
                handles: Quota::new(limits.handles.min(MAX_HANDLES), "handles"),
                allocations: Quota::new(limits.allocations, "allocations"),
                hw_queues: Quota::new(limits.hw_queues, "hardware queues"),
                waits: Quota::new(limits.waits, "pending waits"),
                mappings: Quota::new(limits.mappings, "mappings"),
                mapped_bytes: Quota::new(limits.mapped_bytes, "mapped bytes"),
                extents: Quota::new(limits.extents, "extents"),
                submissions: Quota::new(limits.submissions, "submissions"),
                listed_allocations: Quota::new(
                    limits.listed_allocations,
                    "entries of allocation lists",
                ),
                cross_adapter_fences: Quota::new(
                    limits.cross_adapter_fences,
                    "cross-adapter fences",
                ),
                held: Quota::new(limits.held, "held in software queues"),
            },
            global_doorbells: 0,
            control_messages: 0,
            notifies: 0,
            hangs: Hangs::default(),
        }
    }

    /// Whether the guest can reach what a doorbell is made of.
    pub(super) fn has_doorbells(&self) -> bool {
        let mut areas = [AreaKind::DOORBELLS, AreaKind::PROGRESS, AreaKind::STATUS].into_iter();
        self.resources.bar_mapped || areas.all(|area| self.donations.is_in_force(area))
    }

    /// What it has used of its limits and of its BAR, for tools.
    pub(super) fn describe_quotas(&self) -> Vec<snapshot::Quota> {
        let Quotas { processes, handles, allocations, hw_queues, .. } = &self.quotas;
        let Quotas { waits, mappings, mapped_bytes, extents, .. } = &self.quotas;
        let Quotas { submissions, listed_allocations, cross_adapter_fences, held, .. } =
            &self.quotas;
        let limits = [
            processes,
            handles,
            allocations,
            hw_queues,
            waits,
            mappings,
            mapped_bytes,
            extents,
            submissions,
            listed_allocations,
            cross_adapter_fences,
            held,
        ];
        let bar = &self.resources.bar;
        let slots = [
            ("doorbells", self.doorbell_slots.used(), bar.doorbell_count),
            ("native fences", self.fences.pages.used(), bar.fence_count),
        ];
        let slots = slots.into_iter().map(|(what, used, limit)| snapshot::Quota {
            what: what.into(),
            used: used.into(),
            limit: limit.into(),
        });
        limits.into_iter().map(Quota::describe).chain(slots).collect()
    }

    /// Whether everything that was given out is back.
    pub(super) fn is_empty(&self) -> bool {
        let quotas = &self.quotas;
        self.processes.is_empty()
            && self.handles.is_empty()
            && self.fences.is_unused()
            && self.logs.is_unused()
            && self.doorbell_slots.is_unused()
            && self.vidmm.is_unused()
            && self.shared_allocations.is_empty()
            && self.aperture.is_unused()
            && self.dma_buffers.is_unused()
            && quotas.processes.is_unused()
            && quotas.handles.is_unused()
            && quotas.allocations.is_unused()
            && quotas.hw_queues.is_unused()
            && quotas.waits.is_unused()
            && quotas.mappings.is_unused()
            && quotas.mapped_bytes.is_unused()
            && quotas.extents.is_unused()
            && quotas.submissions.is_unused()
            && quotas.listed_allocations.is_unused()
            && quotas.cross_adapter_fences.is_unused()
            && quotas.held.is_unused()
    }
}
