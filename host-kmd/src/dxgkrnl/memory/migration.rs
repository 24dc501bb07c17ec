// SPDX-License-Identifier: MIT OR Apache-2.0

//! When page tables are looked at for what engines use.

use std::time::Duration;

/// From one look to the next.
pub(crate) const PERIOD: Duration = Duration::from_millis(250);

/// Page migration of the guests that took the feature.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    pub(crate) next_look: Option<Duration>,
}

impl Migration {
    /// When page tables are looked at next.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.next_look
    }
}
