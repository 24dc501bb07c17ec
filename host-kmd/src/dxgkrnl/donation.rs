//! Areas of the BAR that a guest has put into its own memory.
//!
//! The layout stays the BAR's; only the bytes are elsewhere. Local memory is dxgkrnl's to place,
//! page by page as it gives it out; the other areas, and the system context's window of local
//! memory, are placed once, in the hardware.

use super::allocation::total_length;
use super::error::RequestError;
use super::pool::{PagePool, PageRange, is_whole_pages};
use super::request::{Answer, Handled, zero};
use super::scope::Scope;
use bellhop_protocol::bar::{AreaKind, BarHeader};
use bellhop_protocol::control::adapter::{DonateArea, QueryBarLayout};
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::features::Features;
use std::collections::BTreeMap;

/// What a guest has donated, by area.
#[derive(Debug, Default)]
pub(super) struct Donations(BTreeMap<AreaKind, Donation>);

/// The memory for one area.
#[derive(Debug)]
struct Donation {
    /// Bytes of all of it.
    length: u64,
    /// Bytes that are there.
    donated: u64,
    extents: Vec<Extent>,
}

impl Donations {
    /// Whether an area is in the guest's memory.
    pub(super) fn is_in_force(&self, kind: AreaKind) -> bool {
        self.0.get(&kind).is_some_and(|donation| donation.donated == donation.length)
    }

    /// Where a range of local memory is in the guest's memory; `None` when it is in the BAR.
    pub(super) fn local_memory(&self, range: PageRange) -> Option<Vec<Extent>> {
        let kind = AreaKind::LOCAL_MEMORY;
        let donation = self.0.get(&kind).filter(|_| self.is_in_force(kind))?;
        Some(part(&donation.extents, range))
    }
}

/// A range of the bytes that extents name, as extents.
fn part(extents: &[Extent], range: PageRange) -> Vec<Extent> {
    let (mut skip, mut left) = (range.start, range.length);
    extents
        .iter()
        .filter_map(|extent| {
            let skipped = skip.min(extent.length);
            let length = left.min(extent.length - skipped);
            (skip, left) = (skip - skipped, left - length);
            (length > 0).then_some(Extent { address: extent.address + skipped, length })
        })
        .collect()
}

impl Scope<'_> {
    /// What the BAR's header page says.
    pub(super) fn query_bar_layout(&mut self, request: QueryBarLayout) -> Handled<BarHeader> {
        zero("reserved", request.reserved)?;
        Ok(Answer::Done(self.guest.resources.bar.header()))
    }

    /// Takes memory of the guest's for an area.
    pub(super) fn donate_area(&mut self, request: DonateArea, extents: Vec<Extent>) -> Handled<()> {
        if !self.guest.features.contains(Features::DONATED_AREAS) {
            return Err(RequestError::NotSupported("donated areas"));
        }
        // Whatever a process has may be in the area, and so may what engines have not forgotten.
        if !self.guest.processes.is_empty()
            || !self.guest.local_memory.is_unused()
            || self.guest.donations.is_in_force(request.kind)
        {
            return Err(RequestError::AreaBusy(request.kind));
        }
        self.check_donation(&request)?;
        let bytes = total_length(self.hardware, self.guest_id, &extents)?;
        let donated = request
            .offset
            .checked_add(bytes)
            .filter(|donated| *donated <= request.length)
            .ok_or(RequestError::parameter("an extent's length", bytes))?;
        // The first of several begins anew, whatever came of an earlier one.
        let mut all = match request.offset {
            0 => Vec::new(),
            _ => self
                .guest
                .donations
                .0
                .remove(&request.kind)
                .map_or_else(Vec::new, |donation| donation.extents),
        };
        // An extent has at least a page, so an area bounds how many there are.
        all.extend(extents);
        if donated == request.length {
            self.place(request.kind, request.length, &all)?;
        }
        let donation = Donation { length: request.length, donated, extents: all };
        self.guest.donations.0.insert(request.kind, donation);
        Ok(Answer::Done(()))
    }

    /// Whether a donation is of an area, as long as that, and follows the one before it.
    fn check_donation(&self, request: &DonateArea) -> Result<(), RequestError> {
        let areas = self.guest.resources.bar.areas();
        let area = areas
            .iter()
            .find(|area| area.kind == request.kind)
            .ok_or(RequestError::parameter("kind", request.kind.0.into()))?;
        let fits = match request.kind {
            AreaKind::LOCAL_MEMORY => request.length <= area.length,
            _ => request.length == area.length,
        };
        if !fits || !is_whole_pages(request.length) {
            return Err(RequestError::parameter("length", request.length));
        }
        let earlier = self.guest.donations.0.get(&request.kind);
        let follows = |earlier: &Donation| {
            (earlier.donated, earlier.length) == (request.offset, request.length)
        };
        if request.offset != 0 && !earlier.is_some_and(follows) {
            return Err(RequestError::parameter("offset", request.offset));
        }
        Ok(())
    }

    /// All of an area's memory is there.
    fn place(
        &mut self,
        kind: AreaKind,
        length: u64,
        extents: &[Extent],
    ) -> Result<(), RequestError> {
        if !self.hardware.place_area(self.guest_id, kind, extents) {
            // It was the guest's when it was checked.
            return Err(RequestError::parameter("an extent", 0));
        }
        if kind == AreaKind::LOCAL_MEMORY {
            self.guest.local_memory = PagePool::new(0, length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::PAGE_SIZE;

    #[test]
    fn a_part_of_extents_is_the_same_bytes() {
        let page =
            |page: u64, pages: u64| Extent { address: page * PAGE_SIZE, length: pages * PAGE_SIZE };
        let all = [page(100, 2), page(7, 1), page(50, 3)];
        let part = |start: u64, length: u64| {
            part(&all, PageRange { start: start * PAGE_SIZE, length: length * PAGE_SIZE })
        };
        assert_eq!(part(0, 6), all);
        assert_eq!(part(1, 3), [page(101, 1), page(7, 1), page(50, 1)]);
        assert_eq!(part(2, 1), [page(7, 1)]);
        assert_eq!(part(5, 1), [page(52, 1)]);
        assert_eq!(part(6, 1), []);
    }
}
