// SPDX-License-Identifier: MIT OR Apache-2.0

//! When an engine's thread moves to another processor, because it shares the one that it has with a guest.
//!
//! Linux wakes threads that wake each other on one processor, and leaves them there as long as each yields to the other,
//! although another is free: a submission then takes two switches of threads, 20 times as long as two cache lines.

use std::time::{Duration, Instant};

/// The shortest time between two moves. A move takes some microseconds.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest, where moves are of no use since all processors have work.
const LONGEST: Duration = Duration::from_secs(2);

/// The moves of a thread.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// When it moved last, and how long it stays at least.
    last: Option<(Instant, Duration)>,
}

impl Aside {
    /// Whether to move, for a thread that shares its processor now. Moves that are soon in vain become rarer.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let stay = match self.last {
            None => SHORTEST,
            Some((moved, stay)) => {
                let since = now.saturating_duration_since(moved);
                if since < stay {
                    return false;
                }
                if since < 4 * stay { (2 * stay).min(LONGEST) } else { SHORTEST }
            }
        };
        self.last = Some((now, stay));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a thread moves in this time that always shares its processor, and looks each 100 µs.
    fn moves(aside: &mut Aside, start: Instant, time: Duration) -> usize {
        let looks = time.as_micros() / 100;
        let looks = (0..looks as u64).map(|look| start + Duration::from_micros(100 * look));
        looks.filter(|now| aside.is_due(*now)).count()
    }

    #[test]
    fn a_thread_moves_at_once_and_seldom_if_it_is_of_no_use() {
        let (mut aside, start) = (Aside::default(), Instant::now());
        assert!(aside.is_due(start));
        assert!(!aside.is_due(start + SHORTEST / 2));
        assert!(moves(&mut aside, start, Duration::from_secs(20)) < 20);
    }

    #[test]
    fn a_thread_that_had_its_processor_for_long_moves_soon() {
        let (mut aside, start) = (Aside::default(), Instant::now());
        moves(&mut aside, start, Duration::from_secs(20));
        let later = start + Duration::from_secs(60);
        assert!(aside.is_due(later));
        assert!(aside.is_due(later + 2 * SHORTEST));
    }
}
