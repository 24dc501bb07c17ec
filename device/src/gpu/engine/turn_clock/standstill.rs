// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long an engine stood in a turn: its thread waited in the host's kernel for a page of the guest's memory.
//!
//! A turn that takes long has either stood, which is its guest's doing, or another thread had the engine's processor. The host's
//! kernel tells the two apart: it counts how long each thread ran, and how long it waited for a processor. The thread was
//! blocked for the rest.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::pread;
use rustix::thread::gettid;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Longest time that one turn is said to have stood, in nanoseconds. A daemon that somebody stops, and continues later, has
/// not run either, and no guest is to pay for an hour of that.
const LONGEST: u64 = 30_000_000_000;

/// Since when a thread's times are known.
#[derive(Debug)]
struct Known {
    /// `/proc/self/task/TID/schedstat`.
    file: OwnedFd,
    /// Nanoseconds that the thread ran or waited for a processor, when they were last read.
    busy: u64,
    /// The time on the adapter's clock from when on the thread was not to be blocked.
    since: u64,
}

/// Tells for how long turns of the calling thread stood. Without the host's kernel's counts, none does.
#[derive(Debug, Default)]
pub struct Standstill(Option<Known>);

impl Standstill {
    /// The calling thread begins to give turns.
    pub fn begin(&mut self, now: u64) {
        let path = format!("/proc/self/task/{}/schedstat", gettid().as_raw_nonzero());
        let known = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .ok()
            .and_then(|file| Some(Known { busy: busy(&file)?, file, since: now }));
        if known.is_none() {
            tracing::debug!("the kernel does not count how long threads run (/proc/PID/schedstat)");
        }
        self.0 = known;
    }

    /// The thread is about to sleep until it has work.
    pub fn sleep(&mut self) {
        if let Some(known) = &mut self.0
            && let Some(now) = busy(&known.file)
        {
            known.busy = now;
        }
    }

    /// The thread has slept until this time on the adapter's clock.
    pub fn wake(&mut self, now: u64) {
        if let Some(known) = &mut self.0 {
            known.since = now;
        }
    }

    /// For how many nanoseconds a long turn stood, which began and ended at these times on the adapter's clock. For `waited`
    /// the thread has waited for other processes since it slept last, or since the last call.
    #[cold]
    pub fn of_turn(&mut self, (began, ended): (u64, u64), waited: Duration) -> u64 {
        let Some(known) = &mut self.0 else { return 0 };
        let Some(busy) = busy(&known.file) else { return 0 };
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        let passed = ended.saturating_sub(known.since).saturating_sub(waited);
        let blocked = passed.saturating_sub(busy.saturating_sub(known.busy));
        (known.busy, known.since) = (busy, ended);
        blocked.min(ended.saturating_sub(began)).min(LONGEST)
    }
}

/// Nanoseconds that a thread ran or waited for a processor.
#[expect(clippy::disallowed_methods, reason = "an engine: a file of the kernel in memory")]
fn busy(file: &OwnedFd) -> Option<u64> {
    let mut text = [0; 64];
    let length = pread(file, &mut text, 0).ok()?;
    let mut numbers = std::str::from_utf8(text.get(..length)?).ok()?.split_ascii_whitespace();
    let [ran, waited] = [(); 2].map(|()| numbers.next()?.parse::<u64>().ok());
    Some(ran?.saturating_add(waited?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const TURN: Duration = Duration::from_millis(60);

    /// How much of a turn, in which the thread does this, it stood.
    fn stood(turn: impl FnOnce()) -> f64 {
        let epoch = Instant::now();
        let now = || epoch.elapsed().as_nanos() as u64;
        let mut standstill = Standstill::default();
        standstill.begin(now());
        let began = now();
        turn();
        let ended = now();
        standstill.of_turn((began, ended), Duration::ZERO) as f64 / (ended - began) as f64
    }

    #[test]
    fn a_turn_in_which_the_thread_was_blocked_stood() {
        // Longer than asked for, if the processor is busy then: that was not being blocked.
        let (over, blocked) = std::sync::mpsc::channel::<()>();
        let wait = || assert!(blocked.recv_timeout(TURN).is_err());
        assert!(stood(wait) > 0.0);
        drop(over);
    }

    #[test]
    fn waiting_for_another_process_is_no_standing() {
        let epoch = Instant::now();
        let now = || epoch.elapsed().as_nanos() as u64;
        let mut standstill = Standstill::default();
        standstill.begin(now());
        let (over, waiting) = std::sync::mpsc::channel::<()>();
        let (began, start) = (now(), Instant::now());
        assert!(waiting.recv_timeout(TURN).is_err());
        let waited = start.elapsed();
        let stood = standstill.of_turn((began, now()), waited);
        assert!(stood < TURN.as_nanos() as u64 / 10, "{stood}");
        drop(over);
    }

    #[test]
    fn a_turn_in_which_the_thread_ran_or_others_had_its_processor_did_not_stand() {
        let start = Instant::now();
        let spin = || while start.elapsed() < TURN {};
        assert!(stood(spin) < 0.1);
        // Yielding gives the processor away.
        let start = Instant::now();
        assert!(
            stood(|| while start.elapsed() < TURN {
                std::thread::yield_now()
            }) < 0.1
        );
    }

    #[test]
    fn sleeping_for_want_of_work_counts_for_no_turn() {
        let epoch = Instant::now();
        let now = || epoch.elapsed().as_nanos() as u64;
        let mut standstill = Standstill::default();
        standstill.begin(now());
        standstill.sleep();
        let (over, sleeping) = std::sync::mpsc::channel::<()>();
        let _ = sleeping.recv_timeout(TURN);
        drop(over);
        standstill.wake(now());
        let began = now();
        while now() - began < TURN.as_nanos() as u64 {}
        let stood = standstill.of_turn((began, now()), Duration::ZERO);
        assert!(stood < TURN.as_nanos() as u64 / 10, "{stood}");
    }
}
