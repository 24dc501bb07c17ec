// SPDX-License-Identifier: MIT OR Apache-2.0

//! A software queue continues when a wait or a submission has ended, or its queue is lost.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object" and "Cross-adapter
//! wait/signal combinations".

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::dxgkrnl::queue::software_queue::Released;

impl Kernel {
    /// Continues a queue after a wait or a submission ended, or loses the queue. Each call releases something held;
    /// quotas bound how much is held.
    pub(crate) fn continue_software_queue_of(
        &mut self,
        Released { guest, process, hw_queue, fault }: Released,
    ) {
        let holds = self.access(guest, process).is_some_and(|access| {
            access.get::<HwQueue>(hw_queue).is_ok_and(|queue| !queue.held().is_empty())
        });
        if !holds {
            // The queue is gone, or holds nothing.
            return;
        }
        // Continuing may wake an engine.
        self.watch_engines();
        if fault.is_none() {
            self.ensure_power();
        }
        self.for_process(guest, process, |access| {
            let result = match fault {
                Some(fault) => access.lose_queue_s_context(hw_queue, fault),
                None => access.continue_software_queue(hw_queue),
            };
            if let Err(error) = result {
                let span = queue_span(process, hw_queue);
                tracing::error!(parent: &span, guest = guest.0, %error, "a software queue is stuck");
            }
        });
        // A termination may wait for the work that the queue held.
        self.work.wake(Rule::Terminations);
    }
}
