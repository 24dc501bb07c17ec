// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest with an interceptor between driver and device.

use crate::guest::Guest;
use bellhop_guest_umd::transport::virtqueue::Descriptor;
use bellhop_guest_umd::transport::{
    BarMapping, DmaMemory, Donations, SystemMemory, Transport, TransportError,
};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::control::{ReplyHeader, RequestCode, RequestHeader};
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// Changes the driver's view of its device and of the guest's memory.
pub trait Intercept: Send + Sync {
    /// The answer to a request, which the device then never sees.
    fn answer(&self, _code: RequestCode, _body: &[u8]) -> Option<Status> {
        None
    }

    /// Changes the body of a request on its way to the device.
    fn change(&self, _code: RequestCode, _body: &mut [u8]) {}

    /// Alters the body of the device's answer to a request.
    fn alter(&self, _code: RequestCode, _body: &mut [u8]) {}

    /// Alters an event on its way to the driver.
    fn tell(&self, _event: &mut Event) {}

    /// Replaces memory that the guest gives to the driver, in a file or not.
    fn allocated(&self, memory: Box<dyn SystemMemory>) -> Box<dyn SystemMemory> {
        memory
    }
}

/// A guest whose driver speaks with its device through an [`Intercept`].
pub struct Intercepted<I, G: ?Sized = dyn Guest> {
    /// The interceptor.
    pub intercept: I,
    /// The guest.
    pub guest: Arc<G>,
}

impl<I: Intercept, G: ?Sized> Intercepted<I, G> {
    /// A request as the device gets it.
    fn changed(&self, request: &[u8], code: RequestCode) -> Vec<u8> {
        let mut request = request.to_vec();
        if let Some(body) = request.get_mut(size_of::<RequestHeader>()..) {
            self.intercept.change(code, body);
        }
        request
    }
}

impl<I: Intercept, G: Transport + ?Sized> Transport for Intercepted<I, G> {
    fn config(&self) -> ConfigSpace {
        self.guest.config()
    }

    fn features(&self) -> Features {
        self.guest.features()
    }

    fn bar(&self) -> Option<BarMapping> {
        self.guest.bar()
    }

    fn donations(&self) -> &Donations {
        self.guest.donations()
    }

    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        let Ok((header, body)) = RequestHeader::read_from_prefix(request) else {
            return self.guest.request(request, reply);
        };
        if let Some(status) = self.intercept.answer(header.code, body) {
            let length = size_of::<ReplyHeader>();
            let answer = ReplyHeader { status, length: length as u32, detail: 0 };
            reply[..length].copy_from_slice(answer.as_bytes());
            return Ok(length);
        }
        let length = self.guest.request(&self.changed(request, header.code), reply)?;
        if let Some(body) = reply.get_mut(size_of::<ReplyHeader>()..length) {
            self.intercept.alter(header.code, body);
        }
        Ok(length)
    }

    fn post(&self, request: &[u8]) -> Result<(), TransportError> {
        match RequestHeader::read_from_prefix(request) {
            Ok((header, body)) if self.intercept.answer(header.code, body).is_some() => Ok(()),
            Ok((header, _)) => self.guest.post(&self.changed(request, header.code)),
            Err(_) => self.guest.post(request),
        }
    }

    fn kick(&self) -> Result<(), TransportError> {
        self.guest.kick()
    }

    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        let mut event = self.guest.next_event(timeout)?;
        if let Some(event) = &mut event {
            self.intercept.tell(event);
        }
        Ok(event)
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        Ok(self.intercept.allocated(self.guest.allocate(size)?))
    }

    fn allocate_file(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        Ok(self.intercept.allocated(self.guest.allocate_file(size)?))
    }

    fn check(&self) -> Result<(), TransportError> {
        self.guest.check()
    }
}

impl<I: Intercept, G: Guest + ?Sized> Guest for Intercepted<I, G> {
    fn offer_raw(&self, descriptors: &[Descriptor]) -> Result<u32, TransportError> {
        self.guest.offer_raw(descriptors)
    }

    fn memory(&self, length: u64) -> Result<DmaMemory, TransportError> {
        self.guest.memory(length)
    }

    fn reset(&self) -> anyhow::Result<()> {
        self.guest.reset()
    }

    fn reached(&self) -> String {
        self.guest.reached()
    }

    fn end_of_memory(&self) -> u64 {
        self.guest.end_of_memory()
    }
}
