// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tools on the host: their view of a daemon, and the limits of their influence.

use crate::support::{
    Daemon, TIMEOUT, adapter_of, await_that, bellhop, client, client_of, guest, run, submit_once,
    text,
};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::inspect::{self, Source};
use bellhop_guest_umd::Adapter;
use bellhop_integration::inspect::ControlClient;
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::snapshot::{
    Guest, ListRequest, MAX_LIST_REQUEST, Name, SNAPSHOT_VERSION, Snapshot,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// Submits once on a new queue of a new process.
fn work(adapter: &Adapter) {
    let mut client = Client::new(adapter.open_process().unwrap(), Shape::default()).unwrap();
    submit_once(&mut client);
}

#[test]
fn objects_of_two_guests_appear_in_their_places_and_go() {
    let daemon = Daemon::start_with(2, "[adapter]\nengine_idle = \"0s\"\n");
    assert!(daemon.snapshot().guests.is_empty());

    let guests = [guest(&daemon, 0), guest(&daemon, 1)];
    let mut client = client_of(&guests[0], Shape { node: 1, ..Shape::default() });
    let idle = adapter_of(&guests[1]);
    let fence = client.device.create_fence(41).unwrap();
    submit_once(&mut client);
    let value = client.queue.last_value();

    let seen = daemon.snapshot();
    assert_eq!(seen.version, SNAPSHOT_VERSION);
    assert_eq!(seen.adapter.physical_doorbells_used, Some(1));
    assert_eq!(seen.nodes.iter().map(|node| node.run_list.len()).sum::<usize>(), 1);
    assert_eq!(seen.nodes[1].run_list[0].completed, value);
    let [first, second] = seen.guests.as_slice() else { panic!("{:?}", seen.guests) };
    assert!(first.statistics.packets > 0 && second.statistics.packets == 0);
    let sockets = [first, second].map(|guest| PathBuf::from(guest.socket.as_ref().unwrap()));
    assert_eq!(sockets, [daemon.socket(0), daemon.socket(1)]);
    // This process is the front end.
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let came = (first.pid, first.command.as_deref());
    assert_eq!(came, (Some(std::process::id()), Some(name.trim_end())));
    assert!(second.processes.iter().all(|process| process.devices.is_empty()));
    let found = &first.processes[0].devices[0];
    assert_eq!(found.contexts[0].node, 1);
    let found_queue = &found.contexts[0].hw_queues[0];
    assert_eq!((found_queue.queued, found_queue.completed), (value, value));
    let doorbell = found_queue.doorbell.as_ref().unwrap();
    assert_eq!((doorbell.state.as_str(), doorbell.ring_size), ("connected", 4096));
    assert!(doorbell.physical.is_some());
    assert_eq!(found.fences.iter().map(|fence| fence.value).collect::<Vec<_>>(), [41]);
    let allocations: u64 = first.memory.iter().map(|segment| segment.allocations).sum();
    assert_eq!(allocations, found.allocations.len() as u64);
    let handles = |guest: &Guest| {
        guest.quotas.iter().find(|quota| quota.what == "handles").map(|quota| quota.used)
    };
    assert!(handles(first) > Some(5) && handles(second) == Some(0));

    // The guest sees its own objects as the host does, and no others.
    let own = inspect::snapshot(&mut &client.process).unwrap();
    assert_eq!(own.guests.len(), 1);
    assert_eq!(own.guests[0].processes, first.processes);
    let of_the_host = (&own.guests[0].socket, own.guests[0].pid, &own.guests[0].command);
    assert_eq!(of_the_host, (&None, None, &None));
    assert_eq!(own.adapter.physical_doorbells_used, None);

    client.context.suspend().unwrap();
    let seen = daemon.snapshot();
    let found = &seen.guests[0].processes[0].devices[0].contexts[0];
    assert_eq!((found.state.as_str(), found.suspended_by.len()), ("suspended", 1));
    assert!(seen.nodes.iter().all(|node| node.run_list.is_empty()));

    let Client { queue, commands, memory, context, device, process } = client;
    drop((fence, queue, commands, memory, context, device));
    assert!(daemon.snapshot().guests[0].processes[0].devices.is_empty());
    drop((process, idle));
    drop(guests);
    daemon.await_log("front end disconnected");
    daemon.await_log("front end disconnected");
    assert!(daemon.snapshot().guests.is_empty());
}

#[test]
fn more_objects_than_fit_into_an_answer_are_all_there() {
    const FENCES: u64 = 3000;
    let daemon = Daemon::start(1);
    let adapter = adapter_of(&guest(&daemon, 0));
    let device = adapter.create_device().unwrap();
    let fences: Vec<_> = (0..FENCES).map(|value| device.create_fence(value).unwrap()).collect();
    let seen = daemon.snapshot();
    let values = seen.guests[0].processes[0].devices[0].fences.iter().map(|fence| fence.value);
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    assert!(values.into_iter().eq(0..FENCES));
    drop(fences);
}

#[test]
fn the_command_prints_a_tree_or_json_that_is_what_was_sent() {
    let daemon = Daemon::start(1);
    let adapter = adapter_of(&guest(&daemon, 0));
    let device = adapter.create_device().unwrap();
    let inspect = || daemon.tool(&["inspect"]);
    let tree = run(&mut inspect());
    assert!(tree.contains("└─ device  0x") && !tree.contains('\x1b'), "{tree}");
    let json = run(inspect().arg("--json"));
    let read: Snapshot = serde_json::from_str(&json).unwrap();
    // Only its clock advances.
    let still = |mut seen: Snapshot| {
        seen.adapter.time = 0;
        seen
    };
    assert_eq!(still(read.clone()), still(daemon.snapshot()));
    assert_eq!(serde_json::to_string(&read).unwrap() + "\n", json);
    let id = read.guests[0].id.to_string();
    let of_one = run(inspect().args(["--json", "--guest", &id]));
    assert_eq!(still(serde_json::from_str(&of_one).unwrap()), still(read));
    let refused = inspect().args(["--guest", "999"]).output().unwrap();
    assert!(!refused.status.success() && text(&refused.stderr).contains("no guest 999"));
    drop(device);
}

#[test]
fn it_is_printed_again_while_it_is_watched() {
    let daemon = Daemon::start(1);
    let mut command = daemon.tool(&["inspect", "--json", "--watch"]);
    let mut watching = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = lines.next().unwrap().unwrap();
        assert!(serde_json::from_str::<Snapshot>(&line).unwrap().guests.is_empty());
    }
    // `--watch` ends by itself when its output's reader is gone, as SIGPIPE ends other programs.
    drop(lines);
    assert_eq!(watching.wait().unwrap().code(), Some(141));
}

#[test]
fn a_guests_socket_and_a_socket_without_a_server_are_told_apart() {
    let mut daemon = Daemon::start(1);
    let inspect = |socket: PathBuf| {
        let output = bellhop().arg("inspect").arg("--socket").arg(socket).output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let wrong = inspect(daemon.socket(0));
    assert!(wrong.contains("not a guest's socket"), "{wrong}");
    let path = daemon.control_socket();
    daemon.end();
    let gone = inspect(path);
    assert!(gone.contains("--control-socket"), "{gone}");
}

/// The answers to a connection, until the daemon closes it.
fn answers(daemon: &Daemon, sent: &[u8]) -> String {
    let mut stream = UnixStream::connect(daemon.control_socket()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    // The daemon may close before it has read everything.
    let _ = stream.write_all(sent);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    text(&bytes)
}

#[test]
fn garbage_and_half_requests_are_answered_and_disturb_no_guest() {
    let daemon = Daemon::start(1);
    let adapter = adapter_of(&guest(&daemon, 0));
    let before = daemon.resources();
    let long = vec![b'x'; 4 * MAX_LIST_REQUEST];
    let errors: [&[u8]; 9] = [
        b"\n",
        b"{}\n",
        b"\xFF\xFE\0\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"{\"version\":1,\"list\":3,\"more\":1}\n",
        b"{\"version\":2,\"list\":3}\n",
        b"{\"version\":1,\"list\":0}\n",
        b"{\"version\":1,\"li",
        &long,
    ];
    for sent in errors {
        let answer = answers(&daemon, sent);
        let first = answer.lines().next().unwrap_or_default();
        assert!(first.starts_with("{\"error\":"), "{:?}: {answer}", text(sent));
    }
    assert_eq!(answers(&daemon, b""), "");
    let gone = answers(&daemon, b"{\"version\":1,\"list\":4,\"guest\":77}\n");
    assert_eq!(gone, "{\"gone\":\"there is no guest 77\"}\n");
    let version = answers(&daemon, b"{\"version\":2,\"list\":3}\n");
    assert!(version.contains("use the bellhop that came with the daemon"), "{version}");
    work(&adapter);
    daemon.await_resources(before);
}

/// A configuration under which a kernel may spin until the test ends it.
const SPINS: &str =
    "[adapter]\nengine_idle = \"0s\"\ntimeout = \"1m\"\n[debug]\ntest_kernels = true\n";

fn node_busy(snapshot: &Snapshot) -> u64 {
    snapshot.nodes.iter().map(|node| node.busy_time.unwrap()).sum()
}

/// Takes snapshots until this time has passed on the adapter's clock since `begin`. Returns the last one.
fn look_after(daemon: &Daemon, begin: &Snapshot, while_: Duration) -> Snapshot {
    loop {
        let seen = daemon.snapshot();
        if u128::from(seen.adapter.time - begin.adapter.time) >= while_.as_nanos() {
            return seen;
        }
    }
}

/// Waits until no engine is busy any more: a turn ends after the guest sees what it did. Returns a snapshot from then.
fn when_idle(daemon: &Daemon) -> Snapshot {
    let mut seen = daemon.snapshot();
    await_that("engines without work are not busy", || {
        let next = look_after(daemon, &seen, Duration::from_millis(20));
        node_busy(&std::mem::replace(&mut seen, next)) == node_busy(&seen)
    });
    seen
}

#[test]
fn what_executes_all_the_time_is_busy_all_the_time_and_what_waits_is_not() {
    let daemon = Daemon::start_with(1, SPINS);
    let mut client = client(&daemon, 0);
    let at = client.va(0);
    let mut waits = client.context.create_user_mode_queue(4096).unwrap();
    let gate = client.device.create_fence(0).unwrap();
    let mut waiting = client.more_commands(256).unwrap();
    waiting.wait_fence(&gate, 1).unwrap();
    client.commands.dispatch(Kernel::SPIN_UNTIL, at, at + 8, 8, 1).unwrap();
    // Nothing executes yet, and what paging took is counted, so all time that is counted from here on lies between two
    // readings of the clock. Between two readings during execution, more may be counted: an engine that the host
    // suspends at the start of a turn counts from before the suspension.
    let idle = when_idle(&daemon);
    let blocked = waits.submit(&mut waiting).unwrap();
    let value = client.submit().unwrap();
    let busy = |seen: &Snapshot| {
        let queues = &seen.guests[0].processes[0].devices[0].contexts[0].hw_queues;
        [queues[0].busy_time, queues[1].busy_time]
    };
    await_that("the queue is busy", || busy(&daemon.snapshot())[0] > 0);

    // A snapshot takes a while, so each shows an earlier time than the next.
    let (before, begun) = (daemon.snapshot(), daemon.snapshot());
    let after = look_after(&daemon, &begun, Duration::from_millis(200));
    let ended = daemon.snapshot();
    let at_most = ended.adapter.time - idle.adapter.time;
    let at_least = (after.adapter.time - begun.adapter.time) / 2;
    let node = after.nodes[0].busy_time.unwrap() - before.nodes[0].busy_time.unwrap();
    let queue = busy(&after)[0] - busy(&before)[0];
    for time in [node, queue] {
        assert!(time >= at_least, "{time} of at least {at_least} ns");
    }
    let all = |seen: &Snapshot| seen.nodes[0].busy_time.unwrap();
    for time in [all(&after) - all(&idle), busy(&after)[0]] {
        assert!(time <= at_most, "{time} of at most {at_most} ns");
    }
    assert_eq!(busy(&after)[1], busy(&before)[1], "a queue that waits is not busy");
    let listed = after.nodes[0].run_list.iter().map(|queue| queue.busy_time);
    assert_eq!(listed.collect::<Vec<_>>(), busy(&after));
    let engine_time = |seen: &Snapshot| seen.guests[0].statistics.engine_time;
    assert!(engine_time(&after) - engine_time(&before) >= at_least / 2);
    let had = engine_time(&after) - engine_time(&idle);
    assert!(had <= at_most, "{had} of at most {at_most} ns");
    // A guest sees the time of its own queues, but not of the engines, which guests share.
    let own = inspect::snapshot(&mut &client.process).unwrap();
    assert!(own.nodes[0].busy_time.is_none() && busy(&own)[0] > busy(&before)[0]);

    client.write(0, &1u64.to_ne_bytes()).unwrap();
    client.finish(value).unwrap();
    gate.signal(1).unwrap();
    waits.progress_fence().poll(blocked, TIMEOUT).unwrap();
    let idle = when_idle(&daemon);
    // No other guest had engine time. A turn in which the engine had no processor counts less for the guest.
    assert!((1..=node_busy(&idle)).contains(&engine_time(&idle)));
}

#[test]
fn submissions_that_come_one_by_one_keep_an_engine_busy_too() {
    let daemon = Daemon::start(1);
    let shape = Shape { node: 1, ..Shape::default() };
    let mut client = client_of(&guest(&daemon, 0), shape);
    let time = |client: &Client| client.process.statistics().unwrap().engine_time;
    for _ in 0..10 {
        let before = time(&client);
        // The engine times one in sixteen of such short turns, and counts its time for the others.
        for _ in 0..16 {
            submit_once(&mut client);
        }
        // The turn ends after the fence is signaled.
        await_that("submissions take engine time", || time(&client) != before);
    }
}

#[test]
fn only_a_few_clients_are_served_at_once_and_idle_ones_disturb_no_guest() {
    let daemon = Daemon::start(1);
    let adapter = adapter_of(&guest(&daemon, 0));
    let before = daemon.resources();
    let request = ListRequest {
        version: SNAPSHOT_VERSION,
        list: ObjectList::GUESTS.0,
        adapter: 0,
        guest: 0,
        process: 0,
        parent: Name(0),
        after: Name(0),
    };
    let request = serde_json::to_string(&request).unwrap() + "\n";
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut stream = UnixStream::connect(daemon.control_socket()).unwrap();
        // The answer shows that the daemon accepted the connection.
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 1];
        stream.read_exact(&mut answer).unwrap();
        clients.push(stream);
    }
    let refused = answers(&daemon, b"");
    assert!(refused.contains("already serves 8 clients"), "{refused}");
    // The clients send requests and read nothing, until they cannot send either.
    for stream in &mut clients {
        stream.set_nonblocking(true).unwrap();
        while stream.write(request.as_bytes()).is_ok() {}
    }
    work(&adapter);
    drop(clients);
    daemon.await_resources(before);
    let mut client = ControlClient::connect(&daemon.control_socket()).unwrap();
    let listed = client.list::<Guest>(&serde_json::from_str(&request).unwrap()).unwrap().unwrap();
    assert_eq!(listed.1.len(), 1);
    work(&adapter);
}
