// SPDX-License-Identifier: MIT OR Apache-2.0

//! A connection to a broker without a library, which would be too polite.

use anyhow::{Context, ensure};
use bellhop_protocol::broker::{
    DESCRIPTORS, MAX_EXTENTS, MessageHeader, MessageKind, WELCOME_MAGIC, Welcome,
};
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::process::CreateProcess;
use bellhop_protocol::control::{
    Handle, MAX_REPLY_SIZE, ReplyHeader, Request, RequestCode, RequestHeader,
};
use bellhop_protocol::status::Status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    recvmsg, sendmsg, socket_with,
};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// Most descriptors that Linux sends with a message.
pub(super) const MOST_DESCRIPTORS: usize = 253;
/// The longest that the broker may take to do what it must.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program's connection.
#[derive(Debug)]
pub struct Session {
    /// The two channels of requests.
    pub channels: [OwnedFd; 2],
    /// The channel of events.
    pub events: OwnedFd,
    /// What is readable for a moment when the device has interrupted.
    pub interrupts: OwnedFd,
    /// The program's memory: a BAR, and bytes for allocations.
    pub memory: File,
    /// What it heard first.
    pub welcome: Welcome,
    /// The pages of the file.
    pub extents: Vec<Extent>,
}

/// A request's bytes.
pub(super) fn encode(code: RequestCode, process: u32, body: &[u8]) -> Vec<u8> {
    let length = (size_of::<RequestHeader>() + body.len()) as u32;
    [RequestHeader { code, length, process, reserved: 0 }.as_bytes(), body].concat()
}

/// A message's bytes.
pub(super) fn message(kind: MessageKind, bytes: &[u8]) -> Vec<u8> {
    [MessageHeader { kind, reserved: 0 }.as_bytes(), bytes].concat()
}

/// Sends bytes with these descriptors.
pub(super) fn send_with(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = flags | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
}

/// Tries until there is a place: the broker may not yet have seen the end of the last connections.
pub(super) fn patiently<T>(
    mut come: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        if let Some(served) = come()? {
            return Ok(served);
        }
        ensure!(start.elapsed() < PATIENCE, "the broker has no place for a program");
        thread::yield_now();
    }
}

/// Waits until there is something to read, or nothing will be.
fn await_readable(socket: &OwnedFd) -> anyhow::Result<()> {
    let patience = Timespec::try_from(PATIENCE)?;
    let ready = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&patience))?;
    ensure!(ready == 1, "the broker does nothing");
    Ok(())
}

/// Reads what is there until the broker has ended this channel.
pub(super) fn await_end(socket: &OwnedFd) -> anyhow::Result<()> {
    let mut bytes = [0; MAX_REPLY_SIZE];
    loop {
        await_readable(socket)?;
        match read(socket, &mut bytes[..]) {
            Ok(0) | Err(Errno::CONNRESET | Errno::PIPE) => return Ok(()),
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Session {
    /// Connects, and hears nothing.
    ///
    /// # Errors
    /// When nobody listens, or this user may not connect.
    pub fn knock(socket: &Path) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let own = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&own, &SocketAddrUnix::new(socket)?)?;
        Ok(own)
    }

    /// Hears what a program hears first; `None` if the broker has no place.
    ///
    /// # Errors
    /// When it hears anything else.
    pub fn hear(first: OwnedFd) -> anyhow::Result<Option<Self>> {
        let mut bytes = vec![0; size_of::<Welcome>() + MAX_EXTENTS * size_of::<Extent>()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        await_readable(&first)?;
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = match recvmsg(&first, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received.bytes,
            // It was refused with bytes that nobody read.
            Err(Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        if received == 0 {
            return Ok(None);
        }
        let files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let files: Vec<OwnedFd> = files.flatten().collect();
        let heard = bytes.get(..received).context("it is longer than it may be")?;
        let (welcome, extents) =
            Welcome::read_from_prefix(heard).map_err(|_| anyhow::anyhow!("it is no welcome"))?;
        let extents = <[Extent]>::ref_from_bytes(extents);
        let extents = extents.map_err(|_| anyhow::anyhow!("it has no extents"))?.to_vec();
        ensure!(welcome.magic == WELCOME_MAGIC, "it is no broker");
        let [memory, second, events, interrupts] = <[_; DESCRIPTORS]>::try_from(files)
            .map_err(|files| anyhow::anyhow!("it sent {} files", files.len()))?;
        let channels = [first, second];
        Ok(Some(Self { channels, events, interrupts, memory: memory.into(), welcome, extents }))
    }

    /// A connection that the broker has a place for: those of the user's last connections come back.
    ///
    /// # Errors
    /// When it has none.
    pub fn open(socket: &Path) -> anyhow::Result<Self> {
        patiently(|| Self::hear(Self::knock(socket)?))
    }

    /// Sends bytes as a message.
    ///
    /// # Errors
    /// When the broker has ended the connection.
    pub fn say(&self, channel: usize, bytes: &[u8]) -> Result<(), Errno> {
        send_with(self.channel(channel), bytes, &[], SendFlags::empty())
    }

    /// One of the two channels.
    #[must_use]
    pub fn channel(&self, number: usize) -> &OwnedFd {
        let [first, second] = &self.channels;
        if number == 0 { first } else { second }
    }

    /// Its two channels, and its pipe of events.
    #[must_use]
    pub fn sockets(&self) -> [&OwnedFd; 3] {
        let [first, second] = &self.channels;
        [first, second, &self.events]
    }

    /// Receives a reply: its status, and what follows its header.
    ///
    /// # Errors
    /// When none comes.
    pub fn reply(&self, channel: usize) -> anyhow::Result<(Status, Vec<u8>)> {
        let socket = self.channel(channel);
        let mut bytes = [0; MAX_REPLY_SIZE];
        await_readable(socket)?;
        let (length, _) = recv(socket, &mut bytes[..], RecvFlags::empty())?;
        let bytes = bytes.get(..length).context("the reply is too long")?;
        let (header, body) = ReplyHeader::read_from_prefix(bytes)
            .map_err(|_| anyhow::anyhow!("the broker ended the connection"))?;
        ensure!(header.length as usize == length, "the reply has another length than it says");
        Ok((header.status, body.to_vec()))
    }

    /// Sends these bytes as a request and receives the reply.
    ///
    /// # Errors
    /// When none comes.
    pub fn ask_bytes(&self, request: &[u8]) -> anyhow::Result<(Status, Vec<u8>)> {
        self.say(0, &message(MessageKind::REQUEST, request))?;
        self.reply(0)
    }

    /// Sends a request that a list follows, in the name of a process.
    ///
    /// # Errors
    /// When no reply comes.
    pub fn ask<T: Request>(
        &self,
        process: u32,
        request: &T,
        list: &[u8],
    ) -> anyhow::Result<(Status, Option<T::Reply>)> {
        let body = [request.as_bytes(), list].concat();
        let (status, body) = self.ask_bytes(&encode(T::CODE, process, &body))?;
        Ok((status, T::Reply::read_from_prefix(&body).ok().map(|(body, _)| body)))
    }

    /// Creates a process.
    ///
    /// # Errors
    /// When it may have no more.
    pub fn process(&self) -> anyhow::Result<u32> {
        let (status, reply) = self.ask(0, &CreateProcess { reserved: 0 }, &[])?;
        ensure!(status.is_success(), "a process was refused: {status}");
        Ok(reply.context("the reply has no process")?.process)
    }

    /// Creates a process and a device of it.
    ///
    /// # Errors
    /// When it may have no more.
    pub fn device(&self) -> anyhow::Result<(u32, Handle)> {
        let process = self.process()?;
        let (status, device) = self.ask(process, &CreateDevice { reserved: 0 }, &[])?;
        ensure!(status.is_success(), "a device was refused: {status}");
        Ok((process, device.context("the reply has no device")?))
    }

    /// Asserts that the broker answers this program.
    ///
    /// # Errors
    /// When it does not.
    pub fn is_served(&self) -> anyhow::Result<()> {
        let (status, _) = self.ask_bytes(&encode(RequestCode(u32::MAX), 0, &[]))?;
        ensure!(status == Status::INVALID_DEVICE_REQUEST, "an unknown request: {status}");
        Ok(())
    }

    /// Waits until the broker has ended all its channels.
    ///
    /// # Errors
    /// When it does not.
    pub fn await_end(&self) -> anyhow::Result<()> {
        self.sockets().into_iter().try_for_each(await_end)
    }

    /// Asserts that a request is answered with this status.
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn expect<T: Request>(
        &self,
        process: u32,
        request: &T,
        list: &[u8],
        expected: Status,
    ) -> anyhow::Result<()> {
        let (status, _) = self.ask(process, request, list)?;
        ensure!(status == expected, "{} of process {process}: {status}", T::CODE);
        Ok(())
    }

    /// The descriptors of its sockets, as they are sent along.
    pub(super) fn borrowed(&self) -> [BorrowedFd<'_>; 3] {
        self.sockets().map(AsFd::as_fd)
    }
}
