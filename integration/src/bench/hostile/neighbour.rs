// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest notices of another one.

use super::rate;
use crate::bench::oversubscription::Load;
use anyhow::anyhow;
use bellhop_guest::bench::Measured;
use bellhop_guest::bench::kernel;
use bellhop_guest_umd::{Adapter, Fence};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips that are timed.
const ROUND_TRIPS: u64 = 2000;

/// What another guest does until the flag is set.
pub(super) type Conduct<'a> = dyn Fn(&AtomicBool) -> anyhow::Result<()> + Sync + 'a;

/// A guest that works, submits now and then, and sends requests, in a process for each.
pub(super) struct Neighbour {
    load: Load,
    round_trips: kernel::Neighbour,
    requests: Adapter,
}

/// What it noticed.
pub(super) struct Noticed {
    /// Its submissions a second.
    rate: f64,
    /// The 99th percentile of a round trip from submission to fence.
    round_trip_ns: u64,
    /// The longest time of a request.
    request: Duration,
}

impl Neighbour {
    /// The guest that has this load.
    pub(super) fn new(load: Load) -> anyhow::Result<Self> {
        let requests = load.adapter().open_process()?;
        let round_trips = kernel::Neighbour::new(load.adapter().open_process()?)?;
        Ok(Self { load, round_trips, requests })
    }

    /// Works beside a guest that conducts itself so.
    pub(super) fn work_beside(&mut self, conduct: &Conduct<'_>) -> anyhow::Result<Noticed> {
        let stop = AtomicBool::new(false);
        thread::scope(|threads| {
            let other = threads.spawn(|| conduct(&stop));
            let Self { load, round_trips, requests } = self;
            let asking = threads.spawn(|| longest_request(requests, &stop));
            let noticed = rate(load, Fence::poll)
                .and_then(|rate| Ok((rate, round_trips.round_trips(ROUND_TRIPS)?.p99)));
            stop.store(true, Ordering::Relaxed);
            let ended = |_| anyhow!("a guest's thread panicked");
            let request = asking.join().map_err(ended)??;
            other.join().map_err(ended)??;
            let (rate, round_trip_ns) = noticed?;
            Ok(Noticed { rate, round_trip_ns, request })
        })
    }
}

/// The longest time of a request, of those that are sent one after the other until the flag is set.
fn longest_request(process: &Adapter, stop: &AtomicBool) -> anyhow::Result<Duration> {
    let mut longest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        process.statistics()?;
        longest = longest.max(start.elapsed());
    }
    Ok(longest)
}

impl Noticed {
    /// Adds what was noticed beside a guest that does `what`, over what was noticed beside an honest one.
    pub(super) fn over(&self, honest: &Self, what: &str, measured: &mut Measured) {
        let share = format!("neighbour_beside_{what}_over_honest_throughput");
        measured.ratio(share, self.rate, honest.rate);
        for (beside, noticed) in [(what, self), (&format!("honest_{what}"), honest)] {
            let name = format!("neighbour_beside_{beside}_rtt_ns_p99");
            measured.figure(name, noticed.round_trip_ns as f64);
            let name = format!("neighbour_beside_{beside}_longest_request_ns");
            measured.figure(name, noticed.request.as_nanos() as f64);
        }
    }
}
