// SPDX-License-Identifier: MIT OR Apache-2.0

//! What tests draw with: images and views in memory of the guest, shaders, and pipelines.

use super::super::*;
use crate::workers::streams::{DATA, PIPELINE, SET, Streams};
use bellhop_protocol::vulkan::{
    Attachment, BeginRendering, BindGraphics, Binding, Blend, CopyImageToMemory, Draw,
    EndRendering, GraphicsPipelineHead, GraphicsState, Image, ImageKind, ImageView, Layers, Range,
    Scissor, SetVertexBuffers, Stage, VertexAttribute, VertexBinding, VertexBuffer, Viewport,
};
use naga::back::spv::{Options, WriterFlags, write_vec};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use zerocopy::{FromZeros, IntoBytes};

/// Texels in a row of the images, and rows.
pub const SIZE: u32 = 16;
/// Bytes that each image may need.
pub const IMAGE: u64 = 0x8000;
/// Where images are, and vertices.
pub const IMAGES: u64 = WINDOW.start + 0x44_0000_0000;
pub const VERTICES: u64 = DATA + 0x8000;
/// Views are beside sets, in memory that the worker may not write.
pub const VIEWS: u64 = SET + 0x8000;

// Numbers of Vulkan's header: formats, usages, aspects.
pub const RGBA8: u32 = 37;
pub const D32: u32 = 126;
pub const D32_S8: u32 = 130;
pub const TRANSFERS: u32 = 0b11;
pub const COLOR_USE: u32 = 0x10;
pub const DEPTH_USE: u32 = 0x20;
pub const COLOR: u32 = 1;
pub const DEPTH: u32 = 2;
pub const STENCIL: u32 = 4;
/// Operations on attachments.
pub const LOAD: u32 = 0;
pub const CLEAR: u32 = 1;

/// A vertex: where it is, and its colour.
pub const SHADER: &str = "
    struct Out { @builtin(position) at: vec4f, @location(0) color: vec4f }
    @vertex fn vertex(@location(0) at: vec4f, @location(1) color: vec4f) -> Out {
        return Out(at, color);
    }
    @fragment fn fragment(in: Out) -> @location(0) vec4f { return in.color; }";

pub fn spirv(source: &str) -> Vec<u8> {
    let module = naga::front::wgsl::parse_str(source).unwrap();
    let information =
        Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).unwrap();
    // Vulkan's rows go down, and so do those of these tests.
    let options =
        Options { lang_version: (1, 3), flags: WriterFlags::empty(), ..Options::default() };
    write_vec(&module, &information, &options, None).unwrap().as_bytes().to_vec()
}

/// An image of two dimensions, the one with this number.
pub fn image(number: u64, format: u32, usage: u32) -> Image {
    Image {
        address: IMAGES + number * IMAGE,
        size: IMAGE,
        format,
        kind: ImageKind::TWO,
        usage: usage | TRANSFERS,
        samples: 1,
        extent: [SIZE, SIZE, 1],
        levels: 1,
        layers: 1,
        ..Image::new_zeroed()
    }
}

/// All of an image of one level and one layer.
pub fn whole(aspect: u32) -> Layers {
    Layers { aspect, level: 0, first: 0, count: 1 }
}

/// A graphics pipeline that is described.
#[derive(Clone)]
pub struct Graphics {
    pub state: GraphicsState,
    pub colors: Vec<Blend>,
    pub states: Vec<u32>,
    pub viewports: Vec<Viewport>,
    pub scissors: Vec<Scissor>,
    pub vertices: Vec<VertexBinding>,
    pub attributes: Vec<VertexAttribute>,
    pub bindings: Vec<Binding>,
    pub constants: u32,
    pub shader: &'static str,
}

impl Graphics {
    /// Draws triangles of vertices with four numbers for their place and four for their colour.
    pub fn new() -> Self {
        let state = GraphicsState {
            topology: 3,
            line_width: 1.0,
            samples: 1,
            sample_mask: [u32::MAX; 2],
            ..GraphicsState::new_zeroed()
        };
        let vertex =
            |location, offset| VertexAttribute { location, binding: 0, format: 109, offset };
        Self {
            state,
            colors: vec![Blend { format: RGBA8, write_mask: 15, ..Blend::new_zeroed() }],
            states: Vec::new(),
            viewports: vec![viewport([0.0, 0.0], [16.0, 16.0])],
            scissors: vec![Scissor { offset: [0; 2], extent: [SIZE; 2] }],
            vertices: vec![VertexBinding { binding: 0, stride: 32, rate: 0, divisor: 1 }],
            attributes: vec![vertex(0, 0), vertex(1, 16)],
            bindings: Vec::new(),
            constants: 0,
            shader: SHADER,
        }
    }

    pub fn bytes(&self, serial: u64) -> Vec<u8> {
        let spirv = spirv(self.shader);
        let stages = [(1, "vertex"), (16, "fragment")].map(|(stage, name)| {
            let (entry_point, spirv) = (name.len() as u32, spirv.len() as u32);
            (Stage { stage, entry_point, spirv, ..Stage::new_zeroed() }, name)
        });
        let mut parts = Vec::new();
        let mut put = |bytes: &[u8]| {
            parts.extend_from_slice(bytes);
            parts.resize(parts.len().next_multiple_of(8), 0);
        };
        put(self.bindings.as_bytes());
        put(self.vertices.as_bytes());
        put(self.attributes.as_bytes());
        put(self.colors.as_bytes());
        put(self.states.as_bytes());
        put(self.viewports.as_bytes());
        put(self.scissors.as_bytes());
        put(stages.map(|(stage, _)| stage).as_bytes());
        for (_, name) in stages {
            put(name.as_bytes());
            put(&spirv);
        }
        let head = GraphicsPipelineHead {
            serial,
            length: (size_of::<GraphicsPipelineHead>() + parts.len()) as u32,
            sets: self.bindings.last().map_or(0, |last| last.set + 1),
            bindings: self.bindings.len() as u32,
            push_constants: self.constants,
            stages: 2,
            vertex_bindings: self.vertices.len() as u32,
            vertex_attributes: self.attributes.len() as u32,
            colors: self.colors.len() as u32,
            states: self.states.len() as u32,
            viewports: self.viewports.len() as u32,
            scissors: self.scissors.len() as u32,
            reserved: 0,
            state: self.state,
        };
        [head.as_bytes(), &parts].concat()
    }
}

pub fn viewport(offset: [f32; 2], extent: [f32; 2]) -> Viewport {
    Viewport { offset, extent, depths: [0.0, 1.0] }
}

/// A vertex at a texel's corner.
pub fn vertex([x, y]: [f32; 2], depth: f32, color: [f32; 4]) -> [f32; 8] {
    let [r, g, b, a] = color;
    [x / 8.0 - 1.0, y / 8.0 - 1.0, depth, 1.0, r, g, b, a]
}

/// The two triangles of a rectangle between two corners.
pub fn rectangle(from: [f32; 2], to: [f32; 2], depth: f32, color: [f32; 4]) -> Vec<[f32; 8]> {
    let [left, top] = from;
    let [right, bottom] = to;
    let corners = [[left, top], [right, top], [left, bottom], [left, bottom], [right, top], to];
    assert_eq!([right, bottom], to);
    corners.map(|corner| vertex(corner, depth, color)).to_vec()
}

/// Rows of texels.
pub fn texels(of: impl Fn(u32, u32) -> u32) -> Vec<u32> {
    (0..SIZE * SIZE).map(|at| of(at % SIZE, at / SIZE)).collect()
}

pub const RED: [f32; 4] = [1.0, 0.0, 0.0, 1.0];
pub const GREEN: [f32; 4] = [0.0, 1.0, 0.0, 1.0];
pub const RED_TEXEL: u32 = 0xFF00_00FF;
pub const GREEN_TEXEL: u32 = 0xFF00_FF00;

/// The streams of a worker, with memory for images.
pub fn scene() -> Option<Streams> {
    let mut streams = Streams::new()?;
    for page in 0..8 * IMAGE / PAGE {
        streams.pages.add(IMAGES + page * PAGE, true);
    }
    Some(streams)
}

impl Streams {
    pub fn put_graphics(&self, serial: u64, pipeline: &Graphics) {
        self.write(PIPELINE, &pipeline.bytes(serial));
    }

    pub fn put_vertices(&self, vertices: &[[f32; 8]]) {
        self.write(VERTICES, vertices.as_bytes());
    }

    /// Puts a view of all of an image where the attachment of it expects it: each image has one.
    pub fn attach(&self, image: Image, aspect: u32, load: u32, clear: [u32; 4]) -> Attachment {
        let number = (image.address - IMAGES) / IMAGE;
        let (view, serial) = (VIEWS + number * 128, 100 + number);
        let described = ImageView {
            serial,
            image,
            kind: if image.layers > 1 { 5 } else { 1 },
            format: image.format,
            components: [0; 4],
            range: Range {
                aspect,
                level: 0,
                levels: 1,
                layer: 0,
                layers: image.layers,
                reserved: 0,
            },
            usage: image.usage & !TRANSFERS,
            reserved: 0,
        };
        self.write(view, described.as_bytes());
        Attachment { view, serial, load, clear, ..Attachment::default() }
    }

    /// Begins a rendering of attachments of colour, depth and stencil.
    pub fn render(&mut self, colors: &[Attachment], others: [Attachment; 2]) -> &mut Self {
        let begin = BeginRendering { extent: [SIZE; 2], layers: 1, ..BeginRendering::new_zeroed() };
        self.render_how(begin, colors, others)
    }

    pub fn render_how(
        &mut self,
        begin: BeginRendering,
        colors: &[Attachment],
        others: [Attachment; 2],
    ) -> &mut Self {
        let data = [colors.as_bytes(), others.as_bytes()].concat();
        self.put(begin, colors.len() as u32, &data)
    }

    pub fn end(&mut self) -> &mut Self {
        self.put(EndRendering::new_zeroed(), 0, &[])
    }

    /// Binds the pipeline without sets, and the vertices.
    pub fn bind(&mut self) -> &mut Self {
        let buffer = VertexBuffer { address: VERTICES, length: 0x4000, stride: 32 };
        let set = SetVertexBuffers { count: 1, ..SetVertexBuffers::new_zeroed() };
        self.put(set, 0, buffer.as_bytes()).bind_alone()
    }

    pub fn bind_alone(&mut self) -> &mut Self {
        let bind = BindGraphics { pipeline: PIPELINE, ..BindGraphics::new_zeroed() };
        self.put(bind, 0, &[])
    }

    pub fn draw(&mut self, first_vertex: u32, vertices: u32) -> &mut Self {
        self.put(Draw { vertices, instances: 1, first_vertex, ..Draw::new_zeroed() }, 0, &[])
    }

    /// Copies an aspect of an image to the data.
    pub fn show(&mut self, image: Image, aspect: u32) -> &mut Self {
        let copy = CopyImageToMemory {
            address: DATA,
            image,
            layers: whole(aspect),
            extent: image.extent,
            ..CopyImageToMemory::new_zeroed()
        };
        self.barrier().put(copy, 0, &[])
    }

    /// The texels that were copied.
    pub fn shown(&self) -> Vec<u32> {
        self.words(DATA, (SIZE * SIZE) as usize)
    }
}
