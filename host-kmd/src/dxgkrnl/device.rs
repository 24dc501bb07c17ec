//! Devices: what contexts, allocations and fences belong to.

use super::error::RequestError;
use super::request::{Answer, Handled, zero};
use super::scope::Scope;
use super::termination::{Manner, Target};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use std::collections::BTreeSet;

/// A device.
#[derive(Debug, Default)]
pub(super) struct Device {
    /// Its contexts.
    pub(super) contexts: BTreeSet<Handle>,
    /// Its allocations.
    pub(super) allocations: BTreeSet<Handle>,
    /// Its native fences, without the progress fences of its queues.
    pub(super) fences: BTreeSet<Handle>,
    /// The host has marked it in error: nothing more is executed for it.
    pub(super) in_error: bool,
}

impl Scope<'_> {
    /// `D3DKMTCreateDevice`.
    pub(super) fn create_device(&mut self, request: CreateDevice) -> Handled<Handle> {
        zero("reserved", request.reserved)?;
        let device = self.insert(Device::default())?;
        self.process()?.devices.insert(device);
        Ok(Answer::Done(device))
    }

    /// `D3DKMTDestroyDevice`.
    pub(super) fn destroy_device(&mut self, request: DestroyDevice) -> Handled<()> {
        self.get::<Device>(request.device)?;
        Ok(Answer::Terminate(Target::Device(request.device), Manner::Normal))
    }

    /// Destroys a device and everything on it: queues and doorbells first, so that nothing uses
    /// the allocations. This alone destroys ring buffers that a doorbell refers to.
    /// Source: user-mode work submission, "Residency model of doorbell memory and ring buffer
    /// allocations".
    pub(super) fn remove_device(&mut self, handle: Handle) -> Result<(), RequestError> {
        let device = self.remove::<Device>(handle)?;
        for context in device.contexts {
            self.remove_context(context)?;
        }
        for fence in device.fences {
            self.remove_fence(fence)?;
        }
        for allocation in device.allocations {
            self.close(handle, allocation)?;
        }
        self.process()?.devices.remove(&handle);
        Ok(())
    }
}
