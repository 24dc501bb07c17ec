// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about the adapter as a whole.

use crate::ddi::Miniport;
use crate::dxgkrnl::kernel::actions::nodes;
use crate::dxgkrnl::kernel::callbacks::Callbacks;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::Platform;
use bellhop_protocol::control::adapter::{
    ADAPTER_BAR_MAPPED, AdapterInfo, ClockCalibration, GetNodeMetadata, INTRA_GPU_FENCE_SUPPORTED,
    NATIVE_GPU_FENCE_SUPPORTED, NODE_SUGGESTED, NativeFenceCaps, NodeMetadata, OpenAdapter,
    QueryClockCalibration, QueryNativeFenceCaps, QueryStatistics, QueryUserModeSubmissionCaps,
    Statistics, UserModeSubmissionCaps,
};
use bellhop_protocol::control::security::{QuerySecurityCaps, SecurityCaps};
use bellhop_protocol::features::{Features, Version};

/// Ticks of the adapter's clock per second.
const NANOSECONDS: u64 = 1_000_000_000;

/// What the security node offers.
pub(crate) fn query_security_caps(
    platform: &dyn Platform,
    request: QuerySecurityCaps,
) -> Handled<SecurityCaps> {
    zero("reserved", request.reserved)?;
    Ok(Answer::Done(platform.security_caps()))
}

/// `D3DKMTOpenAdapter`. A restarted driver may open the adapter again, but not while processes exist, because
/// they rely on the features.
pub(crate) fn open_adapter(
    guest: &mut Guest,
    miniport: &dyn Miniport,
    request: OpenAdapter,
) -> Handled<AdapterInfo> {
    zero("reserved", request.reserved)?;
    let mut offered = guest.resources.features;
    if guest.fences.native().is_none() {
        offered.remove(Features::NATIVE_FENCES);
    }
    let mismatch = if !Version::CURRENT.is_compatible_with(request.version) {
        Some(RequestError::Version { driver: request.version })
    } else if request.features & !offered.bits() != 0 {
        Some(RequestError::Features { wanted: request.features, offered })
    } else {
        None
    };
    if let Some(error) = mismatch {
        if guest.note_mismatch() {
            tracing::warn!(
                guest = guest.id.0,
                "{error}; install the driver that came with this daemon in the guest, or run \
                 the daemon that came with the driver"
            );
        }
        return Err(error);
    }
    if !guest.processes.is_empty() {
        return Err(RequestError::AdapterBusy(guest.processes.len() as u64));
    }
    let mut features = Features::from_bits_truncate(request.features);
    if !guest.resources.bar_mapped && !features.contains(Features::DONATED_AREAS) {
        // The guest has no place for doorbells.
        features.remove(Features::USER_MODE_SUBMISSION);
    }
    if !features.contains(Features::NATIVE_FENCES) {
        // "User-mode queues can't support monitored fences."
        features.remove(Features::USER_MODE_SUBMISSION);
    }
    if !features.contains(Features::USER_MODE_SUBMISSION) {
        features.remove(Features::DOORBELL_LINES | Features::PROCESS_BARS);
    }
    guest.open(features);
    let resources = &guest.resources;
    Ok(Answer::Done(AdapterInfo {
        version: Version::CURRENT,
        node_count: miniport.node_count(),
        features: features.bits(),
        local_memory: resources.bar.local_memory,
        flags: if resources.bar_mapped { ADAPTER_BAR_MAPPED } else { 0 },
    }))
}

/// `DxgkDdiGetNodeMetadata`, without features that the guest has not negotiated; tells whether the host suggests
/// the node.
pub(crate) fn get_node_metadata(
    guest: &Guest,
    miniport: &dyn Miniport,
    request: GetNodeMetadata,
) -> Handled<NodeMetadata> {
    zero("reserved", request.reserved)?;
    let mut metadata = nodes::node(guest, miniport, request.node)?;
    if guest.is_suggested(request.node) {
        metadata.flags |= NODE_SUGGESTED;
    }
    Ok(Answer::Done(metadata))
}

/// `DXGKQAITYPE_USERMODESUBMISSION_CAPS`.
pub(crate) fn query_user_mode_submission_caps(
    miniport: &dyn Miniport,
    request: QueryUserModeSubmissionCaps,
) -> Handled<UserModeSubmissionCaps> {
    zero("reserved", request.reserved)?;
    Ok(Answer::Done(miniport.query_user_mode_submission_caps()))
}

/// `KMTQAITYPE_WDDM_3_1_CAPS`.
pub(crate) fn query_native_fence_caps(
    guest: &Guest,
    request: QueryNativeFenceCaps,
) -> Handled<NativeFenceCaps> {
    zero("reserved", request.reserved)?;
    let native = guest.fences.native().filter(|_| guest.has_native_fences());
    let caps = native.map(|native| NativeFenceCaps {
        flags: if native.os.intra_gpu_fence_type {
            NATIVE_GPU_FENCE_SUPPORTED | INTRA_GPU_FENCE_SUPPORTED
        } else {
            NATIVE_GPU_FENCE_SUPPORTED
        },
        monitored_value_stride: native.driver.monitored_value_stride,
    });
    let none = NativeFenceCaps { flags: 0, monitored_value_stride: 0 };
    Ok(Answer::Done(caps.unwrap_or(none)))
}

/// `D3DKMTQueryClockCalibration`.
pub(crate) fn query_clock_calibration(
    platform: &dyn Platform,
    request: QueryClockCalibration,
) -> Handled<ClockCalibration> {
    zero("reserved", request.reserved)?;
    Ok(Answer::Done(ClockCalibration {
        gpu_frequency: NANOSECONDS,
        gpu_clock_counter: platform.gpu_clock(),
    }))
}

/// `D3DKMTQueryStatistics`.
pub(crate) fn query_statistics(
    guest: &Guest,
    callbacks: &Callbacks,
    platform: &dyn Platform,
    request: QueryStatistics,
) -> Handled<Statistics> {
    zero("reserved", request.reserved)?;
    Ok(Answer::Done(Statistics {
        control_messages: guest.control_messages(),
        notifies: guest.notifies(),
        victims: callbacks.doorbells.victims(guest.id),
        ..platform.statistics(guest.id)?
    }))
}
