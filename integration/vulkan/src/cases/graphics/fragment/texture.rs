// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images that fragments read, whose level is that of the derivatives ("Image Sample Operations").

use crate::case::{Case, case};
use crate::lab::{
    Form, Lab, Outcome, Plan, RED, Rendering, Slot, bytes_of, pictured, sampled, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("fragment.texture", "a fragment reads the texel under it", |lab| {
        read(lab, 16, 1, "16.0", |x, y| 0xff00_0000 | (y as u32) << 8 | x as u32)
    }),
    case(
        "fragment.texture-level",
        "a fragment reads the level whose texels are as large as it is",
        |lab| {
            // Each fragment is two texels wide, so that level 1 is read, which is green.
            read(lab, 32, 2, "16.0", |_, _| 0xff00_ff00)
        },
    ),
    case(
        "fragment.texture-level-of-four",
        "a fragment that is four texels wide reads level 2",
        |lab| read(lab, 64, 3, "16.0", |_, _| 0xffff_0000),
    ),
    case("fragment.texture-large", "texels that are larger than fragments are of level 0", |lab| {
        read(lab, 16, 2, "32.0", |x, y| 0xff00_0000 | (y as u32 / 2) << 8 | (x as u32 / 2))
    }),
];

/// Reads an image of so many levels, with coordinates that are 1 so many texels of the canvas from 0. Level 0 has its coordinates.
fn read(
    lab: &Lab,
    width: u32,
    levels: u32,
    scale: &str,
    right: impl Fn(f32, f32) -> u32,
) -> Outcome {
    let gpu = lab.graphics()?;
    let source = format!(
        "@group(0) @binding(0) var image: texture_2d<f32>;
        @group(0) @binding(1) var how: sampler;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> {{ return place; }}
        @fragment fn fragment(@builtin(position) place: vec4<f32>) -> @location(0) vec4<f32> {{
            return textureSample(image, how, place.xy / {scale});
        }}"
    );
    let mut plan = Plan::of(&source)?;
    let kinds = [vk::DescriptorType::SAMPLED_IMAGE, vk::DescriptorType::SAMPLER];
    plan.slots = vec![Slot(0, kinds[0], 1), Slot(1, kinds[1], 1)];
    let form = Form::flat(vk::Format::R8G8B8A8_UNORM, width, width).levels(levels).sampled();
    let first: Vec<_> = (0..width * width)
        .map(|place| 0xff00_0000 | (place / width) << 8 | (place % width))
        .collect();
    let filled = |level: u32, colour| {
        bytes_of(&vec![colour; ((width >> level) * (width >> level)) as usize])
    };
    let all = [bytes_of(&first), filled(1, 0xff00_ff00), filled(2, 0xffff_0000)];
    let image = gpu.image_of(form, &all[..levels as usize])?;
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
    let how = gpu.sampler(
        vk::SamplerCreateInfo::default()
            .mipmap_mode(vk::SamplerMipmapMode::NEAREST)
            .max_lod(vk::LOD_CLAMP_NONE),
    )?;
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&whole_area(RED))?);
    let set = gpu.empty_set(&brush, 0)?;
    let bound = sampled(view, how);
    gpu.write_images(set, 0, kinds[0], &[bound]);
    gpu.write_images(set, 1, kinds[1], &[bound]);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).brush_sets(&brush, &[set], &[]);
        commands.vertices(&vertices).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, right)
}
