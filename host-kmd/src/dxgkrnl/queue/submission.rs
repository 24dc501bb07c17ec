// SPDX-License-Identifier: MIT OR Apache-2.0

//! One submission in kernel mode: deferred, held, or in flight.

use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Hold;
use crate::hardware::KernelSubmission;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::FenceValue;
use bellhop_protocol::packet::UNIT;
use std::collections::VecDeque;

/// Where the packets of a submission are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandBuffer {
    pub(crate) gpu_va: u64,
    pub(crate) size: u32,
}

impl CommandBuffer {
    /// A buffer that can be executed as far as its place tells.
    pub(crate) fn new(gpu_va: u64, size: u32) -> Result<Self, RequestError> {
        if !gpu_va.is_multiple_of(UNIT as u64) || gpu_va.checked_add(size.into()).is_none() {
            return Err(RequestError::parameter("gpu_va", gpu_va));
        }
        if size == 0 || !size.is_multiple_of(UNIT as u32) {
            return Err(RequestError::parameter("size", size.into()));
        }
        Ok(Self { gpu_va, size })
    }
}

#[derive(Debug)]
struct Submitted {
    fence: u64,
    holds: Vec<Hold>,
}

/// Something for a context that waits for paging.
#[derive(Debug)]
pub(crate) struct Deferred {
    /// The process.
    pub(crate) process: u32,
    /// The context.
    pub(crate) context: Handle,
    /// What.
    pub(crate) work: DeferredWork,
}

/// What a context is given.
#[derive(Debug)]
pub(crate) enum DeferredWork {
    /// A submission.
    Submission {
        /// Its packets.
        commands: CommandBuffer,
        /// What it holds already.
        holds: Vec<Hold>,
    },
    /// A wait that what comes after is held for.
    Wait(Vec<FenceValue>),
    /// A signal for when what came before is done.
    Signal(Vec<FenceValue>),
}

impl Deferred {
    /// What is to be released if it comes to nothing.
    pub(crate) fn into_holds(self) -> Vec<Hold> {
        match self.work {
            DeferredWork::Submission { holds, .. } => holds,
            DeferredWork::Wait(_) | DeferredWork::Signal(_) => Vec::new(),
        }
    }
}

/// A submission in a software queue.
#[derive(Debug)]
pub(crate) struct HeldSubmission {
    pub(crate) submission: KernelSubmission,
    pub(crate) holds: Vec<Hold>,
}

/// A HW queue's submissions that are not done, in their order.
#[derive(Debug, Default)]
pub(crate) struct InFlight(VecDeque<Submitted>);

impl InFlight {
    /// The hardware took a submission.
    pub(crate) fn push(&mut self, fence: u64, holds: Vec<Hold>) {
        self.0.push_back(Submitted { fence, holds });
    }

    /// Takes what the oldest holds if it is done, as all up to `fence` are.
    pub(crate) fn pop_done(&mut self, fence: u64) -> Option<Vec<Hold>> {
        let done = self.0.pop_front_if(|submitted| submitted.fence <= fence)?;
        Some(done.holds)
    }

    /// How many are not done.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What those hold that are not done.
    pub(crate) fn into_holds(self) -> Vec<Hold> {
        self.0.into_iter().flat_map(|dropped| dropped.holds).collect()
    }

    /// Whether all is done.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
