// SPDX-License-Identifier: MIT OR Apache-2.0

//! The shapes of a minimal path.

use std::fmt;

/// Where a submission's two packets are: the null packet and the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Packets {
    /// Both in a command buffer, written anew and named by the ring's entry.
    WrittenBuffer,
    /// The null packet in an unchanged command buffer, named by the ring's entry; the signal in the ring.
    KeptBuffer,
    /// Both in the ring.
    Ring,
    /// Both in the ring, and the executor makes the checks without which a submitter could harm others.
    CheckedRing,
}

/// One way to move a submission: its packets, where they are, and the value of its fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Shape {
    /// Where the packets are.
    pub(super) packets: Packets,
    /// The executor prefetches the next lines while it polls the doorbell, not after.
    pub(super) asks_ahead: bool,
    /// The executor stores the fence once for [`Self::COALESCED`] submissions, or at the last one that was rung
    /// for.
    pub(super) coalesces: bool,
    /// The submitter rings for each submission, and not once for a batch.
    pub(super) rings_each: bool,
}

impl Shape {
    /// Most submissions that one store of the fence stands for.
    pub(super) const COALESCED: u64 = 16;

    /// The shapes that differ for a batch of `depth`.
    pub(in super::super) fn of_depth(depth: u64) -> impl Iterator<Item = Self> {
        Self::all(vec![Packets::WrittenBuffer, Packets::KeptBuffer, Packets::Ring], depth)
    }

    /// As [`Self::of_depth`], of an executor that checks.
    pub(in super::super) fn checked_of_depth(depth: u64) -> impl Iterator<Item = Self> {
        Self::all(vec![Packets::CheckedRing], depth)
    }

    fn all(packets: Vec<Packets>, depth: u64) -> impl Iterator<Item = Self> {
        let bools = move || [false, true].into_iter().filter(move |it| !it || depth > 1);
        packets.into_iter().flat_map(move |packets| {
            [false, true].into_iter().flat_map(move |asks_ahead| {
                bools().flat_map(move |coalesces| {
                    bools().map(move |rings_each| Self {
                        packets,
                        asks_ahead,
                        coalesces,
                        rings_each,
                    })
                })
            })
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = match self.packets {
            Packets::WrittenBuffer => "buffer written",
            Packets::KeptBuffer => "buffer kept",
            Packets::Ring => "packets in ring",
            Packets::CheckedRing => "packets in ring, checked",
        };
        let asks = if self.asks_ahead { "asked ahead" } else { "not asked ahead" };
        let fence = if self.coalesces { "fence once in 16" } else { "fence each" };
        let rings = if self.rings_each { "rung each" } else { "rung once" };
        write!(f, "{packets}, {asks}, {fence}, {rings}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_depth_has_each_shape_that_differs_there_once() {
        for (depth, count) in [(1, 3 * 2), (4, 3 * 2 * 2 * 2), (64, 3 * 2 * 2 * 2)] {
            let names: BTreeSet<_> =
                Shape::of_depth(depth).map(|shape| shape.to_string()).collect();
            assert_eq!((names.len(), Shape::of_depth(depth).count()), (count, count), "{depth}");
            assert_eq!(Shape::checked_of_depth(depth).count(), count / 3, "{depth}");
        }
    }
}
