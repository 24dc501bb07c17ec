// SPDX-License-Identifier: MIT OR Apache-2.0

//! Swap chains of devices that consist of several (`VK_KHR_device_group` with `VK_KHR_swapchain`).

use super::count::{all, each};
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, PATIENCE, require, same};
use ash::vk::{self, DeviceGroupPresentModeFlagsKHR as Mode};

pub(super) const CASES: &[Case] = &[
    case(
        "group.present.capabilities",
        "each device that presents presents its own images, and says in which ways",
        capabilities,
    ),
    case("group.present.rectangles", "what devices present are parts of the surface", rectangles),
    case("group.present.in-turn", "images that devices draw in turn are presented", in_turn),
    case("group.present.place", "an image is bound to a place in a chain, for each device", place),
];

fn capabilities(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let can = gpu.group_presents()?;
    for (device, mask) in (0..).zip(can.present_mask) {
        require!(mask & !all(devices) == 0, "a mask of {mask:#b}");
        require!(mask == 0 || (device < devices && mask >> device & 1 == 1), "{device}: {mask:#b}");
    }
    require!(can.present_mask.iter().any(|mask| *mask != 0), "no device presents");
    require!(can.modes.contains(Mode::LOCAL), "{:#x}", can.modes.as_raw());
    let modes = gpu.group_modes(gpu.surface()?)?;
    require!(modes.contains(Mode::LOCAL) && can.modes.contains(modes), "{:#x}", modes.as_raw());
    Ok(())
}

fn rectangles(lab: &Lab) -> Outcome {
    let (gpu, _) = lab.group()?;
    let rectangles = lab.present_rectangles(gpu.surface()?)?;
    require!(!rectangles.is_empty(), "none");
    require!(rectangles.iter().all(|one| one.extent.width > 0 && one.extent.height > 0), "empty");
    Ok(())
}

fn in_turn(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let can = gpu.group_presents()?;
    let queue = gpu.queue()?;
    for mode in [Mode::LOCAL, Mode::REMOTE] {
        if !can.modes.contains(mode) {
            continue;
        }
        let chain = gpu.chain_for_group(gpu.surface()?, mode)?;
        for number in 0..4 * devices {
            let mask = 1 << (number % devices);
            let may = |presents: &u32| match mode {
                Mode::LOCAL => presents & mask == mask && *presents != 0,
                _ => presents & mask == mask,
            };
            if !can.present_mask.iter().any(may) {
                continue;
            }
            let fence = gpu.fence(false)?;
            let image = chain.acquire_for(mask, fence)?;
            gpu.wait_fences(&[fence], true, PATIENCE)?;
            let commands = crate::cases::swapchain::draw(&gpu, &chain, image, number)?;
            gpu.finish_on(queue, commands, mask)?;
            let drawn = crate::cases::swapchain::look(&gpu, &chain, image)?;
            require!(drawn.iter().all(|word| *word == number), "image {number}");
            chain.present_for(queue, image, mask, mode)?;
        }
        gpu.wait_idle()?;
    }
    Ok(())
}

fn place(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let chain = gpu.chain_for_group(gpu.surface()?, Mode::LOCAL)?;
    let fence = gpu.fence(false)?;
    let image = chain.acquire_for(1, fence)?;
    gpu.wait_fences(&[fence], true, PATIENCE)?;
    let alias = chain.alias_for(image, &each(devices, |_| 0))?;
    let queue = gpu.queue()?;
    for device in 0..devices {
        let commands = crate::cases::swapchain::draw(&gpu, &chain, image, 40 + device)?;
        gpu.finish_on(queue, commands, 1 << device)?;
        let words = gpu.buffer(alias.form.bytes(0) / 4)?;
        let [there, here] =
            [vk::ImageLayout::PRESENT_SRC_KHR, vk::ImageLayout::TRANSFER_SRC_OPTIMAL];
        gpu.run(|commands| {
            commands.change(alias, [there, here]);
            commands.out_of_image_in((alias, here), &words, &[alias.form.whole(0)]);
            commands.change(alias, [here, there]).barrier();
        })?;
        let seen = words.read();
        same!(seen.len() * 4, alias.form.bytes(0));
        require!(seen.iter().all(|word| *word == 40 + device), "device {device}");
    }
    Ok(())
}
