// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the manager does for each guest, and how often.
//!
//! A worker that faults, crashes or is killed costs its guest a start of another, and the host a tenth of a second of a
//! processor. Compiling costs processor time, which the guest's allowance is charged when it is known. Beyond its
//! allowances, what a guest wants waits, and nothing of anybody else does.

use crate::allowance::{Allowance, Rate};
use crate::gpu::workers::config::WorkersConfig;
use crate::gpu::workers::tenant::{COMPILING_UNIT, GuestWorkers};
use bellhop_host_kmd::hardware::GuestId;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// What the manager does for each guest, and how often.
pub(super) struct Pace {
    starts: Rate,
    compiling: Rate,
    /// The beginning of the allowances' clock.
    start: Instant,
    /// When the first of those that wait may have something done.
    next: Option<Instant>,
    waiting: HashSet<GuestId>,
    /// Those that waited at the last look.
    waited: HashSet<GuestId>,
}

impl Pace {
    /// Nobody waits.
    pub(super) fn new(config: &WorkersConfig) -> Self {
        let WorkersConfig { starts, compiling, .. } = *config;
        let (waiting, waited) = (HashSet::new(), HashSet::new());
        Self { starts, compiling, start: Instant::now(), next: None, waiting, waited }
    }

    /// Begins another look at everything that waits.
    pub(super) fn begin(&mut self) {
        self.next = None;
        std::mem::swap(&mut self.waiting, &mut self.waited);
        self.waiting.clear();
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whether a worker may be started for a guest; if not, it has to wait.
    pub(super) fn may_start(&mut self, guest: &GuestWorkers) -> bool {
        self.may(guest, &guest.starts, self.starts, "workers were started for it too often")
    }

    /// A worker is started for a guest.
    pub(super) fn started(&self, guest: &GuestWorkers) {
        guest.starts.charge(self.now(), self.starts, 1);
    }

    /// Whether something may be compiled for a guest; if not, it has to wait.
    pub(super) fn may_compile(&mut self, guest: &GuestWorkers) -> bool {
        self.may(guest, &guest.compiling, self.compiling, "its kernels took too long to compile")
    }

    /// Compiling has taken this time of a processor for a guest.
    pub(super) fn compiled(&self, guest: &GuestWorkers, time: Duration) {
        let units = time.as_nanos().div_ceil(COMPILING_UNIT.as_nanos());
        let units = u64::try_from(units).unwrap_or(u64::MAX);
        guest.compiling.charge(self.now(), self.compiling, units);
    }

    fn may(&mut self, guest: &GuestWorkers, left: &Allowance, rate: Rate, why: &str) -> bool {
        let now = Instant::now();
        let Err(wait) = left.check(now.duration_since(self.start), rate) else { return true };
        // Beyond what an `Instant` can be, somebody else's wait ends first.
        let at = now.checked_add(wait);
        self.next = self.next.into_iter().chain(at).min();
        if self.waiting.insert(guest.id) && !self.waited.contains(&guest.id) {
            tracing::info!(guest = guest.id.0, "it waits: {why}");
        }
        false
    }

    /// When something that waits may be done.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }
}
