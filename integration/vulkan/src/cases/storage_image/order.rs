// SPDX-License-Identifier: MIT OR Apache-2.0

//! What dispatches see of each other's texels.

use super::shader::Shader;
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, bytes_of, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "storage-image.order.chain",
        "50 dispatches, each of what the one before stored, arrive in order",
        chain,
    ),
    case(
        "storage-image.order.copies-between",
        "copies and dispatches see what the others stored",
        copies,
    ),
    case(
        "storage-image.order.two-submissions",
        "a dispatch sees what a submission before stored",
        submissions,
    ),
];

const FORM: Form = Form::flat(vk::Format::R32_UINT, 8, 8).storage();

/// Multiplies each texel by 3 and adds where it is. Its neighbour to the right is read first, and stays as it was.
const STEP: &str = "@group(0) @binding(1) var before: texture_storage_2d<r32uint, read>;
    @group(0) @binding(2) var after: texture_storage_2d<r32uint, write>;
    @compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        words[0] = 1u;
        let right = textureLoad(before, vec2<u32>((id.x + 1u) & 7u, id.y)).x;
        textureStore(after, id.xy, vec4<u32>(right * 3u + id.x + 8u * id.y, 0u, 0u, 0u));
    }";

fn stepped(texels: &[u32]) -> Vec<u32> {
    let right = |at: usize| texels[at / 8 * 8 + (at + 1) % 8];
    (0..64).map(|at| right(at).wrapping_mul(3).wrapping_add(at as u32)).collect()
}

/// Has steps from one image to another and back, so often, in this way. Returns whether the texels are right afterwards.
fn steps(
    lab: &Lab,
    count: usize,
    act: impl FnOnce(&crate::lab::Gpu<'_>, [&Shader; 2]) -> Outcome,
) -> Outcome {
    let gpu = lab.gpu()?;
    let start: Vec<u32> = (0..64).map(|texel| texel * 11).collect();
    let images = [gpu.image_of(FORM, &[bytes_of(&start)])?, gpu.image_of(FORM, &[vec![0; 256]])?];
    let look = |number: usize| gpu.view(images[number].look(vk::ImageViewType::TYPE_2D));
    let (one, other, unused) = (look(0)?, look(1)?, gpu.buffer(1)?);
    let forth = Shader::wgsl(&gpu, STEP, &unused, &[one, other])?;
    let back = Shader::wgsl(&gpu, STEP, &unused, &[other, one])?;
    act(&gpu, [&forth, &back])?;
    let expected = (0..count).fold(start, |texels, _| stepped(&texels));
    same!(gpu.level_words(images[count % 2], 0)?, expected);
    Ok(())
}

fn chain(lab: &Lab) -> Outcome {
    steps(lab, 50, |gpu, [forth, back]| {
        gpu.run(|commands| {
            for _ in 0..25 {
                forth.dispatch(commands, [1, 1, 1]);
                back.dispatch(commands, [1, 1, 1]);
            }
        })
    })
}

fn submissions(lab: &Lab) -> Outcome {
    steps(lab, 3, |gpu, [forth, back]| {
        let queue = gpu.queue()?;
        let record =
            |shader: &Shader| gpu.record(queue, |commands| shader.dispatch(commands, [1, 1, 1]));
        let all = [record(forth)?, record(back)?, record(forth)?];
        let submit = |commands| crate::lab::Submit { commands, ..Default::default() };
        gpu.submit(queue, &[submit(&all[..1]), submit(&all[1..2])], vk::Fence::null())?;
        Ok(gpu.finish(queue, &all[2..])?)
    })
}

fn copies(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (one, other) = (gpu.image(FORM)?, gpu.image(FORM)?);
    let look = |image: crate::lab::Image| gpu.view(image.look(vk::ImageViewType::TYPE_2D));
    let shader = Shader::wgsl(&gpu, STEP, &gpu.buffer(1)?, &[look(one)?, look(other)?])?;
    let seen = gpu.buffer(64)?;
    let clear = vk::ClearColorValue { uint32: [2; 4] };
    gpu.run(|commands| {
        commands.ready(&[one, other]).clear(one, clear, &[FORM.range()]);
        for _ in 0..3 {
            shader.dispatch(commands, [1, 1, 1]);
            commands.out_of_image(other, &seen, &[FORM.whole(0)]).barrier();
            commands.to_image(&seen, one, &[FORM.whole(0)]);
        }
        commands.barrier();
    })?;
    same!(seen.read(), (0..3).fold(vec![2; 64], |texels, _| stepped(&texels)));
    Ok(())
}
