// SPDX-License-Identifier: MIT OR Apache-2.0

//! One kernel-mode submission: deferred, held, or in flight.

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
    /// Creates a command buffer. Refuses an address or size with which no buffer could execute.
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

/// Work for a context that waits for paging.
#[derive(Debug)]
pub(crate) struct Deferred {
    /// The process.
    pub(crate) process: u32,
    /// The context.
    pub(crate) context: Handle,
    /// The work.
    pub(crate) work: DeferredWork,
}

/// The kinds of deferred work.
#[derive(Debug)]
pub(crate) enum DeferredWork {
    /// A submission.
    Submission {
        /// Its packets.
        commands: CommandBuffer,
        /// Its holds so far.
        holds: Vec<Hold>,
    },
    /// A wait that holds later work.
    Wait(Vec<FenceValue>),
    /// A signal after all earlier work is done.
    Signal(Vec<FenceValue>),
}

impl Deferred {
    /// The holds to release if the work is dropped.
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

/// A HW queue's submissions in flight, in order.
#[derive(Debug, Default)]
pub(crate) struct InFlight(VecDeque<Submitted>);

impl InFlight {
    /// The hardware accepted a submission.
    pub(crate) fn push(&mut self, fence: u64, holds: Vec<Hold>) {
        self.0.push_back(Submitted { fence, holds });
    }

    /// Takes the holds of the oldest submission if it is done. All submissions up to `fence` are.
    pub(crate) fn pop_done(&mut self, fence: u64) -> Option<Vec<Hold>> {
        let done = self.0.pop_front_if(|submitted| submitted.fence <= fence)?;
        Some(done.holds)
    }

    /// Number of submissions in flight.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The holds of all submissions in flight.
    pub(crate) fn into_holds(self) -> Vec<Hold> {
        self.0.into_iter().flat_map(|dropped| dropped.holds).collect()
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
