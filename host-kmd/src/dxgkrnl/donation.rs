//! Areas of the BAR that a guest has put into its own memory.
//!
//! The layout stays the BAR's; only the bytes are elsewhere. Local memory is dxgkrnl's to place,
//! page by page as it gives it out; the other areas, and the system context's window of local
//! memory, are placed once, in the hardware.

use super::allocation::total_length;
use super::error::RequestError;
use super::pool::is_whole_pages;
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
            || !self.guest.vidmm.is_unused()
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
        let earlier = self.guest.donations.0.get(&request.kind);
        let mut all = match earlier {
            Some(earlier) if request.offset > 0 => earlier.extents.clone(),
            _ => Vec::new(),
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
            let address = extents.first().map_or(0, |extent| extent.address);
            return Err(RequestError::parameter("an extent's address", address));
        }
        if kind == AreaKind::LOCAL_MEMORY {
            self.guest.vidmm.donate(length, extents.into());
        }
        Ok(())
    }
}
