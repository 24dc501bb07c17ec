// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that only video nodes execute.

use super::header::{Opcode, PacketHeader};
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

bitflags! {
    /// What a packet asks for beside the usual.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct VideoFlags: u32 {
        /// Nothing more comes in. One picture or temporal unit of what is left comes out, or
        /// [`VideoResult::END`]. An encoder takes no more pictures afterwards.
        const DRAIN = 1 << 0;
        /// Decoding only: forgets everything that came in. Nothing comes out.
        const FLUSH = 1 << 1;
        /// Encoding only: a decoder can begin with this picture.
        const KEY_FRAME = 1 << 2;
    }
}

/// `VIDEO_DECODE`: takes a part of a bitstream, and stores one picture. `VIDEO_ENCODE`: takes a picture, and stores one
/// temporal unit. What came of it is in the [`VideoStatus`]: a stream's errors lose no queue.
///
/// A picture or unit comes out as soon as there is one, and at most one with each packet; [`VideoFlags::DRAIN`] gets what
/// is left. The engine reads the range that goes in once, and stores nothing outside the range that goes out and the
/// status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Video {
    /// `argument` is the session's number.
    pub header: PacketHeader,
    /// [`VideoFlags`]; an unknown flag is refused.
    pub flags: u32,
    /// Bytes from a row of luma to the next: at least a row, a multiple of 2 samples.
    pub pitch: u32,
    /// GPU virtual address of the picture; ignored if none is needed.
    pub picture: u64,
    /// Bytes there, at most [`MAX_PICTURE`](crate::control::video::MAX_PICTURE).
    pub picture_size: u32,
    /// Bytes of the bitstream, or for it, at most [`MAX_BITSTREAM`](crate::control::video::MAX_BITSTREAM).
    pub bitstream_size: u32,
    /// GPU virtual address of the bitstream; ignored if none is needed.
    pub bitstream: u64,
    /// GPU virtual address of the [`VideoStatus`], a multiple of 8.
    pub status: u64,
    /// The time of what goes in, in any unit. It comes out with its picture or unit.
    pub time: u64,
}
crate::assert_layout!(
    Video, 56,
    header at 0, flags at 8, pitch at 12, picture at 16, picture_size at 24, bitstream_size at 28,
    bitstream at 32, status at 40, time at 48,
);

impl Video {
    /// A packet without memory, for a session.
    #[must_use]
    pub const fn new(opcode: Opcode, session: u32, flags: VideoFlags, status: u64) -> Self {
        Self {
            header: PacketHeader::new(opcode, size_of::<Self>(), session),
            flags: flags.bits(),
            pitch: 0,
            picture: 0,
            picture_size: 0,
            bitstream_size: 0,
            bitstream: 0,
            status,
            time: 0,
        }
    }

    /// The session's number.
    #[must_use]
    pub const fn session(&self) -> u32 {
        self.header.argument
    }
}

open_enum! {
    /// What came of a packet.
    pub struct VideoResult: u32 {
        /// A picture or a temporal unit is stored.
        DONE = 1;
        /// Nothing is stored: more must go in first.
        NEEDS_MORE = 2;
        /// Nothing is stored: nothing is left.
        END = 3;
        /// The bitstream is no valid AV1. The session goes on: with the next key frame, there are pictures again.
        CORRUPT = 4;
        /// The stream's picture is larger than the session's, and is dropped.
        TOO_LARGE = 5;
        /// The stream's picture has another format than the session's, and is dropped: `bit_depth` and chroma.
        FORMAT_MISMATCH = 6;
        /// What came out has no room: `bytes`, or `width` and `height`, say how much it needs. It is kept for the next
        /// packet.
        NO_ROOM = 7;
        /// The codec refuses what the session is to be, or the picture's pitch and size; or too much waits to come out for
        /// more to go in.
        REFUSED = 8;
        /// The session is lost: the host's process that had it ended, or there is none. Only `result` means something, in
        /// this packet and in all that follow.
        LOST = 9;
    }
}

/// What came of a packet. The engine stores it before a later packet is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct VideoStatus {
    /// What came of it.
    pub result: VideoResult,
    /// Bit 0: a decoder can begin with the unit ([`STATUS_KEY_FRAME`]).
    pub flags: u32,
    /// Encoding: bytes of the unit. Decoding: bytes of the data that the picture came with.
    pub bytes: u64,
    /// Decoding: the picture's width.
    pub width: u32,
    /// Decoding: its height.
    pub height: u32,
    /// Decoding: bits of its samples.
    pub bit_depth: u32,
    /// Zero.
    pub reserved: u32,
    /// The time that went in with what came out.
    pub time: u64,
}
crate::assert_layout!(
    VideoStatus, 40,
    result at 0, flags at 4, bytes at 8, width at 16, height at 20, bit_depth at 24,
    reserved at 28, time at 32,
);

/// [`VideoStatus::flags`]: a decoder can begin with the unit.
pub const STATUS_KEY_FRAME: u32 = 1 << 0;
