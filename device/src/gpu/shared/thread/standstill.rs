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

/// What a thread is counted from.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// Nanoseconds that the thread had run or waited for a processor by `since`.
    busy: u64,
    /// The time on the adapter's clock from when on the thread was not to be blocked.
    since: u64,
}

impl Counted {
    /// For how many nanoseconds a turn stood. `busy` is as of its end.
    fn of_turn(&mut self, (began, ended): (u64, u64), waited: u64, busy: u64) -> u64 {
        let passed = ended.saturating_sub(self.since).saturating_sub(waited);
        let blocked = passed.saturating_sub(busy.saturating_sub(self.busy));
        *self = Self { busy, since: ended };
        blocked.min(ended.saturating_sub(began)).min(LONGEST)
    }
}

/// Since when a thread's times are known.
#[derive(Debug)]
struct Known {
    /// `/proc/self/task/TID/schedstat`.
    file: OwnedFd,
    counted: Counted,
}

/// Tells for how long turns of the calling thread stood, or what else it does one after another. Without the host's kernel's
/// counts, none does.
#[derive(Debug, Default)]
pub struct Standstill(Option<Known>);

impl Standstill {
    /// The calling thread begins to give turns.
    pub fn begin(&mut self, now: u64) {
        let path = format!("/proc/self/task/{}/schedstat", gettid().as_raw_nonzero());
        let known =
            open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok().and_then(|file| {
                Some(Known { counted: Counted { busy: busy(&file)?, since: now }, file })
            });
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
            known.counted = Counted { busy, since: now };
        }
    }

    /// Whether it is long since the thread began to count.
    #[inline]
    pub fn is_stale(&self, now: u64) -> bool {
        self.0.as_ref().is_some_and(|known| now.saturating_sub(known.counted.since) > STALE)
    }

    /// The thread has slept until this time on the adapter's clock, since it began to count.
    pub fn wake(&mut self, now: u64) {
        if let Some(known) = &mut self.0 {
            known.counted.since = now;
        }
    }

    /// For how many nanoseconds a long turn stood, which began and ended at these times on the adapter's clock. For `waited`
    /// the thread has waited for other processes since it began to count.
    #[cold]
    pub fn of_turn(&mut self, turn: (u64, u64), waited: Duration) -> u64 {
        let Some(known) = &mut self.0 else { return 0 };
        let Some(busy) = busy(&known.file) else { return 0 };
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        known.counted.of_turn(turn, waited, busy)
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

    /// A millisecond.
    const MS: u64 = 1_000_000;

    /// For how many milliseconds a turn stood: its beginning and end, the time that the thread waited for other processes, and
    /// what it was busy by the end. It is counted from 100 on, by when it was busy for 40.
    fn stood(turn: (u64, u64), waited: u64, busy: u64) -> u64 {
        let mut counted = Counted { busy: 40 * MS, since: 100 * MS };
        let stood = counted.of_turn((turn.0 * MS, turn.1 * MS), waited * MS, busy * MS);
        let next = counted.of_turn((turn.1 * MS, turn.1 * MS + 5), 0, busy * MS + 5);
        assert_eq!(next, 0, "a turn that was busy, behind it");
        stood / MS
    }

    #[test]
    fn a_turn_stood_for_the_time_in_which_the_thread_was_not_busy() {
        assert_eq!(stood((100, 160), 0, 40), 60);
        assert_eq!(stood((100, 160), 0, 100), 0);
        assert_eq!(stood((100, 160), 0, 75), 25);
        // A count that is ahead of the clock.
        assert_eq!(stood((100, 160), 0, 170), 0);
    }

    #[test]
    fn waiting_for_another_process_is_no_standing() {
        assert_eq!(stood((100, 160), 60, 40), 0);
        assert_eq!(stood((100, 160), 50, 40), 10);
        assert_eq!(stood((100, 160), 1000, 40), 0);
    }

    #[test]
    fn what_was_before_a_turn_counts_for_it_only_as_far_as_the_turn_is_long() {
        assert_eq!(stood((140, 160), 0, 40), 20);
        assert_eq!(stood((140, 160), 0, 90), 10);
    }

    #[test]
    fn no_turn_stands_for_longer_than_anybody_is_to_pay_for() {
        assert_eq!(stood((100, 3_600_000), 0, 40), LONGEST / MS);
    }

    const TURN: Duration = Duration::from_millis(60);
    const NANOSECONDS: u64 = TURN.as_nanos() as u64;
    /// More than the counts are off by.
    const LITTLE: u64 = NANOSECONDS / 10;

    /// Whether one of a few turns is as expected. Where the machine is a guest itself, its own host may take the processor
    /// during a turn, and nothing counts that.
    fn of_a_few(
        is_as_expected: impl Fn(u64) -> bool,
        turn: impl Fn() -> u64,
    ) -> Result<(), Vec<u64>> {
        let mut all = Vec::new();
        for _ in 0..10 {
            all.push(turn());
            if all.last().is_some_and(|stood| is_as_expected(*stood)) {
                return Ok(());
            }
        }
        Err(all)
    }

    fn is_little(stood: u64) -> bool {
        stood < LITTLE
    }

    fn is_all(stood: u64) -> bool {
        stood > NANOSECONDS - LITTLE
    }

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

    /// The thread gives its processor away, again and again.
    fn give_way() {
        let start = Instant::now();
        while start.elapsed() < TURN {
            std::thread::yield_now();
        }
    }

    /// For how long a turn stood in which the thread does this, after something else and a new count.
    fn counted_behind(before: impl Fn(), turn: impl Fn()) -> u64 {
        let (now, mut standstill) = begun();
        before();
        standstill.count_from(now());
        let began = now();
        turn();
        standstill.of_turn((began, now()), Duration::ZERO)
    }

    #[test]
    fn the_host_tells_being_blocked_from_running_and_from_waiting_for_a_processor() {
        of_a_few(is_all, || counted_behind(|| {}, block)).unwrap();
        of_a_few(is_little, || counted_behind(|| {}, spin)).unwrap();
        of_a_few(is_little, || counted_behind(|| {}, give_way)).unwrap();
    }

    #[test]
    fn what_was_before_a_count_neither_adds_to_a_turn_nor_hides_one() {
        of_a_few(is_little, || counted_behind(block, spin)).unwrap();
        of_a_few(is_all, || counted_behind(spin, block)).unwrap();
    }

    #[test]
    fn sleeping_for_want_of_work_counts_for_no_turn() {
        of_a_few(is_little, || {
            let (now, mut standstill) = begun();
            standstill.count_from(now());
            block();
            standstill.wake(now());
            let began = now();
            spin();
            standstill.of_turn((began, now()), Duration::ZERO)
        })
        .unwrap();
    }

    #[test]
    fn a_count_is_stale_when_it_is_long_since() {
        let (now, standstill) = begun();
        let now = now();
        assert!(!standstill.is_stale(now) && standstill.is_stale(now + 2 * STALE));
        assert!(!Standstill::default().is_stale(now + 2 * STALE));
    }
}
