// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where an engine looks for a queue's rings.
//!
//! The control plane decides and tells the engine once, however often it decides anew before the engine looks: a
//! guest that connects and disconnects without end makes no list longer.

use arc_swap::ArcSwapOption;
use bellhop_protocol::handoff::pending::Pending;
use std::sync::Arc;

/// Where a watched queue rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchedAt {
    /// The word on its logical doorbell's page, whose value is the write pointer.
    OwnPage,
    /// The guest's page of this physical doorbell, which the page of the logical doorbell shows.
    Physical(u32),
    /// Its guest's global doorbell.
    Global,
}

/// Where the engine of a queue looks for its rings.
#[derive(Debug, Default)]
pub struct Watching {
    at: ArcSwapOption<WatchedAt>,
    changed: Pending,
}

impl Watching {
    /// Control plane: decides anew; `None` is nowhere. True when the engine must be told.
    #[must_use = "the engine must be told"]
    pub fn change(&self, at: Option<WatchedAt>) -> bool {
        // Before the mark, which releases it to `take`.
        self.at.store(at.map(Arc::new));
        self.changed.mark()
    }

    /// Engine, when it is told: what the control plane decided last.
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
