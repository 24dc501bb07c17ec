// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about what a source shows.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::Handled;
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::fence::FenceValue;
use bellhop_protocol::control::flip::{
    ControlInterrupt, GetScanLine, ScanLine, SetPointerPosition, SetPointerShape,
    SetVidPnSourceAddress, SetVidPnSourceOwner, SetVidPnSourceVisibility,
};

const NONE: RequestError = RequestError::NotSupported("displays");

impl ProcessAccess<'_> {
    pub(crate) fn set_vidpn_source_visibility(
        &mut self,
        _: SetVidPnSourceVisibility,
    ) -> Handled<()> {
        Err(NONE)
    }

    pub(crate) fn set_vidpn_source_address(
        &mut self,
        _: SetVidPnSourceAddress,
        _: Vec<FenceValue>,
    ) -> Handled<()> {
        Err(NONE)
    }

    pub(crate) fn get_scan_line(&mut self, _: GetScanLine) -> Handled<ScanLine> {
        Err(NONE)
    }

    pub(crate) fn control_interrupt(&mut self, _: ControlInterrupt) -> Handled<()> {
        Err(NONE)
    }

    pub(crate) fn set_pointer_shape(&mut self, _: SetPointerShape) -> Handled<()> {
        Err(NONE)
    }

    pub(crate) fn set_pointer_position(&mut self, _: SetPointerPosition) -> Handled<()> {
        Err(NONE)
    }

    pub(crate) fn set_vidpn_source_owner(&mut self, _: SetVidPnSourceOwner) -> Handled<()> {
        Err(NONE)
    }
}
