// SPDX-License-Identifier: MIT OR Apache-2.0

//! Negotiation when a driver starts: which features the OS has enabled, what the OS can do for them, and what the
//! driver then advertises.
//!
//! Source: native GPU fence object, "Querying native fence feature enablement in OS" and "Native fence
//! caps".

use bellhop_protocol::control::allocation::SegmentSet;

/// Names a feature (`DXGK_FEATURE_ID`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeatureId {
    /// `DXGK_FEATURE_NATIVE_FENCE`
    NativeFence,
}

/// The OS's answer about a feature (`DXGKARGCB_ISFEATUREENABLED2::Result`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeatureResult {
    /// Whether the feature is enabled.
    pub enabled: bool,
    /// The enabled version; 0 if the feature is not enabled.
    pub version: u32,
}

/// A feature's interface table, by feature and version (`DXGKARGCB_QUERYFEATUREINTERFACE::Interface`).
pub enum FeatureInterface<'k> {
    /// Version 1 of [`FeatureId::NativeFence`].
    NativeFence1(&'k dyn NativeFenceInterface1),
}

/// `DXGKCBINT_FEATURE_NATIVEFENCE_1`
pub trait NativeFenceInterface1 {
    /// `DXGKCB_FEATURE_NATIVEFENCE_CAPS_1`
    fn get_os_caps(&self) -> NativeFenceOsCaps;
}

/// What the OS does for native fences (`DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NativeFenceOsCaps {
    /// `SupportOptimizedDefaultFenceType`: MonitoredValues of default fences may be in local memory.
    pub optimized_default_fence_type: bool,
    /// `SupportIntraGpuFenceType`
    pub intra_gpu_fence_type: bool,
}

/// The OS has no interface of this feature and version, or has not enabled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{feature:?} has no interface of version {version} that is enabled")]
pub struct NoSuchInterface {
    /// The feature.
    pub feature: FeatureId,
    /// The version.
    pub version: u32,
}

/// How a driver queries features (`DXGK_FEATURE_INTERFACE`).
pub trait DxgkFeatures {
    /// `IsFeatureEnabled`
    fn is_feature_enabled(&self, feature: FeatureId) -> FeatureResult;

    /// `QueryFeatureInterface`. Succeeds for every feature and version that [`Self::is_feature_enabled`] reported.
    ///
    /// # Errors
    /// See [`NoSuchInterface`].
    fn query_feature_interface(
        &self,
        feature: FeatureId,
        version: u32,
    ) -> Result<FeatureInterface<'_>, NoSuchInterface>;
}

/// Scheduling capabilities of a driver's GPU (`DXGK_VIDSCHCAPS`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VidSchCaps {
    /// `NativeGpuFence`. Set only if the OS has enabled the feature.
    pub native_gpu_fence: bool,
    /// `OptimizedNativeFenceSignaledInterrupt`: an interrupt for native fences names the HW queue that logged them,
    /// not the fences.
    pub optimized_native_fence_signaled_interrupt: bool,
}

/// What a driver's GPU requires of native fences (`DXGK_NATIVE_FENCE_CAPS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeFenceCaps {
    /// Bytes between the MonitoredValues of fences that share a page: a power of two, 8 to 64. The BAR sets the
    /// distance between CurrentValues.
    pub monitored_value_stride: u32,
    /// The local segments that may hold values, `PreferredSegment`: [`SegmentSet::PRIVATE`] or none. With none,
    /// values that would be in local memory are in system memory.
    pub preferred_segments: SegmentSet,
    /// `MapToGpuSystemProcess`: the context management processor can read and write both values in the GPU's system
    /// (paging) process, at the addresses that processes know.
    pub map_to_gpu_system_process: bool,
    /// First GPU virtual address where values may be mapped, in any process and in the system process.
    pub minimum_address: u64,
    /// Last such address.
    pub maximum_address: u64,
}
