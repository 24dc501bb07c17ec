// SPDX-License-Identifier: MIT OR Apache-2.0

//! Each model of doorbells, over the real transport: the conformance suite, and the model's hard cases.

use crate::support::{
    self, Daemon, GLOBAL_NOT_OFFERED, NOT_OFFERED, adapter_of, guest_under, quick, refusal, run,
};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{FakeGuest, QEMU, QEMU_WITH_LATE_CHANGES, QEMU_WITH_MEMORY_SLOTS};
use bellhop_guest_umd::{Adapter, Error, Placement, PlacementPolicy, Placements};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::status::Status;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const GLOBAL: &str = "[adapter]\ndoorbell_model = \"global\"\n";

/// A configuration of doorbells with moved pages: this number of them, over this number of physical ones.
fn remap(doorbells: u32, physical: u32) -> String {
    format!(
        "[adapter]\nrotation = \"remap\"\nphysical_doorbells = {physical}\n\
         [guest]\ndoorbells = {doorbells}\n"
    )
}

/// Runs the conformance suite against such a daemon. Every behaviour must pass, except those that are not offered,
/// which must be exactly these.
#[track_caller]
fn conform(configuration: &str, vmm: &str, placement: &str, not_offered: &[&str]) {
    let daemon = Daemon::start_with(1, configuration);
    let report = daemon.selftest(&["--vmm", vmm, "--placement", placement]);
    eprintln!("{vmm} {placement}");
    support::assert_every_behaviour_is_seen(&report, not_offered);
}

#[test]
fn every_behaviour_is_seen_with_dedicated_doorbells_that_are_watched() {
    let said = quick("doorbell_model = \"dedicated\"", "");
    conform(&said, QEMU.name, "measured", NOT_OFFERED);
}

#[test]
fn every_behaviour_is_seen_with_a_global_doorbell() {
    let said = quick("doorbell_model = \"global\"", "");
    conform(&said, QEMU.name, "bar", GLOBAL_NOT_OFFERED);
    conform(&said, "cloud-hypervisor", "measured", GLOBAL_NOT_OFFERED);
}

#[test]
fn every_behaviour_is_seen_with_a_global_doorbell_in_guest_memory() {
    let said = quick("doorbell_model = \"global\"", "");
    conform(&said, QEMU.name, "guest-memory", GLOBAL_NOT_OFFERED);
    conform(&said, QEMU.name, "around-slow-bar", GLOBAL_NOT_OFFERED);
}

/// Sixteen threads, on three engines, ring one word as fast as they can, with engines that constantly fall asleep
/// and with engines that never do.
#[test]
fn any_number_of_queues_rings_one_word_without_loss() {
    const QUEUES: usize = 16;
    const ROUNDS: u64 = 400;
    for spin in [0, 50, 100_000] {
        let configuration = format!("{GLOBAL}spin = \"{spin}us\"\n");
        let daemon = Daemon::start_with(2, &configuration);
        let guests = [0, 1].map(|number| support::guest(&daemon, number));
        let adapters = guests.each_ref().map(adapter_of);
        thread::scope(|threads| {
            for number in 0..QUEUES {
                let adapter = &adapters[number % adapters.len()];
                threads.spawn(move || {
                    let mut lane = Lane::new(adapter, number as u32 % 3).unwrap();
                    for round in 1..=ROUNDS {
                        let value = lane.submit().unwrap();
                        assert_eq!(value, round);
                        lane.0.finish(value).unwrap();
                        assert_eq!(lane.0.word(round as usize * 8).unwrap(), round);
                    }
                    let queue = &lane.0.queue;
                    assert_eq!(queue.progress_fence().current_value().unwrap(), ROUNDS);
                    let counters = queue.counters();
                    assert_eq!((counters.connects, counters.rings), (1, ROUNDS));
                });
            }
        });
        for (adapter, guest) in adapters.iter().zip(&guests) {
            assert_eq!(adapter.statistics().unwrap().victims, 0);
            assert_eq!(guest.violations(), []);
        }
    }
}

#[test]
fn every_behaviour_is_seen_with_moved_doorbell_pages() {
    for vmm in [&QEMU_WITH_MEMORY_SLOTS, &QEMU_WITH_LATE_CHANGES] {
        let adapter = "rotation = \"remap\"\nphysical_doorbells = 4";
        let said = quick(adapter, "doorbells = 16");
        conform(&said, vmm.name, "bar", NOT_OFFERED);
    }
}

/// Stock QEMU has room for four.
#[test]
fn submission_is_as_specified_with_as_many_moved_doorbells_as_qemu_has_room_for() {
    let daemon = Daemon::start_with(1, &remap(4, 1));
    for behaviours in ["doorbell.", "um.submit."] {
        run(&mut daemon.work(&["selftest", behaviours, "--placement", "bar"]));
    }
}

/// A queue whose submissions each write their number into a separate word.
struct Lane(Client);

/// Packets of each of a lane's submissions: the write and its fence, both in the ring.
const PACKETS: u64 = 2;

impl Lane {
    fn new(adapter: &Adapter, node: u32) -> Result<Self, Error> {
        let shape = Shape { node, memory: 1 << 16, ..Shape::default() };
        Ok(Self(Client::new(adapter.open_process()?, shape)?))
    }

    fn submit(&mut self) -> Result<u64, Error> {
        let next = self.0.queue.last_value() + 1;
        self.0.commands.reset();
        self.0.commands.write_data(self.0.va(next * 8), &next.to_le_bytes())?;
        self.0.submit()
    }

    fn run(&mut self) -> Result<(), Error> {
        let value = self.submit()?;
        self.0.finish(value)
    }

    /// Lanes of separate processes, on these nodes in turn.
    fn many(adapter: &Adapter, count: u32, nodes: u32) -> Vec<Self> {
        (0..count).map(|number| Self::new(adapter, number % nodes).unwrap()).collect()
    }

    fn check(&self) {
        for number in 1..=self.0.queue.last_value() {
            assert_eq!(self.0.word(number as usize * 8).unwrap(), number);
        }
    }
}

fn open_with(guest: &Arc<FakeGuest>, placements: Placements) -> Adapter {
    let policy = PlacementPolicy::Fixed(placements);
    Adapter::open_with(Arc::clone(guest) as Arc<_>, policy).unwrap()
}

fn open(guest: &Arc<FakeGuest>) -> Adapter {
    open_with(guest, Placements::BAR)
}

/// Submits on lanes in random order, and checks what that did.
fn run_in_no_order(lanes: &mut [Lane], submissions: usize, seed: u64) {
    let mut random = seed;
    for _ in 0..submissions {
        // Knuth's linear congruential generator.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let lane = (random >> 33) as usize % lanes.len();
        lanes[lane].run().unwrap();
    }
    lanes.iter().for_each(Lane::check);
}

#[test]
fn sixteen_queues_over_two_physical_doorbells_complete_everything_once_and_in_order() {
    for profile in [&QEMU_WITH_MEMORY_SLOTS, &QEMU_WITH_LATE_CHANGES] {
        let daemon = Daemon::start_with(1, &remap(16, 2));
        let guest = guest_under(profile, &daemon, 0);
        let adapter = open(&guest);
        let mut lanes = Lane::many(&adapter, 16, 3);
        run_in_no_order(&mut lanes, 400, 5);
        // And all at once.
        thread::scope(|threads| {
            for lane in &mut lanes {
                threads.spawn(|| (0..25).for_each(|_| lane.run().unwrap()));
            }
        });
        lanes.iter().for_each(Lane::check);
        let statistics = adapter.statistics().unwrap();
        assert_eq!(statistics.packets, (400 + 16 * 25) * PACKETS);
        assert!(statistics.victims > 100, "{statistics:?}");
        assert!(guest.unmapped() > 100, "{}", guest.unmapped());
        assert_eq!(guest.violations(), [], "{}", profile.name);
    }
}

#[test]
fn guests_take_each_others_physical_doorbells() {
    let daemon = Daemon::start_with(4, &remap(4, 2));
    let guests: Vec<_> = (0..4).map(|number| guest_under(&QEMU, &daemon, number)).collect();
    let adapters: Vec<_> = guests.iter().map(open).collect();
    thread::scope(|threads| {
        for (adapter, seed) in adapters.iter().zip(1..) {
            threads.spawn(move || {
                run_in_no_order(&mut Lane::many(adapter, 4, 3), 200, seed);
            });
        }
    });
    for (adapter, guest) in adapters.iter().zip(&guests) {
        let statistics = adapter.statistics().unwrap();
        assert_eq!(statistics.packets, 200 * PACKETS);
        assert!(statistics.victims > 0 && guest.unmapped() > 0);
        assert_eq!(guest.violations(), []);
    }
}

/// Threads ring while their doorbells' pages are being moved, into the old or the new page.
#[test]
fn rings_into_pages_that_are_late_are_not_lost() {
    let daemon = Daemon::start_with(1, &remap(8, 2));
    let guest = guest_under(&QEMU_WITH_LATE_CHANGES, &daemon, 0);
    let adapter = open(&guest);
    let mut lanes = Lane::many(&adapter, 6, 1);
    thread::scope(|threads| {
        for lane in &mut lanes {
            threads.spawn(|| {
                for round in 0..60 {
                    // Several submissions before a wait, so that some ring a page that was just mapped.
                    (0..round % 5).for_each(|_| lane.run().unwrap());
                    // Up to the delay of late changes, so that some take effect in between.
                    let idle = Duration::from_millis(round % 4 * 5);
                    let _ = lane.0.queue.progress_fence().poll(u64::MAX, idle);
                }
            });
        }
    });
    lanes.iter().for_each(Lane::check);
    assert_eq!(guest.violations(), []);
}

#[test]
fn ten_resets_with_pages_on_the_move_are_survived() {
    for profile in [&QEMU_WITH_MEMORY_SLOTS, &QEMU_WITH_LATE_CHANGES] {
        let daemon = Daemon::start_with(1, &remap(8, 2));
        let guest = guest_under(profile, &daemon, 0);
        for round in 0..10 {
            let mut lanes = Lane::many(&open(&guest), 6, 1);
            run_in_no_order(&mut lanes, 40, round);
            // The last connect's victim moved to the dummy page before the connect was answered.
            guest.reset().unwrap();
        }
        assert_eq!(guest.violations(), [], "{}", profile.name);
        Lane::new(&open(&guest), 0).unwrap().run().unwrap();
    }
}

/// Nine queues and two physical doorbells: at any moment some page is being moved.
#[test]
fn a_guest_that_is_killed_with_pages_on_the_move_leaves_nothing() {
    let daemon = Daemon::start_with(1, &remap(16, 2));
    let before = daemon.resources();
    for _ in 0..8 {
        let vmm = QEMU_WITH_LATE_CHANGES.name;
        let mut churn = daemon.work(&["guest", "--vmm", vmm, "--placement", "bar"]);
        let mut guest = churn.arg("churn").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(guest.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line.trim() == "working"));
        guest.kill().unwrap();
        guest.wait().unwrap();
        daemon.await_log("front end disconnected");
        daemon.await_resources(before);
    }
    let guest = guest_under(&QEMU_WITH_MEMORY_SLOTS, &daemon, 0);
    Lane::new(&open(&guest), 0).unwrap().run().unwrap();
    assert_eq!(guest.violations(), []);
}

#[test]
fn a_page_that_the_vmm_does_not_map_is_an_error_and_can_be_tried_again() {
    let daemon = Daemon::start_with(1, &remap(4, 1));
    let guest = guest_under(&QEMU, &daemon, 0);
    let mut lanes = Lane::many(&open(&guest), 2, 1);
    lanes[0].run().unwrap();
    guest.refuse_mappings(true);
    for _ in 0..3 {
        assert_eq!(refusal(lanes[1].run()), Status::IO_DEVICE_ERROR);
        let status = lanes[1].0.queue.status();
        assert_eq!(status, ConnectionStatus::DISCONNECTED_RETRY);
        // The engine executes what is in the ring nevertheless.
        lanes[1].0.finish(lanes[1].0.queue.last_value()).unwrap();
    }
    guest.refuse_mappings(false);
    for _ in 0..3 {
        lanes.iter_mut().for_each(|lane| lane.run().unwrap());
    }
    lanes.iter().for_each(Lane::check);
    assert_eq!(guest.violations(), []);
}

/// A VMM with a full table refuses to map the BAR; doorbells are then in the guest's memory.
#[test]
fn without_room_for_all_pages_doorbells_are_watched_in_the_guests_memory() {
    let daemon = Daemon::start_with(1, &remap(16, 2));
    let guest = guest_under(&QEMU, &daemon, 0);
    let adapter = adapter_of(&guest);
    daemon.await_log("did not map all pieces");
    assert_eq!(adapter.placements(), Placements::GUEST_MEMORY);
    run_in_no_order(&mut Lane::many(&adapter, 8, 1), 100, 1);
    assert_eq!(guest.violations(), []);
}

/// Doorbells that a driver keeps in its own memory are not moved, wherever other areas are.
#[test]
fn doorbells_outside_the_bar_stay_where_they_are() {
    let daemon = Daemon::start_with(1, &remap(4, 1));
    let guest = guest_under(&QEMU, &daemon, 0);
    let placements = Placements { doorbells: Placement::GuestMemory, ..Placements::BAR };
    let adapter = open_with(&guest, placements);
    run_in_no_order(&mut Lane::many(&adapter, 4, 1), 100, 1);
    assert_eq!(guest.unmapped(), 0);
    assert!(adapter.statistics().unwrap().victims > 0);
}
