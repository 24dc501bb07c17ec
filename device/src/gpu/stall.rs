//! Whether a queue gets nowhere.
//!
//! Only time that the engine's thread was running counts: on a host with more to do than processors a
//! queue is not condemned for what it did not have. The clock of a thread's own time takes a system call,
//! which no queue that makes progress is to pay for. So turns are timed by the wall, as for shares, until
//! a queue is suspect; from then on its turns are timed by the thread's clock, and only those count.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Which part of the limit a queue gets nowhere, by the wall, before it is suspect.
const SUSPECT: u32 = 16;

/// What moves while a queue makes progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// How far its ring was read.
    pub read_pointer: u64,
    /// The packet that is being executed, in the host's own buffers: none of them takes long.
    pub packet: u64,
    /// Kernel-mode submissions that were begun.
    pub submissions: u64,
    /// CurrentValue of its progress fence.
    pub progress_fence: u64,
}

/// What a turn took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnTime {
    /// By the wall.
    Wall(Duration),
    /// Of the engine's thread.
    Thread(Duration),
}

/// How long a queue has got nowhere.
#[derive(Debug, Default)]
pub struct Stall {
    /// Where it was seen to have moved last.
    mark: Mark,
    /// For how long it has been executed since, until it was suspect.
    wall: Duration,
    /// For how long the engine's thread has executed it since then.
    thread: Duration,
}

impl Stall {
    /// Whether its next turn is to be timed by the thread's clock.
    #[inline]
    pub fn is_suspect(&self, limit: Duration) -> bool {
        self.wall > limit / SUSPECT
    }

    /// Charges a turn, after which it could have gone on. Returns for how long it has got nowhere when
    /// that is more than `limit`, and again after as long.
    pub fn charge(&mut self, mark: Mark, time: TurnTime, limit: Duration) -> Option<Duration> {
        if self.mark != mark {
            *self = Self { mark, ..Self::default() };
        }
        match time {
            TurnTime::Wall(time) => self.wall += time,
            TurnTime::Thread(time) => self.thread += time,
        }
        (self.thread > limit).then(|| std::mem::take(&mut self.thread))
    }
}

/// The time that the calling thread was running, since it began.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is ever negative.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(1600);
    const TURN: Duration = Duration::from_millis(10);
    const HERE: Mark = Mark { read_pointer: 16, packet: 0, submissions: 3, progress_fence: 5 };

    /// A turn of a queue, timed as an engine does.
    fn turn(stall: &mut Stall, mark: Mark, wall: Duration, thread: Duration) -> Option<Duration> {
        let time = match stall.is_suspect(LIMIT) {
            true => TurnTime::Thread(thread),
            false => TurnTime::Wall(wall),
        };
        stall.charge(mark, time, LIMIT)
    }

    #[test]
    fn a_queue_is_not_condemned_for_time_in_which_the_engines_thread_did_not_run() {
        let mut stall = Stall::default();
        for _ in 0..1000 {
            assert_eq!(turn(&mut stall, HERE, LIMIT, Duration::ZERO), None);
        }
    }

    #[test]
    fn a_queue_that_gets_nowhere_is_told_of_again_and_again() {
        let mut stall = Stall::default();
        let told: Vec<_> = (0..600)
            .filter(|_| turn(&mut stall, HERE, TURN, TURN).is_some_and(|time| time > LIMIT))
            .collect();
        // 11 turns until it is suspect, and 161 for each time.
        assert_eq!(told, [11 + 160, 11 + 321, 11 + 482]);
    }

    #[test]
    fn whatever_moves_is_progress_and_a_queue_that_moves_is_not_suspect() {
        let marks = [
            Mark { read_pointer: 32, ..HERE },
            Mark { packet: 8, ..HERE },
            Mark { submissions: 4, ..HERE },
            Mark { progress_fence: 6, ..HERE },
        ];
        for mark in marks {
            let mut stall = Stall::default();
            for _ in 0..160 {
                assert_eq!(turn(&mut stall, HERE, TURN, TURN), None);
            }
            assert!(stall.is_suspect(LIMIT));
            assert_eq!(turn(&mut stall, mark, TURN, TURN), None);
            assert!(!stall.is_suspect(LIMIT));
        }
    }

    #[test]
    fn a_thread_that_works_has_more_time_afterwards() {
        let before = thread_time();
        while thread_time() == before {
            std::hint::spin_loop();
        }
    }
}
