// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a behaviour was not seen.

use ash::vk;
use std::cell::Cell;

thread_local! {
    /// Whether something failed since the last look.
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// Why a behaviour was not seen.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was seen instead.
    #[error("{0}")]
    Seen(String),
    /// The device does not offer what the behaviour needs.
    #[error("{0}")]
    NotOffered(String),
}

/// What trying something has for a result.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Something else was seen.
    pub(crate) fn seen(what: impl Into<String>) -> Self {
        FAILED.set(true);
        Self::Seen(what.into())
    }

    /// The device does not offer this.
    pub(crate) fn not_offered(what: impl Into<String>) -> Self {
        Self::NotOffered(what.into())
    }

    /// Takes it as expected after all.
    pub(crate) fn forgive(self) {
        FAILED.set(false);
    }

    /// Whether something was seen that should not be, and work may be left that never ends.
    pub(super) fn take_failed() -> bool {
        FAILED.replace(false)
    }
}

impl From<vk::Result> for Failure {
    fn from(result: vk::Result) -> Self {
        Self::seen(format!("a call returned {result:?}"))
    }
}

/// Fails unless a condition holds.
macro_rules! require {
    ($condition:expr, $($seen:tt)+) => {{
        let holds: bool = $condition;
        if !holds {
            return Err($crate::lab::Failure::seen(format!($($seen)+)));
        }
    }};
}
pub(crate) use require;

/// Fails unless two values are the same.
macro_rules! same {
    ($seen:expr, $expected:expr) => {
        match (&$seen, &$expected) {
            (seen, expected) => $crate::lab::require!(
                *seen == *expected,
                "{} is {seen:x?}, not {expected:x?}",
                stringify!($seen)
            ),
        }
    };
}
pub(crate) use same;
