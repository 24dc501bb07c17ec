// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs of several users that share a guest's device through its broker.

mod ends;
mod waking;

use crate::support::brokers::{Brokered, USERS};
use crate::support::{self, Daemon, await_that, refusal, run, submit_once, text};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::control::adapter::{DonateArea, OpenAdapter};
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation, Extent};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::power::{DevicePowerState, SetDevicePower};
use bellhop_protocol::control::process::{CreateProcess, CreateProcessWithBar, DestroyProcess};
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, Request, RequestHeader};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::snapshot::{Process, Program};
use bellhop_protocol::status::Status;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Sends a request as it is, with a list; returns the reply's status and its body.
fn ask_with_list<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
    list: &[u8],
) -> (Status, Option<T::Reply>) {
    let length = (size_of::<RequestHeader>() + size_of::<T>() + list.len()) as u32;
    let header = RequestHeader { code: T::CODE, length, process, reserved: 0 };
    let bytes = [header.as_bytes(), request.as_bytes(), list].concat();
    let mut reply = [0; MAX_REPLY_SIZE];
    let length = transport.request(&bytes, &mut reply).unwrap();
    let (header, body) = ReplyHeader::read_from_prefix(&reply[..length]).unwrap();
    (header.status, T::Reply::read_from_prefix(body).ok().map(|(body, _)| body))
}

fn ask<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
) -> (Status, Option<T::Reply>) {
    ask_with_list(transport, process, request, &[])
}

/// An open connection with a process.
fn opened(brokered: &Brokered) -> (Arc<dyn Transport>, u32) {
    let transport = brokered.connect();
    let features = transport.features().bits();
    let open = OpenAdapter { version: Version::CURRENT, reserved: 0, features };
    assert_eq!(ask(&*transport, 0, &open).0, Status::SUCCESS);
    let (status, reply) = ask(&*transport, 0, &CreateProcess { reserved: 0 });
    assert_eq!(status, Status::SUCCESS);
    (transport, reply.unwrap().process)
}

fn client(brokered: &Brokered) -> Client {
    Client::new(brokered.adapter(), Shape::default()).unwrap()
}

/// Processes that the daemon's guests have.
fn processes(daemon: &Daemon) -> usize {
    daemon.snapshot().guests.iter().map(|guest| guest.processes.len()).sum()
}

#[test]
fn programs_of_three_users_submit_through_doorbells_without_privileges() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let programs = USERS.map(|user| {
        brokered
            .program("copy", user)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    for program in programs {
        assert_eq!(
            support::succeed(program.wait_with_output().unwrap()),
            "the GPU copied: hello\n"
        );
    }
    await_that("their processes have ended", || processes(&daemon) == 0);
}

/// A program of this user and this process's that the host's tools know.
fn is_told(process: &Process, user: u32) -> bool {
    let program = process.program.as_ref();
    program.is_some_and(|Program { user: of, pid, command }| {
        *of == user && *pid == std::process::id() && "guests".starts_with(&command[..6])
    })
}

#[test]
fn the_host_is_told_whose_each_process_is() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let program = client(&brokered);
    let guests = daemon.snapshot().guests;
    let [process] = &guests[0].processes[..] else { panic!("{:?}", guests[0].processes) };
    assert!(is_told(process, 0), "{process:?}");
    let shown = run(&mut daemon.tool(&["inspect"]));
    assert!(shown.contains(&format!("(process {} of user 0)", std::process::id())), "{shown}");
    drop(program);
}

/// Behaviours that want what a program behind a broker does not have, by the beginning of their names, and how many they are
/// (docs/programs.md): lists, local memory for CPUs, the whole guest's memory and virtqueues, older models of submission.
const OF_WHOLE_GUESTS: [(&str, usize); 29] = [
    ("adapter.escape.", 3),
    ("doorbell.destroy", 1),
    ("doorbell.model.words", 1),
    ("doorbell.private-data.not-valid", 1),
    ("doorbell.ring.", 4),
    ("fault.address.not-mapped", 1),
    ("fault.address.read-only", 1),
    ("fence.monitored.models", 1),
    ("fence.storage.packed", 1),
    ("km.basic-plus-plus.", 3),
    ("km.basic.", 9),
    ("km.fence-ids", 1),
    ("km.models.", 2),
    ("km.suspended", 1),
    ("km.virtual.", 3),
    ("memory.accessed-physically", 1),
    ("memory.free.takes-effect", 1),
    ("memory.local.", 2),
    ("memory.map.conflict", 1),
    ("memory.process.own-addresses", 1),
    ("memory.sharing.", 4),
    ("memory.system.", 2),
    ("name.gone", 1),
    ("name.seen", 1),
    ("name.shared", 1),
    ("paging.notify.iommu-unmap", 1),
    ("power.device.d3-contents", 1),
    ("um.queue.one-doorbell", 1),
    ("virtqueue.", 7),
];
/// A program without privileges sees none of these, and an administrator's all but this one: the broker refuses codes that
/// nobody knows, so the device does not count them.
const OF_ADMINISTRATORS: (&str, usize) = ("agent.", 13);
const UNCOUNTED: &str = "agent.unknown";

/// Asserts that no behaviour fails for a program of this user, and that for want of a whole guest or of privileges exactly these
/// are not offered.
fn assert_seen(brokered: &Brokered, user: u32, filter: &str, not_here: &[(&str, usize)]) {
    let output = brokered.work_of(user, &["selftest", "--json", filter]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let of = |outcome| checks.iter().filter(move |check| check["outcome"] == outcome);
    let failed: Vec<_> = of("failed").collect();
    assert!(failed.is_empty() && output.status.success(), "{failed:#?}");
    let detail = |check: &serde_json::Value| check["detail"].as_str().unwrap().to_owned();
    let mut missing: Vec<_> = of("not-offered")
        .filter(|check| {
            ["behind a broker", "NOT_SUPPORTED"].iter().any(|why| detail(check).contains(why))
        })
        .map(|check| check["id"].as_str().unwrap())
        .collect();
    for (beginning, count) in not_here {
        let before = missing.len();
        missing.retain(|id| !id.starts_with(beginning));
        assert_eq!(before - missing.len(), *count, "{beginning} of user {user}");
    }
    assert!(missing.is_empty(), "not offered to user {user}: {missing:?}");
    assert!(of("passed").count() > 0);
}

#[test]
fn the_suite_is_seen_through_a_broker_with_and_without_privileges() {
    let daemon = Daemon::start(1);
    let room = ["--doorbells", "256", "--fences", "4096", "--memory", "256"];
    let brokered = Brokered::start(&daemon, 0, &room);
    let of_users = [&OF_WHOLE_GUESTS[..], &[OF_ADMINISTRATORS]].concat();
    assert_seen(&brokered, USERS[0], "", &of_users);
    assert_seen(&brokered, 0, OF_ADMINISTRATORS.0, &[(UNCOUNTED, 1)]);
}

#[test]
fn two_programs_hand_a_fence_to_each_other() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let printed = run(&mut brokered.program("fence", USERS[0]));
    let mut lines: Vec<_> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["the first program has signaled it", "the second program has signaled it"]);
}

#[test]
fn the_fence_of_each_program_counts_its_own_submissions_alone() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let [mut one, mut two] = [client(&brokered), client(&brokered)];
    for _ in 0..100 {
        submit_once(&mut one);
        submit_once(&mut two);
    }
    let counters = |client: &Client| client.queue.progress_fence().current_value().unwrap();
    assert_eq!((counters(&one), counters(&two)), (100, 100));
}

#[test]
fn a_program_that_is_killed_leaves_nothing_and_its_neighbour_goes_on() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &["--programs", "2"]);
    let mut neighbour = client(&brokered);
    submit_once(&mut neighbour);
    let alone = processes(&daemon);
    for _ in 0..3 {
        let mut program = brokered.work(&["run", "--samples", "10000000"]);
        let mut program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        await_that("it has a process", || processes(&daemon) > alone);
        program.kill().unwrap();
        program.wait().unwrap();
        await_that("nothing is left of it", || processes(&daemon) == alone);
        submit_once(&mut neighbour);
    }
}

#[test]
fn the_main_job_is_done_through_a_broker() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let report = support::report(&mut brokered.work(&["run", "--samples", "2000", "--json"]));
    assert_eq!(report["verified"], true, "{report:#}");
}

#[test]
fn a_program_that_is_stopped_in_the_middle_delays_nobody() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let mut neighbour = client(&brokered);
    let alone = processes(&daemon);
    let mut program = brokered.work(&["run", "--samples", "10000000"]);
    let mut program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    await_that("it has a process", || processes(&daemon) > alone);
    let process = Pid::from_child(&program);
    kill_process(process, Signal::STOP).unwrap();
    for _ in 0..20 {
        submit_once(&mut neighbour);
        drop(brokered.adapter());
    }
    kill_process(process, Signal::KILL).unwrap();
    program.wait().unwrap();
}

#[test]
fn other_programs_processes_and_memory_are_as_unknown_as_none() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let (victim, process) = opened(&brokered);
    let (attacker, own) = opened(&brokered);
    let request = CreateDevice { reserved: 0 };
    for forged in [process, 0, u32::MAX] {
        assert_eq!(ask(&*attacker, forged, &request).0, Status::INVALID_HANDLE, "{forged}");
    }
    assert_eq!(ask(&*attacker, process, &DestroyProcess { flags: 1 }).0, Status::INVALID_HANDLE);
    let (status, device) = ask(&*attacker, own, &request);
    assert_eq!(status, Status::SUCCESS);

    let theirs = victim.allocate(4096).unwrap();
    let mine = attacker.allocate(8192).unwrap();
    let [page] = mine.extents() else { panic!("one piece") };
    let beyond = Extent { address: page.address, length: 1 << 40 };
    let guests = Extent { address: 1 << 20, length: 4096 };
    let around = Extent { address: !4095, length: 8192 };
    for extent in [theirs.extents()[0], beyond, guests, around] {
        let create =
            CreateAllocation::fixed(device.unwrap(), AllocationKind::SYSTEM, extent.length, 1);
        let refused = ask_with_list(&*attacker, own, &create, extent.as_bytes()).0;
        assert_eq!(refused, Status::INVALID_PARAMETER, "{extent:?}");
    }
    let create = CreateAllocation::fixed(device.unwrap(), AllocationKind::SYSTEM, 8192, 1);
    assert_eq!(ask_with_list(&*attacker, own, &create, page.as_bytes()).0, Status::SUCCESS);
    // The victim has everything that it had.
    assert_eq!(ask(&*victim, process, &request).0, Status::SUCCESS);
}

#[test]
fn what_concerns_the_whole_guest_is_refused_to_programs() {
    let daemon = Daemon::start_with(1, "[debug]\npower_control = true\n");
    let brokered = Brokered::start(&daemon, 0, &[]);
    let (transport, process) = opened(&brokered);
    let (d3, own) = (DevicePowerState::D3, transport.allocate(4096).unwrap());
    let mut donate = DonateArea::new_zeroed();
    donate.extent_count = 1;
    let bar = CreateProcessWithBar {
        beside: process,
        extent_count: 0,
        doorbell_count: 0,
        fence_count: 0,
    };
    for status in [
        ask(&*transport, 0, &SetDevicePower { state: d3, reserved: 0 }).0,
        ask_with_list(&*transport, 0, &donate, own.extents()[0].as_bytes()).0,
        ask(&*transport, 0, &bar).0,
    ] {
        assert_eq!(status, Status::NOT_SUPPORTED);
    }
    let of_all = Features::POWER_CONTROL | Features::DONATED_AREAS;
    assert!(!transport.features().intersects(of_all));
    let features = (transport.features() | Features::POWER_CONTROL).bits();
    let open = OpenAdapter { version: Version::CURRENT, reserved: 0, features };
    assert_eq!(ask(&*transport, 0, &open).0, Status::REVISION_MISMATCH);
}

#[test]
fn places_are_limited_and_come_back() {
    let daemon = Daemon::start(1);
    let options = ["--programs", "3", "--programs-of-user", "2", "--processes", "2"];
    let brokered = Brokered::start(&daemon, 0, &options);
    let one = brokered.adapter();
    let two = brokered.adapter();
    let third = bellhop_guest_umd::transport::broker::Broker::connect(&brokered.socket());
    assert!(third.is_err(), "a user has two places");
    // Another user has its own.
    assert_eq!(run(&mut brokered.program("copy", USERS[0])), "the GPU copied: hello\n");
    let companion = one.open_process().unwrap();
    assert_eq!(refusal(one.open_process()), Status::QUOTA_EXCEEDED);
    drop((one, companion));
    await_that("the place is free", || {
        bellhop_guest_umd::transport::broker::Broker::connect(&brokered.socket()).is_ok()
    });
    drop(two);
}

/// Messages that no library sends end the connection of their sender, and no other.
#[test]
fn odd_messages_end_their_senders_connection_alone() {
    use rustix::net::*;
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let mut neighbour = client(&brokered);
    let address = SocketAddrUnix::new(brokered.socket()).unwrap();
    for message in [&[][..], &[1], &[9, 0, 0, 0, 0, 0, 0, 0], &[0xff; 64], &[0; 200_000]] {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let socket = socket.unwrap();
        connect(&socket, &address).unwrap();
        // The longest does not fit a socket.
        let _ = send(&socket, message, SendFlags::NOSIGNAL);
        if message.len() > 1000 {
            continue;
        }
        // What it hears first, then the end.
        let mut heard = vec![0; 1 << 20];
        while recv(&socket, &mut heard[..], RecvFlags::empty()).is_ok_and(|(length, _)| length > 0)
        {
        }
        submit_once(&mut neighbour);
    }
    // A request that is no request is answered as the device does.
    let transport = brokered.connect();
    let mut reply = [0; MAX_REPLY_SIZE];
    for bytes in [&[][..], &[0; 8], &[0xff; 16], &[0; 64]] {
        let length = transport.request(bytes, &mut reply).unwrap();
        let (header, _) = ReplyHeader::read_from_prefix(&reply[..length]).unwrap();
        assert_eq!(header.status, Status::INVALID_BUFFER_SIZE, "{bytes:?}");
    }
    // A stream socket is no way in.
    assert!(UnixStream::connect(brokered.socket()).is_err());
    submit_once(&mut neighbour);
}

#[test]
fn a_program_that_scribbles_over_all_it_has_harms_itself_alone() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let mut neighbour = client(&brokered);
    let transport = brokered.connect();
    let mut scribbler =
        Client::new(Adapter::open(Arc::clone(&transport)).unwrap(), Shape::default()).unwrap();
    submit_once(&mut scribbler);
    let region = transport.bar().unwrap().region;
    for round in 0..20u64 {
        for word in (0..region.size()).step_by(8) {
            let value = (word as u64 + 1).wrapping_mul(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            vm_memory::Bytes::write_obj(
                &vm_memory::VolatileMemory::as_volatile_slice(&*region),
                value,
                word,
            )
            .unwrap();
        }
        submit_once(&mut neighbour);
    }
    drop(scribbler);
    submit_once(&mut neighbour);
}

#[test]
fn a_device_with_a_global_doorbell_has_no_broker() {
    let daemon = Daemon::start_with(1, "[adapter]\ndoorbell_model = \"global\"\n");
    let mut broker = support::bellhop();
    broker.args(["guest", "--socket-path"]).arg(daemon.socket(0)).args([
        "broker",
        "--listen",
        "/nowhere/b",
    ]);
    let output = broker.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("PROCESS_BARS"), "{}", text(&output.stderr));
}

/// A value of the broker's status, as Linux shows it.
fn status(brokered: &Brokered, key: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", brokered.process())).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.unwrap().trim().to_owned()
}

/// Descriptors that the broker may have.
fn most_files(brokered: &Brokered) -> u64 {
    let limits = format!("/proc/{}/limits", brokered.process());
    let limits = std::fs::read_to_string(limits).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    files.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_broker_that_serves_has_given_up_what_it_does_not_need() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &["--programs", "4"]);
    assert_eq!(status(&brokered, "NoNewPrivs"), "1");
    // A filter of system calls.
    assert_eq!(status(&brokered, "Seccomp"), "2");
    let pin_memory = 1 << 14;
    for set in ["CapEff", "CapPrm", "CapInh"] {
        let left = u64::from_str_radix(&status(&brokered, set), 16).unwrap();
        assert_eq!(left & !pin_memory, 0, "{set}");
    }
    assert_eq!(most_files(&brokered), 256 + 4 * (8 + 2 * 8));
    // And yet it serves.
    submit_once(&mut client(&brokered));
}

#[test]
fn a_broker_without_descriptors_serves_again_when_a_program_has_gone() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let mut neighbour = client(&brokered);
    let second = client(&brokered);
    let broker = Pid::from_raw(brokered.process().try_into().unwrap());
    let open = std::fs::read_dir(format!("/proc/{}/fd", brokered.process())).unwrap().count();
    let most = Rlimit { current: Some(open as u64), maximum: Some(most_files(&brokered)) };
    let before = prlimit(broker, Resource::Nofile, most).unwrap();
    let address = SocketAddrUnix::new(brokered.socket()).unwrap();
    let waiting =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let waiting = waiting.unwrap();
    connect(&waiting, &address).unwrap();
    submit_once(&mut neighbour);
    drop(second);
    // What it hears first, or that it could not be served.
    let mut heard = vec![0; 1 << 20];
    recv(&waiting, &mut heard[..], RecvFlags::empty()).unwrap();
    drop(waiting);
    prlimit(broker, Resource::Nofile, before).unwrap();
    submit_once(&mut client(&brokered));
    submit_once(&mut neighbour);
}
