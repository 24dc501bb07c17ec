// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations opened by other processes and other devices.

use crate::device::Device;
use crate::error::Error;
use crate::memory::allocation::Allocation;
use bellhop_protocol::control::allocation::{
    CloseAllocation, OpenAllocation, OpenSharedAllocation, OpenedAllocation, ShareAllocation,
};
use bellhop_protocol::control::fence::NtHandle;
use std::sync::Arc;

impl Allocation {
    /// Names the allocation for other processes of the guest (`D3DKMTShareObjects`).
    /// [`Device::open_shared_allocation`] accepts the name while any process has the allocation.
    ///
    /// # Errors
    /// [`Error::Refused`] if the allocation was not created to be shared.
    pub fn share(&self) -> Result<NtHandle, Error> {
        self.device().session().call(&ShareAllocation { allocation: self.handle() })
    }
}

impl Device {
    /// Opens an allocation of another device of this process, so that this device can make it resident
    /// (`D3DKMTOpenResource`). [`Self::close_allocation`] undoes this.
    ///
    /// # Errors
    /// [`Error::Refused`] if this device already has it open.
    pub fn open_allocation(&self, allocation: &Allocation) -> Result<(), Error> {
        let (device, allocation) = (self.handle(), allocation.handle());
        self.session().call(&OpenAllocation { device, allocation })
    }

    /// Closes an allocation that [`Self::open_allocation`] opened, and evicts it from this device.
    ///
    /// # Errors
    /// [`Error::Refused`] if this device does not have it open.
    pub fn close_allocation(&self, allocation: &Allocation) -> Result<(), Error> {
        let (device, allocation) = (self.handle(), allocation.handle());
        self.session().call(&CloseAllocation { device, allocation })
    }

    /// Opens an allocation of another process by the name that [`Allocation::share`] returned
    /// (`D3DKMTOpenResourceFromNtHandle`). Initially it is neither resident on this device nor mapped in this
    /// process.
    ///
    /// # Errors
    /// [`Error::Refused`] if no allocation of this guest has the name, or this device has it open.
    pub fn open_shared_allocation(&self, name: NtHandle) -> Result<Arc<Allocation>, Error> {
        let request = OpenSharedAllocation { device: self.handle(), nt_handle: name };
        let OpenedAllocation { allocation, size } = self.session().call(&request)?;
        Ok(Allocation::opened(self.clone(), allocation, size))
    }
}
