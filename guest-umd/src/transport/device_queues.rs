// SPDX-License-Identifier: MIT OR Apache-2.0

//! The two virtqueues of a device, as each transport over virtqueues has them.

use super::control_queue::ControlQueue;
use super::event_queue::EventQueue;
use super::virtqueue::QueueAddresses;
use super::{DmaMemory, Notifications, TransportError};
use bellhop_protocol::config::{CONTROL_QUEUE, EVENT_QUEUE};
use bellhop_protocol::event::Event;
use std::sync::Arc;
use std::time::Duration;

/// The control queue and the event queue.
pub struct DeviceQueues<N> {
    /// The control queue.
    pub control: ControlQueue<N>,
    /// The event queue.
    pub events: Arc<EventQueue<N>>,
}

/// What a device is told of a queue.
pub struct DeviceQueue<'a, N> {
    /// Its index on the device.
    pub index: u16,
    /// Its number of descriptors.
    pub size: u16,
    /// Where it is.
    pub addresses: QueueAddresses,
    /// How driver and device notify each other.
    pub notifications: &'a N,
}

impl<N: Notifications> DeviceQueues<N> {
    /// Makes the queues. `memory` allocates each piece by its size in bytes; `notifications` makes those of a queue by the
    /// queue's index.
    ///
    /// # Errors
    /// If `memory` or `notifications` fails.
    pub fn new(
        memory: impl Fn(usize) -> Result<DmaMemory, TransportError>,
        notifications: impl Fn(u16) -> Result<N, TransportError>,
    ) -> Result<Self, TransportError> {
        let event_memory = memory(EventQueue::<N>::MEMORY)?;
        let events = Arc::new(EventQueue::new(&event_memory, notifications(EVENT_QUEUE)?)?);
        let control = ControlQueue::new(memory, notifications(CONTROL_QUEUE)?)?.beside(&events);
        Ok(Self { control, events })
    }

    /// Each queue, by index.
    #[must_use]
    pub fn each(&self) -> [DeviceQueue<'_, N>; 2] {
        let Self { control, events } = self;
        [
            DeviceQueue {
                index: CONTROL_QUEUE,
                size: ControlQueue::<N>::SIZE,
                addresses: control.addresses(),
                notifications: control.notifications(),
            },
            DeviceQueue {
                index: EVENT_QUEUE,
                size: EventQueue::<N>::SIZE,
                addresses: events.addresses(),
                notifications: events.notifications(),
            },
        ]
    }

    /// Empties both; requests in flight are lost. The device must not use them.
    ///
    /// # Errors
    /// Never fails for existing queues.
    pub fn reset(&self) -> Result<(), TransportError> {
        self.control.reset()?;
        self.events.reset()
    }

    /// [`Transport::kick`](super::Transport::kick)
    ///
    /// # Errors
    /// If the device is gone.
    pub fn kick(&self) -> Result<(), TransportError> {
        self.events.notifications().kick()
    }

    /// [`Transport::next_event`](super::Transport::next_event)
    ///
    /// # Errors
    /// If the device is gone or breaks the rules of its queues.
    pub fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        self.events.next(timeout)
    }
}
