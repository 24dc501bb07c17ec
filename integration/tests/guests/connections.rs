// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several guests at one socket: beside each other, within the socket's limits together, and each in its own place.

use crate::support::{self, Daemon, adapter_of, await_that, bellhop, refusal, text};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{CLOUD_HYPERVISOR, FakeGuest, GuestOptions};
use bellhop_guest_umd::Error;
use bellhop_protocol::snapshot::Guest;
use bellhop_protocol::status::Status;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// A daemon with these sockets, each of which has so many guests at once.
fn start(sockets: usize, connections: u32) -> Daemon {
    Daemon::start_with(sockets, &format!("[guest]\nconnections = {connections}\n"))
}

/// The guests that tools see, by connection.
fn seen(daemon: &Daemon) -> Vec<Guest> {
    let mut guests = daemon.snapshot().guests;
    guests.sort_by_key(|guest| (guest.socket.clone(), guest.connection));
    guests
}

/// Bytes of which no two MiB are equal.
fn input(size: u32) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..size).flat_map(|at| [(at / 97 + (at >> 20)) as u8]).collect();
    file.write_all(&bytes).unwrap();
    file
}

/// Has so many programs do the main job at one socket, at the same time; each checks every byte.
fn programs_at_once(count: u32) {
    let daemon = start(1, count);
    let input = input((4 << 20) + 12_345);
    let program = |_| {
        let mut program = daemon.work(&["run", "--json", "--samples", "10"]);
        program
            .arg("--input")
            .arg(input.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let programs: Vec<Child> = (0..count).map(program).collect();
    for program in programs {
        let output = program.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["verified"], &report["bytes"]), (&true.into(), &4_206_649.into()));
    }
    await_that("all have gone", || seen(&daemon).is_empty());
    let lines = daemon.logged();
    let refused = lines.iter().filter(|line| line.contains("refused a front end"));
    assert_eq!(refused.count(), 0, "each has a place");
}

#[test]
fn two_programs_at_one_socket_do_the_main_job_at_the_same_time() {
    programs_at_once(2);
}

#[test]
fn eight_programs_at_one_socket_do_the_main_job_at_the_same_time() {
    programs_at_once(8);
}

#[test]
fn each_guest_of_a_socket_has_a_bar_a_process_and_a_name_of_its_own() {
    let daemon = start(2, 2);
    let guests: Vec<Arc<FakeGuest>> =
        [0, 0, 1].map(|socket| support::guest(&daemon, socket)).into();
    let mut clients: Vec<_> =
        guests.iter().map(|guest| support::client_of(guest, Shape::default())).collect();
    for (client, pattern) in clients.iter_mut().zip(1..) {
        client.commands.fill(client.memory.gpu_va(), 4096, pattern).unwrap();
        client.run().unwrap();
    }
    for (client, pattern) in clients.iter().zip(1_u32..) {
        let bytes = client.read(0, 4096).unwrap();
        assert!(bytes.chunks(4).all(|word| word == pattern.to_le_bytes()), "somebody else's");
    }
    let seen = seen(&daemon);
    let names: Vec<_> = seen
        .iter()
        .map(|guest| {
            let socket = guest.socket.as_deref().unwrap().rsplit('/').next().unwrap();
            (socket.to_owned(), guest.connection)
        })
        .collect();
    let expected = [("gpu0.sock", Some(0)), ("gpu0.sock", Some(1)), ("gpu1.sock", Some(0))];
    assert_eq!(names, expected.map(|(socket, number)| (socket.to_owned(), number)));
    let mut ids: Vec<_> = seen.iter().map(|guest| guest.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert!(seen.iter().all(|guest| guest.pid == Some(std::process::id())));
    assert_eq!(seen.iter().map(|guest| guest.processes.len()).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_socket_that_serves_one_guest_numbers_no_connections() {
    let daemon = Daemon::start(1);
    let _client = support::client(&daemon, 0);
    assert_eq!(seen(&daemon)[0].connection, None);
}

#[test]
fn one_more_than_there_are_places_is_refused_and_harms_nobody() {
    let daemon = start(1, 2);
    let guests = [0, 0].map(|socket| support::guest(&daemon, socket));
    let mut clients = guests.each_ref().map(|guest| support::client_of(guest, Shape::default()));
    for _ in 0..3 {
        let refused = FakeGuest::connect(&daemon.socket(0), GuestOptions::default());
        assert!(refused.is_err(), "it was let in");
        let line = daemon.await_log("refused a front end");
        let pid = format!("pid={}", std::process::id());
        for word in ["gpu0.sock", "connections=2", "guest.connections", &pid] {
            assert!(line.contains(word), "{line:?} lacks {word}");
        }
        clients.iter_mut().for_each(support::submit_once);
    }
    // A place is there again for the next one, and it is the one that became free.
    let [first, second] = guests;
    let [of_first, mut of_second] = clients;
    drop((of_first, first));
    daemon.await_log("front end disconnected");
    let third = support::guest(&daemon, 0);
    support::submit_once(&mut support::client_of(&third, Shape::default()));
    support::submit_once(&mut of_second);
    assert_eq!(
        seen(&daemon).iter().map(|guest| guest.connection).collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
    drop(second);
}

#[test]
fn a_program_that_is_killed_leaves_its_place_to_another_and_its_siblings_go_on() {
    let daemon = start(1, 3);
    let mut siblings = [0; 2].map(|_| support::client(&daemon, 0));
    let resources = daemon.resources();
    for _ in 0..5 {
        let mut program = daemon
            .work(&["guest"])
            .args(["run", "--input", "/dev/zero"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        program.stderr.as_mut().unwrap().read_exact(&mut [0; 1]).unwrap();
        siblings.iter_mut().for_each(support::submit_once);
        assert_eq!(seen(&daemon).len(), 3);
        kill_process(Pid::from_child(&program), Signal::KILL).unwrap();
        program.wait().unwrap();
        siblings.iter_mut().for_each(support::submit_once);
        daemon.await_log("front end disconnected");
        daemon.await_resources(resources);
        // It waits until the last one has gone wholly, if need be.
        let mut next = support::client(&daemon, 0);
        support::submit_once(&mut next);
        drop(next);
        daemon.await_log("front end disconnected");
    }
    siblings.iter_mut().for_each(support::submit_once);
}

#[test]
fn the_guests_of_a_socket_have_no_more_together_than_one_guest_has() {
    let limits = |daemon: &Daemon| -> Vec<Vec<(String, u64)>> {
        let of = |guest: Guest| guest.quotas.into_iter().map(|quota| (quota.what, quota.limit));
        let mut all: Vec<Vec<_>> =
            seen(daemon).into_iter().map(|guest| of(guest).collect()).collect();
        all.iter_mut().for_each(|of| of.sort());
        all
    };
    let sizes = |daemon: &Daemon| -> Vec<u64> {
        let of = |guest: Guest| guest.memory.iter().filter_map(|of| of.size).sum();
        seen(daemon).into_iter().map(of).collect()
    };
    let one = Daemon::start(1);
    let _alone = support::client(&one, 0);
    let (alone, size_alone) = (limits(&one), sizes(&one));
    const COUNT: u32 = 5;
    let several = start(1, COUNT);
    let _clients: Vec<Client> = (0..COUNT).map(|_| support::client(&several, 0)).collect();
    let (each, size_each) = (limits(&several), sizes(&several));
    assert_eq!(each.len(), COUNT as usize);
    for (number, (what, limit)) in alone[0].iter().enumerate() {
        let sum: u64 = each.iter().map(|of| of[number].1).sum();
        assert!(each.iter().all(|of| of[number].0 == *what));
        // Workers bound video sessions, for a socket's guests together.
        assert!(sum <= *limit || what == "video sessions", "{what}: {sum} of {limit}");
    }
    assert!(size_each.iter().sum::<u64>() <= size_alone[0], "{size_each:?} of {size_alone:?}");
}

#[test]
fn a_guest_that_uses_up_its_part_takes_nothing_from_the_others_of_its_socket() {
    let daemon = Daemon::start_with(1, "[guest]\nconnections = 2\nhw_queues = 6\n");
    let [greedy, modest] = [0; 2].map(|_| support::client(&daemon, 0));
    let mut queues = Vec::new();
    let refused = loop {
        match greedy.context.create_user_mode_queue(4096) {
            Ok(queue) => queues.push(queue),
            Err(error) => break Err::<(), _>(error),
        }
    };
    assert_eq!(refusal(refused), Status::QUOTA_EXCEEDED);
    // Three each, and each client has one of them.
    assert_eq!(queues.len(), 2);
    let mut own = Vec::new();
    for _ in 0..2 {
        own.push(modest.context.create_user_mode_queue(4096).unwrap());
    }
}

#[test]
fn guests_of_one_socket_go_on_with_another_daemon_in_places_of_their_own() {
    let mut daemon = start(1, 2);
    let options = || GuestOptions {
        profile: &CLOUD_HYPERVISOR,
        awaits_device: true,
        ..GuestOptions::default()
    };
    let guests = [0; 2].map(|_| support::guest_with(&daemon, 0, options()));
    for guest in &guests {
        let mut client = support::client_of(guest, Shape::default());
        support::submit_once(&mut client);
        // A reset destroys no object first.
        std::mem::forget(client);
    }
    daemon.kill();
    let restarted = start(1, 2);
    for guest in &guests {
        guest.reconnect(UnixStream::connect(restarted.socket(0)).unwrap()).unwrap();
    }
    for guest in &guests {
        guest.reset().unwrap();
        support::submit_once(&mut support::client_of(guest, Shape::default()));
    }
    let places: Vec<_> = seen(&restarted).iter().map(|guest| guest.connection).collect();
    assert_eq!(places, [Some(0), Some(1)]);
}

#[test]
fn a_daemon_that_is_told_to_stop_ends_with_all_guests_of_a_socket() {
    let mut daemon = start(1, 4);
    let guests: Vec<_> = (0..4).map(|_| support::guest(&daemon, 0)).collect();
    let clients: Vec<_> =
        guests.iter().map(|guest| support::client_of(guest, Shape::default())).collect();
    daemon.end();
    for client in clients {
        assert!(matches!(client.process.statistics(), Err(Error::Transport(_))));
    }
}

#[test]
fn guests_of_a_socket_that_a_group_names_share_fences_and_others_do_not() {
    let configuration = "[guest]\nconnections = 2\n[fence_sharing]\nalone = [\"gpu0.sock\"]\n";
    let daemon = Daemon::start_with(2, configuration);
    let [one, two, other] = [0, 0, 1].map(|socket| support::client(&daemon, socket));
    let fence = one.device.fence(0).cross_adapter().create().unwrap();
    let name = fence.share().unwrap();
    let opened = two.device.open_fence(name).unwrap();
    opened.signal(7).unwrap();
    assert_eq!(fence.current_value().unwrap(), 7);
    assert_eq!(refusal(other.device.open_fence(name)), Status::INVALID_PARAMETER);
}

#[test]
fn a_display_and_several_guests_at_one_socket_are_refused_together() {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(b"[guest]\nconnections = 2\n[[adapter.displays]]\n").unwrap();
    let mut check = bellhop();
    let check = check.args(["daemon", "--", "--check-config", "--config"]).arg(file.path());
    let output = check.output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{}", text(&output.stderr));
    let why = text(&output.stderr);
    assert!(why.contains("adapter.displays") && why.contains("guest.connections"), "{why}");
}

#[test]
fn an_adapter_s_processes_of_siblings_are_apart() {
    let daemon = start(1, 2);
    let guests = [0; 2].map(|_| support::guest(&daemon, 0));
    let adapters = guests.each_ref().map(adapter_of);
    let [one, two] = adapters.each_ref().map(|adapter| adapter.create_device().unwrap());
    let shared = one.fence(0).shared().create().unwrap();
    // A name that a sibling shares with its own processes means nothing here.
    assert_eq!(refusal(two.open_fence(shared.share().unwrap())), Status::INVALID_PARAMETER);
}
