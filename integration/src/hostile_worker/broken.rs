// SPDX-License-Identifier: MIT OR Apache-2.0

//! What becomes of a worker that is broken: it dies, is silent, or says what it should not.

use super::call::Call;
use super::greedy::{hoard, swarm};
use super::owner::{Owner, crash, packet};
use super::{HOARDS, SWARMS};
use bellhop_worker::messages::{Done, Loaded, Missing, NotLoaded, Ready, Text, Unmapped, Wild};
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// The processor time that kernels `takes_long` take to compile.
pub const TAKES_LONG: Duration = Duration::from_millis(300);

/// What becomes of a worker that compiles a kernel.
pub(super) fn compile(owner: &Owner<'_>, kernel: u32, name: &str) {
    let wild = Wild { store: 0, known: 1, address: 8 };
    match name {
        "crashes" => crash(),
        "is_silent" => {}
        name if name.starts_with("takes_long") => {
            let taken =
                || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
            let begin = taken();
            while taken() < begin + TAKES_LONG {}
            owner.tell(&Loaded { kernel });
        }
        "refuses" => owner.tell(&NotLoaded { kernel, why: Text::new("no such instruction") }),
        "loads_another" => owner.tell(&Loaded { kernel: kernel ^ 1 }),
        "has_run" => owner.tell(&Done { count: 1 }),
        "faults" => owner.tell(&Missing { slot: 0, store: 0, address: 1 << 20 }),
        "is_wild" => owner.tell(&wild),
        "is_ready_again" => owner.tell(&Ready { pointers: 1, resident: 0 }),
        "sends_bytes" => drop(owner.tell_bytes(b"no packet")),
        "sends_much" => drop(owner.tell_bytes(&[0x83; 16_384])),
        "sends_a_descriptor" => owner.tell_with_descriptor(&Loaded { kernel }),
        _ => owner.tell(&Loaded { kernel }),
    }
}

/// What becomes of a worker that executes a kernel. `told` is the pipe by which one is told to end.
pub(super) fn execute(owner: &Owner<'_>, name: &str, call: &Call, told: Option<&Path>) {
    let Call { count, address, .. } = *call;
    let missing = Missing { slot: 0, store: 0, address };
    match name {
        "run_crashes" => crash(),
        "run_is_silent" => {}
        HOARDS => hoard(),
        SWARMS if swarm().kind() == ErrorKind::WouldBlock => call.end(),
        "run_until_told" => {
            // Opened once somebody opens the other end.
            let _ = told.map(File::open);
            call.end();
        }
        "run_stops" => {
            let _ = kill_process(getpid(), Signal::STOP);
        }
        "run_ends_another" => owner.tell(&Done { count: count + 1 }),
        "run_loads" => owner.tell(&Loaded { kernel: 1 }),
        "run_is_ready_again" => owner.tell(&Ready { pointers: 1, resident: 0 }),
        "run_forgets" => owner.tell(&Unmapped { address: 1 << 20, length: 4096 }),
        "run_faults_outside" => owner.tell(&Missing { slot: 0, store: 0, address: 1 << 40 }),
        "run_faults_nowhere" => owner.tell(&Missing { slot: 999, ..missing }),
        // It has memory mapped, and forgets none of it.
        "run_faults" => owner.tell(&missing),
        // Each answer is in the other socket.
        "run_faults_for_ever" => while owner.tell_bytes(&packet(&missing)) {},
        "run_sends_bytes" => drop(owner.tell_bytes(b"no packet")),
        "run_sends_a_descriptor" => owner.tell_with_descriptor(&Done { count }),
        _ => call.end(),
    }
}
