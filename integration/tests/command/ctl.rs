// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop ctl`, with a real daemon and real guests.

use crate::support::{
    DISPLAYS, Daemon, LINK, TIMEOUT, adapter_of, await_that, client_of, fault, guest, quick,
    refusal, run, submit_once, text,
};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest_umd::{Adapter, Device};
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::operator::{MAX_OPERATOR_REQUEST, OPERATOR_VERSION};
use bellhop_protocol::snapshot::{Change, Guest};
use bellhop_protocol::status::Status;
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::thread;
use std::time::Duration;

fn ctl(daemon: &Daemon, arguments: &[&str]) -> String {
    run(&mut daemon.operate(&[&["ctl"], arguments].concat()))
}

/// Why the daemon refuses.
#[track_caller]
fn refused(daemon: &Daemon, arguments: &[&str]) -> String {
    let output = daemon.operate(&[&["ctl"], arguments].concat()).output().unwrap();
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn seen(daemon: &Daemon, guest: usize) -> Guest {
    daemon.snapshot().guests.swap_remove(guest)
}

fn change<'a>(changes: &'a [Change], what: &str) -> &'a Change {
    changes.iter().find(|change| change.what == what).unwrap_or_else(|| panic!("{changes:?}"))
}

#[test]
fn nothing_of_a_suspended_guest_executes_until_it_is_resumed_and_its_neighbour_notices_nothing() {
    let daemon = Daemon::start(2);
    let (first, second) = (guest(&daemon, 0), guest(&daemon, 1));
    let mut client = client_of(&first, Shape::default());
    let mut neighbour = client_of(&second, Shape::default());
    submit_once(&mut client);
    ctl(&daemon, &["suspend", "gpu0.sock"]);
    client.commands.nop().unwrap();
    let value = client.submit().unwrap();
    // A context that it creates now executes nothing either.
    let mut later = Client::new(client.process.open_process().unwrap(), Shape::default()).unwrap();
    later.commands.nop().unwrap();
    let of_later = later.submit().unwrap();
    for _ in 0..100 {
        submit_once(&mut neighbour);
    }
    let waited = client.queue.progress_fence().wait(value, Duration::from_millis(100));
    assert!(waited.is_err());
    assert!(later.queue.progress_fence().current_value().unwrap() < of_later);
    let guest = seen(&daemon, 0);
    assert!(guest.suspended && !seen(&daemon, 1).suspended);
    let by = change(&guest.changes, "suspended");
    assert_eq!((by.now.as_str(), by.uid), ("yes", rustix::process::getuid().as_raw()));
    let line = daemon.await_log("the operator has a change: suspended");
    assert!(line.contains("uid=") && line.contains("pid=") && line.contains("command="), "{line}");
    let shown = run(&mut daemon.tool(&["inspect"]));
    assert!(shown.contains("SUSPENDED") && shown.contains("suspended: yes"), "{shown}");
    ctl(&daemon, &["resume", &guest.id.to_string()]);
    client.finish(value).unwrap();
    later.finish(of_later).unwrap();
    assert!(!seen(&daemon, 0).suspended);
}

#[test]
fn a_guest_cannot_end_its_suspension_nor_its_weight_by_a_reset() {
    let daemon = Daemon::start(1);
    let guest = guest(&daemon, 0);
    drop(client_of(&guest, Shape::default()));
    ctl(&daemon, &["suspend", "gpu0.sock"]);
    ctl(&daemon, &["set", "gpu0.sock", "weight=400", "guest.kernels=8"]);
    let before = seen(&daemon, 0);
    guest.reset().unwrap();
    let mut client = client_of(&guest, Shape::default());
    client.commands.nop().unwrap();
    let value = client.submit().unwrap();
    let after = seen(&daemon, 0);
    assert_ne!(after.id, before.id);
    assert_eq!((after.weight, after.suspended), (400, true));
    assert_eq!(after.changes, before.changes);
    let kernels = after.quotas.iter().find(|quota| quota.what == "kernels").unwrap();
    assert_eq!(kernels.limit, 8);
    assert!(client.queue.progress_fence().wait(value, Duration::from_millis(50)).is_err());
    ctl(&daemon, &["resume", "gpu0.sock"]);
    client.finish(value).unwrap();
}

#[test]
fn a_guest_that_fails_is_told_that_it_was_the_operator_and_its_neighbour_goes_on() {
    let daemon = Daemon::start(2);
    let guests = [guest(&daemon, 0), guest(&daemon, 1)];
    let [mut client, mut neighbour] = guests.each_ref().map(|of| client_of(of, Shape::default()));
    submit_once(&mut client);
    ctl(&daemon, &["fail", "gpu0.sock"]);
    client.commands.nop().unwrap();
    let lost = client.submit().and_then(|value| client.finish(value));
    assert_eq!(fault(lost).reason, FaultReason::FAILED_BY_OPERATOR);
    submit_once(&mut neighbour);
    assert_eq!(change(&seen(&daemon, 0).changes, "failed").now, "yes");
    let mut anew = Client::new(client.process.open_process().unwrap(), Shape::default()).unwrap();
    submit_once(&mut anew);
}

#[test]
fn a_gpu_that_is_taken_away_comes_back() {
    let daemon = Daemon::start(2);
    let guests = [guest(&daemon, 0), guest(&daemon, 1)];
    let [mut client, mut neighbour] = guests.each_ref().map(|of| client_of(of, Shape::default()));
    submit_once(&mut client);
    ctl(&daemon, &["gpu", "unplug", "gpu0.sock"]);
    client.commands.nop().unwrap();
    let lost = client.submit().and_then(|value| client.finish(value));
    assert_eq!(fault(lost).reason, FaultReason::GPU_REMOVED);
    assert_eq!(refusal(client.process.create_device()), Status::DEVICE_REMOVED);
    assert_eq!(seen(&daemon, 0).gpu, "removed");
    submit_once(&mut neighbour);
    ctl(&daemon, &["gpu", "plug", "gpu0.sock"]);
    submit_once(&mut Client::new(client.process, Shape::default()).unwrap());
}

/// A client on the first node of a GPU.
fn client_on(gpu: u8, adapter: &Adapter, device: &Device) -> Client {
    let nodes = adapter.nodes().unwrap();
    let node = (0..).zip(nodes).find(|(_, node)| node.gpu() == gpu).unwrap().0;
    Client::on(adapter.clone(), device.clone(), Shape { node, ..Shape::default() }).unwrap()
}

#[test]
fn a_gpu_of_a_chain_that_is_taken_away_costs_its_own_work_alone_and_comes_back_with_its_memory() {
    let daemon = Daemon::start_with(1, &format!("{}{LINK}", quick("", "")));
    let guest = guest(&daemon, 0);
    let process = adapter_of(&guest).open_process().unwrap();
    let device = process.create_device().unwrap();
    let [mut master, mut slave] = [0, 1].map(|gpu| client_on(gpu, &process, &device));
    // What may be on that GPU alone, and what may be elsewhere, too.
    let [own, movable] = [SegmentSet::PRIVATE, SegmentSet::PRIVATE | SegmentSet::SYSTEM]
        .map(|segments| device.allocation(4096).segments(segments).on_gpu(1).create().unwrap());
    device.make_resident(&[&own, &movable]).unwrap();
    let [own_map, movable_map] =
        [&own, &movable].map(|allocation| allocation.map(Protection::WRITE).unwrap());
    slave.commands.fill(own_map.gpu_va(), 4096, 7).unwrap();
    slave.commands.fill(movable_map.gpu_va(), 4096, 9).unwrap();
    slave.run().unwrap();
    // The slave waits for a fence that nobody signals, and the master for the slave.
    let never = device.create_fence(0).unwrap();
    slave.commands.reset();
    slave.commands.wait_fence(&never, 1).unwrap();
    let waiting = slave.submit().unwrap();
    master.commands.wait_fence(slave.queue.progress_fence(), waiting).unwrap();
    let told = master.submit().unwrap();

    ctl(&daemon, &["gpu", "unplug", "gpu0.sock", "1"]);
    assert_eq!(fault(slave.finish(waiting)).reason, FaultReason::GPU_REMOVED);
    master.finish(told).unwrap();
    let read = |client: &mut Client, at: u64| {
        client.commands.reset();
        client.commands.copy(at, client.va(0), 8).unwrap();
        client.run().unwrap();
        client.word(0).unwrap()
    };
    assert_eq!(read(&mut master, movable_map.gpu_va()), 0x9_0000_0009);
    let node = slave.context.node();
    assert_eq!(refusal(device.create_context(node)), Status::DEVICE_REMOVED);
    let there = device.allocation(4096).segments(SegmentSet::PRIVATE).on_gpu(1).create();
    assert_eq!(refusal(there), Status::DEVICE_REMOVED);
    let guest_seen = seen(&daemon, 0);
    assert_eq!(
        (guest_seen.gpu.as_str(), guest_seen.gpus_removed.as_slice()),
        ("started", &[1][..])
    );
    let private = guest_seen.memory.iter().filter(|of| of.segment == "private");
    assert_eq!(private.map(|of| of.gpu).collect::<Vec<_>>(), [Some(0), Some(1)]);
    let contexts =
        guest_seen.processes.iter().flat_map(|of| &of.devices).flat_map(|of| &of.contexts);
    let states = contexts.map(|of| (of.gpu, of.state.as_str())).collect::<Vec<_>>();
    assert_eq!(states, [(0, "running"), (1, "lost")]);
    assert_eq!(change(&guest_seen.changes, "gpu 1").now, "unplugged");
    assert!(refused(&daemon, &["gpu", "unplug", "gpu0.sock", "2"]).contains("no such GPU"));

    ctl(&daemon, &["gpu", "plug", "gpu0.sock", "1"]);
    let mut anew = client_on(1, &process, &device);
    for client in [&mut anew, &mut master] {
        assert_eq!(read(client, own_map.gpu_va()), 0x7_0000_0007);
    }
    // The master takes the chain along.
    ctl(&daemon, &["gpu", "unplug", "gpu0.sock"]);
    assert_eq!(seen(&daemon, 0).gpu, "removed");
    assert_eq!(refusal(process.create_device()), Status::DEVICE_REMOVED);
}

#[test]
fn one_of_several_guests_of_a_socket_is_named_by_its_connection() {
    let daemon = Daemon::start_with(2, "[guest]\nconnections = 2\n");
    let guests = [0, 0, 1].map(|socket| guest(&daemon, socket));
    let mut clients = guests.each_ref().map(|guest| client_of(guest, Shape::default()));
    clients.iter_mut().for_each(submit_once);
    let report: Value = serde_json::from_str(&ctl(&daemon, &["guests", "--json"])).unwrap();
    let rows = report["sockets"].as_array().unwrap();
    let place = |row: &Value| {
        let socket = row["socket"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        (socket, row["connection"].as_u64(), row["connections"].as_u64())
    };
    let expected = [("gpu0.sock", 0), ("gpu0.sock", 1), ("gpu1.sock", 0)];
    let expected = expected.map(|(socket, number)| (socket.to_owned(), Some(number), Some(2)));
    assert_eq!(rows.iter().map(place).collect::<Vec<_>>(), expected);
    let ids: Vec<_> = rows.iter().map(|row| row["guest"].as_u64().unwrap()).collect();
    let own = u64::from(std::process::id());
    assert!(rows.iter().all(|row| row["pid"] == own && row["connected"] == true), "{report}");
    let table = ctl(&daemon, &["guests"]);
    assert!(table.contains("gpu0.sock#0") && table.contains("gpu0.sock#1"), "{table}");

    // What concerns one guest needs the name of one.
    let why = refused(&daemon, &["fail", "gpu0.sock"]);
    for word in ["several guests", "gpu0.sock#0", "gpu0.sock#1", &ids[0].to_string()] {
        assert!(why.contains(word), "{why:?} lacks {word}");
    }
    for (name, expected) in [
        ("gpu0.sock#2", "has 2 connections"),
        ("gpu1.sock#1", "no guest is attached to"),
        ("gpu0.sock#x", "name one of these"),
        ("4711", "name one of these"),
    ] {
        let why = refused(&daemon, &["fail", name]);
        assert!(why.contains(expected), "{name}: {why}");
    }
    ctl(&daemon, &["fail", "gpu0.sock#1"]);
    clients[1].commands.nop().unwrap();
    let lost = clients[1].submit().and_then(|value| clients[1].finish(value));
    assert_eq!(fault(lost).reason, FaultReason::FAILED_BY_OPERATOR);
    submit_once(&mut clients[0]);
    submit_once(&mut clients[2]);
    // The socket of one guest may name it.
    ctl(&daemon, &["fail", "gpu1.sock"]);
}

#[test]
fn a_guest_is_suspended_until_it_goes_and_a_socket_until_it_is_resumed() {
    let daemon = Daemon::start_with(1, "[guest]\nconnections = 2\n");
    let (first, second) = (guest(&daemon, 0), guest(&daemon, 0));
    let mut clients = [&first, &second].map(|guest| client_of(guest, Shape::default()));
    clients.iter_mut().for_each(submit_once);
    let suspended = || {
        let mut seen = daemon.snapshot().guests;
        seen.sort_by_key(|guest| guest.connection);
        seen.iter().map(|guest| guest.suspended).collect::<Vec<_>>()
    };
    let said = ctl(&daemon, &["suspend", "gpu0.sock#1"]);
    assert!(said.contains("until it disconnects"), "{said}");
    assert_eq!(suspended(), [false, true]);
    clients[1].commands.nop().unwrap();
    let value = clients[1].submit().unwrap();
    (0..100).for_each(|_| submit_once(&mut clients[0]));
    assert_eq!(clients[1].queue.progress_fence().current_value().unwrap() + 1, value);
    // A reset of its device does not end it.
    let [one, two] = clients;
    std::mem::forget(two);
    second.reset().unwrap();
    let two = client_of(&second, Shape::default());
    assert_eq!(suspended(), [false, true]);

    ctl(&daemon, &["suspend", "gpu0.sock"]);
    assert_eq!(suspended(), [true, true]);
    let said = ctl(&daemon, &["resume", "gpu0.sock#1"]);
    assert!(said.contains("stays suspended"), "{said}");
    assert_eq!(suspended(), [true, true]);
    // Who connects anew is suspended too.
    std::mem::forget(two);
    second.kill();
    drop(second);
    daemon.await_log("front end disconnected");
    let third = guest(&daemon, 0);
    let mut third = client_of(&third, Shape::default());
    assert_eq!(suspended(), [true, true]);
    ctl(&daemon, &["resume", "gpu0.sock"]);
    assert_eq!(suspended(), [false, false]);
    submit_once(&mut third);
    let mut one = one;
    submit_once(&mut one);
}

#[test]
fn what_is_set_is_the_sockets_and_its_guests_have_it_together() {
    let daemon = Daemon::start_with(1, "[guest]\nconnections = 2\n");
    let guests = [0, 0].map(|socket| guest(&daemon, socket));
    let mut clients = guests.each_ref().map(|guest| client_of(guest, Shape::default()));
    clients.iter_mut().for_each(submit_once);
    ctl(&daemon, &["set", "gpu0.sock", "hw_queues=4", "weight=300"]);
    let limits = || {
        let quota = |guest: &Guest| {
            let mut quotas = guest.quotas.iter();
            quotas.find(|quota| quota.what == "hardware queues").map(|quota| quota.limit)
        };
        let seen = daemon.snapshot().guests;
        seen.iter().map(|guest| (quota(guest), guest.weight)).collect::<Vec<_>>()
    };
    assert_eq!(limits(), [(Some(2), 300); 2]);
    // The name of one guest is one of its socket's.
    ctl(&daemon, &["set", "gpu0.sock#1", "hw_queues=6"]);
    assert_eq!(limits(), [(Some(3), 300); 2]);
    let report: Value = serde_json::from_str(&ctl(&daemon, &["guests", "--json"])).unwrap();
    let whats = |row: &Value| row["changes"].as_array().unwrap().len();
    assert_eq!(report["sockets"].as_array().unwrap().iter().map(whats).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn connections_end_one_by_one_or_all_together_when_the_operator_says_so() {
    let mut daemon = Daemon::start_with(1, "[guest]\nconnections = 3\n");
    let guests = [0; 3].map(|socket| guest(&daemon, socket));
    let clients = guests.each_ref().map(|guest| client_of(guest, Shape::default()));
    let said = ctl(&daemon, &["disconnect", "gpu0.sock#1"]);
    assert!(said.contains("gpu0.sock#1 is ended"), "{said}");
    daemon.await_log("guest detached");
    await_that("it is gone", || daemon.snapshot().guests.len() == 2);
    let why = refused(&daemon, &["disconnect", "gpu0.sock#1"]);
    assert!(why.contains("nobody is connected to"), "{why}");
    let said = ctl(&daemon, &["disconnect", "gpu0.sock"]);
    assert!(said.contains("the 2 connections"), "{said}");
    await_that("they are gone", || daemon.snapshot().guests.is_empty());
    drop((clients, guests));
    // The daemon drains while a socket has several guests.
    let guests = [0; 2].map(|socket| guest(&daemon, socket));
    let mut clients = guests.each_ref().map(|guest| client_of(guest, Shape::default()));
    let mut draining = daemon.operate(&["ctl", "drain", "--stop"]).spawn().unwrap();
    daemon.await_log("the operator has a change: draining");
    let [first, second] = guests;
    clients.iter_mut().for_each(submit_once);
    let [of_first, mut of_second] = clients;
    drop((of_first, first));
    daemon.await_log("front end disconnected");
    submit_once(&mut of_second);
    assert!(draining.try_wait().unwrap().is_none());
    drop((of_second, second));
    assert!(draining.wait().unwrap().success());
    assert!(daemon.wait().success());
}

#[test]
fn weights_and_limits_change_while_a_guest_runs_and_others_are_refused() {
    let daemon = Daemon::start(1);
    let guest = guest(&daemon, 0);
    let adapter = adapter_of(&guest);
    let said = ctl(&daemon, &["set", "gpu0.sock", "weight=250", "log_burst=5", "hw_queues=1"]);
    assert!(said.contains("guest.weight of") && said.contains("is 250"), "{said}");
    assert_eq!(seen(&daemon, 0).weight, 250);
    let mut one = Client::new(adapter.open_process().unwrap(), Shape::default()).unwrap();
    submit_once(&mut one);
    let second = one.context.create_user_mode_queue(4096).map(drop);
    assert_eq!(refusal(second), Status::QUOTA_EXCEEDED);
    for (setting, expected) in [
        ("weight=0", "must be 1 to 10000"),
        ("local_memory=1GiB", "bellhop ctl drain --stop"),
        ("adapter.spin=1us", "is read when the daemon starts"),
        ("physical_doorbells_reserved=65", "0 to 64"),
        ("speed=1", "these may change"),
        ("weight", "KEY=VALUE"),
    ] {
        let why = refused(&daemon, &["set", "gpu0.sock", setting]);
        assert!(why.contains(expected), "{setting}: {why}");
    }
    let why = refused(&daemon, &["suspend", "vm7.sock"]);
    assert!(why.contains("name one of these") && why.contains("gpu0.sock"), "{why}");
    let report: Value = serde_json::from_str(&ctl(&daemon, &["guests", "--json"])).unwrap();
    let changes = report["sockets"][0]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 3, "{changes:?}");
    assert_eq!(report["draining"], false);
    let table = ctl(&daemon, &["guests"]);
    assert!(table.contains("guest ") && table.contains("weight: 250, by uid"), "{table}");
}

#[test]
fn a_connection_ends_when_the_operator_says_so_and_another_may_come() {
    let daemon = Daemon::start(1);
    let first = guest(&daemon, 0);
    let client = client_of(&first, Shape::default());
    ctl(&daemon, &["disconnect", "gpu0.sock"]);
    daemon.await_log("the operator has a change: disconnected");
    daemon.await_log("guest detached");
    drop((client, first));
    submit_once(&mut client_of(&guest(&daemon, 0), Shape::default()));
}

#[test]
fn power_changes_by_the_operator_and_comes_back_with_work() {
    let daemon = Daemon::start(1);
    let guest = guest(&daemon, 0);
    let mut client = client_of(&guest, Shape::default());
    submit_once(&mut client);
    ctl(&daemon, &["power", "engine", "1", "f1"]);
    ctl(&daemon, &["power", "device", "d3"]);
    let seen = daemon.snapshot();
    assert_eq!((seen.adapter.power.as_str(), seen.adapter.power_transitions), ("D3", 1));
    assert_eq!(change(&seen.adapter.changes, "power").now, "D3");
    assert_eq!(change(&seen.adapter.changes, "engine 1").now, "F1");
    submit_once(&mut client);
    assert_eq!(daemon.snapshot().adapter.power, "D0");
    let why = refused(&daemon, &["power", "device", "d3", "--adapter", "4"]);
    assert!(why.contains("there is no adapter 4"), "{why}");
    let why = refused(&daemon, &["power", "engine", "99", "f1"]);
    assert!(why.contains("there is no such node"), "{why}");
}

#[test]
fn a_daemon_that_drains_lets_nobody_in_and_ends_with_its_last_guest() {
    let mut daemon = Daemon::start(2);
    let first = guest(&daemon, 0);
    let mut client = client_of(&first, Shape::default());
    let mut draining = daemon.operate(&["ctl", "drain", "--stop"]).spawn().unwrap();
    daemon.await_log("the operator has a change: draining");
    // The listener takes the connection, and the daemon does not.
    let second = UnixStream::connect(daemon.socket(1)).unwrap();
    let report: Value = serde_json::from_str(&ctl(&daemon, &["guests", "--json"])).unwrap();
    assert_eq!(
        (&report["draining"], &report["sockets"][1]["connected"]),
        (&true.into(), &false.into())
    );
    submit_once(&mut client);
    assert!(draining.try_wait().unwrap().is_none());
    drop((client, first));
    assert!(draining.wait().unwrap().success());
    assert!(daemon.wait().success());
    drop(second);
}

#[test]
fn draining_can_be_cancelled_and_a_guest_that_waited_comes_in() {
    let daemon = Daemon::start(1);
    ctl(&daemon, &["drain"]);
    thread::scope(|scope| {
        let socket = daemon.socket(0);
        let waits = scope.spawn(move || {
            let guest = FakeGuest::connect(&socket, GuestOptions::default()).unwrap();
            submit_once(&mut client_of(&guest, Shape::default()));
        });
        ctl(&daemon, &["drain", "--cancel"]);
        waits.join().unwrap();
    });
}

#[test]
fn the_operator_ends_the_daemon() {
    let mut daemon = Daemon::start(1);
    ctl(&daemon, &["stop"]);
    assert!(daemon.wait().success());
    assert!(!daemon.operator_socket().exists());
}

#[test]
fn monitors_are_the_operator_s_and_the_control_socket_changes_nothing() {
    let daemon = Daemon::start_with(1, DISPLAYS);
    let guest = guest(&daemon, 0);
    let adapter = adapter_of(&guest);
    let display = adapter.display().unwrap();
    let said = ctl(&daemon, &["display", "unplug", "gpu0.sock", "VIRTUAL-2"]);
    assert!(said.contains("VIRTUAL-2") && said.contains("unplugged"), "{said}");
    let event = display.next_hot_plug(TIMEOUT).unwrap().unwrap();
    assert_eq!((event.child, event.is_connected), (1, false));
    assert_eq!(change(&seen(&daemon, 0).changes, "display VIRTUAL-2").now, "unplugged");
    for line in [
        r#"{"version":1,"screen":{"plug":{"connector":{"guest":0,"name":""},"plugged":false}}}"#,
        r#"{"version":1,"operate":"stop"}"#,
        r#"{"version":1,"operate":{"suspend":{"guest":"gpu0.sock"}}}"#,
    ] {
        let answer = ask(&daemon.control_socket(), format!("{line}\n").as_bytes());
        assert!(answer.contains("changes nothing") && answer.contains("bellhop ctl"), "{answer}");
    }
    assert_eq!(display.child_status(0).unwrap().connected, 1);
    assert!(!seen(&daemon, 0).suspended);
    drop(adapter);
}

/// The answer to these bytes, until the daemon closes the connection.
fn ask(socket: &std::path::Path, sent: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let _ = stream.write_all(sent);
    let mut byte = [0; 1];
    let mut answer = Vec::new();
    while stream.read(&mut byte).is_ok_and(|read| read == 1) && byte[0] != b'\n' {
        answer.push(byte[0]);
    }
    text(&answer)
}

#[test]
fn what_is_no_request_is_refused_and_harms_nobody() {
    let daemon = Daemon::start(1);
    let mut client = client_of(&guest(&daemon, 0), Shape::default());
    let long = vec![b'x'; 2 * MAX_OPERATOR_REQUEST];
    let other = format!("{{\"version\":{},\"operate\":\"stop\"}}\n", OPERATOR_VERSION + 1);
    for sent in [
        b"\n".as_slice(),
        b"{}\n",
        b"\xFF\0\n",
        b"{\"version\":1,\"operate\":\"explode\"}\n",
        b"{\"version\":1,\"operate\":{\"suspend\":{}}}\n",
        b"{\"version\":1,\"operate\":{\"suspend\":{\"guest\":\"1\",\"for\":1}}}\n",
        b"{\"version\":1,\"list\":3}\n",
        other.as_bytes(),
        &long,
    ] {
        let answer = ask(&daemon.operator_socket(), sent);
        assert!(answer.starts_with("{\"error\":"), "{:?}: {answer}", text(sent));
    }
    submit_once(&mut client);
}

#[test]
fn only_root_the_daemon_s_user_and_the_operator_s_group_may_operate() {
    if !rustix::process::getuid().is_root() {
        crate::support::skip("this is not root", "nobody else's credentials are tried", "be root");
        return;
    }
    let daemon = Daemon::start_with(1, "[control]\noperator_group = \"4711\"\n");
    let guest = guest(&daemon, 0);
    let _client = client_of(&guest, Shape::default());
    let socket = daemon.operator_socket();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&socket) & 0o7777, 0o660);
    let folder = socket.parent().unwrap();
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    let as_user = |group: u32| {
        let mut command = daemon.operate(&["ctl", "guests"]);
        command.uid(65534).gid(group);
        command.output().unwrap()
    };
    let member = as_user(4711);
    assert!(member.status.success(), "{}", text(&member.stderr));
    // The file's mode refuses others, and the daemon does even without it.
    assert!(text(&as_user(4712).stderr).contains("you may not connect"));
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).unwrap();
    let stranger = as_user(4712);
    assert!(text(&stranger.stderr).contains("you may not operate this daemon"), "{stranger:?}");
    daemon.await_log("refused an operator");
}

#[test]
fn an_agent_that_there_is_not_is_told_of() {
    let daemon = Daemon::start(1);
    let guest = guest(&daemon, 0);
    let _adapter: Adapter = adapter_of(&guest);
    await_that("the guest is attached", || !daemon.snapshot().guests.is_empty());
    let why = refused(&daemon, &["agent", "gpu0.sock", "topology", "extend"]);
    assert!(why.contains("no agent is running in the guest"), "{why}");
}
