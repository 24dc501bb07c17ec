// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about areas of the BAR that a guest puts into its own memory.
//!
//! The BAR's layout stays; only the bytes are elsewhere. Dxgkrnl places local memory page by page, as it hands it
//! out. The hardware places the other areas once, and the system context's window of local memory.

use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::memory::allocation::total_length;
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::Platform;
use crate::vidmm::pool::is_whole_pages;
use bellhop_protocol::bar::{AreaKind, BarHeader};
use bellhop_protocol::control::adapter::{DonateArea, QueryBarLayout};
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::features::Features;

/// Returns the BAR's header page.
pub(crate) fn query_bar_layout(guest: &Guest, request: QueryBarLayout) -> Handled<BarHeader> {
    zero("reserved", request.reserved)?;
    Ok(Answer::Done(guest.resources.bar.header()))
}

/// Takes memory of the guest for an area.
pub(crate) fn donate_area(
    guest: &mut Guest,
    platform: &dyn Platform,
    request: DonateArea,
    extents: Vec<Extent>,
) -> Handled<()> {
    if !guest.features().contains(Features::DONATED_AREAS) {
        return Err(RequestError::NotSupported("donated areas"));
    }
    // Objects of a process may be in the area, and memory that engines have not forgotten.
    if !guest.processes.is_empty()
        || !guest.vidmm.is_unused()
        || guest.donations.is_in_force(request.kind)
    {
        return Err(RequestError::AreaBusy(request.kind));
    }
    check_donation(guest, &request)?;
    let bytes = total_length(platform, guest.id, &extents)?;
    let donated = request
        .offset
        .checked_add(bytes)
        .filter(|donated| *donated <= request.length)
        .ok_or(RequestError::parameter("an extent's length", bytes))?;
    let all = guest.donations.with_next(request.kind, request.offset, extents);
    if donated == request.length {
        place(guest, platform, request.kind, request.length, &all)?;
    }
    guest.donations.set(request.kind, request.length, donated, all);
    Ok(Answer::Done(()))
}

/// Refuses a donation for an unknown area, of a wrong length, or out of order.
fn check_donation(guest: &Guest, request: &DonateArea) -> Result<(), RequestError> {
    let areas = guest.resources.bar.areas();
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
    if !guest.donations.is_next(request.kind, request.offset, request.length) {
        return Err(RequestError::parameter("offset", request.offset));
    }
    Ok(())
}

/// Places an area once all its memory is donated.
fn place(
    guest: &mut Guest,
    platform: &dyn Platform,
    kind: AreaKind,
    length: u64,
    extents: &[Extent],
) -> Result<(), RequestError> {
    if !platform.place_area(guest.id, kind, extents)? {
        // The memory belonged to the guest when the request was checked.
        let address = extents.first().map_or(0, |extent| extent.address);
        return Err(RequestError::parameter("an extent's address", address));
    }
    if kind == AreaKind::LOCAL_MEMORY {
        guest.vidmm.donate(length, extents.into());
    }
    Ok(())
}
