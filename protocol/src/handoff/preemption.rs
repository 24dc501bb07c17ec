// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pre-empt and stop.
//!
//! The control plane takes a queue off the run list ([`Membership::suspend`](super::run_list::Membership)) and asks
//! to be told when the engine has left it; the engine reports between two turns. The report carries the fence of
//! the last request, so that a pre-emption is never mistaken for an earlier one.
//!
//! Source: Windows KMD overview, "Render-related DDIs" (PreemptCommand).

use super::sync::{AtomicU64, Ordering};

/// No pre-emption.
const NONE: u64 = u64::MAX;

/// The pre-emption of a queue. A fence is any number except `u64::MAX`.
#[derive(Debug)]
pub struct Preemption {
    asked: AtomicU64,
    stopped: AtomicU64,
}

impl Default for Preemption {
    fn default() -> Self {
        Self::new()
    }
}

impl Preemption {
    /// No pre-emption is requested.
    #[must_use]
    pub fn new() -> Self {
        Self { asked: AtomicU64::new(NONE), stopped: AtomicU64::new(NONE) }
    }

    /// Control plane, after it took the queue off the run list: requests the pre-emption. The engine must then be
    /// called. Releases the change of the run list to [`Self::stop`].
    pub fn ask(&self, fence: u64) {
        self.asked.store(fence, Ordering::Release);
    }

    /// Engine, once called, between two turns: confirms that the queue gets no further turn, since its membership
    /// is read after this. Returns false if that was reported before; otherwise the control plane must be called.
    #[must_use]
    pub fn stop(&self) -> bool {
        let fence = self.asked.swap(NONE, Ordering::Acquire);
        if fence == NONE {
            return false;
        }
        // Releases the effects of the queue's turns to `report`.
        self.stopped.store(fence, Ordering::Release);
        true
    }

    /// Control plane: takes the fence of the pre-emption that stopped the queue.
    pub fn report(&self) -> Option<u64> {
        let fence = self.stopped.swap(NONE, Ordering::Acquire);
        (fence != NONE).then_some(fence)
    }
}
