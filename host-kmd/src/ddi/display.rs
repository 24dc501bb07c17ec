// SPDX-License-Identifier: MIT OR Apache-2.0

//! The DDIs of a display, under the names of the Windows KMD overview's "Display" and "Flip/Present".

use crate::hardware::{
    DisplayCaps, DisplayPath, DisplayTicket, GpuOrdinal, GuestId, PointerShape, SourceAddress,
};
use bellhop_protocol::control::display::{
    Constraint, Pivot, Rotation, Scaling, SourceMode, TargetMode, VidPnPath,
};
use bellhop_protocol::control::flip::ScanLine;

/// A VidPN that a process asks about, beside what other processes of its guest show.
#[derive(Debug, Clone, Copy)]
pub struct VidPn<'a> {
    /// The process's paths, parts of which may not be pinned.
    pub paths: &'a [VidPnPath],
    /// The committed paths of others. None of them names a source or a target of `paths`.
    pub others: &'a [DisplayPath],
}

/// Why a VidPN is not functional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("path {path} cannot be shown: {constraint}, limit {limit}")]
pub struct VidPnRefusal {
    /// The constraint.
    pub constraint: Constraint,
    /// The first path that offends, by its place.
    pub path: u32,
    /// The constraint's limit, or 0.
    pub limit: u64,
}

/// A value of the pivot of an enumeration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modality {
    /// A source mode.
    Source(SourceMode),
    /// A target mode.
    Target(TargetMode),
    /// A scaling.
    Scaling(Scaling),
    /// A rotation.
    Rotation(Rotation),
}

/// What a driver does for the displays of guests. Dxgkrnl has checked sources and targets, except where a VidPN is
/// checked.
pub trait DisplayDdi {
    /// `DxgkDdiQueryChildRelations`: the connectors, and the limits of all. At least one source.
    fn query_child_relations(&self) -> DisplayCaps;

    /// The GPU of the chain that has a source.
    fn gpu_of_source(&self, _source: u32) -> GpuOrdinal {
        GpuOrdinal::MASTER
    }

    /// The GPU of the chain that has a child.
    fn gpu_of_child(&self, _child: u32) -> GpuOrdinal {
        GpuOrdinal::MASTER
    }

    /// `DxgkDdiQueryChildStatus`: whether a monitor is plugged in.
    fn query_child_status(&self, guest: GuestId, child: u32) -> bool;

    /// `DxgkDdiQueryDeviceDescriptor`: the EDID of a monitor that is plugged in.
    fn query_device_descriptor(&self, guest: GuestId, child: u32) -> Option<Vec<u8>>;

    /// `DxgkDdiRecommendMonitorModes`: the modes of a monitor that is plugged in, the preferred one first.
    fn recommend_monitor_modes(&self, guest: GuestId, child: u32) -> Option<Vec<TargetMode>>;

    /// `DxgkDdiIsSupportedVidPn`: whether the VidPN is functional, or can be made so by pinning what it leaves open.
    ///
    /// # Errors
    /// Tells why it is not.
    fn is_supported_vidpn(&self, guest: GuestId, vidpn: VidPn<'_>) -> Result<(), VidPnRefusal>;

    /// `DxgkDdiEnumVidPnCofuncModality`: all values of a part of one path with which [`Self::is_supported_vidpn`]
    /// succeeds.
    fn enum_vidpn_cofunc_modality(
        &self,
        guest: GuestId,
        vidpn: VidPn<'_>,
        pivot_path: u32,
        pivot: Pivot,
    ) -> Vec<Modality>;

    /// `DxgkDdiCommitVidPn` of a functional VidPN: all paths of a guest.
    fn commit_vidpn(&self, guest: GuestId, paths: &[DisplayPath]);

    /// `DxgkDdiSetVidPnSourceVisibility`.
    fn set_vidpn_source_visibility(&self, guest: GuestId, source: u32, visible: bool);

    /// `DxgkDdiSetVidPnSourceAddress`. Returns the pending flip that will not happen because of this.
    fn set_vidpn_source_address(
        &self,
        guest: GuestId,
        source: u32,
        address: Option<SourceAddress>,
    ) -> Option<u64>;

    /// `DxgkDdiGetScanLine`.
    fn get_scan_line(&self, guest: GuestId, source: u32) -> ScanLine;

    /// `DxgkDdiControlInterrupt` of a source's VSYNC: the processes that are told of each. To them it is the source
    /// `known_as`.
    fn control_interrupt(&self, guest: GuestId, source: u32, known_as: u32, wanted_by: &[u32]);

    /// `DxgkDdiSetPointerShape`.
    fn set_pointer_shape(&self, guest: GuestId, source: u32, shape: Option<PointerShape>);

    /// `DxgkDdiSetPointerPosition`.
    fn set_pointer_position(
        &self,
        guest: GuestId,
        source: u32,
        position: (i32, i32),
        visible: bool,
    );

    /// `DxgkDdiResetFromTimeout` of one guest's display on the GPU that has a source.
    fn reset_from_timeout(&self, guest: GuestId, source: u32);

    /// Lets go of surfaces that are neither shown nor pending. `None` if there is nothing to wait for.
    fn quiesce(&self, guest: GuestId) -> Option<DisplayTicket>;
}
