// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images of each shape, and what shaders are told of their sizes.

use super::shader::Shader;
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, module, same};
use ash::vk;
use ash::vk::ImageViewType as T;

pub(super) const CASES: &[Case] = &[
    case("storage-image.shape.row", "a shader stores in a row", |lab| {
        let form = Form::row(WORD, 37);
        numbered(lab, form, T::TYPE_1D, ("1d", "id.x", "vec3<u32>(size, 1u, 1u)"), [37, 1, 1])
    }),
    case("storage-image.shape.flat", "a shader stores in rows", |lab| {
        let form = Form::flat(WORD, 21, 11);
        numbered(lab, form, T::TYPE_2D, ("2d", "id.xy", "vec3<u32>(size, 1u)"), [21, 11, 1])
    }),
    case("storage-image.shape.layers", "a shader stores in layers", |lab| {
        let form = Form::flat(WORD, 5, 6).layers(7);
        let how = ("2d_array", "id.xy, id.z", "vec3<u32>(size, 7u)");
        numbered(lab, form, T::TYPE_2D_ARRAY, how, [5, 6, 7])
    }),
    case("storage-image.shape.solid", "a shader stores in planes", |lab| {
        let form = Form::solid(WORD, [9, 5, 4]);
        numbered(lab, form, T::TYPE_3D, ("3d", "id", "size"), [9, 5, 4])
    }),
    case("storage-image.shape.faces", "a shader stores in a cube's faces as layers", |lab| {
        let form = Form::cube(WORD, 6);
        let how = ("2d_array", "id.xy, id.z", "vec3<u32>(size, 6u)");
        numbered(lab, form, T::TYPE_2D_ARRAY, how, [6, 6, 6])
    }),
    case(
        "storage-image.shape.row-layers-and-cube",
        "a shader stores in rows as layers, and in a cube",
        glsl,
    ),
];

const WORD: vk::Format = vk::Format::R32_UINT;

/// A shader stores a number in each texel, and the size that it is told.
fn numbered(
    lab: &Lab,
    form: Form,
    kind: T,
    (shape, at, size): (&str, &str, &str),
    expected: [u32; 3],
) -> Outcome {
    let gpu = lab.gpu()?;
    let image = gpu.image(form.storage())?;
    let buffer = gpu.buffer(3)?;
    let source = format!(
        "@group(0) @binding(1) var image: texture_storage_{shape}<r32uint, write>;
        @compute @workgroup_size(1)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            let size = textureDimensions(image);
            let told = {size};
            if all(id == vec3<u32>(0u)) {{ words[0] = told.x; words[1] = told.y; words[2] = told.z; }}
            textureStore(image, {at}, vec4<u32>(id.x + 1000u * id.y + 1000000u * id.z, 1u, 2u, 3u));
        }}"
    );
    let shader = Shader::wgsl(&gpu, &source, &buffer, &[gpu.view(image.look(kind))?])?;
    gpu.run(|commands| {
        commands.ready(&[image]);
        shader.dispatch(commands, expected);
    })?;
    same!(buffer.read(), expected);
    let [width, height, depth] = expected;
    let all = (0..depth).flat_map(|z| (0..height).map(move |y| (y, z)));
    let all = all.flat_map(|(y, z)| (0..width).map(move |x| x + 1000 * y + 1_000_000 * z));
    same!(gpu.level_words(image, 0)?, all.collect::<Vec<_>>());
    Ok(())
}

fn glsl(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let rows = gpu.image_of(Form::row(WORD, 10).layers(4).storage(), &[vec![1; 160]])?;
    let cube = gpu.image_of(Form::cube(WORD, 3).storage(), &[vec![2; 216]])?;
    let buffer = gpu.buffer(4)?;
    let views = [gpu.view(rows.look(T::TYPE_1D_ARRAY))?, gpu.view(cube.look(T::CUBE))?];
    Shader::new(&gpu, module!("image_shapes"), (&buffer, &views), 0)?.run(&gpu, [1, 1, 1])?;
    same!(buffer.read(), [10, 4, 3, 3]);
    let of_rows = (0..4).flat_map(|layer| (0..10).map(move |x| 0x0101_0101 + x + 100 * layer));
    same!(gpu.level_words(rows, 0)?, of_rows.collect::<Vec<_>>());
    let of_face = |z: u32| (0..9).map(move |at| 0x0202_0202 + at % 3 + 100 * (at / 3) + 10000 * z);
    same!(gpu.level_words(cube, 0)?, (0..6).flat_map(of_face).collect::<Vec<_>>());
    Ok(())
}
