// SPDX-License-Identifier: MIT OR Apache-2.0

//! How often workers are started for each guest.
//!
//! A worker that faults, crashes or is killed costs its guest a start of another, and the host a tenth of a second of a
//! processor. Beyond its allowance, what a guest wants started waits, and nothing of anybody else does.

use crate::allowance::Rate;
use crate::gpu::workers::tenant::GuestWorkers;
use bellhop_host_kmd::hardware::GuestId;
use std::collections::HashSet;
use std::time::Instant;

/// How often workers are started for each guest.
pub(super) struct Pace {
    rate: Rate,
    /// The beginning of the allowances' clock.
    start: Instant,
    /// When the first of those that wait may have a worker.
    next: Option<Instant>,
    waiting: HashSet<GuestId>,
    /// Those that waited at the last look.
    waited: HashSet<GuestId>,
}

impl Pace {
    /// Nobody waits.
    pub(super) fn new(rate: Rate) -> Self {
        let start = Instant::now();
        Self { rate, start, next: None, waiting: HashSet::new(), waited: HashSet::new() }
    }

    /// Begins another look at everything that waits.
    pub(super) fn begin(&mut self) {
        self.next = None;
        std::mem::swap(&mut self.waiting, &mut self.waited);
        self.waiting.clear();
    }

    /// Charges a worker to a guest. Returns false if it has to wait.
    pub(super) fn may_start(&mut self, guest: &GuestWorkers) -> bool {
        let now = Instant::now();
        let Err(wait) = guest.starts.take(now.duration_since(self.start), self.rate) else {
            return true;
        };
        // Nothing waits longer than the rate's interval, so this is a time.
        let at = now.checked_add(wait).unwrap_or(now);
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        if self.waiting.insert(guest.id) && !self.waited.contains(&guest.id) {
            let guest = guest.id.0;
            tracing::info!(guest, "it waits: workers were started for it too often");
        }
        false
    }

    /// When something that waits may have a worker.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }
}
