// SPDX-License-Identifier: MIT OR Apache-2.0

//! An agent's announcement that it will stop the device: it waits until other processes have left, and no longer than
//! it said.
//!
//! Source: Windows KMD overview, "EEU" ("Trigger PnP Stop/Starts").

use crate::dxgkrnl::object::promises::Promise;
use std::time::Duration;

/// An announcement, while the agent waits.
#[derive(Debug, Default)]
pub(crate) struct Leave(Option<(Promise, Duration)>);

impl Leave {
    /// Whether an agent waits.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.is_some()
    }

    /// The agent waits until then.
    pub(crate) fn begin(&mut self, promise: Promise, deadline: Duration) {
        self.0 = Some((promise, deadline));
    }

    /// Takes the agent's request if so many processes have not left.
    pub(crate) fn settle(&mut self, stayed: u32, now: Duration) -> Option<Promise> {
        let (promise, _) = self.0.take_if(|(_, deadline)| stayed == 0 || *deadline <= now)?;
        Some(promise)
    }

    /// The agent ends. Returns its request.
    pub(crate) fn end(&mut self) -> Option<Promise> {
        self.0.take().map(|(promise, _)| promise)
    }

    /// When the time is over.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.0.as_ref().map(|(_, deadline)| *deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_waits_for_all_to_leave_and_no_longer_than_it_said() {
        let second = Duration::from_secs(1);
        let mut leave = Leave::default();
        leave.begin(Promise::numbered(1), 5 * second);
        assert_eq!((leave.deadline(), leave.settle(1, 4 * second)), (Some(5 * second), None));
        assert_eq!(leave.settle(0, 4 * second), Some(Promise::numbered(1)));
        assert!(!leave.is_awaited() && leave.settle(0, second).is_none());
        leave.begin(Promise::numbered(2), 5 * second);
        assert_eq!(leave.settle(9, 5 * second), Some(Promise::numbered(2)));
    }
}
