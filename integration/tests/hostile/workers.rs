// SPDX-License-Identifier: MIT OR Apache-2.0

//! Workers that are killed at random moments while guests run kernels, and kernels that never end.

use crate::neighbour::Neighbour;
use crate::seed;
use crate::support::{self, Daemon, TIMEOUT, await_that};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest::hostile::Noise;
use bellhop_guest_umd::{Adapter, Arguments, Error, Kernel};
use bellhop_protocol::event::FaultReason;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TOUCH: &[u8] = include_bytes!("../../../device/worker/kernels/touch.spv");
const SPIN: &[u8] = include_bytes!("../../../device/worker/kernels/spin.spv");

const KILLS: u32 = 200;
/// The longest time between two kills.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest that a kernel spins before this process ends it.
const SPINNING: Duration = Duration::from_millis(2);
/// Processes whose workers are killed. While the worker of one starts, another's runs.
const VICTIMS: u64 = 4;
/// Pause between rounds of those that notice nothing, which leaves processors to the workers that start.
const BETWEEN: Duration = Duration::from_millis(5);

/// A second, after which a queue whose kernel does not end is hung.
const IMPATIENT: &str = "1s";
/// The same, where other kernels are compiled as well: on a machine that is busy with other things, that takes a second.
const CONSIDERATE: &str = "5s";
/// Where no kernel hangs: a worker that is killed is noticed by its end, and a machine that is busy with other things takes a
/// second here and there.
const PATIENT: &str = "60s";

/// Engines keep their power, and a guest may hang any number of times and have workers started as often as it likes.
fn configuration(timeout: &str) -> String {
    format!(
        "[adapter]\nengine_idle = \"0s\"\nhang_limit = 0\ntimeout = \"{timeout}\"\nkernel_processors = 1\n\
         [guest]\nworker_starts_per_second = 1000\nworker_start_burst = 10000\n"
    )
}

/// The memory files that a process has mapped.
fn memory_files(process: u32) -> BTreeSet<u64> {
    // A process may end while it is read.
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let files = maps.lines().filter(|line| line.contains("/memfd:"));
    files.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).collect()
}

/// The daemon's child processes.
pub fn children(daemon: &Daemon) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap();
    let of_task = |task: fs::DirEntry| {
        // A thread may end after it was listed.
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
    };
    tasks.flat_map(|task| of_task(task.unwrap())).collect()
}

/// A guest with several processes, and the memory files that it alone shares with the daemon.
struct Shared {
    adapter: Adapter,
    _guest: Arc<FakeGuest>,
    files: BTreeSet<u64>,
}

impl Shared {
    fn connect(daemon: &Daemon, number: usize) -> Self {
        let before = memory_files(std::process::id());
        let guest = support::guest(daemon, number);
        let files = memory_files(std::process::id()).difference(&before).copied().collect();
        Self { adapter: support::adapter_of(&guest), _guest: guest, files }
    }

    fn process(&self) -> Adapter {
        self.adapter.open_process().unwrap()
    }

    /// The daemon's workers that have memory of this guest mapped.
    fn workers(&self, daemon: &Daemon) -> Vec<u32> {
        let has = |worker: &u32| !memory_files(*worker).is_disjoint(&self.files);
        children(daemon).into_iter().filter(has).collect()
    }
}

/// A process of a guest that runs kernels.
struct Runner {
    client: Client,
    touch: Kernel,
    spin: Kernel,
    rounds: u64,
    lost: u32,
}

/// Places in the memory of a runner.
const FLAG: usize = 0;
const FROM: usize = 64;
const TO: usize = 128;

impl Runner {
    fn new(process: Adapter) -> Self {
        let client = Client::new(process, Shape::default()).unwrap();
        let device = &client.device;
        let of = |spirv, bytes| Kernel::from_spirv(device, spirv, "main").push_constants(bytes);
        let (touch, spin) = (of(TOUCH, 16).create().unwrap(), of(SPIN, 8).create().unwrap());
        Self { client, touch, spin, rounds: 0, lost: 0 }
    }

    /// Has a kernel copy a word, or one spin for a while: a worker that is new loads no more than it needs.
    fn try_work(&mut self, noise: &mut Noise) -> Result<(), Error> {
        self.rounds += 1;
        let client = &mut self.client;
        client.write(FROM, &self.rounds.to_le_bytes())?;
        client.write(FLAG, &0_u64.to_le_bytes())?;
        let [flag, from, to] = [FLAG, FROM, TO].map(|place| client.va(place as u64));
        client.commands.reset();
        let spins = noise.below(2) == 0;
        let mut arguments = Arguments::new();
        if spins {
            arguments.address(flag);
            client.commands.dispatch_kernel(&self.spin, [1; 3], &arguments)?;
        } else {
            arguments.address(from).address(to);
            client.commands.dispatch_kernel(&self.touch, [1; 3], &arguments)?;
        }
        let value = client.submit()?;
        if spins {
            thread::sleep(Duration::from_micros(noise.below(SPINNING.as_micros() as u64)));
            client.write(FLAG, &1_u64.to_le_bytes())?;
        }
        // Blocked, so that processors are free for workers that start.
        client.queue.progress_fence().wait(value, TIMEOUT)?;
        assert!(spins || client.word(TO)? == self.rounds, "round {} is wrong", self.rounds);
        Ok(())
    }

    /// A round that must succeed.
    fn work(&mut self, noise: &mut Noise) {
        self.try_work(noise).unwrap();
    }

    /// A round that may lose its queue with its worker, and is repeated then.
    fn work_beside_kills(&mut self, noise: &mut Noise) {
        while let Err(error) = self.try_work(noise) {
            let fault = match &error {
                Error::QueueLost { fault: Some(fault), .. } | Error::KernelFault { fault, .. } => {
                    fault
                }
                other => panic!("{other}"),
            };
            assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{error}");
            self.lost += 1;
            let context = self.client.device.create_context(0).unwrap();
            self.client.queue = context.create_user_mode_queue(4096).unwrap();
            self.client.context = context;
        }
    }
}

/// Ends all threads of a test when one ends, as it does when it fails.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn workers_that_are_killed_at_random_cost_their_own_queues_and_leave_nothing() {
    let Some(daemon) = Daemon::start_with_kernels(2, &configuration(PATIENT)) else { return };
    let seed = seed() << 20;
    let (victim, other) = (Shared::connect(&daemon, 0), Shared::connect(&daemon, 1));
    let mut doorbells = Neighbour::of_process(victim.process());
    let mut others = Runner::new(other.process());
    others.work(&mut Noise::new(seed));
    doorbells.work();
    let lost = AtomicU32::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        for number in 1..=VICTIMS {
            let (victim, over, lost) = (&victim, &over, &lost);
            threads.spawn(move || {
                let _over = Over(over);
                let mut noise = Noise::new(seed + number);
                let mut runner = Runner::new(victim.process());
                while !over.load(Ordering::Acquire) {
                    runner.work_beside_kills(&mut noise);
                }
                lost.fetch_add(runner.lost, Ordering::Relaxed);
            });
        }
        let (over_too, others) = (&over, &mut others);
        threads.spawn(move || {
            let _over = Over(over_too);
            let mut noise = Noise::new(seed + VICTIMS + 1);
            // Any fault of its own is a failure.
            while !over_too.load(Ordering::Acquire) {
                others.work(&mut noise);
                thread::sleep(BETWEEN);
            }
        });
        let (over_too, doorbells) = (&over, &mut doorbells);
        threads.spawn(move || {
            let _over = Over(over_too);
            while !over_too.load(Ordering::Acquire) {
                doorbells.work();
                thread::sleep(BETWEEN);
            }
        });
        let _over = Over(&over);
        let mut noise = Noise::new(seed + VICTIMS + 2);
        let (mut kills, start) = (0, Instant::now());
        while kills < KILLS && !over.load(Ordering::Acquire) {
            thread::sleep(Duration::from_micros(noise.below(PAUSE.as_micros() as u64)));
            let workers = victim.workers(&daemon);
            if !workers.is_empty() {
                let worker = workers[noise.below(workers.len() as u64) as usize];
                // It may have ended since.
                let _ = kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::KILL);
                kills += 1;
            }
            assert!(start.elapsed() < Duration::from_secs(300), "{kills} kills");
        }
    });
    let lost = lost.into_inner();
    println!("{KILLS} workers killed; {lost} queues lost, {} rounds beside", others.rounds);
    assert!(lost > 0 && lost <= KILLS, "{lost} queues lost to {KILLS} kills");
    others.work(&mut Noise::new(seed));
    // What a daemon has that never lost a worker.
    let left = (resting(&daemon, victim, other, others, doorbells), {
        let fresh = Daemon::start_with_kernels(2, &configuration(PATIENT)).unwrap();
        let [victim, other] = [0, 1].map(|number| Shared::connect(&fresh, number));
        let doorbells = Neighbour::of_process(victim.process());
        let mut others = Runner::new(other.process());
        others.work(&mut Noise::new(seed));
        Runner::new(victim.process()).work(&mut Noise::new(seed));
        resting(&fresh, victim, other, others, doorbells)
    });
    assert_eq!(left.0, left.1, "after the kills, and without them");
}

/// Ends the guests; returns the number of descriptors, threads and child processes that a daemon then comes to have.
fn resting(
    daemon: &Daemon,
    victim: Shared,
    other: Shared,
    runner: Runner,
    neighbour: Neighbour,
) -> [usize; 3] {
    drop((runner, neighbour));
    drop((victim, other));
    await_that("all guests are gone", || daemon.snapshot().guests.is_empty());
    // One worker is kept ready.
    let count = || {
        let of = |what| fs::read_dir(format!("/proc/{}/{what}", daemon.id())).unwrap().count();
        [of("fd"), of("task"), children(daemon).len()]
    };
    await_that("one worker is left", || count()[2] == 1);
    let mut last = count();
    await_that("nothing changes any more", || {
        thread::sleep(Duration::from_millis(200));
        let now = count();
        std::mem::replace(&mut last, now) == now
    });
    last
}

#[test]
fn a_guest_whose_kernel_never_ends_loses_it_and_another_guest_goes_on() {
    let Some(daemon) = Daemon::start_with_kernels(2, &configuration(CONSIDERATE)) else { return };
    let (hanging, other) = (support::guest(&daemon, 0), support::guest(&daemon, 1));
    let mut neighbour = Runner::new(support::adapter_of(&other));
    let mut noise = Noise::new(seed());
    // Its kernels are compiled, and its worker is there: what follows is about turns.
    neighbour.work(&mut noise);
    let before = neighbour.rounds;
    let mut client = support::client_of(&hanging, Shape::default());
    let spin = Kernel::from_spirv(&client.device, SPIN, "main").push_constants(8).create().unwrap();
    let mut arguments = Arguments::new();
    arguments.address(client.va(0));
    client.commands.dispatch_kernel(&spin, [1; 3], &arguments).unwrap();
    let value = client.submit().unwrap();
    // Nobody ends it but the host.
    let over = AtomicBool::new(false);
    let rounds = thread::scope(|threads| {
        let beside = threads.spawn(|| {
            let _over = Over(&over);
            while !over.load(Ordering::Acquire) {
                neighbour.work(&mut noise);
            }
            neighbour.rounds - before
        });
        let lost = {
            let _over = Over(&over);
            client.finish(value).unwrap_err()
        };
        assert!(matches!(lost, Error::QueueLost { .. } | Error::KernelFault { .. }), "{lost}");
        beside.join().unwrap()
    });
    println!("{rounds} rounds beside a kernel that never ended");
    assert!(rounds > 10, "{rounds}");
    // The guest that hung has another worker.
    Runner::new(client.process.open_process().unwrap()).work(&mut Noise::new(1));
}

#[test]
fn a_daemon_that_is_killed_leaves_no_worker() {
    let Some(mut daemon) = Daemon::start_with_kernels(1, &configuration(IMPATIENT)) else { return };
    let guest = support::guest(&daemon, 0);
    Runner::new(support::adapter_of(&guest)).work(&mut Noise::new(1));
    // One that has just ended tells nothing about the daemon's end.
    let alive = |worker: u32| Some((worker, started(worker)?));
    let workers: Vec<_> = children(&daemon).into_iter().filter_map(alive).collect();
    assert!(!workers.is_empty());
    daemon.signal(Signal::KILL);
    daemon.wait();
    await_that("all workers are gone", || {
        workers.iter().all(|(worker, was)| started(*worker) != Some(*was))
    });
}

/// When a process was started, in ticks; `None` if it has ended. Another process of this number has another time.
fn started(process: u32) -> Option<u64> {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // After the program's name: the state, and 18 fields more before the time.
    let fields: Vec<_> = state.rsplit_once(") ")?.1.split(' ').collect();
    (fields[0] != "Z").then(|| fields[19].parse().unwrap())
}
