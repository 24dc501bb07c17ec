// SPDX-License-Identifier: MIT OR Apache-2.0

//! Swap chains on the machine's own displays (`VK_KHR_display`).

use super::{draw, take};
use crate::case::{Case, case};
use crate::lab::{Failure, Lab, Outcome, require, same};
use ash::vk;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const CASES: &[Case] = &[
    case("display.modes", "each display has modes, a size, and a plane to be on", modes),
    case("display.capabilities", "images of a display have the size of its mode", capabilities),
    case("display.flips", "images are shown on a display one after the other", flips),
    case("display.smallest", "images are shown in the display's smallest mode", smallest),
];

/// What the last images of [`flips`] are: as words of blue, green, red.
const COLOUR: u32 = 0x0033_6699;
/// The same of [`smallest`].
const SMALLEST: u32 = 0x0099_6633;

fn modes(lab: &Lab) -> Outcome {
    for monitor in lab.monitors()? {
        require!(monitor.size.width > 0 && monitor.size.height > 0, "no size");
        let all: BTreeSet<_> = monitor.modes.iter().map(|mode| mode.display_mode).collect();
        require!(!all.is_empty() && all.len() == monitor.modes.len(), "{} modes", all.len());
        let has_rate = monitor.modes.iter().all(|mode| mode.parameters.refresh_rate > 0);
        require!(has_rate, "a mode without a rate");
        require!(!lab.planes_of(&monitor)?.is_empty(), "no plane");
    }
    Ok(())
}

fn capabilities(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    for monitor in lab.monitors()? {
        let planes = lab.planes_of(&monitor)?;
        for mode in &monitor.modes {
            let can = lab.capabilities(gpu.surface_on(mode, planes[0])?)?;
            let [seen, right] = [can.current_extent, mode.parameters.visible_region];
            same!([seen.width, seen.height], [right.width, right.height]);
        }
    }
    Ok(())
}

/// Shows images on the first display, in the mode that this chooses: at last many of one colour.
fn show(
    lab: &Lab,
    choose: impl Fn(&[vk::DisplayModePropertiesKHR]) -> Option<&vk::DisplayModePropertiesKHR>,
    colour: u32,
) -> Outcome {
    let gpu = lab.gpu()?;
    let monitors = lab.monitors()?;
    let Some(mode) = choose(&monitors[0].modes) else { return Err(Failure::seen("no mode")) };
    let surface = gpu.surface_on(mode, lab.planes_of(&monitors[0])?[0])?;
    let chain = gpu.chain_of(surface, mode)?;
    let queue = gpu.queue()?;
    for number in 0..20 {
        let image = take(&gpu, &chain)?;
        gpu.finish(queue, &[draw(&gpu, &chain, image, number)?])?;
        require!(!chain.present(queue, image, &[], 0)?, "suboptimal");
    }
    let mut drawn = BTreeMap::new();
    for _ in 0..400 {
        let image = take(&gpu, &chain)?;
        let commands = match drawn.get(&image) {
            Some(commands) => *commands,
            None => draw(&gpu, &chain, image, colour)?,
        };
        drawn.insert(image, commands);
        gpu.finish(queue, &[commands])?;
        require!(!chain.present(queue, image, &[], 0)?, "suboptimal");
    }
    Ok(gpu.wait_idle()?)
}

fn flips(lab: &Lab) -> Outcome {
    show(lab, <[_]>::first, COLOUR)
}

fn smallest(lab: &Lab) -> Outcome {
    let size = |mode: &&vk::DisplayModePropertiesKHR| {
        let vk::Extent2D { width, height } = mode.parameters.visible_region;
        u64::from(width) * u64::from(height)
    };
    show(lab, |modes| modes.iter().min_by_key(size), SMALLEST)
}
