// SPDX-License-Identifier: MIT OR Apache-2.0

//! A CRTC's timing: when each VSYNC is, and which line is scanned out at a time.
//!
//! A VSYNC is the begin of the vertical blank: "the display has just finished scanning a full frame". Times are
//! computed from the count of VSYNCs, in whole numbers, so that no rate drifts. With variable refresh the blank lasts
//! until a flip ends it, within the monitor's limits.
//!
//! Source: Windows KMD overview, "Flip/Present" (VSYNC flip, immediate flip), and "Interrupt" (VSYNC interrupts).

use std::num::NonZeroU32;

const SECOND: u128 = 1_000_000_000;

/// The timing of a target's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Lines that are visible; fewer than `total_lines`.
    pub lines: u32,
    /// Lines of a frame with its vertical blank.
    pub total_lines: NonZeroU32,
    /// Frames in `refresh_denominator` seconds; the highest rate if the rate is variable.
    pub refresh_numerator: NonZeroU32,
    /// See `refresh_numerator`.
    pub refresh_denominator: NonZeroU32,
    /// The lowest rate, in frames in 1000 seconds, if the rate is variable.
    pub min_refresh: Option<NonZeroU32>,
}

/// The line that is scanned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScannedLine {
    /// The line; lines of the blank follow the visible ones.
    pub line: u32,
    /// Whether it is one of the vertical blank.
    pub in_vertical_blank: bool,
}

/// A VSYNC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vsync {
    /// How many VSYNCs came before it since the CRTC was started.
    pub count: u64,
    /// Its time, in nanoseconds.
    pub time: u64,
}

/// A running CRTC. Times are nanoseconds of one monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crtc {
    timing: Timing,
    /// A VSYNC that others are computed from. With a constant rate it is the first one.
    anchor: Vsync,
}

/// A period as a fraction of seconds.
#[derive(Debug, Clone, Copy)]
struct Period {
    numerator: u128,
    denominator: u128,
}

impl Period {
    /// Nanoseconds of `count` periods, rounded down.
    fn times(self, count: u64) -> u64 {
        let time = u128::from(count) * self.numerator * SECOND / self.denominator;
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// How many periods have ended after this many nanoseconds: the largest count with `times(count) <= time`.
    fn count(self, time: u64) -> u64 {
        // `floor(x) <= time` is `x < time + 1`, for the fraction `x` that `times` rounds down.
        let count = ((u128::from(time) + 1) * self.denominator - 1) / (self.numerator * SECOND);
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

impl Crtc {
    /// A CRTC with its first VSYNC, number 0, at `start`.
    pub fn new(timing: Timing, start: u64) -> Self {
        Self::from(timing, Vsync { count: 0, time: start })
    }

    /// A CRTC that goes on from a VSYNC.
    pub fn from(timing: Timing, vsync: Vsync) -> Self {
        Self { timing, anchor: vsync }
    }

    /// The shortest interval from a VSYNC to the next.
    fn shortest(&self) -> Period {
        Period {
            numerator: self.timing.refresh_denominator.get().into(),
            denominator: self.timing.refresh_numerator.get().into(),
        }
    }

    /// The interval from a VSYNC to the next while nothing is flipped.
    fn longest(&self) -> Period {
        match self.timing.min_refresh {
            Some(rate) => Period { numerator: 1000, denominator: rate.get().into() },
            None => self.shortest(),
        }
    }

    /// The last VSYNC at a time or before it; the first one if it is still to come.
    pub fn last(&self, now: u64) -> Vsync {
        let passed = self.longest().count(now.saturating_sub(self.anchor.time));
        self.after_anchor(passed)
    }

    /// The next VSYNC after a time, while nothing is flipped.
    pub fn next(&self, now: u64) -> Vsync {
        if now < self.anchor.time {
            return self.anchor;
        }
        let passed = self.longest().count(now - self.anchor.time);
        self.after_anchor(passed.saturating_add(1))
    }

    fn after_anchor(&self, count: u64) -> Vsync {
        Vsync {
            count: self.anchor.count.saturating_add(count),
            time: self.anchor.time.saturating_add(self.longest().times(count)),
        }
    }

    /// The VSYNC at which a flip happens that is asked for at a time. With variable refresh it ends the blank: it comes
    /// at once, but not earlier than a frame at the highest rate takes.
    pub fn flip(&self, asked: u64) -> Vsync {
        let next = self.next(asked);
        if self.timing.min_refresh.is_none() || asked < self.anchor.time {
            return next;
        }
        let last = self.last(asked);
        let earliest = last.time.saturating_add(self.shortest().times(1));
        Vsync { count: next.count, time: asked.max(earliest).min(next.time) }
    }

    /// A flip has ended the blank at this VSYNC, from which the following ones are counted. Without variable refresh
    /// VSYNCs stay where they are.
    pub fn flipped(&mut self, vsync: Vsync) {
        if self.timing.min_refresh.is_some() {
            self.anchor = vsync;
        }
    }

    /// The line that is scanned out at a time.
    pub fn line(&self, now: u64) -> ScannedLine {
        let Timing { lines, total_lines, .. } = self.timing;
        let total = total_lines.get();
        let passed = u128::from(now.saturating_sub(self.last(now).time));
        let Period { numerator, denominator } = self.shortest();
        let line = passed * u128::from(total) * denominator / (numerator * SECOND);
        let blank = total.saturating_sub(lines);
        match u32::try_from(line) {
            Ok(line) if line < blank => ScannedLine { line: lines + line, in_vertical_blank: true },
            Ok(line) if line < total => {
                ScannedLine { line: line - blank, in_vertical_blank: false }
            }
            // The frame is over: with variable refresh its blank begins early and lasts.
            _ => ScannedLine { line: lines, in_vertical_blank: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn timing(numerator: u32, denominator: u32) -> Timing {
        let number = |number| NonZeroU32::new(number).unwrap();
        Timing {
            lines: 1080,
            total_lines: number(1125),
            refresh_numerator: number(numerator),
            refresh_denominator: number(denominator),
            min_refresh: None,
        }
    }

    fn variable(min: u32, max: u32) -> Timing {
        Timing { min_refresh: NonZeroU32::new(min * 1000), ..timing(max, 1) }
    }

    fn at(count: u64, time: u64) -> Vsync {
        Vsync { count, time }
    }

    /// Times that were computed by hand: the count of seconds times 1e9, for counts that are whole seconds.
    #[test]
    fn no_rate_drifts_in_a_billion_frames() {
        // 60000/1001 Hz: 60000 frames take 1001 s, so 999,960,000 frames take 16666 * 1001 s.
        let ntsc = Crtc::new(timing(60_000, 1001), 7);
        assert_eq!(
            ntsc.next(7 + 16_682_666 * 1_000_000_000 - 1),
            at(999_960_000, 16_682_666_000_000_007)
        );
        // 24000/1001 Hz, 23.976: 24000 frames take 1001 s.
        let film = Crtc::new(timing(24_000, 1001), 0);
        assert_eq!(
            film.last(41_708_333 * 1001 / 1001 * 1_000_000_000),
            at(999_999_992, 41_708_332_999_666_666)
        );
        // 60000000/1000000 and 240 Hz: a second each.
        let whole = Crtc::new(timing(240, 1), 0);
        assert_eq!(whole.last(4_166_667 * 1_000_000_000), at(1_000_000_080, 4_166_667_000_000_000));
        let same = Crtc::new(timing(60_000_000, 1_000_000), 0);
        assert_eq!(same.next(999_999_999), at(60, 1_000_000_000));
    }

    #[test]
    fn the_first_vsync_is_at_the_start_and_the_next_an_interval_later() {
        let crtc = Crtc::new(timing(60_000, 1001), 1000);
        assert_eq!(crtc.next(0), at(0, 1000));
        assert_eq!(crtc.last(0), at(0, 1000));
        // 1001/60000 s are 16,683,333.3 ns.
        assert_eq!(crtc.next(1000), at(1, 16_684_333));
        assert_eq!(crtc.last(16_684_332), at(0, 1000));
        assert_eq!(crtc.last(16_684_333), at(1, 16_684_333));
    }

    #[test]
    fn lines_are_those_of_the_blank_and_then_the_visible_ones() {
        // 1125 lines at 40 Hz: a line takes 22,222.2 ns, and the blank of 45 lines 1 ms.
        let crtc = Crtc::new(timing(40, 1), 0);
        let line = |now| {
            let ScannedLine { line, in_vertical_blank } = crtc.line(now);
            (line, in_vertical_blank)
        };
        assert_eq!(line(0), (1080, true));
        assert_eq!(line(999_999), (1124, true));
        assert_eq!(line(1_000_000), (0, false));
        assert_eq!(line(13_000_000), (540, false));
        assert_eq!(line(24_999_999), (1079, false));
        assert_eq!(line(25_000_000), (1080, true));
    }

    #[test]
    fn without_flips_a_variable_rate_is_the_lowest() {
        let crtc = Crtc::new(variable(40, 100), 0);
        assert_eq!(crtc.next(0), at(1, 25_000_000));
        assert_eq!(crtc.last(80_000_000), at(3, 75_000_000));
        // A frame takes 10 ms, and the rest is blank.
        assert!(!crtc.line(9_999_999).in_vertical_blank);
        let waiting = ScannedLine { line: 1080, in_vertical_blank: true };
        assert_eq!((crtc.line(10_000_000), crtc.line(24_999_999)), (waiting, waiting));
    }

    #[test]
    fn a_flip_ends_the_blank_but_not_the_frame() {
        let mut crtc = Crtc::new(variable(40, 100), 0);
        assert_eq!(crtc.flip(3_000_000), at(1, 10_000_000));
        assert_eq!(crtc.flip(13_000_000), at(1, 13_000_000));
        assert_eq!(crtc.flip(24_999_999), at(1, 24_999_999));
        assert_eq!(crtc.flip(25_000_000), at(2, 35_000_000));
        crtc.flipped(at(1, 13_000_000));
        assert_eq!(crtc.next(13_000_000), at(2, 38_000_000));
        assert_eq!(crtc.flip(14_000_000), at(2, 23_000_000));
    }

    #[test]
    fn a_flip_moves_no_vsync_of_a_constant_rate() {
        let mut crtc = Crtc::new(timing(100, 1), 0);
        assert_eq!(crtc.flip(3_000_000), at(1, 10_000_000));
        crtc.flipped(at(1, 10_500_000));
        assert_eq!(crtc.next(11_000_000), at(2, 20_000_000));
    }

    proptest! {
        #[test]
        fn the_next_vsync_follows_the_last_one_at_every_time(
            numerator in 1u32..=u32::MAX, denominator in 1u32..=u32::MAX, start: u32, now in 0u64..1 << 62,
        ) {
            let crtc = Crtc::new(timing(numerator, denominator), start.into());
            let now = now + u64::from(start);
            let (last, next) = (crtc.last(now), crtc.next(now));
            prop_assert!(last.time <= now && (now < next.time || next.time == last.time), "{last:?} {next:?}");
            prop_assert_eq!(next.count, last.count + 1);
            let line = crtc.line(now);
            prop_assert!(line.line < 1125 && line.in_vertical_blank == (line.line >= 1080));
        }
    }
}
