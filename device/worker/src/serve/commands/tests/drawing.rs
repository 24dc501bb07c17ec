// SPDX-License-Identifier: MIT OR Apache-2.0

//! What Vulkan's specification forbids of renderings, draws and queries, on a device that draws and has little else.

mod blits;
mod continued;
mod pipelines;
mod renderings;
mod scope;
mod states;
mod transform;

use super::images::{RGBA8, bounds, image};
use super::{Fake, assert_malformed, one, put};
use crate::serve::commands::stream::Stream;
use crate::serve::commands::wrong::Wrong;
use crate::vulkan::{Bounds, OfGraphics, OfTransform};
use ash::vk::{self, SampleCountFlags, ShaderStageFlags, TRUE};
use bellhop_protocol::vulkan::*;
use zerocopy::{FromZeros, IntoBytes};

/// Where views and a graphics pipeline are in the window, in bytes.
const VIEWS: u64 = 20_480;
const GRAPHICS: u64 = 4096;
const COLOR: u32 = 1;
const DEPTH: u32 = 2;
const STENCIL: u32 = 4;
const D32_S8: u32 = 130;
/// Usages of attachments.
const COLORS: u32 = 0x10;
const DEPTHS: u32 = 0x20;

/// A device that draws, without any feature.
fn plain() -> OfGraphics {
    OfGraphics {
        limits: vk::PhysicalDeviceLimits {
            max_color_attachments: 4,
            max_framebuffer_width: 64,
            max_framebuffer_height: 64,
            max_framebuffer_layers: 4,
            max_viewports: 4,
            max_viewport_dimensions: [64; 2],
            viewport_bounds_range: [-128.0, 127.0],
            line_width_range: [1.0, 8.0],
            max_vertex_input_bindings: 16,
            max_vertex_input_attributes: 16,
            max_vertex_input_attribute_offset: 255,
            max_vertex_input_binding_stride: 256,
            max_draw_indirect_count: 8,
            max_tessellation_patch_size: 32,
            max_fragment_dual_src_attachments: 1,
            framebuffer_color_sample_counts: SampleCountFlags::TYPE_1 | SampleCountFlags::TYPE_4,
            framebuffer_depth_sample_counts: SampleCountFlags::TYPE_1,
            framebuffer_stencil_sample_counts: SampleCountFlags::TYPE_1,
            framebuffer_no_attachments_sample_counts: SampleCountFlags::TYPE_1,
            ..vk::PhysicalDeviceLimits::default()
        },
        depth_resolves: vk::ResolveModeFlags::SAMPLE_ZERO,
        stencil_resolves: vk::ResolveModeFlags::SAMPLE_ZERO,
        ..OfGraphics::default()
    }
}

/// Every feature of extensions, but that of lists that begin anew.
fn everything() -> ExtensionFeatures {
    ExtensionFeatures {
        transform_feedback: [TRUE; 2],
        index_type_uint8: TRUE,
        depth_clip_enable: TRUE,
        depth_clip_control: TRUE,
        provoking_vertex: [TRUE; 2],
        line_rasterization: [TRUE; 6],
        conditional_rendering: [TRUE; 2],
        vertex_attribute_divisor: [TRUE; 2],
        primitives_generated_query: [TRUE; 3],
        ..ExtensionFeatures::default()
    }
}

/// A device that draws, with every feature that is looked at.
fn rich() -> OfGraphics {
    OfGraphics {
        features: vk::PhysicalDeviceFeatures {
            geometry_shader: TRUE,
            tessellation_shader: TRUE,
            independent_blend: TRUE,
            dual_src_blend: TRUE,
            logic_op: TRUE,
            multi_draw_indirect: TRUE,
            depth_clamp: TRUE,
            depth_bias_clamp: TRUE,
            fill_mode_non_solid: TRUE,
            depth_bounds: TRUE,
            wide_lines: TRUE,
            alpha_to_one: TRUE,
            multi_viewport: TRUE,
            sample_rate_shading: TRUE,
            occlusion_query_precise: TRUE,
            pipeline_statistics_query: TRUE,
            ..vk::PhysicalDeviceFeatures::default()
        },
        most_views: 4,
        view_stages: ShaderStageFlags::VERTEX | ShaderStageFlags::FRAGMENT,
        has_draw_counts: true,
        resolves_apart: true,
        extensions: everything(),
        most_divisor: 8,
        transform: Some(OfTransform {
            streams: 4,
            buffers: 2,
            longest: 64,
            stride: 32,
            counts: true,
            selects_stream: true,
            draws: true,
        }),
        ..plain()
    }
}

fn on(device: OfGraphics) -> Bounds {
    Bounds { graphics: Some(Box::new(device)), timestamp_bits: 64, ..bounds() }
}

/// Commands that follow a barrier.
#[derive(Clone)]
struct Commands(Vec<u8>);

impl Commands {
    fn new() -> Self {
        Self(one(Barrier::new_zeroed(), 0, &[]))
    }

    fn with<C: Encoded>(mut self, command: C, argument: u32, data: &[u8]) -> Self {
        put(&mut self.0, command, argument, data);
        self
    }

    /// A rendering of attachments.
    fn render(self, attachments: &[Attachment]) -> Self {
        let begin = BeginRendering { extent: [8; 2], layers: 1, ..BeginRendering::new_zeroed() };
        self.with(begin, attachments.len() as u32 - 2, attachments.as_bytes())
    }

    fn end(self) -> Self {
        self.with(EndRendering::new_zeroed(), 0, &[])
    }

    fn draw(self) -> Self {
        self.with(Draw { vertices: 3, instances: 1, ..Draw::new_zeroed() }, 0, &[])
    }

    fn bind(self, fake: &Fake) -> Self {
        let pipeline = fake.start + GRAPHICS;
        self.with(BindGraphics { pipeline, ..BindGraphics::new_zeroed() }, 0, &[])
    }

    fn vertices(self, fake: &Fake) -> Self {
        let buffer = VertexBuffer { address: fake.start, length: 64, stride: 16 };
        let set = SetVertexBuffers { count: 1, ..SetVertexBuffers::new_zeroed() };
        self.with(set, 0, buffer.as_bytes())
    }

    fn read(&self, fake: &Fake) -> Result<(), Wrong> {
        Stream::read(&self.0, &fake.memory).map(drop)
    }

    fn plan(&self, fake: &Fake, device: OfGraphics) -> Result<(), Wrong> {
        fake.plan_for(&on(device), &self.0).map(drop)
    }
}

/// Whatever offset it has.
#[track_caller]
fn refused(result: Result<(), Wrong>, what: &str) {
    let why = result.expect_err(what).to_string();
    assert!(why.contains(what), "{why}, not {what}");
}

impl Fake {
    /// Puts a view of an image, and returns the attachment.
    fn attach(&self, number: u64, image: Image, aspect: u32) -> Attachment {
        let usage = image.usage & (COLORS | DEPTHS);
        let range =
            Range { aspect, level: 0, levels: 1, layer: 0, layers: image.layers, reserved: 0 };
        let view = ImageView {
            serial: 7,
            image,
            kind: 5,
            format: image.format,
            components: [0; 4],
            range,
            usage,
            reserved: 0,
        };
        self.put(VIEWS + number * 128, view.as_bytes());
        Attachment { view: self.start + VIEWS + number * 128, serial: 7, ..Attachment::default() }
    }

    fn color(&self) -> Attachment {
        self.attach(0, Image { usage: COLORS, levels: 1, ..image(self) }, COLOR)
    }
}

const NONE: Attachment = Attachment::NONE;

#[test]
fn commands_are_where_they_may_be_and_what_begins_ends() {
    let fake = Fake::new();
    let new = || Commands::new().render(&[NONE, NONE]);
    let begin = |query| {
        move |commands: Commands| {
            let statistics = query;
            commands.with(BeginQuery { statistics, ..BeginQuery::new_zeroed() }, query, &[])
        }
    };
    let end = |commands: Commands, query| {
        let destination = fake.start;
        commands.with(EndQuery { destination, ..EndQuery::new_zeroed() }, query, &[])
    };
    let (samples, statistics) = (begin(0), begin(1));
    let wait = Wait { address: fake.start, ..Wait::new_zeroed() };
    let clear = ClearAttachment { aspect: COLOR, ..ClearAttachment::new_zeroed() };
    new().draw().end().read(&fake).unwrap();
    end(samples(new()), 0).end().read(&fake).unwrap();
    end(samples(Commands::new()).render(&[NONE, NONE]).end(), 0).read(&fake).unwrap();
    end(end(statistics(samples(new())), 0), 1).end().read(&fake).unwrap();
    for (what, commands) in [
        ("inside of a rendering", new().render(&[NONE, NONE])),
        ("has not begun", Commands::new().end()),
        ("outside of a rendering", Commands::new().draw()),
        ("outside of a rendering", Commands::new().with(clear, 0, &[])),
        ("does not go there", new().with(Barrier::new_zeroed(), 0, &[])),
        ("does not go there", new().with(wait, 0, &[])),
        ("does not go there", new().with(fake.dispatch(0), 0, &[])),
        ("a rendering that does not end", new().draw()),
        ("a query that does not end", samples(Commands::new())),
        ("before one of its type", samples(samples(Commands::new()))),
        ("without one", end(Commands::new(), 0)),
        ("without one", end(samples(Commands::new()), 1)),
        ("where it was begun", samples(new()).end()),
        ("where it was begun", end(samples(Commands::new()).render(&[NONE, NONE]), 0)),
        ("where it was begun", samples(Commands::new()).with(wait, 0, &[])),
    ] {
        refused(commands.read(&fake), what);
    }
}

#[test]
fn fields_that_no_command_for_drawing_can_have_are_malformed() {
    let fake = Fake::new();
    let (start, end) = (fake.start, fake.end());
    let new = Commands::new;
    let index = |address, length, kind| {
        new().with(SetIndexBuffer { address, length, ..SetIndexBuffer::new_zeroed() }, kind, &[])
    };
    let indirect = |draw, kind| new().with(draw, kind, &[]);
    let some = DrawIndirect { address: start, most: 2, stride: 16, ..DrawIndirect::new_zeroed() };
    let query = |flags, statistics, kind| {
        new().with(BeginQuery { flags, statistics, ..BeginQuery::new_zeroed() }, kind, &[])
    };
    let buffer = |address, length| {
        let set = SetVertexBuffers { count: 1, ..SetVertexBuffers::new_zeroed() };
        new().with(set, 3, VertexBuffer { address, length, stride: 0 }.as_bytes())
    };
    let clear = |clear: ClearAttachment, argument| new().with(clear, argument, &[]);
    let none = ClearAttachment::new_zeroed();
    index(start, 8, 1).read(&fake).unwrap();
    index(0, 0, 0).read(&fake).unwrap();
    buffer(0, u64::MAX).read(&fake).unwrap();
    for (what, commands) in [
        ("unknown type", index(start, 8, 2)),
        ("no multiple of 4", index(start + 2, 8, 1)),
        ("not in the window", index(end, 8, 0)),
        ("not in the window", buffer(end - 8, 16)),
        ("unknown kind", indirect(some, 2)),
        ("overlap", indirect(DrawIndirect { stride: 12, ..some }, 0)),
        ("overlap", indirect(some, 1)),
        ("no multiple of 4", indirect(DrawIndirect { stride: 18, ..some }, 0)),
        ("no multiple of 4", indirect(DrawIndirect { address: start + 2, ..some }, 0)),
        ("no multiple of 4", indirect(DrawIndirect { count: start + 2, ..some }, 0)),
        ("not in the window", indirect(DrawIndirect { count: end, ..some }, 0)),
        ("not in the window", indirect(DrawIndirect { address: end - 28, ..some }, 0)),
        ("not in the window", indirect(DrawIndirect { most: u32::MAX, ..some }, 0)),
        ("unknown flag", query(2, 0, 0)),
        ("unknown flag", query(1, 1, 1)),
        ("statistics", query(0, 1, 0)),
        ("statistics", query(0, 0, 1)),
        ("statistics", query(0, 1 << 11, 1)),
        (
            "no multiple of 8",
            new().with(BindGraphics { pipeline: 4, ..BindGraphics::new_zeroed() }, 0, &[]),
        ),
        ("reserved", new().with(SetState { reserved: 1, ..SetState::new_zeroed() }, 2, &[])),
        ("unknown aspect", clear(none, 0)),
        ("unknown aspect", clear(ClearAttachment { aspect: COLOR | DEPTH, ..none }, 0)),
        ("unknown aspect", clear(ClearAttachment { aspect: DEPTH, ..none }, 1)),
        ("0 to 1", clear(ClearAttachment { aspect: DEPTH, value: [u32::MAX; 4], ..none }, 0)),
        ("reserved", clear(ClearAttachment { aspect: COLOR, reserved: 1, ..none }, 0)),
    ] {
        assert_malformed(commands.read(&fake), what);
    }
}
