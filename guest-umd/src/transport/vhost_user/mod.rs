// SPDX-License-Identifier: MIT OR Apache-2.0

//! The transport of a program in a container, or beside the daemon: the front end of a vhost-user connection.
//!
//! The program stands for a VM: it owns the guest's memory, drives real virtqueues, and maps the BAR where the device asks.
//!
//! Source: QEMU's `vhost-user.rst`.

pub(crate) mod conversation;
mod files;
pub(crate) mod notifications;
pub(crate) mod place;
pub(crate) mod ram;
pub(crate) mod requests;
pub(crate) mod window;

use super::device_queues::DeviceQueues;
use super::{BarMapping, Donations, MemoryType, SystemMemory, Transport, TransportError};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use conversation::Conversation;
use files::Files;
use notifications::{EventFds, Manners};
use place::Place;
use ram::GuestRam;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What the guest has.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes of memory that the device can access. They are taken from the system page by page, as they are used.
    pub memory: u64,
    /// Bellhop's own features, if the device offers them.
    pub features: Features,
}

impl Default for Options {
    fn default() -> Self {
        Self { memory: 256 << 20, features: Features::all() }
    }
}

/// A device behind a vhost-user socket. The connection ends on drop, and everything on the device with it.
pub struct VhostUser {
    /// Itself, for memory that the device loses when it is dropped.
    this: Weak<Self>,
    config: ConfigSpace,
    bar: Option<Place>,
    /// Before the memory, of which the device forgets everything when the connection ends.
    files: Files,
    features: Features,
    ram: Arc<GuestRam>,
    donations: Donations,
    queues: DeviceQueues<EventFds>,
}

impl VhostUser {
    /// Attaches the device that listens on `socket`, and starts it.
    ///
    /// # Errors
    /// If nothing listens there, this user may not connect, or what listens is no such device. A daemon closes the
    /// connection if it has no place for another guest.
    pub fn connect(socket: &Path, options: Options) -> Result<Arc<Self>, TransportError> {
        let socket = UnixStream::connect(socket)
            .map_err(|error| TransportError::Io("cannot connect to the device's socket", error))?;
        Self::over(socket, options)
    }

    /// Attaches the device at the other end of a connection, and starts it.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn over(socket: UnixStream, options: Options) -> Result<Arc<Self>, TransportError> {
        let ram = GuestRam::new(options.memory, u64::MAX, 0, true)?;
        let mut conversation = Conversation::begin(socket)?;
        let manners = Manners { has_interrupts: true, tells_of_ends: true };
        let notifications = |_| EventFds::new(conversation.socket(), manners);
        let queues = DeviceQueues::new(|length| ram.take(length as u64), notifications)?;
        conversation.start(&ram, &queues.each())?;
        queues.events.offer_buffers()?;
        let features =
            Features::from_bits_truncate(conversation.config().features) & options.features;
        let (config, bar) = (conversation.config(), conversation.bar());
        let (files, donations) = (Files::new(conversation, Arc::clone(&ram)), Donations::default());
        Ok(Arc::new_cyclic(|this| Self {
            this: this.clone(),
            config,
            bar,
            files,
            features,
            ram,
            donations,
            queues,
        }))
    }
}

impl Transport for VhostUser {
    fn config(&self) -> ConfigSpace {
        self.config
    }

    fn features(&self) -> Features {
        self.features
    }

    fn bar(&self) -> Option<BarMapping> {
        let region = Arc::clone(self.bar.as_ref()?.region());
        Some(BarMapping { region, memory_type: MemoryType::WriteBack })
    }

    fn donations(&self) -> &Donations {
        &self.donations
    }

    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        self.queues.control.request(request, reply)
    }

    fn post(&self, request: &[u8]) -> Result<(), TransportError> {
        self.queues.control.post(request)
    }

    fn kick(&self) -> Result<(), TransportError> {
        self.queues.kick()
    }

    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        self.queues.next_event(timeout)
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.ram.allocate(size)
    }

    fn memory_size(&self) -> Option<u64> {
        Some(self.ram.size())
    }

    fn allocate_file(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.make_file(size)
    }

    fn interrupt(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queues.events.notifications().call())
    }

    fn check(&self) -> Result<(), TransportError> {
        self.queues.control.notifications().check()?;
        self.queues.events.check()
    }
}
