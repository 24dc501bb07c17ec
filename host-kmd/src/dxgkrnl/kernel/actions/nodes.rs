// SPDX-License-Identifier: MIT OR Apache-2.0

//! The nodes, GPUs and displays that a guest may name.

use crate::ddi::display::DisplayDdi;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::GpuOrdinal;
use bellhop_protocol::control::adapter::{NODE_USER_MODE_SUBMISSION_SUPPORTED, NodeMetadata};
use bellhop_protocol::features::Features;

impl ProcessAccess<'_> {
    /// The metadata of a node, without features that the guest has not negotiated.
    pub(crate) fn node(&self, node: u32) -> Result<NodeMetadata, RequestError> {
        let mut metadata = self
            .miniport
            .get_node_metadata(node)
            .ok_or(RequestError::parameter("node", node.into()))?;
        if !self.guest.features().contains(Features::USER_MODE_SUBMISSION) {
            metadata.flags &= !NODE_USER_MODE_SUBMISSION_SUPPORTED;
        }
        Ok(metadata)
    }

    /// The GPU with this ordinal, if the adapter has it.
    pub(crate) fn gpu(
        &self,
        field: &'static str,
        ordinal: u32,
    ) -> Result<GpuOrdinal, RequestError> {
        let known = 0..self.hardware.gpu_count();
        let gpu = u8::try_from(ordinal).ok().filter(|gpu| known.contains(gpu));
        gpu.map(GpuOrdinal).ok_or(RequestError::parameter(field, ordinal.into()))
    }

    /// The driver's DDIs of a display.
    pub(crate) fn display_ddi(&self) -> Result<&dyn DisplayDdi, RequestError> {
        self.miniport.display().ok_or(RequestError::NotSupported("displays"))
    }
}
