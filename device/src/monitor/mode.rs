// SPDX-License-Identifier: MIT OR Apache-2.0

//! A mode as people write it: `1920x1080@59.94`.

use std::fmt;

/// Visible pixels and frames per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Frames in `denominator` seconds, in lowest terms.
    pub numerator: u32,
    /// See `numerator`.
    pub denominator: u32,
}

/// Rates of television that are 1000/1001 of a whole number.
const TELEVISION: [u32; 6] = [24, 30, 48, 60, 120, 240];

/// Bounds of width and height.
const SIDES: std::ops::RangeInclusive<u32> = 16..=16_384;
/// Bounds of a rate, in thousandths of a Hz.
const RATES: std::ops::RangeInclusive<u32> = 23_000..=1_000_000;

impl Mode {
    /// The mode that every monitor has, so that something is seen in any case: CTA-861, format 1.
    pub const FAIL_SAFE: Self =
        Self { width: 640, height: 480, numerator: 60_000, denominator: 1001 };

    /// Reads a mode; `None` if the text is none. `59.94`, `23.976` and their like are the exact rates of television.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (size, rate) = text.split_once('@')?;
        let (width, height) = size.split_once('x')?;
        let side = |text| number(text).filter(|side| SIDES.contains(side));
        let (width, height) = (side(width)?, side(height)?);
        let (whole, thousandths) = rate.split_once('.').unwrap_or((rate, "0"));
        if thousandths.is_empty() || thousandths.len() > 3 {
            return None;
        }
        let scale = 10u32.pow(3 - u32::try_from(thousandths.len()).ok()?);
        let rate = number(whole)?.checked_mul(1000)?.checked_add(number(thousandths)? * scale)?;
        if !RATES.contains(&rate) {
            return None;
        }
        let (numerator, denominator) = exact(rate);
        Some(Self { width, height, numerator, denominator })
    }
}

/// A number without a sign, which `parse` would take.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The rate that is meant by one in thousandths.
fn exact(rate: u32) -> (u32, u32) {
    for whole in TELEVISION {
        let exact = whole * 1_000_000;
        // 59.94 and 59.940 are both rounded; so is 23.98, which many write for 23.976.
        let (thousandths, hundredths) = ((exact + 500) / 1001, (exact / 10 + 500) / 1001 * 10);
        if rate == thousandths || rate == hundredths {
            return (whole * 1000, 1001);
        }
    }
    lowest(rate, 1000)
}

/// The fraction in lowest terms.
pub fn lowest(numerator: u32, denominator: u32) -> (u32, u32) {
    let (mut a, mut b) = (numerator.max(1), denominator);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (numerator / a, denominator / a)
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = u64::from(self.numerator) * 1000 + u64::from(self.denominator) / 2;
        let thousandths = thousandths / u64::from(self.denominator.max(1));
        write!(f, "{}x{}@{}", self.width, self.height, thousandths / 1000)?;
        if thousandths % 1000 == 0 {
            return Ok(());
        }
        let digits = format!("{:03}", thousandths % 1000);
        write!(f, ".{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> Option<(u32, u32)> {
        Mode::parse(&format!("1920x1080@{text}")).map(|mode| (mode.numerator, mode.denominator))
    }

    #[test]
    fn rates_of_television_are_exact() {
        for (text, exact) in [
            ("59.94", (60_000, 1001)),
            ("59.940", (60_000, 1001)),
            ("23.976", (24_000, 1001)),
            ("23.98", (24_000, 1001)),
            ("29.97", (30_000, 1001)),
            ("119.88", (120_000, 1001)),
            ("60", (60, 1)),
            ("74.5", (149, 2)),
            ("240.000", (240, 1)),
        ] {
            assert_eq!(rate(text), Some(exact), "{text}");
        }
    }

    #[test]
    fn what_is_no_mode_is_refused() {
        for text in ["22.9", "1000.1", "", ".5", "60.", "60.0001", "+60", "60 ", "-1", "4294967296"]
        {
            assert_eq!(rate(text), None, "{text:?}");
        }
        for text in ["1920x1080", "1920@60", "15x480@60", "640x16385@60", "x480@60", "640X480@60"] {
            assert_eq!(Mode::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(width in SIDES, height in SIDES, rate in RATES) {
            let (numerator, denominator) = exact(rate);
            let mode = Mode { width, height, numerator, denominator };
            prop_assert_eq!(Mode::parse(&mode.to_string()), Some(mode));
        }
    }
}
