// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about the adapter as a whole.

use super::request;
use crate::bar::{AreaKind, BarHeader};
use crate::features::Version;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `D3DKMTOpenAdapter`: the first request. Its reply comes only once the BAR is mapped.
///
/// `REVISION_MISMATCH` if the version's major differs from the device's (`detail`: the device's version, major in
/// the low 16 bits) or a feature is not offered (`detail`: the offered features).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OpenAdapter {
    /// The driver's version.
    pub version: Version,
    /// Zero.
    pub reserved: u32,
    /// The [features](crate::features::Features) that the driver will use.
    pub features: u64,
}
crate::assert_layout!(OpenAdapter, 16, version at 0, reserved at 4, features at 8);
request!(OpenAdapter, OPEN_ADAPTER -> AdapterInfo);

/// Properties of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AdapterInfo {
    /// The device's version.
    pub version: Version,
    /// Number of nodes.
    pub node_count: u32,
    /// The enabled features.
    pub features: u64,
    /// Bytes of CPU-visible local memory that this guest may use.
    pub local_memory: u64,
    /// Bit 0: a BAR is mapped.
    pub flags: u64,
}
crate::assert_layout!(
    AdapterInfo, 32,
    version at 0, node_count at 4, features at 8, local_memory at 16, flags at 24,
);

/// [`AdapterInfo::flags`]: a BAR is mapped.
pub const ADAPTER_BAR_MAPPED: u64 = 1 << 0;

open_enum! {
    /// The purpose of a node's engines (`DXGK_ENGINE_TYPE`).
    pub struct EngineType: u32 {
        /// Compute without graphics. `DXGK_ENGINE_TYPE` has no value for that: such an engine is `DXGK_ENGINE_TYPE_OTHER`, and
        /// its friendly name says what it is.
        COMPUTE = 0;
        /// Graphics and compute.
        THREE_D = 1;
        /// Pictures from bitstreams.
        VIDEO_DECODE = 2;
        /// Bitstreams from pictures.
        VIDEO_ENCODE = 3;
        /// Copies only: SDMA.
        COPY = 6;
        /// Sealing, opening and attestation: the security node (PSP).
        CRYPTO = 8;
    }
}

impl EngineType {
    /// Whether engines of this type execute kernels and streams of commands.
    #[must_use]
    pub const fn computes(self) -> bool {
        matches!(self, Self::THREE_D | Self::COMPUTE)
    }
}

/// `DxgkDdiGetNodeMetadata`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct GetNodeMetadata {
    /// The node's ordinal, from 0.
    pub node: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(GetNodeMetadata, 8, node at 0, reserved at 4);
request!(GetNodeMetadata, GET_NODE_METADATA -> NodeMetadata);

/// Properties of a node (`DXGK_NODEMETADATA`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct NodeMetadata {
    /// The purpose of its engines.
    pub engine_type: EngineType,
    /// [`NODE_USER_MODE_SUBMISSION_SUPPORTED`] and [`NODE_SUGGESTED`], and in bits 8 to 15 the [GPU](Self::gpu).
    pub flags: u32,
    /// A human-readable name: ASCII, padded with zeroes.
    pub friendly_name: [u8; 32],
}
crate::assert_layout!(NodeMetadata, 40, engine_type at 0, flags at 4, friendly_name at 8);

/// Where [`NodeMetadata::flags`] have the ordinal of the GPU.
const NODE_GPU_SHIFT: u32 = 8;

impl NodeMetadata {
    /// The ordinal of the node's GPU in its chain: 0 is the master's.
    #[must_use]
    pub const fn gpu(&self) -> u8 {
        (self.flags >> NODE_GPU_SHIFT) as u8
    }

    /// The same node of the GPU with this ordinal.
    #[must_use]
    pub const fn on_gpu(mut self, gpu: u8) -> Self {
        self.flags = self.flags & !(0xFF << NODE_GPU_SHIFT) | (gpu as u32) << NODE_GPU_SHIFT;
        self
    }
}

/// [`NodeMetadata::flags`]: HW queues for user-mode submission may be created on the node.
pub const NODE_USER_MODE_SUBMISSION_SUPPORTED: u32 = 1 << 0;
/// [`NodeMetadata::flags`]: the node of its type that the host suggests to this guest. The host suggests each node
/// to an equal number of guests.
pub const NODE_SUGGESTED: u32 = 1 << 1;

/// `DXGKQAITYPE_USERMODESUBMISSION_CAPS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryUserModeSubmissionCaps {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QueryUserModeSubmissionCaps, 8, reserved at 0);
request!(
    QueryUserModeSubmissionCaps, QUERY_USER_MODE_SUBMISSION_CAPS -> UserModeSubmissionCaps
);

/// `DXGK_USERMODESUBMISSION_CAPS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct UserModeSubmissionCaps {
    /// Bit 0: secondary doorbells are supported. Bit 1: [`CAPS_GLOBAL_DOORBELL`].
    pub flags: u32,
    /// Size of a doorbell in bytes.
    pub doorbell_size: u32,
    /// Size of a secondary doorbell in bytes; 0 if there are none.
    pub secondary_doorbell_size: u32,
    /// Number of physical doorbells that all guests share. With global doorbells 1, which is the guest's own.
    pub physical_doorbells: u32,
}
crate::assert_layout!(
    UserModeSubmissionCaps, 16,
    flags at 0, doorbell_size at 4, secondary_doorbell_size at 8, physical_doorbells at 12,
);

/// [`UserModeSubmissionCaps::flags`]: all HW queues of a guest ring one doorbell word, with the
/// values of a [`RingTag`](crate::doorbell::RingTag).
pub const CAPS_GLOBAL_DOORBELL: u32 = 1 << 1;

/// `KMTQAITYPE_WDDM_3_1_CAPS`, and the part of the driver's native fence caps that a process can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryNativeFenceCaps {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QueryNativeFenceCaps, 8, reserved at 0);
request!(QueryNativeFenceCaps, QUERY_NATIVE_FENCE_CAPS -> NativeFenceCaps);

/// `D3DKMT_WDDM_3_1_CAPS`, as far as it concerns native fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct NativeFenceCaps {
    /// [`NATIVE_GPU_FENCE_SUPPORTED`] and [`INTRA_GPU_FENCE_SUPPORTED`].
    pub flags: u32,
    /// Bytes between the MonitoredValues of fences that share a page; 0 if there are no native fences.
    pub monitored_value_stride: u32,
}
crate::assert_layout!(NativeFenceCaps, 8, flags at 0, monitored_value_stride at 4);

/// [`NativeFenceCaps::flags`]: `NativeGpuFenceSupported`, for this guest: it took
/// [`NATIVE_FENCES`](crate::features::Features::NATIVE_FENCES).
pub const NATIVE_GPU_FENCE_SUPPORTED: u32 = 1 << 0;
/// [`NativeFenceCaps::flags`]: fences of the type
/// [`INTRA_GPU`](super::fence::NativeFenceType::INTRA_GPU) can be created.
pub const INTRA_GPU_FENCE_SUPPORTED: u32 = 1 << 1;

/// `D3DKMTQueryStatistics`: the device's counters for this guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryStatistics {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QueryStatistics, 8, reserved at 0);
request!(QueryStatistics, QUERY_STATISTICS -> Statistics);

/// `D3DKMTQueryClockCalibration`: the adapter's clock, which `TIMESTAMP` and fence logs use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryClockCalibration {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QueryClockCalibration, 8, reserved at 0);
request!(QueryClockCalibration, QUERY_CLOCK_CALIBRATION -> ClockCalibration);

/// The adapter's clock at a time between request and reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ClockCalibration {
    /// Ticks per second.
    pub gpu_frequency: u64,
    /// The time in ticks.
    pub gpu_clock_counter: u64,
}
crate::assert_layout!(ClockCalibration, 16, gpu_frequency at 0, gpu_clock_counter at 8);

/// Counters since the guest attached. They cover this guest alone.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Statistics {
    /// Packets that this guest's queues executed.
    pub packets: u64,
    /// Bytes that this guest's packets read or wrote in bulk (copies, fills, hashes, kernels).
    pub bytes: u64,
    /// Rings that engines saw on this guest's doorbells. Several rings before one look count once.
    pub doorbells: u64,
    /// Fence interrupts raised for this guest.
    pub interrupts: u64,
    /// Requests that this guest sent.
    pub control_messages: u64,
    /// `NOTIFY_WORK_SUBMISSION` requests among them.
    pub notifies: u64,
    /// Doorbells disconnected to free a physical doorbell for another queue.
    pub victims: u64,
    /// Number of times that an engine woke up and executed one of this guest's queues first.
    pub engine_wakeups: u64,
    /// Zero.
    pub reserved: u64,
    /// Nanoseconds that engines spent executing this guest's queues, in finished turns.
    pub engine_time: u64,
}
crate::assert_layout!(
    Statistics, 80,
    packets at 0, bytes at 8, doorbells at 16, interrupts at 24, control_messages at 32,
    notifies at 40, victims at 48, engine_wakeups at 56, reserved at 64,
    engine_time at 72,
);

/// Returns the content of the BAR's header page, for a guest that has no BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryBarLayout {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QueryBarLayout, 8, reserved at 0);
request!(QueryBarLayout, QUERY_BAR_LAYOUT -> BarHeader);

/// Puts an area of the BAR into the guest's own memory, until the device is reset. A list of `extent_count`
/// [`Extent`](super::allocation::Extent)s follows.
///
/// Layout and meaning of the area stay, and offsets in replies remain offsets in the BAR: only the bytes move. An
/// area with a list too long for one request is donated in several, in order; it takes effect once it is complete.
/// `DEVICE_BUSY` if a process exists, or if the area was donated before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DonateArea {
    /// The area.
    pub kind: AreaKind,
    /// Number of extents that follow.
    pub extent_count: u32,
    /// Length of the whole donation in bytes: the area's length; for local memory any multiple of the page size up
    /// to that.
    pub length: u64,
    /// Bytes that earlier requests have donated.
    pub offset: u64,
}
crate::assert_layout!(DonateArea, 24, kind at 0, extent_count at 4, length at 8, offset at 16);
request!(DonateArea, DONATE_AREA -> ());
