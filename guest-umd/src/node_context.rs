//! Contexts that submit to their node: what all three models have.

use crate::allocation::Allocation;
use crate::device::Device;
use crate::error::Error;
use crate::fence::Fence;
use crate::session::Session;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::context::{DestroyContext, ResumeContext, SuspendContext};
use bellhop_protocol::control::gpu_va::{FreeGpuVirtualAddress, ReserveGpuVirtualAddress};
use bellhop_protocol::control::node_context::{
    CreateNodeContext, CreateNodeContextReply, SubmissionModel, SubmissionReply,
};
use bellhop_protocol::status::Status;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A context on the device. Destroyed when dropped.
pub(crate) struct NodeContext {
    device: Device,
    reply: CreateNodeContextReply,
    progress: Fence,
    last: Option<SubmissionReply>,
    /// The last value that was waited for: where the driver does not reach the fence, all it knows.
    done: u64,
    /// What submissions use that may not be done, with their progress values: the device lets none of
    /// it go before.
    in_use: VecDeque<(u64, Vec<Arc<Allocation>>)>,
}

impl NodeContext {
    pub(crate) fn create(
        device: &Device,
        node: u32,
        model: SubmissionModel,
    ) -> Result<Self, Error> {
        let request = CreateNodeContext { device: device.handle(), node, model };
        let reply = device.session().call(&request)?;
        let progress = Fence::progress(device.clone(), reply.context, reply.progress_fence);
        let device = device.clone();
        Ok(Self { device, reply, progress, last: None, done: 0, in_use: VecDeque::new() })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn reply(&self) -> &CreateNodeContextReply {
        &self.reply
    }

    pub(crate) fn handle(&self) -> Handle {
        self.reply.context
    }

    pub(crate) fn progress_fence(&self) -> &Fence {
        &self.progress
    }

    pub(crate) fn last(&self) -> Option<SubmissionReply> {
        self.last
    }

    /// Something was submitted that uses these.
    pub(crate) fn submitted(&mut self, reply: SubmissionReply, uses: Vec<Arc<Allocation>>) -> u64 {
        let done = self.progress.current_value().unwrap_or(0);
        while self.in_use.pop_front_if(|(value, _)| *value <= done).is_some() {}
        let value = reply.progress_fence_value;
        if !uses.is_empty() {
            self.in_use.push_back((value, uses));
        }
        self.last = Some(reply);
        value
    }

    /// Submits, and where the device is short of something for now, waits for what gives it back and
    /// tries again: a submission of this context that is done, first the oldest. When none is left
    /// what others had may be on its way back, which is waited for once.
    pub(crate) fn submit_within(
        &mut self,
        timeout: Duration,
        request: impl Fn(&Session) -> Result<SubmissionReply, Error>,
    ) -> Result<SubmissionReply, Error> {
        let begin = Instant::now();
        let mut is_last = false;
        loop {
            let refused = match request(self.device.session()) {
                Err(refused) if is_temporary(&refused) && !is_last => refused,
                other => return other,
            };
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Err(refused);
            }
            match self.oldest() {
                Some(value) => {
                    self.progress.wait(value, left)?;
                    self.done = value;
                }
                None => {
                    self.pass_engines()?;
                    is_last = true;
                }
            }
        }
    }

    /// The value of the oldest submission that is not known to be done.
    fn oldest(&mut self) -> Option<u64> {
        self.done = self.progress.current_value().unwrap_or(0).max(self.done);
        let last = self.last?.progress_fence_value;
        (self.done < last).then_some(self.done + 1)
    }

    /// Waits until engines have forgotten what was given up until now: the device answers only then that
    /// addresses are free, even if nothing was there.
    fn pass_engines(&self) -> Result<(), Error> {
        let session = self.device.session();
        let request = ReserveGpuVirtualAddress { base: 0, size: PAGE_SIZE };
        let gpu_va = session.call(&request)?.gpu_va;
        session.call(&FreeGpuVirtualAddress { gpu_va, size: PAGE_SIZE })
    }

    pub(crate) fn suspend(&self) -> Result<(), Error> {
        self.device.session().call(&SuspendContext { context: self.handle() })
    }

    pub(crate) fn resume(&self) -> Result<(), Error> {
        self.device.session().call(&ResumeContext { context: self.handle() })
    }
}

impl Drop for NodeContext {
    fn drop(&mut self) {
        let session = self.device.session();
        // A device that cannot be reached has forgotten it already. What submissions use goes after
        // this: nothing of them is executed any more.
        let _ = session.call(&DestroyContext { context: self.handle() });
        session.link.events.forget(session.process(), self.handle());
    }
}

/// Whether a submission was refused for want of what earlier ones give back. Source:
/// `docs/kernel-mode-submission.md`, "Limits".
fn is_temporary(error: &Error) -> bool {
    let temporary = [Status::INSUFFICIENT_RESOURCES, Status::QUOTA_EXCEEDED];
    matches!(error, Error::Refused { status, .. } if temporary.contains(status))
}

/// Gives a type over a [`NodeContext`] what every model has.
macro_rules! node_context_methods {
    ($type:ty) => {
        impl $type {
            /// The context's handle.
            #[must_use]
            pub fn handle(&self) -> bellhop_protocol::control::Handle {
                self.context.handle()
            }

            /// The fence that gets a submission's value when it is done.
            #[must_use]
            pub fn progress_fence(&self) -> &crate::fence::Fence {
                self.context.progress_fence()
            }

            /// What the device answered to the last submission: its submission fence id, and the value
            /// that the progress fence gets.
            #[must_use]
            pub fn last_submission(
                &self,
            ) -> Option<bellhop_protocol::control::node_context::SubmissionReply> {
                self.context.last()
            }

            /// Holds what is submitted from now on until all of the fences have these values
            /// (`D3DKMTWaitForSynchronizationObjectFromGpu`).
            ///
            /// # Errors
            /// When the device refuses, for one when too much is held already.
            pub fn wait_for_fences(
                &mut self,
                fences: &[(&crate::fence::Fence, u64)],
            ) -> Result<(), crate::error::Error> {
                crate::fence::wait_from_gpu(self.context.device(), self.handle(), fences)
            }

            /// Signals fences when everything that was submitted is done, and before what is submitted
            /// from now on begins (`D3DKMTSignalSynchronizationObjectFromGpu`).
            ///
            /// # Errors
            /// When the device refuses, for one when too much is held already.
            pub fn signal_fences(
                &mut self,
                fences: &[(&crate::fence::Fence, u64)],
            ) -> Result<(), crate::error::Error> {
                crate::fence::signal_from_gpu(self.context.device(), self.handle(), fences)
            }

            /// Suspends the context: nothing of it executes when this returns, whatever is submitted,
            /// until [`Self::resume`].
            ///
            /// # Errors
            /// When the device cannot be reached.
            pub fn suspend(&self) -> Result<(), crate::error::Error> {
                self.context.suspend()
            }

            /// Resumes the context.
            ///
            /// # Errors
            /// When the device cannot be reached.
            pub fn resume(&self) -> Result<(), crate::error::Error> {
                self.context.resume()
            }
        }
    };
}
pub(crate) use node_context_methods;
