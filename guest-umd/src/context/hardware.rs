// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts with HW queues.

use crate::device::Device;
use crate::error::Error;
use crate::link::spread::OnNode;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::context::{
    CreateContext, DestroyContext, ResumeContext, SetContextSchedulingPriority, SuspendContext,
};
use std::sync::Arc;

impl Device {
    /// Creates a context on a node, for HW queues (`D3DKMTCreateContextVirtual`). `node` is an ordinal of
    /// [`Adapter::nodes`](crate::Adapter::nodes); [`Adapter::least_used_node`](crate::Adapter::least_used_node)
    /// finds a good one.
    ///
    /// # Errors
    /// [`Error::Refused`] if the node does not exist, or there is no room for another context.
    pub fn create_context(&self, node: u32) -> Result<Context, Error> {
        let request = CreateContext { device: self.handle(), node, engine_affinity: 0 };
        let handle = self.session().call(&request)?;
        let _counted = self.session().link.spread.enter(node);
        Ok(Context(Arc::new(Inner { device: self.clone(), handle, node, _counted })))
    }
}

/// A context on one node: the unit of scheduling. Clones name one context. It is destroyed when the last clone and
/// its last HW queue are dropped.
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

    /// Names the context for people, as [`Device::set_name`](crate::Device::set_name) names a device.
    ///
    /// # Errors
    /// As [`Device::set_name`](crate::Device::set_name).
    pub fn set_name(&self, name: &str) -> Result<(), Error> {
        self.device().session().set_name(self.handle(), name)
    }

    /// Suspends the context. From the return of this call until [`Self::resume`], none of its work executes,
    /// whatever is submitted.
    ///
    /// Source: user-mode work submission, "Hardware context suspension".
    ///
    /// # Errors
    /// Only the common errors.
    pub fn suspend(&self) -> Result<(), Error> {
        self.device().session().call(&SuspendContext { context: self.handle() })
    }

    /// Resumes the context.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn resume(&self) -> Result<(), Error> {
        self.device().session().call(&ResumeContext { context: self.handle() })
    }

    /// Sets the context's priority among this guest's contexts: -7 to 7, higher priorities run first. A new context
    /// has 0.
    ///
    /// # Errors
    /// [`Error::Refused`] if the priority is out of range.
    pub fn set_scheduling_priority(&self, priority: i32) -> Result<(), Error> {
        let request =
            SetContextSchedulingPriority { context: self.handle(), priority, reserved: 0 };
        self.device().session().call(&request)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // An unreachable device has already forgotten it.
        let _ = self.device.session().call(&DestroyContext { context: self.handle });
    }
}
