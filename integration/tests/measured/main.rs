// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests that other load would change: shares, hangs, wake-ups, and scenarios that fill the machine. They run one
//! after another.

mod doorbell_shares;
mod harness;
mod idle;
mod kernel_shares;
mod kicks;
mod recovery;
mod scheduling;
mod stops;
#[path = "../support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this crate runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
