// SPDX-License-Identifier: MIT OR Apache-2.0

//! How guests share an engine that executes kernels of their own. The shares come from the engine's own account, so
//! they do not depend on the machine's speed.

use crate::alone;
use crate::support::{self, Daemon, TIMEOUT};
use bellhop_guest::bench::kernel::{LongKernels, Neighbour};
use bellhop_guest_umd::Adapter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CONFIGURATION: &str = "[weights]\n\"gpu1.sock\" = 100\n\"gpu2.sock\" = 300\n";
const WEIGHTS: [u64; 2] = [100, 300];
/// The engine time that the guest with the lesser weight has at least: many hundreds of turns.
const LEAST: Duration = Duration::from_millis(300);

#[test]
fn two_guests_share_an_engine_by_weight_within_kernels_that_run_for_long() {
    let _alone = alone();
    let Some(daemon) = Daemon::start_with_kernels(3, CONFIGURATION) else { return };
    let guest = |number| Adapter::open(support::guest(&daemon, number)).unwrap();
    let mut neighbour = Neighbour::new(guest(0)).unwrap();
    let mut sharing = [1, 2].map(|number| LongKernels::new(guest(number)).unwrap());
    let adapters = sharing.each_ref().map(LongKernels::adapter);
    let times = || adapters.each_ref().map(|adapter| adapter.statistics().unwrap().engine_time);
    let stop = AtomicBool::new(false);
    let shares = thread::scope(|threads| {
        for guest in &mut sharing {
            threads.spawn(|| guest.run(&stop).unwrap());
        }
        let await_each = |least: Duration| {
            let (start, before) = (Instant::now(), times());
            loop {
                let now = times();
                let shares = [0, 1].map(|guest| now[guest] - before[guest]);
                if shares.iter().all(|time| *time >= least.as_nanos() as u64) {
                    return shares;
                }
                assert!(start.elapsed() < 2 * TIMEOUT, "{shares:?}");
                thread::sleep(Duration::from_millis(5));
            }
        };
        // Both have begun.
        await_each(Duration::from_millis(20));
        let round_trips = neighbour.round_trips(20).unwrap();
        println!(
            "a short command beside them: p50 {} ns, p99 {} ns",
            round_trips.p50, round_trips.p99
        );
        let shares = await_each(LEAST);
        stop.store(true, Ordering::Relaxed);
        shares
    });
    let total: u64 = shares.iter().sum();
    for (share, weight) in shares.into_iter().zip(WEIGHTS) {
        let wanted = total as f64 * weight as f64 / WEIGHTS.iter().sum::<u64>() as f64;
        let off = share as f64 / wanted - 1.0;
        println!("weight {weight}: {share} ns of {total}, {:.2} % off", off * 100.0);
        assert!(off.abs() <= 0.05, "weight {weight}: {share} ns of {total}");
    }
}
