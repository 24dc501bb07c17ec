// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device, on which a process creates its objects.

use crate::adapter::Adapter;
use crate::error::Error;
use crate::link::session::Session;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use std::sync::Arc;

impl Adapter {
    /// Creates a device for this process (`D3DKMTCreateDevice`).
    ///
    /// # Errors
    /// [`Error::Refused`] if the process reached its limit of devices.
    pub fn create_device(&self) -> Result<Device, Error> {
        Device::create(Arc::clone(self.session()))
    }
}

/// A device: allocations, contexts and fences are created on it. Clones name one device. It is destroyed when the
/// last clone and the last object on it are dropped.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    session: Arc<Session>,
    handle: Handle,
}

impl Device {
    fn create(session: Arc<Session>) -> Result<Self, Error> {
        let handle = session.call(&CreateDevice { reserved: 0 })?;
        Ok(Self(Arc::new(Inner { session, handle })))
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// The device's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.0.handle
    }

    /// Names the device for people: `bellhop inspect` and `bellhop trace` show the name. Of a text of more than
    /// [`MAX_OBJECT_NAME`](bellhop_protocol::control::process::MAX_OBJECT_NAME) bytes it is the beginning, control characters
    /// are `?` in it, and an empty one takes the name away. Names are a request each, and the device acts on nothing of them.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if the device is older than names.
    pub fn set_name(&self, name: &str) -> Result<(), Error> {
        self.session().set_name(self.handle(), name)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // An unreachable device has already forgotten it.
        let _ = self.session.call(&DestroyDevice { device: self.handle });
    }
}
