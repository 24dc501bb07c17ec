// SPDX-License-Identifier: MIT OR Apache-2.0

//! The signal of a mode: its blanks and synchronisation pulses.

use super::mode::{Mode, lowest};

/// Pixels of a line, or lines of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Visible ones.
    pub active: u32,
    /// From the visible ones to the pulse.
    pub front_porch: u32,
    /// The pulse.
    pub sync: u32,
    /// From the pulse to the next visible ones.
    pub back_porch: u32,
    /// Whether the pulse is positive.
    pub positive: bool,
}

impl Axis {
    /// All that are not visible.
    #[must_use]
    pub fn blank(&self) -> u32 {
        self.front_porch + self.sync + self.back_porch
    }

    /// All.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.active + self.blank()
    }
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Pixels of a line.
    pub horizontal: Axis,
    /// Lines of a frame.
    pub vertical: Axis,
    /// Frames in a number of seconds, in lowest terms.
    pub refresh: (u32, u32),
}

/// A video format of CTA-861: its code, and the horizontal and the vertical axis as active, front porch, sync, back
/// porch; the rate in whole Hz, which may also be 1000/1001 of that; whether pulses are positive.
struct Format(u8, [u32; 4], [u32; 4], u32, bool);

const FORMATS: [Format; 16] = [
    Format(1, [640, 16, 96, 48], [480, 10, 2, 33], 60, false),
    Format(4, [1280, 110, 40, 220], [720, 5, 5, 20], 60, true),
    Format(19, [1280, 440, 40, 220], [720, 5, 5, 20], 50, true),
    Format(47, [1280, 110, 40, 220], [720, 5, 5, 20], 120, true),
    Format(16, [1920, 88, 44, 148], [1080, 4, 5, 36], 60, true),
    Format(31, [1920, 528, 44, 148], [1080, 4, 5, 36], 50, true),
    Format(32, [1920, 638, 44, 148], [1080, 4, 5, 36], 24, true),
    Format(33, [1920, 528, 44, 148], [1080, 4, 5, 36], 25, true),
    Format(34, [1920, 88, 44, 148], [1080, 4, 5, 36], 30, true),
    Format(63, [1920, 88, 44, 148], [1080, 4, 5, 36], 120, true),
    Format(93, [3840, 1276, 88, 296], [2160, 8, 10, 72], 24, true),
    Format(94, [3840, 1056, 88, 296], [2160, 8, 10, 72], 25, true),
    Format(95, [3840, 176, 88, 296], [2160, 8, 10, 72], 30, true),
    Format(96, [3840, 1056, 88, 296], [2160, 8, 10, 72], 50, true),
    Format(97, [3840, 176, 88, 296], [2160, 8, 10, 72], 60, true),
    Format(118, [3840, 176, 88, 296], [2160, 8, 10, 72], 120, true),
];

impl Format {
    fn signal(&self, refresh: (u32, u32)) -> Signal {
        let axis = |[active, front_porch, sync, back_porch]: [u32; 4]| Axis {
            active,
            front_porch,
            sync,
            back_porch,
            positive: self.4,
        };
        Signal { horizontal: axis(self.1), vertical: axis(self.2), refresh }
    }
}

/// CVT 1.2, "Reduced blanking timing version 2": pixels of the horizontal blank, lines of the vertical one, and the
/// shortest vertical blank in microseconds.
const HORIZONTAL: [u32; 3] = [8, 32, 40];
const VERTICAL_SYNC: u32 = 8;
const VERTICAL_BACK_PORCH: u32 = 6;
const SHORTEST_BLANK: u64 = 460;
/// The highest rate in Hz that is believed of an EDID. The lowest is 1.
const FASTEST: u64 = 1000;

impl Signal {
    /// The signal of a mode: CTA-861's if it has one, otherwise CVT's with reduced blanking. `None` if the rate leaves no
    /// time for the blank.
    #[must_use]
    pub fn of(mode: &Mode) -> Option<Self> {
        let refresh = (mode.numerator, mode.denominator);
        let is_format = |format: &&Format| {
            let rate = format.3;
            (format.1[0], format.2[0]) == (mode.width, mode.height)
                && (refresh == (rate, 1) || refresh == lowest(rate * 1000, 1001))
        };
        if let Some(format) = FORMATS.iter().find(is_format) {
            return Some(format.signal(refresh));
        }
        let (numerator, denominator) = (u64::from(mode.numerator), u64::from(mode.denominator));
        // A frame takes 1,000,000 * denominator / numerator us, of which the visible lines have all but the blank.
        let visible = (1_000_000 * denominator).checked_sub(SHORTEST_BLANK * numerator)?;
        let lines = (SHORTEST_BLANK * u64::from(mode.height) * numerator).checked_div(visible)? + 1;
        let lines = u32::try_from(lines).ok().filter(|lines| *lines <= mode.height)?;
        let lines = lines.max(1 + VERTICAL_SYNC + VERTICAL_BACK_PORCH);
        let [front_porch, sync, back_porch] = HORIZONTAL;
        let horizontal = Axis { active: mode.width, front_porch, sync, back_porch, positive: true };
        let vertical = Axis {
            active: mode.height,
            front_porch: lines - VERTICAL_SYNC - VERTICAL_BACK_PORCH,
            sync: VERTICAL_SYNC,
            back_porch: VERTICAL_BACK_PORCH,
            positive: false,
        };
        Some(Self { horizontal, vertical, refresh })
    }

    /// The signals of a video identification code of CTA-861, if it is one of those that are known here.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        let format = FORMATS.iter().find(|format| format.0 == code)?;
        Some(format.signal((format.3, 1)))
    }

    /// Pixels of a line and lines of a frame, with blanks.
    #[must_use]
    pub fn total(&self) -> (u32, u32) {
        (self.horizontal.total(), self.vertical.total())
    }

    /// Pixels in 10,000ths of a second, rounded to the nearest: the unit of EDIDs.
    #[must_use]
    pub fn clock(&self) -> u64 {
        let (width, height) = self.total();
        let pixels = u128::from(width) * u128::from(height) * u128::from(self.refresh.0);
        let unit = u128::from(self.refresh.1.max(1)) * 10_000;
        u64::try_from((pixels + unit / 2) / unit).unwrap_or(u64::MAX)
    }

    /// The signal with this clock, in the unit of EDIDs, and its rate in lowest terms, or lower ones until it fits.
    /// `None` if no screen has that rate.
    pub(super) fn with_clock(mut self, clock: u64) -> Option<Self> {
        let (width, height) = self.total();
        let (mut a, mut b) =
            (clock.checked_mul(10_000)?, u64::from(width).checked_mul(height.into())?);
        let (mut numerator, mut denominator) = (a, b);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        numerator = numerator.checked_div(a)?;
        denominator = denominator.checked_div(a)?;
        // A display's thread wakes that often.
        if !(denominator..=denominator.saturating_mul(FASTEST)).contains(&numerator) {
            return None;
        }
        while numerator.max(denominator) > u32::MAX.into() {
            (numerator, denominator) = (numerator / 2, denominator / 2);
        }
        self.refresh = (u32::try_from(numerator).ok()?, u32::try_from(denominator).ok()?);
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(text: &str) -> Option<Signal> {
        Signal::of(&Mode::parse(text).unwrap())
    }

    #[test]
    fn formats_of_television_are_those_of_cta_861() {
        // 148.5 MHz, 148.35 MHz, 594 MHz, 25.175 MHz.
        for (text, total, clock) in [
            ("1920x1080@60", (2200, 1125), 14_850),
            ("1920x1080@59.94", (2200, 1125), 14_835),
            ("1920x1080@24", (2750, 1125), 7425),
            ("3840x2160@60", (4400, 2250), 59_400),
            ("640x480@59.94", (800, 525), 2517),
        ] {
            let signal = signal(text).unwrap();
            assert_eq!((signal.total(), signal.clock()), (total, clock), "{text}");
        }
    }

    /// VESA's own table of CVT 1.2 RB2: 2560x1440@60 is 2640 x 1481 at 234.59 MHz, 3840x2160@60 would be 3920 x 2222.
    #[test]
    fn other_modes_have_reduced_blanks() {
        let wide = signal("2560x1440@60").unwrap();
        assert_eq!((wide.total(), wide.clock()), ((2640, 1481), 23_459));
        assert_eq!((wide.vertical.front_porch, wide.vertical.sync), (27, 8));
        let fast = signal("1920x1080@240").unwrap();
        // 460 us of 4166.7 us: 1080 * 460 / 3706.7 is 134.03.
        assert_eq!(fast.total(), (2000, 1215));
    }

    #[test]
    fn a_rate_that_leaves_no_time_for_lines_has_no_signal() {
        assert_eq!(
            Signal::of(&Mode { width: 640, height: 480, numerator: 2200, denominator: 1 }),
            None
        );
        assert_eq!(
            Signal::of(&Mode { width: 640, height: 480, numerator: 1100, denominator: 1 }),
            None
        );
        assert!(signal("640x480@1000").is_some());
    }
}
