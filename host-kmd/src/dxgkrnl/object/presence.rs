// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether a guest has its GPU: its agent may stop it, and the host's operator may take it away.
//!
//! Source: Windows KMD overview, "EEU" ("Trigger PnP Stop/Starts").

use crate::dxgkrnl::object::error::RequestError;

/// Whether a guest has its GPU. Both reasons for its absence are independent of each other.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    stopped: bool,
    removed: bool,
}

impl Presence {
    /// The guest's agent stops the GPU, or starts it. Returns whether that is a change.
    pub(crate) fn set_stopped(&mut self, stopped: bool) -> bool {
        std::mem::replace(&mut self.stopped, stopped) != stopped
    }

    /// The host's operator takes the GPU away, or brings it back. Returns whether that is a change.
    pub(crate) fn set_removed(&mut self, removed: bool) -> bool {
        std::mem::replace(&mut self.removed, removed) != removed
    }

    /// Whether the guest's agent has stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Refuses new work of a guest without a GPU.
    pub(crate) fn check_new_work(&self) -> Result<(), RequestError> {
        if self.removed {
            Err(RequestError::NoGpu("was taken away"))
        } else if self.stopped {
            Err(RequestError::NoGpu("is stopped"))
        } else {
            Ok(())
        }
    }

    /// The state, for tools.
    pub(crate) fn name(&self) -> &'static str {
        match (self.removed, self.stopped) {
            (true, _) => "removed",
            (false, true) => "stopped",
            (false, false) => "started",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_was_taken_away_and_stopped_is_there_when_both_are_undone() {
        let mut presence = Presence::default();
        assert!(presence.set_stopped(true) && !presence.set_stopped(true));
        assert_eq!(presence.name(), "stopped");
        assert!(presence.set_removed(true));
        assert_eq!(presence.name(), "removed");
        assert!(presence.set_stopped(false));
        assert_eq!(presence.check_new_work(), Err(RequestError::NoGpu("was taken away")));
        assert!(presence.set_removed(false));
        assert_eq!((presence.check_new_work(), presence.name()), (Ok(()), "started"));
    }
}
