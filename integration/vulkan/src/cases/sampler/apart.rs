// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shaders that take an image and a sampler as two descriptors.

use crate::lab::{Gpu, Module, Outcome, Slot, compile, sampled, shown, whole};
use ash::vk;

/// Runs a function of four words, `p`, that gives four words, for each four of these. `kind` is the image's type in WGSL; the image
/// is `image`, the sampler `how`.
pub(super) fn run(
    gpu: &Gpu<'_>,
    (kind, body): (&str, &str),
    (view, sampler): (vk::ImageView, vk::Sampler),
    words: &[u32],
) -> Outcome<Vec<u32>> {
    let source = format!(
        "@group(0) @binding(0) var<storage, read_write> words: array<vec4<u32>>;
        @group(0) @binding(1) var image: {kind};
        @group(0) @binding(2) var how: sampler;
        fn look(p: vec4<u32>) -> vec4<u32> {{ {body} }}
        @compute @workgroup_size(1)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {{ words[id.x] = look(words[id.x]); }}"
    );
    let types = [
        vk::DescriptorType::STORAGE_BUFFER,
        vk::DescriptorType::SAMPLED_IMAGE,
        vk::DescriptorType::SAMPLER,
    ];
    let [stored, image, how] = types;
    let slots = [Slot(0, stored, 1), Slot(1, image, 1), Slot(2, how, 1)];
    let kernel = gpu.kernel(Module(&compile(&source)?), &[&slots], 0, &[])?;
    let (set, buffer) = (gpu.empty_set(&kernel, 0)?, gpu.buffer_of(words)?);
    gpu.write(set, 0, stored, &[whole(&buffer)]);
    gpu.write_images(set, 1, image, &[shown(view)]);
    gpu.write_images(set, 2, how, &[sampled(vk::ImageView::null(), sampler)]);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]);
        commands.dispatch(words.len() as u32 / 4, 1, 1).barrier();
    })?;
    Ok(buffer.read())
}
