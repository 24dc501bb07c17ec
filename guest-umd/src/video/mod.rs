// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video: pictures from an AV1 stream, and a stream from pictures, on the device's video nodes.
//!
//! A [`VideoDecoder`] or [`VideoEncoder`] has a session of the device, a queue on a video node, and memory for one picture
//! and one temporal unit. It submits one packet for each call, and waits for it.

mod decoder;
mod encoder;
mod error;
mod picture;
mod session;

pub use decoder::{DecoderSettings, VideoDecoder};
pub use encoder::{EncoderRate, EncoderSettings, TemporalUnit, VideoEncoder};
pub use error::VideoError;
pub use picture::Picture;

use crate::adapter::Adapter;
use crate::error::Error;
use bellhop_protocol::control::video::{QueryVideoCaps, VideoCaps};

impl Adapter {
    /// What video sessions can be on this device: whether there are any, and if not, why ([`VideoCaps::missing`]).
    ///
    /// # Errors
    /// Only the common errors.
    pub fn video_caps(&self) -> Result<VideoCaps, Error> {
        self.adapter_call(&QueryVideoCaps { reserved: 0 })
    }
}
