// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process's requests to the device.

use crate::error::Error;
use crate::link::areas::Areas;
use crate::link::events::{EventPump, NO_WAIT};
use crate::link::placement::Placements;
use crate::link::spread::Spread;
use crate::transport::{Gone, Transport};
use bellhop_protocol::control::fence::CancelWait;
use bellhop_protocol::control::process::{
    CreateProcess, DestroyProcess, SetObjectName, TERMINATED_ABNORMALLY,
};
use bellhop_protocol::control::{Handle, MAX_REPLY_SIZE, ReplyHeader, Request, RequestHeader};
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::{FromBytes, IntoBytes};

/// The state that all processes on one transport share.
pub(crate) struct Link {
    pub(crate) transport: Arc<dyn Transport>,
    /// Whether the device is known to be gone.
    pub(crate) gone: Gone,
    pub(crate) events: EventPump,
    /// The enabled features.
    pub(crate) features: Features,
    /// Whether all queues ring one doorbell word.
    pub(crate) global_doorbell: bool,
    /// Memory that both sides can access. Without it, there is no user-mode submission.
    pub(crate) areas: Option<Areas>,
    /// The place of shared memory, unless the program chooses.
    pub(crate) placements: Placements,
    /// Whether there is local memory that CPUs access.
    pub(crate) has_local_memory: bool,
    /// The contexts on each node.
    pub(crate) spread: Arc<Spread>,
}

impl Link {
    /// The error for a queue that executes nothing more: the queue is lost, with the device's reason, or the device
    /// is gone.
    pub(crate) fn queue_lost(&self, process: u32, queue: Handle) -> Error {
        // If the device is gone, the end of this says so.
        let _ = self.events.drain();
        if self.events.known_fault(process, queue).is_none() {
            // The device has sent the reason before it answers this. A process that ended has no reason to be told.
            let _ = self.check_process(process);
        }
        let fault = self.events.fault(process, queue);
        match self.gone.error() {
            Some(gone) => gone.into(),
            None => Error::QueueLost { queue, fault },
        }
    }

    /// Fails if the process has ended, or the device is gone.
    fn check_process(&self, process: u32) -> Result<(), Error> {
        // No wait has this cookie, which a process that lives is told.
        match call(&*self.transport, process, &CancelWait { cookie: NO_WAIT }, &[]) {
            Err(Error::Refused { status: Status::INVALID_PARAMETER, .. }) => Ok(()),
            answered => answered,
        }
    }
}

/// One process, with its own handles and GPU virtual addresses. Ended on drop.
pub(crate) struct Session {
    pub(crate) link: Arc<Link>,
    process: u32,
    has_ended: AtomicBool,
}

impl Session {
    pub(crate) fn begin(link: Arc<Link>) -> Result<Arc<Self>, Error> {
        let reply = call(&*link.transport, 0, &CreateProcess { reserved: 0 }, &[])?;
        Ok(Arc::new(Self { link, process: reply.process, has_ended: AtomicBool::new(false) }))
    }

    /// Names an object of the process for people.
    pub(crate) fn set_name(&self, object: Handle, name: &str) -> Result<(), Error> {
        if !self.link.features.contains(Features::OBJECT_NAMES) {
            return Err(Error::NotAvailable("names of objects"));
        }
        self.call(&SetObjectName::new(object, name))
    }

    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Ends the process with everything in use. Its objects are dropped later.
    pub(crate) fn terminate(&self) -> Result<(), Error> {
        self.call(&DestroyProcess { flags: TERMINATED_ABNORMALLY })?;
        // Relaxed: who drops an object after this got it, or the news, from this thread.
        self.has_ended.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the device has destroyed the process's objects: its doorbells, rings and fences may be another one's.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn call<T: Request>(&self, request: &T) -> Result<T::Reply, Error> {
        call(&*self.link.transport, self.process, request, &[])
    }

    /// Sends a request followed by a list.
    pub(crate) fn call_with_list<T: Request>(
        &self,
        request: &T,
        list: &[u8],
    ) -> Result<T::Reply, Error> {
        call(&*self.link.transport, self.process, request, list)
    }

    /// Sends a request followed by a list; the reply is a status alone. Returns the status: `SUCCESS` or `PENDING`.
    pub(crate) fn start_with_list<T: Request<Reply = ()>>(
        &self,
        request: &T,
        list: &[u8],
    ) -> Result<Status, Error> {
        let (status, _) = exchange(&*self.link.transport, self.process, request, list)?;
        Ok(status)
    }

    /// Fails if the process has ended, or the device is gone.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.link.check_process(self.process)
    }

    /// Sends a request without waiting for the reply. A refusal shows in its effects.
    pub(crate) fn post<T: Request>(&self, request: &T) -> Result<(), Error> {
        let bytes = message(self.process, request, &[]);
        Ok(self.link.transport.post(&bytes)?)
    }

    /// The areas, for operations that need them.
    pub(crate) fn areas(&self) -> Result<&Areas, Error> {
        self.link.areas.as_ref().ok_or(Error::NotAvailable("memory that guest and device share"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.has_ended() {
            // A device that is gone has already forgotten the process.
            let _ = self.call(&DestroyProcess { flags: 0 });
        }
        self.link.events.forget_process(self.process);
    }
}

/// Sends a request and waits for its reply.
pub(crate) fn call<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
    list: &[u8],
) -> Result<T::Reply, Error> {
    let (_, body) = exchange(transport, process, request, list)?;
    body.ok_or(Error::BadReply(T::CODE))
}

/// A request with its header and list.
fn message<T: Request>(process: u32, request: &T, list: &[u8]) -> Vec<u8> {
    let length = size_of::<RequestHeader>() + size_of::<T>() + list.len();
    let header = RequestHeader { code: T::CODE, length: length as u32, process, reserved: 0 };
    [header.as_bytes(), request.as_bytes(), list].concat()
}

fn exchange<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
    list: &[u8],
) -> Result<(Status, Option<T::Reply>), Error> {
    let bytes = message(process, request, list);
    let mut reply = [0; MAX_REPLY_SIZE];
    let length = transport.request(&bytes, &mut reply)?;
    let reply = reply.get(..length).ok_or(Error::BadReply(T::CODE))?;
    let (header, body) =
        ReplyHeader::read_from_prefix(reply).map_err(|_| Error::BadReply(T::CODE))?;
    if !header.status.is_success() {
        // A replacement device refuses every request of this process.
        transport.check()?;
        let ReplyHeader { status, detail, .. } = header;
        return Err(Error::Refused { request: T::CODE, status, detail });
    }
    Ok((header.status, T::Reply::read_from_prefix(body).ok().map(|(body, _)| body)))
}
