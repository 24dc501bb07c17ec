// SPDX-License-Identifier: MIT OR Apache-2.0

//! A picture of a video, in memory.

use bellhop_protocol::control::video::VideoFormat;

/// A picture as it lies in memory, without gaps: its pitch is [`VideoFormat::least_pitch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// How it lies there.
    pub format: VideoFormat,
    /// Width and height in samples of luma.
    pub size: [u32; 2],
    /// Its bytes: [`Self::length`].
    pub bytes: Vec<u8>,
    /// Its time, in the unit that the program chose.
    pub time: u64,
}

impl Picture {
    /// Bytes of a picture of this format and size.
    #[must_use]
    pub fn length(format: VideoFormat, [width, height]: [u32; 2]) -> u64 {
        VideoFormat::bytes(height, format.least_pitch(width))
    }
}
