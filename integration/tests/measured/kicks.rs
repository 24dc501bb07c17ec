// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who wakes up for a submission after a pause: its engine, once, and nobody else.

use crate::alone;
use crate::support::{self, Daemon, TIMEOUT};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::GuestOptions;
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::control::fence::{FenceValue, WaitForFences};
use bellhop_protocol::control::{ReplyHeader, Request, RequestHeader};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::features::Features;
use std::collections::BTreeMap;
use std::path::PathBuf;
use zerocopy::{FromBytes, IntoBytes};

/// Engines that never ask for F1, and that the kernel does not check within the test.
const CONFIG: &str = "[adapter]\nengine_idle = \"0s\"\ntimeout = \"1h\"\n";
const SUBMISSIONS: u64 = 20;

/// How often each thread of the daemon has gone to sleep, by its number and name.
fn sleeps(daemon: &Daemon) -> BTreeMap<(String, String), u64> {
    let file = |task: &PathBuf, name| std::fs::read_to_string(task.join(name)).unwrap();
    let sleeps = |task: PathBuf| {
        let number = task.file_name().unwrap().to_str().unwrap().to_owned();
        let name = file(&task, "comm").trim().to_owned();
        let status = file(&task, "status");
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
        ((number, name), line.split_whitespace().last().unwrap().parse().unwrap())
    };
    daemon.tasks().map(sleeps).collect()
}

/// Submits once the engine sleeps, again and again, and returns which threads went to sleep how often meanwhile.
fn after_pauses(daemon: &Daemon, client: &mut Client) -> Vec<(String, u64)> {
    client.commands.nop().unwrap();
    // The doorbell is connected with the first.
    let value = client.queue.submit(&mut client.commands).unwrap();
    client.queue.progress_fence().poll(value, TIMEOUT).unwrap();
    let rest = |client: &Client| {
        let asleep = || client.queue.status() == ConnectionStatus::CONNECTED_NOTIFY;
        support::await_that("the engine sleeps", asleep);
        daemon.await_quiet();
    };
    rest(client);
    let before = sleeps(daemon);
    for _ in 0..SUBMISSIONS {
        let value = client.queue.submit(&mut client.commands).unwrap();
        client.queue.progress_fence().poll(value, TIMEOUT).unwrap();
        rest(client);
    }
    let first = daemon.id().to_string();
    let after = sleeps(daemon).into_iter();
    // The first thread serves no guest: it takes the daemon's signals.
    let served = after.filter(|((number, _), _)| *number != first);
    let times = served.map(|(thread, after)| {
        let times = after - before.get(&thread).expect("no thread begins meanwhile");
        (thread.1, times)
    });
    times.filter(|(_, times)| *times > 0).collect()
}

#[test]
fn a_submission_after_a_pause_wakes_its_engine_once_and_no_other_thread() {
    let _alone = alone();
    let daemon = Daemon::start_with(1, CONFIG);
    let mut client = support::client(&daemon, 0);
    let before = client.process.statistics().unwrap();
    let woken = after_pauses(&daemon, &mut client);
    let [(engine, times)] = &woken[..] else { panic!("others wake up: {woken:?}") };
    assert!(engine.starts_with("engine"), "{woken:?}");
    assert_eq!(*times, SUBMISSIONS);
    let counters = client.queue.counters();
    assert!(counters.kicks >= SUBMISSIONS && counters.kicks == counters.notifies, "{counters:?}");
    let after = client.process.statistics().unwrap();
    assert_eq!(after.notifies, before.notifies, "a kick is no request");
}

#[test]
fn a_driver_that_does_not_know_of_kicks_sends_a_request_and_is_served() {
    let _alone = alone();
    let daemon = Daemon::start_with(1, CONFIG);
    let features = Features::all() - Features::NOTIFY_BY_KICK;
    let options = GuestOptions { features, ..GuestOptions::default() };
    let guest = support::guest_with(&daemon, 0, options);
    let mut client = support::client_of(&guest, Shape::default());
    after_pauses(&daemon, &mut client);
    let counters = client.queue.counters();
    assert!(counters.notifies >= SUBMISSIONS && counters.kicks == 0, "{counters:?}");
    assert_eq!(client.process.statistics().unwrap().notifies, counters.notifies);
}

/// While an event waits for a buffer, the guest's own thread takes the kick of the event queue, too.
#[test]
fn events_that_found_no_buffer_come_once_the_driver_offers_some() {
    /// More than the event queue has buffers, several times.
    const EVENTS: u64 = 300;
    let _alone = alone();
    let daemon = Daemon::start_with(1, CONFIG);
    let guest = support::guest(&daemon, 0);
    let mut client = support::client_of(&guest, Shape::default());
    after_pauses(&daemon, &mut client);
    let fence = client.device.create_fence(0).unwrap();
    for cookie in 0..EVENTS {
        let wait = WaitForFences { cookie, flags: 0, count: 1 };
        let reached = FenceValue { fence: fence.handle(), value: 1 };
        let length = size_of::<RequestHeader>() + size_of_val(&wait) + size_of_val(&reached);
        let (code, process) = (WaitForFences::CODE, client.process.process());
        let header = RequestHeader { code, length: length as u32, process, reserved: 0 };
        let request = [header.as_bytes(), wait.as_bytes(), reached.as_bytes()].concat();
        let mut reply = [0; 64];
        let length = guest.request(&request, &mut reply).unwrap();
        let (header, _) = ReplyHeader::read_from_prefix(&reply[..length]).unwrap();
        assert!(header.status.is_success(), "{:?}", header.status);
    }
    fence.signal(1).unwrap();
    daemon.await_quiet();
    let mut cookies = Vec::new();
    while cookies.len() < EVENTS as usize {
        let event = guest.next_event(Some(TIMEOUT)).unwrap();
        cookies.extend(event.map(|event| event.cookie));
    }
    assert_eq!(cookies, (0..EVENTS).collect::<Vec<_>>());
    // It has left the kick to the engine again.
    let woken = after_pauses(&daemon, &mut client);
    let times = |name: &str| -> u64 {
        woken.iter().filter(|(thread, _)| thread.starts_with(name)).map(|(_, times)| times).sum()
    };
    assert_eq!((times("engine"), times("guest")), (SUBMISSIONS, 0), "{woken:?}");
}
