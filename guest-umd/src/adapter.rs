//! The adapter: one process's view of the GPU.

use crate::areas::{Areas, read_header};
use crate::device::Device;
use crate::donation::{donate, to_donate};
use crate::error::Error;
use crate::events::EventPump;
use crate::placement::{Costs, PlacementPolicy, Placements};
use crate::session::{self, Link, Session};
use crate::transport::{BarMapping, Transport, Watched};
use bellhop_protocol::bar::{AreaKind, BarHeader};
use bellhop_protocol::config::CONFIG_MAGIC;
use bellhop_protocol::control::Request;
use bellhop_protocol::control::adapter::{
    ADAPTER_BAR_MAPPED, AdapterInfo, CAPS_GLOBAL_DOORBELL, GetNodeMetadata, NativeFenceCaps,
    NodeMetadata, OpenAdapter, QueryBarLayout, QueryNativeFenceCaps, QueryStatistics,
    QueryUserModeSubmissionCaps, Statistics, UserModeSubmissionCaps,
};
use bellhop_protocol::control::escape::Escape;
use bellhop_protocol::control::power::{
    DevicePowerState, EnginePowerState, PowerInfo, QueryPower, SetDevicePower, SetEnginePower,
};
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use std::sync::Arc;

/// A part of a list, from [`Adapter::escape`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscapedObjects {
    /// [`Escape::after`] for the next part, or 0 when that was all.
    pub next: u64,
    /// The objects, of types of [`bellhop_protocol::snapshot`]: an array in JSON.
    pub objects: Vec<u8>,
}

/// An open adapter. What it creates keeps the process alive; the process ends with the last of it.
pub struct Adapter {
    session: Arc<Session>,
    info: AdapterInfo,
    local_memory: u64,
    costs: Option<Costs>,
}

impl Adapter {
    /// Opens the adapter (`D3DKMTOpenAdapter`) and begins a process on it. What driver and device
    /// share is where accesses to it are fast.
    ///
    /// # Errors
    /// When the device is not a Bellhop GPU, speaks another version, or cannot be reached.
    pub fn open(transport: Arc<dyn Transport>) -> Result<Self, Error> {
        Self::open_with(transport, PlacementPolicy::Measured)
    }

    /// The same with a say in where things are.
    ///
    /// # Errors
    /// Also when there is not enough guest memory to give to the device.
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
        let link = Link { transport, gone, events, features, global_doorbell, areas, placements };
        let session = Session::begin(Arc::new(link))?;
        Ok(Self { session, info, local_memory, costs })
    }

    /// Begins another process on the same device. Processes on one transport must come from one
    /// [`Self::open`]: they share its event queue.
    ///
    /// # Errors
    /// When the device has no room for another.
    pub fn open_process(&self) -> Result<Self, Error> {
        let session = Session::begin(Arc::clone(&self.session.link))?;
        let Self { info, local_memory, costs, .. } = *self;
        Ok(Self { session, info, local_memory, costs })
    }

    /// The process's number, as events and requests name it.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.session.process()
    }

    /// The features that are on.
    #[must_use]
    pub fn features(&self) -> Features {
        self.session.link.features
    }

    /// Bytes of CPU-visible local memory that this guest may use.
    #[must_use]
    pub fn local_memory(&self) -> u64 {
        self.local_memory
    }

    /// Where what driver and device share is.
    #[must_use]
    pub fn placements(&self) -> Placements {
        self.session.link.placements
    }

    /// What accesses cost, where that was measured.
    #[must_use]
    pub fn costs(&self) -> Option<Costs> {
        self.costs
    }

    /// What each node is, by ordinal (`DxgkDdiGetNodeMetadata`).
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn nodes(&self) -> Result<Vec<NodeMetadata>, Error> {
        let metadata = |node| self.adapter_call(&GetNodeMetadata { node, reserved: 0 });
        (0..self.info.node_count).map(metadata).collect()
    }

    /// `DXGKQAITYPE_USERMODESUBMISSION_CAPS`.
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn user_mode_submission_caps(&self) -> Result<UserModeSubmissionCaps, Error> {
        self.adapter_call(&QueryUserModeSubmissionCaps { reserved: 0 })
    }

    /// Whether there are native fences, and what they are like (`KMTQAITYPE_WDDM_3_1_CAPS`).
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn native_fence_caps(&self) -> Result<NativeFenceCaps, Error> {
        self.adapter_call(&QueryNativeFenceCaps { reserved: 0 })
    }

    /// `D3DKMTEscape`: some of this guest's objects.
    ///
    /// # Errors
    /// When there is no such list or nothing whose objects it could be, or the device cannot be
    /// reached.
    pub fn escape(&self, escape: &Escape) -> Result<EscapedObjects, Error> {
        let reply = self.adapter_call(escape)?;
        let objects = usize::try_from(reply.length).ok().and_then(|end| reply.data.get(..end));
        let objects = objects.ok_or(Error::BadReply(Escape::CODE))?.to_vec();
        Ok(EscapedObjects { next: reply.next, objects })
    }

    /// What the device counted.
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.adapter_call(&QueryStatistics { reserved: 0 })
    }

    /// What state the device and a node's engine are in.
    ///
    /// # Errors
    /// When there is no such node, or the device cannot be reached.
    pub fn power(&self, node: u32) -> Result<PowerInfo, Error> {
        self.adapter_call(&QueryPower { node, reserved: 0 })
    }

    /// Changes the device's power state, for every guest. Returns when it has changed.
    ///
    /// # Errors
    /// When the host does not let this guest, or somebody needed the device before it was in D3.
    pub fn set_device_power(&self, state: DevicePowerState) -> Result<(), Error> {
        self.check_power_control()?;
        self.adapter_call(&SetDevicePower { state, reserved: 0 })
    }

    /// Changes an engine's power state, for every guest. An engine that has work stays in F0.
    ///
    /// # Errors
    /// When the host does not let this guest.
    pub fn set_engine_power(&self, node: u32, state: EnginePowerState) -> Result<(), Error> {
        self.check_power_control()?;
        self.adapter_call(&SetEnginePower { node, state })
    }

    fn check_power_control(&self) -> Result<(), Error> {
        match self.features().contains(Features::POWER_CONTROL) {
            true => Ok(()),
            false => Err(Error::NotAvailable("power control")),
        }
    }

    /// Ends the process as the operating system does when a program dies: nothing of what its queues
    /// were given executes when this returns, and all that it had is gone.
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn terminate_abnormally(&self) -> Result<(), Error> {
        self.session.call(&DestroyProcess { flags: TERMINATED_ABNORMALLY })
    }

    /// `D3DKMTCreateDevice`.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_device(&self) -> Result<Device, Error> {
        Device::create(Arc::clone(&self.session))
    }

    fn adapter_call<T: bellhop_protocol::control::Request>(
        &self,
        request: &T,
    ) -> Result<T::Reply, Error> {
        session::call(&*self.session.link.transport, 0, request, &[])
    }
}

/// What came of deciding where things are.
struct Placed {
    areas: Option<Areas>,
    placements: Placements,
    costs: Option<Costs>,
}

/// Decides where things are and gives the device the memory that it needs for that.
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
    if placements.needs_donations() && !can_donate {
        return Err(Error::NotAvailable("memory of the guest's for areas of the BAR"));
    }
    for kind in to_donate(placements) {
        donate(transport, &header, kind)?;
    }
    let areas = Areas::new(&header, bar.as_ref(), transport.donations().all())?;
    Ok(Placed { areas: Some(areas), placements, costs })
}

/// Whether all queues ring one doorbell.
fn has_global_doorbell(transport: &dyn Transport) -> Result<bool, Error> {
    let query = QueryUserModeSubmissionCaps { reserved: 0 };
    let caps = session::call(transport, 0, &query, &[])?;
    Ok(caps.flags & CAPS_GLOBAL_DOORBELL != 0)
}

/// Opens the adapter with all features that were negotiated or, where the device has switched off
/// some since, for want of a BAR, with those that it names.
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
