// SPDX-License-Identifier: MIT OR Apache-2.0

//! The place where an engine watches for a queue's rings.
//!
//! The control plane decides and tells the engine once, however often it changes its decision before the engine
//! looks: a guest that keeps connecting and disconnecting lengthens no list.

use arc_swap::ArcSwapOption;
use bellhop_protocol::handoff::pending::Pending;
use std::sync::Arc;

/// The place of a watched queue's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchedAt {
    /// The word on its logical doorbell's page, which holds the write pointer.
    OwnPage,
    /// The guest's page of this physical doorbell, which the logical doorbell's page shows.
    Physical(u32),
    /// The guest's global doorbell.
    Global,
}

/// The place where the engine of a queue watches for its rings.
#[derive(Debug, Default)]
pub struct Watching {
    at: ArcSwapOption<WatchedAt>,
    changed: Pending,
}

impl Watching {
    /// Control plane: sets a new place; `None` is nowhere. Returns true if the engine must be told.
    #[must_use = "the engine must be told"]
    pub fn change(&self, at: Option<WatchedAt>) -> bool {
        // Before the mark, which releases the place to `take`.
        self.at.store(at.map(Arc::new));
        self.changed.mark()
    }

    /// Engine, when it is told: the control plane's last decision.
    pub fn take(&self) -> Option<WatchedAt> {
        self.changed.take();
        self.at.load().as_deref().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_told_once_and_finds_the_last_decision() {
        let watching = Watching::default();
        assert!(watching.change(Some(WatchedAt::OwnPage)));
        assert!(!watching.change(None));
        assert!(!watching.change(Some(WatchedAt::Physical(3))));
        assert_eq!(watching.take(), Some(WatchedAt::Physical(3)));
        assert!(watching.change(None));
        assert_eq!(watching.take(), None);
    }
}
