// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sources and children of a chain: those of the master come first, then those of the slaves in their order.

use crate::hardware::{DisplayCaps, DisplayPath, GpuOrdinal};

/// How many of something each GPU has, which the chain numbers through.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Numbering(Vec<u32>);

impl Numbering {
    /// The GPU that has what the chain calls `number`, and its own number for it.
    pub(in crate::proxy) fn own(&self, number: u32) -> Option<(GpuOrdinal, u32)> {
        let mut own = number;
        for (gpu, count) in (0..).map(GpuOrdinal).zip(&self.0) {
            match own.checked_sub(*count) {
                Some(rest) => own = rest,
                None => return Some((gpu, own)),
            }
        }
        None
    }

    /// What the chain calls what a GPU calls `own`.
    pub(in crate::proxy) fn of_chain(&self, gpu: GpuOrdinal, own: u32) -> u32 {
        let before = self.0.iter().take(gpu.index());
        before.fold(own, |number, count| number.saturating_add(*count))
    }

    /// How many the chain has.
    pub(in crate::proxy) fn count(&self) -> u32 {
        self.0.iter().fold(0, |all, count| all.saturating_add(*count))
    }
}

/// The numbers of a chain's sources and children.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Numbers {
    pub(in crate::proxy) sources: Numbering,
    pub(in crate::proxy) children: Numbering,
}

impl Numbers {
    /// The numbers of GPUs with these displays, the master first.
    pub(in crate::proxy) fn of(gpus: &[DisplayCaps]) -> Self {
        let children = gpus.iter().map(|caps| u32::try_from(caps.connectors.len()));
        Self {
            sources: Numbering(gpus.iter().map(|caps| caps.sources).collect()),
            children: Numbering(children.map(|count| count.unwrap_or(u32::MAX)).collect()),
        }
    }

    /// The committed paths that are on a GPU, by its own numbers. A committed path has source and target on one GPU.
    pub(in crate::proxy) fn own_paths(
        &self,
        gpu: GpuOrdinal,
        paths: &[DisplayPath],
    ) -> Vec<DisplayPath> {
        let own = |path: &DisplayPath| {
            let (of_source, source) = self.sources.own(path.source)?;
            let (of_target, target) = self.children.own(path.target)?;
            let is_own = of_source == gpu && of_target == gpu;
            is_own.then_some(DisplayPath { source, target, ..*path })
        };
        paths.iter().filter_map(own).collect()
    }
}

/// The displays of all GPUs as one.
pub(in crate::proxy) fn caps_of_chain(gpus: &[DisplayCaps]) -> DisplayCaps {
    let gpus: Vec<_> = gpus.iter().filter(|caps| caps.sources > 0).collect();
    DisplayCaps {
        sources: gpus.iter().map(|caps| caps.sources).fold(0, u32::saturating_add),
        connectors: gpus.iter().flat_map(|caps| caps.connectors.iter().copied()).collect(),
        total_pixel_rate: gpus
            .iter()
            .map(|caps| caps.total_pixel_rate)
            .fold(0, u64::saturating_add),
        max_width: gpus.iter().map(|caps| caps.max_width).max().unwrap_or(0),
        max_height: gpus.iter().map(|caps| caps.max_height).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::MAX_GPUS;
    use proptest::prelude::*;

    #[test]
    fn the_master_s_come_first() {
        let numbers = Numbering(vec![2, 0, 3]);
        let own: Vec<_> = (0..6).map(|number| numbers.own(number)).collect();
        let of = |gpu, own| Some((GpuOrdinal(gpu), own));
        assert_eq!(own, [of(0, 0), of(0, 1), of(2, 0), of(2, 1), of(2, 2), None]);
        assert_eq!(numbers.count(), 5);
    }

    proptest! {
        #[test]
        fn each_number_is_of_one_gpu_and_comes_back(
            counts in proptest::collection::vec(0u32..17, 1..=MAX_GPUS),
            number in any::<u32>(),
        ) {
            let all = counts.iter().sum::<u32>();
            let numbers = Numbering(counts.clone());
            prop_assert_eq!(numbers.own(number).is_some(), number < all);
            for number in 0..all {
                let (gpu, own) = numbers.own(number).unwrap();
                prop_assert!(own < counts[gpu.index()]);
                prop_assert_eq!(numbers.of_chain(gpu, own), number);
            }
        }
    }
}
