// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a descriptor set has, and where in its memory.
//!
//! A set is an array of descriptors in the order of their bindings' numbers, without gaps. So an update that goes on in the
//! following bindings is one range of the array. The bytes of inline uniform blocks follow the array; the descriptor of such
//! a block is that of a uniform buffer, and names them.

use ash::vk;
use bellhop_protocol::vulkan::{Descriptor, DescriptorKind, MAX_DESCRIPTORS};

/// Most bytes of an inline uniform block.
pub const MAX_BLOCK: u32 = 4096;
/// Most inline uniform blocks of a set.
pub const MAX_BLOCKS: u32 = 16;
/// Most descriptors of a set that is pushed.
pub const MAX_PUSH_DESCRIPTORS: u32 = 32;

/// Alignment of a set, and of a block in it.
pub(crate) const ALIGNMENT: u32 = 64;

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR: u32 = size_of::<Descriptor>() as u32;

/// A binding as the program asks for it.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) number: u32,
    pub(crate) kind: vk::DescriptorType,
    /// Descriptors, or bytes of an inline uniform block.
    pub(crate) count: u32,
    pub(crate) flags: vk::DescriptorBindingFlags,
}

/// A binding of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayoutBinding {
    pub(crate) number: u32,
    pub(crate) kind: DescriptorKind,
    /// Descriptors: one for an inline uniform block.
    pub(crate) count: u32,
    /// Index of the first of them.
    pub(crate) first: u32,
    /// The bytes of an inline uniform block.
    pub(crate) block: Option<Block>,
}

/// Where the bytes of an inline uniform block are in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// How many of each kind a set takes from its pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    counts: [u64; 5],
}

impl Needs {
    /// Adds descriptors of a kind, or bytes of inline uniform blocks. Kinds that are not offered count for nothing.
    pub(crate) fn add(&mut self, kind: vk::DescriptorType, count: u32) {
        if let Some(sum) = index(kind).and_then(|index| self.counts.get_mut(index)) {
            *sum += u64::from(count);
        }
    }

    /// Descriptors, without those of inline uniform blocks.
    pub(crate) fn descriptors(&self) -> u64 {
        self.counts.iter().take(4).sum()
    }

    /// Bytes of inline uniform blocks.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.counts.last().copied().unwrap_or(0)
    }

    /// What is left when `other` was taken, if there is enough of each kind.
    pub(crate) fn without(mut self, other: &Self) -> Option<Self> {
        for (count, taken) in self.counts.iter_mut().zip(other.counts) {
            *count = count.checked_sub(taken)?;
        }
        Some(self)
    }

    /// What there is when `other` was given back.
    pub(crate) fn with(mut self, other: &Self) -> Self {
        for (count, given) in self.counts.iter_mut().zip(other.counts) {
            *count += given;
        }
        self
    }
}

fn index(kind: vk::DescriptorType) -> Option<usize> {
    match kind {
        vk::DescriptorType::UNIFORM_BUFFER => Some(0),
        vk::DescriptorType::STORAGE_BUFFER => Some(1),
        vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC => Some(2),
        vk::DescriptorType::STORAGE_BUFFER_DYNAMIC => Some(3),
        vk::DescriptorType::INLINE_UNIFORM_BLOCK => Some(4),
        _ => None,
    }
}

/// What a descriptor set has.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct SetLayout {
    /// In the order of their numbers. A binding without descriptors is none.
    bindings: Vec<LayoutBinding>,
    descriptors: u32,
    dynamic: u32,
    bytes: u32,
    /// The last binding as it was asked for, if each set has a number of descriptors of its own there.
    variable: Option<(vk::DescriptorType, u32)>,
    needs: Needs,
}

impl SetLayout {
    /// Lays out a set. `None` for one that has more than there can be, or what is not offered.
    pub(crate) fn new(asked: &mut [Asked], pushed: bool) -> Option<Self> {
        asked.sort_unstable_by_key(|asked| asked.number);
        let mut layout = Self::default();
        let mut descriptors = 0u64;
        let mut block_bytes = 0u32;
        let mut blocks = 0;
        for Asked { number, kind: asked_kind, count, flags } in asked.iter().copied() {
            index(asked_kind)?;
            layout.needs.add(asked_kind, count);
            layout.variable = flags
                .contains(vk::DescriptorBindingFlags::VARIABLE_DESCRIPTOR_COUNT)
                .then_some((asked_kind, count));
            if count == 0 {
                continue;
            }
            let is_block = asked_kind == vk::DescriptorType::INLINE_UNIFORM_BLOCK;
            let (kind, block) = if is_block {
                blocks += 1;
                let block = Block { offset: block_bytes, bytes: count };
                if count > MAX_BLOCK || blocks > MAX_BLOCKS {
                    return None;
                }
                block_bytes += count.next_multiple_of(ALIGNMENT);
                (DescriptorKind::UNIFORM_BUFFER, Some(block))
            } else {
                (DescriptorKind(asked_kind.as_raw() as u32), None)
            };
            let count = if is_block { 1 } else { count };
            let first = descriptors as u32;
            descriptors += u64::from(count);
            if descriptors > u64::from(MAX_DESCRIPTORS) {
                return None;
            }
            if kind.is_dynamic() {
                layout.dynamic += count;
            }
            layout.bindings.push(LayoutBinding { number, kind, count, first, block });
        }
        if pushed
            && (descriptors > u64::from(MAX_PUSH_DESCRIPTORS) || blocks > 0 || layout.dynamic > 0)
        {
            return None;
        }
        layout.descriptors = descriptors as u32;
        let array = (layout.descriptors * DESCRIPTOR).next_multiple_of(ALIGNMENT);
        for block in layout.bindings.iter_mut().filter_map(|binding| binding.block.as_mut()) {
            block.offset += array;
        }
        // A set without descriptors has an address, too.
        layout.bytes = (array + block_bytes).max(ALIGNMENT);
        Some(layout)
    }

    /// The bindings, in the order of their numbers.
    pub(crate) fn bindings(&self) -> &[LayoutBinding] {
        &self.bindings
    }

    /// Number of descriptors.
    pub(crate) const fn descriptors(&self) -> u32 {
        self.descriptors
    }

    /// Number of descriptors to which a dispatch adds an offset.
    pub(crate) const fn dynamic(&self) -> u32 {
        self.dynamic
    }

    /// Bytes of a set, a multiple of [`ALIGNMENT`]. A set with fewer descriptors in its last binding has as many: whoever
    /// reads it knows the layout alone.
    pub(crate) const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Whether each set has a number of descriptors of its own in its last binding.
    pub(crate) const fn is_variable(&self) -> bool {
        self.variable.is_some()
    }

    /// What a set takes from its pool, if its last binding has `variable` descriptors.
    pub(crate) fn needs(&self, variable: u32) -> Needs {
        let Some((kind, most)) = self.variable else {
            return self.needs;
        };
        let mut unused = Needs::default();
        unused.add(kind, most.saturating_sub(variable));
        self.needs.without(&unused).unwrap_or(self.needs)
    }

    /// Most descriptors of the last binding with what the others have.
    pub(crate) fn most_variable(&self) -> u32 {
        match self.variable {
            None => 0,
            Some((vk::DescriptorType::INLINE_UNIFORM_BLOCK, _)) => MAX_BLOCK,
            Some((_, count)) => MAX_DESCRIPTORS - (self.descriptors - count),
        }
    }

    /// Finds `element` of binding `number`: a place in [`Self::bindings`], and the element there. It may be in a binding
    /// that follows.
    pub(crate) fn find(&self, number: u32, element: u32) -> (usize, u32) {
        (self.bindings.partition_point(|binding| binding.number < number), element)
    }

    /// Index of the descriptor that is `element` of binding `number`.
    pub(crate) fn descriptor(&self, number: u32, element: u32) -> Option<u32> {
        let (place, element) = self.find(number, element);
        let first = self.bindings.get(place)?.first;
        first.checked_add(element).filter(|index| *index < self.descriptors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;
    const DYNAMIC: vk::DescriptorType = vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC;
    const BLOCK: vk::DescriptorType = vk::DescriptorType::INLINE_UNIFORM_BLOCK;

    fn asked(number: u32, kind: vk::DescriptorType, count: u32) -> Asked {
        Asked { number, kind, count, flags: vk::DescriptorBindingFlags::empty() }
    }

    #[test]
    fn bindings_lie_in_the_order_of_their_numbers() {
        let mut bindings = [asked(9, DYNAMIC, 2), asked(1, STORAGE, 3), asked(4, STORAGE, 0)];
        let layout = SetLayout::new(&mut bindings, false).unwrap();
        let places = layout.bindings().iter().map(|b| (b.number, b.first, b.count));
        assert_eq!(places.collect::<Vec<_>>(), [(1, 0, 3), (9, 3, 2)]);
        assert_eq!((layout.descriptors(), layout.dynamic(), layout.bytes()), (5, 2, 192));
        assert_eq!(layout.descriptor(1, 2), Some(2));
        assert_eq!(layout.descriptor(1, 3), Some(3), "goes on in the next binding");
        assert_eq!(layout.descriptor(4, 0), Some(3), "a binding without descriptors is left out");
        assert_eq!(layout.descriptor(9, 2), None);
        assert_eq!(layout.descriptor(10, 0), None);
    }

    #[test]
    fn blocks_lie_behind_the_descriptors() {
        let mut bindings = [asked(0, BLOCK, 12), asked(1, STORAGE, 1), asked(2, BLOCK, 68)];
        let layout = SetLayout::new(&mut bindings, false).unwrap();
        let blocks: Vec<_> = layout.bindings().iter().filter_map(|b| b.block).collect();
        assert_eq!(blocks, [Block { offset: 128, bytes: 12 }, Block { offset: 192, bytes: 68 }]);
        assert_eq!((layout.descriptors(), layout.bytes()), (3, 128 + 64 + 128));
        assert_eq!(layout.needs(0).block_bytes(), 80);
        assert_eq!(layout.needs(0).descriptors(), 1);
    }

    #[test]
    fn a_set_takes_what_it_has_in_its_last_binding() {
        let mut last = asked(7, STORAGE, 100);
        last.flags = vk::DescriptorBindingFlags::VARIABLE_DESCRIPTOR_COUNT;
        let layout = SetLayout::new(&mut [last, asked(0, STORAGE, 2)], false).unwrap();
        assert!(layout.is_variable());
        assert_eq!(layout.needs(30).descriptors(), 32);
        assert_eq!(layout.most_variable(), MAX_DESCRIPTORS - 2);
        assert_eq!(layout.bytes(), 102 * 32);
    }

    #[test]
    fn a_set_that_cannot_be_is_refused() {
        let image = vk::DescriptorType::SAMPLED_IMAGE;
        assert!(SetLayout::new(&mut [asked(0, image, 1)], false).is_none());
        let mut many = [asked(0, STORAGE, MAX_DESCRIPTORS), asked(1, STORAGE, 1)];
        assert!(SetLayout::new(&mut many[..1], false).is_some());
        assert!(SetLayout::new(&mut many, false).is_none());
        assert!(SetLayout::new(&mut [asked(0, STORAGE, u32::MAX)], false).is_none());
        assert!(SetLayout::new(&mut [asked(0, BLOCK, MAX_BLOCK + 4)], false).is_none());
        assert!(SetLayout::new(&mut [asked(0, STORAGE, 32)], true).is_some());
        assert!(SetLayout::new(&mut [asked(0, STORAGE, 33)], true).is_none());
        assert!(SetLayout::new(&mut [asked(0, DYNAMIC, 1)], true).is_none());
    }

    #[test]
    fn a_pool_has_enough_of_each_kind_or_not() {
        let mut pool = Needs::default();
        pool.add(STORAGE, 2);
        pool.add(vk::DescriptorType::SAMPLER, 5);
        let mut one = Needs::default();
        one.add(STORAGE, 1);
        let rest = pool.without(&one).unwrap().without(&one).unwrap();
        assert_eq!((rest, rest.without(&one)), (Needs::default(), None));
        assert_eq!(rest.with(&one).with(&one), pool);
    }
}
