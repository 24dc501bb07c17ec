// SPDX-License-Identifier: MIT OR Apache-2.0

//! BARs of processes' own.

use super::Gpu;
use bellhop_host_kmd::hardware::{GuestId, ProcessBarId, ProcessBarPlace, ProcessBars, UnknownId};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::allocation::Extent;

impl ProcessBars for Gpu {
    fn add_process_bar(
        &self,
        guest: GuestId,
        bar: ProcessBarId,
        layout: BarLayout,
        extents: &[Extent],
    ) -> Result<bool, UnknownId> {
        let (partition, extents) = (self.guest(guest)?, extents.to_vec());
        let added = self.hand.touch(&partition, move |partition| {
            partition.bar().processes().add(bar, layout, &partition.memory(), &extents)
        });
        // A guest whose memory is kept from the host loses its connection.
        Ok(added.unwrap_or(true))
    }

    fn remove_process_bar(&self, guest: GuestId, bar: ProcessBarId) -> Result<(), UnknownId> {
        self.guest(guest)?.bar().processes().remove(bar);
        Ok(())
    }

    fn place_doorbell(
        &self,
        guest: GuestId,
        slot: u32,
        place: Option<ProcessBarPlace>,
    ) -> Result<(), UnknownId> {
        let placed = self.guest(guest)?.bar().processes().place_doorbell(slot, place);
        placed.then_some(()).ok_or(UnknownId::DoorbellSlot(slot))
    }

    fn place_fence(
        &self,
        guest: GuestId,
        slot: u32,
        place: Option<ProcessBarPlace>,
    ) -> Result<(), UnknownId> {
        let placed = self.guest(guest)?.bar().processes().place_fence(slot, place);
        placed.then_some(()).ok_or(UnknownId::FenceSlot(slot))
    }
}
