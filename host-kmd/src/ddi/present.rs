// SPDX-License-Identifier: MIT OR Apache-2.0

//! What dxgkrnl asks a driver to draw (`DxgkDdiPresent`).
//!
//! Source: "Flip/Present" of the Windows KMD overview.

use super::dma_buffer::RenderAllocation;
use bellhop_protocol::control::present::{Present, Rect};

/// `DXGKARG_PRESENT`. The driver checks the request and the rectangles, which are the host's own copies of guest input.
#[derive(Debug, Clone, Copy)]
pub struct PresentArguments<'a> {
    /// The context's node.
    pub node: u32,
    /// The request. Its handles have no meaning for the driver.
    pub request: &'a Present,
    /// The parts of the destination's rectangle that are drawn; none for the whole.
    pub dirty: &'a [Rect],
    /// The allocation list: the source, unless a colour is drawn, and then the destination.
    pub allocations: &'a [RenderAllocation],
}

/// Why a driver refuses to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PresentError {
    /// The node does not draw that.
    #[error("only 3D nodes stretch")]
    NotSupported,
    /// A field is invalid.
    #[error("{field} cannot be {value:#x}")]
    InvalidParameter {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}
