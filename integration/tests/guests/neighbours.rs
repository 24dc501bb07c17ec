// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several guests on one daemon: beside each other, one after another, and dying.

use crate::support::{self, Daemon, TIMEOUT};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::GpuMapping;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;

/// The address at which every guest maps its memory.
const ADDRESS: u64 = 1 << 33;
const SIZE: u64 = 64 << 10;

/// A guest that fills, copies and checks a piece of memory, over and over.
struct Worker {
    client: Client,
    mapping: GpuMapping,
    pattern: u32,
}

impl Worker {
    fn new(guest: Arc<FakeGuest>, pattern: u32) -> Self {
        let shape = Shape { kind: AllocationKind::LOCAL, memory: SIZE, ..Shape::default() };
        let client = support::client_of(&guest, shape);
        let memory = client.memory.allocation();
        let mapping = memory.map_at(ADDRESS, 0, SIZE, Protection::WRITE).unwrap();
        Self { client, mapping, pattern }
    }

    /// One round: the memory must have only this guest's results.
    fn work(&mut self) {
        self.client
            .commands
            .fill(ADDRESS, SIZE / 2, self.pattern)
            .unwrap()
            .copy(ADDRESS, ADDRESS + SIZE / 2, SIZE / 2)
            .unwrap();
        self.client.run().unwrap();
        let mut bytes = vec![0; SIZE as usize];
        self.mapping.allocation().read(0, &mut bytes).unwrap();
        let pattern = self.pattern.to_le_bytes();
        assert!(bytes.chunks(4).all(|word| word == pattern), "somebody else's bytes");
    }
}

#[test]
fn two_guests_at_once_see_their_own_memory_at_the_same_address() {
    let daemon = Daemon::start(2);
    let mut workers =
        [0, 1].map(|number| Worker::new(support::guest(&daemon, number), 0x1111_1111 << number));
    thread::scope(|threads| {
        for worker in &mut workers {
            threads.spawn(|| (0..200).for_each(|_| worker.work()));
        }
    });
    for worker in &workers {
        let statistics = worker.client.process.statistics().unwrap();
        // 200 command buffers, each with one packet in the ring and three in the buffer.
        assert_eq!(statistics.packets, 200 * 4);
    }
}

/// A guest process that streams without end; it has begun when this returns.
fn endless_guest(daemon: &Daemon) -> Child {
    let mut child = daemon
        .work(&["guest"])
        .args(["run", "--input", "/dev/zero"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stderr.as_mut().unwrap().read_exact(&mut [0; 1]).unwrap();
    child
}

#[test]
fn a_guest_killed_in_mid_submission_leaves_nothing_and_harms_no_other() {
    let daemon = Daemon::start(2);
    let mut neighbour = Worker::new(support::guest(&daemon, 1), 0xAAAA_5555);
    neighbour.work();
    let before = daemon.resources();
    for round in 0..8 {
        let mut guest = endless_guest(&daemon);
        daemon.await_log("guest attached");
        // Kills the guest at another moment of its work each time.
        (0..round * 10).for_each(|_| neighbour.work());
        kill_process(Pid::from_child(&guest), Signal::KILL).unwrap();
        guest.wait().unwrap();
        neighbour.work();
        daemon.await_log("front end disconnected");
        daemon.await_resources(before);
        let mut next = Worker::new(support::guest(&daemon, 0), 7);
        next.work();
        drop(next);
        daemon.await_log("front end disconnected");
    }
    neighbour.work();
}

#[test]
fn a_peer_that_speaks_no_vhost_user_is_shown_out() {
    let daemon = Daemon::start(1);
    let noise: Vec<u8> = (0..4096u32).map(|place| (place * 37 % 251) as u8).collect();
    for length in [0, 1, 11, 12, 13, 300, 4096] {
        let mut peer = UnixStream::connect(daemon.socket(0)).unwrap();
        // The daemon may hang up before it has read everything.
        let _ = peer.write_all(&noise[..length]);
        drop(peer);
    }
    Worker::new(support::guest(&daemon, 0), 9).work();
}

#[test]
fn a_guest_that_reboots_with_everything_in_use_starts_again() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    for round in 0..10 {
        let mut worker = Worker::new(Arc::clone(&guest), round);
        worker.work();
        // Resets like a reboot, which destroys no object first.
        std::mem::forget(worker);
        guest.reset().unwrap();
    }
    Worker::new(Arc::clone(&guest), 99).work();
    assert_eq!(guest.violations(), [], "QEMU would not have survived that");
}

#[test]
fn a_guest_learns_that_its_daemon_died_and_does_not_hang() {
    let mut daemon = Daemon::start(1);
    let mut worker = Worker::new(support::guest(&daemon, 0), 1);
    worker.work();
    let gate = worker.client.device.create_fence(0).unwrap();
    let ended = thread::scope(|threads| {
        let waiter = threads.spawn(|| gate.wait(1, TIMEOUT));
        daemon.kill();
        waiter.join().unwrap()
    });
    use bellhop_guest_umd::Error;
    assert!(matches!(ended, Err(Error::Transport(_))), "{ended:?}");
    assert!(matches!(worker.client.process.statistics(), Err(Error::Transport(_))));
}
