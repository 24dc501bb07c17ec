// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program: its memory, its processes, and what it asks for.

use super::Shared;
use super::access::{self, Access};
use super::device::DeviceError;
use super::events::Sockets;
use super::listener::{Connection, Peer};
use super::places::Place;
use crate::output::note;
use bellhop_guest_umd::transport::SystemMemory;
use bellhop_protocol::broker::{
    MAX_EXTENTS, MAX_MESSAGE_SIZE, MessageHeader, MessageKind, WELCOME_MAGIC, Welcome,
};
use bellhop_protocol::control::adapter::OpenAdapter;
use bellhop_protocol::control::allocation::{CreateAllocation, Extent};
use bellhop_protocol::control::process::{
    CreateProcess, CreateProcessReply, CreateProcessWithBar, DestroyProcess, TERMINATED_ABNORMALLY,
};
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, RequestHeader};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, send, sendmsg, socketpair,
};
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use vm_memory::{Bytes, VolatileMemory};
use zerocopy::{FromBytes, Immutable, IntoBytes};

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

/// Why a program does not get what it asked for.
enum Refusal {
    /// It is refused, with this status and this detail.
    With(Status, u64),
    /// The device is gone, and so is the program's connection.
    Gone,
}

impl From<DeviceError> for Refusal {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Refused(status, detail) => Self::With(status, detail),
            DeviceError::Transport(_) | DeviceError::BadReply => Self::Gone,
        }
    }
}

type Answer = Result<Vec<u8>, Refusal>;

/// Where the channel of a program is, and what it hears first.
struct Welcomed {
    client: Arc<Client>,
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
            Err(error) => return note(format_args!("{peer}: {error:#}")),
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
            Err(error) => note(format_args!("{peer}: cannot start its second thread: {error}")),
        }
    }

    /// Gives a program its memory and its channels.
    fn welcome(
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
        let config = shared.device.config();
        let features = config.features & shared.device.features_of_programs().bits();
        let welcome = Welcome {
            magic: WELCOME_MAGIC,
            config: bellhop_protocol::config::ConfigSpace { features, ..config },
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
            let Some(bytes) = message.get(..received).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            let Ok((header, bytes)) = MessageHeader::read_from_prefix(bytes) else { break };
            let is_served = match header.kind {
                MessageKind::REQUEST => self
                    .reply(bytes)
                    .is_some_and(|reply| send(socket, &reply, SendFlags::NOSIGNAL).is_ok()),
                MessageKind::POST => self.reply(bytes).is_some(),
                MessageKind::KICK => self.shared.device.kick().is_ok(),
                _ => false,
            };
            if !is_served {
                break;
            }
        }
        self.sockets.end();
    }

    /// The reply to a request; `None` if the device is gone.
    fn reply(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self.answer(bytes) {
            Ok(reply) => Some(reply),
            Err(Refusal::With(status, detail)) => {
                let length = size_of::<ReplyHeader>() as u32;
                Some(ReplyHeader { status, length, detail }.as_bytes().to_vec())
            }
            Err(Refusal::Gone) => None,
        }
    }

    fn answer(&self, bytes: &[u8]) -> Answer {
        let wrong_size = Refusal::With(Status::INVALID_BUFFER_SIZE, bytes.len() as u64);
        let Ok((header, body)) = RequestHeader::read_from_prefix(bytes) else {
            return Err(wrong_size);
        };
        if header.length as usize != bytes.len() {
            return Err(wrong_size);
        }
        let unknown = Refusal::With(Status::INVALID_DEVICE_REQUEST, header.code.0.into());
        match access::of(header.code).ok_or(unknown)? {
            Access::Open => self.open(body),
            Access::Adapter => self.pass_on(bytes),
            Access::CreateProcess => self.create_process(header, body),
            Access::DestroyProcess => {
                self.check_process(header)?;
                let reply = self.pass_on(bytes)?;
                let status = ReplyHeader::read_from_prefix(&reply).map(|(reply, _)| reply.status);
                if status.is_ok_and(Status::is_success) {
                    self.processes().remove(&header.process);
                    self.shared.routes.remove(header.process);
                }
                Ok(reply)
            }
            Access::NamesMemory => {
                self.check_process(header)?;
                self.check_memory(body)?;
                self.pass_on(bytes)
            }
            Access::Process => {
                self.check_process(header)?;
                self.pass_on(bytes)
            }
            Access::Guest if self.is_administrator() => {
                self.check_process(header)?;
                self.pass_on(bytes)
            }
            Access::Guest | Access::Nobody => Err(Refusal::With(Status::NOT_SUPPORTED, 0)),
        }
    }

    /// Whether the program's user may do what concerns the whole guest.
    fn is_administrator(&self) -> bool {
        self.peer.user == 0 || self.peer.user == geteuid().as_raw()
    }

    fn pass_on(&self, bytes: &[u8]) -> Answer {
        let mut reply = vec![0; MAX_REPLY_SIZE];
        let length = self.shared.device.request(bytes, &mut reply).map_err(DeviceError::from)?;
        reply.truncate(length);
        Ok(reply)
    }

    fn open(&self, body: &[u8]) -> Answer {
        let request = OpenAdapter::read_from_bytes(body);
        let OpenAdapter { version, features, .. } =
            request.map_err(|_| Refusal::With(Status::INVALID_BUFFER_SIZE, 0))?;
        let own = Version::CURRENT;
        if !version.is_compatible_with(own) {
            let detail = u64::from(own.major) | u64::from(own.minor) << 16;
            return Err(Refusal::With(Status::REVISION_MISMATCH, detail));
        }
        let offered = self.shared.device.features_of_programs();
        let wanted = Features::from_bits(features).filter(|wanted| offered.contains(*wanted));
        match wanted {
            Some(wanted) => Ok(success(&self.shared.device.info_for(wanted))),
            None => Err(Refusal::With(Status::REVISION_MISMATCH, offered.bits())),
        }
    }

    /// Refuses a process that is not the program's as one that nobody has.
    fn check_process(&self, header: RequestHeader) -> Result<(), Refusal> {
        if self.processes().contains(&header.process) {
            return Ok(());
        }
        Err(Refusal::With(Status::INVALID_HANDLE, header.process.into()))
    }

    /// Refuses memory that is not the program's.
    fn check_memory(&self, body: &[u8]) -> Result<(), Refusal> {
        let extents = body.get(size_of::<CreateAllocation>()..).unwrap_or_default();
        for bytes in extents.chunks_exact(size_of::<Extent>()) {
            let Ok(Extent { address, length }) = Extent::read_from_bytes(bytes) else { continue };
            let end = address.checked_add(length);
            let holds = |own: &Extent| {
                own.address <= address && end.is_some_and(|end| end <= own.address + own.length)
            };
            if !self.extents().iter().any(holds) {
                return Err(Refusal::With(Status::INVALID_PARAMETER, address));
            }
        }
        Ok(())
    }

    fn extents(&self) -> &[Extent] {
        self.memory.as_ref().map_or(&[], |memory| memory.extents())
    }

    /// Creates a process in the program's BAR.
    fn create_process(&self, header: RequestHeader, body: &[u8]) -> Answer {
        let request = CreateProcess::read_from_bytes(body);
        let CreateProcess { reserved } =
            request.map_err(|_| Refusal::With(Status::INVALID_BUFFER_SIZE, 0))?;
        if header.process != 0 || reserved != 0 {
            return Err(Refusal::With(Status::INVALID_PARAMETER, header.process.into()));
        }
        // Locked meanwhile: the program's other channel may create one, too.
        let mut processes = self.processes();
        if processes.len() >= self.shared.places.limits().processes {
            return Err(Refusal::With(Status::QUOTA_EXCEEDED, processes.len() as u64));
        }
        let made = match processes.first() {
            Some(beside) => {
                let request = CreateProcessWithBar {
                    beside: *beside,
                    extent_count: 0,
                    doorbell_count: 0,
                    fence_count: 0,
                };
                self.shared.device.call(0, &request, &[])?
            }
            None => {
                let bar = beginning(self.extents(), self.shared.layout.end());
                let request = CreateProcessWithBar {
                    beside: 0,
                    extent_count: bar.len() as u32,
                    doorbell_count: self.shared.layout.doorbell_count,
                    fence_count: self.shared.layout.fence_count,
                };
                self.shared.device.call(0, &request, bar.as_bytes())?
            }
        };
        let CreateProcessReply { process, .. } = made;
        processes.insert(process);
        self.shared.routes.add(process, &self.sockets);
        Ok(success(&made))
    }
}

/// A reply with this body.
fn success<T: IntoBytes + Immutable>(body: &T) -> Vec<u8> {
    let length = (size_of::<ReplyHeader>() + size_of::<T>()) as u32;
    let header = ReplyHeader { status: Status::SUCCESS, length, detail: 0 };
    [header.as_bytes(), body.as_bytes()].concat()
}

/// The extents of the first bytes.
fn beginning(extents: &[Extent], length: u64) -> Vec<Extent> {
    let mut left = length;
    let taken = extents.iter().map(|extent| {
        let length = extent.length.min(left);
        left -= length;
        Extent { address: extent.address, length }
    });
    taken.filter(|extent| extent.length > 0).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_memory_ends_in_the_middle_of_an_extent_or_with_one() {
        let extent = |address, length| Extent { address, length };
        let extents = [extent(0x8000, 0x2000), extent(0x1000, 0x1000), extent(0x4000, 0x1000)];
        assert_eq!(beginning(&extents, 0x1000), [extent(0x8000, 0x1000)]);
        assert_eq!(beginning(&extents, 0x2000), extents[..1]);
        assert_eq!(beginning(&extents, 0x3000), extents[..2]);
        assert_eq!(beginning(&extents, 0), []);
    }
}
