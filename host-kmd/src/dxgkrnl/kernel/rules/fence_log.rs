// SPDX-License-Identifier: MIT OR Apache-2.0

//! A signal makes the kernel read the logs of HW queues, which name the fences. What is logged can change.
//!
//! Source: native GPU fence object, "Native fence log buffer design".

use crate::dxgkrnl::fence::scan::Scan;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::rules::connect::disconnect_doorbells;
use crate::hardware::{GlobalFence, HwQueueId};
use bellhop_protocol::doorbell::LoggingLevel;
use std::collections::BTreeMap;

impl Kernel {
    /// Tells all drivers what to log from now on. They learn of it when they reconnect their doorbells.
    ///
    /// Source: native GPU fence object, "UMD payload generation controlled by disconnecting doorbell".
    pub(crate) fn set_logging_level(&mut self, level: LoggingLevel) {
        if std::mem::replace(&mut self.logging_level, level) != level {
            // Before disconnecting, because each published status carries the level.
            self.miniport.update_logging_level(level);
            disconnect_doorbells(&mut self.callbacks, self.miniport.as_mut(), &self.queues, |_| {
                true
            });
        }
    }

    /// A queue, or any queue of a node, has signaled fences beyond their MonitoredValues, and logged the signals.
    ///
    /// Source: native GPU fence object, "Optimized Native Fence Signaled Interrupt".
    pub(crate) fn fences_logged(&mut self, node: u32, queue: Option<HwQueueId>) {
        let mut queues: BTreeMap<_, Vec<_>> = BTreeMap::new();
        match queue {
            Some(id) => match self.queues.get(&id) {
                Some(owner) => queues.entry(owner.guest).or_default().push(id),
                // Its log is gone with it, and another interrupt has reported that.
                None => return,
            },
            None => {
                for (id, owner) in self.queues.iter().filter(|(_, owner)| owner.node == node) {
                    queues.entry(owner.guest).or_default().push(*id);
                }
            }
        }
        let mut signaled = Vec::new();
        for (guest, queues) in queues {
            let Some(mut access) = self.access(guest, 0) else { continue };
            let slots = access.signaled_slots(&queues);
            signaled.extend(slots.into_iter().map(|slot| GlobalFence { guest, slot }));
        }
        if !signaled.is_empty() {
            self.fences_signaled(signaled, Scan::default());
        }
    }
}
