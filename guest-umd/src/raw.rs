// SPDX-License-Identifier: MIT OR Apache-2.0

//! Access around the driver's rules, for programs that test a device (feature `raw`).
//!
//! A driver keeps its rings, doorbells and descriptors valid, so a device never sees invalid ones. The conformance
//! suite and the hostile guest of `bellhop-guest` must show how a device treats invalid ones, and enable this
//! feature. No other program needs it: without the feature, none of these items exist.
//!
//! | what | past which rule |
//! |---|---|
//! | [`UserModeQueue::queue_raw`] | the ring holds whole packets, each with its progress value |
//! | [`UserModeQueue::publish_unrung`] | the ring shows work only when the doorbell rings for it |
//! | [`UserModeQueue::ring_once`] | the driver does what a doorbell's status asks for |
//! | [`UserModeQueue::ring_with`] | the write pointer is where the ring ends |
//! | [`UserModeQueue::ring_with_line`] | the copy in the doorbell's line is what the ring holds |
//! | [`front_end`] | a front end says what it has to, in a good order |
//! | [`ControlQueue::offer_raw`], from [`RAW_INDEX`] on | a request and its reply are one chain each |
//!
//! [`ControlQueue::offer_raw`]: crate::transport::control_queue::ControlQueue::offer_raw

use crate::error::Error;
use crate::queue::user_mode::UserModeQueue;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::doorbell_line::COPY_WORDS;

/// The parts of the vhost-user front end, for a program that imitates VMMs.
#[cfg(feature = "vhost-user")]
pub mod front_end {
    pub use crate::transport::vhost_user::conversation::{VIRTIO_FEATURES, during, speaker};
    pub use crate::transport::vhost_user::notifications::{EventFds, Manners};
    pub use crate::transport::vhost_user::place::Place;
    pub use crate::transport::vhost_user::ram::{GuestRam, Plugged};
    pub use crate::transport::vhost_user::requests::RequestServer;
    pub use crate::transport::vhost_user::window::Mappings;
}

/// Index in the control queue's table of the first descriptor that [`ControlQueue::offer_raw`] writes.
///
/// [`ControlQueue::offer_raw`]: crate::transport::control_queue::ControlQueue::offer_raw
pub const RAW_INDEX: u16 = crate::transport::control_queue::RAW_INDEX;

impl UserModeQueue {
    /// Puts bytes into the ring unchanged, whether they are packets or not. The progress fence does not count them.
    ///
    /// # Errors
    /// As [`Self::queue`].
    pub fn queue_raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.push_bytes(bytes)?;
        self.doorbell.close_line(self.ring.write_pointer());
        Ok(())
    }

    /// Shows the engine the ring's content without ringing.
    pub fn publish_unrung(&mut self) {
        self.publish();
    }

    /// Stores to the doorbell once and returns its status. Ignores the status: neither notifies nor connects.
    pub fn ring_once(&mut self) -> ConnectionStatus {
        self.publish();
        self.doorbell.ring_once(self.ring.write_pointer())
    }

    /// Bytes that were ever put into the ring.
    #[must_use]
    pub fn ring_position(&self) -> u64 {
        self.ring.write_pointer()
    }

    /// Rings the doorbell once, with any start and any copy in its line; returns its status. `None` if the line carries
    /// no packets.
    pub fn ring_with_line(
        &mut self,
        start: u64,
        copy: [u64; COPY_WORDS],
    ) -> Option<ConnectionStatus> {
        self.publish();
        self.doorbell.ring_with_line(self.ring.write_pointer(), start, copy)
    }

    /// Publishes a write pointer that need not be the ring's, and rings the doorbell with it.
    ///
    /// # Errors
    /// As [`Self::ring`].
    pub fn ring_with(&mut self, write_pointer: u64) -> Result<(), Error> {
        self.ring.pointers().publish(write_pointer);
        self.doorbell.close_line(write_pointer);
        self.doorbell.check_device()?;
        let rung = self.doorbell.ring(write_pointer);
        self.is_plain &= self.doorbell.is_plain();
        rung
    }
}
