// SPDX-License-Identifier: MIT OR Apache-2.0

//! All state of an adapter's control plane.

use crate::ddi::Miniport;
use crate::dxgkrnl::compute::compilations::Compilations;
use crate::dxgkrnl::doorbell::table::Doorbells;
use crate::dxgkrnl::fence::cross::CrossFences;
use crate::dxgkrnl::fence::features::{AdapterError, NativeFences, OsFeatures};
use crate::dxgkrnl::kernel::callbacks::Callbacks;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::outbox::Outbox;
use crate::dxgkrnl::kernel::work::WorkList;
use crate::dxgkrnl::memory::migration::Migration;
use crate::dxgkrnl::object::changes::Changes;
use crate::dxgkrnl::object::limits::Limits;
use crate::dxgkrnl::object::process_ids::ProcessIds;
use crate::dxgkrnl::object::recorder::Recorder;
use crate::dxgkrnl::power::gpus::{GpuPower, GpuPowerPolicy};
use crate::dxgkrnl::power::state::{Power, PowerPolicy};
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::{HwQueue, QueueOwner};
use crate::dxgkrnl::queue::submission_fences::SubmissionFences;
use crate::dxgkrnl::recovery::quiesced::Quiesced;
use crate::dxgkrnl::recovery::retirement::Retirements;
use crate::dxgkrnl::recovery::tdr::{Tdr, TdrPolicy};
use crate::dxgkrnl::recovery::termination::Terminations;
use crate::hardware::{Gpu, GpuOrdinal, GuestId, HwQueueId, Platform, Reported as _};
use crate::miniport::BellhopMiniport;
use crate::proxy::{LinkedPlatform, Proxy};
use bellhop_protocol::doorbell::LoggingLevel;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// `TdrDelay`: how long an engine may take without progress.
pub(crate) const TDR_DELAY: Duration = Duration::from_secs(2);

/// The place and the name of an adapter on its host.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// Its place among the host's adapters.
    pub(super) ordinal: u32,
    /// Its name.
    pub(super) name: String,
}

/// All state of an adapter's control plane. It does no I/O and never blocks.
pub struct Kernel {
    pub(super) platform: Arc<dyn Platform>,
    pub(super) miniport: Box<dyn Miniport>,
    pub(super) callbacks: Callbacks,
    pub(super) guests: BTreeMap<GuestId, Guest>,
    pub(super) queues: BTreeMap<HwQueueId, QueueOwner>,
    pub(super) process_ids: ProcessIds,
    pub(super) retirements: Retirements,
    pub(super) terminations: Terminations,
    pub(super) power: Power,
    /// Power of each GPU of a chain.
    pub(super) gpu_power: GpuPower,
    pub(super) submissions: SubmissionFences,
    /// What leaves the kernel, and the requests that are not answered yet.
    pub(super) outbox: Outbox,
    /// Work that remains before an input is handled.
    pub(super) work: WorkList,
    /// Guests with paging under way.
    pub(super) paging: BTreeSet<GuestId>,
    /// The tickets that are known to have passed.
    pub(super) quiesced: Quiesced,
    pub(super) tdr: Tdr,
    /// Kernels of guests that the hardware compiles.
    pub(super) compilations: Compilations,
    pub(super) migration: Migration,
    /// Fences that guests of any adapter share: lent to the kernel while it handles an input.
    pub(super) cross_fences: CrossFences,
    /// The adapter's identity, for tools.
    pub(super) identity: Identity,
    /// What the host's operator has changed of the adapter.
    pub(super) changes: Changes,
    /// Records for a tool that traces.
    pub(super) recorder: Recorder,
    /// What engines log for drivers.
    pub(super) logging_level: LoggingLevel,
    /// The time since an arbitrary epoch.
    pub(super) now: Duration,
    /// `TdrDelay`: how long an engine may execute a queue without progress before that is a hang, and how long the
    /// work of a destroyed queue may take.
    pub(super) timeout: Duration,
    pub(super) limits: Limits,
    /// What the OS and the driver agreed on, if there are native fences.
    pub(super) native_fences: Option<NativeFences>,
}

/// The GPU of each node.
fn gpus_of(miniport: &dyn Miniport) -> Vec<GpuOrdinal> {
    let gpu = |node| miniport.get_node_metadata(node).map_or(0, |node| node.gpu());
    (0..miniport.node_count()).map(gpu).map(GpuOrdinal).collect()
}

impl Kernel {
    /// Creates a kernel with the driver of our GPU. It must be the only kernel of the GPU.
    ///
    /// # Errors
    /// Fails if the driver advertises a feature that is not enabled.
    pub fn new<G: Gpu + Platform + 'static>(
        gpu: Arc<G>,
        features: OsFeatures,
        limits: Limits,
    ) -> Result<Self, AdapterError> {
        Self::linked(gpu, Vec::new(), features, limits)
    }

    /// Creates a kernel with the drivers of the GPUs of a chain, the master first, behind the proxy. It must be the only
    /// kernel of each.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn linked<G: Gpu + Platform + 'static>(
        master: Arc<G>,
        slaves: Vec<Arc<G>>,
        features: OsFeatures,
        limits: Limits,
    ) -> Result<Self, AdapterError> {
        let driver = |gpu: &Arc<G>| -> Box<dyn Miniport> {
            Box::new(BellhopMiniport::new(Arc::clone(gpu) as _))
        };
        let proxy = Proxy::new(driver(&master), slaves.iter().map(driver).collect());
        let platform: Arc<dyn Platform> = if slaves.is_empty() {
            master
        } else {
            let slaves = slaves.into_iter().map(|gpu| gpu as _).collect();
            Arc::new(LinkedPlatform::new(master, slaves, &proxy))
        };
        Self::with_miniport(platform, Box::new(proxy), features, limits)
    }

    /// Creates a kernel with another driver.
    ///
    /// # Errors
    /// Fails if the driver advertises a feature that is not enabled, or caps that dxgkrnl cannot meet.
    pub fn with_miniport(
        platform: Arc<dyn Platform>,
        mut miniport: Box<dyn Miniport>,
        features: OsFeatures,
        limits: Limits,
    ) -> Result<Self, AdapterError> {
        let native_fences = NativeFences::negotiate(miniport.as_mut(), &features)?;
        let recorder = Recorder::new(Arc::clone(&platform));
        let gpus = platform.gpu_count();
        Ok(Self {
            native_fences,
            callbacks: Callbacks::new(Doorbells::new(Arc::clone(&platform), recorder.clone())),
            platform,
            power: Power::new(miniport.node_count(), recorder.clone()),
            gpu_power: GpuPower::new(gpus),
            recorder,
            tdr: Tdr::new(gpus_of(miniport.as_ref())),
            migration: Migration::default(),
            compilations: Compilations::default(),
            miniport,
            guests: BTreeMap::new(),
            queues: BTreeMap::new(),
            process_ids: ProcessIds::default(),
            retirements: Retirements::default(),
            terminations: Terminations::default(),
            submissions: SubmissionFences::default(),
            cross_fences: CrossFences::default(),
            identity: Identity::default(),
            changes: Changes::default(),
            logging_level: LoggingLevel::DEFAULT,
            outbox: Outbox::default(),
            work: WorkList::default(),
            paging: BTreeSet::new(),
            quiesced: Quiesced::default(),
            now: Duration::ZERO,
            timeout: TDR_DELAY,
            limits,
        })
    }

    /// Sets the adapter's name, for tools; empty by default.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.identity.name);
        self
    }

    /// Sets when power states change by themselves; never by default.
    #[must_use]
    pub fn with_power_policy(mut self, policy: PowerPolicy) -> Self {
        self.power.set_policy(policy);
        self
    }

    /// Sets when the slaves of a chain have power; whenever the device has, by default.
    #[must_use]
    pub fn with_gpu_power_policy(mut self, policy: GpuPowerPolicy) -> Self {
        self.gpu_power.set_policy(policy);
        self
    }

    /// Sets how long an engine may execute a queue without progress before that is a hang, and how long the work of a
    /// destroyed queue may take. Two seconds by default.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how the kernel deals with hangs.
    #[must_use]
    pub fn with_tdr_policy(mut self, policy: TdrPolicy) -> Self {
        self.tdr.set_policy(policy);
        self
    }

    /// Sets its place among the host's adapters, for tools.
    pub(crate) fn set_ordinal(&mut self, ordinal: u32) {
        self.identity.ordinal = ordinal;
    }

    /// Lends the kernel the fences that guests of several adapters share, or takes them back.
    pub(crate) fn swap_cross_fences(&mut self, cross_fences: &mut CrossFences) {
        std::mem::swap(&mut self.cross_fences, cross_fences);
    }

    /// Sets the time. Monotonic; the epoch is arbitrary.
    pub fn set_time(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Whether the paging of any guest is under way. Detaching guests do not count.
    pub(crate) fn is_paging(&self) -> bool {
        let is_busy = |guest: &Guest| guest.paging.is_busy() && !guest.is_detaching();
        self.paging.iter().any(|guest| self.guests.get(guest).is_some_and(is_busy))
    }

    /// Whether a queue has unfinished work, if its context is as wanted: "In order for Dxgkrnl to know whether a
    /// particular hardware queue has pending work, the UMD needs to update the queued progress fence value"
    /// (user-mode work submission, "HW queue progress fence changes").
    pub(crate) fn has_work(
        &self,
        id: HwQueueId,
        owner: &QueueOwner,
        is_wanted: impl Fn(&Context) -> bool,
    ) -> bool {
        let QueueOwner { guest, process, handle, progress_fence, .. } = *owner;
        let Some(state) = self.guests.get(&guest) else { return false };
        let Ok(queue) = state.handles.get::<HwQueue>(process, handle) else { return false };
        let context = state.handles.get::<Context>(process, queue.context());
        if queue.is_in_error() || !context.is_ok_and(is_wanted) {
            return false;
        }
        let queued = self.platform.last_queued_value(id).reported();
        !queue.is_idle() || queued > self.platform.fence_value(guest, progress_fence).reported()
    }
}
