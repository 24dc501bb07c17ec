// SPDX-License-Identifier: MIT OR Apache-2.0

//! The set of descriptors that a command buffer pushes: what it was before, with what a push writes.

use crate::descriptor::layout::MAX_PUSH_DESCRIPTORS;
use crate::descriptor::{SetLayout, Target};
use bellhop_protocol::vulkan::Descriptor;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Descriptors that were pushed.
#[derive(Default)]
pub(super) struct Pushed {
    layout: Arc<SetLayout>,
    descriptors: [Descriptor; MAX_PUSH_DESCRIPTORS as usize],
}

impl Pushed {
    /// Forgets all descriptors, unless they are of a set with this layout. The layout's own samplers are there then.
    pub(super) fn keep(&mut self, layout: &Arc<SetLayout>) {
        if self.layout != *layout {
            self.descriptors = Default::default();
            self.layout = Arc::clone(layout);
            for (index, own) in layout.samplers() {
                (&mut *self).put(*index, *own);
            }
        }
    }

    /// Forgets all descriptors.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// What the set is in memory.
    pub(super) fn bytes(&self) -> &[u8] {
        let count = self.layout.descriptors() as usize;
        self.descriptors.get(..count).unwrap_or(&self.descriptors).as_bytes()
    }
}

impl Target for &mut Pushed {
    fn layout(&self) -> &SetLayout {
        &self.layout
    }

    fn put(&mut self, index: u32, descriptor: Descriptor) {
        if let Some(place) = self.descriptors.get_mut(index as usize) {
            *place = descriptor;
        }
    }

    /// A set that is pushed has no blocks.
    fn put_block(&mut self, _number: u32, _offset: u32, _bytes: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::Asked;
    use ash::vk;

    #[test]
    fn a_push_keeps_what_earlier_ones_of_its_layout_wrote() {
        let kind = vk::DescriptorType::STORAGE_BUFFER;
        let flags = vk::DescriptorBindingFlags::empty();
        let layout = |count| {
            let mut asked = [Asked { number: 0, kind, count, flags, samplers: Vec::new() }];
            Arc::new(SetLayout::new(&mut asked, true).unwrap())
        };
        let descriptor = |address| Descriptor { address, length: 4, ..Default::default() };
        let mut pushed = Pushed::default();
        pushed.keep(&layout(2));
        (&mut pushed).put_all(0, 1, [descriptor(64), descriptor(128)]);
        pushed.keep(&layout(2));
        (&mut pushed).put_all(0, 0, [descriptor(32)]);
        assert_eq!(pushed.bytes(), [descriptor(32), descriptor(64)].as_bytes());
        pushed.keep(&layout(3));
        assert_eq!(pushed.bytes(), [Descriptor::default(); 3].as_bytes());
        pushed.forget();
        assert!(pushed.bytes().is_empty());
    }

    #[test]
    fn samplers_of_the_layout_are_there_before_and_after_a_push() {
        let kind = vk::DescriptorType::COMBINED_IMAGE_SAMPLER;
        let flags = vk::DescriptorBindingFlags::empty();
        let own = Descriptor { sampler: 64, about: 5, ..Default::default() };
        let mut asked = [Asked { number: 0, kind, count: 1, flags, samplers: vec![own] }];
        let layout = Arc::new(SetLayout::new(&mut asked, true).unwrap());
        let mut pushed = Pushed::default();
        pushed.keep(&layout);
        assert_eq!(pushed.bytes(), own.as_bytes());
        let view = Descriptor { address: 8, length: 9, sampler: 128, about: 6 };
        (&mut pushed).put_all(0, 0, [view]);
        let expected = Descriptor { address: 8, length: 9, ..own };
        assert_eq!(pushed.bytes(), expected.as_bytes());
    }
}
