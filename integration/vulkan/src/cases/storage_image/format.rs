// SPDX-License-Identifier: MIT OR Apache-2.0

//! What formats make of what shaders store, and what shaders load of it.

use super::shader::Shader;
use crate::case::{Case, case};
use crate::lab::{Code, Form, Kind, Lab, Outcome, require, same};
use ash::vk;
use ash::vk::Format as F;

/// Declares two cases for each format: its name, its number, what WGSL calls it, its components, and how they are stored.
macro_rules! cases {
    ($($name:literal, $format:ident, $wgsl:literal, $components:literal, $kind:ident;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            case(
                concat!("storage-image.store.", $name),
                concat!("a shader stores texels of the format ", $name),
                |lab| stored(lab, Code::new(F::$format, $wgsl, $components, Kind::$kind)),
            ),
            case(
                concat!("storage-image.load.", $name),
                concat!("a shader loads texels of the format ", $name),
                |lab| loaded(lab, Code::new(F::$format, $wgsl, $components, Kind::$kind)),
            ),
        )*
            case("storage-image.store.clamped", "what no texel can be is stored as the nearest", clamped),
        ];
    };
}

cases! {
    "rgba8", R8G8B8A8_UNORM, "rgba8unorm", 4, Unorm;
    "rgba8-snorm", R8G8B8A8_SNORM, "rgba8snorm", 4, Snorm;
    "rgba8ui", R8G8B8A8_UINT, "rgba8uint", 4, Uint;
    "rgba8i", R8G8B8A8_SINT, "rgba8sint", 4, Sint;
    "rgba16f", R16G16B16A16_SFLOAT, "rgba16float", 4, Float;
    "rgba16ui", R16G16B16A16_UINT, "rgba16uint", 4, Uint;
    "rgba16i", R16G16B16A16_SINT, "rgba16sint", 4, Sint;
    "r32ui", R32_UINT, "r32uint", 1, Uint;
    "r32i", R32_SINT, "r32sint", 1, Sint;
    "r32f", R32_SFLOAT, "r32float", 1, Float;
    "rgba32ui", R32G32B32A32_UINT, "rgba32uint", 4, Uint;
    "rgba32i", R32G32B32A32_SINT, "rgba32sint", 4, Sint;
    "rgba32f", R32G32B32A32_SFLOAT, "rgba32float", 4, Float;
}

const SIZE: [u32; 2] = [13, 9];
const TEXELS: u32 = SIZE[0] * SIZE[1];

fn form(code: &Code) -> Form {
    Form::flat(code.format, SIZE[0], SIZE[1]).storage()
}

fn source(code: &Code, access: &str, body: &str) -> String {
    format!(
        "@group(0) @binding(1) var image: texture_storage_2d<{}, {access}>;
        @compute @workgroup_size(8, 8)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            let size = textureDimensions(image);
            let first = 4u * (id.x + size.x * id.y);
            if all(id.xy < size) {{ {body} }}
        }}",
        code.wgsl
    )
}

/// Has a shader store these numbers, and returns the image's bytes.
fn bytes_of_stored(lab: &Lab, code: &Code, words: &[u32]) -> Outcome<Vec<u8>> {
    let gpu = lab.gpu()?;
    let image = gpu.image(form(code))?;
    let buffer = gpu.buffer_of(words)?;
    let body = format!(
        "let texel = vec4<u32>(words[first], words[first + 1u], words[first + 2u], words[first + 3u]);
        textureStore(image, id.xy, bitcast<vec4<{}>>(texel));",
        code.number()
    );
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
    let shader = Shader::wgsl(&gpu, &source(code, "write", &body), &buffer, &[view])?;
    gpu.run(|commands| {
        commands.ready(&[image]);
        shader.dispatch(commands, [2, 2, 1]);
    })?;
    gpu.level_bytes(image, 0)
}

fn stored(lab: &Lab, code: Code) -> Outcome {
    same!(bytes_of_stored(lab, &code, &code.words(TEXELS))?, code.bytes(TEXELS));
    Ok(())
}

fn loaded(lab: &Lab, code: Code) -> Outcome {
    let gpu = lab.gpu()?;
    let image = gpu.image_of(form(&code), &[code.bytes(TEXELS)])?;
    let buffer = gpu.buffer(4 * TEXELS as usize)?;
    let body = "let texel = bitcast<vec4<u32>>(textureLoad(image, id.xy));
        for (var part = 0u; part < 4u; part++) { words[first + part] = texel[part]; }";
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
    Shader::wgsl(&gpu, &source(&code, "read", body), &buffer, &[view])?.run(&gpu, [2, 2, 1])?;
    let (seen, expected) = (buffer.read(), code.words(TEXELS));
    require!(code.are_near(&seen, &expected), "{seen:x?}, not {expected:x?}");
    Ok(())
}

fn clamped(lab: &Lab) -> Outcome {
    let beyond = [-3.0f32, 7.0, f32::INFINITY, f32::NEG_INFINITY].map(f32::to_bits);
    let unorm = Code::new(F::R8G8B8A8_UNORM, "rgba8unorm", 4, Kind::Unorm);
    let bytes = bytes_of_stored(lab, &unorm, &beyond.repeat(TEXELS as usize))?;
    same!(bytes, [0, 255, 255, 0].repeat(TEXELS as usize));
    let snorm = Code::new(F::R8G8B8A8_SNORM, "rgba8snorm", 4, Kind::Snorm);
    let bytes = bytes_of_stored(lab, &snorm, &beyond.repeat(TEXELS as usize))?;
    same!(bytes, [0x81, 0x7f, 0x7f, 0x81].repeat(TEXELS as usize));
    Ok(())
}
