// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where driver and device share memory: in the BAR, or in the guest's own memory.
//!
//! Most hypervisors back a BAR with memory and make it as fast as memory. Some map it uncached or write-combining,
//! and each load of a fence then costs a bus access. So the driver measures.

use crate::error::Error;
use crate::link::areas::area_of;
use crate::transport::BarMapping;
use bellhop_protocol::bar::{AreaKind, BarHeader};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::handoff::publication;
use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;
use vm_memory::VolatileMemory;

/// The place of an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// In the BAR, if the VMM maps one.
    Bar,
    /// In memory that the guest donates to the device.
    GuestMemory,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bar => "BAR",
            Self::GuestMemory => "guest memory",
        })
    }
}

/// The place of each kind of shared memory. Rings and command buffers can also be placed individually.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placements {
    /// Doorbells and last-queued values, which the driver writes.
    pub doorbells: Placement,
    /// Doorbell statuses and published fence values, which the driver polls.
    pub fences: Placement,
    /// Local memory.
    pub local_memory: Placement,
    /// The kind of memory for rings and command buffers, unless the program chooses.
    pub rings: AllocationKind,
}

impl Placements {
    /// Everything in the BAR.
    pub const BAR: Self = Self {
        doorbells: Placement::Bar,
        fences: Placement::Bar,
        local_memory: Placement::Bar,
        rings: AllocationKind::LOCAL,
    };

    /// Everything in the guest's own memory.
    pub const GUEST_MEMORY: Self = Self {
        doorbells: Placement::GuestMemory,
        fences: Placement::GuestMemory,
        local_memory: Placement::GuestMemory,
        rings: AllocationKind::LOCAL,
    };

    /// For a slow BAR: the fast path's words are in the guest's own memory; the bulk of local memory, which mostly
    /// the GPU accesses, stays in the BAR.
    pub const AROUND_SLOW_BAR: Self = Self {
        doorbells: Placement::GuestMemory,
        fences: Placement::GuestMemory,
        local_memory: Placement::Bar,
        rings: AllocationKind::SYSTEM,
    };

    /// These, where there is no local memory that CPUs access.
    pub(crate) fn without_local(self) -> Self {
        Self { rings: AllocationKind::SYSTEM, ..self }
    }

    /// Returns whether anything is placed in the guest's own memory.
    #[must_use]
    pub fn needs_donations(self) -> bool {
        [self.doorbells, self.fences, self.local_memory].contains(&Placement::GuestMemory)
    }
}

/// How the driver decides on placements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlacementPolicy {
    /// By measured access costs.
    #[default]
    Measured,
    /// As chosen by the program.
    Fixed(Placements),
}

/// The cost of an access in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccessCost {
    /// A load.
    pub load: f64,
    /// A store, including its visibility.
    pub store: f64,
}

/// The measured access costs, which explain the placements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Of the BAR.
    pub bar: AccessCost,
    /// Of the guest's own memory.
    pub guest_memory: AccessCost,
}

/// How many times slower than memory a BAR must be to be avoided.
const SLOW: f64 = 4.0;
/// Smaller differences are clock noise, in nanoseconds.
const CLOCK: f64 = 20.0;
/// Accesses in one measurement.
const ACCESSES: u32 = 64;
/// Number of measurements; the best one counts, since the others were disturbed.
const MEASUREMENTS: u32 = 32;

impl Costs {
    /// Measures. Called before a queue exists, since it overwrites the first last-queued value.
    pub(crate) fn measure(bar: &BarMapping, header: &BarHeader) -> Result<Self, Error> {
        let word = |kind| {
            let offset = area_of(header, kind)?.offset as usize;
            let outside = |_| Error::BadBar("an area lies outside it");
            bar.region.get_atomic_ref::<AtomicU64>(offset).map_err(outside)
        };
        let (status, progress) = (word(AreaKind::STATUS)?, word(AreaKind::PROGRESS)?);
        let own = AtomicU64::new(0);
        Ok(Self {
            bar: AccessCost { load: time(status, load), store: time(progress, store) },
            guest_memory: AccessCost { load: time(&own, load), store: time(&own, store) },
        })
    }

    /// Returns whether the BAR is so slow that the fast path should avoid it.
    #[must_use]
    pub fn is_bar_slow(&self) -> bool {
        let is_slow = |bar: f64, own: f64| bar > own * SLOW + CLOCK;
        is_slow(self.bar.load, self.guest_memory.load)
            || is_slow(self.bar.store, self.guest_memory.store)
    }

    /// The best placements at these costs.
    pub(crate) fn placements(&self) -> Placements {
        if self.is_bar_slow() { Placements::AROUND_SLOW_BAR } else { Placements::BAR }
    }
}

fn load(word: &AtomicU64) {
    black_box(publication::read(word));
}

fn store(word: &AtomicU64) {
    publication::publish(word, 0);
    fence(Ordering::SeqCst);
}

/// Nanoseconds per access.
fn time(word: &AtomicU64, access: impl Fn(&AtomicU64)) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..MEASUREMENTS {
        let start = Instant::now();
        for _ in 0..ACCESSES {
            access(black_box(word));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ACCESSES));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(load: f64, store: f64) -> Costs {
        let bar = AccessCost { load, store };
        Costs { bar, guest_memory: AccessCost { load: 1.0, store: 10.0 } }
    }

    #[test]
    fn a_bar_that_is_as_fast_as_memory_is_used() {
        for costs in [costs(1.0, 10.0), costs(20.0, 30.0), costs(0.5, 5.0)] {
            assert_eq!(costs.placements(), Placements::BAR);
        }
    }

    #[test]
    fn a_bar_that_is_slow_to_read_or_to_write_is_avoided() {
        for costs in [costs(300.0, 10.0), costs(1.0, 300.0)] {
            assert_eq!(costs.placements(), Placements::AROUND_SLOW_BAR);
        }
    }
}
