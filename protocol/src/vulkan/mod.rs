// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands that `EXECUTE_COMMANDS` has the host's Vulkan execute, and the memory that they name. Specific to Bellhop.
//!
//! A driver writes commands one after the other into memory of the process: a *stream*. Addresses are GPU virtual
//! addresses. Nothing is created by a request, and the host keeps no state that a later stream depends on: pipelines,
//! descriptor sets, images and samplers lie in the process's memory, too, and the host makes Vulkan's objects of them when a command names
//! them, as often as it needs to. So the process that executes streams may end between two of them, and another goes on.
//!
//! Commands may overlap, except that a [`Barrier`] waits for all before it. A stream begins when everything before it in its
//! queue is done, and its stores are visible when it is done.

mod caps;
mod command;
mod extensions;
mod format;
mod graphics_pipeline;
mod graphics_state;
mod image;
mod pipeline;
mod rendering;
#[cfg(test)]
mod tests;

pub use caps::{CAPS_VERSION, CommandCaps};
pub use command::{
    Barrier, BeginConditional, BeginQuery, BeginRendering, BeginTransform, BindGraphics, BlitImage,
    ClearAttachment, ClearDepthStencil, ClearImage, Command, CommandCode, CommandError,
    CommandHeader, Continue, Copy, CopyImage, CopyImageToMemory, CopyMemoryToImage, Dispatch, Draw,
    DrawByteCount, DrawIndexed, DrawIndirect, Encoded, EndConditional, EndQuery, EndRendering,
    EndTransform, Fill, QueryCaps, QueryImage, QueryImageFormat, ResolveImage, Resources,
    SetIndexBuffer, SetState, SetVertexBuffers, Timestamp, Update, Wait, commands,
};
pub use extensions::{ExtensionFeatures, ExtensionProperties};
pub use format::{FORMATS, Texel};
pub use graphics_pipeline::{GraphicsPipelineHead, GraphicsPipelineParts, Stage, StageParts};
pub use graphics_state::{
    Blend, GraphicsState, Scissor, StencilFace, VertexAttribute, VertexBinding, Viewport,
};
pub use image::{
    Image, ImageFormat, ImageKind, ImageNeeds, ImageView, Layers, Range, Sampler, Tiling,
};
pub use pipeline::{
    Binding, Descriptor, DescriptorKind, PipelineHead, PipelineParts, SpecialisationEntry,
};
pub use rendering::{Attachment, TransformBuffer, VertexBuffer};

/// Most bytes of a stream in one place.
pub const MAX_STREAM: u32 = 1 << 20;
/// Most bytes of a stream, with all that it [continues](Continue) with.
pub const MAX_CONTINUED: u32 = 4 << 20;
/// Most bytes that an [`Update`] carries, as `vkCmdUpdateBuffer`.
pub const MAX_UPDATE: u32 = 1 << 16;
/// Most descriptor sets of a dispatch or draw.
pub const MAX_SETS: u32 = 8;
/// Most bytes of push constants of a dispatch.
pub const MAX_PUSH_CONSTANTS: u32 = 256;
/// Most dynamic offsets of a dispatch.
pub const MAX_DYNAMIC_OFFSETS: u32 = 64;
/// Most bindings of a pipeline, in all its sets.
pub const MAX_BINDINGS: u32 = 1024;
/// Most descriptors of a pipeline, in all its sets.
pub const MAX_DESCRIPTORS: u32 = 1 << 16;
/// Most bytes of a pipeline's description.
pub const MAX_PIPELINE: u32 = 8 << 20;
/// Most bytes of an entry point's name.
pub const MAX_ENTRY_POINT: u32 = 256;
/// Most attachments of colour of a rendering.
pub const MAX_COLORS: u32 = 8;
/// Most words of a dynamic state.
pub const MAX_STATE: u32 = 96;
/// Most dynamic states of a pipeline.
pub const MAX_STATES: u32 = 64;
/// Most viewports of a pipeline.
pub const MAX_VIEWPORTS: u32 = 16;
/// Most vertex bindings of a pipeline, and most attributes.
pub const MAX_VERTEX_BINDINGS: u32 = 32;
/// Most buffers that transformed vertices are stored in at a time, and most streams of vertices.
pub const MAX_TRANSFORM_BUFFERS: u32 = 4;
/// Most stages of a graphics pipeline.
pub const MAX_STAGES: u32 = 5;
