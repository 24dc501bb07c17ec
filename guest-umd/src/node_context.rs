//! Contexts that submit to their node: what all three models have.

use crate::allocation::Allocation;
use crate::device::Device;
use crate::error::Error;
use crate::fence::Fence;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::context::{DestroyContext, ResumeContext, SuspendContext};
use bellhop_protocol::control::node_context::{
    CreateNodeContext, CreateNodeContextReply, SubmissionModel, SubmissionReply,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// A context on the device. Destroyed when dropped.
pub(crate) struct NodeContext {
    device: Device,
    reply: CreateNodeContextReply,
    progress: Fence,
    last: Option<SubmissionReply>,
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
        let progress = Fence::progress(
            device.clone(),
            reply.context,
            reply.progress_fence,
            reply.progress_fence_slot,
            reply.progress_fence_offset,
        );
        let device = device.clone();
        Ok(Self { device, reply, progress, last: None, in_use: VecDeque::new() })
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
