// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where driver and device share memory: in the BAR, or in the guest's own memory.
//!
//! Most hypervisors make a BAR that is backed by memory as fast as memory. Some map it uncached or
//! write-combining, and each load of a fence then costs a trip to the bus. So the driver measures.

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

/// Where an area is.
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

/// Where each kind of shared memory is. Rings and command buffers can also be placed one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placements {
    /// Doorbells and last-queued values, which the driver writes.
    pub doorbells: Placement,
    /// Doorbell statuses and published fence values, which the driver polls.
    pub fences: Placement,
    /// Local memory.
    pub local_memory: Placement,
    /// The kind of memory for rings and command buffers, unless the program says.
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

    /// For a slow BAR: the fast path's words are in the guest's own memory; the bulk of local memory,
    /// which mostly the GPU touches, stays in the BAR.
    pub const AROUND_SLOW_BAR: Self = Self {
        doorbells: Placement::GuestMemory,
        fences: Placement::GuestMemory,
        local_memory: Placement::Bar,
        rings: AllocationKind::SYSTEM,
    };

    /// Whether something is in the guest's own memory.
    #[must_use]
    pub fn needs_donations(self) -> bool {
        [self.doorbells, self.fences, self.local_memory].contains(&Placement::GuestMemory)
    }
}

/// How a driver decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlacementPolicy {
    /// By what accesses cost.
    #[default]
    Measured,
    /// As the program says.
    Fixed(Placements),
}

/// What an access costs, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccessCost {
    /// A load.
    pub load: f64,
    /// A store that is made visible.
    pub store: f64,
}

/// What accesses cost, and so why things are where they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// To the BAR.
    pub bar: AccessCost,
    /// To the guest's own memory.
    pub guest_memory: AccessCost,
}

/// How many times as slow as memory a BAR is that is avoided.
const SLOW: f64 = 4.0;
/// Differences below this are the clock's, in nanoseconds.
const CLOCK: f64 = 20.0;
/// Accesses in one measurement.
const ACCESSES: u32 = 64;
/// Measurements, of which the best counts: the others were disturbed.
const MEASUREMENTS: u32 = 32;

impl Costs {
    /// Measures. Called before a queue exists, since it writes the last-queued value of the first.
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

    /// Whether the BAR is so slow that the fast path should avoid it.
    #[must_use]
    pub fn is_bar_slow(&self) -> bool {
        let is_slow = |bar: f64, own: f64| bar > own * SLOW + CLOCK;
        is_slow(self.bar.load, self.guest_memory.load)
            || is_slow(self.bar.store, self.guest_memory.store)
    }

    /// Where shared memory should be, at these costs.
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

/// Nanoseconds of an access.
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
