// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that attack their guest's broker, beside another program of the guest that checks its own results.

use crate::neighbour::Neighbour;
use crate::seed;
use crate::support::brokers::{Brokered, USERS};
use crate::support::{Daemon, await_that, report, run};
use bellhop_guest::hostile::Noise;
use bellhop_guest::hostile::programs::{self, Group, Scene};
use hdrhistogram::Histogram;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::set_thread_res_uid;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Hangs are found soon, and a guest may have any number of them: they count against all its programs together.
const CONFIGURATION: &str = "[adapter]\ntimeout = \"200ms\"\nhang_limit = 0\n";
/// Places of a user, and processes of a program.
const PLACES: usize = 4;
const PROCESSES: usize = 4;
/// Rounds of the neighbour after an attack, which see what the attack left.
const ROUNDS: u64 = 5;

/// A program of another user that works without pause.
#[derive(Default)]
struct Worked {
    rounds: AtomicU64,
    over: AtomicBool,
    latency: Mutex<Option<Histogram<u64>>>,
}

/// Ends the neighbour's work, even if an attack panics.
struct Ends<'a>(&'a Worked);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

impl Worked {
    fn work(&self, mut neighbour: Neighbour) {
        let _ends = Ends(self);
        while !self.over.load(Ordering::Relaxed) {
            let start = Instant::now();
            neighbour.work();
            let took = start.elapsed().as_nanos() as u64;
            let mut latency = self.latency.lock().unwrap();
            latency.get_or_insert_with(|| Histogram::new(3).unwrap()).record(took).unwrap();
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the neighbour has worked on for some rounds, and says how it fared since the last call.
    fn await_rounds(&self, beside: &str) {
        let before = self.rounds.load(Ordering::Relaxed);
        await_that("the neighbour works on", || {
            assert!(!self.over.load(Ordering::Relaxed), "{beside}: the neighbour ended");
            self.rounds.load(Ordering::Relaxed) >= before + ROUNDS
        });
        let latency = self.latency.lock().unwrap().take();
        let latency = latency.unwrap_or_else(|| Histogram::new(3).unwrap());
        println!(
            "{beside}: {} rounds of the neighbour, 99 % of them within {} us",
            latency.len(),
            latency.value_at_quantile(0.99) / 1000,
        );
    }
}

/// What there is of the broker and its guest's programs: descriptors, threads, and processes on the device.
fn resources(daemon: &Daemon, brokered: &Brokered) -> [usize; 3] {
    let count =
        |what| std::fs::read_dir(format!("/proc/{}/{what}", brokered.process())).unwrap().count();
    let processes = daemon.snapshot().guests.iter().map(|guest| guest.processes.len()).sum();
    [count("fd"), count("task"), processes]
}

/// Has `act` attack, beside a neighbour whose results are right, and leave nothing.
fn beside_a_neighbour(act: impl FnOnce(&Brokered, u32, &mut dyn FnMut(&str))) {
    let mut daemon = Daemon::start_with(1, CONFIGURATION);
    let (places, processes) = (PLACES.to_string(), PROCESSES.to_string());
    let mut options = vec!["--programs", "8", "--programs-of-user", &places];
    options.extend(["--processes", &processes, "--memory", "8"]);
    let brokered = Brokered::start(&daemon, 0, &options);
    let process = brokered.adapter();
    let victim = process.process();
    let neighbour = Neighbour::of_process(process);
    let before = resources(&daemon, &brokered);
    let worked = Worked::default();
    thread::scope(|threads| {
        let _ends = Ends(&worked);
        threads.spawn(|| worked.work(neighbour));
        act(&brokered, victim, &mut |attack| {
            let mut left = before;
            await_that(&format!("nothing is left of {attack}"), || {
                let now = resources(&daemon, &brokered);
                if now != left {
                    println!("{attack}: {now:?} descriptors, threads and processes");
                    left = now;
                }
                now == before
            });
            worked.await_rounds(attack);
        });
    });
    // Both still serve.
    assert!(daemon.is_running());
    Neighbour::of_process(brokered.adapter()).work();
}

/// Each attack of a group, by a program of a user without privileges.
fn attack(group: Group) {
    beside_a_neighbour(|brokered, victim, done| {
        let seed = seed();
        for ((name, attack), stream) in group.iter().zip(1..) {
            let mut scene = Scene {
                socket: brokered.socket(),
                places: PLACES,
                processes: PROCESSES,
                victim,
                noise: Noise::new(seed.wrapping_add(stream << 32)),
            };
            let attacked = thread::spawn(move || {
                // The user of this thread alone.
                let user = rustix::process::Uid::from_raw(USERS[0]);
                set_thread_res_uid(None, user, None).unwrap();
                attack(&mut scene)
            });
            if let Err(error) = attacked.join().unwrap() {
                panic!("{name}: {error:#}");
            }
            done(name);
        }
    });
}

#[test]
fn what_a_program_writes_into_its_file_and_does_with_it_harms_itself_alone() {
    attack(programs::SCRIBBLES);
    attack(programs::FILE);
}

#[test]
fn a_program_reaches_its_own_processes_and_memory_alone() {
    attack(programs::PROCESSES);
    attack(programs::EXTENTS);
    attack(programs::REQUESTS);
}

#[test]
fn no_message_and_no_descriptor_of_a_programs_harms_another() {
    attack(programs::MESSAGES);
    attack(programs::DESCRIPTORS);
}

#[test]
fn no_connection_and_no_work_of_a_programs_harms_another() {
    attack(programs::CONNECTIONS);
    attack(programs::WORK);
}

/// As an administrator runs it.
#[test]
fn a_hostile_program_says_what_it_tried_and_that_nothing_got_through() {
    let daemon = Daemon::start_with(1, CONFIGURATION);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let attack = |option| brokered.work_of(USERS[0], &["attack", "--seconds", "3", option]);
    let report = report(&mut attack("--json"));
    let attacks = report["attacks"].as_array().unwrap();
    assert!(attacks.len() >= 40, "{}", attacks.len());
    assert!(attacks.iter().all(|attack| attack["got"].is_null()), "{report}");
    let tried: u64 = attacks.iter().map(|attack| attack["times"].as_u64().unwrap()).sum();
    assert!(tried > 0);
    let printed = run(&mut attack("--seed=7"));
    assert!(printed.contains("(seed 7); 0 of ") && printed.contains("got through"), "{printed}");
}

/// A step of a program's life at which it is stopped or ended.
const STEPS: [&str; 4] = ["started", "connected", "with a process", "at work"];

/// A program that is at a step of its life.
fn at_step(brokered: &Brokered, before: [usize; 3], step: usize, daemon: &Daemon) -> Child {
    let mut program = brokered.work(&["run", "--samples", "10000000"]);
    let program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    await_that(STEPS[step], || {
        let now = resources(daemon, brokered);
        match step {
            0 => true,
            1 => now[1] > before[1],
            2 => now[2] > before[2],
            _ => daemon.snapshot().guests.iter().any(|guest| guest.statistics.engine_time > 0),
        }
    });
    program
}

#[test]
fn programs_that_are_stopped_or_killed_at_any_step_leave_nothing() {
    let daemon = Daemon::start_with(1, CONFIGURATION);
    let brokered = Brokered::start(&daemon, 0, &["--programs-of-user", "3"]);
    let mut neighbour = Neighbour::of_process(brokered.adapter());
    let before = resources(&daemon, &brokered);
    for (step, name) in STEPS.iter().enumerate() {
        for stopped in [false, true] {
            let mut program = at_step(&brokered, before, step, &daemon);
            let process = Pid::from_child(&program);
            if stopped {
                kill_process(process, Signal::STOP).unwrap();
            }
            (0..ROUNDS).for_each(|_| neighbour.work());
            kill_process(process, Signal::KILL).unwrap();
            program.wait().unwrap();
            await_that(name, || resources(&daemon, &brokered) == before);
            neighbour.work();
        }
    }
}

/// As many as a user can start, of which it has few places.
#[test]
fn a_crowd_of_one_users_programs_takes_no_place_of_another() {
    const CROWD: usize = 40;
    beside_a_neighbour(|brokered, _, done| {
        let start = |user| {
            let mut program = brokered.program("copy", user);
            program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let crowd: Vec<_> = (0..CROWD).map(|_| start(USERS[0])).collect();
        for _ in 0..3 {
            assert!(start(USERS[1]).wait().unwrap().success(), "another user has no place");
        }
        let served = crowd.into_iter().map(|mut program| program.wait().unwrap());
        let served = served.filter(std::process::ExitStatus::success).count();
        assert!(served > 0, "none of the crowd was served");
        println!("{served} of {CROWD} were served");
        done("a crowd");
    });
}
