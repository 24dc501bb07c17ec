// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which of a guest's contexts gets the next turn.
//!
//! The *system context* goes first: it pages, and its time is charged to the guest. Then comes the highest
//! *priority*. While lower priorities wait, one turn in every [`PATIENCE`] goes to one of them, in rotation, so
//! that none starves.

use super::index_queue::{End, IndexQueue, Links};
use crate::gpu::shared::rank::{LINES, SYSTEM};
use bellhop_host_kmd::hardware::GuestId;

/// While lower priorities wait, one turn in this many goes to one of them.
pub const PATIENCE: u32 = 8;

/// A guest with queues on the engine.
#[derive(Debug)]
pub struct GuestLines {
    /// The guest.
    pub id: GuestId,
    /// The number of its queues.
    pub members: u32,
    /// Its waiting contexts, by line.
    lines: [IndexQueue; LINES],
    /// Bit set of the lines that are not empty.
    waiting: u32,
    /// Turns in a row that went to the highest priority while lower ones waited.
    passed_over: u32,
    /// The lower priority that last got a turn.
    served: u32,
}

impl GuestLines {
    /// A guest without a waiting context.
    pub fn new(id: GuestId) -> Self {
        Self {
            id,
            members: 0,
            lines: [IndexQueue::EMPTY; LINES],
            waiting: 0,
            passed_over: 0,
            served: 0,
        }
    }

    /// Whether no context is in line.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Puts a context in a line.
    #[inline]
    pub fn push(&mut self, links: &mut Links, line: usize, context: u32, end: End) {
        self.waiting |= 1 << line;
        self.lines[line].push(links, context, end);
    }

    /// Takes the context that gets the next turn out of its line.
    pub fn pop(&mut self, links: &mut Links) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let chosen = self.choose();
        let context = self.lines[chosen].pop(links);
        self.waiting &= !(u32::from(self.lines[chosen].is_empty()) << chosen);
        context
    }

    /// Takes the contexts for which `stays` is false out of their lines.
    pub fn retain(&mut self, links: &mut Links, mut stays: impl FnMut(u32) -> bool) {
        for (line, index) in self.lines.iter_mut().zip(0..) {
            line.retain(links, &mut stays);
            self.waiting &= !(u32::from(line.is_empty()) << index);
        }
    }

    /// The line that gets the next turn. At least one is not empty.
    fn choose(&mut self) -> usize {
        let highest = self.waiting.ilog2();
        let lower = self.waiting & !(1 << highest);
        if highest as usize == SYSTEM {
            return SYSTEM;
        }
        if lower == 0 {
            self.passed_over = 0;
            return highest as usize;
        }
        self.passed_over += 1;
        if self.passed_over < PATIENCE {
            return highest as usize;
        }
        self.passed_over = 0;
        // Downwards from the last, and then from the top again, so that each lower priority is served.
        let below = lower & ((1 << self.served) - 1);
        self.served = if below == 0 { lower } else { below }.ilog2();
        self.served as usize
    }
}
