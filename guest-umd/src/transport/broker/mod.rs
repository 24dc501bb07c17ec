// SPDX-License-Identifier: MIT OR Apache-2.0

//! The transport of a program that shares its guest's device with others: through the guest's broker.
//!
//! The program needs no privileges but to connect. It has a BAR and memory of its own in one file, so rings, doorbells and
//! fences are the same loads and stores as without a broker; requests and events pass the broker.

mod arena;
mod channel;
mod events;

use super::{BarMapping, Donations, MemoryType, SystemMemory, Transport, TransportError};
use arena::Arena;
use bellhop_protocol::broker::{
    DESCRIPTORS, MAX_EXTENTS, MessageKind, NAME_SIZE, WELCOME_MAGIC, Welcome,
};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use channel::{Channel, Channels};
use events::Events;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::FromBytes;

/// A connection to a guest's broker. It ends on drop, and everything that the program has on the device with it.
pub struct Broker {
    config: ConfigSpace,
    requests: Channels,
    events: Events,
    memory: Arc<Arena>,
    donations: Donations,
}

impl Broker {
    /// Connects to the broker that listens on `socket`.
    ///
    /// # Errors
    /// If nothing listens there, this user may not connect, what listens is no broker, or it has no place for the program.
    pub fn connect(socket: &Path) -> Result<Arc<Self>, TransportError> {
        let first = Channel::connect(socket)?;
        let mut bytes = vec![0; size_of::<Welcome>() + MAX_EXTENTS * size_of::<Extent>()];
        let (length, files) = first.receive_with_files(&mut bytes)?;
        let refused = || {
            TransportError::Protocol(
                "it is no broker of this version, or has no place for another program".into(),
            )
        };
        let bytes = bytes.get(..length).ok_or_else(refused)?;
        let (welcome, extents) = Welcome::read_from_prefix(bytes).map_err(|_| refused())?;
        let extents = <[Extent]>::ref_from_bytes(extents).map_err(|_| refused())?;
        if welcome.magic != WELCOME_MAGIC || extents.len() != welcome.extent_count as usize {
            return Err(refused());
        }
        let Ok([memory, second, events, interrupts]) = <[_; DESCRIPTORS]>::try_from(files) else {
            return Err(refused());
        };
        let memory = Arena::new(memory, welcome.bar, welcome.memory, extents.to_vec())?;
        first.send(MessageKind::NAME, &own_name())?;
        let channels = vec![first, Channel::from(second)];
        let requests = Channels::new(channels, welcome.channels as usize);
        let events = Events::new(events, interrupts);
        let (config, donations) = (welcome.config, Donations::default());
        Ok(Arc::new(Self { config, requests, events, memory, donations }))
    }
}

/// The name of this program's first thread, as `ps` shows it.
fn own_name() -> Vec<u8> {
    // A program without /proc has none.
    let mut name = std::fs::read("/proc/self/comm").unwrap_or_default();
    name.truncate(name.trim_ascii_end().len().min(NAME_SIZE));
    name
}

impl Transport for Broker {
    fn config(&self) -> ConfigSpace {
        self.config
    }

    fn features(&self) -> Features {
        Features::from_bits_truncate(self.config.features)
    }

    fn bar(&self) -> Option<BarMapping> {
        let region = Arc::clone(self.memory.region());
        Some(BarMapping { region, memory_type: MemoryType::WriteBack })
    }

    fn donations(&self) -> &Donations {
        &self.donations
    }

    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        self.requests.with(|channel| {
            channel.send(MessageKind::REQUEST, request)?;
            channel.receive(reply)
        })
    }

    fn post(&self, request: &[u8]) -> Result<(), TransportError> {
        self.requests.with(|channel| channel.send(MessageKind::POST, request))
    }

    fn kick(&self) -> Result<(), TransportError> {
        self.requests.with(|channel| channel.send(MessageKind::KICK, &[]))
    }

    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        self.events.next(timeout)
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.memory.allocate(size)
    }

    fn memory_size(&self) -> Option<u64> {
        Some(self.memory.size())
    }

    fn check(&self) -> Result<(), TransportError> {
        self.events.check()
    }
}
