// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a descriptor set has, and where in its memory.
//!
//! A set is an array of descriptors in the order of their bindings' numbers, without gaps. So an update that goes on in the
//! following bindings is one range of the array. The bytes of inline uniform blocks follow the array; the descriptor of such
//! a block is that of a uniform buffer, and names them. Samplers of the layout itself are in each set from its start on.

use super::needs::{Needs, index};
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
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) number: u32,
    pub(crate) kind: vk::DescriptorType,
    /// Descriptors, or bytes of an inline uniform block.
    pub(crate) count: u32,
    pub(crate) flags: vk::DescriptorBindingFlags,
    /// Descriptors with the samplers that are the layout's, if they are: one for each.
    pub(crate) samplers: Vec<Descriptor>,
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
    /// Descriptors with the samplers that are the layout's own, and their indices, in order.
    samplers: Vec<(u32, Descriptor)>,
}

impl SetLayout {
    /// Lays out a set. `None` for one that has more than there can be, or what is not offered.
    pub(crate) fn new(asked: &mut [Asked], pushed: bool) -> Option<Self> {
        asked.sort_unstable_by_key(|asked| asked.number);
        let mut layout = Self::default();
        let mut descriptors = 0u64;
        let mut block_bytes = 0u32;
        let mut blocks = 0;
        for Asked { number, kind: asked_kind, count, flags, samplers } in asked.iter() {
            let (number, asked_kind, count) = (*number, *asked_kind, *count);
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
            layout.samplers.extend((first..first + count).zip(samplers.iter().copied()));
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

    /// Descriptors with the samplers that are the layout's own, and their indices.
    pub(crate) fn samplers(&self) -> &[(u32, Descriptor)] {
        &self.samplers
    }

    /// The descriptor at an index with the sampler that is the layout's own, if there is one.
    #[inline]
    fn sampler(&self, index: u32) -> Option<&Descriptor> {
        // Most layouts have none.
        if self.samplers.is_empty() {
            return None;
        }
        let at = self.samplers.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.samplers.get(at).map(|(_, sampler)| sampler)
    }

    /// Whether `element` of binding `number` has a sampler that is the layout's own.
    pub(crate) fn has_sampler(&self, number: u32, element: u32) -> bool {
        self.descriptor(number, element).is_some_and(|index| self.sampler(index).is_some())
    }

    /// What is stored where a descriptor is to be written: it has the layout's own sampler, if there is one.
    #[inline]
    pub(crate) fn complete(&self, index: u32, descriptor: Descriptor) -> Descriptor {
        self.sampler(index).map_or(descriptor, |own| Descriptor {
            sampler: own.sampler,
            about: own.about,
            ..descriptor
        })
    }

    /// Index of the descriptor that is `element` of binding `number`.
    pub(crate) fn descriptor(&self, number: u32, element: u32) -> Option<u32> {
        let (place, element) = self.find(number, element);
        let first = self.bindings.get(place)?.first;
        first.checked_add(element).filter(|index| *index < self.descriptors)
    }
}

#[cfg(test)]
mod tests;
