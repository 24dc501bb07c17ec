// SPDX-License-Identifier: MIT OR Apache-2.0

//! Frames that GPUs draw in turns, for a program that knows of one GPU.
//!
//! ```text
//!  frame 0  GPU 0  ──draws────────┤tells
//!  frame 1  GPU 1     ──draws────────┤waits for frame 0, tells
//!  frame 2  GPU 0                 ──draws────────┤waits for frame 1, tells
//! ```
//! Whatever a frame does is for the GPU whose turn it is. All memory is there once, so nothing is copied; but what the queue of one
//! GPU does in order, those of several do only if they wait for each other. A submission waits for one before it on another GPU if
//! either writes what is not looked into, or both draw on one image ([`Uses`]). And nobody hears that a submission is done before all
//! before it are.
//!
//! Source: Windows KMD overview, "MGPU" ("CrossFire").

use super::packets::{Packets, Places, Words, signal, wait};
use super::ring::Failed;
use super::{Member, Queue};
use crate::command::{Chunk, Uses};
use crate::device::Device;
use crate::device::wait::Target;
use ash::vk;
use bellhop_guest_umd::{Error, Fence};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// Most submissions of a GPU that are told apart. Of more, the older ones count as the oldest.
const MOST: usize = 64;

/// A GPU.
struct Side {
    /// Has the number of each of its submissions when that is done.
    fence: Option<Fence>,
    slot: u32,
    /// Number of its submissions.
    count: u64,
    /// Up to which of them each GPU has waited.
    seen: Vec<u64>,
    /// What its submissions write, by their numbers.
    written: VecDeque<(u64, Uses)>,
}

/// The GPUs of a queue, by their turns.
pub(super) struct Turns(Vec<Side>);

impl Turns {
    /// Those of a queue of a device.
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        let fences = device.gpus.members().map(|_| device.gpu.create_fence(0));
        let fences = fences.collect::<Result<Vec<_>, _>>()?;
        let slots: Vec<_> = fences.iter().map(Fence::slot).collect();
        let mut turns = Self::of(&slots);
        for (side, fence) in turns.0.iter_mut().zip(fences) {
            side.fence = Some(fence);
        }
        Ok(turns)
    }

    /// GPUs whose fences have these slots.
    fn of(slots: &[u32]) -> Self {
        let side = |slot: &u32| Side {
            fence: None,
            slot: *slot,
            count: 0,
            seen: vec![0; slots.len()],
            written: VecDeque::new(),
        };
        Self(slots.iter().map(side).collect())
    }

    /// Has a GPU wait for what others were given, if that is asked of it for their submissions behind a number.
    fn await_others(
        &mut self,
        own: usize,
        list: &mut Vec<Words>,
        is_needed: impl Fn(&Side, u64) -> bool,
    ) {
        let others = self.0.iter_mut().enumerate().filter(|(other, _)| *other != own);
        for (_, side) in others {
            let seen = side.seen.get(own).copied().unwrap_or_default();
            if side.count > seen && is_needed(side, seen) {
                list.push(wait(side.slot, side.count));
                if let Some(seen) = side.seen.get_mut(own) {
                    *seen = side.count;
                }
            }
        }
    }

    /// Notes what a GPU's next submission writes. Returns the packet that tells that it is done.
    fn submitted(&mut self, own: usize, uses: Vec<Uses>) -> Option<Words> {
        let side = self.0.get_mut(own)?;
        // What all others have waited for, and what is done, is in nobody's way.
        let seen = side.seen.iter().enumerate().filter(|(other, _)| *other != own);
        let seen = seen.map(|(_, seen)| *seen).min().unwrap_or(u64::MAX);
        let done = side.fence.as_ref().and_then(|fence| fence.current_value().ok());
        let passed = seen.max(done.unwrap_or_default());
        side.count += 1;
        let count = side.count;
        side.written.retain(|(number, _)| *number > passed);
        side.written.extend(uses.into_iter().map(|uses| (count, uses)));
        while side.written.len() > MOST
            && let Some((number, first)) = side.written.pop_front()
        {
            match side.written.front_mut() {
                Some((next, uses)) => {
                    uses.add_all(&first);
                    *next = (*next).max(number);
                }
                None => side.written.push_front((number, first)),
            }
        }
        Some(signal(side.slot, count))
    }
}

/// What is submitted for the frame that is being drawn.
pub(super) struct Turn<'t> {
    turns: &'t mut Turns,
    own: usize,
    list: Vec<Words>,
    /// What the commands of the batch write.
    uses: Vec<Uses>,
    /// Whether it tells that it is done.
    tells: bool,
}

impl<'t> Turn<'t> {
    fn new(turns: &'t mut Turns, own: usize) -> Self {
        Self { turns, own, list: Vec::new(), uses: Vec::new(), tells: false }
    }
}

impl Places for Turn<'_> {
    /// The program knows of one.
    const ARE_SEVERAL: bool = false;

    fn put(&mut self, _device: u32, packet: Words) {
        self.list.push(packet);
    }

    fn begin(&mut self, uses: &Uses) {
        self.turns.await_others(self.own, &mut self.list, |side, seen| {
            let mut behind = side.written.iter().filter(|(number, _)| *number > seen);
            behind.any(|(_, written)| written.are_in_order(uses))
        });
        self.uses.push(uses.clone());
    }

    fn execute(&mut self, _devices: u32, chunk: &Chunk) {
        self.list.push(chunk.packet);
    }

    fn tell(&mut self, _device: u32, packet: Words) {
        self.turns.await_others(self.own, &mut self.list, |_, _| true);
        self.list.push(packet);
        self.tells = true;
    }

    fn end_batch(&mut self) {
        // Whoever waits for it comes after what it tells, too: a timeline does not go backwards.
        let uses = std::mem::take(&mut self.uses);
        if std::mem::take(&mut self.tells) || !uses.is_empty() {
            self.list.extend(self.turns.submitted(self.own, uses));
        }
    }
}

impl Queue {
    /// Whether GPUs draw frames in turns.
    #[inline]
    pub(super) const fn alternates(&self) -> bool {
        self.turns.is_some()
    }

    /// The next frame begins.
    pub(crate) fn end_frame(&self) {
        self.device.end_frame();
    }

    /// Submits what `fill` appends, to the GPU whose turn it is. Returns the values that the progress fences get when it and everything
    /// before it are done.
    pub(super) fn submit_in_turn(
        &self,
        fill: impl FnOnce(&mut Turn<'_>),
    ) -> Result<Vec<Target>, vk::Result> {
        let Some(turns) = self.turns.as_ref().filter(|_| !self.device.is_known_to_be_lost()) else {
            return Err(vk::Result::ERROR_DEVICE_LOST);
        };
        let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
        let own = (self.device.frame() % turns.0.len().max(1) as u64) as usize;
        let mut turn = Turn::new(&mut turns, own);
        fill(&mut turn);
        let list = turn.list;
        if let Some(member) = self.members().nth(own).filter(|_| !list.is_empty()) {
            let append = |ring: &mut Packets<'_>| list.iter().for_each(|packet| ring.push(*packet));
            // Others may wait for what would have been told: nothing goes on without it.
            member.ring().submit(append).map_err(|failed| match failed {
                Failed::Nothing(error) | Failed::Lost(error) => self.device.lose(&error),
            })?;
        }
        drop(turns);
        Ok(self.members().map(Member::last).collect())
    }
}

#[cfg(test)]
mod tests;
