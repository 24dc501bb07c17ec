// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands of a stream.

mod data;
mod layout;
mod stream;

pub use data::Resources;
pub use stream::{CommandError, commands};

use super::{Image, Layers, Range};
use crate::packet::UNIT;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Why bytes are no command.
enum Why {
    Unknown,
    Length,
    Argument,
}

/// The first 8 bytes of every command.
#[derive(
    Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct CommandHeader {
    /// What it does.
    pub code: CommandCode,
    /// The command's length in 8-byte units, including this header; at least 1.
    pub units: u16,
    /// The command's argument; 0 if it has none.
    pub argument: u32,
}
crate::assert_layout!(CommandHeader, 8, code at 0, units at 2, argument at 4);

/// Declares commands: their numbers, their structures, and what follows those.
macro_rules! commands {
    ($($(#[$about:meta])* $code:literal $number:ident $name:ident $([$data:ident])? {
        $($(#[$field_about:meta])* $field:ident: $type:ty,)*
    })*) => {
        open_enum! {
            /// What a command does.
            pub struct CommandCode: u16 {
                $($(#[$about])* $number = $code;)*
            }
        }

        $(
            $(#[$about])*
            #[derive(
                Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
            )]
            #[repr(C)]
            pub struct $name {
                /// Number and length.
                pub header: CommandHeader,
                $($(#[$field_about])* pub $field: $type,)*
            }

            impl Encoded for $name {
                const CODE: CommandCode = CommandCode::$number;

                fn header_mut(&mut self) -> &mut CommandHeader {
                    &mut self.header
                }
            }
        )*

        /// A command that was decoded, with what follows its structure.
        #[derive(Debug, Clone, ::core::marker::Copy, PartialEq, Eq)]
        pub enum Command<'s> {
            $($(#[$about])* $name($name, &'s [u8]),)*
        }

        fn decode(header: CommandHeader, bytes: &[u8]) -> Result<Command<'_>, Why> {
            match header.code {
                $(CommandCode::$number => {
                    let (command, data) = <$name>::read_from_prefix(bytes).map_err(|_| Why::Length)?;
                    let length = command.data_length()?;
                    if data.len() != length.next_multiple_of(UNIT) {
                        return Err(Why::Length);
                    }
                    Ok(Command::$name(command, data.get(..length).unwrap_or_default()))
                })*
                _ => Err(Why::Unknown),
            }
        }
    };
}

commands! {
    /// Waits for all commands before it, whose stores those after it see.
    0x01 BARRIER Barrier {}
    /// Copies a range to another that does not overlap it.
    0x02 COPY Copy {
        /// First byte to read.
        source: u64,
        /// First byte to write.
        destination: u64,
        /// Bytes.
        length: u64,
    }
    /// Repeats the 32-bit `argument`.
    0x03 FILL Fill {
        /// First byte to write, a multiple of 4.
        destination: u64,
        /// Bytes, a multiple of 4.
        length: u64,
    }
    /// Writes the `argument` bytes that follow: at most [`MAX_UPDATE`](super::MAX_UPDATE), a multiple of 4.
    0x04 UPDATE Update {
        /// First byte to write, a multiple of 4.
        destination: u64,
    }
    /// Runs a compute pipeline. [`Resources`] of `argument` sets follow.
    0x05 DISPATCH Dispatch {
        /// Address of its [`PipelineHead`](super::PipelineHead), a multiple of 8.
        pipeline: u64,
        /// Address of three 32-bit numbers of work groups, a multiple of 4, or 0 for [`Self::groups`].
        indirect: u64,
        /// The first work group in each dimension.
        base: [u32; 3],
        /// Number of work groups in each dimension.
        groups: [u32; 3],
        /// Number of dynamic offsets, at most [`MAX_DYNAMIC_OFFSETS`](super::MAX_DYNAMIC_OFFSETS).
        dynamic_offsets: u32,
        /// Bytes of push constants: a multiple of 4, at most [`MAX_PUSH_CONSTANTS`](super::MAX_PUSH_CONSTANTS).
        push_constants: u32,
    }
    /// Writes the time at which everything before it was done: 64 bits, in units of
    /// [`CommandCaps::limits`](super::CommandCaps::limits)' `timestampPeriod`.
    0x06 TIMESTAMP Timestamp {
        /// Where to, a multiple of 8.
        destination: u64,
    }
    /// Waits for all commands before it, and then until a 32-bit word is `argument`, which a processor stores. Nothing
    /// interrupts the wait but the end of the queue.
    0x07 WAIT Wait {
        /// The word's address, a multiple of 4.
        address: u64,
    }
    /// Stores what the host's Vulkan can do: the first `length` bytes of [`CommandCaps`](super::CommandCaps).
    0x08 QUERY_CAPS QueryCaps {
        /// Where to, a multiple of 8.
        destination: u64,
        /// Most bytes to store.
        length: u64,
    }
    /// Copies texels between images, or within one between parts that do not overlap (`VkImageCopy`).
    0x09 COPY_IMAGE CopyImage {
        /// The image to read.
        source: Image,
        /// The image to write.
        destination: Image,
        /// What is read.
        from: Layers,
        /// What is written.
        to: Layers,
        /// The first texel that is read.
        from_offset: [u32; 3],
        /// The first texel that is written.
        to_offset: [u32; 3],
        /// Texels of the source in each dimension.
        extent: [u32; 3],
        /// Zero.
        reserved: u32,
    }
    /// Copies texels that lie in rows into an image (`VkBufferImageCopy`).
    0x0A COPY_MEMORY_TO_IMAGE CopyMemoryToImage {
        /// The first byte to read.
        address: u64,
        /// The image to write.
        image: Image,
        /// What is written.
        layers: Layers,
        /// The first texel that is written.
        offset: [u32; 3],
        /// Texels in each dimension.
        extent: [u32; 3],
        /// Texels from a row to the next in memory; 0 for `extent`'s.
        row_length: u32,
        /// Rows from a plane or layer to the next in memory; 0 for `extent`'s.
        height: u32,
    }
    /// Copies texels of an image into memory, where they lie in rows.
    0x0B COPY_IMAGE_TO_MEMORY CopyImageToMemory {
        /// The first byte to write.
        address: u64,
        /// The image to read.
        image: Image,
        /// What is read.
        layers: Layers,
        /// The first texel that is read.
        offset: [u32; 3],
        /// Texels in each dimension.
        extent: [u32; 3],
        /// As in `COPY_MEMORY_TO_IMAGE`.
        row_length: u32,
        /// As in `COPY_MEMORY_TO_IMAGE`.
        height: u32,
    }
    /// Writes a colour into all texels of a range.
    0x0C CLEAR_IMAGE ClearImage {
        /// The image.
        image: Image,
        /// `VkClearColorValue`.
        color: [u32; 4],
        /// What is written.
        range: Range,
    }
    /// Stores what an image needs: an [`ImageNeeds`](super::ImageNeeds).
    0x0D QUERY_IMAGE QueryImage {
        /// Where to, a multiple of 8.
        destination: u64,
        /// The image, without address and size.
        image: Image,
        /// The subresource of a linear image whose place is asked for: one layer.
        layers: Layers,
    }
    /// Stores which images of a kind there can be: an [`ImageFormat`](super::ImageFormat).
    0x0E QUERY_IMAGE_FORMAT QueryImageFormat {
        /// Where to, a multiple of 8.
        destination: u64,
        /// An image, without address, size, samples, extent, levels and layers: these are 0.
        image: Image,
    }
    /// Makes one sample of several (`VkImageResolve`).
    0x0F RESOLVE_IMAGE ResolveImage {
        /// The image to read, with several samples.
        source: Image,
        /// The image to write, with one.
        destination: Image,
        /// What is read.
        from: Layers,
        /// What is written.
        to: Layers,
        /// The first texel that is read.
        from_offset: [u32; 3],
        /// The first texel that is written.
        to_offset: [u32; 3],
        /// Texels in each dimension.
        extent: [u32; 3],
        /// Zero.
        reserved: u32,
    }
    /// Copies texels, and stretches and converts them (`VkImageBlit`). `argument` is the `VkFilter`.
    0x10 BLIT_IMAGE BlitImage {
        /// The image to read.
        source: Image,
        /// The image to write.
        destination: Image,
        /// What is read.
        from: Layers,
        /// What is written.
        to: Layers,
        /// Two corners of what is read.
        from_corners: [[u32; 3]; 2],
        /// Two corners of what is written.
        to_corners: [[u32; 3]; 2],
    }
    /// Writes a depth and a stencil into all texels of a range.
    0x11 CLEAR_DEPTH_STENCIL ClearDepthStencil {
        /// The image.
        image: Image,
        /// `VkClearDepthStencilValue`: the bits of the depth, and the stencil.
        value: [u32; 2],
        /// What is written.
        range: Range,
    }
    /// Begins a rendering (`VkRenderingInfo`). `argument` [`Attachment`](super::Attachment)s of colour follow, at most
    /// [`MAX_COLORS`](super::MAX_COLORS), then that of depth and that of stencil; one without a view is none. Until
    /// [`EndRendering`] there are no commands but draws, what they need, `TIMESTAMP` and queries.
    0x12 BEGIN_RENDERING BeginRendering {
        /// The first texel of the area, by dimension.
        offset: [u32; 2],
        /// Texels of the area in each dimension.
        extent: [u32; 2],
        /// Number of layers; 0 with a mask of views.
        layers: u32,
        /// The views that are drawn, a bit for each, or 0.
        view_mask: u32,
    }
    /// Ends the rendering.
    0x13 END_RENDERING EndRendering {}
    /// Clears a part of an attachment. `argument` is the index of one of colour.
    0x14 CLEAR_ATTACHMENT ClearAttachment {
        /// `VkImageAspectFlags`.
        aspect: u32,
        /// `VkClearValue`.
        value: [u32; 4],
        /// The first texel, by dimension.
        offset: [u32; 2],
        /// Texels in each dimension.
        extent: [u32; 2],
        /// The first layer.
        layer: u32,
        /// Number of layers.
        layers: u32,
        /// Zero.
        reserved: u32,
    }
    /// Sets dynamic state until the stream ends. `argument` is a `VkDynamicState`; its 32-bit words follow, in the order of the
    /// parameters of Vulkan's command that sets it, without counts.
    0x15 SET_STATE SetState {
        /// Number of words, at most [`MAX_STATE`](super::MAX_STATE).
        words: u32,
        /// Zero.
        reserved: u32,
    }
    /// Names vertex buffers until the stream ends: those of bindings from `argument` on. [`VertexBuffer`](super::VertexBuffer)s
    /// follow.
    0x16 SET_VERTEX_BUFFERS SetVertexBuffers {
        /// Number of buffers, at most [`MAX_VERTEX_BINDINGS`](super::MAX_VERTEX_BINDINGS).
        count: u32,
        /// Zero.
        reserved: u32,
    }
    /// Names the index buffer until the stream ends. `argument` is its `VkIndexType`.
    0x17 SET_INDEX_BUFFER SetIndexBuffer {
        /// Its first byte.
        address: u64,
        /// Bytes.
        length: u64,
    }
    /// Binds what draws run on, until the stream ends. [`Resources`] of `argument` sets follow.
    0x18 BIND_GRAPHICS BindGraphics {
        /// Address of its [`GraphicsPipelineHead`](super::GraphicsPipelineHead), a multiple of 8.
        pipeline: u64,
        /// Number of dynamic offsets, at most [`MAX_DYNAMIC_OFFSETS`](super::MAX_DYNAMIC_OFFSETS).
        dynamic_offsets: u32,
        /// Bytes of push constants: a multiple of 4, at most [`MAX_PUSH_CONSTANTS`](super::MAX_PUSH_CONSTANTS).
        push_constants: u32,
    }
    /// Draws.
    0x19 DRAW Draw {
        /// Number of vertices.
        vertices: u32,
        /// Number of instances.
        instances: u32,
        /// The first vertex.
        first_vertex: u32,
        /// The first instance.
        first_instance: u32,
    }
    /// Draws vertices that the index buffer names.
    0x1A DRAW_INDEXED DrawIndexed {
        /// Number of indices.
        indices: u32,
        /// Number of instances.
        instances: u32,
        /// The first index.
        first_index: u32,
        /// What is added to each index: a number with a sign.
        vertex_offset: i32,
        /// The first instance.
        first_instance: u32,
        /// Zero.
        reserved: u32,
    }
    /// Draws as structures in memory say: `VkDrawIndirectCommand`, or, if `argument` is 1, `VkDrawIndexedIndirectCommand`.
    0x1B DRAW_INDIRECT DrawIndirect {
        /// Address of the first structure, a multiple of 4.
        address: u64,
        /// Address of a 32-bit number of draws, a multiple of 4, or 0 for [`Self::most`].
        count: u64,
        /// Most draws.
        most: u32,
        /// Bytes from a structure to the next, a multiple of 4.
        stride: u32,
    }
    /// Begins to count. `argument` is a `VkQueryType`: occlusion, statistics of pipelines, primitives that are stored
    /// (`TRANSFORM_FEEDBACK_STREAM_EXT`), or made (`PRIMITIVES_GENERATED_EXT`). One of each may be counted at a time, of the last two
    /// one for each stream.
    0x1C BEGIN_QUERY BeginQuery {
        /// `VkQueryControlFlags`.
        flags: u32,
        /// `VkQueryPipelineStatisticFlags`, 0 for all else.
        statistics: u32,
        /// The stream of primitives, less than [`MAX_TRANSFORM_BUFFERS`](super::MAX_TRANSFORM_BUFFERS); 0 for all else.
        stream: u32,
        /// Zero.
        reserved: u32,
    }
    /// Ends counting, and has what was counted stored when the rendering has ended: 64 bits for each number, for each view of
    /// the rendering in which it began. `argument` is the `VkQueryType`.
    0x1D END_QUERY EndQuery {
        /// Where to, a multiple of 8.
        destination: u64,
        /// The stream of primitives; 0 for all else.
        stream: u32,
        /// Zero.
        reserved: u32,
    }
    /// Has the stream go on elsewhere, as if what is there lay here. It is the last command of what it is in.
    0x1E CONTINUE Continue {
        /// Where the next command lies, a multiple of 8.
        address: u64,
        /// Bytes there: a multiple of 8, at most [`MAX_STREAM`](super::MAX_STREAM). With all of them a stream has at most
        /// [`MAX_CONTINUED`](super::MAX_CONTINUED).
        length: u64,
    }
    /// Begins to store transformed vertices, in a rendering, with a pipeline that stays bound until they are stored no more. `argument`
    /// [`TransformBuffer`](super::TransformBuffer)s follow, at most [`MAX_TRANSFORM_BUFFERS`](super::MAX_TRANSFORM_BUFFERS).
    0x1F BEGIN_TRANSFORM BeginTransform {}
    /// Ends it. The addresses of `argument` 32-bit numbers follow, 8 bytes each and multiples of 4 or 0: how many bytes each buffer has
    /// goes there.
    0x20 END_TRANSFORM EndTransform {}
    /// Draws as many vertices as a buffer has that transformed vertices were stored in.
    0x21 DRAW_BYTE_COUNT DrawByteCount {
        /// Address of the 32-bit number of bytes, a multiple of 4.
        counter: u64,
        /// What is subtracted from it, a multiple of 4.
        offset: u32,
        /// Bytes of a vertex.
        stride: u32,
        /// Number of instances.
        instances: u32,
        /// The first instance.
        first_instance: u32,
    }
    /// Has draws, dispatches and `CLEAR_ATTACHMENT` do nothing if a 32-bit word is 0, or, if `argument` is 1, if it is not.
    0x22 BEGIN_CONDITIONAL BeginConditional {
        /// The word's address, a multiple of 4.
        address: u64,
    }
    /// Ends that, where it began: in the same rendering, or outside of renderings.
    0x23 END_CONDITIONAL EndConditional {}
}
/// A command's structure.
pub trait Encoded: IntoBytes + Immutable + Sized {
    /// Its number.
    const CODE: CommandCode;

    /// Its header.
    fn header_mut(&mut self) -> &mut CommandHeader;

    /// Sets the header of a command that so many bytes follow, a multiple of 8.
    #[must_use]
    #[inline]
    fn with_header(mut self, argument: u32, data: usize) -> Self {
        let units = ((size_of::<Self>() + data) / UNIT) as u16;
        *self.header_mut() = CommandHeader { code: Self::CODE, units, argument };
        self
    }
}

impl CommandHeader {
    /// The command's length in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        self.units as usize * UNIT
    }
}
