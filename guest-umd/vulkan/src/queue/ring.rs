// SPDX-License-Identifier: MIT OR Apache-2.0

//! A queue's ring.

use super::packets::Packets;
use crate::device::Device;
use crate::pages::out_of;
use ash::vk;
use bellhop_guest_umd::{Error, Fence, UserModeQueue};

/// Bytes of the ring: more than a thousand submissions.
const RING: u64 = 64 << 10;
/// How often a doorbell is rung again that could not be connected.
const RETRIES: usize = 3;

/// Why packets were not submitted.
#[derive(Debug)]
pub(super) enum Failed {
    /// None of them is in the ring.
    Nothing(Box<Error>),
    /// The queue cannot go on.
    Lost(Box<Error>),
}

impl Failed {
    /// What functions return, and what becomes of the device.
    #[cold]
    pub(super) fn result(&self, device: &Device) -> vk::Result {
        match self {
            Self::Nothing(error) => out_of(error),
            Self::Lost(error) => device.lose(error),
        }
    }
}

/// The ring of a queue.
pub(super) struct Ring {
    queue: UserModeQueue,
}

impl Ring {
    pub(super) fn new(device: &bellhop_guest_umd::Device, node: u32) -> Result<Self, Error> {
        Ok(Self { queue: device.create_context(node)?.create_user_mode_queue(RING)? })
    }

    /// A view of the progress fence.
    pub(super) fn progress(&self) -> Fence {
        self.queue.shared_progress_fence()
    }

    /// Names the queue for people.
    pub(super) fn set_name(&self, name: &str) -> Result<(), Error> {
        self.queue.set_name(name)
    }

    /// The value of the last submission.
    pub(super) fn last(&self) -> u64 {
        self.queue.last_value()
    }

    /// Submits the packets that `fill` appends. Returns the value that the progress fence gets when they and everything before
    /// them are done.
    #[inline]
    pub(super) fn submit(&mut self, fill: impl FnOnce(&mut Packets<'_>)) -> Result<u64, Failed> {
        let before = self.queue.last_value();
        let mut packets = Packets::new(&mut self.queue);
        fill(&mut packets);
        packets.submit().or_else(|error| self.go_on(before, *error))
    }

    /// Rings for what is in the ring, if that can be done.
    #[cold]
    fn go_on(&mut self, before: u64, error: Error) -> Result<u64, Failed> {
        match error {
            Error::NotRung { value, reason } => {
                let mut reason = reason;
                for _ in 0..RETRIES {
                    match self.queue.ring() {
                        Ok(()) => return Ok(value),
                        Err(error) => reason = Box::new(error),
                    }
                }
                Err(Failed::Lost(Box::new(Error::NotRung { value, reason })))
            }
            error @ Error::QueueLost { .. } => Err(Failed::Lost(Box::new(error))),
            error if self.queue.last_value() == before => Err(Failed::Nothing(Box::new(error))),
            error => Err(Failed::Lost(Box::new(error))),
        }
    }
}
