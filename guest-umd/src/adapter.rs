// SPDX-License-Identifier: MIT OR Apache-2.0

//! The adapter: a process on the GPU, and its queries about the GPU.

use crate::error::Error;
use crate::link::areas::{Areas, read_header};
use crate::link::donation::{donate, to_donate};
use crate::link::events::EventPump;
use crate::link::placement::{Costs, PlacementPolicy, Placements};
use crate::link::session::{self, Link, Session};
use crate::link::spread::Spread;
use crate::transport::find::find;
use crate::transport::{BarMapping, Transport, Watched};
use bellhop_protocol::bar::{AreaKind, BarHeader};
use bellhop_protocol::config::CONFIG_MAGIC;
use bellhop_protocol::control::Request;
use bellhop_protocol::control::adapter::{
    ADAPTER_BAR_MAPPED, AdapterInfo, CAPS_GLOBAL_DOORBELL, EngineType, GetNodeMetadata,
    NativeFenceCaps, NodeMetadata, OpenAdapter, QueryBarLayout, QueryNativeFenceCaps,
    QueryStatistics, QueryUserModeSubmissionCaps, Statistics, UserModeSubmissionCaps,
};
use bellhop_protocol::control::escape::Escape;
use bellhop_protocol::control::power::{
    DevicePowerState, EnginePowerState, GpuPowerInfo, PowerInfo, QueryGpuPower, QueryPower,
    SetDevicePower, SetEnginePower,
};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use std::sync::Arc;

/// One page of a list: the answer to [`Adapter::escape`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscapedObjects {
    /// [`Escape::after`] for the next page, or 0 after the last.
    pub next: u64,
    /// The objects, of types of [`bellhop_protocol::snapshot`]: an array in JSON.
    pub objects: Vec<u8>,
}

/// An open adapter: one process on the GPU, of which a clone is another reference. The process ends when the adapter, its
/// clones and everything created on it are dropped.
#[derive(Clone)]
pub struct Adapter {
    session: Arc<Session>,
    info: AdapterInfo,
    local_memory: u64,
    costs: Option<Costs>,
}

impl Adapter {
    /// Opens the adapter of the device that [`find`] finds, which is what a program wants that knows nothing of its guest.
    ///
    /// # Errors
    /// [`Error::NoDevice`], which says what was tried and what to do, and as [`Self::open`].
    ///
    /// [`find`]: crate::transport::find::find
    pub fn open_default() -> Result<Self, Error> {
        Self::open(find()?)
    }

    /// Opens the adapter (`D3DKMTOpenAdapter`) and creates a process on it. The driver measures where shared memory
    /// is fast, and places rings, doorbells and fences there.
    ///
    /// # Errors
    /// [`Error::NotBellhop`] for another device, [`Error::Version`] for another protocol,
    /// [`Error::BadBar`] for a BAR that breaks the protocol.
    pub fn open(transport: Arc<dyn Transport>) -> Result<Self, Error> {
        Self::open_with(transport, PlacementPolicy::Measured)
    }

    /// Opens the adapter with shared memory placed as `policy` says.
    ///
    /// # Errors
    /// As [`Self::open`], and [`Error::NotAvailable`] if the policy needs donated memory and the device does not
    /// accept any.
    pub fn open_with(
        transport: Arc<dyn Transport>,
        policy: PlacementPolicy,
    ) -> Result<Self, Error> {
        let config = transport.config();
        if config.magic != CONFIG_MAGIC {
            return Err(Error::NotBellhop { magic: config.magic });
        }
        let driver = Version::CURRENT;
        if !driver.is_compatible_with(config.version) {
            return Err(Error::Version { device: config.version, driver });
        }
        let info = open(&*transport, transport.features())?;
        let bar = transport.bar().filter(|_| info.flags & ADAPTER_BAR_MAPPED != 0);
        let Placed { areas, placements, costs } = place(&*transport, &info, bar, policy)?;
        let donated = transport.donations().all();
        let local_memory = donated
            .get(&AreaKind::LOCAL_MEMORY)
            .map_or(info.local_memory, |memory| memory.len() as u64);
        let (transport, gone) = Watched::new(transport);
        let transport: Arc<dyn Transport> = Arc::new(transport);
        let events = EventPump::new(Arc::clone(&transport));
        let features = Features::from_bits_truncate(info.features);
        let global_doorbell =
            features.contains(Features::USER_MODE_SUBMISSION) && has_global_doorbell(&*transport)?;
        let spread = Arc::new(Spread::default());
        let has_local_memory = local_memory > 0;
        let link = Link {
            transport,
            gone,
            events,
            features,
            global_doorbell,
            areas,
            placements,
            has_local_memory,
            spread,
        };
        let session = Session::begin(Arc::new(link))?;
        Ok(Self { session, info, local_memory, costs })
    }

    /// Creates another process. All processes on one transport must come from one [`Self::open`]: they share its
    /// event queue.
    ///
    /// # Errors
    /// [`Error::Refused`] if the guest reached its limit of processes.
    pub fn open_process(&self) -> Result<Self, Error> {
        let session = Session::begin(Arc::clone(&self.session.link))?;
        let Self { info, local_memory, costs, .. } = *self;
        Ok(Self { session, info, local_memory, costs })
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The process's number, by which requests and events name it.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.session.process()
    }

    /// The enabled features.
    #[must_use]
    pub fn features(&self) -> Features {
        self.session.link.features
    }

    /// Bytes of CPU-visible local memory that this guest may use.
    #[must_use]
    pub fn local_memory(&self) -> u64 {
        self.local_memory
    }

    /// Bytes of the guest's own memory that allocations which never move can have in all, used or not. `None` if they are taken
    /// from the guest's system, as long as it has some.
    #[must_use]
    pub fn system_memory(&self) -> Option<u64> {
        self.session.link.transport.memory_size()
    }

    /// The placement of shared memory.
    #[must_use]
    pub fn placements(&self) -> Placements {
        self.session.link.placements
    }

    /// The measured costs of accesses, if they were measured.
    #[must_use]
    pub fn costs(&self) -> Option<Costs> {
        self.costs
    }

    /// Describes each node, by ordinal (`DxgkDdiGetNodeMetadata`).
    ///
    /// # Errors
    /// Only the common errors.
    pub fn nodes(&self) -> Result<Vec<NodeMetadata>, Error> {
        let metadata = |node| self.adapter_call(&GetNodeMetadata { node, reserved: 0 });
        (0..self.info.node_count).map(metadata).collect()
    }

    /// The best node of a type for new work: the one with the fewest contexts of this program. Among equals, the
    /// device suggests one, and different ones to different guests. If any node of the type supports user-mode
    /// submission, this one does.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if there is no node of the type.
    pub fn least_used_node(&self, engine_type: EngineType) -> Result<u32, Error> {
        let least_used = self.session.link.spread.least_used(&self.nodes()?, engine_type, |_| true);
        least_used.ok_or(Error::NotAvailable("a node of this type"))
    }

    /// How many GPUs the adapter has: those of its chain, or one. They have ordinals from 0, the master's.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn gpus(&self) -> Result<u8, Error> {
        let last = self.nodes()?.iter().map(NodeMetadata::gpu).max();
        Ok(last.map_or(1, |last| last.saturating_add(1)))
    }

    /// As [`Self::least_used_node`], among the nodes of one GPU of the chain.
    ///
    /// # Errors
    /// As [`Self::least_used_node`].
    pub fn least_used_node_of(&self, gpu: u8, engine_type: EngineType) -> Result<u32, Error> {
        let is_there = |node: &NodeMetadata| node.gpu() == gpu;
        let nodes = self.nodes()?;
        let least_used = self.session.link.spread.least_used(&nodes, engine_type, is_there);
        least_used.ok_or(Error::NotAvailable("a node of this type on this GPU"))
    }

    /// The capabilities of user-mode submission and its doorbells (`DXGKQAITYPE_USERMODESUBMISSION_CAPS`).
    ///
    /// # Errors
    /// Only the common errors.
    pub fn user_mode_submission_caps(&self) -> Result<UserModeSubmissionCaps, Error> {
        self.adapter_call(&QueryUserModeSubmissionCaps { reserved: 0 })
    }

    /// The capabilities of native fences and their types (`KMTQAITYPE_WDDM_3_1_CAPS`).
    ///
    /// # Errors
    /// Only the common errors.
    pub fn native_fence_caps(&self) -> Result<NativeFenceCaps, Error> {
        self.adapter_call(&QueryNativeFenceCaps { reserved: 0 })
    }

    /// Lists objects of this guest, a page at a time (`D3DKMTEscape`).
    ///
    /// # Errors
    /// [`Error::Refused`] if the list or its owner does not exist.
    pub fn escape(&self, escape: &Escape) -> Result<EscapedObjects, Error> {
        let reply = self.adapter_call(escape)?;
        let objects = usize::try_from(reply.length).ok().and_then(|end| reply.data.get(..end));
        let objects = objects.ok_or(Error::BadReply(Escape::CODE))?.to_vec();
        Ok(EscapedObjects { next: reply.next, objects })
    }

    /// The device's counters for this guest.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.adapter_call(&QueryStatistics { reserved: 0 })
    }

    /// The power states of the device and of a node's engine.
    ///
    /// # Errors
    /// [`Error::Refused`] if the node does not exist.
    pub fn power(&self, node: u32) -> Result<PowerInfo, Error> {
        self.adapter_call(&QueryPower { node, reserved: 0 })
    }

    /// The power of a GPU of the chain; 0 is the master.
    ///
    /// # Errors
    /// [`Error::Refused`] if the GPU does not exist.
    pub fn gpu_power(&self, gpu: u8) -> Result<GpuPowerInfo, Error> {
        self.adapter_call(&QueryGpuPower { gpu: gpu.into(), reserved: 0 })
    }

    /// Changes the device's power state (D-state), for every guest. Returns after the change.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if the host does not allow it; [`Error::Refused`] if a guest needed the device
    /// before it reached D3.
    pub fn set_device_power(&self, state: DevicePowerState) -> Result<(), Error> {
        self.check_power_control()?;
        self.adapter_call(&SetDevicePower { state, reserved: 0 })
    }

    /// Changes an engine's power state (F-state), for every guest. An engine that has work stays in F0.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if the host does not allow it.
    pub fn set_engine_power(&self, node: u32, state: EnginePowerState) -> Result<(), Error> {
        self.check_power_control()?;
        self.adapter_call(&SetEnginePower { node, state })
    }

    fn check_power_control(&self) -> Result<(), Error> {
        if !self.features().contains(Features::POWER_CONTROL) {
            return Err(Error::NotAvailable("power control"));
        }
        Ok(())
    }

    /// Ends the process as the operating system ends the process of a crashed program. When this returns, none of
    /// its submissions executes, and its objects are destroyed: drop them, and use them no more.
    ///
    /// Source: user-mode work submission, "Normal and abnormal process termination".
    ///
    /// # Errors
    /// Only the common errors.
    pub fn terminate_abnormally(&self) -> Result<(), Error> {
        self.session.terminate()
    }

    pub(crate) fn adapter_call<T: bellhop_protocol::control::Request>(
        &self,
        request: &T,
    ) -> Result<T::Reply, Error> {
        session::call(&*self.session.link.transport, 0, request, &[])
    }
}

/// The resulting placement of shared memory.
struct Placed {
    areas: Option<Areas>,
    placements: Placements,
    costs: Option<Costs>,
}

/// Places shared memory, and donates what the placement requires.
fn place(
    transport: &dyn Transport,
    info: &AdapterInfo,
    bar: Option<BarMapping>,
    policy: PlacementPolicy,
) -> Result<Placed, Error> {
    let can_donate = Features::from_bits_truncate(info.features).contains(Features::DONATED_AREAS);
    let header: BarHeader = match &bar {
        Some(bar) => read_header(bar)?,
        None if can_donate => session::call(transport, 0, &QueryBarLayout { reserved: 0 }, &[])?,
        None => return Ok(Placed { areas: None, placements: Placements::BAR, costs: None }),
    };
    let mut costs = None;
    let placements = match (policy, &bar) {
        (PlacementPolicy::Fixed(placements), Some(_)) => placements,
        (PlacementPolicy::Measured, Some(bar)) if can_donate => {
            costs.insert(Costs::measure(bar, &header)?).placements()
        }
        (PlacementPolicy::Measured, Some(_)) => Placements::BAR,
        (_, None) => Placements::GUEST_MEMORY,
    };
    let placements = if info.local_memory == 0 { placements.without_local() } else { placements };
    if placements.needs_donations() && !can_donate {
        return Err(Error::NotAvailable("guest memory for areas of the BAR"));
    }
    for kind in to_donate(placements) {
        donate(transport, &header, kind)?;
    }
    let areas = Areas::new(&header, bar.as_ref(), transport.donations().all())?;
    Ok(Placed { areas: Some(areas), placements, costs })
}

/// Returns whether all queues ring one doorbell word.
fn has_global_doorbell(transport: &dyn Transport) -> Result<bool, Error> {
    let query = QueryUserModeSubmissionCaps { reserved: 0 };
    let caps = session::call(transport, 0, &query, &[])?;
    Ok(caps.flags & CAPS_GLOBAL_DOORBELL != 0)
}

/// Opens the adapter with all negotiated features. A device without a BAR has since disabled some of them, and its
/// refusal names the rest; the adapter is then opened with those.
fn open(transport: &dyn Transport, features: Features) -> Result<AdapterInfo, Error> {
    let version = Version::CURRENT;
    let request =
        |features: Features| OpenAdapter { version, reserved: 0, features: features.bits() };
    match session::call(transport, 0, &request(features), &[]) {
        Err(Error::Refused { status: Status::REVISION_MISMATCH, detail, .. })
            if version.is_compatible_with(transport.config().version) =>
        {
            let left = features & Features::from_bits_truncate(detail);
            session::call(transport, 0, &request(left), &[])
        }
        result => result,
    }
}
