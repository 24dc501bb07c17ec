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
    /// Vulkan has one thread submit at a time; `vkDeviceWaitIdle` and a look at a lost device come from others.
    state: Mutex<State>,
}

/// What submissions change.
struct State {
    ring: Ring,
    /// The packets of a submission, kept for their memory.
    packets: Packets,
}

impl Queue {
    /// Creates a queue on the node that this program uses least.
    pub(crate) fn new(device: &'static Device) -> Result<Self, Error> {
        let node = device.opened.adapter.least_used_node(EngineType::THREE_D)?;
        let ring = Ring::new(&device.gpu, node)?;
        let progress = Arc::new(ring.progress());
        let state = Mutex::new(State { ring, packets: Packets::default() });
        Ok(Self { device, progress, state })
    }

    /// Its progress fence.
    pub(crate) fn progress(&self) -> &Arc<Fence> {
        &self.progress
    }

    /// Submits the packets that `fill` appends, if any. Returns the value that the progress fence gets when they and everything
    /// before them are done.
    fn submit(&self, fill: impl FnOnce(&mut Packets)) -> Result<u64, vk::Result> {
        self.device.check()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { ring, packets } = &mut *state;
        packets.clear();
        fill(packets);
        ring.submit(&self.device.gpu, &self.progress, packets.words())
            .map_err(|failed| failed.result(self.device))
    }

    /// Waits until everything that was submitted is done.
    pub(crate) fn wait_idle(&self) -> Result<(), vk::Result> {
        let last = self.state.lock().unwrap_or_else(PoisonError::into_inner).ring.last();
        let look = || {
            let is_done = has_reached(&self.progress, last);
            (!is_done).then(|| Left::Targets(vec![(Arc::clone(&self.progress), last)]))
        };
        wait(self.device, false, &Deadline::NEVER, look)?;
        self.device.check()
    }
}
