// SPDX-License-Identifier: MIT OR Apache-2.0

//! When the kernel checks in page tables what engines use.

use std::time::Duration;

/// Time between checks.
pub(crate) const PERIOD: Duration = Duration::from_millis(250);

/// Page migration of the guests that negotiated the feature.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    pub(crate) next_look: Option<Duration>,
}

impl Migration {
    /// When the next check is due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.next_look
    }
}
