// SPDX-License-Identifier: MIT OR Apache-2.0

//! A thousand guests that are killed at random moments.

use crate::neighbour::Neighbour;
use crate::seed;
use crate::support::{self, Daemon, await_that};
use bellhop_guest::hostile::Noise;
use bellhop_protocol::snapshot::{Counts, Snapshot};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const KILLS: usize = 1000;
/// Kills before the daemon has allocated everything that it keeps, after lives that were not cut short.
const WARM_UP: usize = 200;
/// Memory that all kills together may cost the daemon, in KiB: an allocator keeps some MiB more or less. A guest that
/// is not forgotten costs more than a thousandth of it.
const KEPT: u64 = 8 << 10;
/// Measurements of the daemon's memory, of which the least counts, for this reason too.
const LOOKS: usize = 8;
/// The longest life of a guest, from the start of its process on.
const LIFE: Duration = Duration::from_millis(40);

/// The guests' work, by the names of the behaviours that they check: together they do everything that a guest can do.
/// The empty name is the whole suite from the beginning.
const LIVES: &[&str] = &[
    "",
    "adapter.",
    "context.",
    "doorbell.",
    "fault.",
    "fence.",
    "handle.",
    "km.",
    "memory.",
    "packet.",
    "paging.",
    "process.",
    "sched.",
    "um.",
    "virtqueue.",
];

/// The daemon's objects, without counters that only grow.
fn everything(daemon: &Daemon) -> Snapshot {
    let mut snapshot = daemon.snapshot();
    (snapshot.adapter.power_transitions, snapshot.adapter.time) = (0, 0);
    for node in &mut snapshot.nodes {
        (node.power_transitions, node.busy_time) = (0, None);
        // A guest may have taken an idle engine's power, which the next work gives back.
        node.power.clear();
        for entry in &mut node.run_list {
            (entry.queued, entry.completed, entry.busy_time) = (0, 0, 0);
        }
    }
    for guest in &mut snapshot.guests {
        guest.statistics = Counts::default();
        let devices = guest.processes.iter_mut().flat_map(|process| &mut process.devices);
        for device in devices {
            device.fences.iter_mut().for_each(|fence| fence.value = 0);
            for queue in device.contexts.iter_mut().flat_map(|context| &mut context.hw_queues) {
                (queue.queued, queue.completed, queue.logged) = (0, 0, 0);
                queue.busy_time = 0;
                queue.log_entries_lost = 0;
                if let Some(doorbell) = &mut queue.doorbell {
                    // The engine may be asleep, and another queue may have had the physical doorbell in between.
                    doorbell.status.clear();
                    doorbell.physical = None;
                }
            }
        }
    }
    snapshot
}

/// A guest that checks behaviours whose names contain this.
fn selftest(daemon: &Daemon, filter: &str) -> Command {
    let mut command = daemon.work(&["guest"]);
    command.args(["selftest", filter]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_thousand_guests_that_are_killed_at_random_leave_nothing() {
    // Engines keep their power, so that the neighbour keeps its doorbell.
    let configuration = "[adapter]\nengine_idle = \"0s\"\n[debug]\ntest_kernels = true\n";
    let daemon = Daemon::start_with(2, configuration);
    let mut noise = Noise::new(seed() << 20);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    // The daemon keeps memory of page tables once it was used; these behaviours use as much as any life does.
    for life in ["paging.", "memory."] {
        selftest(&daemon, life).status().unwrap();
    }
    let mut before = None;
    let mut lives = [0; LIVES.len()];
    for kill in 0..WARM_UP + KILLS {
        if kill == WARM_UP {
            before = Some(settled(&daemon, &mut neighbour));
        }
        let life = noise.below(LIVES.len() as u64) as usize;
        lives[life] += 1;
        let mut guest = selftest(&daemon, LIVES[life]).spawn().unwrap();
        thread::sleep(Duration::from_micros(noise.below(LIFE.as_micros() as u64)));
        guest.kill().unwrap();
        guest.wait().unwrap();
        neighbour.work();
    }
    let (before, after) = (before.unwrap(), settled(&daemon, &mut neighbour));
    println!("{KILLS} kills of {:?}", LIVES.iter().zip(lives).collect::<Vec<_>>());
    println!("memory of the daemon's own: {} KiB before, {} KiB after", before.2, after.2);
    daemon.await_resources(before.0);
    assert_eq!(after.1, before.1, "what the daemon has");
    assert!(after.2 < before.2 + KEPT, "{} KiB before, {} KiB after", before.2, after.2);
}

/// The daemon's resources when only the neighbour is left.
fn settled(daemon: &Daemon, neighbour: &mut Neighbour) -> (support::Resources, Snapshot, u64) {
    let mut least = u64::MAX;
    for _ in 0..LOOKS {
        // A socket serves one guest after another: when it serves this one, all others have gone.
        Neighbour::new(support::guest(daemon, 0)).work();
        neighbour.work();
        await_that("only the neighbour is left", || everything(daemon).guests.len() == 1);
        least = least.min(daemon.private_memory());
    }
    (daemon.resources(), everything(daemon), least)
}
