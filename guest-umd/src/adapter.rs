//! The adapter: one process's view of the GPU.

use crate::bar::Bar;
use crate::device::Device;
use crate::error::Error;
use crate::events::EventPump;
use crate::session::{self, Link, Session};
use crate::transport::Transport;
use bellhop_protocol::config::CONFIG_MAGIC;
use bellhop_protocol::control::adapter::{
    ADAPTER_BAR_MAPPED, AdapterInfo, GetNodeMetadata, NodeMetadata, OpenAdapter, QueryStatistics,
    QueryUserModeSubmissionCaps, Statistics, UserModeSubmissionCaps,
};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use std::sync::Arc;

/// An open adapter. What it creates keeps the process alive; the process ends with the last of it.
pub struct Adapter {
    session: Arc<Session>,
    info: AdapterInfo,
}

impl Adapter {
    /// Opens the adapter (`D3DKMTOpenAdapter`) and begins a process on it.
    ///
    /// # Errors
    /// When the device is not a Bellhop GPU, speaks another version, or cannot be reached.
    pub fn open(transport: Arc<dyn Transport>) -> Result<Self, Error> {
        let config = transport.config();
        if config.magic != CONFIG_MAGIC {
            return Err(Error::NotBellhop { magic: config.magic });
        }
        let driver = Version::CURRENT;
        if !driver.is_compatible_with(config.version) {
            return Err(Error::Version { device: config.version, driver });
        }
        let info = open(&*transport, transport.features())?;
        let bar = match (info.flags & ADAPTER_BAR_MAPPED, transport.bar()) {
            (0, _) | (_, None) => None,
            (_, Some(bar)) => Some(Bar::new(bar.region)?),
        };
        let events = EventPump::new(Arc::clone(&transport));
        let session = Session::begin(Arc::new(Link { transport, events, bar }))?;
        Ok(Self { session, info })
    }

    /// Begins another process on the same device. Processes on one transport must come from one
    /// [`Self::open`]: they share its event queue.
    ///
    /// # Errors
    /// When the device has no room for another.
    pub fn open_process(&self) -> Result<Self, Error> {
        let session = Session::begin(Arc::clone(&self.session.link))?;
        Ok(Self { session, info: self.info })
    }

    /// The process's number, as events and requests name it.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.session.process()
    }

    /// The features that are on.
    #[must_use]
    pub fn features(&self) -> Features {
        Features::from_bits_truncate(self.info.features)
    }

    /// Bytes of CPU-visible local memory that this guest may use.
    #[must_use]
    pub fn local_memory(&self) -> u64 {
        self.info.local_memory
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

    /// What the device counted.
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.adapter_call(&QueryStatistics { reserved: 0 })
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
