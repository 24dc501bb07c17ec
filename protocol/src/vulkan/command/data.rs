// SPDX-License-Identifier: MIT OR Apache-2.0

//! What follows the structures of commands.

use super::*;
use crate::vulkan::{
    Attachment, MAX_COLORS, MAX_DYNAMIC_OFFSETS, MAX_PUSH_CONSTANTS, MAX_SETS, MAX_STATE,
    MAX_TRANSFORM_BUFFERS, MAX_UPDATE, MAX_VERTEX_BINDINGS, TransformBuffer, VertexBuffer,
};

macro_rules! no_data {
    ($($name:ident)*) => {
        $(impl $name {
            pub(super) const fn data_length(&self) -> Result<usize, Why> {
                Ok(0)
            }
        })*
    };
}
no_data!(Barrier Copy Fill Timestamp Wait QueryCaps);
no_data!(CopyImage CopyMemoryToImage CopyImageToMemory ClearImage QueryImage QueryImageFormat);
no_data!(ResolveImage BlitImage ClearDepthStencil EndRendering ClearAttachment);
no_data!(DrawByteCount BeginConditional EndConditional);
no_data!(SetIndexBuffer Draw DrawIndexed DrawIndirect BeginQuery EndQuery Continue);

impl Update {
    pub(super) const fn data_length(&self) -> Result<usize, Why> {
        let length = self.header.argument;
        if length > MAX_UPDATE || !length.is_multiple_of(4) {
            return Err(Why::Argument);
        }
        Ok(length as usize)
    }
}

impl BeginRendering {
    pub(super) const fn data_length(&self) -> Result<usize, Why> {
        let colors = self.header.argument;
        if colors > MAX_COLORS {
            return Err(Why::Argument);
        }
        Ok((colors as usize + 2) * size_of::<Attachment>())
    }

    /// The attachments, in what follows: those of colour, then that of depth and that of stencil.
    pub fn attachments(data: &[u8]) -> impl ExactSizeIterator<Item = Attachment> {
        let (attachments, _) = data.as_chunks::<{ size_of::<Attachment>() }>();
        attachments.iter().map(|bytes| zerocopy::transmute!(*bytes))
    }
}

impl SetState {
    pub(super) const fn data_length(&self) -> Result<usize, Why> {
        if self.words > MAX_STATE {
            return Err(Why::Argument);
        }
        Ok(self.words as usize * 4)
    }

    /// The words, in what follows.
    pub fn words(data: &[u8]) -> impl ExactSizeIterator<Item = u32> {
        data.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
    }
}

impl SetVertexBuffers {
    pub(super) const fn data_length(&self) -> Result<usize, Why> {
        let first = self.header.argument;
        if first > MAX_VERTEX_BINDINGS || self.count > MAX_VERTEX_BINDINGS - first {
            return Err(Why::Argument);
        }
        Ok(self.count as usize * size_of::<VertexBuffer>())
    }

    /// The buffers, in what follows.
    pub fn buffers(data: &[u8]) -> impl ExactSizeIterator<Item = VertexBuffer> {
        let (buffers, _) = data.as_chunks::<{ size_of::<VertexBuffer>() }>();
        buffers.iter().map(|bytes| zerocopy::transmute!(*bytes))
    }
}

impl BeginTransform {
    pub(super) const fn data_length(&self) -> Result<usize, Why> {
        of_buffers(self.header.argument, size_of::<TransformBuffer>())
    }

    /// The buffers, in what follows.
    pub fn buffers(data: &[u8]) -> impl ExactSizeIterator<Item = TransformBuffer> {
        let (buffers, _) = data.as_chunks::<{ size_of::<TransformBuffer>() }>();
        buffers.iter().map(|bytes| zerocopy::transmute!(*bytes))
    }
}

impl EndTransform {
    pub(super) const fn data_length(&self) -> Result<usize, Why> {
        of_buffers(self.header.argument, size_of::<u64>())
    }

    /// The addresses, in what follows.
    pub fn counters(data: &[u8]) -> impl ExactSizeIterator<Item = u64> {
        data.as_chunks().0.iter().map(|address| u64::from_le_bytes(*address))
    }
}

/// Bytes of so many structures, one for each buffer of transformed vertices.
const fn of_buffers(count: u32, size: usize) -> Result<usize, Why> {
    if count > MAX_TRANSFORM_BUFFERS {
        return Err(Why::Argument);
    }
    Ok(count as usize * size)
}

impl Dispatch {
    /// What follows it.
    #[must_use]
    pub const fn resources(&self) -> Resources {
        let Self { header, dynamic_offsets, push_constants, .. } = *self;
        Resources { sets: header.argument, dynamic_offsets, push_constants }
    }

    pub(super) fn data_length(&self) -> Result<usize, Why> {
        self.resources().data_length()
    }
}

impl BindGraphics {
    /// What follows it.
    #[must_use]
    pub const fn resources(&self) -> Resources {
        let Self { header, dynamic_offsets, push_constants, .. } = *self;
        Resources { sets: header.argument, dynamic_offsets, push_constants }
    }

    pub(super) fn data_length(&self) -> Result<usize, Why> {
        self.resources().data_length()
    }
}

/// What a dispatch or draws run on beside a pipeline. It follows the command: the addresses of sets of
/// [`Descriptor`](crate::vulkan::Descriptor)s, 8 bytes each, 0 for a set that the pipeline does not use; then 32-bit dynamic
/// offsets, padded to 8 bytes; then push constants.
#[derive(Debug, Clone, ::core::marker::Copy, PartialEq, Eq)]
pub struct Resources {
    /// Number of sets, at most [`MAX_SETS`].
    pub sets: u32,
    /// Number of dynamic offsets, at most [`MAX_DYNAMIC_OFFSETS`].
    pub dynamic_offsets: u32,
    /// Bytes of push constants: a multiple of 4, at most [`MAX_PUSH_CONSTANTS`].
    pub push_constants: u32,
}

impl Resources {
    fn data_length(self) -> Result<usize, Why> {
        let Self { sets, dynamic_offsets, push_constants } = self;
        if sets > MAX_SETS
            || dynamic_offsets > MAX_DYNAMIC_OFFSETS
            || push_constants > MAX_PUSH_CONSTANTS
            || !push_constants.is_multiple_of(4)
        {
            return Err(Why::Argument);
        }
        Ok(self.offsets_end() + push_constants as usize)
    }

    /// Bytes that follow, with their padding.
    #[must_use]
    pub const fn size(self) -> usize {
        self.offsets_end() + (self.push_constants as usize).next_multiple_of(UNIT)
    }

    /// Bytes of the sets' addresses.
    const fn sets_end(self) -> usize {
        self.sets as usize * UNIT
    }

    /// Bytes until the push constants.
    const fn offsets_end(self) -> usize {
        self.sets_end() + (self.dynamic_offsets as usize * 4).next_multiple_of(UNIT)
    }

    /// The addresses of the sets, in what follows.
    #[must_use]
    pub fn set_addresses(self, data: &[u8]) -> &[[u8; 8]] {
        data.get(..self.sets_end()).unwrap_or_default().as_chunks().0
    }

    /// The dynamic offsets, in what follows.
    #[must_use]
    pub fn offsets(self, data: &[u8]) -> &[[u8; 4]] {
        let start = self.sets_end();
        let end = start + self.dynamic_offsets as usize * 4;
        data.get(start..end).unwrap_or_default().as_chunks().0
    }

    /// The push constants, in what follows.
    #[must_use]
    pub fn constants(self, data: &[u8]) -> &[u8] {
        data.get(self.offsets_end()..).unwrap_or_default()
    }
}
