// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submissions of few packets, without a command buffer.

use crate::commands::command_buffer::SMALL_WORDS;
use crate::error::Error;
use crate::queue::user_mode::UserModeQueue;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::packet::flow::IndirectBuffer;

/// What executes more words than [`SmallPackets`] can have.
const NEVER_MORE: fn() -> IndirectBuffer = || IndirectBuffer::new(0, 0);

/// Few packets that a program encoded itself. A ring holds them as they are, so that no memory is kept for them until they are
/// executed.
#[derive(Debug, Clone, Copy, Default)]
pub struct SmallPackets {
    count: u8,
    words: [u64; SMALL_WORDS],
}

impl SmallPackets {
    /// Most words.
    pub const WORDS: usize = SMALL_WORDS;

    /// No packets.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 0, words: [0; SMALL_WORDS] }
    }

    /// Appends the words of a packet. Returns whether there is room; else nothing is appended.
    #[inline]
    pub fn push<const N: usize>(&mut self, packet: [u64; N]) -> bool {
        let start = usize::from(self.count);
        match self.words.get_mut(start..).and_then(<[u64]>::first_chunk_mut::<N>) {
            Some(words) => {
                *words = packet;
                self.count += N as u8;
                true
            }
            None => false,
        }
    }

    /// Removes all of them.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn small(&self) -> (u8, &[u64; SMALL_WORDS]) {
        (self.count, &self.words)
    }

    fn words(&self) -> &[u64] {
        self.words.get(..self.count.into()).unwrap_or(&self.words)
    }
}

impl UserModeQueue {
    /// Submits packets as [`Self::submit`] does a command buffer.
    ///
    /// After [`Error::NotRung`] they are in the ring: [`Self::ring`] rings for them, and submitting them again is another submission.
    ///
    /// # Errors
    /// As [`Self::submit`].
    #[inline]
    pub fn submit_packets(&mut self, packets: &SmallPackets) -> Result<u64, Error> {
        if !self.is_plain || !self.doorbell.is_connected() {
            return self.submit_packets_otherwise(packets);
        }
        let value = self.queue.last_value + 1;
        self.put_small(packets.small(), NEVER_MORE, value, true)?;
        self.doorbell.set_last_queued(value);
        let write_pointer = self.ring.write_pointer();
        self.ring.pointers().publish(write_pointer);
        match self.doorbell.ring_line(write_pointer) {
            ConnectionStatus::CONNECTED => Ok(value),
            status => self.packets_rung_on(value, status),
        }
    }

    /// The status after the ring for this submission requires something.
    #[cold]
    fn packets_rung_on(&mut self, value: u64, status: ConnectionStatus) -> Result<u64, Error> {
        let rung = self.doorbell.ring_on(status, self.ring.write_pointer());
        self.is_plain = self.doorbell.is_plain();
        self.packets_rung(value, rung)
    }

    /// As [`Self::submit_packets`], where they do not take the short way.
    #[inline(never)]
    fn submit_packets_otherwise(&mut self, packets: &SmallPackets) -> Result<u64, Error> {
        self.doorbell.prepare()?;
        let value = self.queue_packets(packets)?;
        let rung = self.ring();
        self.packets_rung(value, rung)
    }

    /// The value of a submission that is in the ring, after its ring.
    fn packets_rung(&mut self, value: u64, rung: Result<(), Error>) -> Result<u64, Error> {
        match rung {
            // If the queue is lost, the progress fence tells, as it does for earlier submissions.
            Err(reason) if self.doorbell.status() != ConnectionStatus::DISCONNECTED_ABORT => {
                self.is_plain = false;
                Err(Error::NotRung { value, reason: Box::new(reason) })
            }
            _ => Ok(value),
        }
    }

    /// Puts packets into the ring without ringing, as [`Self::queue`] does a command buffer.
    ///
    /// # Errors
    /// As [`Self::queue`].
    #[inline]
    pub fn queue_packets(&mut self, packets: &SmallPackets) -> Result<u64, Error> {
        let value = self.queue.last_value + 1;
        match self.doorbell.queued_now() {
            Some(queued) => self.put_logged(packets.words(), value, queued)?,
            None => self.put_small(packets.small(), NEVER_MORE, value, false)?,
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_appended_as_long_as_there_is_room() {
        let mut packets = SmallPackets::new();
        assert!(packets.is_empty());
        assert!(packets.push([1, 2]) && packets.push([3, 4]));
        assert!(!packets.push([5, 6]));
        assert_eq!(packets.words(), [1, 2, 3, 4]);
        assert!(packets.push([5]) && !packets.push([6]));
        assert_eq!(packets.words(), [1, 2, 3, 4, 5]);
        packets.clear();
        assert!(packets.is_empty() && packets.push([7, 8, 9, 10, 11]));
        assert_eq!(packets.words(), [7, 8, 9, 10, 11]);
    }
}
