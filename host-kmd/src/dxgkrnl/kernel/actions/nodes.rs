// SPDX-License-Identifier: MIT OR Apache-2.0

//! The nodes, GPUs and displays that a guest may name.

use crate::ddi::Miniport;
use crate::ddi::display::DisplayDdi;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::{GpuOrdinal, Platform};
use bellhop_protocol::control::adapter::{NODE_USER_MODE_SUBMISSION_SUPPORTED, NodeMetadata};
use bellhop_protocol::features::Features;

/// The metadata of a node, without features that the guest has not negotiated.
pub(crate) fn node(
    guest: &Guest,
    miniport: &dyn Miniport,
    node: u32,
) -> Result<NodeMetadata, RequestError> {
    let metadata = miniport.get_node_metadata(node);
    let mut metadata = metadata.ok_or(RequestError::parameter("node", node.into()))?;
    if !guest.features().contains(Features::USER_MODE_SUBMISSION) {
        metadata.flags &= !NODE_USER_MODE_SUBMISSION_SUPPORTED;
    }
    Ok(metadata)
}

/// The GPU with this ordinal, if the adapter has it.
pub(crate) fn gpu(
    platform: &dyn Platform,
    field: &'static str,
    ordinal: u32,
) -> Result<GpuOrdinal, RequestError> {
    let known = 0..platform.gpu_count();
    let gpu = u8::try_from(ordinal).ok().filter(|gpu| known.contains(gpu));
    gpu.map(GpuOrdinal).ok_or(RequestError::parameter(field, ordinal.into()))
}

/// The driver's DDIs of a display.
pub(crate) fn display_ddi(miniport: &dyn Miniport) -> Result<&dyn DisplayDdi, RequestError> {
    miniport.display().ok_or(RequestError::NotSupported("displays"))
}
