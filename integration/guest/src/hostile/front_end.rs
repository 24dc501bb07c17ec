// SPDX-License-Identifier: MIT OR Apache-2.0

//! A hostile VMM: it sends any vhost-user message by its number, with any descriptors.

use bellhop_protocol::control::adapter::OpenAdapter;
use bellhop_protocol::control::{Request, RequestHeader};
use bellhop_protocol::features::Version;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Numbers of messages; the names are those of the vhost-user specification.
#[allow(missing_docs, reason = "the specification has them")]
pub mod message {
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const SET_BACKEND_REQ_FD: u32 = 21;
}

/// `VIRTIO_F_VERSION_1` and `VHOST_USER_F_PROTOCOL_FEATURES`.
pub const FEATURES: u64 = 1 << 32 | 1 << 30;
/// The protocol features that a VMM takes: MQ, REPLY_ACK, BACKEND_REQ, CONFIG, BACKEND_SEND_FD and SHMEM.
const PROTOCOL_FEATURES: u64 = 1 | 1 << 3 | 1 << 5 | 1 << 9 | 1 << 10 | 1 << 22;
const VERSION: u32 = 1;
/// Entries of each queue.
const SIZE: u16 = 64;
/// Most descriptors of a message.
const MOST_DESCRIPTORS: usize = 8;

/// A region of memory, as the VMM announces it.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// Guest-physical address.
    pub physical: u64,
    /// Bytes that the VMM announces.
    pub size: u64,
    /// Address at which the VMM says that it has mapped the region.
    pub user: u64,
    /// Offset in the region's file.
    pub offset: u64,
}

impl Region {
    /// The first `size` bytes of a file, in which [`HostileVmm::start`] puts the queues.
    #[must_use]
    pub const fn of(size: u64) -> Self {
        Self { physical: 0x10_0000, size, user: 0x7000_0000, offset: 0 }
    }
}

/// Bytes of the queues and a request of [`HostileVmm::start`].
pub const QUEUES: u64 = 0x1_0000;

/// A connection to the device.
#[derive(Debug)]
pub struct HostileVmm {
    socket: UnixStream,
    /// The kick of the control queue.
    kick: OwnedFd,
}

impl HostileVmm {
    /// Connects, and sends nothing.
    ///
    /// # Errors
    /// When no device listens.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        Self::over(UnixStream::connect(socket)?)
    }

    /// Takes over a connection.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn over(socket: UnixStream) -> io::Result<Self> {
        Ok(Self { socket, kick: event()? })
    }

    /// The VMM's end of the connection.
    #[must_use]
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Sends a message with these words and these descriptors.
    ///
    /// # Errors
    /// When the device has hung up.
    pub fn say(
        &self,
        message: u32,
        words: &[u64],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = [message, VERSION, body.len() as u32].map(u32::to_le_bytes).concat();
        self.say_bytes(&[header, body].concat(), descriptors)
    }

    /// Sends these bytes.
    ///
    /// # Errors
    /// When the device has hung up.
    pub fn say_bytes(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Accepts these features and a VMM's protocol features.
    ///
    /// # Errors
    /// When the device has hung up.
    pub fn negotiate(&self, features: u64) -> io::Result<()> {
        self.say(message::SET_OWNER, &[], &[])?;
        self.say(message::GET_FEATURES, &[], &[])?;
        self.say(message::SET_PROTOCOL_FEATURES, &[PROTOCOL_FEATURES], &[])?;
        self.say(message::SET_FEATURES, &[features], &[])
    }

    /// Announces memory.
    ///
    /// # Errors
    /// When the device has hung up.
    pub fn announce(&self, regions: &[(Region, BorrowedFd<'_>)]) -> io::Result<()> {
        let mut words = vec![regions.len() as u64];
        for (Region { physical, size, user, offset }, _) in regions {
            words.extend([physical, size, user, offset]);
        }
        let files: Vec<_> = regions.iter().map(|(_, file)| *file).collect();
        self.say(message::SET_MEM_TABLE, &words, &files)
    }

    /// Announces both queues at addresses of the VMM from `user` on, and starts them.
    ///
    /// # Errors
    /// When the device has hung up.
    pub fn start(&self, user: u64, call: BorrowedFd<'_>) -> io::Result<()> {
        for queue in 0..2u64 {
            let pair = |number: u64| queue | number << 32;
            self.say(message::SET_VRING_NUM, &[pair(SIZE.into())], &[])?;
            self.say(message::SET_VRING_BASE, &[pair(0)], &[])?;
            let [table, available, used] = RINGS.map(|at| user + at + queue * EVENT_QUEUE);
            self.say(message::SET_VRING_ADDR, &[queue, table, used, available, 0], &[])?;
            self.say(message::SET_VRING_CALL, &[queue], &[call])?;
            let nobody = event()?;
            let kick = if queue == 0 { &self.kick } else { &nobody };
            self.say(message::SET_VRING_KICK, &[queue], &[kick.as_fd()])?;
            self.say(message::SET_VRING_ENABLE, &[pair(1)], &[])?;
        }
        Ok(())
    }

    /// Offers `times` requests to open the adapter, and kicks. The queues are at the start of a file that
    /// the VMM announced from `physical` on; `offered` counts all offers.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn request(
        &self,
        file: &File,
        physical: u64,
        offered: &mut u16,
        times: u16,
    ) -> io::Result<()> {
        let open = OpenAdapter { version: Version::CURRENT, reserved: 0, features: 0 };
        let length = (size_of::<RequestHeader>() + size_of::<OpenAdapter>()) as u32;
        let header = RequestHeader { code: OpenAdapter::CODE, length, process: 0, reserved: 0 };
        file.write_all_at(&[header.as_bytes(), open.as_bytes()].concat(), REQUEST)?;
        let mut table = Vec::new();
        for (at, length, flags, next) in [(REQUEST, length, 1u16, 1u16), (REPLY, 256, 2, 0)] {
            table.extend_from_slice(&(physical + at).to_le_bytes());
            table.extend_from_slice(&length.to_le_bytes());
            table.extend_from_slice(&flags.to_le_bytes());
            table.extend_from_slice(&next.to_le_bytes());
        }
        file.write_all_at(&table, RINGS[0])?;
        for _ in 0..times {
            file.write_all_at(&[0; 2], RINGS[1] + 4 + u64::from(*offered % SIZE) * 2)?;
            *offered = offered.wrapping_add(1);
        }
        file.write_all_at(&offered.to_le_bytes(), RINGS[1] + 2)?;
        self.kick()
    }

    /// The number of requests that the device answered.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn answered(file: &File) -> io::Result<u16> {
        let mut index = [0; 2];
        file.read_exact_at(&mut index, RINGS[2] + 2)?;
        Ok(u16::from_le_bytes(index))
    }

    /// Kicks the control queue.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kick(&self) -> io::Result<()> {
        rustix::io::write(&self.kick, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// Waits for the device to hang up. Returns whether it did in this time.
    #[must_use]
    pub fn is_hung_up_within(&self, time: Duration) -> bool {
        let timeout = Timespec::try_from(time).ok();
        let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        poll(&mut socket, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Reads the answer to [`message::GET_FEATURES`], which shows that the device serves.
    ///
    /// # Errors
    /// When none comes in this time.
    pub fn features_within(&self, time: Duration) -> io::Result<u64> {
        let mut reply = [0; 20];
        self.socket.set_read_timeout(Some(time))?;
        (&self.socket).read_exact(&mut reply)?;
        let [.., a, b, c, d, e, f, g, h] = reply;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// Offsets of the control queue's rings, a request and its reply from the queues' start.
const RINGS: [u64; 3] = [0, 0x1000, 0x2000];
const REQUEST: u64 = 0x4000;
const REPLY: u64 = 0x5000;
/// Offset of the event queue's rings.
const EVENT_QUEUE: u64 = 0x6000;

/// A memfd of this size, without seals.
///
/// # Errors
/// When there is no memory.
pub fn memory(size: u64) -> io::Result<File> {
    let file = memfd_create("hostile", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, size)?;
    Ok(file.into())
}

/// An eventfd that blocks when it is full.
///
/// # Errors
/// When there are no descriptors left.
pub fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
}
