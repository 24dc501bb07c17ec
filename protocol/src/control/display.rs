// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about a display's children, monitors and topology.
//!
//! A *source* is a picture that a guest composes; a *target* is the connector that a monitor is plugged into. A *path*
//! shows a source on a target. The paths together are a VidPN (video present network).
//!
//! Source: Windows KMD overview, "Display".

use super::request;
use crate::pixel_format::PixelFormat;
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most connectors, sources and paths of a guest.
pub const MAX_PATHS: u32 = 16;

open_enum! {
    /// How a source of one size fills a target of another (`D3DKMDT_VIDPN_PRESENT_PATH_SCALING`).
    pub struct Scaling: u32 {
        /// Both have one size.
        IDENTITY = 1;
        /// The source keeps its size and lies in the middle; it is no larger than the target.
        CENTERED = 2;
        /// The source fills the target.
        STRETCHED = 3;
        /// The source becomes as large as the target allows while its sides keep their ratio.
        ASPECT_RATIO_CENTERED_MAX = 4;
    }
}

open_enum! {
    /// How a source is turned on a target, counter-clockwise (`D3DKMDT_VIDPN_PRESENT_PATH_ROTATION`).
    pub struct Rotation: u32 {
        /// Not at all.
        IDENTITY = 1;
        /// By 90 degrees: the source's width fills the target's height.
        ROTATE_90 = 2;
        /// By 180 degrees.
        ROTATE_180 = 3;
        /// By 270 degrees: the source's width fills the target's height.
        ROTATE_270 = 4;
    }
}

impl Rotation {
    /// The rotation by so many quarters of a turn.
    #[must_use]
    pub fn of_quarters(quarters: u32) -> Self {
        Self(Self::IDENTITY.0 + quarters % 4)
    }

    /// Whether width and height change places.
    #[must_use]
    pub fn swaps_sides(self) -> bool {
        [Self::ROTATE_90, Self::ROTATE_270].contains(&self)
    }
}

open_enum! {
    /// What a connector is (`D3DKMDT_VIDEO_OUTPUT_TECHNOLOGY`, with values of its own).
    pub struct ConnectorKind: u32 {
        /// A connector that has no link.
        VIRTUAL = 1;
        /// HDMI.
        HDMI = 2;
        /// DisplayPort.
        DISPLAYPORT = 3;
    }
}

/// What a source composes (`D3DKMDT_VIDPN_SOURCE_MODE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SourceMode {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// How primaries store pixels.
    pub format: PixelFormat,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SourceMode, 16, width at 0, height at 4, format at 8, reserved at 12);

/// [`TargetMode::flags`]: the monitor prefers this mode.
pub const TARGET_MODE_PREFERRED: u32 = 1 << 0;
/// [`TargetMode::flags`]: a frame may wait for its flip, down to [`TargetMode::min_refresh`].
pub const TARGET_MODE_VARIABLE_REFRESH: u32 = 1 << 1;

/// What a monitor scans (`D3DKMDT_VIDEO_SIGNAL_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TargetMode {
    /// Visible pixels of a line.
    pub width: u32,
    /// Visible lines.
    pub height: u32,
    /// Pixels of a line with its blanking.
    pub total_width: u32,
    /// Lines with the vertical blanking.
    pub total_height: u32,
    /// Frames in [`Self::refresh_denominator`] seconds.
    pub refresh_numerator: u32,
    /// Seconds.
    pub refresh_denominator: u32,
    /// [`TARGET_MODE_PREFERRED`] and [`TARGET_MODE_VARIABLE_REFRESH`].
    pub flags: u32,
    /// The lowest rate of a variable refresh, in frames in 1,000 seconds; 0 without it.
    pub min_refresh: u32,
}
crate::assert_layout!(
    TargetMode, 32,
    width at 0, height at 4, total_width at 8, total_height at 12, refresh_numerator at 16,
    refresh_denominator at 20, flags at 24, min_refresh at 28,
);

impl TargetMode {
    /// Pixels a second, blanking included, rounded up: what a link must carry. `u64::MAX` for a mode without a rate or
    /// with one that is larger.
    #[must_use]
    pub fn pixel_rate(&self) -> u64 {
        let frame = u128::from(self.total_width) * u128::from(self.total_height);
        let pixels = frame * u128::from(self.refresh_numerator);
        match u128::from(self.refresh_denominator) {
            0 => u64::MAX,
            seconds => u64::try_from(pixels.div_ceil(seconds)).unwrap_or(u64::MAX),
        }
    }
}

bitflags! {
    /// Which parts of a path are given; the others are ignored.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Pinned: u32 {
        /// [`VidPnPath::source_mode`]
        const SOURCE_MODE = 1 << 0;
        /// [`VidPnPath::target_mode`]
        const TARGET_MODE = 1 << 1;
        /// [`VidPnPath::scaling`]
        const SCALING = 1 << 2;
        /// [`VidPnPath::rotation`]
        const ROTATION = 1 << 3;
    }
}

/// A path of a VidPN (`D3DKMDT_VIDPN_PRESENT_PATH`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct VidPnPath {
    /// The source.
    pub source: u32,
    /// The target: the connector's number.
    pub target: u32,
    /// [`Pinned`]
    pub flags: u32,
    /// How the source fills the target.
    pub scaling: Scaling,
    /// How the source is turned.
    pub rotation: Rotation,
    /// Zero.
    pub reserved: u32,
    /// What the source composes. Paths of one source have one source mode.
    pub source_mode: SourceMode,
    /// What the monitor scans: one of its modes.
    pub target_mode: TargetMode,
}
crate::assert_layout!(
    VidPnPath, 72,
    source at 0, target at 4, flags at 8, scaling at 12, rotation at 16, reserved at 20,
    source_mode at 24, target_mode at 40,
);

open_enum! {
    /// Why a VidPN is not functional.
    pub struct Constraint: u32 {
        /// It is functional.
        NONE = 0;
        /// There is no such source. Limit: how many there are.
        NO_SUCH_SOURCE = 1;
        /// There is no such target. Limit: how many there are.
        NO_SUCH_TARGET = 2;
        /// Two paths show on one target.
        TARGET_TWICE = 3;
        /// No monitor is plugged in.
        NOT_CONNECTED = 4;
        /// Another process shows on this source or target. Limit: that process.
        IN_USE = 5;
        /// Something of a path is not pinned, which a commit needs. Limit: the [`Pinned`] flags that are missing.
        NOT_PINNED = 6;
        /// Paths of one source have different source modes.
        SOURCE_MODES_DIFFER = 7;
        /// The source mode's format has no name.
        SOURCE_FORMAT = 8;
        /// The source is empty, wider or higher than the hardware can scan. Limit: the width or height that is too much
        /// by one, 0 for an empty one.
        SOURCE_SIZE = 9;
        /// The target mode is none of the monitor's.
        TARGET_MODE = 10;
        /// The scaling has no name.
        SCALING = 11;
        /// The rotation has no name.
        ROTATION = 12;
        /// The scaling does not take a source of this size, turned like this, to a target of that size.
        SCALING_SIZE = 13;
        /// The target mode needs more than its connector carries. Limit: pixels a second of the connector.
        CONNECTOR_PIXEL_RATE = 14;
        /// The target modes together need more than the hardware scans. Limit: pixels a second that are left for these
        /// paths.
        TOTAL_PIXEL_RATE = 15;
        /// The source and the target are of different GPUs of a chain. Limit: the ordinal of the source's GPU.
        OTHER_GPU = 16;
    }
}

/// The connectors of the guest's display. `NOT_SUPPORTED`, as all requests of a display, if it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryChildRelations {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QueryChildRelations, 8, reserved at 0);
request!(QueryChildRelations, QUERY_CHILD_RELATIONS -> ChildRelations);

/// [`ChildDescriptor::flags`]: events tell of plugging and unplugging (`HpdAwarenessInterruptible`).
pub const CHILD_HOT_PLUG_AWARE: u32 = 1 << 0;

/// A child (`DXGK_CHILD_DESCRIPTOR`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ChildDescriptor {
    /// What the connector is.
    pub kind: ConnectorKind,
    /// [`CHILD_HOT_PLUG_AWARE`], and in bits 8 to 15 the [GPU](Self::gpu).
    pub flags: u32,
}
crate::assert_layout!(ChildDescriptor, 8, kind at 0, flags at 4);

/// Where [`ChildDescriptor::flags`] have the ordinal of the GPU.
const CHILD_GPU_SHIFT: u32 = 8;

impl ChildDescriptor {
    /// The ordinal in its chain of the GPU that has the connector, and the source of the same number: 0 is the master's.
    /// Children and sources come in the order of the chain.
    #[must_use]
    pub const fn gpu(&self) -> u8 {
        (self.flags >> CHILD_GPU_SHIFT) as u8
    }

    /// The same connector of the GPU with this ordinal.
    #[must_use]
    pub const fn on_gpu(mut self, gpu: u8) -> Self {
        self.flags = self.flags & !(0xFF << CHILD_GPU_SHIFT) | (gpu as u32) << CHILD_GPU_SHIFT;
        self
    }
}

/// The children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ChildRelations {
    /// Number of children: connectors, numbered from 0.
    pub children: u32,
    /// Number of sources, numbered from 0.
    pub sources: u32,
    /// The first [`Self::children`] are used, the others zero.
    pub list: [ChildDescriptor; MAX_PATHS as usize],
}
crate::assert_layout!(ChildRelations, 136, children at 0, sources at 4, list at 8);

/// Whether a monitor is plugged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryChildStatus {
    /// The child.
    pub child: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(QueryChildStatus, 8, child at 0, reserved at 4);
request!(QueryChildStatus, QUERY_CHILD_STATUS -> ChildStatus);

/// The status of a child (`DXGK_CHILD_STATUS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ChildStatus {
    /// 1 if a monitor is plugged in, otherwise 0.
    pub connected: u32,
    /// Grows with each plug and unplug since the guest attached.
    pub generation: u32,
}
crate::assert_layout!(ChildStatus, 8, connected at 0, generation at 4);

/// Bytes of an EDID's block.
pub const EDID_BLOCK: u32 = 128;

/// A block of a monitor's EDID. `GRAPHICS_MONITOR_NOT_CONNECTED` without a monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryDeviceDescriptor {
    /// The child.
    pub child: u32,
    /// The block's first byte: a multiple of [`EDID_BLOCK`], less than the EDID's length.
    pub offset: u32,
}
crate::assert_layout!(QueryDeviceDescriptor, 8, child at 0, offset at 4);
request!(QueryDeviceDescriptor, QUERY_DEVICE_DESCRIPTOR -> DeviceDescriptor);

/// A block of an EDID (`DXGK_DEVICE_DESCRIPTOR`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DeviceDescriptor {
    /// Bytes of the whole EDID.
    pub length: u32,
    /// Zero.
    pub reserved: u32,
    /// The block.
    pub data: [u8; EDID_BLOCK as usize],
}
crate::assert_layout!(DeviceDescriptor, 136, length at 0, reserved at 4, data at 8);

/// Most modes in one [`MonitorModes`].
pub const MONITOR_MODES_PAGE: u32 = 32;

/// A monitor's modes, the preferred one first. `GRAPHICS_MONITOR_NOT_CONNECTED` without a monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RecommendMonitorModes {
    /// The child.
    pub child: u32,
    /// Modes to leave out at the beginning.
    pub first: u32,
}
crate::assert_layout!(RecommendMonitorModes, 8, child at 0, first at 4);
request!(RecommendMonitorModes, RECOMMEND_MONITOR_MODES -> MonitorModes);

/// Modes of a monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MonitorModes {
    /// Number of all its modes.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// The modes from [`RecommendMonitorModes::first`] on; behind the last, zeroes.
    pub modes: [TargetMode; MONITOR_MODES_PAGE as usize],
}
crate::assert_layout!(MonitorModes, 1032, count at 0, reserved at 4, modes at 8);

/// Whether a VidPN is functional, or can be made so by pinning what it leaves open. A list of `paths` [`VidPnPath`]s
/// follows: all paths of the process. Those of other processes stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct IsSupportedVidPn {
    /// Number of paths, at most [`MAX_PATHS`].
    pub paths: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(IsSupportedVidPn, 8, paths at 0, reserved at 4);
request!(IsSupportedVidPn, IS_SUPPORTED_VIDPN -> VidPnSupport);

/// Whether a VidPN is functional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct VidPnSupport {
    /// 1 if it is, otherwise 0.
    pub supported: u32,
    /// Why it is not.
    pub constraint: Constraint,
    /// The first path that offends, by its place in the list.
    pub path: u32,
    /// Zero.
    pub reserved: u32,
    /// The constraint's limit, if it has one.
    pub limit: u64,
}
crate::assert_layout!(
    VidPnSupport, 24,
    supported at 0, constraint at 4, path at 8, reserved at 12, limit at 16,
);

open_enum! {
    /// What [`EnumVidPnCofuncModality`] enumerates (`D3DKMDT_ENUMCOFUNCMODALITY_PIVOT_TYPE`).
    pub struct Pivot: u32 {
        /// Source modes: [`SourceMode`]
        SOURCE_MODE = 1;
        /// Target modes: [`TargetMode`]
        TARGET_MODE = 2;
        /// Scalings: [`Scaling`]
        SCALING = 3;
        /// Rotations: [`Rotation`]
        ROTATION = 4;
    }
}

/// All values of one part of one path with which the VidPN is functional, or can be made so by pinning what it leaves
/// open. Whether that part is pinned does not matter. A list of `paths` [`VidPnPath`]s follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct EnumVidPnCofuncModality {
    /// Number of paths, 1 to [`MAX_PATHS`].
    pub paths: u32,
    /// The path, by its place in the list.
    pub pivot_path: u32,
    /// The part.
    pub pivot: Pivot,
    /// Values to leave out at the beginning.
    pub first: u32,
}
crate::assert_layout!(
    EnumVidPnCofuncModality, 16,
    paths at 0, pivot_path at 4, pivot at 8, first at 12,
);
request!(EnumVidPnCofuncModality, ENUM_VIDPN_COFUNC_MODALITY -> CofuncModality);

/// Bytes of values in one [`CofuncModality`].
pub const COFUNC_MODALITY_DATA: usize = 2048;

/// Values of a part of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CofuncModality {
    /// Number of all values.
    pub count: u32,
    /// Bytes of a value.
    pub entry_size: u32,
    /// As many whole values as fit, from [`EnumVidPnCofuncModality::first`] on; behind the last, zeroes.
    pub data: [u8; COFUNC_MODALITY_DATA],
}
crate::assert_layout!(CofuncModality, 2056, count at 0, entry_size at 4, data at 8);

/// Shows these paths, all of them pinned, and no others of the process: all or nothing. A list of `paths`
/// [`VidPnPath`]s follows; with none the process gives up its sources.
///
/// The process owns the sources of its paths. A path that stays as it was is shown on without a break; a source that
/// goes loses the flips that wait, and its primary is let go before the reply. `GRAPHICS_VIDPN_TOPOLOGY_NOT_SUPPORTED`
/// if the VidPN is not functional: `detail` is the [`Constraint`] in the upper half, the path in the lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CommitVidPn {
    /// Number of paths, at most [`MAX_PATHS`].
    pub paths: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(CommitVidPn, 8, paths at 0, reserved at 4);
request!(CommitVidPn, COMMIT_VIDPN -> ());

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(total: (u32, u32), refresh: (u32, u32)) -> TargetMode {
        TargetMode {
            width: 1920,
            height: 1080,
            total_width: total.0,
            total_height: total.1,
            refresh_numerator: refresh.0,
            refresh_denominator: refresh.1,
            flags: 0,
            min_refresh: 0,
        }
    }

    #[test]
    fn a_child_keeps_its_flags_beside_its_gpu() {
        let flags = CHILD_HOT_PLUG_AWARE;
        let child = ChildDescriptor { kind: ConnectorKind::HDMI, flags };
        assert_eq!((child.gpu(), child.on_gpu(3).gpu()), (0, 3));
        assert_eq!(child.on_gpu(3).flags, 0x301);
        assert_eq!(child.on_gpu(3).on_gpu(0), child);
    }

    #[test]
    fn a_pixel_rate_counts_blanking_and_is_rounded_up() {
        // CEA-861, 1920 x 1080 at 60 Hz and at 60/1.001 Hz.
        assert_eq!(mode((2200, 1125), (60, 1)).pixel_rate(), 148_500_000);
        assert_eq!(mode((2200, 1125), (60_000, 1001)).pixel_rate(), 148_351_649);
    }

    #[test]
    fn a_pixel_rate_that_is_none_or_too_large_is_more_than_any_link_has() {
        assert_eq!(mode((2200, 1125), (60, 0)).pixel_rate(), u64::MAX);
        assert_eq!(mode((u32::MAX, u32::MAX), (u32::MAX, 1)).pixel_rate(), u64::MAX);
    }
}
