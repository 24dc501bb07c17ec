// SPDX-License-Identifier: MIT OR Apache-2.0

//! The event queue: buffers that the device fills with events.

use super::virtqueue::{DESCRIPTOR_WRITE, Descriptor, QueueAddresses, Used, Virtqueue};
use super::{DmaMemory, Notifications, TransportError};
use bellhop_protocol::event::{Event, EventKind};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vm_memory::Bytes;
use zerocopy::{FromZeros, IntoBytes};

/// Number of offered buffers, and of descriptors in the queue.
const QUEUE_SIZE: u16 = 64;
const EVENT: usize = size_of::<Event>();
/// Maximum number of events that the driver keeps until a thread takes them. A device that sends more waits.
const MAX_KEPT: usize = 4096;
/// How often a waiting driver checks that the device is still the one that it opened.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// The event queue of a device.
pub struct EventQueue<N> {
    notifications: N,
    buffers: DmaMemory,
    state: Mutex<State>,
}

struct State {
    queue: Virtqueue,
    /// Events that arrived and were not taken.
    kept: VecDeque<Event>,
    /// Whether another device replaced this one; it sends nothing else until a reset.
    is_replaced: bool,
    /// The time of the driver's last kick.
    told: Instant,
}

impl<N: Notifications> EventQueue<N> {
    /// Number of descriptors in the queue.
    pub const SIZE: u16 = QUEUE_SIZE;

    /// Bytes of memory for the queue and its buffers.
    pub const MEMORY: usize = Self::QUEUE_MEMORY + QUEUE_SIZE as usize * EVENT;
    const QUEUE_MEMORY: usize = Virtqueue::memory_size(QUEUE_SIZE).next_multiple_of(4096);

    /// Creates a queue in memory of at least [`Self::MEMORY`] bytes.
    ///
    /// # Errors
    /// If the memory is too small.
    pub fn new(memory: &DmaMemory, notifications: N) -> Result<Self, TransportError> {
        let queue = Virtqueue::new(memory.part(0, Self::QUEUE_MEMORY)?, QUEUE_SIZE)?;
        let buffers = memory.part(Self::QUEUE_MEMORY, Self::MEMORY - Self::QUEUE_MEMORY)?;
        let (kept, told) = (VecDeque::new(), Instant::now());
        let state = State { queue, kept, is_replaced: false, told };
        Ok(Self { notifications, buffers, state: Mutex::new(state) })
    }

    /// The addresses of the queue for the device.
    #[must_use]
    pub fn addresses(&self) -> QueueAddresses {
        self.lock().queue.addresses()
    }

    /// The notifications that the queue uses.
    #[must_use]
    pub fn notifications(&self) -> &N {
        &self.notifications
    }

    /// Locks the state. No code panics while it holds the lock, so the state behind a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties the queue and takes all buffers back. The device must not use the queue.
    ///
    /// # Errors
    /// Never fails for an existing queue.
    pub fn reset(&self) -> Result<(), TransportError> {
        let mut state = self.lock();
        state.kept.clear();
        state.is_replaced = false;
        state.queue.reset()
    }

    /// Offers all buffers. Called once the device runs: some VMMs start a device after the buffers that were
    /// offered before.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn offer_buffers(&self) -> Result<(), TransportError> {
        let mut state = self.lock();
        let mut notify = false;
        for index in 0..QUEUE_SIZE {
            notify |= self.offer(&mut state.queue, index)?;
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

    /// Blocks until the next event; returns `None` when the time is over, or when the device has notified the
    /// driver without an event. For one thread at a time: two events may come with one notification, which wakes
    /// one thread.
    ///
    /// # Errors
    /// If the device is gone or was replaced, or it breaks the queue's rules.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let has_come = || {
            let state = self.lock();
            state.is_replaced || !state.kept.is_empty() || state.queue.has_used()
        };
        let mut is_notified = false;
        loop {
            self.check()?;
            let kept = self.lock().kept.pop_front();
            if kept.is_some() {
                return Ok(kept);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if is_notified || left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let look = left.map_or(LOOK, |left| left.min(LOOK));
            is_notified = self.notifications.wait(Some(look), &has_come)?;
        }
    }

    /// Checks whether another device replaced this one (`DEVICE_REPLACED`). Kicks from time to time, since a
    /// restarted device learns of its queues only from a kick.
    ///
    /// # Errors
    /// If another device replaced it, or it breaks the queue's rules.
    pub fn check(&self) -> Result<(), TransportError> {
        let mut state = self.lock();
        let mut notify = false;
        while state.kept.len() < MAX_KEPT && !state.is_replaced {
            let Some(used) = state.queue.take_used()? else { break };
            let event = self.read(used)?;
            notify |= self.offer(&mut state.queue, used.head)?;
            match event.kind {
                EventKind::DEVICE_REPLACED => state.is_replaced = true,
                _ => state.kept.push_back(event),
            }
        }
        if state.is_replaced {
            return Err(TransportError::Replaced);
        }
        if notify || state.told.elapsed() >= LOOK {
            state.told = Instant::now();
            self.notifications.kick()?;
        }
        Ok(())
    }

    fn read(&self, used: Used) -> Result<Event, TransportError> {
        let Used { head, written } = used;
        if (written as usize) < EVENT {
            return Err(TransportError::Protocol(format!("an event of {written} bytes")));
        }
        let mut event = Event::new_zeroed();
        self.buffer(head)?
            .bytes()?
            .read_slice(event.as_mut_bytes(), 0)
            .map_err(|error| TransportError::Protocol(format!("guest memory: {error}")))?;
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::testing::memory;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Where the device sees the queue.
    const BASE: u64 = 0x1000;

    #[derive(Default)]
    struct Bell {
        kicks: AtomicU32,
    }

    impl Notifications for Bell {
        fn kick(&self) -> Result<(), TransportError> {
            self.kicks.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn wait(&self, _: Option<Duration>, _: &dyn Fn() -> bool) -> Result<bool, TransportError> {
            Ok(false)
        }

        fn wake(&self) -> Result<(), TransportError> {
            Ok(())
        }
    }

    /// A queue with all buffers on offer, and its memory.
    fn queue() -> (DmaMemory, EventQueue<Bell>) {
        let memory = memory(BASE, EventQueue::<Bell>::MEMORY);
        let queue = EventQueue::new(&memory, Bell::default()).unwrap();
        queue.offer_buffers().unwrap();
        (memory, queue)
    }

    /// The device's part: writes its `index`th event, counted from 1, in the order of the offers.
    fn send(memory: &DmaMemory, queue: &EventQueue<Bell>, index: u16, kind: EventKind) {
        let bytes = memory.bytes().unwrap();
        let head = (index - 1) % QUEUE_SIZE;
        let mut event = Event::new_zeroed();
        event.kind = kind;
        event.cookie = index.into();
        let buffer = EventQueue::<Bell>::QUEUE_MEMORY + usize::from(head) * EVENT;
        bytes.write_slice(event.as_bytes(), buffer).unwrap();
        let used = (queue.addresses().used - BASE) as usize;
        let element = [u32::from(head), EVENT as u32];
        bytes.write_slice(element.as_bytes(), used + 4 + 8 * usize::from(head)).unwrap();
        bytes.store(index, used + 2, Ordering::Release).unwrap();
    }

    #[test]
    fn a_device_that_is_another_is_seen_behind_events_that_were_not_taken() {
        let (memory, queue) = queue();
        for index in 1..=3 {
            send(&memory, &queue, index, EventKind::FENCE_SIGNALED);
        }
        queue.check().unwrap();
        assert_eq!(queue.next(Some(Duration::ZERO)).unwrap().unwrap().cookie, 1);
        send(&memory, &queue, 4, EventKind::DEVICE_REPLACED);
        for _ in 0..2 {
            assert!(matches!(queue.check(), Err(TransportError::Replaced)));
            assert!(matches!(queue.next(None), Err(TransportError::Replaced)));
        }
        // A reset binds the new device to this driver.
        queue.reset().unwrap();
        queue.offer_buffers().unwrap();
        queue.check().unwrap();
        assert!(queue.next(Some(Duration::ZERO)).unwrap().is_none());
    }

    #[test]
    fn what_was_seen_while_looking_is_taken_in_its_order_around_the_queue() {
        let (memory, queue) = queue();
        for index in 1..=200 {
            send(&memory, &queue, index, EventKind::FENCE_SIGNALED);
            queue.check().unwrap();
        }
        for index in 1..=200 {
            assert_eq!(queue.next(None).unwrap().unwrap().cookie, index);
        }
    }

    #[test]
    fn a_device_is_told_from_time_to_time_that_there_is_a_driver() {
        let (_memory, queue) = queue();
        let kicks = || queue.notifications().kicks.load(Ordering::Relaxed);
        let before = kicks();
        queue.check().unwrap();
        assert!(queue.next(Some(2 * LOOK)).unwrap().is_none());
        assert!(kicks() > before);
    }
}
