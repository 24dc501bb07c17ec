// SPDX-License-Identifier: MIT OR Apache-2.0

//! A HW queue that falls back to kernel-mode submission when user-mode submission fails.

use crate::commands::command_buffer::CommandBuffer;
use crate::context::hardware::Context;
use crate::error::{Error, QueueFault};
use crate::fence::object::Fence;
use crate::queue::kernel_mode::KernelModeQueue;
use crate::queue::user_mode::UserModeQueue;
use bellhop_protocol::control::Handle;
use bellhop_protocol::status::Status;
use std::time::Duration;

impl Context {
    /// Creates a HW queue for user-mode submission, if available, that falls back to kernel-mode submission when it
    /// is lost. `ring_size` is as in [`Self::user_mode_queue`].
    ///
    /// # Errors
    /// As [`UserModeQueueBuilder::create`](crate::UserModeQueueBuilder::create), except for unavailable user-mode
    /// submission.
    pub fn create_fallback_queue(&self, ring_size: u64) -> Result<FallbackQueue, Error> {
        let path = match self.create_user_mode_queue(ring_size) {
            Ok(queue) => Path::UserMode(queue),
            Err(Error::NotAvailable(_) | Error::Refused { status: Status::NOT_SUPPORTED, .. }) => {
                Path::KernelMode(self.create_kernel_mode_queue()?)
            }
            Err(error) => return Err(error),
        };
        Ok(FallbackQueue { context: self.clone(), path, lost: None })
    }
}

/// A HW queue for user-mode submission while that works, then one for kernel-mode submission.
///
/// Submissions that are not known to be done are lost with the first queue, and [`Self::wait`] reports that. The
/// program decides whether to submit them again, since the engine may have executed them.
///
/// Source: user-mode work submission, "Work submission pseudocode in UMD" (`cleanup_fallback`).
pub struct FallbackQueue {
    context: Context,
    path: Path,
    lost: Option<Lost>,
}

/// The lost queue for user-mode submission.
#[derive(Debug, Clone, Copy)]
struct Lost {
    queue: Handle,
    fault: Option<QueueFault>,
    /// The last value of its progress fence: the engine executed all submissions up to this value.
    done: u64,
}

enum Path {
    UserMode(UserModeQueue),
    KernelMode(KernelModeQueue),
}

/// A submission to a [`FallbackQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// The value that the progress fence gets when the submission is done.
    pub value: u64,
    /// Whether it was submitted in user mode.
    pub user_mode: bool,
}

impl FallbackQueue {
    /// Submits a command buffer: in user mode, or in kernel mode once user-mode submission has failed.
    ///
    /// # Errors
    /// As [`UserModeQueue::submit`] and [`KernelModeQueue::submit`]. After [`Error::NotRung`] the buffer was
    /// submitted, after any other error it was not.
    pub fn submit(&mut self, commands: &mut CommandBuffer) -> Result<Submission, Error> {
        if let Path::UserMode(queue) = &mut self.path {
            match queue.submit(commands) {
                Ok(value) => return Ok(Submission { value, user_mode: true }),
                // It is in the ring of the lost queue, which may still execute it.
                Err(Error::NotRung { value, reason }) => {
                    return match self.fall_back(None) {
                        Ok(()) => Ok(Submission { value, user_mode: true }),
                        Err(_) => Err(Error::NotRung { value, reason }),
                    };
                }
                Err(Error::QueueLost { fault, .. }) => self.fall_back(fault)?,
                // "fatal error in connecting doorbell, destroy this HWQueue and re-create using
                // traditional kernel mode submission"
                Err(Error::Refused { .. } | Error::BadReply(_)) => self.fall_back(None)?,
                Err(error) => return Err(error),
            }
        }
        match &mut self.path {
            Path::KernelMode(queue) => {
                Ok(Submission { value: queue.submit(commands)?, user_mode: false })
            }
            Path::UserMode(queue) => Err(queue.lost()),
        }
    }

    /// Destroys the queue for user-mode submission and creates one for kernel-mode submission. Destroying waits for
    /// the queue's remaining work, so later submissions follow it.
    fn fall_back(&mut self, fault: Option<QueueFault>) -> Result<(), Error> {
        let Path::UserMode(queue) = &self.path else { return Ok(()) };
        // A fence that is always signaled says nothing about what was executed.
        let current = queue.progress_fence().current_value();
        let done = current.ok().filter(|value| *value != Fence::ALWAYS_SIGNALED);
        let lost = Lost { queue: queue.handle(), fault, done: done.unwrap_or(0) };
        self.path = Path::KernelMode(self.context.create_kernel_mode_queue()?);
        self.lost = Some(lost);
        Ok(())
    }

    /// Blocks until a submission is done.
    ///
    /// # Errors
    /// [`Error::Timeout`] if `timeout` expires, [`Error::QueueLost`] if the submission was lost with its queue.
    pub fn wait(&self, submission: Submission, timeout: Duration) -> Result<(), Error> {
        match self.lost {
            Some(Lost { done, .. }) if submission.user_mode && submission.value <= done => Ok(()),
            Some(Lost { queue, fault, .. }) if submission.user_mode => {
                Err(Error::QueueLost { queue, fault })
            }
            _ => self.progress_fence().wait(submission.value, timeout),
        }
    }

    /// The progress fence of the queue that takes submissions now.
    #[must_use]
    pub fn progress_fence(&self) -> &Fence {
        match &self.path {
            Path::UserMode(queue) => queue.progress_fence(),
            Path::KernelMode(queue) => queue.progress_fence(),
        }
    }

    /// Whether submissions are still in user mode.
    #[must_use]
    pub fn is_user_mode(&self) -> bool {
        matches!(self.path, Path::UserMode(_))
    }
}
