// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long a thread stood: it waited in the host's kernel for a page of a guest's memory. The thread is an engine in a turn,
//! or the control plane's hand.
//!
//! A turn that takes long has either stood, which is its guest's doing, or another thread had the engine's processor. The host's
//! kernel tells the two apart: it counts how long each thread ran, and how long it waited for a processor. The thread was
//! blocked for the rest.
//!
//! An engine reads the counts when a long turn has ended, and now and then before, so that what it did otherwise than in
//! that turn does not add up: it is counted from the last time on.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::pread;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Longest time that one turn is said to have stood, in nanoseconds. A daemon that somebody stops, and continues later, has
/// not run either, and no guest is to pay for an hour of that.
const LONGEST: u64 = 30_000_000_000;
/// Nanoseconds after which an engine counts anew.
const STALE: u64 = 100_000_000;

/// Since when a thread's times are known.
#[derive(Debug)]
struct Known {
    /// `/proc/self/task/TID/schedstat`.
    file: OwnedFd,
    /// Nanoseconds that the thread had run or waited for a processor by `since`.
    busy: u64,
    /// The time on the adapter's clock from when on the thread was not to be blocked.
    since: u64,
}

/// Tells for how long turns of the calling thread stood, or what else it does one after another. Without the host's kernel's
/// counts, none does.
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

    /// What the thread did before this time on the adapter's clock counts for no turn.
    #[cold]
    pub fn count_from(&mut self, now: u64) {
        if let Some(known) = &mut self.0
            && let Some(busy) = busy(&known.file)
        {
            (known.busy, known.since) = (busy, now);
        }
    }

    /// Whether it is long since the thread began to count.
    #[inline]
    pub fn is_stale(&self, now: u64) -> bool {
        self.0.as_ref().is_some_and(|known| now.saturating_sub(known.since) > STALE)
    }

    /// The thread has slept until this time on the adapter's clock, since it began to count.
    pub fn wake(&mut self, now: u64) {
        if let Some(known) = &mut self.0 {
            known.since = now;
        }
    }

    /// For how many nanoseconds a long turn stood, which began and ended at these times on the adapter's clock. For `waited`
    /// the thread has waited for other processes since it began to count.
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

/// Nanoseconds that the calling thread ran or waited for a processor. Its file has the latter exactly, and the former as of the
/// last tick.
#[expect(
    clippy::disallowed_methods,
    reason = "an engine, or the hand: a file of the kernel in memory"
)]
fn busy(file: &OwnedFd) -> Option<u64> {
    let mut text = [0; 64];
    let length = pread(file, &mut text, 0).ok()?;
    let mut numbers = std::str::from_utf8(text.get(..length)?).ok()?.split_ascii_whitespace();
    let [_, waited, times] = [(); 3].map(|()| numbers.next()?.parse::<u64>().ok());
    let ran = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).ok()?;
    let ran = u64::try_from(ran.as_nanos()).ok()?;
    // A thread that runs was given a processor before: a kernel that does not count writes zeroes.
    (times? > 0).then_some(ran.saturating_add(waited?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    const TURN: Duration = Duration::from_millis(60);
    const NANOSECONDS: u64 = TURN.as_nanos() as u64;
    /// More than the counts are off by.
    const LITTLE: u64 = NANOSECONDS / 10;

    /// From now on: the adapter's clock, and the thread's times.
    fn begun() -> (impl Fn() -> u64, Standstill) {
        let epoch = Instant::now();
        let now = move || epoch.elapsed().as_nanos() as u64;
        let mut standstill = Standstill::default();
        standstill.begin(now());
        (now, standstill)
    }

    /// The thread is blocked. How long that takes beyond the time depends on who else wants the processor then.
    fn block() {
        let (_never, blocked) = channel::<()>();
        assert!(blocked.recv_timeout(TURN).is_err());
    }

    fn spin() {
        let start = Instant::now();
        while start.elapsed() < TURN {}
    }

    /// For how long a turn stood in which the thread does this.
    fn stood(turn: impl FnOnce()) -> u64 {
        let (now, mut standstill) = begun();
        let began = now();
        turn();
        standstill.of_turn((began, now()), Duration::ZERO)
    }

    #[test]
    fn a_turn_in_which_the_thread_was_blocked_stood() {
        let stood = stood(block);
        assert!(stood > NANOSECONDS - LITTLE, "{stood}");
    }

    #[test]
    fn a_turn_in_which_the_thread_ran_or_others_had_its_processor_did_not_stand() {
        assert!(stood(spin) < LITTLE);
        // Yielding gives the processor away.
        let start = Instant::now();
        assert!(
            stood(|| while start.elapsed() < TURN {
                std::thread::yield_now()
            }) < LITTLE
        );
    }

    #[test]
    fn waiting_for_another_process_is_no_standing() {
        let (now, mut standstill) = begun();
        let (began, start) = (now(), Instant::now());
        block();
        let waited = start.elapsed();
        let stood = standstill.of_turn((began, now()), waited);
        assert!(stood < LITTLE, "{stood}");
    }

    #[test]
    fn sleeping_for_want_of_work_counts_for_no_turn() {
        let (now, mut standstill) = begun();
        standstill.count_from(now());
        block();
        standstill.wake(now());
        let began = now();
        spin();
        let stood = standstill.of_turn((began, now()), Duration::ZERO);
        assert!(stood < LITTLE, "{stood}");
    }

    #[test]
    fn what_was_before_a_sleep_that_did_not_come_about_counts_for_no_turn() {
        let (now, mut standstill) = begun();
        spin();
        standstill.count_from(now());
        let began = now();
        spin();
        let stood = standstill.of_turn((began, now()), Duration::ZERO);
        assert!(stood < LITTLE, "{stood}");
    }

    #[test]
    fn what_an_engine_ran_before_hides_no_standing() {
        let (now, mut standstill) = begun();
        spin();
        assert!(!standstill.is_stale(now()) && standstill.is_stale(now() + STALE));
        // As after a sleep, or when it is long since.
        standstill.count_from(now());
        let began = now();
        block();
        let stood = standstill.of_turn((began, now()), Duration::ZERO);
        assert!(stood > NANOSECONDS - LITTLE, "{stood}");
    }
}
