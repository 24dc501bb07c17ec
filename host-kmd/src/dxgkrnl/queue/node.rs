// SPDX-License-Identifier: MIT OR Apache-2.0

//! How a context submits to its node.

use crate::dxgkrnl::memory::allocation::HostMapping;
use bellhop_protocol::control::Handle;

/// How a context submits work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    /// The basic model of WDDM 1.x.
    Basic,
    /// The basic++ model of WDDM 1.x.
    BasicPlusPlus,
    /// WDDM 2.0, with the command buffer that the host supplied.
    Virtual(HostMapping),
}

impl Model {
    /// Whether it submits with `RENDER`, which may have to wait for paging.
    pub(crate) fn renders(self) -> bool {
        matches!(self, Self::Basic | Self::BasicPlusPlus)
    }
}

/// A context's submission to its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeSubmission {
    model: Model,
    hw_queue: Handle,
    /// Number of submissions, which its progress fence counts.
    submitted: u64,
}

impl NodeSubmission {
    /// Creates one without submissions.
    pub(crate) fn new(model: Model, hw_queue: Handle) -> Self {
        Self { model, hw_queue, submitted: 0 }
    }

    /// How it submits work.
    pub(crate) fn model(&self) -> Model {
        self.model
    }

    /// The queue that takes its work.
    pub(crate) fn hw_queue(&self) -> Handle {
        self.hw_queue
    }

    /// The value to which the next submission sets its progress fence.
    pub(crate) fn next_value(&self) -> u64 {
        self.submitted + 1
    }

    /// Counts a submission.
    pub(crate) fn count(&mut self) {
        self.submitted += 1;
    }
}
