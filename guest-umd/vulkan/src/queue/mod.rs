// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues: each is a context with a queue for user-mode submission, on each GPU of its device.

mod group;
mod meetings;
mod packets;
mod ring;
mod submit;
mod turns;

use crate::device::Device;
use crate::device::wait::{Deadline, Target, left, wait};
use crate::physical_device::Gpu;
use ash::vk;
use bellhop_guest_umd::protocol::control::adapter::EngineType;
use bellhop_guest_umd::{Error, Fence};
use meetings::Meetings;
use packets::Packets;
use ring::Ring;
use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turns::Turns;

pub use submit::lookup;

/// What a queue is on one GPU.
struct Member {
    /// The progress fence of its ring.
    progress: Arc<Fence>,
    /// Vulkan has one thread submit at a time; `vkDeviceWaitIdle` comes from others.
    ring: Mutex<Ring>,
}

impl Member {
    /// Creates a ring on the node of this type of a GPU that this program uses least.
    fn new(device: &Device, gpu: &Gpu, engine_type: EngineType) -> Result<Self, Error> {
        let node = device.opened.adapter.least_used_node_of(gpu.ordinal, engine_type)?;
        let ring = Ring::new(&device.gpu, node)?;
        Ok(Self { progress: Arc::new(ring.progress()), ring: Mutex::new(ring) })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of the progress fence when everything is done that was submitted.
    fn last(&self) -> Target {
        (Arc::clone(&self.progress), self.ring().last())
    }
}

/// A queue.
pub struct Queue {
    device: &'static Device,
    /// On the GPU of device index 0.
    first: Member,
    /// On the GPUs of the other device indices, if the device has any.
    others: Vec<Member>,
    meetings: Meetings,
    /// Where GPUs draw frames in turns.
    turns: Option<Mutex<Turns>>,
}

impl Queue {
    /// Creates a queue on nodes of this type, on each GPU of a device.
    pub(crate) fn new(device: &'static Device, engine_type: EngineType) -> Result<Self, Error> {
        let member = |gpu| Member::new(device, gpu, engine_type);
        let first = member(device.gpus.first())?;
        let others = device.gpus.members().skip(1).map(member);
        let others = others.collect::<Result<_, _>>()?;
        let turns = device.gpus.alternate().then(|| Turns::new(device)).transpose()?;
        let (meetings, turns) = (Meetings::new(device)?, turns.map(Mutex::new));
        Ok(Self { device, first, others, meetings, turns })
    }

    /// By device index.
    fn members(&self) -> impl Iterator<Item = &Member> {
        iter::once(&self.first).chain(&self.others)
    }

    /// Its progress fences, by device index.
    pub(crate) fn progress(&self) -> impl Iterator<Item = &Arc<Fence>> {
        self.members().map(|member| &member.progress)
    }

    /// Names its HW queues for people.
    pub(crate) fn set_name(&self, name: &str) -> Result<(), Error> {
        self.members().try_for_each(|member| member.ring().set_name(name))
    }

    /// Submits the packets that `fill` appends, if any, where there is one GPU. Returns the value that the progress fence gets when
    /// they and everything before them are done.
    #[inline]
    fn submit(&self, fill: impl FnOnce(&mut Packets<'_>)) -> Result<u64, vk::Result> {
        // The ring tells of its own end. That of another queue is found out by who waits.
        if self.device.is_known_to_be_lost() {
            return Err(vk::Result::ERROR_DEVICE_LOST);
        }
        self.first.ring().submit(fill).map_err(|failed| failed.result(self.device))
    }

    /// Waits until everything that was submitted is done.
    pub(crate) fn wait_idle(&self) -> Result<(), vk::Result> {
        let (progress, last) = self.first.last();
        let one = self.others.is_empty().then_some((&*progress, last));
        // Nobody submits meanwhile: Vulkan has a program see to that.
        let look = || left(self.members().map(Member::last), false);
        wait(self.device, false, &Deadline::NEVER, one, look)?;
        self.device.check()
    }
}
