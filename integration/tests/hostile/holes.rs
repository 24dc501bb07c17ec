// SPDX-License-Identifier: MIT OR Apache-2.0

//! Front ends that punch holes into their own memory. A thread of the daemon that touches such memory waits until the
//! hole is there, and nothing can interrupt it.

mod charged;
mod short;

use crate::front_ends::connect;
use crate::neighbour::Neighbour;
use crate::support::{self, Daemon, await_that, guest_with};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{CLOUD_HYPERVISOR, GuestOptions};
use bellhop_guest::hostile::{HostileVmm, Punch, QUEUES, Region, event, memory};
use bellhop_guest_umd::Adapter;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Bytes that are punched.
const HOLE: u64 = 64 * MIB;
/// How often an attack is tried, each time with twice as many mappings: a machine may be busy with other things while
/// a hole is made.
const TRIES: u32 = 4;

/// Whether a thread of the daemon waits uninterruptibly.
fn stands(daemon: &Daemon) -> bool {
    daemon.tasks().any(|task| {
        // A thread may end after it was listed.
        std::fs::read_to_string(task.join("stat")).unwrap_or_default().contains(") D ")
    })
}

/// A front end whose reply buffer alone is in another file.
struct Asker {
    vmm: HostileVmm,
    queues: File,
    replies: File,
    offered: u16,
}

impl Asker {
    /// Offset of the reply buffer in the queues' memory.
    const REPLY: u64 = 0x5000;

    fn new(daemon: &Daemon) -> Self {
        let (vmm, call) = (connect(daemon), event().unwrap());
        let (queues, replies) = (memory(QUEUES).unwrap(), memory(HOLE).unwrap());
        let all = Region::of(QUEUES);
        let part = |from: u64, to: u64, offset| Region {
            physical: all.physical + from,
            size: to - from,
            user: all.user + from,
            offset,
        };
        let behind = Self::REPLY + PAGE;
        let regions = [
            (part(0, Self::REPLY, 0), queues.as_fd()),
            (part(Self::REPLY, behind, 0), replies.as_fd()),
            (part(behind, QUEUES, behind), queues.as_fd()),
        ];
        vmm.announce(&regions).unwrap();
        vmm.start(all.user, call.as_fd()).unwrap();
        let mut asker = Self { vmm, queues, replies, offered: 0 };
        asker.ask();
        await_that("it is answered", || asker.is_answered());
        asker
    }

    fn ask(&mut self) {
        let physical = Region::of(QUEUES).physical;
        self.vmm.request(&self.queues, physical, &mut self.offered, 1).unwrap();
    }

    fn is_answered(&self) -> bool {
        HostileVmm::answered(&self.queues).unwrap() == self.offered
    }
}

/// Has a front end punch its reply buffer while it asks. Returns whether a neighbour's requests were answered before
/// the hole was there.
fn is_served_beside_a_hole(daemon: &Daemon, neighbour: &Adapter, mappings: usize) -> bool {
    let mut asker = Asker::new(daemon);
    let punch = Punch::prepare(&asker.replies, mappings).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            punch.punch().unwrap();
            over.store(true, Ordering::Release);
        });
        // Until the daemon has the reply to a request, and no page for it.
        while !stands(daemon) {
            if over.load(Ordering::Acquire) {
                return false;
            }
            if asker.is_answered() {
                asker.ask();
            }
        }
        for _ in 0..3 {
            drop(neighbour.create_device().unwrap());
        }
        let is_served = !over.load(Ordering::Acquire);
        println!("{mappings} mappings: served before the hole was there: {is_served}");
        is_served
    })
}

#[test]
fn a_neighbour_is_answered_while_a_reply_waits_for_a_hole() {
    let daemon = Daemon::start(2);
    let neighbour = support::adapter_of(&support::guest(&daemon, 1));
    let mut tries = (0..TRIES).map(|doubled| 100 << doubled);
    assert!(tries.any(|mappings| is_served_beside_a_hole(&daemon, &neighbour, mappings)));
}

/// Has a front end punch its memory, where its doorbells' statuses are, and the operator fail its guest meanwhile.
/// Returns whether a neighbour's requests were answered before the hole was there.
fn is_served_beside_a_status(daemon: &Daemon, neighbour: &Adapter, mappings: usize) -> bool {
    let options = GuestOptions { ram: HOLE, profile: &CLOUD_HYPERVISOR, ..GuestOptions::default() };
    let hostile = guest_with(daemon, 0, options);
    let mut client = Client::new(support::adapter_of(&hostile), Shape::default()).unwrap();
    client.commands.nop().unwrap();
    client.run().unwrap();
    let punch = Punch::prepare(&hostile.memory_file().unwrap(), mappings).unwrap();
    let over = AtomicBool::new(false);
    let is_served = thread::scope(|threads| {
        threads.spawn(|| {
            punch.punch().unwrap();
            over.store(true, Ordering::Release);
        });
        // Nothing of the guest runs, so that the control plane alone touches its memory.
        let fail = daemon.operate(&["ctl", "fail", "gpu0.sock"]).spawn();
        while !stands(daemon) {
            if over.load(Ordering::Acquire) {
                break;
            }
        }
        for _ in 0..3 {
            drop(neighbour.create_device().unwrap());
        }
        let is_served = !over.load(Ordering::Acquire);
        println!("{mappings} mappings: served before the hole was there: {is_served}");
        let _ = fail.unwrap().wait();
        is_served
    });
    // Its memory is another once the hole is there, so it cannot say goodbye.
    std::mem::forget(client);
    hostile.kill();
    is_served
}

#[test]
fn a_neighbour_is_answered_while_a_status_waits_for_a_hole() {
    let daemon = Daemon::start(2);
    let neighbour = support::adapter_of(&support::guest(&daemon, 1));
    let mut tries = (0..TRIES).map(|doubled| 300 << doubled);
    assert!(tries.any(|mappings| is_served_beside_a_status(&daemon, &neighbour, mappings)));
    daemon.await_log("keeps memory from the host");
}

#[test]
fn an_engine_that_waits_for_a_hole_costs_only_the_guest_that_punches_it() {
    let configuration = "[adapter]\ntimeout = \"300ms\"\nrecovery_timeout = \"50ms\"\n";
    let mut daemon = Daemon::start_with(2, configuration);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    let mut lines = Vec::new();
    let is_told = (0..TRIES).map(|doubled| 300 << doubled).any(|mappings| {
        let options = GuestOptions { ram: HOLE, ..GuestOptions::default() };
        let hostile = guest_with(&daemon, 0, options);
        // So little that no packet takes long, however busy the machine is.
        let memory = MIB;
        let shape = Shape { memory, ..Shape::default() };
        let mut client = Client::new(support::adapter_of(&hostile), shape).unwrap();
        for value in 0..4 {
            client.commands.fill(client.memory.gpu_va(), memory, value).unwrap();
        }
        let value = client.submit().unwrap();
        client.finish(value).unwrap();
        let punch = Punch::prepare(&hostile.memory_file().unwrap(), mappings).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                // Until its work is refused, its engine is always in its memory.
                while !over.load(Ordering::Acquire) {
                    let Ok(value) = client.submit() else { return };
                    if client.finish(value).is_err() {
                        return;
                    }
                }
            });
            neighbour.work();
            punch.punch().unwrap();
            over.store(true, Ordering::Release);
            neighbour.work();
        });
        lines.extend(daemon.logged());
        lines.iter().any(|line| line.contains("stands in memory"))
    });
    let told = |what: &str| lines.iter().any(|line| line.contains(what));
    assert!(!told("resetting the adapter"), "{lines:#?}");
    assert!(is_told, "the engine never stood: {lines:#?}");
    for _ in 0..10 {
        neighbour.work();
    }
    assert!(daemon.is_running());
}
