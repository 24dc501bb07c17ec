//! A HW queue that goes on in kernel mode when user-mode submission is lost to it.

use crate::command_buffer::CommandBuffer;
use crate::context::Context;
use crate::error::{Error, QueueFault};
use crate::fence::Fence;
use crate::kernel_mode_queue::KernelModeQueue;
use crate::user_mode_queue::UserModeQueue;
use bellhop_protocol::status::Status;
use std::time::Duration;

/// A HW queue for user-mode submission as long as that works, and then one for kernel-mode submission.
///
/// What was submitted before the loss and is not done by then is lost with the first queue, and
/// waiting for it says so: the program submits it again, or not.
///
/// Source: user-mode work submission, "Work submission pseudocode in UMD" (`cleanup_fallback`).
pub struct FallbackQueue {
    context: Context,
    path: Path,
    lost: Option<Option<QueueFault>>,
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

    /// Submits a command buffer, in kernel mode once the doorbell is lost.
    ///
    /// # Errors
    /// When the device refuses, or cannot be reached.
    pub fn submit(&mut self, commands: &mut CommandBuffer) -> Result<Submission, Error> {
        if let Path::UserMode(queue) = &mut self.path {
            match queue.submit(commands) {
                Ok(value) => return Ok(Submission { value, user_mode: true }),
                Err(Error::QueueLost { fault, .. }) => {
                    self.lost = Some(fault);
                    // The lost queue goes, with its doorbell and its ring.
                    self.path = Path::KernelMode(self.context.create_kernel_mode_queue()?);
                }
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

    /// Waits until a submission is done, blocked.
    ///
    /// # Errors
    /// When the time is over, or it is lost with the queue that it was submitted to.
    pub fn wait(&self, submission: Submission, timeout: Duration) -> Result<(), Error> {
        match (&self.path, self.lost) {
            (Path::KernelMode(queue), Some(fault)) if submission.user_mode => {
                Err(Error::QueueLost { queue: queue.handle(), fault })
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
