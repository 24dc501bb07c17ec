// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts that have HW queues.

use crate::device::Device;
use crate::error::Error;
use crate::link::spread::OnNode;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::context::{
    CreateContext, DestroyContext, ResumeContext, SetContextSchedulingPriority, SuspendContext,
};
use std::sync::Arc;

impl Device {
    /// Creates a context against a node, for HW queues (`D3DKMTCreateContextVirtual`). `node` is an
    /// ordinal of [`Adapter::nodes`](crate::Adapter::nodes);
    /// [`Adapter::least_used_node`](crate::Adapter::least_used_node) finds a good one.
    ///
    /// # Errors
    /// [`Error::Refused`] when there is no such node, or no room for another context.
    pub fn create_context(&self, node: u32) -> Result<Context, Error> {
        let request = CreateContext { device: self.handle(), node, engine_affinity: 0 };
        let handle = self.session().call(&request)?;
        let _counted = self.session().link.spread.enter(node);
        Ok(Context(Arc::new(Inner { device: self.clone(), handle, node, _counted })))
    }
}

/// A context against one node: work that is scheduled as one. Clones name one context. It is destroyed when
/// the last clone and its last HW queue are dropped.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    device: Device,
    handle: Handle,
    node: u32,
    _counted: OnNode,
}

impl Context {
    /// The device that the context was created on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The context's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.0.handle
    }

    /// The node that executes its HW queues.
    #[must_use]
    pub fn node(&self) -> u32 {
        self.0.node
    }

    /// Suspends the context. From when this returns until [`Self::resume`], none of its work executes,
    /// whatever is submitted.
    ///
    /// Source: user-mode work submission, "Hardware context suspension".
    ///
    /// # Errors
    /// None of its own.
    pub fn suspend(&self) -> Result<(), Error> {
        self.device().session().call(&SuspendContext { context: self.handle() })
    }

    /// Resumes the context.
    ///
    /// # Errors
    /// None of its own.
    pub fn resume(&self) -> Result<(), Error> {
        self.device().session().call(&ResumeContext { context: self.handle() })
    }

    /// Sets the context's priority among the contexts of this guest: -7 to 7, where a greater one comes
    /// first. A new context has 0.
    ///
    /// # Errors
    /// [`Error::Refused`] when there is no such priority.
    pub fn set_scheduling_priority(&self, priority: i32) -> Result<(), Error> {
        let request =
            SetContextSchedulingPriority { context: self.handle(), priority, reserved: 0 };
        self.device().session().call(&request)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A device that cannot be reached has forgotten it already.
        let _ = self.device.session().call(&DestroyContext { context: self.handle });
    }
}
