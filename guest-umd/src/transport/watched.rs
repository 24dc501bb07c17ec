// SPDX-License-Identifier: MIT OR Apache-2.0

//! A transport that records that its device is gone.

use super::{BarMapping, Donations, SystemMemory, Transport, TransportError};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Whether a device is permanently gone.
///
/// The doorbells, statuses and fences of a device that is gone stay in memory unchanged, so nothing there tells a
/// driver that its rings are no longer read. This does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gone(Arc<OnceLock<Reason>>);

/// Why a device is gone.
#[derive(Debug)]
enum Reason {
    Disconnected(String),
    Replaced,
}

impl Gone {
    /// Whether the device is known to be gone.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        self.0.get().is_some()
    }

    /// The error of every request, once the device is known to be gone.
    pub(crate) fn error(&self) -> Option<TransportError> {
        self.0.get().map(|reason| match reason {
            Reason::Disconnected(why) => TransportError::Disconnected(why.clone()),
            Reason::Replaced => TransportError::Replaced,
        })
    }

    fn note(&self, error: &TransportError) {
        let reason = match error {
            TransportError::Disconnected(why) => Reason::Disconnected(why.clone()),
            TransportError::Replaced => Reason::Replaced,
            _ => return,
        };
        // The first reason stays.
        let _ = self.0.set(reason);
    }
}

/// A transport that fails every request once one has found the device gone.
pub(crate) struct Watched {
    transport: Arc<dyn Transport>,
    gone: Gone,
}

impl Watched {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> (Self, Gone) {
        let gone = Gone::default();
        (Self { transport, gone: gone.clone() }, gone)
    }

    /// Sends a request to the device, unless it is gone: a replacement device must not get its requests.
    fn ask<T>(
        &self,
        ask: impl FnOnce(&dyn Transport) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        if let Some(gone) = self.gone.error() {
            return Err(gone);
        }
        let result = ask(&*self.transport);
        if let Err(error) = &result {
            self.gone.note(error);
        }
        result
    }
}

impl Transport for Watched {
    fn config(&self) -> ConfigSpace {
        self.transport.config()
    }

    fn features(&self) -> Features {
        self.transport.features()
    }

    fn bar(&self) -> Option<BarMapping> {
        self.transport.bar()
    }

    fn donations(&self) -> &Donations {
        self.transport.donations()
    }

    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        self.ask(|device| device.request(request, reply))
    }

    fn post(&self, request: &[u8]) -> Result<(), TransportError> {
        self.ask(|device| device.post(request))
    }

    fn kick(&self) -> Result<(), TransportError> {
        self.ask(|device| device.kick())
    }

    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        self.ask(|device| device.next_event(timeout))
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.transport.allocate(size)
    }

    fn memory_size(&self) -> Option<u64> {
        self.transport.memory_size()
    }

    fn check(&self) -> Result<(), TransportError> {
        self.ask(|device| device.check())
    }
}
