// SPDX-License-Identifier: MIT OR Apache-2.0

//! Frames that are drawn one after the other, none of which a program waits for: what one leaves another finds, whoever draws them.

use crate::case::{Case, case};
use crate::lab::{
    At, Canvas, Chain, Gpu, Lab, Outcome, PATIENCE, Plan, Rendering, SIDE, Submit, area, pictured,
    require, whole_area,
};
use ash::vk;

pub(crate) const CASES: &[Case] = &[
    case("swapchain.frames.kept", "what a frame draws on, the next one finds, and so on", kept),
    case("swapchain.frames.copied", "what a frame draws, the next one copies, and so on", copied),
    case("swapchain.frames.counted", "who sees a frame's value finds all frames before", counted),
    case("swapchain.frames.seen", "each frame fills its image with its own colour", seen),
];

const FRAMES: u32 = 48;
/// What each frame adds to each component.
const STEP: u32 = 0x0101_0101;

/// An image that a frame may draw on, ready for that, and then to be presented.
fn frame(
    gpu: &Gpu<'_>,
    chain: &Chain<'_>,
    views: &[vk::ImageView],
    signals: &[At],
    write: impl FnOnce(&crate::lab::Recorder<'_>, Canvas),
) -> Outcome<u32> {
    let queue = gpu.queue()?;
    let (free, drawn) = (gpu.binary()?, gpu.binary()?);
    let index = chain.acquire(PATIENCE, free, vk::Fence::null())?;
    let image = chain.images[index as usize];
    let layout = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
    let canvas = Canvas { image, view: views[index as usize], layout };
    let commands = gpu.record(queue, |commands| {
        commands.barrier().change(image, [vk::ImageLayout::UNDEFINED, layout]);
        write(commands, canvas);
        commands.change(image, [layout, vk::ImageLayout::PRESENT_SRC_KHR]).barrier();
    })?;
    let signal: Vec<_> = [At(drawn, 0)].into_iter().chain(signals.iter().copied()).collect();
    let batch = Submit { wait: &[At(free, 0)], commands: &[commands], signal: &signal };
    gpu.submit(queue, &[batch], vk::Fence::null())?;
    require!(!chain.present(queue, index, &[drawn], 0)?, "suboptimal");
    Ok(index)
}

/// A swap chain whose images are drawn on, and their views.
fn chain<'g>(gpu: &'g Gpu<'g>, is_copied: bool) -> Outcome<(Chain<'g>, Vec<vk::ImageView>)> {
    let chain = gpu.drawn_chain(gpu.surface()?, 3, is_copied)?;
    let views = chain.images.iter().map(|image| gpu.view(image.look(vk::ImageViewType::TYPE_2D)));
    let views = views.collect::<Outcome<_>>()?;
    Ok((chain, views))
}

/// All of an image, filled with a colour.
fn filled(canvas: Canvas, red: f32) -> Rendering {
    Rendering::of(&[canvas.filled_with([red, 0.0, 0.0, 1.0])]).within(area([0, 0], [SIDE, SIDE]))
}

fn kept(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let sum = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(sum)).end().barrier();
    })?;
    let mut plan = Plan::plain()?;
    plan.blends[0].blend_enable = vk::TRUE;
    plan.blends[0].src_color_blend_factor = vk::BlendFactor::ONE;
    plan.blends[0].dst_color_blend_factor = vk::BlendFactor::ONE;
    plan.blends[0].src_alpha_blend_factor = vk::BlendFactor::ONE;
    plan.blends[0].dst_alpha_blend_factor = vk::BlendFactor::ONE;
    let (brush, corners) = (gpu.drawer(&plan)?, gpu.corners(&whole_area(STEP))?);
    let (chain, views) = chain(&gpu, false)?;
    for number in 0..FRAMES {
        frame(&gpu, &chain, &views, &[], |commands, canvas| {
            commands.begin(&Rendering::on(sum)).brush(&brush).vertices(&corners).draw(6).end();
            commands.begin(&filled(canvas, number as f32 / FRAMES as f32)).end();
        })?;
    }
    gpu.wait_idle()?;
    pictured(&gpu.words(sum)?, |_, _| STEP * FRAMES)
}

fn copied(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let words = gpu.buffer_of(&(0..=FRAMES).collect::<Vec<_>>())?;
    let (chain, views) = chain(&gpu, false)?;
    for number in 0..FRAMES {
        // The word before is the one that the frame before has copied.
        let at = u64::from(number);
        frame(&gpu, &chain, &views, &[], |commands, canvas| {
            commands.begin(&filled(canvas, 0.5)).end().barrier();
            commands.copy(&words, &words, &[(at, at + 1, 1)]).barrier();
        })?;
    }
    gpu.wait_idle()?;
    let seen = words.read();
    require!(seen.iter().all(|word| *word == 0), "{seen:?}");
    Ok(())
}

fn counted(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let marks = gpu.buffer(FRAMES as usize)?;
    let done = gpu.timeline(0)?;
    let (chain, views) = chain(&gpu, false)?;
    for number in 0..FRAMES {
        frame(&gpu, &chain, &views, &[At(done, u64::from(number) + 1)], |commands, canvas| {
            commands.begin(&filled(canvas, 0.25)).end();
            commands.fill(&marks, u64::from(number) * 4, 4, number + 1).barrier();
        })?;
        if number % 5 == 4 {
            gpu.wait_for(&[At(done, u64::from(number) + 1)], true, PATIENCE)?;
            let seen = marks.read();
            let right: Vec<_> = (1..=number + 1).collect();
            require!(seen[..=number as usize] == right[..], "frame {number}: {seen:?}");
        }
    }
    Ok(gpu.wait_idle()?)
}

fn seen(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (chain, views) = chain(&gpu, true)?;
    let mut last = vec![None; chain.images.len()];
    for number in 0..FRAMES {
        let index = frame(&gpu, &chain, &views, &[], |commands, canvas| {
            commands.begin(&filled(canvas, number as f32 / 255.0)).end();
        })?;
        last[index as usize] = Some(number);
    }
    gpu.wait_idle()?;
    for (index, number) in (0..).zip(last) {
        let Some(number) = number else { continue };
        let words = super::look(&gpu, &chain, index)?;
        // Blue, green, red and alpha.
        let right = 0xFF00_0000 | number << 16;
        require!(words.iter().all(|word| *word == right), "image {index}: {:#x}", words[0]);
    }
    Ok(())
}
