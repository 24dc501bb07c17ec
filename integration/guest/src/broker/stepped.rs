// SPDX-License-Identifier: MIT OR Apache-2.0

//! A broker without threads: the caller's thread serves its programs, message by message.

use super::client::{Client, Heard, Welcomed};
use super::limits::Limits;
use super::{Shared, device::Device};
use crate::listener::{Connection, Peer};
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::event::Event;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The broker.
pub struct SteppedBroker(Arc<Shared>);

/// One of its programs, which is gone when this is dropped.
pub struct SteppedProgram {
    client: Arc<Client>,
    /// The program's end of its first channel, on which it hears what a program hears first.
    socket: OwnedFd,
}

/// What a message of a program's led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// This reply.
    Reply(Vec<u8>),
    /// Nothing that the program hears.
    Nothing,
    /// The end of the connection.
    End,
}

impl SteppedBroker {
    /// A broker of the device behind this transport.
    ///
    /// # Errors
    /// If the device offers too little.
    pub fn new(transport: Arc<dyn Transport>, limits: &Limits) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Shared::new(Device::open(transport)?, limits)?)))
    }

    /// A program of this user connects; `None` if it has no place.
    ///
    /// # Errors
    /// If it cannot be served: there is no memory, or there are no descriptors.
    pub fn connect(&self, user: u32) -> anyhow::Result<Option<SteppedProgram>> {
        let peer = Peer { user, process: 1 };
        let Ok(place) = self.0.places.take(peer) else { return Ok(None) };
        let (own, socket) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let connection = Connection { socket: own, peer };
        let Welcomed { client, .. } = Client::welcome(&self.0, &connection, place)?;
        Ok(Some(SteppedProgram { client, socket }))
    }

    /// Passes an event of the device on.
    pub fn pass_on(&self, event: &Event) {
        self.0.routes.pass_on(event);
    }
}

impl SteppedProgram {
    /// The program's end of its first channel.
    #[must_use]
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Does what a message of the program's says.
    #[must_use]
    pub fn hear(&self, message: &[u8]) -> Said {
        match self.client.hear(message) {
            Some(Heard::Asked(reply)) => Said::Reply(reply),
            // There are no threads for more channels.
            Some(Heard::Told | Heard::WantsChannel) => Said::Nothing,
            None => Said::End,
        }
    }
}
