// SPDX-License-Identifier: MIT OR Apache-2.0

//! VMMs that send wrong messages and wrong descriptors. That costs only their own connection.

use crate::neighbour::Neighbour;
use crate::support::{self, Daemon, TIMEOUT, guest_with};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest::hostile::{FEATURES, HostileVmm, QUEUES, Region, event, memory, message};
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::fence::{FenceValue, WaitForFences};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::{ReplyHeader, RequestCode, RequestHeader};
use bellhop_protocol::status::Status;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use zerocopy::{FromZeros, IntoBytes};

const MIB: u64 = 1 << 20;

/// Asserts that the device ends this connection, and serves the next one.
#[track_caller]
fn assert_refused(daemon: &Daemon, vmm: HostileVmm, what: &str) {
    assert!(vmm.is_hung_up_within(TIMEOUT), "{what} was not refused");
    drop(vmm);
    serves(daemon, 0);
}

/// Asserts that a socket serves its next guest.
#[track_caller]
fn serves(daemon: &Daemon, socket: usize) {
    let next = HostileVmm::connect(&daemon.socket(socket)).unwrap();
    next.say(message::GET_FEATURES, &[], &[]).unwrap();
    next.features_within(TIMEOUT).expect("the next front end is served");
}

/// A front end of the first socket that has negotiated its features.
pub fn connect(daemon: &Daemon) -> HostileVmm {
    let vmm = HostileVmm::connect(&daemon.socket(0)).unwrap();
    vmm.negotiate(FEATURES).unwrap();
    vmm
}

/// Has a front end announce memory, start the queues in it, and send one request. Returns the memory too.
pub fn asks_once(vmm: HostileVmm) -> (HostileVmm, File) {
    let (file, region, call) = (memory(QUEUES).unwrap(), Region::of(QUEUES), event().unwrap());
    vmm.announce(&[(region, file.as_fd())]).unwrap();
    vmm.start(region.user, call.as_fd()).unwrap();
    vmm.request(&file, region.physical, &mut 0, 1).unwrap();
    (vmm, file)
}

/// Puts the queues into the last bytes of a region and starts them, as far as the device accepts that.
fn use_end_of(vmm: &HostileVmm, region: Region) {
    let call = event().unwrap();
    let _ = vmm.start(region.user + region.size - QUEUES, call.as_fd()).and_then(|()| vmm.kick());
}

#[test]
fn memory_that_is_not_all_there_is_refused_and_no_neighbour_notices() {
    let mut daemon = Daemon::start(2);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    let (small, empty) = (memory(16 * MIB).unwrap(), memory(0).unwrap());
    let all = Region::of(16 * MIB);
    let cases = [
        ("a region larger than its file", &small, Region::of(64 * MIB)),
        ("a region of an empty file", &empty, Region::of(MIB)),
        ("a region that begins behind its file", &small, Region { offset: 16 * MIB, ..all }),
        (
            "a region whose end is beyond all files",
            &small,
            Region { offset: u64::MAX << 12, ..all },
        ),
        ("a region whose end is no address", &small, Region { physical: u64::MAX << 12, ..all }),
        ("a region whose end is no address here", &small, Region { user: u64::MAX << 12, ..all }),
        ("a region of no bytes", &small, Region::of(0)),
    ];
    for (what, file, region) in cases {
        let vmm = connect(&daemon);
        let _ = vmm.announce(&[(region, file.as_fd())]);
        if region.size >= QUEUES && region.user < 1 << 47 {
            use_end_of(&vmm, region);
        }
        assert_refused(&daemon, vmm, what);
        neighbour.work();
    }
    assert!(daemon.is_running());
}

#[test]
fn a_refusal_names_the_message_and_what_is_wrong_with_it() {
    let daemon = Daemon::start(1);
    let file = memory(16 * MIB).unwrap();
    let vmm = connect(&daemon);
    vmm.announce(&[(Region::of(64 * MIB), file.as_fd())]).unwrap();
    let line = daemon.await_log("connection ended");
    for word in ["gpu0.sock", "SET_MEM_TABLE", "0x4000000", "0x1000000"] {
        assert!(line.contains(word), "{line:?} lacks {word}");
    }
    drop(vmm);
    for (words, wrong) in [(&[63 << 32][..], "63"), (&[], "")] {
        let vmm = connect(&daemon);
        vmm.say(message::SET_VRING_NUM, words, &[]).unwrap();
        let line = daemon.await_log("connection ended");
        assert!(line.contains("SET_VRING_NUM") && line.contains(wrong), "{line}");
    }
}

#[test]
fn files_that_are_not_memory_are_refused() {
    let mut daemon = Daemon::start(2);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    let region = Region::of(QUEUES);
    let zero = File::options().read(true).write(true).open("/dev/zero").unwrap();
    // The file system may delay a page of such a file for any time.
    let on_disk = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    on_disk.set_len(QUEUES).unwrap();
    let (socket, _other) = UnixStream::pair().unwrap();
    let cases: [(&str, BorrowedFd<'_>); 3] = [
        ("a device", zero.as_fd()),
        ("a file of a file system that waits", on_disk.as_fd()),
        ("a socket", socket.as_fd()),
    ];
    for (what, file) in cases {
        let vmm = connect(&daemon);
        vmm.announce(&[(region, file)]).unwrap();
        assert_refused(&daemon, vmm, what);
        neighbour.work();
    }
    assert!(daemon.is_running());
}

#[test]
fn only_the_guest_that_shrinks_its_memory_under_load_ends() {
    const SIZE: u64 = 16 * MIB;
    let mut daemon = Daemon::start(2);
    let rounds = {
        let options = GuestOptions { is_sealed: false, ..GuestOptions::default() };
        let shrinking = guest_with(&daemon, 0, options);
        let process = support::adapter_of(&shrinking);
        let device = process.create_device().unwrap();
        // The first allocation is at the end of the memory.
        let target = device.create_allocation(AllocationKind::SYSTEM, SIZE).unwrap();
        let mapping = target.map(Protection::WRITE).unwrap();
        let client = Client::on(process, device, Shape::default()).unwrap();
        let mut queues: Vec<_> = (0..3)
            .map(|node| {
                let mut commands = client.more_commands(4096).unwrap();
                for _ in 0..32 {
                    commands.fill(mapping.gpu_va(), SIZE, node).unwrap();
                }
                (client.queue_on(node).unwrap(), commands)
            })
            .collect();
        let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
        neighbour.work();
        for (queue, commands) in &mut queues {
            queue.submit(commands).unwrap();
        }
        shrinking.shrink_memory(SIZE).unwrap();
        let mut rounds = 0;
        let start = Instant::now();
        while shrinking.check().is_ok() {
            assert!(start.elapsed() < TIMEOUT, "the guest lives on without its memory");
            // The engines reach the memory that went.
            for (queue, commands) in &mut queues {
                let _ = queue.submit(commands);
            }
            neighbour.work();
            rounds += 1;
        }
        for _ in 0..10 {
            neighbour.work();
        }
        rounds
    };
    println!("the neighbour did {rounds} rounds until the guest had ended");
    assert!(daemon.is_running());
    daemon.await_log("memory");
    serves(&daemon, 0);
}

#[test]
fn a_guest_whose_queues_are_taken_away_ends_alone() {
    let mut daemon = Daemon::start(2);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    let (vmm, file) = asks_once(connect(&daemon));
    support::await_that("it is answered", || HostileVmm::answered(&file).unwrap() >= 1);
    file.set_len(0).unwrap();
    vmm.kick().unwrap();
    assert_refused(&daemon, vmm, "memory that went");
    neighbour.work();
    assert!(daemon.is_running());
}

/// A file of `size` bytes without any pages yet, in a full tmpfs. `None` if this user may not mount one.
fn file_of_a_full_file_system(size: u64) -> Option<File> {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=4k none \"$0\" && echo mounted && read -r _";
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "sh", "-c", script]).arg(folder.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // The mount is in the namespace of this process, and stays while a file of it is open.
    let mut process = command.spawn().ok()?;
    let mut said = String::new();
    BufReader::new(process.stdout.take()?).read_line(&mut said).unwrap();
    let open = |name: &str| {
        let root = format!("/proc/{}/root", process.id());
        let path = folder.path().strip_prefix("/").unwrap();
        let path = Path::new(&root).join(path).join(name);
        File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap()
    };
    let files = (said == "mounted\n").then(|| (open("memory"), open("filler")));
    drop(process.stdin.take());
    process.wait().unwrap();
    let (memory, filler) = files?;
    memory.set_len(size).unwrap();
    rustix::io::write(&filler, &[1; 4096]).unwrap();
    assert_eq!(rustix::io::write(&memory, &[1]), Err(rustix::io::Errno::NOSPC));
    Some(memory)
}

#[test]
fn a_guest_whose_memory_the_host_has_no_room_for_ends_alone() {
    let Some(file) = file_of_a_full_file_system(QUEUES) else {
        return support::skip(
            "no tmpfs can be mounted",
            "a guest's memory is not in a full one",
            "be root",
        );
    };
    let mut daemon = Daemon::start(2);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    let region = Region::of(QUEUES);
    let vmm = connect(&daemon);
    vmm.announce(&[(region, file.as_fd())]).unwrap();
    use_end_of(&vmm, region);
    assert_refused(&daemon, vmm, "memory that the host has no room for");
    neighbour.work();
    assert!(daemon.is_running());
}

/// Every kind of descriptor that can be full, each with the other end that keeps it open.
fn full() -> [(&'static str, OwnedFd, OwnedFd); 3] {
    let (reader, pipe) = std::io::pipe().unwrap();
    let (other, socket) = UnixStream::pair().unwrap();
    let (pipe, socket): (OwnedFd, OwnedFd) = (pipe.into(), socket.into());
    for descriptor in [&pipe, &socket] {
        let flags = fcntl_getfl(descriptor).unwrap();
        fcntl_setfl(descriptor, flags | OFlags::NONBLOCK).unwrap();
        while rustix::io::write(descriptor, &[0; 4096]).is_ok() {}
        while rustix::io::write(descriptor, &[0]).is_ok() {}
        fcntl_setfl(descriptor, flags).unwrap();
    }
    let counter = event().unwrap();
    rustix::io::write(&counter, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let same = counter.try_clone().unwrap();
    [
        ("a pipe", pipe, reader.into()),
        ("a socket", socket, other.into()),
        ("an eventfd", counter, same),
    ]
}

#[test]
fn a_full_call_counter_neither_blocks_a_guest_nor_keeps_the_daemon_from_ending() {
    for (what, call, _other_end) in full() {
        let mut daemon = Daemon::start(2);
        let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
        let (file, region) = (memory(QUEUES).unwrap(), Region::of(QUEUES));
        let vmm = connect(&daemon);
        vmm.announce(&[(region, file.as_fd())]).unwrap();
        // The device refuses a descriptor that it cannot signal without waiting.
        let mut offered = 0;
        let _ = vmm
            .start(region.user, call.as_fd())
            .and_then(|()| vmm.request(&file, region.physical, &mut offered, 32));
        support::await_that("requests are answered", || {
            HostileVmm::answered(&file).unwrap() >= 32 || vmm.is_hung_up_within(Duration::ZERO)
        });
        neighbour.work();
        daemon.snapshot();
        println!("{what}");
        daemon.end();
    }
}

/// Registers a CPU wait for a fence, without a thread that waits for the event.
fn wait_for(guest: &FakeGuest, process: u32, fence: FenceValue) {
    let request = WaitForFences { cookie: fence.value, flags: 0, count: 1 };
    let length = size_of::<RequestHeader>() + size_of_val(&request) + size_of_val(&fence);
    let code = RequestCode::WAIT_FOR_FENCES;
    let header = RequestHeader { code, length: length as u32, process, reserved: 0 };
    let request = [header.as_bytes(), request.as_bytes(), fence.as_bytes()].concat();
    let mut reply = ReplyHeader::new_zeroed();
    guest.request(&request, reply.as_mut_bytes()).unwrap();
    assert_eq!(reply.status, Status::PENDING);
}

#[test]
fn an_engine_that_tells_a_guest_of_a_fence_whose_call_counter_is_full_goes_on_with_the_others() {
    let mut daemon = Daemon::start(2);
    let (guest, neighbour) = (support::guest(&daemon, 0), support::guest(&daemon, 1));
    let mut client = support::client_of(&guest, Shape::default());
    let mut neighbour = Neighbour::new(neighbour);
    let fence = client.device.create_fence(0).unwrap();
    guest.fill_event_call().unwrap();
    for value in 1..=64 {
        wait_for(&guest, client.process.process(), FenceValue { fence: fence.handle(), value });
        client.commands.signal_fence(&fence, value).unwrap();
        client.run().unwrap();
        neighbour.work();
    }
    daemon.snapshot();
    daemon.end();
}

#[test]
fn who_gives_its_own_connection_away_leaves_a_free_socket_when_it_goes() {
    let daemon = Daemon::start(1);
    let messages = [
        ("kick", message::SET_VRING_KICK),
        ("call", message::SET_VRING_CALL),
        ("error", message::SET_VRING_ERR),
        ("request channel", message::SET_BACKEND_REQ_FD),
    ];
    for (what, message) in messages {
        let vmm = connect(&daemon);
        let words: &[u64] = if message == message::SET_BACKEND_REQ_FD { &[] } else { &[0] };
        vmm.say(message, words, &[vmm.socket().as_fd()]).unwrap();
        drop(vmm);
        println!("its own connection as {what}");
        serves(&daemon, 0);
    }
    // Half of a message, without the other half.
    for half in [&[5, 0, 0, 0][..], &[5, 0, 0, 0, 1, 0, 0, 0, 40, 0, 0, 0]] {
        let vmm = connect(&daemon);
        vmm.say_bytes(half, &[vmm.socket().as_fd()]).unwrap();
        drop(vmm);
        println!("its own connection with {} bytes", half.len());
        serves(&daemon, 0);
    }
    // A whole request channel, with its other end in its own queue.
    let vmm = connect(&daemon);
    let (device, ours) = UnixStream::pair().unwrap();
    vmm.say(message::SET_BACKEND_REQ_FD, &[], &[device.as_fd()]).unwrap();
    let own = [vmm.socket().as_fd(), ours.as_fd()];
    let channel = HostileVmm::over(ours.try_clone().unwrap()).unwrap();
    channel.say_bytes(&[0; 12], &own).unwrap();
    drop((vmm, channel, device, ours));
    println!("its own connection in its request channel");
    serves(&daemon, 0);
}

#[test]
fn a_queue_of_an_invalid_size_is_refused() {
    let daemon = Daemon::start(1);
    for size in [0, 3, 63, 65, 512, u32::MAX] {
        let vmm = connect(&daemon);
        vmm.say(message::SET_VRING_NUM, &[u64::from(size) << 32], &[]).unwrap();
        assert_refused(&daemon, vmm, &format!("a queue of {size} entries"));
    }
}

#[test]
fn a_driver_without_version_1_gets_no_service() {
    let daemon = Daemon::start(1);
    let vmm = HostileVmm::connect(&daemon.socket(0)).unwrap();
    vmm.negotiate(1 << 30).unwrap();
    let (vmm, _memory) = asks_once(vmm);
    let line = daemon.await_log("connection ended");
    assert!(line.contains("VIRTIO_F_VERSION_1"), "{line}");
    assert_refused(&daemon, vmm, "a driver from before version 1");
}

#[test]
fn a_front_end_that_waits_for_a_busy_socket_is_logged() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    let waiting = HostileVmm::connect(&daemon.socket(0)).unwrap();
    let line = daemon.await_log("waits");
    assert!(line.contains("gpu0.sock"), "{line}");
    drop(guest);
    waiting.say(message::GET_FEATURES, &[], &[]).unwrap();
    waiting.features_within(TIMEOUT).unwrap();
}

#[test]
fn everything_that_is_wrong_with_descriptors_leaves_the_daemon_as_it_was() {
    let daemon = Daemon::start(2);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    let wrong = || {
        let file = memory(16 * MIB).unwrap();
        let vmm = connect(&daemon);
        vmm.announce(&[(Region::of(64 * MIB), file.as_fd())]).unwrap();
        assert_refused(&daemon, vmm, "a region larger than its file");
        let vmm = connect(&daemon);
        let _ = vmm.say(message::SET_VRING_CALL, &[0], &[vmm.socket().as_fd()]);
        assert_refused(&daemon, vmm, "a call that is no event");
    };
    wrong();
    neighbour.work();
    let before = daemon.resources();
    for _ in 0..20 {
        wrong();
        neighbour.work();
    }
    daemon.await_resources(before);
}
