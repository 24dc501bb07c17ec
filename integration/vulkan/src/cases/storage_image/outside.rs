// SPDX-License-Identifier: MIT OR Apache-2.0

//! Texels that an image does not have (`robustImageAccess`).

use super::shader::Shader;
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("storage-image.outside.stores", "a store outside an image stores nothing", stores),
    case("storage-image.outside.loads", "a load outside an image is zero, but for alpha", loads),
];

const FORM: Form = Form::flat(vk::Format::R32G32B32A32_UINT, 4, 4).layers(3).storage();

/// Texels outside of the middle layer.
const AWAY: &str =
    "const AWAY = array<vec2<i32>, 6>(vec2<i32>(4, 0), vec2<i32>(0, 4), vec2<i32>(-1, 2),
        vec2<i32>(2, -1), vec2<i32>(1000000, 3), vec2<i32>(-2147483647, -5));";

fn look(lab: &Lab, access: &str, body: &str) -> Outcome<[Vec<u32>; 2]> {
    lab.needs("robustImageAccess", lab.features().since_1_3.robust_image_access)?;
    let gpu = lab.gpu()?;
    let image = gpu.image_of(FORM, &[vec![5; 16 * 16 * 3]])?;
    let middle = image.look(vk::ImageViewType::TYPE_2D).at(crate::lab::range([0, 1], [1, 1]));
    let source = format!(
        "@group(0) @binding(1) var image: texture_storage_2d<rgba32uint, {access}>;
        {AWAY}
        @compute @workgroup_size(1) fn main() {{
            var away = AWAY;
            for (var number = 0; number < 6; number++) {{ let at = away[number]; {body} }}
        }}"
    );
    let seen = gpu.buffer_of(&[77; 24])?;
    Shader::wgsl(&gpu, &source, &seen, &[gpu.view(middle)?])?.run(&gpu, [1, 1, 1])?;
    Ok([seen.read(), gpu.level_words(image, 0)?])
}

fn stores(lab: &Lab) -> Outcome {
    let body = "words[number] = 1u; textureStore(image, at, vec4<u32>(9u, 9u, 9u, 9u));";
    let [seen, texels] = look(lab, "write", body)?;
    same!(seen[..6], [1; 6]);
    same!(texels, [0x0505_0505; 16 * 4 * 3]);
    Ok(())
}

fn loads(lab: &Lab) -> Outcome {
    let body = "let texel = textureLoad(image, at);
        for (var part = 0; part < 4; part++) { words[4 * number + part] = texel[part]; }";
    let [seen, _] = look(lab, "read", body)?;
    for texel in seen.chunks(4) {
        same!(texel[..3], [0; 3]);
        require!(texel[3] <= 1, "alpha is {}", texel[3]);
    }
    Ok(())
}
