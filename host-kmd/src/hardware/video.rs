// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video sessions.

use super::{AddressSpaceId, UnknownId};
use bellhop_protocol::control::video::VideoCaps;

/// A session's number: unique in its address space, and never used again there. Packets name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VideoSessionNumber(pub u32);

/// What a session is. The caller has checked it against the protocol's limits and [`Video::video_caps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoSettings {
    /// The node that has it.
    pub node: u32,
    /// Whether it encodes, else it decodes.
    pub encodes: bool,
    /// How pictures lie in memory: the number of a `VideoFormat`.
    pub format: u32,
    /// Width and height of pictures, or the greatest.
    pub size: [u32; 2],
    /// Whether the rate is in bits a second, else it is a quantizer.
    pub is_bit_rate: bool,
    /// How many bits an encoder makes.
    pub rate: u32,
    /// Pictures a second: numerator and denominator.
    pub frame_rate: [u32; 2],
    /// Most pictures from a key frame to the next, or 0.
    pub key_frame_interval: u32,
    /// 0, the slowest, to 10.
    pub speed: u32,
}

/// Why the hardware has no such session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VideoRefusal {
    /// A bug of the caller.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
    /// The hardware has no sessions.
    #[error("the hardware has no video sessions")]
    NoVideo,
    /// Too many sessions exist.
    #[error("the hardware has no room for another video session")]
    Full,
}

/// Video sessions. An address space that is destroyed takes its sessions with it.
pub trait Video {
    /// What sessions can be. It never changes, and is about no guest: `max_sessions` is the hardware's limit for one.
    fn video_caps(&self) -> VideoCaps;

    /// Creates a session. What it takes to decode or encode is prepared when its first packet is executed.
    ///
    /// # Errors
    /// If there can be no such session; nothing was done.
    fn create_video_session(
        &self,
        space: AddressSpaceId,
        settings: VideoSettings,
    ) -> Result<VideoSessionNumber, VideoRefusal>;

    /// Destroys a session. A packet that executes finishes; later ones are faults.
    ///
    /// # Errors
    /// Fails for an address space or session that does not exist.
    fn destroy_video_session(
        &self,
        space: AddressSpaceId,
        session: VideoSessionNumber,
    ) -> Result<(), UnknownId>;
}
