// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences opened by other processes, other devices and other guests.

use crate::device::Device;
use crate::error::Error;
use crate::fence::object::Fence;
use bellhop_protocol::control::fence::{NtHandle, OpenNativeFence, ShareNativeFence};

impl Fence {
    /// Names the fence for other processes of the guest and other devices of this process (`D3DKMTShareObjects`).
    /// [`Device::open_fence`] accepts the name while any process has the fence.
    ///
    /// # Errors
    /// [`Error::Refused`] if the fence was not created to be shared.
    pub fn share(&self) -> Result<NtHandle, Error> {
        self.device().session().call(&ShareNativeFence { fence: self.handle() })
    }
}

impl Device {
    /// Opens a fence by the name that [`Fence::share`] returned (`D3DKMTOpenNativeFenceFromNTHandle`).
    ///
    /// # Errors
    /// [`Error::Refused`] if no fence has the name, or this guest may not open it.
    pub fn open_fence(&self, nt_handle: NtHandle) -> Result<Fence, Error> {
        let request = OpenNativeFence { device: self.handle(), nt_handle };
        let opened = self.session().call(&request)?;
        Ok(Fence::own(self.clone(), opened))
    }
}
