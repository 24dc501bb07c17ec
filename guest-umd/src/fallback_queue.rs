//! A HW queue that goes on in kernel mode when user-mode submission is lost to it.

use crate::command_buffer::CommandBuffer;
use crate::context::Context;
use crate::error::{Error, QueueFault};
use crate::fence::Fence;
use crate::kernel_mode_queue::KernelModeQueue;
use crate::user_mode_queue::UserModeQueue;
use bellhop_protocol::control::Handle;
use bellhop_protocol::status::Status;
use std::time::Duration;

/// A HW queue for user-mode submission as long as that works, and then one for kernel-mode submission.
///
/// What was accepted before and is not known to be done by then is lost with the first queue, and
/// waiting for it says so: the program submits it again, or not. Nothing that may have been executed
/// is submitted again without being asked for.
///
/// Source: user-mode work submission, "Work submission pseudocode in UMD" (`cleanup_fallback`).
pub struct FallbackQueue {
    context: Context,
    path: Path,
    lost: Option<Lost>,
}

/// The queue for user-mode submission that was given up.
#[derive(Debug, Clone, Copy)]
struct Lost {
    queue: Handle,
    fault: Option<QueueFault>,
    /// What its progress fence told last: everything up to this value was executed.
    done: u64,
}

enum Path {
    UserMode(UserModeQueue),
    KernelMode(KernelModeQueue),
}

/// What was submitted to a [`FallbackQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// The value that the progress fence gets when it is done.
    pub value: u64,
    /// Whether it went through the doorbell.
    pub user_mode: bool,
}

impl FallbackQueue {
    pub(crate) fn create(context: Context, ring_size: u64) -> Result<Self, Error> {
        let path = match context.create_user_mode_queue(ring_size) {
            Ok(queue) => Path::UserMode(queue),
            Err(Error::NotAvailable(_) | Error::Refused { status: Status::NOT_SUPPORTED, .. }) => {
                Path::KernelMode(context.create_kernel_mode_queue()?)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { context, path, lost: None })
    }

    /// Submits a command buffer, in kernel mode once user-mode submission has failed.
    ///
    /// # Errors
    /// When the device refuses, or cannot be reached. It was not submitted then, unless the error is
    /// [`Error::NotRung`].
    pub fn submit(&mut self, commands: &mut CommandBuffer) -> Result<Submission, Error> {
        if let Path::UserMode(queue) = &mut self.path {
            match queue.submit(commands) {
                Ok(value) => return Ok(Submission { value, user_mode: true }),
                // It is in the ring of the queue that is given up, which may still execute it.
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

    /// Gives the queue for user-mode submission up, with its doorbell and its ring. Destroying it
    /// waits for what it still executes, so what is submitted now comes after that.
    fn fall_back(&mut self, fault: Option<QueueFault>) -> Result<(), Error> {
        let Path::UserMode(queue) = &self.path else { return Ok(()) };
        // A fence that is always signaled tells nothing of what was executed.
        let current = queue.progress_fence().current_value();
        let done = current.ok().filter(|value| *value != Fence::ALWAYS_SIGNALED);
        let lost = Lost { queue: queue.handle(), fault, done: done.unwrap_or(0) };
        self.path = Path::KernelMode(self.context.create_kernel_mode_queue()?);
        self.lost = Some(lost);
        Ok(())
    }

    /// Waits until a submission is done, blocked.
    ///
    /// # Errors
    /// When the time is over, or it is lost with the queue that it was submitted to.
    pub fn wait(&self, submission: Submission, timeout: Duration) -> Result<(), Error> {
        match self.lost {
            Some(Lost { done, .. }) if submission.user_mode && submission.value <= done => Ok(()),
            Some(Lost { queue, fault, .. }) if submission.user_mode => {
                Err(Error::QueueLost { queue, fault })
            }
            _ => self.progress_fence().wait(submission.value, timeout),
        }
    }

    /// The fence that gets the value of what is submitted now.
    #[must_use]
    pub fn progress_fence(&self) -> &Fence {
        match &self.path {
            Path::UserMode(queue) => queue.progress_fence(),
            Path::KernelMode(queue) => queue.progress_fence(),
        }
    }

    /// Whether submissions still go through the doorbell.
    #[must_use]
    pub fn is_user_mode(&self) -> bool {
        matches!(self.path, Path::UserMode(_))
    }
}
