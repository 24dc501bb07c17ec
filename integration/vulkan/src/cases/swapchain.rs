// SPDX-License-Identifier: MIT OR Apache-2.0

//! Swap chains of surfaces that nobody sees (`VK_KHR_surface`, `VK_KHR_swapchain`, `VK_EXT_headless_surface`).

pub(super) mod display;
pub(super) mod frames;

use crate::case::{Case, case};
use crate::lab::{At, Chain, Gpu, Lab, Outcome, PATIENCE, SIDE, Submit, require, same};
use ash::vk;
use std::collections::BTreeSet;

const FIFO: vk::PresentModeKHR = vk::PresentModeKHR::FIFO;
const NONE: vk::SwapchainKHR = vk::SwapchainKHR::null();
/// Texels of an image.
const TEXELS: usize = (SIDE * SIDE) as usize;

pub(super) const CASES: &[Case] = &[
    case("swapchain.support", "a queue that computes or draws presents to the surface", support),
    case("swapchain.capabilities", "what chains may be is as the specification has it", limits),
    case("swapchain.formats", "there are formats, each with a space of colours once", formats),
    case("swapchain.modes", "every surface has the mode in which none is lost", modes),
    case("swapchain.images", "a chain has as many images as were asked for, all apart", images),
    case("swapchain.acquire", "acquired images are all different until one is presented", acquire),
    case(
        "swapchain.acquire-none",
        "who acquires what is not there is told at once, or later",
        none,
    ),
    case("swapchain.acquire-fence", "a fence is signaled when its image may be drawn", fence),
    case("swapchain.fifo", "many images are presented one after the other", |lab| all(lab, FIFO)),
    case("swapchain.mailbox", "many images are presented of which the newest counts", |lab| {
        all(lab, vk::PresentModeKHR::MAILBOX)
    }),
    case("swapchain.immediate", "many images are presented at once", |lab| {
        all(lab, vk::PresentModeKHR::IMMEDIATE)
    }),
    case("swapchain.order", "a present waits for what draws its image", order),
    case("swapchain.old", "a chain takes the place of another, whose images are presented on", old),
    case("swapchain.several", "one present is of several chains", several),
    case("swapchain.alias", "an image at the place of a chain's has its texels", alias),
    case("swapchain.id", "a wait for an identifier ends when its image was presented", id),
];

fn support(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let surface = gpu.surface()?;
    require!(lab.presents(gpu.queue()?.family, surface)?, "no queue presents");
    Ok(())
}

fn limits(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let can = lab.capabilities(gpu.surface()?)?;
    require!(can.min_image_count >= 1, "no image");
    let most = can.max_image_count;
    require!(most == 0 || most >= can.min_image_count, "{most} images at most");
    let [least, most] = [can.min_image_extent, can.max_image_extent];
    require!(least.width >= 1 && least.height >= 1, "no texel");
    require!(least.width <= most.width && least.height <= most.height, "least is more than most");
    require!(can.max_image_array_layers >= 1, "no layer");
    let transforms = can.supported_transforms;
    require!(transforms.contains(can.current_transform), "a transform that is not there");
    require!(!can.supported_composite_alpha.is_empty(), "no way to compose");
    let usages = can.supported_usage_flags;
    require!(usages.contains(vk::ImageUsageFlags::COLOR_ATTACHMENT), "{:#x}", usages.as_raw());
    Ok(())
}

fn formats(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let formats = lab.formats(gpu.surface()?)?;
    let pairs = formats.iter().map(|one| (one.format, one.color_space));
    let all: BTreeSet<_> = pairs.clone().collect();
    require!(!formats.is_empty(), "no format");
    same!(all.len(), pairs.count());
    require!(all.iter().all(|(format, _)| *format != vk::Format::UNDEFINED), "an undefined format");
    Ok(())
}

fn modes(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let modes = lab.modes(gpu.surface()?)?;
    require!(modes.contains(&FIFO), "another of {}", modes.len());
    Ok(())
}

/// A chain of so many images more than the surface needs.
fn chain<'g>(
    gpu: &'g Gpu<'g>,
    lab: &Lab,
    more: u32,
    mode: vk::PresentModeKHR,
) -> Outcome<Chain<'g>> {
    let surface = gpu.surface()?;
    let least = lab.capabilities(surface)?.min_image_count;
    gpu.chain(surface, least + more, mode, NONE)
}

/// Writes a word into all texels of an acquired image, which is then ready to be presented.
pub(super) fn draw(
    gpu: &Gpu<'_>,
    chain: &Chain<'_>,
    image: u32,
    word: u32,
) -> Outcome<vk::CommandBuffer> {
    let image = chain.images[image as usize];
    let texels = image.form.bytes(0) / 4;
    let words = gpu.buffer_of(&vec![word; texels])?;
    let layout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
    gpu.record(gpu.queue()?, |commands| {
        commands.barrier().change(image, [vk::ImageLayout::UNDEFINED, layout]);
        commands.to_image_in(&words, (image, layout), &[image.form.whole(0)]);
        commands.change(image, [layout, vk::ImageLayout::PRESENT_SRC_KHR]);
    })
}

/// The words of an image that was ready to be presented, and is it again.
pub(super) fn look(gpu: &Gpu<'_>, chain: &Chain<'_>, image: u32) -> Outcome<Vec<u32>> {
    let image = chain.images[image as usize];
    let words = gpu.buffer(TEXELS)?;
    let [there, here] = [vk::ImageLayout::PRESENT_SRC_KHR, vk::ImageLayout::TRANSFER_SRC_OPTIMAL];
    gpu.run(|commands| {
        commands.change(image, [there, here]);
        commands.out_of_image_in((image, here), &words, &[image.form.whole(0)]);
        commands.change(image, [here, there]).barrier();
    })?;
    Ok(words.read())
}

/// Acquires an image when it may be drawn.
fn take(gpu: &Gpu<'_>, chain: &Chain<'_>) -> Outcome<u32> {
    let fence = gpu.fence(false)?;
    let image = chain.acquire(PATIENCE, vk::Semaphore::null(), fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    Ok(image)
}

fn images(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let chain = chain(&gpu, lab, 2, FIFO)?;
    let least = lab.capabilities(chain.surface)?.min_image_count;
    require!(chain.images.len() >= least as usize + 2, "{} images", chain.images.len());
    let mut taken = Vec::new();
    for number in 0..3 {
        let image = take(&gpu, &chain)?;
        gpu.finish(gpu.queue()?, &[draw(&gpu, &chain, image, 100 + number)?])?;
        taken.push(image);
    }
    for (number, image) in (100..).zip(taken) {
        same!(look(&gpu, &chain, image)?, vec![number; TEXELS]);
    }
    Ok(())
}

fn acquire(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let chain = chain(&gpu, lab, 2, FIFO)?;
    let taken = [take(&gpu, &chain)?, take(&gpu, &chain)?, take(&gpu, &chain)?];
    let different: BTreeSet<_> = taken.into_iter().collect();
    require!(different.len() == 3, "{taken:?}");
    let are_there = taken.iter().all(|image| (*image as usize) < chain.images.len());
    require!(are_there, "{taken:?}");
    Ok(())
}

fn none(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let chain = chain(&gpu, lab, 0, FIFO)?;
    let mut taken = 0;
    let outcome = loop {
        let fence = gpu.fence(false)?;
        match chain.acquire(0, vk::Semaphore::null(), fence) {
            Ok(_) => gpu.wait_fences(&[fence], true, PATIENCE)?,
            Err(outcome) => break outcome,
        }
        taken += 1;
        require!(taken <= chain.images.len(), "more than there are");
    };
    same!(outcome, vk::Result::NOT_READY);
    let later = chain.acquire(1_000_000, vk::Semaphore::null(), gpu.fence(false)?);
    same!(later, Err(vk::Result::TIMEOUT));
    Ok(())
}

fn fence(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let chain = chain(&gpu, lab, 1, FIFO)?;
    let (fence, semaphore) = (gpu.fence(false)?, gpu.binary()?);
    let image = chain.acquire(PATIENCE, semaphore, fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    // The semaphore is signaled, too.
    let commands = [draw(&gpu, &chain, image, 7)?];
    let done = gpu.fence(false)?;
    let wait = [At(semaphore, 0)];
    gpu.submit(gpu.queue()?, &[Submit { wait: &wait, commands: &commands, signal: &[] }], done)?;
    gpu.wait_fences(&[done], true, PATIENCE)?;
    same!(look(&gpu, &chain, image)?, vec![7; TEXELS]);
    Ok(())
}

/// Presents many images, each drawn for itself, and waits for none of them in between.
fn all(lab: &Lab, mode: vk::PresentModeKHR) -> Outcome {
    let gpu = lab.gpu()?;
    let surface = gpu.surface()?;
    if !lab.modes(surface)?.contains(&mode) {
        return Err(crate::lab::Failure::not_offered("no such mode"));
    }
    let chain = chain(&gpu, lab, 1, mode)?;
    let queue = gpu.queue()?;
    for number in 0..40 {
        let (free, drawn, fence) = (gpu.binary()?, gpu.binary()?, gpu.fence(false)?);
        let image = chain.acquire(PATIENCE, free, fence)?;
        gpu.wait_fences(&[fence], true, PATIENCE)?;
        let commands = [draw(&gpu, &chain, image, number)?];
        let (wait, signal) = ([At(free, 0)], [At(drawn, 0)]);
        let batch = Submit { wait: &wait, commands: &commands, signal: &signal };
        gpu.submit(queue, &[batch], vk::Fence::null())?;
        require!(!chain.present(queue, image, &[drawn], 0)?, "suboptimal");
    }
    Ok(gpu.wait_idle()?)
}

fn order(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let chain = chain(&gpu, lab, 1, FIFO)?;
    let (queue, drawn) = (gpu.queue()?, gpu.binary()?);
    let image = take(&gpu, &chain)?;
    let begun = gpu.timeline(0)?;
    let commands = [draw(&gpu, &chain, image, 5)?];
    let (wait, signal) = ([At(begun, 1)], [At(drawn, 0)]);
    let batch = Submit { wait: &wait, commands: &commands, signal: &signal };
    gpu.submit(queue, &[batch], vk::Fence::null())?;
    chain.present(queue, image, &[drawn], 0)?;
    gpu.signal(At(begun, 1))?;
    // Whatever is acquired next may be drawn.
    let next = take(&gpu, &chain)?;
    gpu.finish(queue, &[draw(&gpu, &chain, next, 6)?])?;
    same!(look(&gpu, &chain, next)?, vec![6; TEXELS]);
    Ok(())
}

fn old(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let first = chain(&gpu, lab, 1, FIFO)?;
    let image = take(&gpu, &first)?;
    let count = first.images.len() as u32;
    let second = gpu.chain(first.surface, count, FIFO, first.raw)?;
    let queue = gpu.queue()?;
    for (chain, image) in [(&first, image), (&second, take(&gpu, &second)?)] {
        gpu.finish(queue, &[draw(&gpu, chain, image, 3)?])?;
        match chain.present(queue, image, &[], 0) {
            // What is presented of the one that was replaced may come too late.
            Ok(_) | Err(vk::Result::ERROR_OUT_OF_DATE_KHR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(gpu.wait_idle()?)
}

fn several(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (one, other) = (chain(&gpu, lab, 1, FIFO)?, chain(&gpu, lab, 1, FIFO)?);
    let queue = gpu.queue()?;
    for number in 0..8 {
        let images = [take(&gpu, &one)?, take(&gpu, &other)?];
        for (chain, image) in [&one, &other].into_iter().zip(images) {
            gpu.finish(queue, &[draw(&gpu, chain, image, number)?])?;
        }
        same!(gpu.present(queue, &[&one, &other], &images)?, [vk::Result::SUCCESS; 2]);
    }
    Ok(gpu.wait_idle()?)
}

fn alias(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let chain = chain(&gpu, lab, 1, FIFO)?;
    let image = take(&gpu, &chain)?;
    let alias = chain.alias(image)?;
    gpu.finish(gpu.queue()?, &[draw(&gpu, &chain, image, 9)?])?;
    let words = gpu.buffer(TEXELS)?;
    let [there, here] = [vk::ImageLayout::PRESENT_SRC_KHR, vk::ImageLayout::TRANSFER_SRC_OPTIMAL];
    gpu.run(|commands| {
        commands.change(alias, [there, here]);
        commands.out_of_image_in((alias, here), &words, &[alias.form.whole(0)]).barrier();
    })?;
    same!(words.read(), vec![9; TEXELS]);
    Ok(())
}

fn id(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let chain = chain(&gpu, lab, 1, FIFO)?;
    let queue = gpu.queue()?;
    same!(chain.wait_for(1, 0)?, Err(vk::Result::TIMEOUT));
    for id in [1, 2, 10] {
        let image = take(&gpu, &chain)?;
        gpu.finish(queue, &[draw(&gpu, &chain, image, 4)?])?;
        chain.present(queue, image, &[], id)?;
        same!(chain.wait_for(id, PATIENCE)?, Ok(()));
    }
    same!(chain.wait_for(5, 0)?, Ok(()));
    same!(chain.wait_for(11, 0)?, Err(vk::Result::TIMEOUT));
    Ok(())
}
