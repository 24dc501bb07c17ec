// SPDX-License-Identifier: MIT OR Apache-2.0

//! A daemon that has nothing to do does nothing.

use crate::alone;
use crate::support::{self, DISPLAYS, Daemon};
use bellhop_guest::bench::StillScreen;
use bellhop_guest::client::Client;
use bellhop_guest_umd::UserModeQueue;
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::doorbell::ConnectionStatus;
use std::time::Duration;

const GUESTS: usize = 4;
/// More than half of the daemon's default time-out.
const LOOK: Duration = Duration::from_millis(1500);

/// A guest with a queue on each node; each queue has had work.
struct Attached {
    client: Client,
    queues: Vec<UserModeQueue>,
}

impl Attached {
    fn new(daemon: &Daemon, number: usize) -> Self {
        let client = support::client(daemon, number);
        let queues = (0..3).map(|node| client.queue_on(node).unwrap()).collect();
        let mut attached = Self { client, queues };
        attached.work();
        attached
    }

    fn work(&mut self) {
        for queue in &mut self.queues {
            self.client.run_on(queue).unwrap();
        }
    }

    /// Waits until every doorbell reads a status.
    fn await_status(&self, status: ConnectionStatus) {
        for queue in &self.queues {
            support::await_that("it reads that", || queue.status() == status);
        }
    }

    /// Waits until the device has no power.
    fn await_d3(&self) {
        let power = || self.client.process.power(0).unwrap().device;
        support::await_that("the device is in D3", || power() == DevicePowerState::D3);
    }
}

fn expect_no_wakeups(daemon: &Daemon) {
    daemon.await_quiet();
    // The kernel checks engines for hangs once more, half a time-out after the last work.
    let look = std::time::Instant::now() + LOOK;
    while std::time::Instant::now() < look {
        daemon.expect_no_log_for(LOOK / 10);
    }
    daemon.await_quiet();
    let before = daemon.wakeups();
    daemon.expect_no_log_for(Duration::from_secs(2));
    assert_eq!(daemon.wakeups(), before, "wake-ups in two idle seconds");
}

#[test]
fn with_guests_attached_and_doorbells_connected_no_thread_wakes() {
    let _alone = alone();
    // Engines that never ask for F1, and that the kernel does not check within the test.
    let config = "[adapter]\nengine_idle = \"0s\"\ntimeout = \"1h\"\n";
    let daemon = Daemon::start_with(GUESTS, config);
    let mut guests: Vec<_> = (0..GUESTS).map(|number| Attached::new(&daemon, number)).collect();
    // Engines fall asleep one after another; the last to do so has armed its doorbells.
    for guest in &guests {
        guest.await_status(ConnectionStatus::CONNECTED_NOTIFY);
    }
    expect_no_wakeups(&daemon);
    guests.iter_mut().for_each(Attached::work);
}

#[test]
fn with_a_still_screen_that_nobody_views_no_thread_wakes() {
    let _alone = alone();
    let config = format!("[adapter]\nengine_idle = \"0s\"\ntimeout = \"1h\"\n{DISPLAYS}");
    let daemon = Daemon::start_with(1, &config);
    let client = support::client(&daemon, 0);
    let screen = StillScreen::show(&client.process).unwrap();
    expect_no_wakeups(&daemon);
    drop(screen);
}

/// "Dxgkrnl monitors whether a GPU engine is making progress using TDR timeout cadence."
#[test]
fn engines_that_never_ask_for_it_lose_their_power_too_and_then_no_thread_wakes() {
    let _alone = alone();
    let config = "[adapter]\nengine_idle = \"0s\"\ndevice_idle = \"100ms\"\ntimeout = \"200ms\"\n";
    let daemon = Daemon::start_with(1, config);
    let mut guest = Attached::new(&daemon, 0);
    guest.await_status(ConnectionStatus::DISCONNECTED_RETRY);
    guest.await_d3();
    expect_no_wakeups(&daemon);
    guest.work();
}

#[test]
fn without_power_no_thread_wakes_and_the_next_submission_brings_it_back() {
    let _alone = alone();
    let config = "[adapter]\nengine_idle = \"100ms\"\ndevice_idle = \"100ms\"\n";
    let daemon = Daemon::start_with(GUESTS, config);
    let mut guests: Vec<_> = (0..GUESTS).map(|number| Attached::new(&daemon, number)).collect();
    for guest in &guests {
        guest.await_status(ConnectionStatus::DISCONNECTED_RETRY);
        guest.await_d3();
    }
    expect_no_wakeups(&daemon);
    let power = guests[0].client.process.power(1).unwrap();
    assert_eq!((power.device, power.engine), (DevicePowerState::D3, EnginePowerState::F1));
    guests.iter_mut().for_each(Attached::work);
}
