// SPDX-License-Identifier: MIT OR Apache-2.0

//! Behaviours, and the reasons for which one may fail.

use super::scene::Scene;
use bellhop_guest_umd::transport::TransportError;
use bellhop_protocol::status::Status;

/// One behaviour, tried with what `S` has: a guest, or its programs.
pub(super) struct Behaviour<S = Scene> {
    /// Its name.
    pub(super) id: &'static str,
    /// What it shows, in one sentence.
    pub(super) shows: &'static str,
    /// The section of a reference that it comes from.
    pub(super) section: &'static str,
    /// Tries the behaviour; the error says what was seen instead.
    pub(super) check: fn(&S) -> Result<(), Mismatch>,
}

impl<S> Behaviour<S> {
    pub(super) const fn new(
        id: &'static str,
        section: &'static str,
        check: fn(&S) -> Result<(), Mismatch>,
    ) -> Self {
        Self { id, shows: "", section, check }
    }

    pub(super) const fn shows(self, shows: &'static str) -> Self {
        Self { shows, ..self }
    }
}

/// Where behaviours are tried.
pub(super) trait Place {
    /// Takes the count to show beside the verdict, if there is one.
    fn take_shown(&self) -> Option<String>;

    /// Whether it has a broker's part of a guest, and behaviours may want what only a whole guest has.
    fn is_part(&self) -> bool;

    /// Fails once the device is gone.
    fn check(&self) -> Result<(), TransportError>;
}

/// Why a behaviour was not seen.
#[derive(Debug, thiserror::Error)]
pub(super) enum Mismatch {
    /// What was seen instead.
    #[error("{0}")]
    Seen(String),
    /// This guest's device or VMM does not offer what the behaviour needs.
    #[error("{0}")]
    NotOffered(String),
    /// The device does not support what the behaviour needs. Behind a broker it need not.
    #[error("{0}")]
    NotSupported(String),
}

impl From<bellhop_guest_umd::Error> for Mismatch {
    fn from(error: bellhop_guest_umd::Error) -> Self {
        match error {
            bellhop_guest_umd::Error::NotAvailable(_) => Self::NotOffered(error.to_string()),
            bellhop_guest_umd::Error::Refused { status: Status::NOT_SUPPORTED, .. } => {
                Self::NotSupported(error.to_string())
            }
            error => Self::Seen(error.to_string()),
        }
    }
}

/// Fails a behaviour unless a condition holds.
macro_rules! require {
    ($condition:expr, $($seen:tt)+) => {
        if !$condition {
            return Err($crate::conformance::behaviour::Mismatch::Seen(format!($($seen)+)));
        }
    };
}
pub(super) use require;
