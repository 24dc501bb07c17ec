// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether a guest has its GPUs: its agent may stop them, and the host's operator may take one away. The master takes its
//! chain along: "The OS interacts only with the Master".
//!
//! Source: Windows KMD overview, "EEU" ("Trigger PnP Stop/Starts") and "MGPU" ("detachable graphics").

use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::{GpuOrdinal, GpuSet};

/// Whether a guest has its GPU. Both reasons for its absence are independent of each other.
#[derive(Debug)]
pub(crate) struct Presence {
    stopped: bool,
    removed: GpuSet,
}

impl Default for Presence {
    fn default() -> Self {
        Self { stopped: false, removed: GpuSet::NONE }
    }
}

impl Presence {
    /// The guest's agent stops the GPU, or starts it. Returns whether that is a change.
    pub(crate) fn set_stopped(&mut self, stopped: bool) -> bool {
        std::mem::replace(&mut self.stopped, stopped) != stopped
    }

    /// The host's operator takes a GPU away, or brings it back. Returns whether that is a change.
    pub(crate) fn set_removed(&mut self, gpu: GpuOrdinal, removed: bool) -> bool {
        self.removed.set(gpu, removed)
    }

    /// Whether the guest's agent has stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Refuses new work of a guest without a GPU.
    pub(crate) fn check_new_work(&self) -> Result<(), RequestError> {
        if self.removed.contains(GpuOrdinal::MASTER) {
            Err(RequestError::NoGpu("was taken away"))
        } else if self.stopped {
            Err(RequestError::NoGpu("is stopped"))
        } else {
            Ok(())
        }
    }

    /// Refuses new work on a GPU that a guest does not have.
    pub(crate) fn check_gpu(&self, gpu: GpuOrdinal) -> Result<(), RequestError> {
        if self.has(gpu) { Ok(()) } else { Err(RequestError::NoGpu("was taken away")) }
    }

    /// Whether the host's operator has left the guest a GPU, and the master that it belongs to.
    pub(crate) fn has(&self, gpu: GpuOrdinal) -> bool {
        !self.is_removed(GpuOrdinal::MASTER) && !self.is_removed(gpu)
    }

    /// Whether the host's operator has taken a GPU away.
    pub(crate) fn is_removed(&self, gpu: GpuOrdinal) -> bool {
        self.removed.contains(gpu)
    }

    /// The state, for tools.
    pub(crate) fn name(&self) -> &'static str {
        match (self.is_removed(GpuOrdinal::MASTER), self.stopped) {
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
        assert!(presence.set_removed(GpuOrdinal::MASTER, true));
        assert_eq!(presence.name(), "removed");
        assert!(presence.set_stopped(false));
        assert_eq!(presence.check_new_work(), Err(RequestError::NoGpu("was taken away")));
        assert!(presence.set_removed(GpuOrdinal::MASTER, false));
        assert_eq!((presence.check_new_work(), presence.name()), (Ok(()), "started"));
    }

    #[test]
    fn a_slave_that_was_taken_away_leaves_the_others() {
        let (mut presence, slave) = (Presence::default(), GpuOrdinal(1));
        assert!(presence.set_removed(slave, true));
        assert_eq!((presence.check_new_work(), presence.name()), (Ok(()), "started"));
        assert!(presence.check_gpu(slave).is_err());
        assert_eq!(presence.check_gpu(GpuOrdinal(2)), Ok(()));
        // The master comes and goes without it.
        assert!(presence.has(GpuOrdinal(2)) && presence.set_removed(GpuOrdinal::MASTER, true));
        assert!(!presence.has(GpuOrdinal(2)) && presence.set_removed(GpuOrdinal::MASTER, false));
        assert!(presence.is_removed(slave) && presence.set_removed(slave, false));
        assert_eq!(presence.check_gpu(slave), Ok(()));
    }
}
