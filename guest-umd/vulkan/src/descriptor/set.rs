// SPDX-License-Identifier: MIT OR Apache-2.0

//! A descriptor set: descriptors in memory that the GPU reads when it executes a dispatch.

use super::layout::{DESCRIPTOR, SetLayout};
use super::update::Target;
use crate::heap::Piece;
use bellhop_protocol::vulkan::Descriptor;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A descriptor set.
pub(crate) struct DescriptorSet {
    layout: Arc<SetLayout>,
    memory: Arc<Piece>,
    /// Where in the memory it begins.
    start: usize,
    address: u64,
}

impl DescriptorSet {
    /// Makes a set whose descriptors are all null but for the layout's own samplers, in memory that has room for it from `start` on.
    pub(super) fn new(layout: Arc<SetLayout>, memory: Arc<Piece>, start: usize) -> Self {
        let address = memory.gpu_va() + start as u64;
        let set = Self { layout, memory, start, address };
        const NONE: [u8; 1024] = [0; 1024];
        let end = start + set.layout.bytes() as usize;
        for at in (start..end).step_by(NONE.len()) {
            set.memory.write(at, NONE.get(..end - at).unwrap_or(&NONE));
        }
        for binding in set.layout.bindings() {
            if let Some(block) = binding.block {
                let (address, length) = (address + u64::from(block.offset), block.bytes.into());
                set.store(binding.first, Descriptor { address, length, ..Default::default() });
            }
        }
        for (index, own) in set.layout.samplers() {
            set.store(*index, *own);
        }
        set
    }

    /// Its GPU virtual address.
    pub(crate) const fn address(&self) -> u64 {
        self.address
    }

    /// Which bytes of its memory it has.
    pub(super) fn place(&self) -> Range<usize> {
        self.start..self.start + self.layout.bytes() as usize
    }

    fn place_of(&self, index: u32) -> usize {
        self.start + index as usize * DESCRIPTOR as usize
    }

    fn store(&self, index: u32, descriptor: Descriptor) {
        self.memory.write(self.place_of(index), descriptor.as_bytes());
    }

    pub(super) fn load(&self, index: u32) -> Descriptor {
        let mut descriptor = Descriptor::default();
        self.memory.read(self.place_of(index), descriptor.as_mut_bytes());
        descriptor
    }

    /// Copies what `element` of binding `number` and the `count - 1` after it are.
    pub(super) fn copy_from(&self, from: &Self, source: (u32, u32), to: (u32, u32), count: u32) {
        let (place, element) = from.layout.find(source.0, source.1);
        if from.layout.bindings().get(place).is_some_and(|binding| binding.block.is_some()) {
            let mut bytes = vec![0; count as usize];
            let mut rest = bytes.as_mut_slice();
            for range in block_ranges(&from.layout, source.0, element, count as usize) {
                let Some((now, later)) = rest.split_at_mut_checked(range.len()) else { return };
                from.memory.read(from.start + range.start, now);
                rest = later;
            }
            (&*self).put_block(to.0, to.1, &bytes);
            return;
        }
        for index in 0..count {
            let source = from.layout.descriptor(source.0, source.1.saturating_add(index));
            let to = self.layout.descriptor(to.0, to.1.saturating_add(index));
            let (Some(source), Some(to)) = (source, to) else { return };
            self.store(to, self.layout.complete(to, from.load(source)));
        }
    }
}

impl Target for &DescriptorSet {
    fn layout(&self) -> &SetLayout {
        &self.layout
    }

    fn put(&mut self, index: u32, descriptor: Descriptor) {
        self.store(index, descriptor);
    }

    fn put_block(&mut self, number: u32, offset: u32, bytes: &[u8]) {
        let mut rest = bytes;
        for range in block_ranges(&self.layout, number, offset, bytes.len()) {
            let Some((now, later)) = rest.split_at_checked(range.len()) else { return };
            self.memory.write(self.start + range.start, now);
            rest = later;
        }
    }
}

/// Where in a set the bytes of an inline uniform block are, from one byte of it on. They go on in the bindings that follow.
fn block_ranges(
    layout: &SetLayout,
    number: u32,
    offset: u32,
    length: usize,
) -> impl Iterator<Item = Range<usize>> {
    let (place, mut offset) = layout.find(number, offset);
    let mut rest = length;
    let blocks = layout.bindings().get(place..).unwrap_or_default().iter();
    blocks.map_while(move |binding| {
        let block = binding.block.filter(|_| rest > 0)?;
        let length = rest.min(block.bytes.saturating_sub(offset) as usize);
        let start = block.offset as usize + offset as usize;
        (rest, offset) = (rest - length, 0);
        Some(start..start + length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::layout::Asked;
    use ash::vk;

    #[test]
    fn a_block_goes_on_in_the_next_binding() {
        let kind = vk::DescriptorType::INLINE_UNIFORM_BLOCK;
        let flags = vk::DescriptorBindingFlags::empty();
        let mut asked = [(3, 16), (5, 8)].map(|(number, count)| Asked {
            number,
            kind,
            count,
            flags,
            samplers: Vec::new(),
        });
        let layout = SetLayout::new(&mut asked, false).unwrap();
        let ranges: Vec<_> = block_ranges(&layout, 3, 12, 12).collect();
        assert_eq!(ranges, [76..80, 128..136]);
        assert!(block_ranges(&layout, 5, 4, 4).eq(std::iter::once(132..136)));
        assert_eq!(block_ranges(&layout, 6, 0, 4).count(), 0);
    }
}
