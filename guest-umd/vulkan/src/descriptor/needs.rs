// SPDX-License-Identifier: MIT OR Apache-2.0

//! How many descriptors of each kind sets have, and pools.

use ash::vk;

/// Number of kinds of descriptors.
const KINDS: usize = 11;

/// How many of each kind a set takes from its pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// By [`index`].
    counts: [u64; KINDS + 1],
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
        self.counts.iter().take(KINDS).sum()
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

/// The kind's place among counts: its number, or behind all of these for inline uniform blocks.
pub(super) fn index(kind: vk::DescriptorType) -> Option<usize> {
    if kind == vk::DescriptorType::INLINE_UNIFORM_BLOCK {
        return Some(KINDS);
    }
    usize::try_from(kind.as_raw()).ok().filter(|number| *number < KINDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;

    #[test]
    fn a_pool_has_enough_of_each_kind_or_not() {
        let mut pool = Needs::default();
        pool.add(STORAGE, 2);
        pool.add(vk::DescriptorType::MUTABLE_EXT, 5);
        let mut one = Needs::default();
        one.add(STORAGE, 1);
        let rest = pool.without(&one).unwrap().without(&one).unwrap();
        assert_eq!((rest, rest.without(&one)), (Needs::default(), None));
        assert_eq!(rest.with(&one).with(&one), pool);
    }
}
