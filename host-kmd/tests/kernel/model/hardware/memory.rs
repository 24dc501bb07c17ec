// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's memory: zeroed, placed and read.

use crate::model::{Call, GUEST_MEMORY, Model};
use bellhop_host_kmd::ddi::dma_buffer::DMA_BUFFERS_SIZE;
use bellhop_host_kmd::hardware::{GuestId, Memory, Segment, UnknownId};
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::allocation::Extent;

impl Memory for Model {
    fn zero_memory(
        &self,
        guest: GuestId,
        segment: Segment,
        offset: u64,
        length: u64,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        match segment {
            Segment::System => panic!("the guest's own memory"),
            Segment::Local => {
                state.local_words.retain(|(owner, at), _| {
                    *owner != guest || *at < offset || *at >= offset + length
                });
                state.log.push(Call::Zero(guest, offset, length));
            }
            Segment::CrossAdapter => {
                self.cross_adapter.lock().unwrap().remove(&offset);
                assert!(state.mappings_of(segment, offset).is_empty(), "an engine reaches it");
                state.log.push(Call::Zero(guest, offset, length));
            }
            Segment::Private | Segment::Backing | Segment::Fence => {}
        }
        Ok(())
    }

    fn place_area(
        &self,
        guest: GuestId,
        kind: AreaKind,
        extents: &[Extent],
    ) -> Result<bool, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        if state.places_nothing {
            return Ok(false);
        }
        let length: u64 = extents.iter().map(|extent| extent.length).sum();
        let before = state.placed.insert((guest, kind), length);
        assert_eq!(before, None, "{kind} was placed already");
        Ok(true)
    }

    fn is_guest_memory(
        &self,
        guest: GuestId,
        address: u64,
        length: u64,
    ) -> Result<bool, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        Ok(address.checked_add(length).is_some_and(|end| end <= GUEST_MEMORY))
    }

    fn read_local_word(&self, guest: GuestId, offset: u64) -> Result<u64, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        assert_eq!(offset % 8, 0);
        Ok(self.state().local_words.get(&(guest, offset)).copied().unwrap_or(0))
    }

    fn write_dma_buffer(
        &self,
        guest: GuestId,
        offset: u64,
        packets: &[u8],
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        assert!(offset + packets.len() as u64 <= DMA_BUFFERS_SIZE);
        self.state().log.push(Call::WriteDmaBuffer(guest, offset, packets.to_vec()));
        Ok(())
    }
}
