// SPDX-License-Identifier: MIT OR Apache-2.0

//! A signaled fence ends waits, in its guest and in others.
//!
//! Source: native GPU fence object, "Synchronization issues" and "Cross-adapter native fences".

use crate::dxgkrnl::fence::scan::Scan;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::hardware::{GlobalFence, GuestId};
use crate::port::CrossFenceId;
use std::collections::BTreeMap;

impl Kernel {
    /// Fences passed their MonitoredValues: the signaled ones, and any that `scan` covers. A fence may be gone by
    /// now, and another may have its slot: checking that one is harmless.
    pub(crate) fn fences_signaled(&mut self, signaled: Vec<GlobalFence>, scan: Scan) {
        let mut fences: BTreeMap<_, Vec<_>> = BTreeMap::new();
        if scan.native || scan.monitored {
            let concerned = |guest: &Guest| guest.fences.concerned(scan);
            fences.extend(self.guests.iter().map(|(id, guest)| (*id, concerned(guest))));
        }
        for GlobalFence { guest, slot } in signaled {
            fences.entry(guest).or_default().push(slot);
        }
        for (guest, fences) in fences {
            let Some(mut access) = self.access(guest, 0) else { continue };
            let checked = access.with_signals(|signals| {
                for fence in &fences {
                    signals.tell_other_guests(*fence, false);
                }
                signals.check(fences)
            });
            if let Err(error) = checked {
                tracing::error!(guest = guest.0, %error, "a fence is missing");
            }
            if !access.guest.fences.has_optimized_interrupt() {
                access.read_some_logs();
            }
        }
    }

    /// Another guest's view of a fence was signaled. This guest may have closed its own view. A queue that waits for
    /// the fence needs power to continue.
    pub(crate) fn cross_adapter_signal(
        &mut self,
        guest: GuestId,
        fence: CrossFenceId,
        always: bool,
    ) {
        let Some(mut access) = self.access(guest, 0) else { return };
        let Some(slot) = access.guest.fences.view(fence) else { return };
        if let Err(error) = access.with_signals(|signals| signals.notify(slot, always)) {
            tracing::error!(guest = guest.0, %error, "a fence is missing");
        }
        self.ensure_power();
        self.watch_engines();
    }
}
