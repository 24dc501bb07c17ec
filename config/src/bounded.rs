// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers, times and sizes that carry their unit and their range in their type.

use crate::declare::{Kind, Setting};
use bytesize::ByteSize;
use humantime::{format_duration, parse_duration};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A whole number.
pub type Count<const MIN: u64, const MAX: u64> = Bounded<Ones, MIN, MAX>;
/// A time, with its bounds in microseconds.
pub type Micros<const MIN: u64, const MAX: u64> = Bounded<Microseconds, MIN, MAX>;
/// A time, with its bounds in milliseconds.
pub type Millis<const MIN: u64, const MAX: u64> = Bounded<Milliseconds, MIN, MAX>;
/// A time, with its bounds in seconds.
pub type Secs<const MIN: u64, const MAX: u64> = Bounded<Seconds, MIN, MAX>;
/// An amount of memory, with its bounds in bytes.
pub type Bytes<const MIN: u64, const MAX: u64> = Bounded<SingleBytes, MIN, MAX>;
/// An amount of memory, with its bounds in KiB.
pub type Kib<const MIN: u64, const MAX: u64> = Bounded<Kibibytes, MIN, MAX>;
/// An amount of memory, with its bounds in MiB.
pub type Mib<const MIN: u64, const MAX: u64> = Bounded<Mebibytes, MIN, MAX>;

/// A whole number of units from `MIN` to `MAX`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bounded<U, const MIN: u64, const MAX: u64>(u64, PhantomData<U>);

/// A value named in the code, such as a default.
///
/// # Panics
/// If the value is outside its range.
#[must_use]
pub fn at<U: Unit, const MIN: u64, const MAX: u64>(units: u64) -> Bounded<U, MIN, MAX> {
    let range = Bounded::<U, MIN, MAX>::range;
    assert!((MIN..=MAX).contains(&units), "{units} is outside {}", range());
    Bounded(units, PhantomData)
}

impl<U: Unit, const MIN: u64, const MAX: u64> Bounded<U, MIN, MAX> {
    /// A value of this many units, if it is in range.
    #[must_use]
    pub fn new(units: u64) -> Option<Self> {
        (MIN..=MAX).contains(&units).then_some(Self(units, PhantomData))
    }

    /// The value: a number, a [`Duration`], or bytes.
    #[must_use]
    pub fn get(self) -> U::Value {
        U::value(self.0)
    }

    fn range() -> String {
        format!("{} to {}", U::text(MIN), U::text(MAX))
    }

    fn expected() -> String {
        match U::NAME {
            None => Self::range(),
            Some(name) => format!("{} in whole {name}, such as {:?}", Self::range(), U::text(MAX)),
        }
    }
}

impl<U: Unit, const MIN: u64, const MAX: u64> Setting for Bounded<U, MIN, MAX> {
    const KIND: Kind = Kind::Value { range: Self::range, expected: Self::expected };
}

impl<U: Unit, const MIN: u64, const MAX: u64> fmt::Debug for Bounded<U, MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&U::text(self.0))
    }
}

impl<U: Unit, const MIN: u64, const MAX: u64> Serialize for Bounded<U, MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if U::NAME.is_some() {
            serializer.serialize_str(&U::text(self.0))
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

impl<'de, U: Unit, const MIN: u64, const MAX: u64> Deserialize<'de> for Bounded<U, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if U::NAME.is_some() {
            deserializer.deserialize_str(Reader(PhantomData))
        } else {
            deserializer.deserialize_u64(Reader(PhantomData))
        }
    }
}

/// Reads a value; on failure the error states the range.
struct Reader<U, const MIN: u64, const MAX: u64>(PhantomData<U>);

impl<U: Unit, const MIN: u64, const MAX: u64> Visitor<'_> for Reader<U, MIN, MAX> {
    type Value = Bounded<U, MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Self::Value::expected())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        let units = u64::try_from(number).ok().filter(|_| U::NAME.is_none());
        let refused = || E::invalid_value(de::Unexpected::Signed(number), &self);
        units.and_then(Bounded::new).ok_or_else(refused)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        let units = Some(number).filter(|_| U::NAME.is_none());
        let refused = || E::invalid_value(de::Unexpected::Unsigned(number), &self);
        units.and_then(Bounded::new).ok_or_else(refused)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let refused = || E::invalid_value(de::Unexpected::Str(text), &self);
        U::parse(text).and_then(Bounded::new).ok_or_else(refused)
    }
}

/// The unit that a [`Bounded`] counts.
pub trait Unit: Copy {
    /// The type of values in code.
    type Value;
    /// The plural in error messages; `None` for plain numbers, which are written without quotes.
    const NAME: Option<&'static str>;
    /// The value of this many units.
    fn value(units: u64) -> Self::Value;
    /// The text of this many units.
    fn text(units: u64) -> String;
    /// The number of units in a text; `None` unless it is a whole number.
    fn parse(text: &str) -> Option<u64>;
}

/// The unit of a [`Count`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ones;

impl Unit for Ones {
    type Value = u32;
    const NAME: Option<&'static str> = None;

    fn value(units: u64) -> u32 {
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    fn text(units: u64) -> String {
        units.to_string()
    }

    fn parse(_: &str) -> Option<u64> {
        None
    }
}

/// Declares a unit of time.
macro_rules! unit_of_time {
    ($(#[$doc:meta])* $unit:ident, $name:literal, $of:path, $nanoseconds:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $unit;

        impl Unit for $unit {
            type Value = Duration;
            const NAME: Option<&'static str> = Some($name);

            fn value(units: u64) -> Duration {
                $of(units)
            }

            fn text(units: u64) -> String {
                format_duration($of(units)).to_string()
            }

            fn parse(text: &str) -> Option<u64> {
                let nanoseconds = parse_duration(text).ok()?.as_nanos();
                let is_whole = nanoseconds.is_multiple_of($nanoseconds);
                u64::try_from(nanoseconds / $nanoseconds).ok().filter(|_| is_whole)
            }
        }
    };
}

unit_of_time!(
    /// The unit of [`Micros`].
    Microseconds, "microseconds", Duration::from_micros, 1000
);
unit_of_time!(
    /// The unit of [`Millis`].
    Milliseconds, "milliseconds", Duration::from_millis, 1_000_000
);
unit_of_time!(
    /// The unit of [`Secs`].
    Seconds, "seconds", Duration::from_secs, 1_000_000_000
);

/// Declares a unit of memory: 1024 to this power.
macro_rules! unit_of_memory {
    ($(#[$doc:meta])* $unit:ident, $name:literal, $power:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $unit;

        impl Unit for $unit {
            type Value = u64;
            const NAME: Option<&'static str> = Some($name);

            fn value(units: u64) -> u64 {
                units.saturating_mul(1 << (10 * $power))
            }

            fn text(units: u64) -> String {
                memory_text(units, $power)
            }

            fn parse(text: &str) -> Option<u64> {
                let (bytes, unit) = (text.parse::<ByteSize>().ok()?.as_u64(), 1 << (10 * $power));
                bytes.is_multiple_of(unit).then_some(bytes / unit)
            }
        }
    };
}

unit_of_memory!(
    /// The unit of [`Bytes`].
    SingleBytes, "bytes", 0
);
unit_of_memory!(
    /// The unit of [`Kib`].
    Kibibytes, "KiB", 1
);
unit_of_memory!(
    /// The unit of [`Mib`].
    Mebibytes, "MiB", 2
);

/// A size in the largest unit that divides it: `bytesize` rounds, and the output must read back.
fn memory_text(units: u64, power: usize) -> String {
    let (mut number, mut names) =
        (units, ["B", "KiB", "MiB", "GiB", "TiB"].into_iter().skip(power));
    let mut name = names.next().unwrap_or_default();
    for larger in names {
        if number == 0 || !number.is_multiple_of(1024) {
            break;
        }
        (number, name) = (number / 1024, larger);
    }
    format!("{number}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reads_back<U: Unit>(units: u64) -> bool {
        U::parse(&U::text(units)) == Some(units)
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(units in 0..1_u64 << 32) {
            prop_assert!(reads_back::<Microseconds>(units));
            prop_assert!(reads_back::<Milliseconds>(units));
            prop_assert!(reads_back::<Seconds>(units));
            prop_assert!(reads_back::<SingleBytes>(units));
            prop_assert!(reads_back::<Kibibytes>(units));
            prop_assert!(reads_back::<Mebibytes>(units));
        }
    }

    #[test]
    fn values_are_shown_in_units_that_people_use() {
        let times = [0, 50, 1500, 2_000_000].map(Microseconds::text);
        assert_eq!(times, ["0s", "50us", "1ms 500us", "2s"]);
        let sizes = [0, 64, 1024, 1025, 262_144, 1 << 20].map(Mebibytes::text);
        assert_eq!(sizes, ["0MiB", "64MiB", "1GiB", "1025MiB", "256GiB", "1TiB"]);
    }

    #[test]
    fn a_part_of_a_unit_is_no_value() {
        assert_eq!(Milliseconds::parse("1500us"), None);
        assert_eq!(Milliseconds::parse("1.5s"), Some(1500));
        assert_eq!(Mebibytes::parse("1.5GiB"), Some(1536));
        for text in ["64", "1KiB", "1MB", "-1MiB", "MiB", ""] {
            assert_eq!(Mebibytes::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_what_is_in_range_is_a_value() {
        type Spin = Micros<1, 1000>;
        assert_eq!([0, 1, 1000, 1001].map(|n| Spin::new(n).is_some()), [false, true, true, false]);
        assert_eq!(at::<Microseconds, 1, 1000>(7).get(), Duration::from_micros(7));
    }
}
