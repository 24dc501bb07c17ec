// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a worker does that was taken over: it has its guest's memory, and everything that Linux lets it do.

use super::call::Call;
use super::hands::Hands;
use super::mapping::undo_stop;
use super::memory::{GO, RESULT, STOP, WORD};
use super::owner::Owner;
use super::{
    CALLS_LONG, COMPUTES, DIES_SLOWLY, THEN_SPINS, TRIES, UNDOES_STOPS, forbidden, page_tables,
};
use rustix::net::{Shutdown, shutdown};
use rustix::stdio::stdin;
use rustix::time::{ClockId, clock_gettime};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How long an honest kernel computes: for many turns of its engine.
pub(super) const COMPUTING: Duration = Duration::from_millis(20);

/// Executes a kernel of this module. Returns false if it is none.
pub(super) fn execute(name: &str, call: &Call, hands: &Hands) -> bool {
    let own = call.clone();
    match name {
        COMPUTES => compute(own, hands),
        // This one is honest, and not fast.
        "run_counts" => hands.give(move || count(&own)),
        "run_continues" => {
            have_stops_undone();
            hands.give(move || own.store(WORD, 1));
        }
        UNDOES_STOPS => {
            let hand = move || {
                // Outside the sandbox, the stop that comes meanwhile is undone.
                own.store(RESULT, u64::from(undo_stop().is_err()));
                own.store(WORD, 1);
                undo_stops();
            };
            hands.give(hand);
            hands.give_all(undo_stops);
        }
        "run_hangs_up" => hands.give(move || {
            own.store(WORD, 1);
            await_go(&own, WORD);
            let _ = shutdown(stdin(), Shutdown::Both);
        }),
        DIES_SLOWLY => hands.give(move || {
            page_tables::fill(&own.part());
            own.store(WORD, 1);
            await_go(&own, STOP);
            Owner(stdin()).tell_bytes(b"no packet");
        }),
        CALLS_LONG => {
            let hand = move || {
                own.store(WORD, 1);
                page_tables::call_for_ever();
            };
            hands.give(hand);
        }
        TRIES => hands.give(move || {
            own.store(RESULT, forbidden::attempt(&own.part()));
            own.end();
        }),
        THEN_SPINS => {
            hands.give_all(spin);
            call.end();
        }
        "run_then_continues" => {
            have_stops_undone();
            hands.give_all(spin);
            call.end();
        }
        _ => return false,
    }
    true
}

/// Has all threads compute, and ends when the last is done.
fn compute(call: Call, hands: &Hands) {
    let left = Arc::new(AtomicUsize::new(hands.count()));
    hands.give_all(move || {
        let taken =
            || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        let begin = taken();
        while taken() < begin + COMPUTING {
            (0..1000).for_each(|_| std::hint::spin_loop());
        }
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            call.end();
        }
    });
}

/// Stores again and again until its client tells it to end.
fn count(call: &Call) {
    let mut stored = 0;
    call.memory.counts.store(true, Ordering::Relaxed);
    while call.load(STOP) != GO {
        stored += 1;
        call.store(WORD, stored);
        call.memory.stored.store(stored, Ordering::Relaxed);
    }
    call.memory.counts.store(false, Ordering::Relaxed);
    call.end();
}

/// Waits until its client stores a word.
fn await_go(call: &Call, offset: u64) {
    while call.load(offset) != GO {
        thread::yield_now();
    }
}

/// From now on each stop of this process is undone by another. Its own threads can do so only before the last of them has
/// stopped; another process can at any time. The sandbox allows none.
fn have_stops_undone() {
    let endless = format!("while kill -CONT {}; do :; done", std::process::id());
    let mut command = Command::new("sh");
    command.args(["-c", &endless]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut other) = command.spawn() else { return };
    // It ends soon after this process, which cannot wait for that.
    thread::spawn(move || other.wait());
}

/// Undoes each stop of this process that comes, for ever.
fn undo_stops() {
    loop {
        let _ = undo_stop();
    }
}

fn spin() {
    loop {
        std::hint::spin_loop();
    }
}
