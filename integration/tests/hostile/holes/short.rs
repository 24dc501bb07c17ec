// SPDX-License-Identifier: MIT OR Apache-2.0

//! Holes that are too short to be noticed by themselves, one after another.

use crate::neighbour::Neighbour;
use crate::support::{self, Daemon, await_that};
use bellhop_guest::hostile::Punch;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Mappings of the BAR with which a hole where no pages are takes some milliseconds.
const MAPPINGS: usize = 300;

#[test]
fn a_front_end_that_punches_one_short_hole_after_another_loses_its_connection() {
    let daemon = Daemon::start(2);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    let hostile = support::guest(&daemon, 0);
    let process = support::adapter_of(&hostile);
    let device = process.create_device().unwrap();
    let bar = hostile.bar_file().expect("it has mapped the BAR").unwrap();
    let punch = Punch::prepare(&bar, MAPPINGS).unwrap();
    // The first takes long, and nobody touches the memory meanwhile.
    punch.punch().unwrap();
    let (answered, answers) = channel();
    let (holes, longest) = thread::scope(|threads| {
        let punching = threads.spawn(move || {
            let (mut holes, mut longest) = (0, Duration::ZERO);
            // None begins before what waited for the last one is done, so that nothing waits for two.
            while answers.recv().is_ok() {
                let start = Instant::now();
                punch.punch().unwrap();
                (holes, longest) = (holes + 1, longest.max(start.elapsed()));
                answers.try_iter().for_each(drop);
            }
            (holes, longest)
        });
        // The control plane publishes each fence's value in the BAR.
        await_that("its connection ends", || {
            device.create_fence(0).map(|_| answered.send(()).unwrap()).is_err()
        });
        drop(answered);
        punching.join().unwrap()
    });
    println!("{holes} holes, the longest of {longest:?}");
    daemon.await_log("keeps memory from the host");
    neighbour.work();
}
