// SPDX-License-Identifier: MIT OR Apache-2.0

//! How a context submits to its node.

use crate::dxgkrnl::memory::allocation::HostMapping;
use bellhop_protocol::control::Handle;

/// How a context is given work.
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
    /// Whether it is given work by `RENDER`, which may have to wait for paging.
    pub(crate) fn renders(self) -> bool {
        matches!(self, Self::Basic | Self::BasicPlusPlus)
    }
}

/// A context's way to its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeSubmission {
    model: Model,
    hw_queue: Handle,
    /// How often it was given work, which is what its progress fence counts.
    submitted: u64,
}

impl NodeSubmission {
    /// One that was given nothing yet.
    pub(crate) fn new(model: Model, hw_queue: Handle) -> Self {
        Self { model, hw_queue, submitted: 0 }
    }

    /// How it is given work.
    pub(crate) fn model(&self) -> Model {
        self.model
    }

    /// The queue that takes it.
    pub(crate) fn hw_queue(&self) -> Handle {
        self.hw_queue
    }

    /// The value that the next submission gives its progress fence.
    pub(crate) fn next_value(&self) -> u64 {
        self.submitted + 1
    }

    /// It was given work.
    pub(crate) fn count(&mut self) {
        self.submitted += 1;
    }
}
