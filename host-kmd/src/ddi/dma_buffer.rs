// SPDX-License-Identifier: MIT OR Apache-2.0

//! DMA buffers of the basic model: what dxgkrnl asks a driver to make of a command buffer
//! (`DxgkDdiRender`) and to put addresses into (`DxgkDdiPatch`).
//!
//! A *physical address* is one of the guest's system context (see [`paging`](super::paging)): there,
//! below everything else, are the guest's DMA buffers too.
//!
//! Source: "DMA buffers" and "Physical vs virtual submission" of the Windows KMD overview.

use bellhop_protocol::control::node_context::PatchLocation;

/// Where a guest's DMA buffers begin in its system context's address space. Only the GPU reads there,
/// and no other address space leads there.
pub const DMA_BUFFERS_START: u64 = 1 << 25;
/// Bytes of all DMA buffers of a guest.
pub const DMA_BUFFERS_SIZE: u64 = 1 << 20;

/// An allocation of an allocation list, as far as a driver has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderAllocation {
    /// Its bytes.
    pub size: u64,
    /// Whether the list says that it may be written.
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
    /// The patch location list. Its indices and offsets are whatever the guest wrote.
    pub patch_locations: &'a [PatchLocation],
}

/// A DMA buffer that a driver made. Until it is patched its addresses are zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DmaBuffer {
    /// Whole packets.
    pub packets: Vec<u8>,
    /// Where the addresses are that are to be patched; in the order of their offsets, one for each
    /// address in the packets.
    pub patch_locations: Vec<PatchLocation>,
}

/// Why a command buffer is refused. Nothing of it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// `STATUS_ILLEGAL_INSTRUCTION`: the node has no such packet, or none with physical addresses.
    #[error("the node does not execute the packet at {offset:#x} with physical addresses")]
    IllegalInstruction {
        /// Of the packet.
        offset: u32,
    },
    /// `STATUS_PRIVILEGED_INSTRUCTION`: the packet has an address that no patch location covers, or
    /// accesses its allocation in a way that was not asked for, or is the host's own.
    #[error("the packet at {offset:#x} accesses what it was not given")]
    PrivilegedInstruction {
        /// Of the packet.
        offset: u32,
    },
    /// `STATUS_INVALID_USER_BUFFER`: no whole packet.
    #[error("there is no whole packet at {offset:#x}")]
    InvalidUserBuffer {
        /// Of what is none.
        offset: u32,
    },
    /// A patch location that names no allocation or no address of a packet, that is out of order, or
    /// from which the packet would access bytes outside of the allocation.
    #[error("patch location {index} does not fit its packet")]
    BadPatchLocation {
        /// In the list.
        index: u32,
    },
}
