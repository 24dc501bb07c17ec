// SPDX-License-Identifier: MIT OR Apache-2.0

//! The features that the OS has enabled, and whether the driver keeps to them.
//!
//! Source: native GPU fence object, "Querying native fence feature enablement in OS" and "Native fence
//! caps".

use crate::ddi::Miniport;
use crate::ddi::feature::{
    DxgkFeatures, FeatureId, FeatureInterface, FeatureResult, NativeFenceCaps,
    NativeFenceInterface1, NativeFenceOsCaps, NoSuchInterface,
};
use crate::dxgkrnl::fence::storage::{MAX_STRIDE, values_start};
use crate::hardware::FENCES_PER_PAGE;
use bellhop_protocol::control::allocation::SegmentSet;

/// The version of native fences that dxgkrnl implements.
const NATIVE_FENCE_VERSION: u32 = 1;

/// Maximum number of fences of a guest: all of them must have addresses.
const FENCES: u32 = 1 << 16;

/// The features that the host enables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OsFeatures {
    /// Native fences, with the OS's capabilities for them; `None` disables them.
    pub native_fences: Option<NativeFenceOsCaps>,
}

impl Default for OsFeatures {
    /// Enables everything.
    fn default() -> Self {
        let caps =
            NativeFenceOsCaps { optimized_default_fence_type: true, intra_gpu_fence_type: true };
        Self { native_fences: Some(caps) }
    }
}

impl DxgkFeatures for OsFeatures {
    fn is_feature_enabled(&self, feature: FeatureId) -> FeatureResult {
        match feature {
            FeatureId::NativeFence if self.native_fences.is_some() => {
                FeatureResult { enabled: true, version: NATIVE_FENCE_VERSION }
            }
            FeatureId::NativeFence => FeatureResult::default(),
        }
    }

    fn query_feature_interface(
        &self,
        feature: FeatureId,
        version: u32,
    ) -> Result<FeatureInterface<'_>, NoSuchInterface> {
        match (feature, version, &self.native_fences) {
            (FeatureId::NativeFence, NATIVE_FENCE_VERSION, Some(caps)) => {
                Ok(FeatureInterface::NativeFence1(caps))
            }
            _ => Err(NoSuchInterface { feature, version }),
        }
    }
}

impl NativeFenceInterface1 for NativeFenceOsCaps {
    fn get_os_caps(&self) -> NativeFenceOsCaps {
        *self
    }
}

/// Why an adapter cannot be initialised with a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdapterError {
    /// "The OS fails adapter initialization if KMD advertises native fence support if the feature isn't
    /// enabled by the OS."
    #[error(
        "the driver advertises native fences, which are not enabled; set adapter.native_fences to true"
    )]
    NativeFencesNotEnabled,
    /// The driver's MonitoredValues are where dxgkrnl cannot put them.
    #[error(
        "the driver's MonitoredValues are {0} bytes apart; that must be a power of two, 8 to {MAX_STRIDE}"
    )]
    MonitoredValueStride(u32),
    /// Local segments that cannot hold values, because a guest could reach them there.
    #[error("the driver prefers native fences in the segments {0:?}; PRIVATE or none can be")]
    FenceSegments(SegmentSet),
    /// The address range has no room for the values of all fences.
    #[error(
        "the driver lets native fences be mapped from {minimum:#x} to {maximum:#x} only, where they have no room"
    )]
    FenceAddresses {
        /// `MinimumAddress`
        minimum: u64,
        /// `MaximumAddress`
        maximum: u64,
    },
}

/// Native fences as the OS and the driver agreed on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NativeFences {
    /// The OS's capabilities.
    pub(crate) os: NativeFenceOsCaps,
    /// The driver's requirements.
    pub(crate) driver: NativeFenceCaps,
    /// Whether interrupts name HW queues.
    pub(crate) optimized_interrupt: bool,
    /// GPU virtual address of the first page of values.
    pub(crate) start: u64,
}

impl NativeFences {
    /// Starts a driver and queries what it advertises. Returns `None` if there are no native fences.
    pub(crate) fn negotiate(
        miniport: &mut dyn Miniport,
        features: &OsFeatures,
    ) -> Result<Option<Self>, AdapterError> {
        miniport.start_device(features);
        let caps = miniport.query_vidsch_caps();
        if !caps.native_gpu_fence {
            return Ok(None);
        }
        let os = features.native_fences.ok_or(AdapterError::NativeFencesNotEnabled)?;
        let driver = miniport.query_native_fence_caps();
        let NativeFenceCaps { monitored_value_stride: stride, .. } = driver;
        if !stride.is_power_of_two() || !(8..=MAX_STRIDE).contains(&stride) {
            return Err(AdapterError::MonitoredValueStride(stride));
        }
        if !SegmentSet::PRIVATE.contains(driver.preferred_segments) {
            return Err(AdapterError::FenceSegments(driver.preferred_segments));
        }
        let (minimum, maximum) = (driver.minimum_address, driver.maximum_address);
        let start = values_start(FENCES.div_ceil(FENCES_PER_PAGE), minimum, maximum);
        let start = start.ok_or(AdapterError::FenceAddresses { minimum, maximum })?;
        let optimized_interrupt = caps.optimized_native_fence_signaled_interrupt;
        Ok(Some(Self { os, driver, optimized_interrupt, start }))
    }

    /// Bytes from one MonitoredValue to the next.
    pub(crate) fn monitored_value_stride(&self) -> u64 {
        self.driver.monitored_value_stride.into()
    }
}
