// SPDX-License-Identifier: MIT OR Apache-2.0

//! A daemon at a system limit: new guests are refused or wait, and guests that it serves notice nothing.

use crate::front_ends::{asks_once, connect};
use crate::neighbour::Neighbour;
use crate::support::{self, Daemon, TIMEOUT};
use bellhop_guest::hostile::{HostileVmm, Region, memory, message};
use bellhop_guest_umd::Adapter;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::os::fd::AsFd;
use std::time::Duration;

/// A resource limit of the daemon, until it is dropped.
struct Limited {
    daemon: Pid,
    what: Resource,
    before: Rlimit,
}

impl Limited {
    fn new(daemon: &Daemon, what: Resource, most: u64) -> Self {
        let daemon = Pid::from_raw(daemon.id().try_into().unwrap()).unwrap();
        let before = rustix::process::getrlimit(what);
        let limit = Rlimit { current: Some(most), maximum: before.maximum };
        let before = prlimit(Some(daemon), what, limit).unwrap();
        Self { daemon, what, before }
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // The daemon may have ended.
        let _ = prlimit(Some(self.daemon), self.what, self.before);
    }
}

/// Asserts that a guest is served from beginning to end.
#[track_caller]
fn is_served(daemon: &Daemon, socket: usize) {
    Neighbour::new(support::guest(daemon, socket)).work();
}

/// Connects guests to these sockets except the first, until there is no thread for one. Returns the refused socket,
/// and the guests that are served.
fn come_until_refused(daemon: &mut Daemon, sockets: usize) -> (usize, Vec<HostileVmm>) {
    let mut served = Vec::new();
    for socket in 1..sockets {
        let vmm = HostileVmm::connect(&daemon.socket(socket)).unwrap();
        let line = daemon.await_log(&format!("gpu{socket}.sock"));
        if line.contains("cannot start a thread") {
            assert!(vmm.is_hung_up_within(TIMEOUT), "it was not hung up on");
            assert!(daemon.is_running());
            return (socket, served);
        }
        served.push(vmm);
    }
    panic!("no guest is refused");
}

#[test]
fn a_thread_that_cannot_be_had_costs_its_own_connection() {
    const SOCKETS: usize = 8;
    let mut daemon = Daemon::start(SOCKETS);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 0));
    // Less than a thread's stack. Stacks of ended threads may be reused.
    let most = (daemon.status("VmSize") << 10) + (1 << 20);
    let limited = Limited::new(&daemon, Resource::As, most);
    let (refused, _served) = come_until_refused(&mut daemon, SOCKETS);
    neighbour.work();
    drop(limited);
    is_served(&daemon, refused);
    neighbour.work();
}

/// `ulimit -u`, which counts the threads of a user and does not bind root.
#[test]
fn a_user_at_its_limit_of_threads_costs_only_the_new_connection() {
    if !rustix::process::geteuid().is_root() {
        return support::skip("this is not root", "no daemon of another user is tested", "be root");
    }
    // A user without other processes.
    const USER: u32 = 61_107;
    const SOCKETS: usize = 4;
    let count = |daemon: &Daemon| daemon.tasks().count() as u64;
    let with_one_guest = {
        let daemon = Daemon::start_as(USER, None, SOCKETS);
        let _guest = Neighbour::new(support::guest(&daemon, 0));
        daemon.await_quiet();
        count(&daemon)
    };
    // A new guest has one more thread while its BAR is being mapped.
    let mut daemon = Daemon::start_as(USER, Some(with_one_guest + 1), SOCKETS);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 0));
    let (refused, served) = come_until_refused(&mut daemon, SOCKETS);
    neighbour.work();
    // Guests that go free their threads for new ones.
    drop((neighbour, served));
    support::await_that("no threads are left", || count(&daemon) < with_one_guest);
    is_served(&daemon, refused);
    daemon.end();
}

#[test]
fn without_descriptors_who_comes_waits_and_is_served_when_there_are_some() {
    let mut daemon = Daemon::start(3);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    is_served(&daemon, 0);
    daemon.await_quiet();
    let limited = Limited::new(&daemon, Resource::Nofile, 3);
    let waiting = [0, 2].map(|socket| HostileVmm::connect(&daemon.socket(socket)).unwrap());
    daemon.await_log("cannot accept a front end");
    daemon.await_log("cannot accept a front end");
    // One line for each socket, however long it takes.
    daemon.expect_no_log_for(Duration::from_secs(1));
    neighbour.work();
    drop(limited);
    for vmm in waiting {
        vmm.say(message::GET_FEATURES, &[], &[]).unwrap();
        vmm.features_within(TIMEOUT).expect("who waited is served");
    }
    is_served(&daemon, 0);
    // Guests with descriptors go, while one without still waits.
    let limited = Limited::new(&daemon, Resource::Nofile, 3);
    let _waiting = HostileVmm::connect(&daemon.socket(0)).unwrap();
    daemon.await_log("cannot accept a front end");
    drop(neighbour);
    assert!(daemon.is_running());
    daemon.end();
    drop(limited);
}

#[test]
fn a_guest_that_cannot_be_attached_is_hung_up_on() {
    let mut daemon = Daemon::start(2);
    let mut neighbour = Neighbour::new(support::guest(&daemon, 1));
    // Files of at most a page: the daemon cannot make a BAR.
    let limited = Limited::new(&daemon, Resource::Fsize, 4096);
    let (vmm, _memory) = asks_once(connect(&daemon));
    assert!(vmm.is_hung_up_within(TIMEOUT), "its request is never answered");
    let line = daemon.await_log("connection ended");
    assert!(line.contains("BAR") && line.contains("gpu0.sock"), "{line}");
    neighbour.work();
    assert!(daemon.is_running());
    drop((limited, vmm));
    is_served(&daemon, 0);
}

#[test]
fn a_daemon_that_may_write_no_file_says_so() {
    let output = support::bellhop()
        .args(["daemon", "--", "--socket-path", "/nonexistent/x"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("gpu.sock");
    let binary = env!("CARGO_BIN_EXE_bellhop");
    let script = format!("ulimit -f 1; exec {binary} daemon -- --socket-path {}", socket.display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let message = support::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{:?}: {message}", output.status);
    assert!(message.contains("memory") && message.contains("too large"), "{message}");
}

#[test]
fn a_guest_cannot_take_all_addresses_of_the_daemons() {
    const LARGE: u64 = 4 << 40;
    let daemon = Daemon::start(2);
    let sparse = memory(LARGE).unwrap();
    let region = |number: u64| Region {
        physical: number * LARGE,
        size: LARGE,
        user: number * LARGE,
        offset: 0,
    };
    let vmm = connect(&daemon);
    let regions: Vec<_> = (0..8).map(|number| (region(number), sparse.as_fd())).collect();
    vmm.announce(&regions).unwrap();
    assert!(vmm.is_hung_up_within(TIMEOUT), "32 TiB of addresses are one guest's");
    let line = daemon.await_log("connection ended");
    assert!(line.contains("SET_MEM_TABLE") && line.contains("guest.announced_memory"), "{line}");
    // As much memory as one guest may announce, and a neighbour.
    let most = memory(256 << 30).unwrap();
    drop(vmm);
    let vmm = connect(&daemon);
    let half = 128 << 30;
    let low = Region::of(half);
    let high = Region { physical: 1 << 40, user: 1 << 41, size: half, offset: half };
    for _ in 0..3 {
        vmm.announce(&[(low, most.as_fd()), (high, most.as_fd())]).unwrap();
    }
    assert!(vmm.features_within(TIMEOUT).is_ok());
    assert!(!vmm.is_hung_up_within(Duration::from_millis(100)));
    Adapter::open(support::guest(&daemon, 1)).unwrap();
}
