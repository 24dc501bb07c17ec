// SPDX-License-Identifier: MIT OR Apache-2.0

//! Formats of vertices, which every device that draws reads ("Required Format Support", "Vertex Attributes").

use crate::case::{Case, case};
use crate::lab::{
    Code, Kind, Lab, Outcome, Plan, Rendering, SIZE, bytes_of, colour_form, require, same,
};
use ash::vk;

/// Declares cases: a format, the components that it has, and how each is stored.
macro_rules! formats {
    ($($name:literal $format:ident $components:literal $kind:ident;)*) => {
        pub(super) const CASES: &[Case] = &[$(case(
            concat!("vertex.format.", $name),
            concat!("vertices of ", $name, " are read, and what they lack is 0, or 1 for the last"),
            |lab| read(lab, Code::new(vk::Format::$format, $name, $components, Kind::$kind)),
        ),)*];
    };
}

formats! {
    "r8unorm" R8_UNORM 1 Unorm;
    "r8snorm" R8_SNORM 1 Snorm;
    "r8uint" R8_UINT 1 Uint;
    "r8sint" R8_SINT 1 Sint;
    "rg8unorm" R8G8_UNORM 2 Unorm;
    "rg8snorm" R8G8_SNORM 2 Snorm;
    "rg8uint" R8G8_UINT 2 Uint;
    "rg8sint" R8G8_SINT 2 Sint;
    "rgba8unorm" R8G8B8A8_UNORM 4 Unorm;
    "rgba8snorm" R8G8B8A8_SNORM 4 Snorm;
    "rgba8uint" R8G8B8A8_UINT 4 Uint;
    "rgba8sint" R8G8B8A8_SINT 4 Sint;
    "r16uint" R16_UINT 1 Uint;
    "r16sint" R16_SINT 1 Sint;
    "r16float" R16_SFLOAT 1 Float;
    "rg16uint" R16G16_UINT 2 Uint;
    "rg16sint" R16G16_SINT 2 Sint;
    "rg16float" R16G16_SFLOAT 2 Float;
    "rgba16uint" R16G16B16A16_UINT 4 Uint;
    "rgba16sint" R16G16B16A16_SINT 4 Sint;
    "rgba16float" R16G16B16A16_SFLOAT 4 Float;
    "r32uint" R32_UINT 1 Uint;
    "r32sint" R32_SINT 1 Sint;
    "r32float" R32_SFLOAT 1 Float;
    "rg32uint" R32G32_UINT 2 Uint;
    "rg32sint" R32G32_SINT 2 Sint;
    "rg32float" R32G32_SFLOAT 2 Float;
    "rgb32uint" R32G32B32_UINT 3 Uint;
    "rgb32sint" R32G32B32_SINT 3 Sint;
    "rgb32float" R32G32B32_SFLOAT 3 Float;
    "rgba32uint" R32G32B32A32_UINT 4 Uint;
    "rgba32sint" R32G32B32A32_SINT 4 Sint;
    "rgba32float" R32G32B32A32_SFLOAT 4 Float;
}

pub(super) const PACKED: &[Case] = &[
    case("vertex.format.bgra8unorm", "vertices with blue first are read", |lab| {
        packed(
            lab,
            vk::Format::B8G8R8A8_UNORM,
            0xff_80_00_33,
            [128, 0, 51, 255].map(|it| it as f32 / 255.0),
        )
    }),
    case("vertex.format.abgr8-pack32", "words of four bytes are read", |lab| {
        packed(
            lab,
            vk::Format::A8B8G8R8_UNORM_PACK32,
            0xff_80_00_33,
            [51, 0, 128, 255].map(|it| it as f32 / 255.0),
        )
    }),
    case(
        "vertex.format.a2bgr10-pack32",
        "words of ten bits for each of three numbers are read",
        |lab| {
            let word = 3 << 30 | 1023 << 20 | 341 << 10;
            packed(lab, vk::Format::A2B10G10R10_UNORM_PACK32, word, [0.0, 1.0 / 3.0, 1.0, 1.0])
        },
    ),
    case("vertex.format.rg16unorm", "numbers of 16 bits from 0 to 1 are read", |lab| {
        packed(lab, vk::Format::R16G16_UNORM, 13107 << 16 | 65535, [1.0, 0.2, 0.0, 1.0])
    }),
    case("vertex.format.rg16snorm", "numbers of 16 bits from -1 to 1 are read", |lab| {
        packed(lab, vk::Format::R16G16_SNORM, 0x8001 << 16 | 32767, [1.0, -1.0, 0.0, 1.0])
    }),
];

/// A vertex for each texel of the canvas, which gets what the vertex has.
fn source(number: &str) -> String {
    format!(
        "struct Seen {{
            @builtin(position) place: vec4<f32>,
            @location(0) @interpolate(flat) number: vec4<{number}>,
        }}
        @vertex fn vertex(@builtin(vertex_index) vertex: u32, @location(0) number: vec4<{number}>) -> Seen {{
            let place = vec2(f32(vertex % {SIZE}u), f32(vertex / {SIZE}u)) + 0.5;
            return Seen(vec4(place / {half}.0 - 1.0, 0.0, 1.0), number);
        }}
        @fragment fn fragment(seen: Seen) -> @location(0) vec4<{number}> {{ return seen.number; }}",
        half = SIZE / 2
    )
}

/// What shaders see of as many vertices as a canvas has texels.
fn seen(
    lab: &Lab,
    format: vk::Format,
    [stride, bytes]: [&[u8]; 2],
    number: &str,
) -> Outcome<Vec<u32>> {
    let gpu = lab.graphics()?;
    let target = match number {
        "u32" => vk::Format::R32G32B32A32_UINT,
        "i32" => vk::Format::R32G32B32A32_SINT,
        _ => vk::Format::R32G32B32A32_SFLOAT,
    };
    let mut plan = Plan::bare(&source(number))?;
    plan.topology = vk::PrimitiveTopology::POINT_LIST;
    plan.binding(0, stride.len() as u32, vk::VertexInputRate::VERTEX).attribute(0, 0, format, 0);
    plan.targets(&[target]);
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.buffer_of_bytes(bytes)?);
    let canvas = gpu.canvas(colour_form(target))?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.draw(SIZE * SIZE).end();
    })?;
    gpu.words(canvas)
}

fn read(lab: &Lab, code: Code) -> Outcome {
    const COUNT: u32 = SIZE * SIZE;
    let bytes = code.bytes(COUNT);
    let stride = &bytes[..bytes.len() / COUNT as usize];
    let seen = seen(lab, code.format, [stride, &bytes], code.number())?;
    let right = code.words(COUNT);
    if !code.are_near(&seen, &right) {
        same!(seen, right);
    }
    Ok(())
}

fn packed(lab: &Lab, format: vk::Format, word: u32, right: [f32; 4]) -> Outcome {
    let bytes = bytes_of(&[word; (SIZE * SIZE) as usize]);
    let seen = seen(lab, format, [&bytes[..4], &bytes], "f32")?;
    let is_near = |(seen, right): (&u32, &f32)| (f32::from_bits(*seen) - right).abs() < 1e-5;
    let near = seen.chunks(4).all(|texel| texel.iter().zip(&right).all(is_near));
    require!(
        near,
        "{:?} is not {right:?}",
        seen.iter().take(4).map(|bits| f32::from_bits(*bits)).collect::<Vec<_>>()
    );
    Ok(())
}
