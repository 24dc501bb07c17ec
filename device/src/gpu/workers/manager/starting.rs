// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether workers of a role can be started.

use bellhop_worker::owner::Role;
use std::time::{Duration, Instant};

/// How long no worker is started after one could not be: at first and at most.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why a worker does not start.
#[derive(Debug, Clone)]
pub(super) struct NotStarted {
    pub(super) why: String,
    /// Its process ended, as one that the host's administrator or the kernel kills. Otherwise it refused, or could not be
    /// begun.
    pub(super) has_ended: bool,
}

impl NotStarted {
    /// It refused, or could not be begun.
    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self { why: why.into(), has_ended: false }
    }
}

/// Whether workers of a role can be started.
#[derive(Default)]
pub(super) struct Starting {
    /// Why the last one could not be started, and when to try again.
    trouble: Option<(NotStarted, Instant)>,
    /// How many in a row could not be started.
    failures: u32,
}

impl Starting {
    /// Why no worker is started now.
    pub(super) fn trouble(&self) -> Option<&NotStarted> {
        let (why, retry) = self.trouble.as_ref()?;
        (Instant::now() < *retry).then_some(why)
    }

    /// When to try again.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.trouble.as_ref().map(|(_, retry)| *retry).filter(|retry| *retry > Instant::now())
    }

    /// A worker did not become ready. Returns whether to try again at once: the first time, something may have happened
    /// to that process alone.
    pub(super) fn failed(&mut self, role: Role, why: &NotStarted) -> bool {
        if self.failures == 0 {
            self.failures = 1;
            tracing::warn!(why = why.why, "a worker for {} does not start", role.name());
            return true;
        }
        self.pause(role, why);
        false
    }

    /// No worker can be started for now.
    pub(super) fn pause(&mut self, role: Role, why: &NotStarted) {
        if self.trouble.is_none() {
            tracing::warn!(why = why.why, "workers for {} do not start", role.name());
        }
        let pause = PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.trouble = Some((why.clone(), Instant::now() + pause));
    }

    /// A worker has started.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }
}
