//! Devices.

use crate::allocation::Allocation;
use crate::basic_context::BasicContext;
use crate::basic_plus_plus_context::BasicPlusPlusContext;
use crate::context::Context;
use crate::error::Error;
use crate::fence::Fence;
use crate::session::Session;
use crate::virtual_context::VirtualContext;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use std::sync::Arc;

/// A device: what allocations, contexts and fences are created on. Clones are the same device,
/// which is destroyed with the last of them and of what was created on it.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    session: Arc<Session>,
    handle: Handle,
}

impl Device {
    pub(crate) fn create(session: Arc<Session>) -> Result<Self, Error> {
        let handle = session.call(&CreateDevice { reserved: 0 })?;
        Ok(Self(Arc::new(Inner { session, handle })))
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// The device's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.0.handle
    }

    /// Creates a context against a node (`D3DKMTCreateContextVirtual`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_context(&self, node: u32) -> Result<Context, Error> {
        Context::create(self.clone(), node)
    }

    /// Creates a context against a node, of the basic model (`D3DKMTCreateContext`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_basic_context(&self, node: u32) -> Result<BasicContext, Error> {
        BasicContext::create(self, node)
    }

    /// Creates a context against a node, of the basic++ model (`D3DKMTCreateContext`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_basic_plus_plus_context(&self, node: u32) -> Result<BasicPlusPlusContext, Error> {
        BasicPlusPlusContext::create(self, node)
    }

    /// Creates a context against a node, of the WDDM 2.0 model, which has no HW queues
    /// (`D3DKMTCreateContextVirtual`).
    ///
    /// # Errors
    /// When the device refuses, or the driver reaches no local memory.
    pub fn create_virtual_context(&self, node: u32) -> Result<VirtualContext, Error> {
        VirtualContext::create(self, node)
    }

    /// Creates an allocation of `size` bytes, a multiple of the page size
    /// (`D3DKMTCreateAllocation`).
    ///
    /// # Errors
    /// When there is not that much memory of this kind.
    pub fn create_allocation(
        &self,
        kind: AllocationKind,
        size: u64,
    ) -> Result<Arc<Allocation>, Error> {
        Allocation::create(self.clone(), kind, size)
    }

    /// Creates a native fence (`D3DKMTCreateNativeFence`).
    ///
    /// # Errors
    /// When the device refuses.
    pub fn create_fence(&self, initial_value: u64) -> Result<Fence, Error> {
        Fence::create(self.clone(), initial_value)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A device that cannot be reached has forgotten it already.
        let _ = self.session.call(&DestroyDevice { device: self.handle });
    }
}
