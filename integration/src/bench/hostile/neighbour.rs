// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest notices of another one.

use super::rate;
use crate::bench::oversubscription::Load;
use anyhow::{anyhow, ensure};
use bellhop_guest::bench::Measured;
use bellhop_guest::bench::kernel;
use bellhop_guest_umd::{Adapter, Fence};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips that are timed.
const ROUND_TRIPS: u64 = 2000;

/// What another guest is told, and tells.
pub(super) struct Beside<'a> {
    /// Set when it is to end.
    pub(super) stop: &'a AtomicBool,
    begun: SyncSender<()>,
}

impl Beside<'_> {
    /// It does by now what the neighbour is to be measured beside.
    pub(super) fn has_begun(&self) {
        // Once is enough.
        let _ = self.begun.try_send(());
    }

    /// Whether it is to end.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What another guest does until it is told to end.
pub(super) type Conduct<'a> = dyn Fn(&Beside<'_>) -> anyhow::Result<()> + Sync + 'a;

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

    /// Works beside a guest that conducts itself so, for so much time and some round trips. Fails if that costs it a queue
    /// or a device.
    pub(super) fn work_beside(
        &mut self,
        look: Duration,
        conduct: &Conduct<'_>,
    ) -> anyhow::Result<Noticed> {
        let stop = AtomicBool::new(false);
        thread::scope(|threads| {
            let (begun, begins) = sync_channel(1);
            let stop = &stop;
            let other = threads.spawn(move || conduct(&Beside { stop, begun }));
            // If it fails instead, its own error tells why.
            let has_begun = begins.recv().is_ok();
            let Self { load, round_trips, requests } = self;
            let asking = threads.spawn(|| longest_request(requests, stop));
            let mut notice = || -> anyhow::Result<_> {
                ensure!(has_begun, "the other guest did not begin");
                let rate = rate(load, Fence::poll, look)?;
                Ok((rate, round_trips.round_trips(ROUND_TRIPS)?.p99))
            };
            let noticed = notice();
            stop.store(true, Ordering::Relaxed);
            let ended = |_| anyhow!("a guest's thread panicked");
            let request = asking.join().map_err(ended)?;
            other.join().map_err(ended)??;
            let ((rate, round_trip_ns), request) = (noticed?, request?);
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
