// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's side of a split virtqueue.
//!
//! Source: VIRTIO 1.3, "Split Virtqueues".

use super::{DmaMemory, TransportError};
use std::sync::atomic::{Ordering, fence};
use vm_memory::{Bytes, VolatileSlice};

/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// Bytes of a used element.
const USED_ELEMENT: usize = 8;
/// Bytes of flags and index before the elements of either ring.
const RING_HEADER: usize = 4;
/// `VIRTQ_USED_F_NO_NOTIFY`: the device polls the queue.
const NO_NOTIFY: u16 = 1;

/// Another descriptor of the chain follows (`VIRTQ_DESC_F_NEXT`).
pub const DESCRIPTOR_NEXT: u16 = 1;
/// The device writes the buffer (`VIRTQ_DESC_F_WRITE`).
pub const DESCRIPTOR_WRITE: u16 = 2;

/// A descriptor of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Guest-physical address of the buffer.
    pub address: u64,
    /// Its length in bytes.
    pub length: u32,
    /// [`DESCRIPTOR_NEXT`], [`DESCRIPTOR_WRITE`].
    pub flags: u16,
    /// Index of the next descriptor.
    pub next: u16,
}

/// The guest-physical addresses of a virtqueue's three parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueAddresses {
    /// The descriptor table.
    pub descriptors: u64,
    /// The available ring.
    pub available: u64,
    /// The used ring.
    pub used: u64,
}

/// A chain that the device returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Head of the chain.
    pub head: u16,
    /// Bytes that the device wrote.
    pub written: u32,
}

/// A split virtqueue.
pub struct Virtqueue {
    memory: DmaMemory,
    size: u16,
    available: u16,
    used: u16,
    /// The heads that the device owns and may return.
    offered: Vec<bool>,
}

const fn available_offset(size: u16) -> usize {
    size as usize * DESCRIPTOR
}

const fn used_offset(size: u16) -> usize {
    (available_offset(size) + RING_HEADER + 2 * size as usize + 2).next_multiple_of(4)
}

impl Virtqueue {
    /// Bytes of memory for a queue of `size` descriptors.
    #[must_use]
    pub const fn memory_size(size: u16) -> usize {
        used_offset(size) + RING_HEADER + USED_ELEMENT * size as usize + 2
    }

    /// Creates an empty queue of `size` descriptors, a power of two, in memory that is large enough and aligned to
    /// 16 bytes.
    ///
    /// # Errors
    /// If the memory is too small.
    pub fn new(memory: DmaMemory, size: u16) -> Result<Self, TransportError> {
        if memory.length() < Self::memory_size(size) {
            return Err(TransportError::OutOfMemory(Self::memory_size(size) as u64));
        }
        let offered = vec![false; usize::from(size)];
        let mut queue = Self { memory, size, available: 0, used: 0, offered };
        queue.reset()?;
        Ok(queue)
    }

    /// Empties the queue. The device must not use the queue.
    ///
    /// # Errors
    /// Never fails for an existing queue.
    pub fn reset(&mut self) -> Result<(), TransportError> {
        let zeroes = vec![0; Self::memory_size(self.size)];
        self.bytes()?.write_slice(&zeroes, 0).map_err(outside)?;
        (self.available, self.used) = (0, 0);
        self.offered.fill(false);
        Ok(())
    }

    /// The addresses of the queue for the device.
    #[must_use]
    pub fn addresses(&self) -> QueueAddresses {
        let base = self.memory.address();
        QueueAddresses {
            descriptors: base,
            available: base + available_offset(self.size) as u64,
            used: base + used_offset(self.size) as u64,
        }
    }

    fn bytes(&self) -> Result<VolatileSlice<'_>, TransportError> {
        self.memory.bytes()
    }

    /// Writes a descriptor that the device does not own.
    ///
    /// # Errors
    /// If the descriptor does not exist.
    pub fn write_descriptor(
        &mut self,
        index: u16,
        descriptor: Descriptor,
    ) -> Result<(), TransportError> {
        let Descriptor { address, length, flags, next } = descriptor;
        if index >= self.size {
            return Err(TransportError::Protocol(format!("there is no descriptor {index}")));
        }
        let mut bytes = [0; DESCRIPTOR];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.to_le_bytes());
        self.bytes()?.write_slice(&bytes, usize::from(index) * DESCRIPTOR).map_err(outside)
    }

    /// Offers the chain that begins at `head` to the device. Returns whether the device wants a notification.
    ///
    /// # Errors
    /// Never fails for an existing queue.
    pub fn offer(&mut self, head: u16) -> Result<bool, TransportError> {
        let bytes = self.bytes()?;
        let ring = available_offset(self.size);
        let place = usize::from(self.available % self.size);
        bytes
            .store(head.to_le(), ring + RING_HEADER + 2 * place, Ordering::Relaxed)
            .map_err(outside)?;
        let available = self.available.wrapping_add(1);
        // Publishes the descriptors and the buffers to the device, which acquires the index.
        bytes.store(available.to_le(), ring + 2, Ordering::Release).map_err(outside)?;
        // Pairs with the device's fence: the device asks for notifications and then loads the index; the driver
        // stored the index and then loads whether the device asks.
        fence(Ordering::SeqCst);
        let flags: u16 = bytes.load(used_offset(self.size), Ordering::Relaxed).map_err(outside)?;
        self.available = available;
        if let Some(offered) = self.offered.get_mut(usize::from(head)) {
            *offered = true;
        }
        Ok(u16::from_le(flags) & NO_NOTIFY == 0)
    }

    /// Returns whether the device has returned a chain that was not yet taken.
    #[must_use]
    pub fn has_used(&self) -> bool {
        // Relaxed: `take_used` acquires.
        let index = |bytes: VolatileSlice<'_>| {
            bytes.load::<u16>(used_offset(self.size) + 2, Ordering::Relaxed).ok()
        };
        self.bytes().ok().and_then(index).is_some_and(|index| u16::from_le(index) != self.used)
    }

    /// Takes the next chain that the device has returned.
    ///
    /// # Errors
    /// If the device returns a chain that it does not own.
    pub fn take_used(&mut self) -> Result<Option<Used>, TransportError> {
        let bytes = self.bytes()?;
        let ring = used_offset(self.size);
        // Acquires the bytes that the device wrote into the buffers.
        let index: u16 = bytes.load(ring + 2, Ordering::Acquire).map_err(outside)?;
        let given_back = u16::from_le(index).wrapping_sub(self.used);
        if given_back == 0 {
            return Ok(None);
        }
        if given_back > self.available.wrapping_sub(self.used) {
            return Err(TransportError::Protocol(
                "it returned more descriptors than were offered".into(),
            ));
        }
        let place = ring + RING_HEADER + USED_ELEMENT * usize::from(self.used % self.size);
        let head: u32 = bytes.load(place, Ordering::Relaxed).map_err(outside)?;
        let written: u32 = bytes.load(place + 4, Ordering::Relaxed).map_err(outside)?;
        let (head, written) = (u32::from_le(head), u32::from_le(written));
        match self.offered.get_mut(head as usize) {
            Some(offered) if *offered => *offered = false,
            _ => {
                let problem = format!("it returned descriptor {head}, which it does not have");
                return Err(TransportError::Protocol(problem));
            }
        }
        self.used = self.used.wrapping_add(1);
        Ok(Some(Used { head: head as u16, written }))
    }
}

fn outside(error: vm_memory::VolatileMemoryError) -> TransportError {
    TransportError::Protocol(format!("the queue's memory: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::testing::memory;

    const SIZE: u16 = 4;

    fn queue() -> Virtqueue {
        Virtqueue::new(memory(0x1000, 4096), SIZE).unwrap()
    }

    /// The device's part: uses `head` and publishes the used index.
    fn give_back(queue: &Virtqueue, index: u16, head: u32, written: u32) {
        let bytes = queue.bytes().unwrap();
        let ring = used_offset(SIZE);
        let place = ring + RING_HEADER + USED_ELEMENT * usize::from(index.wrapping_sub(1) % SIZE);
        bytes.write_slice(&head.to_le_bytes(), place).unwrap();
        bytes.write_slice(&written.to_le_bytes(), place + 4).unwrap();
        bytes.store(index.to_le(), ring + 2, Ordering::Release).unwrap();
    }

    #[test]
    fn the_three_parts_have_the_alignment_that_virtio_asks_for() {
        let QueueAddresses { descriptors, available, used } = queue().addresses();
        assert_eq!((descriptors % 16, available % 2, used % 4), (0, 0, 0));
    }

    #[test]
    fn chains_come_back_in_any_order_and_around_the_end() {
        let mut queue = queue();
        assert_eq!(queue.take_used().unwrap(), None);
        for round in 0..20u16 {
            assert!(queue.offer(round % SIZE).unwrap());
            assert_eq!(queue.take_used().unwrap(), None);
            give_back(&queue, round + 1, u32::from(round % SIZE), u32::from(round));
            let used = Used { head: round % SIZE, written: u32::from(round) };
            assert_eq!(queue.take_used().unwrap(), Some(used));
        }
    }

    #[test]
    fn a_device_that_needs_no_notification_gets_none() {
        let mut queue = queue();
        queue.bytes().unwrap().store(NO_NOTIFY, used_offset(SIZE), Ordering::Relaxed).unwrap();
        assert!(!queue.offer(0).unwrap());
    }

    #[test]
    fn a_device_that_gives_back_what_it_cannot_have_is_an_error() {
        let mut queue = queue();
        give_back(&queue, 1, 0, 0);
        assert!(matches!(queue.take_used(), Err(TransportError::Protocol(_))));
        queue.offer(0).unwrap();
        for head in [1, u32::from(SIZE), u32::MAX] {
            give_back(&queue, 1, head, 0);
            assert!(matches!(queue.take_used(), Err(TransportError::Protocol(_))));
        }
    }
}
