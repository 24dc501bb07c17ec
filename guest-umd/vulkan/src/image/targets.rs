// SPDX-License-Identifier: MIT OR Apache-2.0

//! What views that are drawn on are of, for devices whose frames several GPUs draw in turns.

use ash::vk;
use bellhop_protocol::vulkan::Image;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bytes of images that can be nothing but targets of renderings, by the addresses of their views, which no two have in a program.
static VIEWS: Mutex<BTreeMap<u64, Range<u64>>> = Mutex::new(BTreeMap::new());

/// No code panics while it holds the lock, so that what is there is whole.
fn views() -> MutexGuard<'static, BTreeMap<u64, Range<u64>>> {
    VIEWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what a view at an address is of.
pub(super) fn note(view: u64, image: &Image) {
    let targets = vk::ImageUsageFlags::COLOR_ATTACHMENT
        | vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT
        | vk::ImageUsageFlags::TRANSIENT_ATTACHMENT;
    if targets.contains(vk::ImageUsageFlags::from_raw(image.usage)) {
        views().insert(view, image.address..image.address.saturating_add(image.size));
    }
}

/// Forgets a view that ends.
pub(super) fn forget(view: u64) {
    views().remove(&view);
}

/// The bytes of the image of a view, by GPU virtual address; `None` if something may read it that is no rendering on it.
pub(crate) fn at(view: u64) -> Option<Range<u64>> {
    views().get(&view).cloned()
}

#[cfg(test)]
mod tests {
    use super::super::description::tests::image;
    use super::*;

    #[test]
    fn an_image_that_something_else_may_read_is_not_known() {
        let usage = vk::ImageUsageFlags::COLOR_ATTACHMENT;
        let target = Image { address: 0x7000, size: 0x100, usage: usage.as_raw(), ..image() };
        let view = 1 << 60;
        note(view, &target);
        assert_eq!(at(view), Some(0x7000..0x7100));
        forget(view);
        let sampled = usage | vk::ImageUsageFlags::SAMPLED;
        note(view, &Image { usage: sampled.as_raw(), ..target });
        assert_eq!(at(view), None);
    }
}
