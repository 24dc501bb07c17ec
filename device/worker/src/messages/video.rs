// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an owner asks a worker with the role of video, and what it answers. A worker has one session, which its first
//! task begins; every task says again what the session is.

use super::Malformed;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Session {
    /// 1 if it encodes, 0 if it decodes.
    pub encodes: u32,
    /// How pictures lie in memory: see [`Format`].
    pub format: u32,
    /// The size of its pictures: of each one if it encodes, else of the largest.
    pub size: [u32; 2],
    /// 1 if `rate` is in bits a second, 0 if it is a quantizer.
    pub is_bit_rate: u32,
    /// How many bits the stream has.
    pub rate: u32,
    /// Pictures a second, as numerator and denominator.
    pub frame_rate: [u32; 2],
    /// Most pictures from a key frame to the next; 0: as many as there are.
    pub key_frame_interval: u32,
    /// 0, the slowest, to 10.
    pub speed: u32,
}

/// How a picture lies in memory: rows of luma, and behind them chroma, with the session's pitch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Whether samples have 10 bits, in two bytes, else 8.
    pub is_deep: bool,
    /// Whether U and V alternate in rows of one plane, else they have planes of half the pitch. Deep samples then are in
    /// the upper bits.
    pub is_interleaved: bool,
}

impl Format {
    /// The format with this number: that of the protocol.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        let (is_deep, is_interleaved) = match number {
            1 => (false, true),
            2 => (false, false),
            3 => (true, true),
            4 => (true, false),
            _ => return None,
        };
        Some(Self { is_deep, is_interleaved })
    }

    /// Bytes of a sample.
    #[must_use]
    pub fn sample(self) -> u32 {
        if self.is_deep { 2 } else { 1 }
    }

    /// Bytes of a picture of this size with this pitch. `None` if the pitch is shorter than a row, or odd.
    #[must_use]
    pub fn bytes(self, [width, height]: [u32; 2], pitch: u32) -> Option<u64> {
        let row = width.checked_next_multiple_of(2)?.checked_mul(self.sample())?;
        let unit = 2 * self.sample();
        if pitch < row || !pitch.is_multiple_of(unit) {
            return None;
        }
        let rows = u64::from(height) + u64::from(height.div_ceil(2));
        Some(u64::from(pitch) * rows)
    }
}

/// A task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct VideoTask {
    /// The session.
    pub session: Session,
    /// [`DRAIN`], [`FLUSH`] and [`KEY_FRAME`].
    pub flags: u32,
    /// Bytes from a row of luma to the next.
    pub pitch: u32,
    /// The address of the picture; 0 if there is none.
    pub picture: u64,
    /// Bytes of it.
    pub picture_size: u64,
    /// The address of the bitstream; 0 if there is none.
    pub bitstream: u64,
    /// Bytes of it.
    pub bitstream_size: u64,
    /// The picture's time.
    pub time: u64,
}

/// [`VideoTask::flags`]: nothing more comes in; what comes out is one of what is left.
pub const DRAIN: u32 = 1 << 0;
/// [`VideoTask::flags`]: the decoder forgets everything.
pub const FLUSH: u32 = 1 << 1;
/// [`VideoTask::flags`]: a decoder can begin with this picture.
pub const KEY_FRAME: u32 = 1 << 2;

impl VideoTask {
    /// Reads a task's bytes.
    ///
    /// # Errors
    /// When they have another length.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::read_from_bytes(bytes).map_err(|_| Malformed::Length(bytes.len()))
    }
}

/// What came of a task. The numbers of `result` are those of the protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct VideoAnswer {
    /// See [`result`].
    pub result: u32,
    /// 1 if a decoder can begin with what came out, else 0.
    pub is_key: u32,
    /// Bytes of the temporal unit.
    pub bytes: u64,
    /// The picture's size.
    pub size: [u32; 2],
    /// Bits of its samples.
    pub bit_depth: u32,
    /// Zero.
    pub reserved: u32,
    /// Its time.
    pub time: u64,
}

impl VideoAnswer {
    /// Reads an answer's bytes, of a worker that may have been taken over.
    ///
    /// # Errors
    /// When they have another length, or a field that no answer has.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let answer = Self::read_from_bytes(bytes).map_err(|_| Malformed::Length(bytes.len()))?;
        let known = (result::DONE..=result::REFUSED).contains(&answer.result);
        if known && answer.is_key <= 1 && answer.reserved == 0 {
            Ok(answer)
        } else {
            Err(Malformed::Field("video answer"))
        }
    }
}

/// What came of a task.
pub mod result {
    /// Something came out.
    pub const DONE: u32 = 1;
    /// More must come in first.
    pub const NEEDS_MORE: u32 = 2;
    /// Nothing is left.
    pub const END: u32 = 3;
    /// The bitstream is no valid AV1.
    pub const CORRUPT: u32 = 4;
    /// The stream's pictures are larger than the session's.
    pub const TOO_LARGE: u32 = 5;
    /// The stream's pictures are of another format than the session's.
    pub const FORMAT_MISMATCH: u32 = 6;
    /// What came out has no room. It is kept for the next packet.
    pub const NO_ROOM: u32 = 7;
    /// The codec refuses what the session is to be, or the picture.
    pub const REFUSED: u32 = 8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_one_and_a_half_times_its_luma() {
        let [nv12, i420, p010, i010] =
            [1, 2, 3, 4].map(|number| Format::of_number(number).unwrap());
        assert_eq!((nv12.bytes([64, 48], 64), i420.bytes([64, 48], 64)), (Some(4608), Some(4608)));
        assert_eq!(
            (p010.bytes([64, 48], 128), i010.bytes([64, 48], 128)),
            (Some(9216), Some(9216))
        );
        // Chroma has whole samples, and rows of whole pairs.
        assert_eq!(nv12.bytes([63, 47], 64), Some(64 * (47 + 24)));
        assert_eq!(nv12.bytes([65, 48], 64), None);
        assert_eq!(nv12.bytes([64, 48], 65), None);
        assert_eq!(p010.bytes([64, 48], 130), None);
        assert_eq!(nv12.bytes([u32::MAX, 1], u32::MAX), None);
        assert!(Format::of_number(0).is_none() && Format::of_number(5).is_none());
    }

    #[test]
    fn an_answer_that_says_what_none_can_say_is_not_believed() {
        let good = VideoAnswer { result: result::DONE, is_key: 1, ..VideoAnswer::default() };
        assert_eq!(VideoAnswer::read(good.as_bytes()), Ok(good));
        for bad in [
            VideoAnswer { result: 0, ..good },
            VideoAnswer { result: 9, ..good },
            VideoAnswer { is_key: 2, ..good },
            VideoAnswer { reserved: 1, ..good },
        ] {
            assert_eq!(VideoAnswer::read(bad.as_bytes()), Err(Malformed::Field("video answer")));
        }
        assert!(VideoAnswer::read(&good.as_bytes()[1..]).is_err());
    }
}
