//! The event queue: buffers that the device fills.

use super::virtqueue::{DESCRIPTOR_WRITE, Descriptor, QueueAddresses, Used, Virtqueue};
use super::{DmaMemory, Notifications, TransportError};
use bellhop_protocol::event::Event;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vm_memory::Bytes;
use zerocopy::{FromZeros, IntoBytes};

/// Buffers on offer, and descriptors in the queue.
const QUEUE_SIZE: u16 = 64;
const EVENT: usize = size_of::<Event>();

/// The event queue of a device.
pub struct EventQueue<N> {
    notifications: N,
    buffers: DmaMemory,
    queue: Mutex<Virtqueue>,
}

impl<N: Notifications> EventQueue<N> {
    /// How many descriptors the queue has.
    pub const SIZE: u16 = QUEUE_SIZE;

    /// Bytes of memory that the queue and its buffers take.
    pub const MEMORY: usize = Self::QUEUE_MEMORY + QUEUE_SIZE as usize * EVENT;
    const QUEUE_MEMORY: usize = Virtqueue::memory_size(QUEUE_SIZE).next_multiple_of(4096);

    /// A queue in memory of at least [`Self::MEMORY`] bytes.
    ///
    /// # Errors
    /// When the memory is too small.
    pub fn new(memory: &DmaMemory, notifications: N) -> Result<Self, TransportError> {
        let queue = Virtqueue::new(memory.part(0, Self::QUEUE_MEMORY)?, QUEUE_SIZE)?;
        let buffers = memory.part(Self::QUEUE_MEMORY, Self::MEMORY - Self::QUEUE_MEMORY)?;
        Ok(Self { notifications, buffers, queue: Mutex::new(queue) })
    }

    /// Where the device finds the queue.
    #[must_use]
    pub fn addresses(&self) -> QueueAddresses {
        self.lock().addresses()
    }

    /// The notifications it uses.
    #[must_use]
    pub fn notifications(&self) -> &N {
        &self.notifications
    }

    /// No code panics while it holds the lock, so a poisoned queue is whole.
    fn lock(&self) -> MutexGuard<'_, Virtqueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins anew, with no buffer on offer. The device must not use the queue.
    ///
    /// # Errors
    /// None for a queue that was created.
    pub fn reset(&self) -> Result<(), TransportError> {
        self.lock().reset()
    }

    /// Offers all buffers, once the device runs. Some VMMs have a device begin behind what was on
    /// offer when it was started.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn offer_buffers(&self) -> Result<(), TransportError> {
        let mut queue = self.lock();
        let mut notify = false;
        for index in 0..QUEUE_SIZE {
            notify |= self.offer(&mut queue, index)?;
        }
        if notify {
            self.notifications.kick()?;
        }
        Ok(())
    }

    fn buffer(&self, index: u16) -> Result<DmaMemory, TransportError> {
        self.buffers.part(usize::from(index) * EVENT, EVENT)
    }

    fn offer(&self, queue: &mut Virtqueue, index: u16) -> Result<bool, TransportError> {
        let address = self.buffer(index)?.address();
        let descriptor =
            Descriptor { address, length: EVENT as u32, flags: DESCRIPTOR_WRITE, next: 0 };
        queue.write_descriptor(index, descriptor)?;
        queue.offer(index)
    }

    /// Waits for the next event, blocked; `None` when the time is over. One thread at a time: of
    /// two that wait only one would be told of two events.
    ///
    /// # Errors
    /// When the device is gone or breaks the queue's rules.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(event) = self.take()? {
                return Ok(Some(event));
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if !self.notifications.wait(left)? {
                // Once more: the device writes before it notifies.
                return self.take();
            }
        }
    }

    fn take(&self) -> Result<Option<Event>, TransportError> {
        let mut queue = self.lock();
        let Some(Used { head, written }) = queue.take_used()? else { return Ok(None) };
        if (written as usize) < EVENT {
            return Err(TransportError::Protocol(format!("an event of {written} bytes")));
        }
        let mut event = Event::new_zeroed();
        self.buffer(head)?
            .bytes()?
            .read_slice(event.as_mut_bytes(), 0)
            .map_err(|error| TransportError::Protocol(format!("guest memory: {error}")))?;
        if self.offer(&mut queue, head)? {
            self.notifications.kick()?;
        }
        Ok(Some(event))
    }
}
