// SPDX-License-Identifier: MIT OR Apache-2.0

//! The adapter's clock beside the guest's, for the times in events.

use crate::adapter::Adapter;
use crate::error::Error;
use bellhop_protocol::control::adapter::QueryClockCalibration;
use std::time::{Duration, Instant};

/// Readings, of which the one that took least time counts.
const READINGS: usize = 16;
const NANOSECONDS: u128 = 1_000_000_000;

/// What the adapter's clock showed at a time of the guest's clock.
#[derive(Debug, Clone, Copy)]
pub struct GpuClock {
    at: Instant,
    ticks: u64,
    frequency: u64,
    uncertainty: Duration,
}

impl Adapter {
    /// Reads the adapter's clock (`D3DKMTQueryClockCalibration`), which events of a display and `TIMESTAMP` use, beside
    /// the guest's.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn gpu_clock(&self) -> Result<GpuClock, Error> {
        let read = || -> Result<GpuClock, Error> {
            let before = Instant::now();
            let reply = self.adapter_call(&QueryClockCalibration { reserved: 0 })?;
            let uncertainty = before.elapsed() / 2;
            Ok(GpuClock {
                at: before + uncertainty,
                ticks: reply.gpu_clock_counter,
                frequency: reply.gpu_frequency.max(1),
                uncertainty,
            })
        };
        let mut best = read()?;
        for _ in 1..READINGS {
            let other = read()?;
            if other.uncertainty < best.uncertainty {
                best = other;
            }
        }
        Ok(best)
    }
}

impl GpuClock {
    /// Ticks a second.
    #[must_use]
    pub fn frequency(&self) -> u64 {
        self.frequency
    }

    /// By how much the times that this gives may be wrong.
    #[must_use]
    pub fn uncertainty(&self) -> Duration {
        self.uncertainty
    }

    /// The time between two readings of the adapter's clock; 0 if the second is not later.
    #[must_use]
    pub fn between(&self, from: u64, to: u64) -> Duration {
        let ticks = u128::from(to.saturating_sub(from));
        let nanoseconds = ticks * NANOSECONDS / u128::from(self.frequency);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// What the adapter's clock shows at a time of the guest's.
    #[must_use]
    pub fn ticks(&self, at: Instant) -> u64 {
        let ticks = |time: Duration| {
            let ticks = time.as_nanos().wrapping_mul(self.frequency.into()) / NANOSECONDS;
            u64::try_from(ticks).unwrap_or(u64::MAX)
        };
        match at.checked_duration_since(self.at) {
            Some(after) => self.ticks.saturating_add(ticks(after)),
            None => self.ticks.saturating_sub(ticks(self.at - at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_one_clock_are_times_of_the_other() {
        let at = Instant::now();
        let clock = GpuClock {
            at,
            ticks: 1000,
            frequency: 1_000_000,
            uncertainty: Duration::from_nanos(5),
        };
        assert_eq!(clock.ticks(at + Duration::from_millis(3)), 4000);
        assert_eq!(clock.ticks(at - Duration::from_micros(400)), 600);
        assert_eq!(clock.between(1000, 1500), Duration::from_micros(500));
        assert_eq!(clock.between(1500, 1000), Duration::ZERO);
    }
}
