// SPDX-License-Identifier: MIT OR Apache-2.0

//! Negotiation at the start of a driver: which features the OS has enabled and what it can do for
//! them, and what the driver then advertises.
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

/// What the OS answers of a feature (`DXGKARGCB_ISFEATUREENABLED2::Result`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeatureResult {
    /// Whether it is enabled.
    pub enabled: bool,
    /// The enabled version; 0 when none is.
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

/// The OS has no interface of that feature and version, or has not enabled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{feature:?} has no interface of version {version} that is enabled")]
pub struct NoSuchInterface {
    /// The feature.
    pub feature: FeatureId,
    /// The version.
    pub version: u32,
}

/// How a driver asks (`DXGK_FEATURE_INTERFACE`).
pub trait DxgkFeatures {
    /// `IsFeatureEnabled`
    fn is_feature_enabled(&self, feature: FeatureId) -> FeatureResult;

    /// `QueryFeatureInterface`. It succeeds for what [`Self::is_feature_enabled`] answered.
    ///
    /// # Errors
    /// See [`NoSuchInterface`].
    fn query_feature_interface(
        &self,
        feature: FeatureId,
        version: u32,
    ) -> Result<FeatureInterface<'_>, NoSuchInterface>;
}

/// What a driver's GPU can have scheduled (`DXGK_VIDSCHCAPS`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VidSchCaps {
    /// `NativeGpuFence`. Only where the OS has enabled the feature.
    pub native_gpu_fence: bool,
    /// `OptimizedNativeFenceSignaledInterrupt`: interrupts for native fences name the HW queue whose log
    /// says which, and not the fences.
    pub optimized_native_fence_signaled_interrupt: bool,
}

/// What a driver's GPU wants of native fences (`DXGK_NATIVE_FENCE_CAPS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeFenceCaps {
    /// Bytes from one MonitoredValue to the next of fences that share a page: a power of two, 8 to 64.
    /// CurrentValues are as far apart as the BAR has them.
    pub monitored_value_stride: u32,
    /// The local segments that values may be in, `PreferredSegment`: [`SegmentSet::PRIVATE`], or none.
    /// Values that would be in local memory are in system memory then.
    pub preferred_segments: SegmentSet,
    /// `MapToGpuSystemProcess`: the context management processor finds both values in the GPU's system (paging)
    /// process, at the addresses that processes know, to read and to write.
    pub map_to_gpu_system_process: bool,
    /// First GPU virtual address that values may be mapped at, in any process and in the system process.
    pub minimum_address: u64,
    /// The last such address.
    pub maximum_address: u64,
}
