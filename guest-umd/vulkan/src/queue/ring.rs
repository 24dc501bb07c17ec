// SPDX-License-Identifier: MIT OR Apache-2.0

//! A queue's ring, and the buffers that hold packets until the engine has executed them.

use super::packets::PACKET;
use crate::device::Device;
use crate::pages::out_of;
use ash::vk;
use bellhop_guest_umd::{CommandBuffer, Error, Fence, UserModeQueue};
use std::collections::VecDeque;
use zerocopy::IntoBytes;

/// Bytes of the ring: more than a thousand submissions.
const RING: u64 = 64 << 10;
/// Words of a buffer. A submission with more takes several.
const WORDS: usize = 64 * PACKET;
/// How many buffers are made at once: a page of them.
const AT_ONCE: usize = 4;
/// How often a doorbell is rung again that could not be connected.
const RETRIES: usize = 3;

/// Why packets were not submitted.
#[derive(Debug)]
pub(super) enum Failed {
    /// None of them is in the ring.
    Nothing(Error),
    /// The queue cannot go on.
    Lost(Error),
}

impl Failed {
    /// What functions return, and what becomes of the device.
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
    /// The buffers, those first that are done first, each with the value that the progress fence has then.
    buffers: VecDeque<(u64, CommandBuffer)>,
}

impl Ring {
    pub(super) fn new(device: &bellhop_guest_umd::Device, node: u32) -> Result<Self, Error> {
        let queue = device.create_context(node)?.create_user_mode_queue(RING)?;
        Ok(Self { queue, buffers: VecDeque::new() })
    }

    /// A view of the progress fence.
    pub(super) fn progress(&self) -> Fence {
        self.queue.shared_progress_fence()
    }

    /// The value of the last submission.
    pub(super) fn last(&self) -> u64 {
        self.queue.last_value()
    }

    /// A buffer that the engine does not read.
    fn buffer(
        &mut self,
        device: &bellhop_guest_umd::Device,
        progress: &Fence,
    ) -> Result<CommandBuffer, Error> {
        let done = progress.current_value()?;
        if let Some((_, mut buffer)) = self.buffers.pop_front_if(|(value, _)| *value <= done) {
            buffer.reset();
            return Ok(buffer);
        }
        let mut new = CommandBuffer::many(device, WORDS * size_of::<u64>(), AT_ONCE)?;
        let buffer = new.pop().ok_or(Error::NotAvailable("a command buffer"))?;
        for spare in new {
            self.buffers.push_front((0, spare));
        }
        Ok(buffer)
    }

    /// Submits packets. Returns the value that the progress fence gets when they and everything before them are done.
    pub(super) fn submit(
        &mut self,
        device: &bellhop_guest_umd::Device,
        progress: &Fence,
        words: &[u64],
    ) -> Result<u64, Failed> {
        let before = self.queue.last_value();
        let mut parts = words.chunks(WORDS).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let submitted = self.submit_part(device, progress, part, is_last);
            submitted.map_err(|error| match error {
                Error::QueueLost { .. } | Error::NotRung { .. } => Failed::Lost(error),
                error if self.queue.last_value() == before => Failed::Nothing(error),
                error => Failed::Lost(error),
            })?;
        }
        Ok(self.queue.last_value())
    }

    /// Puts packets into the ring, and rings after the last.
    fn submit_part(
        &mut self,
        device: &bellhop_guest_umd::Device,
        progress: &Fence,
        words: &[u64],
        is_last: bool,
    ) -> Result<(), Error> {
        let mut buffer = self.buffer(device, progress)?;
        buffer.raw(words.as_bytes())?;
        let submitted =
            if is_last { self.queue.submit(&mut buffer) } else { self.queue.queue(&mut buffer) };
        let (value, error) = match submitted {
            Ok(value) => (value, None),
            Err(Error::NotRung { value, reason }) => (value, Some(reason)),
            Err(error) => {
                // It is not in the ring.
                self.buffers.push_front((0, buffer));
                return Err(error);
            }
        };
        self.buffers.push_back((value, buffer));
        match error {
            None => Ok(()),
            Some(reason) => self.ring_again(value, reason),
        }
    }

    /// Rings for what is in the ring.
    #[cold]
    fn ring_again(&mut self, value: u64, mut reason: Box<Error>) -> Result<(), Error> {
        for _ in 0..RETRIES {
            match self.queue.ring() {
                Ok(()) => return Ok(()),
                Err(error) => reason = Box::new(error),
            }
        }
        Err(Error::NotRung { value, reason })
    }
}
