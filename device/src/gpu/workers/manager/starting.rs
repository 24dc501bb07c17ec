// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether workers of a role can be started.

use bellhop_worker::owner::Role;
use std::time::{Duration, Instant};

/// How long no worker is started after one could not be: at first and at most.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Whether workers of a role can be started.
#[derive(Default)]
pub(super) struct Starting {
    /// Why the last one could not be started, and when to try again.
    trouble: Option<(String, Instant)>,
    /// How many in a row could not be started.
    failures: u32,
}

impl Starting {
    /// Why no worker is started now.
    pub(super) fn trouble(&self) -> Option<&str> {
        let (why, retry) = self.trouble.as_ref()?;
        (Instant::now() < *retry).then_some(why)
    }

    /// When to try again.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.trouble.as_ref().map(|(_, retry)| *retry).filter(|retry| *retry > Instant::now())
    }

    /// A worker did not become ready. Returns whether to try again at once: the first time, something may have happened
    /// to that process alone.
    pub(super) fn failed(&mut self, role: Role, why: &str) -> bool {
        if self.failures == 0 {
            self.failures = 1;
            tracing::warn!(why, "a worker for {} does not start", role.name());
            return true;
        }
        self.pause(role, why);
        false
    }

    /// No worker can be started for now.
    pub(super) fn pause(&mut self, role: Role, why: &str) {
        if self.trouble.is_none() {
            tracing::warn!(why, "workers for {} do not start", role.name());
        }
        let pause = PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.trouble = Some((why.to_owned(), Instant::now() + pause));
    }

    /// A worker has started.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }
}
