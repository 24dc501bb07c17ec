// SPDX-License-Identifier: MIT OR Apache-2.0

//! Between a program of a guest and the guest's broker, over Unix sockets of the kind `SOCK_SEQPACKET`.
//!
//! The program connects, and hears [`Welcome`] with [`DESCRIPTORS`] descriptors: its memory, a second channel, a pipe of events, and
//! one that is readable for a moment when the device has interrupted the guest: then a fence may have its value.
//! On request channels it sends messages that begin with a [`MessageHeader`], one after another; a request is answered
//! with the bytes of its reply, [`MessageKind::CHANNEL`] as it says, everything else with nothing. A channel has one request in
//! flight, so a program that wants more asks for more channels. From the pipe it reads
//! [`Event`](crate::event::Event)s, and is disconnected when it has left so many unread that no more fit. Either side ends by
//! closing a channel.
//!
//! The memory is a file: first a [BAR](crate::bar) of the program's own, then [`Welcome::memory`] bytes that the program divides
//! as it likes among allocations, whose guest-physical addresses are the extents behind [`Welcome`].

use crate::config::ConfigSpace;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where a guest's broker listens, unless its administrator chooses.
pub const USUAL_SOCKET: &str = "/run/bellhop/broker.sock";

/// First bytes of [`Welcome`], `"BLHPbrkr"`.
pub const WELCOME_MAGIC: u64 = u64::from_le_bytes(*b"BLHPbrkr");

/// Number of descriptors that come with [`Welcome`].
pub const DESCRIPTORS: usize = 4;

/// Maximum size of a program's name in bytes.
pub const NAME_SIZE: usize = 16;

/// Maximum number of extents behind [`Welcome`].
pub const MAX_EXTENTS: usize = 8192;

/// What a program hears first. [`extent_count`](Self::extent_count) [`Extent`](crate::control::allocation::Extent)s follow: the
/// guest-physical pages of the file, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Welcome {
    /// [`WELCOME_MAGIC`].
    pub magic: u64,
    /// The configuration space, with the features that the program may use.
    pub config: ConfigSpace,
    /// Bytes of the program's BAR.
    pub bar: u64,
    /// Bytes of memory behind it.
    pub memory: u64,
    /// Number of extents that follow.
    pub extent_count: u32,
    /// Maximum number of request channels, at least 2.
    pub channels: u32,
}
crate::assert_layout!(
    Welcome, 96,
    magic at 0, config at 8, bar at 72, memory at 80, extent_count at 88, channels at 92,
);

open_enum! {
    /// What a message of a program is.
    pub struct MessageKind: u32 {
        /// A [request](crate::control) with its header; the broker answers with its reply.
        REQUEST = 1;
        /// A request whose reply the program does not want.
        POST = 2;
        /// Engines shall look at the guest's doorbells.
        KICK = 3;
        /// The program wants another request channel. The answer is a header of this kind, with the channel's descriptor, or
        /// without it if there are no more.
        CHANNEL = 4;
        /// What the program calls itself, for tools of the host: at most [`NAME_SIZE`] bytes of ASCII.
        NAME = 5;
    }
}

/// First bytes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MessageHeader {
    /// What follows.
    pub kind: MessageKind,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(MessageHeader, 8, kind at 0, reserved at 4);

/// Maximum size of a message in bytes: room for more than the longest request, so that a program can see a refusal.
pub const MAX_MESSAGE_SIZE: usize =
    size_of::<MessageHeader>() + 2 * crate::control::MAX_REQUEST_SIZE;
