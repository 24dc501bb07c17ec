// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rates of guests' activity, from counts at two times.

use bellhop_protocol::snapshot::{Counts, Snapshot};
use std::time::Duration;

/// Rates of a guest's activity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The guest's id.
    pub guest: u64,
    /// Packets that engines executed.
    pub packets: f64,
    /// Bytes that engines read or wrote in bulk.
    pub bytes: f64,
    /// Rings that engines saw.
    pub rings: f64,
    /// Requests of the guest.
    pub requests: f64,
    /// Rings that woke an engine.
    pub notifies: f64,
    /// The average number of engines that executed its queues, if that is measured.
    pub engines: f64,
}

impl Rate {
    fn between(guest: u64, before: &Counts, after: &Counts, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        Self {
            guest,
            packets: rate(before.packets, after.packets),
            bytes: rate(before.bytes, after.bytes),
            rings: rate(before.doorbells, after.doorbells),
            requests: rate(before.control_messages, after.control_messages),
            notifies: rate(before.notifies, after.notifies),
            engines: rate(before.engine_time, after.engine_time) / 1e9,
        }
    }
}

/// The rates of the guests that both snapshots of an adapter have.
#[must_use]
pub fn rates(before: &Snapshot, after: &Snapshot, time: Duration) -> Vec<Rate> {
    let rate = |guest: &bellhop_protocol::snapshot::Guest| {
        let same = before.guests.iter().find(|earlier| earlier.id == guest.id)?;
        Some(Rate::between(guest.id, &same.statistics, &guest.statistics, time))
    };
    after.guests.iter().filter_map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::snapshot::Guest;

    #[test]
    fn rates_are_of_guests_that_were_there_before() {
        let guest = |id, packets, engine_time| Guest {
            id,
            statistics: Counts { packets, engine_time, ..Counts::default() },
            ..Guest::default()
        };
        let before = Snapshot { guests: vec![guest(1, 100, 0)], ..Snapshot::default() };
        let guests = vec![guest(1, 300, 1_000_000_000), guest(2, 7, 7)];
        let after = Snapshot { guests, ..Snapshot::default() };
        let seen = rates(&before, &after, Duration::from_secs(2));
        let [rate] = seen[..] else { panic!("{seen:?}") };
        assert_eq!((rate.guest, rate.packets, rate.engines, rate.rings), (1, 100.0, 0.5, 0.0));
    }
}
