// SPDX-License-Identifier: MIT OR Apache-2.0

//! Donating memory: the guest gives the device pages of its own for areas of the BAR.

use crate::error::Error;
use crate::link::areas::area_of;
use crate::link::placement::{Placement, Placements};
use crate::link::session;
use crate::transport::{SystemMemory, Transport};
use bellhop_protocol::bar::{AreaKind, BarHeader};
use bellhop_protocol::control::adapter::DonateArea;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::{MAX_REQUEST_SIZE, RequestHeader};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Maximum number of bytes of local memory that the driver donates.
const LOCAL_MEMORY: u64 = 32 << 20;
/// Maximum number of extents in one request.
const EXTENTS: usize =
    (MAX_REQUEST_SIZE - size_of::<RequestHeader>() - size_of::<DonateArea>()) / size_of::<Extent>();

/// Donates memory for an area, unless that was done since the last reset.
pub(crate) fn donate(
    transport: &dyn Transport,
    header: &BarHeader,
    kind: AreaKind,
) -> Result<(), Error> {
    if transport.donations().contains(kind) {
        return Ok(());
    }
    let area = area_of(header, kind)?;
    let length = match kind {
        AreaKind::LOCAL_MEMORY => area.length.min(LOCAL_MEMORY),
        _ => area.length,
    };
    let memory: Arc<dyn SystemMemory> = Arc::from(transport.allocate(length)?);
    let mut offset = 0;
    for extents in memory.extents().chunks(EXTENTS) {
        let extent_count = extents.len() as u32;
        let request = DonateArea { kind, extent_count, length, offset };
        session::call(transport, 0, &request, extents.as_bytes())?;
        offset += extents.iter().map(|extent| extent.length).sum::<u64>();
    }
    transport.donations().insert(kind, memory);
    Ok(())
}

/// The kinds of area that these placements put into guest memory.
pub(crate) fn to_donate(placements: Placements) -> impl Iterator<Item = AreaKind> {
    [
        (AreaKind::DOORBELLS, placements.doorbells),
        (AreaKind::PROGRESS, placements.doorbells),
        (AreaKind::STATUS, placements.fences),
        (AreaKind::FENCES, placements.fences),
        (AreaKind::LOCAL_MEMORY, placements.local_memory),
    ]
    .into_iter()
    .filter_map(|(kind, placement)| (placement == Placement::GuestMemory).then_some(kind))
}
