// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about areas of the BAR that a guest puts into its own memory.
//!
//! The BAR's layout stays; only the bytes are elsewhere. Dxgkrnl places local memory page by page, as it hands it
//! out. The hardware places the other areas once, and the system context's window of local memory.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::allocation::total_length;
use crate::dxgkrnl::object::error::RequestError;
use crate::vidmm::pool::is_whole_pages;
use bellhop_protocol::bar::{AreaKind, BarHeader};
use bellhop_protocol::control::adapter::{DonateArea, QueryBarLayout};
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::features::Features;

impl ProcessAccess<'_> {
    /// Returns the BAR's header page.
    pub(crate) fn query_bar_layout(&mut self, request: QueryBarLayout) -> Handled<BarHeader> {
        zero("reserved", request.reserved)?;
        Ok(Answer::Done(self.guest.resources.bar.header()))
    }

    /// Takes memory of the guest for an area.
    pub(crate) fn donate_area(&mut self, request: DonateArea, extents: Vec<Extent>) -> Handled<()> {
        if !self.guest.features().contains(Features::DONATED_AREAS) {
            return Err(RequestError::NotSupported("donated areas"));
        }
        // Objects of a process may be in the area, and memory that engines have not forgotten.
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
        let all = self.guest.donations.with_next(request.kind, request.offset, extents);
        if donated == request.length {
            self.place(request.kind, request.length, &all)?;
        }
        self.guest.donations.set(request.kind, request.length, donated, all);
        Ok(Answer::Done(()))
    }

    /// Refuses a donation for an unknown area, of a wrong length, or out of order.
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
        if !self.guest.donations.is_next(request.kind, request.offset, request.length) {
            return Err(RequestError::parameter("offset", request.offset));
        }
        Ok(())
    }

    /// Places an area once all its memory is donated.
    fn place(
        &mut self,
        kind: AreaKind,
        length: u64,
        extents: &[Extent],
    ) -> Result<(), RequestError> {
        if !self.hardware.place_area(self.guest_id, kind, extents)? {
            // The memory belonged to the guest when the request was checked.
            let address = extents.first().map_or(0, |extent| extent.address);
            return Err(RequestError::parameter("an extent's address", address));
        }
        if kind == AreaKind::LOCAL_MEMORY {
            self.guest.vidmm.donate(length, extents.into());
        }
        Ok(())
    }
}
