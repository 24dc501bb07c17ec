// SPDX-License-Identifier: MIT OR Apache-2.0

//! Areas of the BAR that a guest has put into its own memory.

use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::allocation::Extent;
use std::collections::BTreeMap;

/// The donations of a guest, by area.
#[derive(Debug, Default)]
pub(crate) struct Donations(BTreeMap<AreaKind, Donation>);

/// The memory for one area.
#[derive(Debug)]
struct Donation {
    /// Bytes to donate in total.
    length: u64,
    /// Bytes donated so far.
    donated: u64,
    extents: Vec<Extent>,
}

impl Donations {
    /// Whether an area is in the guest's memory.
    pub(crate) fn is_in_force(&self, kind: AreaKind) -> bool {
        self.0.get(&kind).is_some_and(|donation| donation.donated == donation.length)
    }

    /// Whether memory at `offset` is the next piece of a donation of `length` bytes: pieces come in order.
    pub(crate) fn is_next(&self, kind: AreaKind, offset: u64, length: u64) -> bool {
        let mut earlier = self.0.get(&kind).into_iter();
        offset == 0 || earlier.any(|area| (area.donated, area.length) == (offset, length))
    }

    /// The extents of an area including new ones at `offset`. Offset 0 begins anew, even after an earlier donation
    /// failed.
    pub(crate) fn with_next(
        &self,
        kind: AreaKind,
        offset: u64,
        extents: Vec<Extent>,
    ) -> Vec<Extent> {
        let earlier = self.0.get(&kind).filter(|_| offset > 0);
        // An extent has at least one page, so the area's size bounds their number.
        let mut all = earlier.map(|earlier| earlier.extents.clone()).unwrap_or_default();
        all.extend(extents);
        all
    }

    /// Records that `donated` of the `length` bytes of an area are donated.
    pub(crate) fn set(&mut self, kind: AreaKind, length: u64, donated: u64, extents: Vec<Extent>) {
        self.0.insert(kind, Donation { length, donated, extents });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_their_order_and_the_first_begins_anew() {
        let (kind, piece) = (AreaKind::DOORBELLS, |address| Extent { address, length: 4096 });
        let mut donations = Donations::default();
        assert!(donations.is_next(kind, 0, 8192) && !donations.is_next(kind, 4096, 8192));
        donations.set(kind, 8192, 4096, vec![piece(0)]);
        assert!(donations.is_next(kind, 4096, 8192) && !donations.is_next(kind, 4096, 4096));
        assert_eq!(donations.with_next(kind, 4096, vec![piece(9)]).len(), 2);
        assert_eq!(donations.with_next(kind, 0, vec![piece(9)]).len(), 1);
        assert!(!donations.is_in_force(kind));
        donations.set(kind, 8192, 8192, vec![piece(0), piece(9)]);
        assert!(donations.is_in_force(kind));
    }
}
