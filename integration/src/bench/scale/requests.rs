// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests of one guest that are in flight at once.

use super::{client, counts, repeat};
use crate::bench::setting::Setting;
use anyhow::anyhow;
use bellhop_guest::bench::{Measured, Suite};
use bellhop_guest::timing::Latency;
use bellhop_guest_umd::{Adapter, Error};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

const COUNTS: [usize; 4] = [1, 4, 16, 64];
const SUBJECT: &str = "requests";
/// Requests at each number.
const REQUESTS: usize = 8192;

pub(in crate::bench) fn run(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let guest = client(setting, 0)?;
    repeat(setting, || {
        for count in counts(setting, &COUNTS) {
            let each = REQUESTS.div_ceil(count);
            let begin = Barrier::new(count);
            let (start, times) = (Instant::now(), in_flight(&guest.process, count, each, &begin)?);
            let time = start.elapsed().as_secs_f64();
            measured.times_at_scale(SUBJECT, count, "request_ns", &Latency::of_all(times)?);
            let rate = (each * count) as f64 / time;
            measured.at_scale(SUBJECT, count, "requests_per_second", rate);
        }
        Ok(())
    })
}

/// Has so many threads send `each` requests, one after the other. Returns the time of each request.
fn in_flight(
    process: &Adapter,
    threads: usize,
    each: usize,
    begin: &Barrier,
) -> anyhow::Result<Vec<u64>> {
    // The cheapest request.
    let send = || -> Result<Vec<u64>, Error> {
        let request = |_| {
            let start = Instant::now();
            process.power(0)?;
            Ok(start.elapsed().as_nanos() as u64)
        };
        begin.wait();
        (0..each).map(request).collect()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(send)).collect();
        let mut times = Vec::new();
        for thread in threads {
            times.extend(thread.join().map_err(|_| anyhow!("a thread panicked"))??);
        }
        Ok(times)
    })
}
