// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's memory: pages of its own, and allocations in local memory.

use super::local::Local;
use super::{Perform, Performer, keep, nth};
use crate::conformance::programs::wire::{
    Allocate, DropAllocation, Failure, OpenAllocation, Placed, Read, ShareAllocation, TakePages,
    Write,
};
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::fence::NtHandle;

impl Performer {
    fn keep_local(&mut self, local: Local) -> Placed {
        let (handle, gpu_va) = (local.allocation.handle().0, local.mapping.gpu_va());
        Placed { allocation: keep(&mut self.locals, local), handle, gpu_va }
    }
}

impl Perform for TakePages {
    fn perform(self, performer: &mut Performer) -> Result<Vec<(u64, u64)>, Failure> {
        let pages = performer.transport.allocate(self.bytes)?;
        let extents = pages.extents().iter().map(|e| (e.address, e.length)).collect();
        performer.pages.push(pages);
        Ok(extents)
    }
}

impl Perform for Write {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        Ok(performer.client()?.write(self.offset as usize, &self.bytes)?)
    }
}

impl Perform for Read {
    fn perform(self, performer: &mut Performer) -> Result<Vec<u8>, Failure> {
        Ok(performer.client()?.read(self.offset as usize, self.length as usize)?)
    }
}

impl Perform for Allocate {
    fn perform(self, performer: &mut Performer) -> Result<Placed, Failure> {
        let device = &performer.client()?.device;
        let builder = device.allocation(self.size).segments(SegmentSet::PRIVATE).on_gpu(self.gpu);
        let builder = if self.shared { builder.shared() } else { builder };
        let local = Local::place(builder.create()?)?;
        Ok(performer.keep_local(local))
    }
}

impl Perform for ShareAllocation {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        Ok(nth(&performer.locals, self.allocation)?.allocation.share()?.0)
    }
}

impl Perform for OpenAllocation {
    fn perform(self, performer: &mut Performer) -> Result<Placed, Failure> {
        let device = &performer.client()?.device;
        let local = Local::place(device.open_shared_allocation(NtHandle(self.name))?)?;
        Ok(performer.keep_local(local))
    }
}

impl Perform for DropAllocation {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        performer.locals.get_mut(self.allocation).and_then(Option::take);
        Ok(())
    }
}
