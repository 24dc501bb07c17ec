// SPDX-License-Identifier: MIT OR Apache-2.0

//! How engines share their time: among guests by weight, and between a short command and a long one.
//!
//! Shares come from the engines' own accounts, which the statistics show, so they do not depend on the machine's
//! speed or load. Times are printed and not asserted.

use crate::alone;
use crate::support::brokers::{Brokered, USERS};
use crate::support::{self, Daemon, TIMEOUT, skip};
use bellhop_guest::client::{Client, Mode, Queue, Shape};
use bellhop_guest_umd::{Adapter, CommandBuffer};
use bellhop_protocol::control::allocation::{AllocationKind, SegmentSet};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WEIGHTS: [u64; 3] = [100, 200, 400];
const CONFIGURATION: &str = "[adapter]\ncopy_nodes = 1\nspin = \"1ms\"\nengine_idle = \"0s\"\n\
     [guest]\nlocal_memory = \"8MiB\"\n[weights]\n\"gpu1.sock\" = 200\n\"gpu2.sock\" = 400\n";
/// The one copy node.
const NODE: u32 = 1;
const SIZE: u64 = 1 << 20;
/// The least weight's part of two seconds: a turn may include time in which the engine's thread did not run, which
/// later turns make up for.
const SEVENTH: Duration = Duration::from_millis(320);
/// Submissions that a queue always has in flight, each some ten milliseconds of engine time.
const DEPTH: u64 = 8;

/// A guest that keeps an engine busy.
struct Guest {
    client: Client,
    long: CommandBuffer,
    _inner: CommandBuffer,
}

impl Guest {
    fn new(daemon: &Daemon, number: usize) -> Self {
        let kind = AllocationKind::LOCAL;
        let shape = Shape { node: NODE, kind, memory: SIZE, ..Shape::default() };
        Self::with(support::client_of(&support::guest(daemon, number), shape), SIZE / 2, 8)
    }

    /// A guest whose command copies so many bytes 16 times, and that so often.
    fn with(client: Client, bytes: u64, times: usize) -> Self {
        let mut inner = client.more_commands(1024).unwrap();
        for _ in 0..16 {
            inner.copy(client.va(0), client.va(SIZE / 2), bytes).unwrap();
        }
        let mut long = client.more_commands(1024).unwrap();
        for _ in 0..times {
            long.indirect_buffer(inner.gpu_va(), inner.len() as u32).unwrap();
        }
        Self { client, long, _inner: inner }
    }

    fn queue(&self, mode: Mode) -> Queue {
        Queue::create(&self.client.context, mode, 4096).unwrap()
    }

    /// A command buffer for each submission in flight, all with equal work.
    fn long_commands(&self) -> Vec<CommandBuffer> {
        let buffer = |_| {
            let mut commands = self.client.more_commands(64).unwrap();
            commands.indirect_buffer(self.long.gpu_va(), self.long.len() as u32).unwrap();
            commands
        };
        (0..=DEPTH).map(buffer).collect()
    }

    fn engine_time(&self) -> u64 {
        self.client.process.statistics().unwrap().engine_time
    }
}

/// Keeps a queue busy until `stop` is set.
fn saturate(queue: Queue, commands: Vec<CommandBuffer>, stop: &AtomicBool) {
    saturate_and_count(queue, commands, stop, &AtomicU64::new(0));
}

/// The same, and counts what is done.
fn saturate_and_count(
    mut queue: Queue,
    mut commands: Vec<CommandBuffer>,
    stop: &AtomicBool,
    done: &AtomicU64,
) {
    for buffer in (0..commands.len()).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let value = queue.submit(&mut commands[buffer]).unwrap();
        queue.progress_fence().wait(value.saturating_sub(DEPTH), TIMEOUT).unwrap();
        done.store(value.saturating_sub(DEPTH), Ordering::Relaxed);
    }
}

/// A program of a guest, which a thread with this user connects for.
fn program_of(brokered: &Brokered, user: u32) -> Guest {
    thread::scope(|threads| {
        let connecting = threads.spawn(|| {
            // The user of this thread alone, by which the broker knows the program.
            let user = Uid::from_raw(user);
            set_thread_res_uid(user, user, user).unwrap();
            brokered.connect()
        });
        let process = Adapter::open(connecting.join().unwrap()).unwrap();
        let kind = AllocationKind::SYSTEM;
        let shape = Shape { node: NODE, kind, memory: SIZE, ..Shape::default() };
        // Little memory: whose turn it was before makes no work slower.
        Guest::with(Client::new(process, shape).unwrap(), SIZE >> 5, 60)
    })
}

/// Equal work is counted, so it says nothing how fast the machine is; the margins are for its other load.
#[test]
fn users_of_one_guest_share_an_engine_by_the_weights_that_its_administrator_declares() {
    // A thread that does not run counts late what is done: up to all that its queue holds, of each program.
    const LEAST: u64 = 25 * DEPTH;
    if !geteuid().is_root() {
        return skip(
            "programs of other users can be started by root alone",
            "no shares of users are counted",
            "run the tests as root",
        );
    }
    let _alone = alone();
    let daemon = Daemon::start_with(1, CONFIGURATION.split("[weights]").next().unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    let [light, heavy, _] = USERS;
    let tables =
        format!("[[user]]\nname = \"{light}\"\n[[user]]\nname = \"{heavy}\"\nweight = 300\n");
    std::fs::write(file.path(), tables).unwrap();
    let brokered = Brokered::start(&daemon, 0, &["--config", file.path().to_str().unwrap()]);
    // Two programs of the light user have no more together than one would have.
    let programs = [light, light, heavy].map(|user| program_of(&brokered, user));
    let (stop, done) = (AtomicBool::new(false), [(); 3].map(|()| AtomicU64::new(0)));
    let [light, heavy] = thread::scope(|threads| {
        for (program, done) in programs.iter().zip(&done) {
            let (queue, commands, stop) =
                (program.queue(Mode::User), program.long_commands(), &stop);
            threads.spawn(move || saturate_and_count(queue, commands, stop, done));
        }
        let of_users = || {
            let [one, other, heavy] = done.each_ref().map(|done| done.load(Ordering::Relaxed));
            [one + other, heavy]
        };
        let await_each = |least: u64| {
            support::await_that("each works", || of_users().iter().all(|done| *done >= least));
            of_users()
        };
        let begun = await_each(2);
        let ended = await_each(begun[0].max(begun[1]) + LEAST);
        stop.store(true, Ordering::Relaxed);
        [ended[0] - begun[0], ended[1] - begun[1]]
    });
    let ratio = heavy as f64 / light as f64;
    println!("weights 1 : 3, and the heavy user's work is {ratio:.2} times the light one's");
    assert!((2.0..4.5).contains(&ratio), "{light} and {heavy}");
    let guests = daemon.snapshot().guests;
    let shares: Vec<_> = guests[0].processes.iter().map(|of| (of.weight, of.group)).collect();
    let [own, others] = [USERS[0], USERS[1]].map(|user| user + 1);
    assert_eq!(shares, [(100, own), (100, own), (300, others)]);
}

/// The constant work of a guest.
#[derive(Debug, Clone, Copy)]
struct Kinds {
    /// Keeps a queue of each of these modes busy.
    modes: &'static [Mode],
    /// The number of its other processes that page without end.
    paging: u32,
}

const USER_MODE: Kinds = Kinds { modes: &[Mode::User], paging: 0 };
const KERNEL_MODE: Kinds = Kinds { modes: &[Mode::Kernel], paging: 0 };
const BOTH: Kinds = Kinds { modes: &[Mode::User, Mode::Kernel], paging: 0 };
const PAGING: Kinds = Kinds { modes: &[Mode::User], paging: 3 };

/// Moves memory out of local memory and back until `stop` is set. Returns the number of rounds.
fn page(adapter: &Adapter, stop: &AtomicBool) -> u64 {
    let device = adapter.open_process().unwrap().create_device().unwrap();
    let allocation = device.allocation(2 * SIZE).segments(SegmentSet::LOCAL).create().unwrap();
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        allocation.make_resident().unwrap();
        allocation.evict().unwrap();
        rounds += 1;
    }
    rounds
}

/// Saturates the node with three guests until each has had at least this much engine time, and asserts their shares.
fn assert_shares(kinds: [Kinds; 3], least: Duration) {
    let _alone = alone();
    let daemon = Daemon::start_with(3, CONFIGURATION);
    let guests = [0, 1, 2].map(|number| Guest::new(&daemon, number));
    let stop = AtomicBool::new(false);
    let shares = thread::scope(|threads| {
        let stop = &stop;
        let mut pagers = Vec::new();
        for (guest, kinds) in guests.iter().zip(kinds) {
            let pager = |_| threads.spawn(|| page(&guest.client.process, stop));
            pagers.extend((0..kinds.paging).map(pager));
            for mode in kinds.modes {
                let (queue, commands) = (guest.queue(*mode), guest.long_commands());
                threads.spawn(move || saturate(queue, commands, stop));
            }
        }
        let times = || guests.each_ref().map(Guest::engine_time);
        let since = |before: [u64; 3]| {
            let now = times();
            [0, 1, 2].map(|guest| now[guest] - before[guest])
        };
        let await_each = |least: Duration| {
            let (start, before) = (Instant::now(), times());
            loop {
                let times = since(before);
                if times.iter().all(|time| *time >= least.as_nanos() as u64) {
                    return times;
                }
                assert!(start.elapsed() < 2 * TIMEOUT, "{times:?}");
                thread::sleep(Duration::from_millis(5));
            }
        };
        // All three have begun.
        await_each(Duration::from_millis(20));
        let times = await_each(least);
        stop.store(true, Ordering::Relaxed);
        for pager in pagers {
            let rounds = pager.join().unwrap();
            println!("a process moved {} MiB out and in {rounds} times", (2 * SIZE) >> 20);
            assert_ne!(rounds, 0);
        }
        times
    });
    let total: u64 = shares.iter().sum();
    println!("{kinds:?}: {shares:?} ns of {total}");
    for (share, weight) in shares.into_iter().zip(WEIGHTS) {
        let wanted = total as f64 * weight as f64 / WEIGHTS.iter().sum::<u64>() as f64;
        let off = share as f64 / wanted - 1.0;
        assert!(
            off.abs() <= 0.05,
            "weight {weight}: {share} ns of {total}, {:.1} % off",
            off * 100.0
        );
    }
}

#[test]
fn user_mode_queues_of_three_guests_share_an_engine_by_weight() {
    assert_shares([USER_MODE; 3], SEVENTH);
}

#[test]
fn kernel_mode_queues_of_three_guests_share_an_engine_by_weight() {
    assert_shares([KERNEL_MODE; 3], SEVENTH);
}

#[test]
fn shares_are_the_guests_whatever_kinds_of_queue_they_have_and_how_many() {
    assert_shares([BOTH, KERNEL_MODE, USER_MODE], SEVENTH);
}

#[test]
fn guests_that_page_without_end_take_no_more_than_their_share() {
    // Longer, because this test has that many threads.
    assert_shares([PAGING, KERNEL_MODE, PAGING], 2 * SEVENTH);
}

#[test]
fn a_socket_with_more_guests_has_no_more_of_an_engine() {
    const CONNECTIONS: usize = 4;
    let _alone = alone();
    let configuration = CONFIGURATION.replace(
        "[guest]\nlocal_memory = \"8MiB\"",
        "[guest]\nconnections = 4\nlocal_memory = \"32MiB\"",
    );
    assert_ne!(configuration, CONFIGURATION);
    let daemon = Daemon::start_with(3, &configuration);
    // The socket of weight 100 has four guests, and the others one each.
    let sockets = [0, 0, 0, 0, 1, 2];
    let guests = sockets.map(|socket| Guest::new(&daemon, socket));
    let stop = AtomicBool::new(false);
    let times = thread::scope(|threads| {
        for guest in &guests {
            let (queue, commands, stop) = (guest.queue(Mode::User), guest.long_commands(), &stop);
            threads.spawn(move || saturate(queue, commands, stop));
        }
        let times = || guests.each_ref().map(Guest::engine_time);
        let of_sockets = |before: [u64; 6]| {
            let now = times();
            let mut sums = [0; 3];
            for (guest, socket) in sockets.into_iter().enumerate() {
                sums[socket] += now[guest] - before[guest];
            }
            sums
        };
        let begun = times();
        support::await_that("all have begun", || {
            times().iter().zip(begun).all(|(now, before)| now - before >= 20_000_000)
        });
        let before = times();
        support::await_that("each socket has had its time", || {
            of_sockets(before).iter().all(|time| *time >= SEVENTH.as_nanos() as u64)
        });
        let result = (of_sockets(before), times().map(|now| now));
        stop.store(true, Ordering::Relaxed);
        let each: Vec<u64> =
            result.1.iter().zip(before).map(|(now, before)| now - before).collect();
        (result.0, each)
    });
    let (sums, each) = times;
    println!("sockets {sums:?} ns; guests {each:?} ns");
    let total: u64 = sums.iter().sum();
    for (share, weight) in sums.into_iter().zip(WEIGHTS) {
        let wanted = total as f64 * weight as f64 / WEIGHTS.iter().sum::<u64>() as f64;
        assert!((share as f64 / wanted - 1.0).abs() <= 0.05, "weight {weight}: {share} of {total}");
    }
    // Those of one socket share alike.
    let of_one = each[..CONNECTIONS].iter().sum::<u64>() as f64 / CONNECTIONS as f64;
    for time in &each[..CONNECTIONS] {
        assert!((*time as f64 / of_one - 1.0).abs() <= 0.2, "{each:?}");
    }
}

#[test]
fn a_guest_alone_has_the_engine_whatever_its_weight() {
    let _alone = alone();
    let daemon = Daemon::start_with(3, CONFIGURATION);
    let guests = [0, 2].map(|number| Guest::new(&daemon, number));
    let mut queue = guests[0].queue(Mode::User);
    let mut commands = guests[0].long_commands();
    for commands in &mut commands[..4] {
        queue.submit(commands).unwrap();
    }
    queue.progress_fence().wait(4, TIMEOUT).unwrap();
    // The other guest's engine time is that of paging. A turn's time counts when it ends, a little after its signals.
    let is_counted = || guests[0].engine_time() > guests[1].engine_time();
    support::await_that("time is counted", is_counted);
}

/// A short command alone, beside a long one of the same guest, with a higher priority, and beside
/// another guest's.
#[test]
fn a_short_command_beside_a_long_one_waits_for_a_turn_and_not_for_its_end() {
    let _alone = alone();
    let daemon = Daemon::start_with(3, CONFIGURATION);
    let mut guests = [0, 1].map(|number| Guest::new(&daemon, number));
    let measure = |what: &str, client: &mut Client| {
        let mut times: Vec<_> = (0..500)
            .map(|_| {
                let start = Instant::now();
                support::submit_once(client);
                start.elapsed()
            })
            .collect();
        times.sort();
        println!("{what}: p50 {:?}, p99 {:?}, most {:?}", times[250], times[495], times[499]);
    };
    measure("alone", &mut guests[0].client);
    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        let stop = &stop;
        let long = Queue::User(guests[0].client.queue_on(NODE).unwrap());
        let commands = guests[0].long_commands();
        threads.spawn(move || saturate(long, commands, stop));
        measure("beside a long command of the same guest", &mut guests[0].client);
        guests[0].client.context.set_scheduling_priority(1).unwrap();
        measure("with a higher priority", &mut guests[0].client);
        measure("beside another guest's", &mut guests[1].client);
        stop.store(true, Ordering::Relaxed);
    });
}
