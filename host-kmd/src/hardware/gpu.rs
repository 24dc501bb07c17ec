// SPDX-License-Identifier: MIT OR Apache-2.0

//! The GPUs of a chain.
//!
//! "2 or more adapters as a 'chain' comprised of a Master adapter and one or more Slaves" (Windows KMD overview,
//! "MGPU"). An adapter that is not linked is a chain of one.

/// Maximum number of GPUs in a chain. An operation that the driver builds for each of them fits into one paging buffer.
pub const MAX_GPUS: usize = 4;

/// A GPU of a chain, by its place: "GPU ordinal".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuOrdinal(pub u8);

impl GpuOrdinal {
    /// The master, which is the only GPU of a chain of one.
    pub const MASTER: Self = Self(0);

    /// Its index in an array with an entry for each GPU.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of GPUs of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GpuSet(u8);

impl GpuSet {
    /// All GPUs, however many the chain has.
    pub const ALL: Self = Self(u8::MAX);
    /// The master alone.
    pub const MASTER: Self = Self::only(GpuOrdinal::MASTER);

    /// No GPU.
    pub const NONE: Self = Self(0);

    /// One GPU, whose ordinal is less than 8.
    #[must_use]
    pub const fn only(gpu: GpuOrdinal) -> Self {
        Self(1 << (gpu.0 % u8::BITS as u8))
    }

    /// Adds a GPU, or removes it. Returns whether that is a change.
    pub fn set(&mut self, gpu: GpuOrdinal, contains: bool) -> bool {
        let before = *self;
        let bit = Self::only(gpu).0;
        self.0 = if contains { self.0 | bit } else { self.0 & !bit };
        *self != before
    }

    /// Whether it contains a GPU.
    #[must_use]
    pub const fn contains(self, gpu: GpuOrdinal) -> bool {
        self.0 & Self::only(gpu).0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::HwQueueId;
    use proptest::prelude::*;

    #[test]
    fn a_set_contains_what_it_was_made_for() {
        let gpus = (0..MAX_GPUS as u8).map(GpuOrdinal);
        for gpu in gpus.clone() {
            assert!(GpuSet::ALL.contains(gpu) && !GpuSet::NONE.contains(gpu));
            let mut set = GpuSet::NONE;
            assert!(set.set(gpu, true) && !set.set(gpu, true));
            assert_eq!(set, GpuSet::only(gpu));
            assert!(set.set(gpu, false) && !set.set(gpu, false));
            assert_eq!(set, GpuSet::NONE);
            assert_eq!(GpuSet::MASTER.contains(gpu), gpu == GpuOrdinal::MASTER);
            for other in gpus.clone() {
                assert_eq!(GpuSet::only(gpu).contains(other), gpu == other);
            }
        }
    }

    proptest! {
        #[test]
        fn an_id_names_one_gpu_and_no_two_gpus_have_it(
            gpu in 0..MAX_GPUS as u8,
            other in 0..MAX_GPUS as u8,
            number in 0u64..1 << 56,
        ) {
            let id = HwQueueId::of(GpuOrdinal(gpu), number);
            prop_assert_eq!(id.gpu(), GpuOrdinal(gpu));
            prop_assert_eq!(id == HwQueueId::of(GpuOrdinal(other), number), gpu == other);
            prop_assert!(HwQueueId::all_of(GpuOrdinal(gpu)).contains(&id));
            prop_assert_eq!(HwQueueId::all_of(GpuOrdinal(other)).contains(&id), gpu == other);
            // A chain of one has the numbers themselves.
            prop_assert_eq!(HwQueueId::of(GpuOrdinal::MASTER, number), HwQueueId(number));
        }
    }
}
