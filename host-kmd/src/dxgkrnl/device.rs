//! Devices: what contexts, allocations and fences belong to, and devices in error: nothing more is executed
//! for them, and the fences that are theirs are always signaled.
//!
//! Source: native GPU fence object, "AlwaysSignaled" ("parent device of fence being put in error").

use super::error::RequestError;
use super::request::{Answer, Handled, zero};
use super::scope::Scope;
use super::termination::{Manner, Target};
use crate::hardware::Fault;
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
    /// It was marked in error: nothing more is executed for it.
    pub(super) in_error: bool,
}

/// What fails together with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failing {
    /// Nothing, or its process: others who have its fences open go on.
    Alone,
    /// All devices of the guest.
    WithItsGuest,
}

impl Scope<'_> {
    /// Puts all devices of the process in error.
    pub(super) fn fail_process(&mut self, fault: Fault, failing: Failing) {
        let Ok(devices) = self.process().map(|process| process.devices.clone()) else { return };
        for device in devices {
            self.fail_device(device, fault, failing);
        }
    }

    /// Puts a device in error: nothing more is executed for it or can be created on it. Whoever waits for a
    /// fence of its goes on; one that it only opened is for others to signal, unless they fail, too.
    pub(super) fn fail_device(&mut self, handle: Handle, fault: Fault, failing: Failing) {
        let Ok(device) = self.get_mut::<Device>(handle) else { return };
        device.in_error = true;
        let (contexts, fences) = (device.contexts.clone(), device.fences.clone());
        for context in contexts {
            self.lose_context(context, fault);
        }
        for fence in fences {
            if failing == Failing::WithItsGuest || self.is_parent_of(handle, fence) {
                self.signal_always(fence);
            }
        }
    }

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
