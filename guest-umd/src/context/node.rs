// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts without HW queues, which submit to their node: the common part of all three models.

use crate::device::Device;
use crate::error::Error;
use crate::fence::object::Fence;
use crate::link::session::Session;
use crate::link::spread::OnNode;
use crate::memory::allocation::Allocation;
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
    /// The last value that was waited for: all that is known about the fence if the driver cannot read it.
    done: u64,
    /// Progress values of submissions that may be in flight, each with the allocations that it uses, which the
    /// context keeps until it is done.
    in_use: VecDeque<(u64, Vec<Arc<Allocation>>)>,
    _counted: OnNode,
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
        let _counted = device.session().link.spread.enter(node);
        let (device, in_use) = (device.clone(), VecDeque::new());
        Ok(Self { device, reply, progress, last: None, done: 0, in_use, _counted })
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

    /// Records a submission and the allocations that it uses. Returns its progress value.
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

    /// Submits. While the device is short of a resource, waits for the oldest submission of this context and
    /// retries. When none is left, other contexts may be about to free resources: waits for those once.
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

    /// Waits until engines have flushed what was freed earlier: the device delays its reply to the freeing of
    /// addresses until then, even if nothing was mapped there.
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
        // An unreachable device has already forgotten it. No submission executes after this, so its allocations may
        // be dropped.
        let _ = session.call(&DestroyContext { context: self.handle() });
        session.link.events.forget(session.process(), self.handle());
    }
}

/// Returns whether a submission was refused for lack of a resource that earlier submissions free.
///
/// Source: `docs/kernel-mode-submission.md`, "Limits".
fn is_temporary(error: &Error) -> bool {
    let temporary = [Status::INSUFFICIENT_RESOURCES, Status::QUOTA_EXCEEDED];
    matches!(error, Error::Refused { status, .. } if temporary.contains(status))
}

/// Gives a type over a [`NodeContext`] the methods of every model.
macro_rules! node_context_methods {
    ($type:ty) => {
        impl $type {
            /// The context's handle.
            #[must_use]
            pub fn handle(&self) -> bellhop_protocol::control::Handle {
                self.context.handle()
            }

            /// Names the context for people, as [`Device::set_name`](crate::Device::set_name) names a device.
            ///
            /// # Errors
            /// As [`Device::set_name`](crate::Device::set_name).
            pub fn set_name(&self, name: &str) -> Result<(), crate::error::Error> {
                self.context.device().session().set_name(self.handle(), name)
            }

            /// The fence that gets each submission's value when the submission is done.
            #[must_use]
            pub fn progress_fence(&self) -> &crate::fence::object::Fence {
                self.context.progress_fence()
            }

            /// The device's reply to the last submission: its submission fence id, and the value that the progress
            /// fence gets.
            #[must_use]
            pub fn last_submission(
                &self,
            ) -> Option<bellhop_protocol::control::node_context::SubmissionReply> {
                self.context.last()
            }

            /// Holds later submissions until all of these fences have these values
            /// (`D3DKMTWaitForSynchronizationObjectFromGpu`).
            ///
            /// # Errors
            /// [`Error::Refused`](crate::Error::Refused) if a fence belongs to another process, or the context
            /// reached its limit.
            pub fn wait_for_fences(
                &mut self,
                fences: &[(&crate::fence::object::Fence, u64)],
            ) -> Result<(), crate::error::Error> {
                crate::fence::in_queue::wait_from_gpu(self.context.device(), self.handle(), fences)
            }

            /// Signals fences when all earlier submissions are done, and before later ones begin
            /// (`D3DKMTSignalSynchronizationObjectFromGpu`).
            ///
            /// # Errors
            /// As [`Self::wait_for_fences`].
            pub fn signal_fences(
                &mut self,
                fences: &[(&crate::fence::object::Fence, u64)],
            ) -> Result<(), crate::error::Error> {
                crate::fence::in_queue::signal_from_gpu(
                    self.context.device(),
                    self.handle(),
                    fences,
                )
            }

            /// Suspends the context. From the return of this call until [`Self::resume`], none of its work
            /// executes, whatever is submitted.
            ///
            /// # Errors
            /// Only the common errors.
            pub fn suspend(&self) -> Result<(), crate::error::Error> {
                self.context.suspend()
            }

            /// Resumes the context.
            ///
            /// # Errors
            /// Only the common errors.
            pub fn resume(&self) -> Result<(), crate::error::Error> {
                self.context.resume()
            }
        }
    };
}
pub(crate) use node_context_methods;
