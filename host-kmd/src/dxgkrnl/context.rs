//! Contexts: streams of work for one node.

use super::device::Device;
use super::error::RequestError;
use super::request::{Answer, Handled, zero};
use super::scope::Scope;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::context::{CreateContext, DestroyContext};
use std::collections::BTreeSet;

/// A context.
#[derive(Debug)]
pub(super) struct Context {
    /// The device that it goes with.
    pub(super) device: Handle,
    /// The node that executes its queues.
    pub(super) node: u32,
    /// Its HW queues.
    pub(super) hw_queues: BTreeSet<Handle>,
}

impl Scope<'_> {
    /// `D3DKMTCreateContextVirtual`.
    pub(super) fn create_context(&mut self, request: CreateContext) -> Handled<Handle> {
        zero("reserved", request.reserved)?;
        self.get::<Device>(request.device)?;
        self.node(request.node)?;
        let (device, node) = (request.device, request.node);
        let context = self.insert(Context { device, node, hw_queues: BTreeSet::new() })?;
        self.get_mut::<Device>(device)?.contexts.insert(context);
        Ok(Answer::Done(context))
    }

    /// `D3DKMTDestroyContext`.
    pub(super) fn destroy_context(&mut self, request: DestroyContext) -> Handled<()> {
        self.remove_context(request.context)?;
        Ok(Answer::AfterQuiesce)
    }

    /// Destroys a context and its HW queues.
    pub(super) fn remove_context(&mut self, handle: Handle) -> Result<(), RequestError> {
        let context = self.remove::<Context>(handle)?;
        for hw_queue in context.hw_queues {
            self.remove_hw_queue(hw_queue)?;
        }
        // The device is gone already when it takes its contexts with it.
        if let Ok(device) = self.get_mut::<Device>(context.device) {
            device.contexts.remove(&handle);
        }
        Ok(())
    }
}
