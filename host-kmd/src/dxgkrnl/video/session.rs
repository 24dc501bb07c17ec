// SPDX-License-Identifier: MIT OR Apache-2.0

//! A video session.

use crate::hardware::VideoSessionNumber;
use bellhop_protocol::control::Handle;

/// A session.
#[derive(Debug)]
pub(crate) struct VideoSession {
    /// The device that owns it.
    device: Handle,
    /// The number by which packets name it.
    number: VideoSessionNumber,
}

impl VideoSession {
    /// The session of this number, owned by this device.
    pub(crate) fn new(device: Handle, number: VideoSessionNumber) -> Self {
        Self { device, number }
    }

    /// The device that owns it.
    pub(crate) fn device(&self) -> Handle {
        self.device
    }

    /// The number by which packets name it.
    pub(crate) fn number(&self) -> VideoSessionNumber {
        self.number
    }
}
