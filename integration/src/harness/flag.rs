// SPDX-License-Identifier: MIT OR Apache-2.0

//! What one thread of the harness tells the others once.

use std::sync::atomic::{AtomicBool, Ordering};

/// A condition that is not met at first, and stays met once it is.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
