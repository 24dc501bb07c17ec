// SPDX-License-Identifier: MIT OR Apache-2.0

//! Graphics pipelines.

use super::*;
use crate::serve::commands::described::Description;
use crate::serve::commands::pipelines::Pipelines;
use crate::serve::commands::wrong::Why;
use crate::vulkan::{Formats, Point, VulkanError};

/// What a description is put together from.
pub struct Parts {
    pub state: GraphicsState,
    pub stages: Vec<Stage>,
    pub vertices: Vec<VertexBinding>,
    pub attributes: Vec<VertexAttribute>,
    pub colors: Vec<Blend>,
    pub states: Vec<u32>,
    pub viewports: Vec<Viewport>,
    pub scissors: Vec<Scissor>,
}

fn stage(stage: u32) -> Stage {
    Stage { stage, entry_point: 4, spirv: 24, ..Stage::new_zeroed() }
}

fn binding(binding: u32) -> VertexBinding {
    VertexBinding { binding, stride: 16, rate: 0, divisor: 1 }
}

fn attribute(location: u32, binding: u32) -> VertexAttribute {
    VertexAttribute { location, binding, format: 109, offset: 0 }
}

fn viewport() -> Viewport {
    Viewport { offset: [0.0; 2], extent: [8.0; 2], depths: [0.0, 1.0] }
}

/// Puts a pipeline that every device takes, and that `change` has changed.
pub fn put_graphics(fake: &Fake, serial: u64, change: impl FnOnce(&mut Parts)) {
    let state =
        GraphicsState { topology: 3, line_width: 1.0, samples: 1, ..GraphicsState::new_zeroed() };
    let mut parts = Parts {
        state,
        stages: vec![stage(1), stage(16)],
        vertices: vec![binding(0)],
        attributes: vec![attribute(0, 0)],
        colors: vec![Blend { format: RGBA8, write_mask: 15, ..Blend::new_zeroed() }],
        states: Vec::new(),
        viewports: vec![viewport()],
        scissors: vec![Scissor { offset: [0; 2], extent: [8; 2] }],
    };
    change(&mut parts);
    let mut bytes = Vec::new();
    let mut put = |part: &[u8]| {
        bytes.extend_from_slice(part);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    };
    put(parts.vertices.as_bytes());
    put(parts.attributes.as_bytes());
    put(parts.colors.as_bytes());
    put(parts.states.as_bytes());
    put(parts.viewports.as_bytes());
    put(parts.scissors.as_bytes());
    put(parts.stages.as_bytes());
    for _ in &parts.stages {
        put(b"main");
        put([0x0723_0203_u32, 0, 0, 0, 0, 0].as_bytes());
    }
    let head = GraphicsPipelineHead {
        serial,
        length: (size_of::<GraphicsPipelineHead>() + bytes.len()) as u32,
        stages: parts.stages.len() as u32,
        vertex_bindings: parts.vertices.len() as u32,
        vertex_attributes: parts.attributes.len() as u32,
        colors: parts.colors.len() as u32,
        states: parts.states.len() as u32,
        viewports: parts.viewports.len() as u32,
        scissors: parts.scissors.len() as u32,
        state: parts.state,
        ..GraphicsPipelineHead::new_zeroed()
    };
    fake.put(GRAPHICS, &[head.as_bytes(), &bytes].concat());
}

/// Finds the pipeline, for a point and on a device.
fn found(
    fake: &Fake,
    pipelines: &mut Pipelines<usize>,
    point: Point,
    bounds: &Bounds,
) -> Result<usize, Why> {
    let make = |of: &Description<'_>| match of {
        Description::Compute(..) => Err(VulkanError::Lacks("draws")),
        Description::Graphics(_, modules) => Ok(modules.len()),
    };
    let found = pipelines.find(fake.start + GRAPHICS, point, &fake.memory, bounds, Some(make));
    found.map(|known| *known.made)
}

#[track_caller]
fn with(fake: &Fake, bounds: &Bounds, change: impl FnOnce(&mut Parts)) -> Result<(), String> {
    put_graphics(fake, 1, change);
    let found = found(fake, &mut Pipelines::new(9), Point::Graphics, bounds);
    found.map(|_| ()).map_err(|why| why.to_string())
}

type Change = fn(&mut Parts);

#[test]
fn what_vulkan_does_not_allow_of_a_pipeline_is_malformed() {
    let fake = Fake::new();
    let bounds = on(rich());
    with(&fake, &bounds, |_| {}).unwrap();
    let changes: &[(&str, Change)] = &[
        ("not for drawing", |it| it.stages.push(stage(32))),
        ("without a stage for vertices", |it| it.stages = vec![stage(16)]),
        ("one stage of tessellation", |it| it.stages.push(stage(2))),
        ("unknown flag", |it| it.stages[0].flags = 4),
        ("impossible size", |it| it.stages[0].subgroup_size = 8),
        ("unknown, or is there twice", |it| it.states = vec![0, 0]),
        ("unknown, or is there twice", |it| it.states = vec![1_000_099_000]),
        ("with and without", |it| it.states = vec![0, 1_000_267_003]),
        ("with and without", |it| it.states = vec![1_000_267_004, 1]),
        ("vertex binding", |it| it.vertices.push(binding(0))),
        ("vertex binding", |it| it.vertices[0].rate = 2),
        ("divisor", |it| it.vertices[0].divisor = 2),
        ("divisor", |it| it.vertices[0].divisor = 0),
        ("divisor", |it| (it.vertices[0].rate, it.vertices[0].divisor) = (1, 9)),
        ("neither yes nor no", |it| it.state.depth_from_minus_one = 2),
        ("neither yes nor no", |it| it.state.provoking_vertex = 2),
        ("neither yes nor no", |it| it.state.stipples_lines = 2),
        ("unknown number", |it| it.state.depth_clip = 3),
        ("draws lines", |it| it.state.line_mode = 4),
        ("draws lines", |it| (it.state.stipples_lines, it.state.line_stipple) = (1, [0, 1])),
        ("draws lines", |it| (it.state.stipples_lines, it.state.line_stipple) = (1, [257, 1])),
        ("draws lines", |it| (it.state.stipples_lines, it.state.line_stipple) = (1, [1, 1 << 16])),
        ("a stream", |it| it.state.stream = 4),
        ("device does not take", |it| it.vertices[0].stride = 257),
        ("device does not take", |it| it.vertices.push(binding(16))),
        ("vertex attribute", |it| it.attributes[0].binding = 1),
        ("vertex attribute", |it| it.attributes.push(attribute(0, 0))),
        ("device does not take", |it| it.attributes[0].location = 16),
        ("device does not take", |it| it.attributes[0].offset = 256),
        ("device does not take", |it| it.attributes[0].format = 1000),
        ("neither yes nor no", |it| it.state.restarts = 2),
        ("topology", |it| it.state.topology = 11),
        ("patches", |it| it.state.topology = 10),
        ("patches", |it| it.state.patch_points = 1),
        ("in a list", |it| it.state.restarts = 1),
        ("neither yes nor no", |it| it.state.clamps_depth = 2),
        ("neither yes nor no", |it| it.state.tests_stencil = 2),
        ("neither yes nor no", |it| it.state.discards = u32::MAX),
        ("unknown number", |it| it.state.polygon_mode = 3),
        ("unknown number", |it| it.state.cull_mode = 4),
        ("unknown number", |it| it.state.depth_compare = 8),
        ("unknown number", |it| it.state.front.pass = 8),
        ("unknown number", |it| it.state.back.compare = 8),
        ("unknown number", |it| it.state.logic = 16),
        ("impossible words", |it| it.state.line_width = f32::NAN),
        ("impossible words", |it| it.state.depth_bias[1] = f32::INFINITY),
        ("impossible words", |it| it.state.depth_bounds[1] = 1.5),
        ("impossible words", |it| it.viewports[0].extent[0] = 0.0),
        ("impossible words", |it| it.scissors[0].offset[0] = -1),
        ("part of samples", |it| it.state.least_shading = f32::NAN),
        ("number of viewports", |it| it.viewports.clear()),
        ("number of viewports", |it| it.viewports = vec![viewport(); 5]),
        ("number of viewports", |it| it.states = vec![1_000_267_003]),
        ("than of scissors", |it| it.viewports.push(viewport())),
        ("unknown way", |it| it.colors[0].color[1] = 19),
        ("unknown way", |it| it.colors[0].alpha[2] = 5),
        ("unknown way", |it| it.colors[0].write_mask = 16),
        ("unknown way", |it| it.colors[0].reserved = 1),
        ("more attachments", |it| it.colors = vec![it.colors[0]; 5]),
        ("does not draw into", |it| it.colors[0].format = 1000),
        ("number of samples", |it| it.state.samples = 0),
        ("number of samples", |it| it.state.samples = 3),
        ("number of samples", |it| it.state.samples = 8),
        ("number of samples", |it| (it.state.samples, it.state.depth_format) = (4, 126)),
        ("does not take there", |it| it.state.depth_format = RGBA8),
        ("does not take there", |it| it.state.depth_format = 127),
        ("does not take there", |it| it.state.stencil_format = 126),
        ("different formats", |it| (it.state.depth_format, it.state.stencil_format) = (130, 129)),
        ("more views", |it| it.state.view_mask = 16),
        ("more views", |it| {
            it.stages.push(stage(8));
            it.state.view_mask = 1;
        }),
    ];
    for (what, change) in changes {
        let why = with(&fake, &bounds, change).expect_err(what);
        assert!(why.contains(what), "{why}, not {what}");
    }
    // What is dynamic does not count.
    with(&fake, &on(plain()), |it| {
        it.states = vec![0, 2, 3, 5, 1_000_267_000, 1_000_267_008, 1_000_267_009, 1_000_267_011];
        it.viewports[0].extent[0] = f32::NAN;
        (it.state.line_width, it.state.cull_mode, it.state.depth_compare) = (f32::NAN, 9, 9);
        (it.state.depth_bias, it.state.depth_bounds) = ([f32::NAN; 3], [9.0; 2]);
        (it.state.tests_bounds, it.state.front.fail) = (1, 99);
    })
    .unwrap();
    // Nothing is drawn into viewports.
    with(&fake, &bounds, |it| {
        it.state.discards = 1;
        it.viewports.clear();
        it.scissors.clear();
    })
    .unwrap();
}

#[test]
fn what_the_device_does_not_have_is_refused_in_a_pipeline_and_taken_where_it_has_it() {
    let fake = Fake::new();
    let changes: &[Change] = &[
        |it| it.stages.push(stage(8)),
        |it| {
            it.stages.extend([stage(2), stage(4)]);
            (it.state.topology, it.state.patch_points) = (10, 3);
        },
        |it| it.state.topology = 9,
        |it| it.state.clamps_depth = 1,
        |it| it.state.polygon_mode = 1,
        |it| it.state.shades_samples = 1,
        |it| it.state.alpha_is_one = 1,
        |it| it.state.has_logic = 1,
        |it| it.state.tests_bounds = 1,
        |it| it.state.line_width = 2.0,
        |it| it.state.depth_bias[1] = 1.0,
        |it| (it.colors[0].is_on, it.colors[0].alpha[0]) = (1, 15),
        |it| it.colors.push(Blend { write_mask: 1, ..it.colors[0] }),
        |it| {
            it.viewports.push(viewport());
            it.scissors.push(it.scissors[0]);
        },
        |it| it.state.view_mask = 1,
    ];
    for (number, change) in changes.iter().enumerate() {
        with(&fake, &on(rich()), change).unwrap_or_else(|why| panic!("{number}: {why}"));
        with(&fake, &on(plain()), change).expect_err(&number.to_string());
    }
    let why = with(&fake, &bounds(), |_| {}).unwrap_err();
    assert!(why.contains("does not draw"), "{why}");
    let mut none = Box::new([[u32::MAX; 3]; FORMATS]);
    none[RGBA8 as usize] = [0x80; 3];
    let unblended = Bounds { formats: Formats::new(none), ..on(rich()) };
    with(&fake, &unblended, |_| {}).unwrap();
    let why = with(&fake, &unblended, |it| it.colors[0].is_on = 1).unwrap_err();
    assert!(why.contains("or blend"), "{why}");
}

#[test]
fn a_pipeline_of_one_kind_is_not_taken_for_one_of_the_other() {
    let fake = Fake::new();
    let (bounds, mut pipelines) = (on(plain()), Pipelines::new(9));
    put_graphics(&fake, 5, |_| {});
    // It is no description of the other kind.
    assert!(found(&fake, &mut pipelines, Point::Compute, &bounds).is_err());
    assert_eq!(found(&fake, &mut pipelines, Point::Graphics, &bounds).unwrap(), 2);
    let why = found(&fake, &mut pipelines, Point::Compute, &bounds).unwrap_err().to_string();
    assert!(why.contains("reverse"), "{why}");
    // What lacks is made as what it was named for.
    put_graphics(&fake, 6, |_| {});
    pipelines.note_lacking([(Point::Graphics, fake.start + GRAPHICS)].into_iter(), &fake.memory);
    let made = pipelines.make_lacking(&bounds, |of| match of {
        Description::Compute(..) => Ok(0),
        Description::Graphics(..) => Ok(1),
    });
    let made = made.unwrap();
    assert_eq!((*made.made, made.serial, made.draws.is_some()), (1, 6, true));
}
