// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory for a device that cannot fault: it is mapped before the device uses it, and stays until that is done.

use super::wrong::Wrong;
use crate::serve::shared::Shared;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// Whether memory must be mapped before a device reaches it, and the lock that keeps it.
#[derive(Clone, Copy)]
pub struct Residency<'s> {
    shared: &'s Shared,
    /// Whether the device cannot fault.
    pub is_needed: bool,
}

impl<'s> Residency<'s> {
    /// For a device that faults or does not.
    pub fn new(shared: &'s Shared, is_needed: bool) -> Self {
        Self { shared, is_needed }
    }

    /// Has memory mapped that `touch` touches, and keeps what is mapped until the guard is dropped. Does nothing for a
    /// device that faults.
    ///
    /// The lock is not held meanwhile: a request to take memory back waits for it, and the requests to map memory behind
    /// that one. If memory was taken back before the lock was held, all is touched again.
    ///
    /// # Errors
    /// Those of `touch`.
    pub fn hold(
        &self,
        touch: impl Fn() -> Result<(), Wrong>,
    ) -> Result<Option<MutexGuard<'s, ()>>, Wrong> {
        if !self.is_needed {
            return Ok(None);
        }
        loop {
            let before = self.shared.taken_back.load(Ordering::Acquire);
            touch()?;
            let held = self.shared.in_use.lock().unwrap_or_else(PoisonError::into_inner);
            if self.shared.taken_back.load(Ordering::Acquire) == before {
                return Ok(Some(held));
            }
        }
    }
}
