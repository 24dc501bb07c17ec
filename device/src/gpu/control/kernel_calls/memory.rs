// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel's access to guest memory.

use super::Gpu;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::{GuestId, Memory, Segment, UnknownId};
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::handoff::publication;
use std::sync::Arc;

impl Memory for Gpu {
    fn zero_memory(
        &self,
        guest: GuestId,
        segment: Segment,
        offset: u64,
        length: u64,
    ) -> Result<(), UnknownId> {
        let zero = move |partition: &Arc<Partition>| partition.zero(segment, offset, length);
        if let Some(Err(error)) = self.hand.touch(&self.guest(guest)?, zero) {
            tracing::error!(%error, guest = guest.0, ?segment, offset, length, "cannot zero memory");
        }
        Ok(())
    }

    fn place_area(
        &self,
        guest: GuestId,
        kind: AreaKind,
        extents: &[Extent],
    ) -> Result<bool, UnknownId> {
        let partition = self.guest(guest)?;
        if kind != AreaKind::LOCAL_MEMORY {
            return Ok(partition.bar().donate(kind, partition.memory(), extents));
        }
        partition.windows().place_local(extents);
        Ok(true)
    }

    fn is_guest_memory(
        &self,
        guest: GuestId,
        address: u64,
        length: u64,
    ) -> Result<bool, UnknownId> {
        Ok(self.guest(guest)?.memory().is_system_memory(address, length))
    }

    fn read_local_word(&self, guest: GuestId, offset: u64) -> Result<u64, UnknownId> {
        let partition = self.guest(guest)?;
        let read = move |partition: &Arc<Partition>| {
            partition.bar().local_word(offset).map_or(0, publication::read)
        };
        Ok(self.hand.touch(&partition, read).unwrap_or(0))
    }

    fn write_dma_buffer(
        &self,
        guest: GuestId,
        offset: u64,
        packets: &[u8],
    ) -> Result<(), UnknownId> {
        // The submission that names the buffer hands its content over to the engine.
        if let Err(error) = self.guest(guest)?.write_dma_buffer(offset, packets) {
            tracing::error!(%error, guest = guest.0, offset, "cannot write a DMA buffer");
        }
        Ok(())
    }
}
