// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an EDID tells, and the blocks that tell it.

use crate::monitor::signal::Signal;
use bellhop_protocol::control::display::ConnectorKind;

/// Bytes of a block.
pub const BLOCK: usize = 128;
/// A block whose last byte makes the sum of all a multiple of 256.
pub type Block = [u8; BLOCK];

/// What an EDID tells.
#[derive(Debug, Clone, Copy)]
pub struct Edid<'a> {
    pub name: &'a str,
    pub connector: ConnectorKind,
    /// The preferred one first.
    pub signals: &'a [Signal],
    pub size_mm: (u32, u32),
    /// In Hz; 0 if the rate is constant.
    pub min_refresh: u32,
}
