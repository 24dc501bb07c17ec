// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's fences.

use super::{Perform, Performer, keep, nth};
use crate::conformance::programs::wire::{
    CreateFence, DropFence, Failure, FenceAt, FenceKind, OpenFence, ReadFence, ShareFence, Signal,
    Wait,
};
use crate::conformance::scene::TIMEOUT;
use bellhop_guest_umd::Fence;
use bellhop_protocol::control::fence::NtHandle;

impl Performer {
    fn keep_fence(&mut self, fence: Fence) -> FenceAt {
        let (handle, slot) = (fence.handle().0, fence.slot());
        FenceAt { fence: keep(&mut self.fences, fence), handle, slot }
    }
}

impl Perform for CreateFence {
    fn perform(self, performer: &mut Performer) -> Result<FenceAt, Failure> {
        let builder = performer.client()?.device.fence(0);
        let fence = match (self.kind, self.shared) {
            (FenceKind::Native, false) => builder.create(),
            (FenceKind::Native, true) => builder.shared().create(),
            (FenceKind::Monitored, false) => builder.monitored().create(),
            (FenceKind::Monitored, true) => builder.monitored().shared().create(),
        };
        Ok(performer.keep_fence(fence?))
    }
}

impl Perform for ShareFence {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        Ok(nth(&performer.fences, self.fence)?.share()?.0)
    }
}

impl Perform for OpenFence {
    fn perform(self, performer: &mut Performer) -> Result<FenceAt, Failure> {
        let fence = performer.client()?.device.open_fence(NtHandle(self.name))?;
        Ok(performer.keep_fence(fence))
    }
}

impl Perform for DropFence {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        performer.fences.get_mut(self.fence).and_then(Option::take);
        Ok(())
    }
}

impl Perform for ReadFence {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        Ok(nth(&performer.fences, self.fence)?.current_value()?)
    }
}

impl Perform for Signal {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        Ok(nth(&performer.fences, self.fence)?.signal(self.value)?)
    }
}

impl Perform for Wait {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        Ok(nth(&performer.fences, self.fence)?.wait(self.value, TIMEOUT)?)
    }
}
