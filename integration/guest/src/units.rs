// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers for people.

/// A value with three significant digits and its unit.
fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // Printed with three digits, 999.6 is 1000, and so takes the next unit.
    while value.abs() >= step - 0.5
        && let Some(next) = units.next()
    {
        value /= step;
        unit = next;
    }
    let digits = match value.abs() {
        0.0 => 0,
        small if small < 9.995 => 2,
        small if small < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

/// Nanoseconds in a unit that suits them.
#[must_use]
pub fn time(nanoseconds: f64) -> String {
    if nanoseconds < 999.5 {
        format!("{nanoseconds:.0} ns")
    } else {
        scaled(nanoseconds / 1e3, 1e3, &["us", "ms", "s"])
    }
}

/// A rate a second.
#[must_use]
pub fn rate(per_second: f64) -> String {
    scaled(per_second, 1e3, &["/s", "k/s", "M/s", "G/s"])
}

/// Bytes a second, in powers of ten, as memory's rates are given.
#[must_use]
pub fn byte_rate(per_second: f64) -> String {
    scaled(per_second, 1e3, &["B/s", "kB/s", "MB/s", "GB/s"])
}

/// Bytes in powers of ten, with three digits.
#[must_use]
pub fn amount(bytes: f64) -> String {
    scaled(bytes, 1e3, &["B", "kB", "MB", "GB"])
}

/// Bytes in the largest unit of which there is at least one.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            return match bytes % unit {
                0 => format!("{} {name}", bytes / unit),
                _ => format!("{:.1} {name}", bytes as f64 / unit as f64),
            };
        }
    }
    format!("{bytes} B")
}

/// A number with a comma between each three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count of something, with the plural where it needs one.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 4096, 3 << 19, u64::MAX].map(bytes)[..3], ["1 B", "4 KiB", "1.5 MiB"]);
        assert_eq!(counted(1, "wait") + &counted(2, "wait"), "1 wait2 waits");
    }

    #[test]
    fn times_and_rates_have_three_digits_and_a_unit() {
        let times = [0.0, 310.4, 999.7, 1190.0, 90_123.0, 2.5e6, 6e10].map(time);
        assert_eq!(times, ["0 ns", "310 ns", "1.00 us", "1.19 us", "90.1 us", "2.50 ms", "60.0 s"]);
        assert_eq!([0.0, 6.613e6, 950.0].map(rate), ["0 /s", "6.61 M/s", "950 /s"]);
        assert_eq!([4.4123e10, 512.0].map(byte_rate), ["44.1 GB/s", "512 B/s"]);
        assert_eq!([1.5e6, 512.0].map(amount), ["1.50 MB", "512 B"]);
    }
}
