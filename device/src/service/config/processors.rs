// SPDX-License-Identifier: MIT OR Apache-2.0

//! A list of processors.

use bellhop_config::{Kind, Setting};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;

/// Processor numbers at or above this do not fit into the kernel's processor sets.
const MAX: usize = rustix::thread::CpuSet::MAX_CPU;

/// Numbers of processors in a user-chosen order, written as `"0-3,6"`; `""` for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processors(Vec<usize>);

impl Processors {
    /// The numbers.
    #[must_use]
    pub fn numbers(&self) -> &[usize] {
        &self.0
    }

    fn range() -> String {
        format!("processors and ranges of them, 0 to {}, such as \"0-3,6\"", MAX - 1)
    }

    /// Parses a list; `None` if the text is not one.
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let number = |text: &str| -> Option<usize> {
            // `parse` also takes a sign.
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|number| is_number && *number < MAX)
        };
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            numbers.extend(first..=last);
        }
        Some(Self(numbers))
    }
}

impl From<&[usize]> for Processors {
    fn from(numbers: &[usize]) -> Self {
        Self(numbers.to_vec())
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|before, after| before + 1 == *after);
        for (run, place) in runs.zip(0..) {
            let comma = if place == 0 { "" } else { "," };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [one] => write!(f, "{comma}{one}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl Setting for Processors {
    const KIND: Kind = Kind::value(Self::range);
}

impl Serialize for Processors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Processors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Reader)
    }
}

/// Reads a list; on failure the error says what a list is.
struct Reader;

impl Visitor<'_> for Reader {
    type Value = Processors;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Processors::range())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Processors, E> {
        let refused = || E::invalid_value(de::Unexpected::Str(text), &self);
        Processors::parse(text).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(text: &str) -> Option<Vec<usize>> {
        Processors::parse(text).map(|list| list.0)
    }

    #[test]
    fn ranges_and_single_numbers_keep_their_order() {
        assert_eq!(numbers("0-3,6"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(numbers("6,2-3,2"), Some(vec![6, 2, 3, 2]));
        assert_eq!(
            [numbers(""), numbers("5"), numbers("5-5")],
            [Some(vec![]), Some(vec![5]), Some(vec![5])]
        );
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [",", "1,", "3-1", "-1", "1-", "1-2-3", "+1", "a", " 1", "1024", "0-1024"] {
            assert_eq!(numbers(text), None, "{text:?}");
        }
        assert_eq!(numbers("1023"), Some(vec![1023]));
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(list in proptest::collection::vec(0..MAX, 0..20)) {
            let shown = Processors(list.clone()).to_string();
            prop_assert_eq!(numbers(&shown), Some(list));
        }
    }
}
