// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues: each is a context with a queue for user-mode submission.

mod packets;
mod ring;
mod submit;

use crate::device::Device;
use crate::device::wait::{Deadline, Left, has_reached, wait};
use ash::vk;
use bellhop_guest_umd::protocol::control::adapter::EngineType;
use bellhop_guest_umd::{Error, Fence};
use packets::Packets;
use ring::Ring;
use std::sync::{Arc, Mutex, PoisonError};

pub use submit::lookup;

/// A queue.
pub struct Queue {
    device: &'static Device,
    /// Its progress fence.
    progress: Arc<Fence>,
    /// Vulkan has one thread submit at a time; `vkDeviceWaitIdle` comes from others.
    ring: Mutex<Ring>,
}

impl Queue {
    /// Creates a queue on the node that this program uses least.
    pub(crate) fn new(device: &'static Device) -> Result<Self, Error> {
        let node = device.opened.adapter.least_used_node(EngineType::THREE_D)?;
        let ring = Ring::new(&device.gpu, node)?;
        let progress = Arc::new(ring.progress());
        Ok(Self { device, progress, ring: Mutex::new(ring) })
    }

    /// Its progress fence.
    pub(crate) fn progress(&self) -> &Arc<Fence> {
        &self.progress
    }

    /// Names it for people.
    pub(crate) fn set_name(&self, name: &str) -> Result<(), Error> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).set_name(name)
    }

    /// Submits the packets that `fill` appends, if any. Returns the value that the progress fence gets when they and everything
    /// before them are done.
    #[inline]
    fn submit(&self, fill: impl FnOnce(&mut Packets<'_>)) -> Result<u64, vk::Result> {
        // The ring tells of its own end. That of another queue is found out by who waits.
        if self.device.is_known_to_be_lost() {
            return Err(vk::Result::ERROR_DEVICE_LOST);
        }
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.submit(fill).map_err(|failed| failed.result(self.device))
    }

    /// Waits until everything that was submitted is done.
    pub(crate) fn wait_idle(&self) -> Result<(), vk::Result> {
        let last = self.ring.lock().unwrap_or_else(PoisonError::into_inner).last();
        let look = || {
            let is_done = has_reached(&self.progress, last);
            (!is_done).then(|| Left::Targets(vec![(Arc::clone(&self.progress), last)]))
        };
        wait(self.device, false, &Deadline::NEVER, Some((&self.progress, last)), look)?;
        self.device.check()
    }
}
