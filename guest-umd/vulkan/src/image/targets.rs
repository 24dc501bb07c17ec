// SPDX-License-Identifier: MIT OR Apache-2.0

//! What views that are drawn on are of, for devices whose frames several GPUs draw in turns.

use crate::memory::Bound;
use ash::vk;
use bellhop_protocol::vulkan::Image;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An image that can be nothing but a target of renderings.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Its bytes, by GPU virtual address.
    place: Range<u64>,
    /// What is bound to its memory.
    bound: Bound,
}

impl Target {
    /// Whether other bytes of its memory are something else's, or these.
    pub(crate) fn shares_memory(&self) -> bool {
        self.bound.are_several()
    }

    /// Whether both have bytes in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.place.start < other.place.end && other.place.start < self.place.end
    }

    /// One with memory to which this is bound.
    #[cfg(test)]
    pub(crate) fn in_memory(place: Range<u64>, bound: Bound) -> Self {
        Self { place, bound }
    }
}

/// Images that can be nothing but targets, by the addresses of their views, which no two have in a program.
static VIEWS: Mutex<BTreeMap<u64, Target>> = Mutex::new(BTreeMap::new());

/// No code panics while it holds the lock, so that what is there is whole.
fn views() -> MutexGuard<'static, BTreeMap<u64, Target>> {
    VIEWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what a view at an address is of.
pub(super) fn note(view: u64, image: &Image, bound: Bound) {
    let targets = vk::ImageUsageFlags::COLOR_ATTACHMENT
        | vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT
        | vk::ImageUsageFlags::TRANSIENT_ATTACHMENT;
    if targets.contains(vk::ImageUsageFlags::from_raw(image.usage)) {
        let place = image.address..image.address.saturating_add(image.size);
        views().insert(view, Target { place, bound });
    }
}

/// Forgets a view that ends.
pub(super) fn forget(view: u64) {
    views().remove(&view);
}

/// The image of a view; `None` if something may read it that is no rendering on it.
pub(crate) fn at(view: u64) -> Option<Target> {
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
        note(view, &target, Bound::default());
        assert_eq!(at(view).unwrap().place, 0x7000..0x7100);
        forget(view);
        let sampled = usage | vk::ImageUsageFlags::SAMPLED;
        note(view, &Image { usage: sampled.as_raw(), ..target }, Bound::default());
        assert!(at(view).is_none());
    }
}
