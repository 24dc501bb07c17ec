// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Presents images.

use super::object::Swapchain;
use super::presenter::Frame;
use crate::queue::Queue;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};

/// The more urgent of two results for a program that presents several images.
fn worst(one: vk::Result, other: vk::Result) -> vk::Result {
    if one == vk::Result::SUCCESS { other } else { one }
}

unsafe extern "system" fn present(
    queue: vk::Queue,
    information: *const vk::PresentInfoKHR<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let information = &*information;
        let count = information.swapchain_count;
        let semaphores =
            raw::array(information.p_wait_semaphores, information.wait_semaphore_count);
        let queue = handle::get_dispatchable::<Queue>(queue.as_raw());
        let drawn = queue.hold(semaphores);
        queue.end_frame();
        let swapchains = raw::array(information.p_swapchains, count);
        let images = raw::array(information.p_image_indices, count);
        let results = raw::slice_mut(information.p_results, count);
        let ids = raw::find::<vk::PresentIdKHR<'_>>(information.p_next);
        let ids = ids.map_or(&[][..], |ids| raw::slice(ids.p_present_ids, ids.swapchain_count));
        let mut all = vk::Result::SUCCESS;
        for (number, (swapchain, image)) in swapchains.iter().zip(images).enumerate() {
            let swapchain = Swapchain::get(*swapchain);
            let id = ids.get(number).copied().unwrap_or_default();
            let result = match &drawn {
                Ok(drawn) => {
                    let drawn = drawn.clone();
                    swapchain.presenter.show(Frame { image: *image, drawn, id });
                    swapchain.chain.failure().unwrap_or(vk::Result::SUCCESS)
                }
                Err(why) => *why,
            };
            if let Some(place) = results.get_mut(number) {
                *place = result;
            }
            all = worst(all, result);
        }
        all
    }
}

crate::entry::entry_points! {
    vkQueuePresentKHR = present,
}
