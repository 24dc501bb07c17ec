// SPDX-License-Identifier: MIT OR Apache-2.0

//! Command buffers of the basic model: packets without addresses, and two lists from which the host patches the
//! addresses in.

use crate::error::Error;
use crate::fence::object::Fence;
use crate::memory::allocation::Allocation;
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, ALLOCATION_WRITE, AllocationListEntry, PATCH_LOCATION_LIST_MAX,
    PatchLocation, RENDER_COMMANDS_MAX,
};
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel};
use bellhop_protocol::packet::fence::{ConditionalInterrupt, LoggedSignal, LoggedWait};
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::packet::transfer::{Compare, Copy, Fill, Hash, Timestamp, WriteData};
use std::mem::offset_of;
use std::sync::Arc;
use zerocopy::{Immutable, IntoBytes};

/// A byte of an allocation: the allocation and an offset in bytes.
pub type Place<'a> = (&'a Arc<Allocation>, u64);

/// An address in a packet: its offset in the packet, the byte that it names, and whether the packet writes there.
type Address<'a> = (usize, Place<'a>, bool);

/// A command buffer for a [`BasicContext`](crate::BasicContext), with its allocation list and its patch location
/// list. It is the driver's own memory: the host copies and patches it, and the GPU never sees it.
///
/// Each method appends one packet, and fails if there is no room in the buffer or its lists.
///
/// Source: Windows KMD overview, "Physical vs virtual submission".
#[derive(Default)]
pub struct RenderBuffer {
    pub(crate) packets: Vec<u8>,
    /// The allocations in the list.
    pub(crate) allocations: Vec<Arc<Allocation>>,
    pub(crate) list: Vec<AllocationListEntry>,
    pub(crate) patch_locations: Vec<PatchLocation>,
}

impl RenderBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all packets and both lists.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Bytes of packets in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether the buffer holds no packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Appends bytes unchanged: packets that the program encoded itself.
    ///
    /// # Errors
    /// If there is no room.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<&mut Self, Error> {
        let free = (RENDER_COMMANDS_MAX as usize).saturating_sub(self.packets.len());
        if bytes.len() > free {
            return Err(Error::CommandBufferFull { needed: bytes.len(), free });
        }
        self.packets.extend_from_slice(bytes);
        Ok(self)
    }

    /// Lists an allocation and whether packets write it. Returns its index in the list.
    ///
    /// # Errors
    /// If the list is full.
    pub fn list(&mut self, allocation: &Arc<Allocation>, write: bool) -> Result<u32, Error> {
        let flags = if write { ALLOCATION_WRITE } else { 0 };
        let handle = allocation.handle();
        if let Some(index) = self.list.iter().position(|entry| entry.allocation == handle) {
            self.list[index].flags |= flags;
            return Ok(index as u32);
        }
        if self.list.len() >= ALLOCATION_LIST_MAX as usize {
            return Err(Error::BadPacket("an allocation list has at most 256 entries"));
        }
        self.list.push(AllocationListEntry { allocation: handle, flags, reserved: 0 });
        self.allocations.push(Arc::clone(allocation));
        Ok(self.list.len() as u32 - 1)
    }

    /// Asks the host to patch an address in at any place.
    ///
    /// # Errors
    /// If the list is full.
    pub fn patch(&mut self, location: PatchLocation) -> Result<&mut Self, Error> {
        if self.patch_locations.len() >= PATCH_LOCATION_LIST_MAX as usize {
            return Err(Error::BadPacket("a patch location list has at most 1024 entries"));
        }
        self.patch_locations.push(location);
        Ok(self)
    }

    /// Appends a packet and lists its addresses, in order: all or nothing.
    fn packet(&mut self, packet: &[u8], addresses: &[Address<'_>]) -> Result<&mut Self, Error> {
        let start = self.packets.len();
        let lengths = (self.list.len(), self.patch_locations.len());
        let mut append = || {
            self.raw(packet)?;
            for (field, (allocation, allocation_offset), write) in addresses {
                let allocation_index = self.list(allocation, *write)?;
                let patch_offset = (start + field) as u32;
                let allocation_offset = *allocation_offset;
                self.patch(PatchLocation { allocation_index, patch_offset, allocation_offset })?;
            }
            Ok(())
        };
        let appended = append();
        if appended.is_err() {
            self.packets.truncate(start);
            self.list.truncate(lengths.0);
            self.allocations.truncate(lengths.0);
            self.patch_locations.truncate(lengths.1);
        }
        appended.map(|()| self)
    }

    fn plain<T: IntoBytes + Immutable>(&mut self, packet: &T) -> Result<&mut Self, Error> {
        self.packet(packet.as_bytes(), &[])
    }

    /// Does nothing.
    ///
    /// # Errors
    /// If there is no room.
    pub fn nop(&mut self) -> Result<&mut Self, Error> {
        self.plain(&NOP)
    }

    /// Fills `length` bytes with a pattern.
    ///
    /// # Errors
    /// If there is no room.
    pub fn fill(&mut self, to: Place<'_>, length: u64, pattern: u32) -> Result<&mut Self, Error> {
        let packet = Fill::new(0, length, pattern);
        self.packet(packet.as_bytes(), &[(offset_of!(Fill, destination), to, true)])
    }

    /// Copies `length` bytes.
    ///
    /// # Errors
    /// If there is no room.
    pub fn copy(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        length: u64,
    ) -> Result<&mut Self, Error> {
        let packet = Copy::new(0, 0, length);
        let from = (offset_of!(Copy, source), from, false);
        self.packet(packet.as_bytes(), &[from, (offset_of!(Copy, destination), to, true)])
    }

    /// Writes 1 to 256 bytes.
    ///
    /// # Errors
    /// If there is no room; [`Error::BadPacket`] for no bytes or more than 256.
    pub fn write_data(&mut self, to: Place<'_>, bytes: &[u8]) -> Result<&mut Self, Error> {
        let header = WriteData::new(0, bytes.len())
            .ok_or(Error::BadPacket("WRITE_DATA carries 1 to 256 bytes"))?;
        let mut packet = header.as_bytes().to_vec();
        packet.extend_from_slice(bytes);
        packet.resize(header.header.size(), 0);
        self.packet(&packet, &[(offset_of!(WriteData, destination), to, true)])
    }

    /// Compares two ranges, and writes the offset of the first difference to `result`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn compare(
        &mut self,
        left: Place<'_>,
        right: Place<'_>,
        length: u64,
        result: Place<'_>,
    ) -> Result<&mut Self, Error> {
        let packet = Compare::new(0, 0, length, 0);
        self.packet(
            packet.as_bytes(),
            &[
                (offset_of!(Compare, left), left, false),
                (offset_of!(Compare, right), right, false),
                (offset_of!(Compare, result), result, true),
            ],
        )
    }

    /// Writes the XXH64 digest of a range to `result`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn hash(
        &mut self,
        from: Place<'_>,
        length: u64,
        seed: u64,
        result: Place<'_>,
    ) -> Result<&mut Self, Error> {
        let packet = Hash::new(0, length, seed, 0);
        let from = (offset_of!(Hash, source), from, false);
        self.packet(packet.as_bytes(), &[from, (offset_of!(Hash, result), result, true)])
    }

    /// Writes the adapter's clock to `to`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn timestamp(&mut self, to: Place<'_>) -> Result<&mut Self, Error> {
        let packet = Timestamp::new(0);
        self.packet(packet.as_bytes(), &[(offset_of!(Timestamp, destination), to, true)])
    }

    /// Runs a kernel of the compute node.
    ///
    /// # Errors
    /// If there is no room.
    pub fn dispatch(
        &mut self,
        kernel: Kernel,
        from: Place<'_>,
        to: Place<'_>,
        length: u64,
        parameter: u64,
    ) -> Result<&mut Self, Error> {
        let packet = Dispatch::new(kernel, 0, 0, length, parameter);
        let from = (offset_of!(Dispatch, source), from, false);
        self.packet(packet.as_bytes(), &[from, (offset_of!(Dispatch, destination), to, true)])
    }

    /// Signals a fence and records the signal in the context's signal log.
    ///
    /// # Errors
    /// If there is no room.
    pub fn signal_fence(&mut self, fence: &Fence, value: u64) -> Result<&mut Self, Error> {
        self.plain(&LoggedSignal::new(fence.slot(), value))
    }

    /// Holds the context until a fence reaches a value, and records the wait in the context's wait log.
    ///
    /// # Errors
    /// If there is no room.
    pub fn wait_fence(&mut self, fence: &Fence, value: u64) -> Result<&mut Self, Error> {
        self.plain(&LoggedWait::new(fence.slot(), value))
    }

    /// Interrupts the host if a CPU waits for a value that the fence has reached.
    ///
    /// # Errors
    /// If there is no room.
    pub fn conditional_interrupt(&mut self, fence: &Fence) -> Result<&mut Self, Error> {
        self.plain(&ConditionalInterrupt::new(fence.slot()))
    }
}
