// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernel-mode submissions in flight, by submission fence id.
//!
//! Source: Windows KMD overview, "DMA buffers" and "TDR".

use crate::hardware::HwQueueId;
use std::collections::{BTreeMap, BTreeSet};

/// Kernel-mode submissions in flight. The hardware bounds how many a queue may have.
#[derive(Debug, Default)]
pub(crate) struct SubmissionFences {
    last: u64,
    queues: BTreeMap<u64, HwQueueId>,
    fences: BTreeMap<HwQueueId, BTreeSet<u64>>,
}

impl SubmissionFences {
    /// The fence id for the next submission; used up only if the hardware accepts the submission.
    pub(crate) fn next_fence(&self) -> u64 {
        self.last + 1
    }

    /// The hardware accepted a submission with [`Self::next_fence`].
    pub(crate) fn begin(&mut self, queue: HwQueueId) {
        self.last += 1;
        self.queues.insert(self.last, queue);
        self.fences.entry(queue).or_default().insert(self.last);
    }

    /// `DXGK_INTERRUPT_DMA_COMPLETED`: this submission and all earlier ones of its queue are done. Returns the queue,
    /// or `None` if the queue is gone.
    pub(crate) fn complete(&mut self, fence: u64) -> Option<HwQueueId> {
        let queue = *self.queues.get(&fence)?;
        if let Some(fences) = self.fences.get_mut(&queue) {
            let later = fences.split_off(&(fence + 1));
            for done in std::mem::replace(fences, later) {
                self.queues.remove(&done);
            }
            if fences.is_empty() {
                self.fences.remove(&queue);
            }
        }
        Some(queue)
    }

    /// Drops the submissions of a queue that no longer executes.
    pub(crate) fn forget(&mut self, queue: HwQueueId) {
        for fence in self.fences.remove(&queue).into_iter().flatten() {
            self.queues.remove(&fence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUES: [HwQueueId; 2] = [HwQueueId(7), HwQueueId(8)];

    #[test]
    fn a_completion_ends_what_its_queue_was_given_before_and_nothing_of_another() {
        let mut submissions = SubmissionFences::default();
        for number in 0..6 {
            assert_eq!(submissions.next_fence(), number + 1);
            submissions.begin(QUEUES[(number % 2) as usize]);
        }
        assert_eq!(submissions.complete(3), Some(QUEUES[0]));
        assert_eq!(submissions.complete(1), None);
        assert_eq!(submissions.complete(2), Some(QUEUES[1]));
        submissions.forget(QUEUES[1]);
        assert_eq!(submissions.complete(6), None);
        assert_eq!(submissions.complete(5), Some(QUEUES[0]));
        assert!(submissions.queues.is_empty() && submissions.fences.is_empty());
    }
}
