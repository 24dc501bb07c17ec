// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which of a party's contexts gets the next turn.
//!
//! The highest *priority* goes first. While lower priorities wait, one turn in every [`PATIENCE`] goes to one of them, in
//! rotation, so that none starves.

use crate::gpu::engine::index_queue::{End, IndexQueue, Links};
use bellhop_host_kmd::hardware::SchedulingPriority;

/// While lower priorities wait, one turn in this many goes to one of them.
pub const PATIENCE: u32 = 8;

/// The waiting contexts of a party.
#[derive(Debug)]
pub struct PartyLines {
    /// By priority.
    lines: [IndexQueue; SchedulingPriority::COUNT],
    /// Bit set of the lines that are not empty.
    waiting: u32,
    /// Turns in a row that went to the highest priority while lower ones waited.
    passed_over: u32,
    /// The lower priority that last got a turn.
    served: u32,
}

impl PartyLines {
    /// Without a waiting context.
    pub fn new() -> Self {
        Self {
            lines: [IndexQueue::EMPTY; SchedulingPriority::COUNT],
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

    /// Puts a context in the line of its priority.
    #[inline]
    pub fn push(
        &mut self,
        links: &mut Links,
        priority: SchedulingPriority,
        context: u32,
        end: End,
    ) {
        let line = priority.index();
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
