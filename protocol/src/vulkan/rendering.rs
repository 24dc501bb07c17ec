// SPDX-License-Identifier: MIT OR Apache-2.0

//! What draws read and write, as commands name it.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An attachment of a rendering (`VkRenderingAttachmentInfo`).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Attachment {
    /// Address of the [`ImageView`](super::ImageView), or 0 if there is none.
    pub view: u64,
    /// The view's serial number.
    pub serial: u64,
    /// Address of the view that samples are resolved to, or 0.
    pub resolve_view: u64,
    /// Its serial number.
    pub resolve_serial: u64,
    /// `VkResolveModeFlagBits`.
    pub resolve_mode: u32,
    /// `VkAttachmentLoadOp`.
    pub load: u32,
    /// `VkAttachmentStoreOp`.
    pub store: u32,
    /// Zero.
    pub reserved: u32,
    /// `VkClearValue`.
    pub clear: [u32; 4],
}
crate::assert_layout!(
    Attachment, 64,
    view at 0, serial at 8, resolve_view at 16, resolve_serial at 24, resolve_mode at 32, load at 36, store at 40,
    reserved at 44, clear at 48,
);

impl Attachment {
    /// None.
    pub const NONE: Self = Self {
        view: 0,
        serial: 0,
        resolve_view: 0,
        resolve_serial: 0,
        resolve_mode: 0,
        load: 0,
        store: 0,
        reserved: 0,
        clear: [0; 4],
    };
}

/// A vertex buffer.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct VertexBuffer {
    /// Its first byte, or 0 if there is none.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Bytes from a vertex to the next, for a pipeline in which that is dynamic.
    pub stride: u64,
}
crate::assert_layout!(VertexBuffer, 24, address at 0, length at 8, stride at 16);

/// A buffer that transformed vertices are stored in.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct TransformBuffer {
    /// Its first byte, a multiple of 4, or 0 if there is none.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Address of the 32-bit number of bytes that it has already, a multiple of 4, or 0 for none.
    pub counter: u64,
}
crate::assert_layout!(TransformBuffer, 24, address at 0, length at 8, counter at 16);
