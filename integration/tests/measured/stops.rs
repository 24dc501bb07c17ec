// SPDX-License-Identifier: MIT OR Apache-2.0

//! A daemon that is stopped for a while, as by a debugger, a frozen control group or a host that pauses. No queue is
//! charged for time in which its engine did not run: no queue hangs, and no work is lost.

use crate::alone;
use crate::support::{self, Daemon};
use bellhop_guest::client::{Client, Mode, Queue, Shape};
use bellhop_guest_umd::CommandBuffer;
use bellhop_protocol::control::allocation::{AllocationKind, SegmentSet};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::packet::dispatch::Kernel;
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The longest that an event may take before it counts as not happening.
const TIMEOUT: Duration = Duration::from_secs(120);
const SIZE: u64 = 1 << 20;

/// The stops of the daemon, and its time-out.
#[derive(Debug, Clone, Copy)]
struct Stops {
    count: u32,
    stop: Duration,
    /// How long the daemon runs between two stops.
    run: Duration,
    timeout: Duration,
}

/// Each stop is longer than the time-out of a hang, and so than that of each step of a recovery.
const SHORT: Stops = Stops {
    count: 12,
    stop: Duration::from_millis(250),
    run: Duration::from_millis(60),
    timeout: Duration::from_millis(200),
};

/// With the default time-out. Takes five minutes: `BELLHOP_LONG_STOPS`.
const LONG: Stops = Stops {
    count: 50,
    stop: Duration::from_secs(5),
    run: Duration::from_millis(300),
    timeout: Duration::from_secs(2),
};

fn stops() -> Stops {
    if std::env::var_os("BELLHOP_LONG_STOPS").is_some() { LONG } else { SHORT }
}

/// A guest, and the flag that ends its load.
struct Guest<'a> {
    client: Client,
    timeout: Duration,
    stop: &'a AtomicBool,
    rounds: &'a AtomicU64,
}

impl Guest<'_> {
    /// Repeats a round until the stops are over.
    fn until_the_end(&self, mut round: impl FnMut(u64)) {
        for number in 1.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            round(number);
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the number, and fills memory to take a while.
    fn fill(&self, commands: &mut CommandBuffer, number: u64) {
        let va = self.client.va(0);
        commands.reset();
        commands.fill(va + 8, SIZE - 8, number as u32).unwrap();
        commands.write_data(va, &number.to_le_bytes()).unwrap();
    }

    #[track_caller]
    fn expect(&self, number: u64) {
        assert_eq!(self.client.word(0).unwrap(), number, "work was lost");
    }

    fn commands(&self) -> CommandBuffer {
        self.client.more_commands(1024).unwrap()
    }
}

/// A guest's work meanwhile.
type Load = fn(&Guest<'_>);

fn submissions(guest: &Guest<'_>, mode: Mode) {
    let mut queue = Queue::create(&guest.client.context, mode, 4096).unwrap();
    let mut commands = guest.commands();
    guest.until_the_end(|number| {
        guest.fill(&mut commands, number);
        let value = queue.submit(&mut commands).unwrap();
        queue.progress_fence().wait(value, TIMEOUT).unwrap();
        guest.expect(number);
    });
}

/// Two queues that wait for each other on the GPU.
fn gpu_waits(guest: &Guest<'_>) {
    let client = &guest.client;
    let nodes = [0, client.context.node()];
    let [mut ping, mut pong] = nodes.map(|node| client.queue_on(node).unwrap());
    let [there, back] = [0, 0].map(|initial| client.device.create_fence(initial).unwrap());
    let (mut first, mut second) = (guest.commands(), guest.commands());
    guest.until_the_end(|number| {
        second.reset();
        second.wait_fence(&there, number).unwrap();
        second.write_data(client.va(0), &number.to_le_bytes()).unwrap();
        second.signal_fence(&back, number).unwrap();
        pong.submit(&mut second).unwrap();
        first.reset();
        first.signal_fence(&there, number).unwrap().wait_fence(&back, number).unwrap();
        let value = ping.submit(&mut first).unwrap();
        ping.progress_fence().wait(value, TIMEOUT).unwrap();
        guest.expect(number);
    });
}

fn paging(guest: &Guest<'_>) {
    let device = &guest.client.device;
    let allocation = device.allocation(SIZE).segments(SegmentSet::LOCAL).create().unwrap();
    guest.until_the_end(|_| {
        allocation.make_resident().unwrap();
        allocation.evict().unwrap();
    });
}

/// Dispatches without progress, each for a good part of the time-out.
fn long_dispatches(guest: &Guest<'_>) {
    let mut queue = guest.client.queue_on(0).unwrap();
    let gate = guest.client.device.create_allocation(AllocationKind::SYSTEM, 4096).unwrap();
    let gate = gate.map(Protection::WRITE).unwrap();
    let va = gate.gpu_va();
    let mut commands = guest.commands();
    guest.until_the_end(|number| {
        commands.reset();
        commands.dispatch(Kernel::SPIN_UNTIL, va, va + 8, 8, number).unwrap();
        let value = queue.submit(&mut commands).unwrap();
        thread::sleep(guest.timeout / 8);
        gate.allocation().word(0).unwrap().store(number, Ordering::Release);
        queue.progress_fence().wait(value, TIMEOUT).unwrap();
    });
}

/// Queues that are destroyed while they have work: they finish it first.
fn destroying(guest: &Guest<'_>) {
    let context = &guest.client.context;
    let mut commands = guest.commands();
    guest.until_the_end(|number| {
        let mut queue = context.create_user_mode_queue(4096).unwrap();
        guest.fill(&mut commands, number);
        queue.submit(&mut commands).unwrap();
        drop(queue);
        guest.expect(number);
    });
}

const LOADS: [(&str, Load); 6] = [
    ("user-mode submissions", |guest| submissions(guest, Mode::User)),
    ("kernel-mode submissions", |guest| submissions(guest, Mode::Kernel)),
    ("waits on the GPU", gpu_waits),
    ("paging", paging),
    ("long dispatches", long_dispatches),
    ("queues that go with work", destroying),
];

#[test]
fn a_stopped_daemon_takes_no_queue_for_a_hang_and_loses_no_work() {
    let _alone = alone();
    let Stops { count, stop, run, timeout } = stops();
    let milliseconds = timeout.as_millis();
    let daemon = Daemon::start_with(
        LOADS.len(),
        &format!(
            "[adapter]\ncopy_nodes = 1\ntimeout = \"{milliseconds}ms\"\nrecovery_timeout = \"{milliseconds}ms\"\n\
             hang_limit = 1\n[guest]\nlocal_memory = \"8MiB\"\n"
        ),
    );
    let (ended, rounds) = (AtomicBool::new(false), LOADS.map(|_| AtomicU64::new(0)));
    thread::scope(|scope| {
        for (number, (name, load)) in LOADS.into_iter().enumerate() {
            let (node, kind) = (number as u32 % 2, AllocationKind::LOCAL);
            let shape = Shape { node, kind, memory: SIZE, ..Shape::default() };
            let client = support::client_of(&support::guest(&daemon, number), shape);
            let (stop, rounds) = (&ended, &rounds[number]);
            thread::Builder::new()
                .name(name.into())
                .spawn_scoped(scope, move || load(&Guest { client, timeout, stop, rounds }))
                .unwrap();
        }
        for _ in 0..count {
            thread::sleep(run);
            daemon.signal(Signal::STOP);
            thread::sleep(stop);
            daemon.signal(Signal::CONT);
        }
        thread::sleep(run);
        ended.store(true, Ordering::Relaxed);
    });
    for ((name, _), rounds) in LOADS.iter().zip(rounds) {
        let rounds = rounds.into_inner();
        println!("{name}: {rounds} rounds");
        assert!(rounds > 0, "{name} never came to anything");
    }
    for line in daemon.logged() {
        assert!(!line.contains("hang") && !line.contains("reset"), "{line}");
    }
}
