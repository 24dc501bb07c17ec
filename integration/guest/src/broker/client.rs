// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program: its memory, its channels, and its end.

mod requests;

use super::Shared;
use super::device::{Device, DeviceError};
use super::events::{Connections, event_pipe, watch};
use super::places::Place;
use crate::listener::{Connection, Peer, descriptors};
use crate::output::note;
use bellhop_guest_umd::transport::SystemMemory;
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::broker::{
    DESCRIPTORS, MAX_EXTENTS, MAX_MESSAGE_SIZE, MessageHeader, MessageKind, NAME_SIZE,
    WELCOME_MAGIC, Welcome,
};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, send, sendmsg, socketpair,
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
    name: Mutex<[u8; NAME_SIZE]>,
    /// A BAR, and memory behind it; `None` only while it is dropped.
    memory: Option<Box<dyn SystemMemory>>,
    processes: Mutex<BTreeSet<u32>>,
    connections: Arc<Connections>,
    place: Place,
    /// The layout of its BAR.
    layout: BarLayout,
}

/// What a program has said.
pub(super) enum Heard {
    /// A request, to which this is the reply.
    Asked(Vec<u8>),
    /// What is not answered.
    Told,
    /// It wants another channel.
    WantsChannel,
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
        let peer = connection.peer;
        let welcomed = match Self::welcome(shared, &connection, place) {
            Ok(welcomed) => welcomed,
            Err(error) => return shared.unserved.note(format_args!("{peer}: {error:#}")),
        };
        let Welcomed { client, second } = welcomed;
        if let Err(error) = client.serve_also(second) {
            return shared
                .unserved
                .note(format_args!("{peer}: cannot start its second thread: {error}"));
        }
        client.serve_channel(connection.socket.as_fd());
    }

    /// Serves another channel, on a thread of its own.
    fn serve_also(self: &Arc<Self>, socket: OwnedFd) -> std::io::Result<()> {
        let client = Arc::clone(self);
        let thread = thread::Builder::new().name("client".into());
        thread.spawn(move || client.serve_channel(socket.as_fd())).map(drop)
    }

    /// Gives a program its memory and its channels.
    pub(super) fn welcome(
        shared: &Arc<Shared>,
        connection: &Connection,
        place: Place,
    ) -> anyhow::Result<Welcomed> {
        let limits = *place.limits();
        let layout = shared.layout(&limits);
        let (bar, own) = (layout.end(), limits.memory);
        let memory = shared.device.allocate_file(bar + own)?;
        // The program looks at it before it has a process, with which the device writes it.
        let header = layout.header();
        let bytes = memory.region().as_volatile_slice();
        bytes.write_slice(header.as_bytes(), memory.offset())?;
        let extents = memory.extents();
        anyhow::ensure!(extents.len() <= MAX_EXTENTS, "the guest's memory is in too many pieces");
        let ((second, its_second), (events, its_events)) = (pair()?, event_pipe()?);
        let its_interrupts = watch(shared.device.interrupt())?;
        // An older Linux takes them.
        let _ = descriptors::refuse(&second);
        let config = shared.device.config();
        let features = config.features & shared.device.features_of_programs().bits();
        // Those of the program, not of the guest.
        let BarLayout { doorbell_count, fence_count, .. } = layout;
        let welcome = Welcome {
            magic: WELCOME_MAGIC,
            config: ConfigSpace { features, doorbell_count, fence_count, ..config },
            bar,
            memory: own,
            extent_count: extents.len() as u32,
            channels: limits.requests as u32,
        };
        let file = memory.region().file_offset().map(|file| file.file().as_fd());
        let file = file.ok_or_else(|| anyhow::anyhow!("the guest's memory is in no file"))?;
        let files: [_; DESCRIPTORS] =
            [file, its_second.as_fd(), its_events.as_fd(), its_interrupts.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        let parts = [IoSlice::new(welcome.as_bytes()), IoSlice::new(extents.as_bytes())];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&connection.socket, &parts, &mut ancillary, flags)?;
        let requests = vec![connection.socket.try_clone()?, second.try_clone()?];
        let client = Self {
            shared: Arc::clone(shared),
            peer: connection.peer,
            name: Mutex::default(),
            memory: Some(memory),
            processes: Mutex::default(),
            connections: Connections::new(events, requests),
            place,
            layout,
        };
        Ok(Welcomed { client: Arc::new(client), second })
    }

    /// Asks the device, when a request of the user's may be in flight.
    fn asks<T>(&self, ask: impl FnOnce(&Device) -> T) -> T {
        self.place.in_flight(|| ask(&self.shared.device))
    }

    /// No code panics while it holds the lock, so a poisoned set is whole.
    fn processes(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a channel until it ends, and then ends the others.
    fn serve_channel(self: &Arc<Self>, socket: BorrowedFd<'_>) {
        let mut message = vec![0; MAX_MESSAGE_SIZE];
        loop {
            // A message that is too long says its whole length.
            let received = match recv(socket, &mut message[..], RecvFlags::TRUNC) {
                Ok((_, length)) => length,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let heard = message.get(..received).and_then(|bytes| self.hear(bytes));
            let goes_on = match heard {
                Some(Heard::Asked(reply)) => send(socket, &reply, SendFlags::NOSIGNAL).is_ok(),
                Some(Heard::Told) => true,
                Some(Heard::WantsChannel) => self.send_channel(socket).is_ok(),
                None => false,
            };
            if !goes_on {
                break;
            }
        }
        self.connections.end();
    }

    /// Answers on a channel with another one, if the program may have more.
    fn send_channel(self: &Arc<Self>, socket: BorrowedFd<'_>) -> std::io::Result<()> {
        let (own, its) = pair()?;
        let most = self.place.limits().requests;
        // An older Linux takes them.
        let _ = descriptors::refuse(&own);
        let is_more = self.connections.add(own.try_clone()?, most) && self.serve_also(own).is_ok();
        let header = MessageHeader { kind: MessageKind::CHANNEL, reserved: 0 };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = [its.as_fd()];
        if is_more {
            ancillary.push(SendAncillaryMessage::ScmRights(&files));
        }
        let parts = [IoSlice::new(header.as_bytes())];
        sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Keeps what the program calls itself; `None` if it is too long.
    fn take_name(&self, bytes: &[u8]) -> Option<()> {
        let mut name = [0; NAME_SIZE];
        name.get_mut(..bytes.len())?.copy_from_slice(bytes);
        *self.name() = name;
        Some(())
    }

    /// No code panics while it holds the lock, so a poisoned name is whole.
    fn name(&self) -> MutexGuard<'_, [u8; NAME_SIZE]> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a message says; `None` if it ends the connection.
    pub(super) fn hear(&self, message: &[u8]) -> Option<Heard> {
        let (header, bytes) = MessageHeader::read_from_prefix(message).ok()?;
        match header.kind {
            MessageKind::REQUEST => self.reply(bytes).map(Heard::Asked),
            MessageKind::POST => self.reply(bytes).map(|_| Heard::Told),
            MessageKind::KICK => self.shared.device.kick().is_ok().then_some(Heard::Told),
            MessageKind::CHANNEL => Some(Heard::WantsChannel),
            MessageKind::NAME => self.take_name(bytes).map(|()| Heard::Told),
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
            let destroyed = self.asks(|device| device.call(process, &request, &[]));
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
