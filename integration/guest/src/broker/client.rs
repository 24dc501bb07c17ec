// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program: its memory, its channels, and its end.

mod requests;

use super::Shared;
use super::descriptors;
use super::device::DeviceError;
use super::events::Sockets;
use super::listener::{Connection, Peer};
use super::places::Place;
use crate::output::note;
use bellhop_guest_umd::transport::SystemMemory;
use bellhop_protocol::broker::{
    MAX_EXTENTS, MAX_MESSAGE_SIZE, MessageHeader, MessageKind, WELCOME_MAGIC, Welcome,
};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
    SocketFlags, SocketType, recv, send, sendmsg, shutdown, socketpair,
};
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use vm_memory::{Bytes, VolatileMemory};
use zerocopy::{FromBytes, IntoBytes};

/// A connected program. What it has on the device ends when this is dropped, as with a crashed program.
pub(super) struct Client {
    shared: Arc<Shared>,
    peer: Peer,
    /// A BAR, and memory behind it; `None` only while it is dropped.
    memory: Option<Box<dyn SystemMemory>>,
    processes: Mutex<BTreeSet<u32>>,
    sockets: Arc<Sockets>,
    _place: Place,
}

/// What a program has said.
pub(super) enum Heard {
    /// A request, to which this is the reply.
    Asked(Vec<u8>),
    /// What is not answered.
    Told,
}

/// Where the channel of a program is, and what it hears first.
pub(super) struct Welcomed {
    pub(super) client: Arc<Client>,
    second: OwnedFd,
}

fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

impl Client {
    /// Serves a program until it goes.
    pub(super) fn serve(shared: &Arc<Shared>, connection: Connection, place: Place) {
        let peer = connection.peer();
        let Welcomed { client, second } = match Self::welcome(shared, &connection, place) {
            Ok(welcomed) => welcomed,
            Err(error) => return shared.unserved.note(format_args!("{peer}: {error:#}")),
        };
        let other = Arc::clone(&client);
        let started = thread::Builder::new()
            .name("client".into())
            .spawn(move || other.serve_channel(second.as_fd()));
        match started {
            Ok(thread) => {
                client.serve_channel(connection.socket.as_fd());
                // The thread does nothing that panics.
                let _ = thread.join();
            }
            Err(error) => {
                let told = format_args!("{peer}: cannot start its second thread: {error}");
                shared.unserved.note(told);
            }
        }
    }

    /// Gives a program its memory and its channels.
    pub(super) fn welcome(
        shared: &Arc<Shared>,
        connection: &Connection,
        place: Place,
    ) -> anyhow::Result<Welcomed> {
        let (bar, own) = (shared.layout.end(), shared.places.limits().memory);
        let memory = shared.device.allocate_file(bar + own)?;
        // The program looks at it before it has a process, with which the device writes it.
        let header = shared.layout.header();
        let bytes = memory.region().as_volatile_slice();
        bytes.write_slice(header.as_bytes(), memory.offset())?;
        let extents = memory.extents();
        anyhow::ensure!(extents.len() <= MAX_EXTENTS, "the guest's memory is in too many pieces");
        let ((second, its_second), (events, its_events)) = (pair()?, pair()?);
        // Nothing is read there, so nothing may wait there.
        shutdown(&events, Shutdown::Read)?;
        // An older Linux takes them.
        let _ = descriptors::refuse(&second);
        let config = shared.device.config();
        let features = config.features & shared.device.features_of_programs().bits();
        let welcome = Welcome {
            magic: WELCOME_MAGIC,
            config: ConfigSpace { features, ..config },
            bar,
            memory: own,
            extent_count: extents.len() as u32,
            reserved: 0,
        };
        let file = memory.region().file_offset().map(|file| file.file().as_fd());
        let file = file.ok_or_else(|| anyhow::anyhow!("the guest's memory is in no file"))?;
        let files = [file, its_second.as_fd(), its_events.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        let parts = [IoSlice::new(welcome.as_bytes()), IoSlice::new(extents.as_bytes())];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&connection.socket, &parts, &mut ancillary, flags)?;
        let requests = vec![connection.socket.try_clone()?, second.try_clone()?];
        let client = Self {
            shared: Arc::clone(shared),
            peer: connection.peer(),
            memory: Some(memory),
            processes: Mutex::default(),
            sockets: Sockets::new(events, requests),
            _place: place,
        };
        Ok(Welcomed { client: Arc::new(client), second })
    }

    /// No code panics while it holds the lock, so a poisoned set is whole.
    fn processes(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a channel until it ends, and then ends the others.
    fn serve_channel(&self, socket: BorrowedFd<'_>) {
        let mut message = vec![0; MAX_MESSAGE_SIZE];
        loop {
            let received = match recv(socket, &mut message[..], RecvFlags::TRUNC) {
                Ok((length, _)) => length,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let heard = message.get(..received).and_then(|bytes| self.hear(bytes));
            let goes_on = match heard {
                Some(Heard::Asked(reply)) => send(socket, &reply, SendFlags::NOSIGNAL).is_ok(),
                Some(Heard::Told) => true,
                None => false,
            };
            if !goes_on {
                break;
            }
        }
        self.sockets.end();
    }

    /// Does what a message says; `None` if it ends the connection.
    pub(super) fn hear(&self, message: &[u8]) -> Option<Heard> {
        let (header, bytes) = MessageHeader::read_from_prefix(message).ok()?;
        match header.kind {
            MessageKind::REQUEST => self.reply(bytes).map(Heard::Asked),
            MessageKind::POST => self.reply(bytes).map(|_| Heard::Told),
            MessageKind::KICK => self.shared.device.kick().is_ok().then_some(Heard::Told),
            _ => None,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut ended = true;
        let processes = std::mem::take(&mut *self.processes());
        for process in processes {
            let request = DestroyProcess { flags: TERMINATED_ABNORMALLY };
            let destroyed = self.shared.device.call(process, &request, &[]);
            ended &= !matches!(destroyed, Err(DeviceError::Refused(..) | DeviceError::BadReply));
            self.shared.routes.remove(process);
        }
        if !ended {
            note(format_args!("{}: the device did not end a process; its memory stays", self.peer));
            // The device may still write it.
            std::mem::forget(self.memory.take());
        }
    }
}
