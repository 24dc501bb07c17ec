// SPDX-License-Identifier: MIT OR Apache-2.0

//! How a submission is expected to end.

use crate::conformance::behaviour::{Mismatch, require};
use bellhop_guest_umd::{Error, QueueFault};
use bellhop_protocol::status::Status;

/// Asserts how something was refused.
pub(super) fn expect_refused<T>(
    result: Result<T, Error>,
    expected: Status,
    about: u64,
) -> Result<(), Mismatch> {
    match result {
        Err(Error::Refused { status, detail, .. }) => {
            require!(
                (status, detail) == (expected, about),
                "ended with {status} about {detail:#x}, not with {expected} about {about:#x}"
            );
            Ok(())
        }
        Err(error) => Err(Mismatch::Seen(format!("instead of {expected}: {error}"))),
        Ok(_) => Err(Mismatch::Seen(format!("no {expected}, but success"))),
    }
}

/// Asserts that waiting for a submission ends with the loss of its context.
pub(super) fn expect_lost(waited: Result<(), Error>) -> Result<QueueFault, Mismatch> {
    match waited {
        Err(Error::QueueLost { fault: Some(fault), .. }) => Ok(fault),
        Err(error) => Err(Mismatch::Seen(format!("instead of a fault: {error}"))),
        Ok(()) => Err(Mismatch::Seen("no fault, but success".into())),
    }
}
