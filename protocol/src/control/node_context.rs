// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about contexts that submit to their node: kernel-mode submission from before HW queues.
//!
//! The [`SubmissionModel`] of such a context determines the form of its submissions. In every model the reply to a
//! submission tells the value that the context's progress fence gets when the submission is done.
//!
//! Source: "GPU submissions" and "Physical vs virtual submission" of the Windows KMD overview.

use super::fence::OpenedFence;
use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// How command buffers get from the driver to the GPU.
    pub struct SubmissionModel: u32 {
        /// The basic model of WDDM 1.x: [`Render`] carries a command buffer. The host checks and copies it, and
        /// patches in the physical addresses of the allocations that it refers to.
        BASIC = 1;
        /// The basic++ model of WDDM 1.x: [`Render`] carries no command buffer but gives the GPU virtual address of
        /// the driver's own, a user-mode DMA buffer.
        BASIC_PLUS_PLUS = 2;
        /// The model of WDDM 2.0: [`SubmitCommandVirtual`] names a part of the command buffer that the host
        /// supplied, by its GPU virtual address.
        VIRTUAL = 3;
    }
}

/// `D3DKMTCreateContext`: creates a context on one node, without HW queues. It is suspended, resumed and destroyed
/// like any other context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateNodeContext {
    /// The device.
    pub device: Handle,
    /// The node's ordinal.
    pub node: u32,
    /// The form of its submissions.
    pub model: SubmissionModel,
}
crate::assert_layout!(CreateNodeContext, 16, device at 0, node at 8, model at 12);
request!(CreateNodeContext, CREATE_NODE_CONTEXT -> CreateNodeContextReply);

/// The new context, its progress fence and the limits of its submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateNodeContextReply {
    /// The context.
    pub context: Handle,
    /// Its progress fence, which is destroyed with the context.
    pub progress_fence: OpenedFence,
    /// Maximum number of command bytes in a submission.
    pub command_buffer_size: u32,
    /// Maximum number of entries in an allocation list; 0 in the virtual model.
    pub allocation_list_size: u32,
    /// Maximum number of entries in a patch location list; 0 except in the basic model.
    pub patch_location_list_size: u32,
    /// Zero.
    pub reserved: u32,
    /// The virtual model's command buffer: offset in the BAR of its first byte. All ones in the other models.
    pub command_buffer_offset: u64,
    /// The virtual model's command buffer: its GPU virtual address. 0 in the other models.
    pub command_buffer_gpu_va: u64,
}
crate::assert_layout!(
    CreateNodeContextReply, 80,
    context at 0, progress_fence at 8, command_buffer_size at 48, allocation_list_size at 52,
    patch_location_list_size at 56, reserved at 60, command_buffer_offset at 64,
    command_buffer_gpu_va at 72,
);

/// Maximum number of packet bytes in a [`Render`].
pub const RENDER_COMMANDS_MAX: u32 = 32 << 10;
/// Maximum number of entries in an allocation list.
pub const ALLOCATION_LIST_MAX: u32 = 256;
/// Maximum number of entries in a patch location list.
pub const PATCH_LOCATION_LIST_MAX: u32 = 1024;
/// Size in bytes of the command buffer that the host supplies to a context of the virtual model.
pub const VIRTUAL_COMMAND_BUFFER_SIZE: u32 = 64 << 10;

/// `D3DKMTRender`: submits to a context of the basic or the basic++ model.
///
/// The command buffer's packets, the allocation list ([`AllocationListEntry`]) and the patch location list
/// ([`PatchLocation`]) follow. The listed allocations are made resident, and stay resident until the submission is
/// done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Render {
    /// The context.
    pub context: Handle,
    /// Basic++: GPU virtual address of the user-mode DMA buffer, a multiple of 8. Basic: 0.
    pub dma_buffer: u64,
    /// Basic++: size of that buffer in bytes, a multiple of 8. Basic: 0.
    pub dma_buffer_size: u32,
    /// Basic: number of packet bytes that follow, a multiple of 8. Basic++: 0.
    pub command_length: u32,
    /// Number of entries in the allocation list.
    pub allocation_count: u32,
    /// Basic: number of entries in the patch location list. Basic++: 0.
    pub patch_location_count: u32,
}
crate::assert_layout!(
    Render, 32,
    context at 0, dma_buffer at 8, dma_buffer_size at 16, command_length at 20,
    allocation_count at 24, patch_location_count at 28,
);
request!(Render, RENDER -> SubmissionReply);

/// [`AllocationListEntry::flags`]: the submission may write the allocation.
pub const ALLOCATION_WRITE: u32 = 1 << 0;

/// `D3DDDI_ALLOCATIONLIST`: an allocation that a submission uses. An allocation may be listed more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AllocationListEntry {
    /// The allocation, of the context's device.
    pub allocation: Handle,
    /// Bit 0: [`ALLOCATION_WRITE`]. The other bits are 0.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(AllocationListEntry, 16, allocation at 0, flags at 8, reserved at 12);

/// `D3DDDI_PATCHLOCATIONLIST`: an address in the command buffer that the host fills in. The list is ordered by
/// offset and contains each address of each packet once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PatchLocation {
    /// Index of the allocation in the allocation list.
    pub allocation_index: u32,
    /// Offset of the address in the command buffer, in bytes.
    pub patch_offset: u32,
    /// Offset added to the allocation's address, in bytes.
    pub allocation_offset: u64,
}
crate::assert_layout!(
    PatchLocation, 16,
    allocation_index at 0, patch_offset at 4, allocation_offset at 8,
);

/// `D3DKMTSubmitCommand`: submits to a context of the virtual model. The driver ensures residency, with
/// `MAKE_RESIDENT` and `EVICT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SubmitCommandVirtual {
    /// The context.
    pub context: Handle,
    /// GPU virtual address of the first packet, a multiple of 8, in the context's command buffer.
    pub gpu_va: u64,
    /// Number of packet bytes, a multiple of 8, within the command buffer.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(SubmitCommandVirtual, 24, context at 0, gpu_va at 8, size at 16, reserved at 20);
request!(SubmitCommandVirtual, SUBMIT_COMMAND_VIRTUAL -> SubmissionReply);

/// The accepted submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SubmissionReply {
    /// The submission fence id: greater than in any earlier submission.
    pub submission_fence: u64,
    /// The value that the context's progress fence gets when the submission is done: 1 for the first submission, 2
    /// for the next.
    pub progress_fence_value: u64,
}
crate::assert_layout!(SubmissionReply, 16, submission_fence at 0, progress_fence_value at 8);
