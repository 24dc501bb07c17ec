// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about devices.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::target::{Manner, Target};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};

impl ProcessAccess<'_> {
    /// `D3DKMTCreateDevice`.
    pub(crate) fn create_device(&mut self, request: CreateDevice) -> Handled<Handle> {
        zero("reserved", request.reserved)?;
        if self.process()?.is_terminating() {
            return Err(RequestError::NoSuchProcess(self.process_id));
        }
        let device = self.insert(Device::default())?;
        self.process()?.add_device(device);
        Ok(Answer::Done(device))
    }

    /// `D3DKMTDestroyDevice`.
    pub(crate) fn destroy_device(&mut self, request: DestroyDevice) -> Handled<()> {
        self.get::<Device>(request.device)?;
        Ok(Answer::Terminate(Target::Device(request.device), Manner::Normal))
    }
}
