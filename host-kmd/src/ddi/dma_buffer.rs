// SPDX-License-Identifier: MIT OR Apache-2.0

//! DMA buffers of the basic model: what dxgkrnl asks a driver to make of a command buffer (`DxgkDdiRender`) and to
//! put addresses into (`DxgkDdiPatch`).
//!
//! A *physical address* is an address of the guest's system context (see [`paging`](super::paging)). That context
//! maps the guest's DMA buffers below everything else.
//!
//! Source: "DMA buffers" and "Physical vs virtual submission" of the Windows KMD overview.

use bellhop_protocol::control::node_context::PatchLocation;

/// Start of a guest's DMA buffers in the address space of its system context. Only the GPU reads them, and no other
/// address space maps them.
pub const DMA_BUFFERS_START: u64 = 1 << 25;
/// Bytes of all DMA buffers of a guest together.
pub const DMA_BUFFERS_SIZE: u64 = 1 << 20;

/// What a driver knows of an allocation in an allocation list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderAllocation {
    /// Size in bytes.
    pub size: u64,
    /// Whether the list declares it writable.
    pub writable: bool,
}

/// `DXGKARG_RENDER`. The lists are the host's own copies, within their limits.
#[derive(Debug, Clone, Copy)]
pub struct RenderArguments<'a> {
    /// The context's node.
    pub node: u32,
    /// The command buffer.
    pub commands: &'a [u8],
    /// The allocation list.
    pub allocations: &'a [RenderAllocation],
    /// The patch location list. Its indices and offsets are unchecked guest input.
    pub patch_locations: &'a [PatchLocation],
}

/// A DMA buffer that a driver made. Its addresses are zero until it is patched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DmaBuffer {
    /// Whole packets.
    pub packets: Vec<u8>,
    /// Where the packets hold addresses to patch: one entry for each address, ordered by offset.
    pub patch_locations: Vec<PatchLocation>,
}

/// Why a command buffer is refused. No part of it executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// `STATUS_ILLEGAL_INSTRUCTION`: the node has no such packet, or none with physical addresses.
    #[error("the node does not execute the packet at {offset:#x} with physical addresses")]
    IllegalInstruction {
        /// Offset of the packet.
        offset: u32,
    },
    /// `STATUS_PRIVILEGED_INSTRUCTION`: no patch location covers an address of the packet, the packet accesses its
    /// allocation in a way that the list does not allow, or only the host may use the packet.
    #[error("the packet at {offset:#x} accesses what it was not given")]
    PrivilegedInstruction {
        /// Offset of the packet.
        offset: u32,
    },
    /// `STATUS_INVALID_USER_BUFFER`: the bytes are not a whole packet.
    #[error("there is no whole packet at {offset:#x}")]
    InvalidUserBuffer {
        /// Offset of those bytes.
        offset: u32,
    },
    /// A patch location names no allocation or no address of a packet, is out of order, or would let the packet
    /// access bytes outside the allocation.
    #[error("patch location {index} does not fit its packet")]
    BadPatchLocation {
        /// Index in the list.
        index: u32,
    },
}
