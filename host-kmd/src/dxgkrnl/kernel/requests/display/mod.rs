// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about a display's children, monitors and topology.

mod flip;

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::Handled;
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::display::{
    ChildRelations, ChildStatus, CofuncModality, CommitVidPn, DeviceDescriptor,
    EnumVidPnCofuncModality, IsSupportedVidPn, MonitorModes, QueryChildRelations, QueryChildStatus,
    QueryDeviceDescriptor, RecommendMonitorModes, VidPnPath, VidPnSupport,
};

const NONE: RequestError = RequestError::NotSupported("displays");

impl ProcessAccess<'_> {
    pub(crate) fn query_child_relations(
        &mut self,
        _: QueryChildRelations,
    ) -> Handled<ChildRelations> {
        Err(NONE)
    }

    pub(crate) fn query_child_status(&mut self, _: QueryChildStatus) -> Handled<ChildStatus> {
        Err(NONE)
    }

    pub(crate) fn query_device_descriptor(
        &mut self,
        _: QueryDeviceDescriptor,
    ) -> Handled<DeviceDescriptor> {
        Err(NONE)
    }

    pub(crate) fn recommend_monitor_modes(
        &mut self,
        _: RecommendMonitorModes,
    ) -> Handled<MonitorModes> {
        Err(NONE)
    }

    pub(crate) fn is_supported_vidpn(
        &mut self,
        _: IsSupportedVidPn,
        _: Vec<VidPnPath>,
    ) -> Handled<VidPnSupport> {
        Err(NONE)
    }

    pub(crate) fn enum_vidpn_cofunc_modality(
        &mut self,
        _: EnumVidPnCofuncModality,
        _: Vec<VidPnPath>,
    ) -> Handled<CofuncModality> {
        Err(NONE)
    }

    pub(crate) fn commit_vidpn(&mut self, _: CommitVidPn, _: Vec<VidPnPath>) -> Handled<()> {
        Err(NONE)
    }
}
