// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device as the broker has it: opened once, for all programs.

use bellhop_guest_umd::transport::{SystemMemory, Transport, TransportError};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::control::adapter::{ADAPTER_BAR_MAPPED, AdapterInfo, OpenAdapter};
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, Request, RequestHeader};
use bellhop_protocol::event::Event;
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// Why a request of the broker's own had no success.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("the device refused it: {0}, detail {1:#x}")]
    Refused(Status, u64),
    #[error("the device's reply breaks the protocol")]
    BadReply,
}

/// The features of a device that concern all programs of a guest at once.
const OF_THE_GUEST: Features = Features::POWER_CONTROL.union(Features::DONATED_AREAS);

/// The open device.
pub(super) struct Device {
    transport: Arc<dyn Transport>,
    info: AdapterInfo,
}

impl Device {
    /// Opens it with all features that the transport allows.
    pub(super) fn open(transport: Arc<dyn Transport>) -> Result<Self, DeviceError> {
        let features = transport.features().bits();
        let request = OpenAdapter { version: Version::CURRENT, reserved: 0, features };
        let info = call(&*transport, 0, &request, &[])?;
        Ok(Self { transport, info })
    }

    /// The enabled features.
    pub(super) fn features(&self) -> Features {
        Features::from_bits_truncate(self.info.features)
    }

    /// The features that programs may use.
    pub(super) fn features_of_programs(&self) -> Features {
        self.features() - OF_THE_GUEST
    }

    /// The configuration space.
    pub(super) fn config(&self) -> ConfigSpace {
        self.transport.config()
    }

    /// What a program hears of the adapter: it has a BAR of its own, and no memory there.
    pub(super) fn info_for(&self, features: Features) -> AdapterInfo {
        let flags = ADAPTER_BAR_MAPPED;
        AdapterInfo { features: features.bits(), local_memory: 0, flags, ..self.info }
    }

    /// Passes a request on. Returns the length of the reply.
    pub(super) fn request(&self, bytes: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        self.transport.request(bytes, reply)
    }

    /// Sends a request of the broker's own.
    pub(super) fn call<T: Request>(
        &self,
        process: u32,
        request: &T,
        list: &[u8],
    ) -> Result<T::Reply, DeviceError> {
        call(&*self.transport, process, request, list)
    }

    /// What the device's interrupt makes readable, if it is a descriptor.
    pub(super) fn interrupt(&self) -> Option<BorrowedFd<'_>> {
        self.transport.interrupt()
    }

    pub(super) fn kick(&self) -> Result<(), TransportError> {
        self.transport.kick()
    }

    pub(super) fn next_event(&self) -> Result<Option<Event>, TransportError> {
        self.transport.next_event(None)
    }

    pub(super) fn allocate_file(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.transport.allocate_file(size)
    }
}

fn call<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
    list: &[u8],
) -> Result<T::Reply, DeviceError> {
    let length = size_of::<RequestHeader>() + size_of::<T>() + list.len();
    let header = RequestHeader { code: T::CODE, length: length as u32, process, reserved: 0 };
    let bytes = [header.as_bytes(), request.as_bytes(), list].concat();
    let mut reply = [0; MAX_REPLY_SIZE];
    let length = transport.request(&bytes, &mut reply)?;
    let reply = reply.get(..length).ok_or(DeviceError::BadReply)?;
    let (header, body) = ReplyHeader::read_from_prefix(reply).map_err(|_| DeviceError::BadReply)?;
    if !header.status.is_success() {
        return Err(DeviceError::Refused(header.status, header.detail));
    }
    T::Reply::read_from_prefix(body).map(|(body, _)| body).map_err(|_| DeviceError::BadReply)
}
