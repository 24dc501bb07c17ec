// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fetches packets. The engine copies packets from guest memory to host memory once, and decodes the copy.

use crate::gpu::memory::mmu::{Mmu, check_range};
use crate::gpu::memory::violation::Violation;
use bellhop_host_kmd::hardware::RingBinding;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::flow::{MAX_INDIRECT_BUFFER_SIZE, MAX_INDIRECT_DEPTH, NOP};
use bellhop_protocol::packet::{MAX_PACKET_SIZE, Opcode, Packet, PacketError, PacketHeader, UNIT};
use bellhop_protocol::ring::{RingPointerError, pending};
use zerocopy::FromBytes;

/// The size of a window, and the most bytes that are fetched at once.
const WINDOW: usize = 1024;
const _: () = assert!(WINDOW >= MAX_PACKET_SIZE);

/// A sequence of packets in GPU virtual memory: a ring or an indirect buffer.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    base: u64,
    /// A byte's offset is its position modulo this power of two; 0 if the stream does not wrap.
    ring_size: u64,
    position: u64,
    end: u64,
}

impl Stream {
    /// No packets.
    pub const EMPTY: Self = Self { base: 0, ring_size: 0, position: 0, end: 0 };

    /// A ring from which no packet was read.
    pub fn ring(ring: &RingBinding) -> Self {
        Self { base: ring.ring_va, ring_size: ring.ring_size, position: 0, end: 0 }
    }

    /// An indirect buffer, or a command buffer submitted in kernel mode.
    ///
    /// # Errors
    /// `BAD_INDIRECT_BUFFER` or `ADDRESS_OUT_OF_RANGE`.
    #[inline]
    pub fn indirect_buffer(gpu_va: u64, size: u32) -> Result<Self, Violation> {
        let unit = UNIT as u64;
        let length = u64::from(size);
        if size > MAX_INDIRECT_BUFFER_SIZE
            || !length.is_multiple_of(unit)
            || !gpu_va.is_multiple_of(unit)
        {
            return Err(Violation::new(FaultReason::BAD_INDIRECT_BUFFER, length));
        }
        check_range(gpu_va, length)?;
        Ok(Self { base: gpu_va, ring_size: 0, position: 0, end: length })
    }

    /// GPU virtual address of the first packet.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether no packets are left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.position == self.end
    }

    /// How far packets were read. In a ring, this is the read pointer.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The ring was written up to `write`. A stale pointer changes nothing: the packets before it were already seen
    /// another way.
    ///
    /// # Errors
    /// `RING_POINTER_OUT_OF_RANGE` for a pointer that the ring cannot have.
    #[inline]
    pub fn extend(&mut self, write: u64) -> Result<(), Violation> {
        match pending(write, self.position, self.ring_size) {
            Ok(bytes) => {
                if bytes > self.end.wrapping_sub(self.position) {
                    self.end = write;
                }
                Ok(())
            }
            Err(RingPointerError { .. })
                if pending(self.position, write, self.ring_size).is_ok() =>
            {
                Ok(())
            }
            Err(RingPointerError { write, .. }) => {
                Err(Violation::new(FaultReason::RING_POINTER_OUT_OF_RANGE, write))
            }
        }
    }

    /// Moves past the packet at the position.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        self.position = self.position.wrapping_add(bytes as u64);
    }

    /// GPU virtual address of the packet at the position.
    #[inline]
    pub fn next_packet(&self) -> u64 {
        self.locate(self.position).0
    }

    /// The number of bytes left.
    #[inline]
    pub fn left(&self) -> u64 {
        self.end.wrapping_sub(self.position)
    }

    /// GPU virtual address of the packet at the position, and the number of bytes of packets that are contiguous
    /// from there in one page.
    #[inline]
    pub fn in_page(&self) -> (u64, u64) {
        let (gpu_va, until_wrap) = self.locate(self.position);
        (gpu_va, self.left().min(until_wrap).min(PAGE_SIZE - gpu_va % PAGE_SIZE))
    }

    /// The address of the byte at `position`, and the number of bytes from there to the wrap or the end.
    #[inline]
    fn locate(&self, position: u64) -> (u64, u64) {
        if self.ring_size == 0 {
            return (self.base.wrapping_add(position), self.end.wrapping_sub(position));
        }
        let place = position & (self.ring_size - 1);
        (self.base.wrapping_add(place), self.ring_size - place)
    }
}

/// The host's copy of a part of a stream.
#[derive(Debug)]
pub struct Window {
    bytes: Box<[u8; WINDOW]>,
    start: u64,
    length: usize,
}

/// A window for the ring and one for each depth of indirect buffers.
pub type Windows = [Window; 1 + MAX_INDIRECT_DEPTH];

/// A packet in a window.
#[derive(Debug)]
pub struct Fetched<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// Its opcode.
    pub opcode: Opcode,
    /// Its length in bytes.
    pub size: usize,
}

/// Why no packet was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPacket {
    /// The opcode, if it was read.
    pub opcode: Opcode,
    /// What is wrong.
    pub violation: Violation,
}

impl From<Violation> for BadPacket {
    fn from(violation: Violation) -> Self {
        Self { opcode: Opcode::NOP, violation }
    }
}

impl From<PacketError> for BadPacket {
    fn from(error: PacketError) -> Self {
        match error {
            PacketError::UnknownOpcode(opcode) => Self {
                opcode,
                violation: Violation::new(FaultReason::UNKNOWN_PACKET, u64::from(opcode.0)),
            },
            PacketError::BadLength { opcode, units } => Self {
                opcode,
                violation: Violation::new(
                    FaultReason::BAD_PACKET_LENGTH,
                    u64::from(units) * UNIT as u64,
                ),
            },
        }
    }
}

impl Window {
    /// An empty window.
    pub fn new() -> Self {
        Self { bytes: Box::new([0; WINDOW]), start: 0, length: 0 }
    }

    /// Empties the window, before another stream is read through it.
    #[inline]
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Offset of the stream's position in the window, or past its end.
    #[inline]
    fn place(&self, stream: &Stream) -> usize {
        usize::try_from(stream.position.wrapping_sub(self.start)).unwrap_or(usize::MAX)
    }

    /// The bytes that the window holds from the stream's position.
    #[inline]
    fn held(&self, stream: &Stream) -> &[u8] {
        self.bytes.get(self.place(stream)..self.length).unwrap_or_default()
    }

    /// The packet at the stream's position, which is not its end.
    ///
    /// # Errors
    /// If the packet cannot be read or decoded.
    #[inline]
    pub fn packet(&mut self, mmu: &mut Mmu<'_>, stream: &Stream) -> Result<Fetched<'_>, BadPacket> {
        if self.held(stream).len() < UNIT {
            self.fetch(mmu, stream, UNIT)?;
        }
        let held = self.held(stream);
        let header = PacketHeader::read_from_prefix(held).map_or(NOP, |(header, _)| header);
        // `decode` refuses a packet that is longer than the maximum from its header alone.
        if header.size() > held.len() && header.size() <= MAX_PACKET_SIZE {
            self.fetch(mmu, stream, header.size())?;
        }
        let (packet, size) = Packet::decode(self.held(stream))?;
        Ok(Fetched { packet, opcode: header.opcode, size })
    }

    /// Copies from the stream's position: at least `need` bytes, if the stream has them, and the rest of the page,
    /// so that bytes which are not needed cannot fault.
    fn fetch(&mut self, mmu: &mut Mmu<'_>, stream: &Stream, need: usize) -> Result<(), Violation> {
        let available = stream.end.wrapping_sub(stream.position);
        let limit = usize::try_from(available).unwrap_or(usize::MAX).min(WINDOW);
        self.start = stream.position;
        self.length = 0;
        while self.length < need.min(limit) {
            let (gpu_va, until_wrap) = stream.locate(stream.position + self.length as u64);
            let contiguous = until_wrap.min(PAGE_SIZE - gpu_va % PAGE_SIZE) as usize;
            let end = limit.min(self.length + contiguous);
            let Some(bytes) = self.bytes.get_mut(self.length..end) else { break };
            mmu.read_in_page(gpu_va, bytes)?;
            self.length = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: RingBinding = RingBinding {
        slot: 0,
        ring_va: 0x10_0000,
        ring_size: 4096,
        control_va: 0x20_0000,
        notify_each: false,
        has_line: false,
    };

    fn ring_at(position: u64) -> Stream {
        Stream { position, end: position, ..Stream::ring(&RING) }
    }

    #[test]
    fn a_write_pointer_ahead_extends_and_one_behind_is_stale() {
        let mut ring = ring_at(8192);
        ring.extend(8192 + 64).unwrap();
        assert_eq!(ring.end, 8192 + 64);
        ring.extend(8192 + 16).unwrap();
        ring.extend(8192).unwrap();
        ring.extend(4096).unwrap();
        assert_eq!(ring.end, 8192 + 64);
        ring.extend(8192 + 4096).unwrap();
        assert_eq!(ring.end, 8192 + 4096);
    }

    #[test]
    fn a_write_pointer_that_cannot_be_is_refused_and_named() {
        for write in [8192 + 4104, 4088, 8193, u64::MAX] {
            let violation = Violation::new(FaultReason::RING_POINTER_OUT_OF_RANGE, write);
            assert_eq!(ring_at(8192).extend(write), Err(violation));
        }
    }

    #[test]
    fn an_indirect_buffer_is_aligned_bounded_and_in_the_address_space() {
        let bad = |size: u32| Violation::new(FaultReason::BAD_INDIRECT_BUFFER, u64::from(size));
        let new = |va, size| Stream::indirect_buffer(va, size).map(|stream| stream.end);
        assert_eq!(new(0x1000, 0), Ok(0));
        assert_eq!(new(0x1000, MAX_INDIRECT_BUFFER_SIZE), Ok(1 << 20));
        assert_eq!(new(0x1004, 8), Err(bad(8)));
        assert_eq!(new(0x1000, 12), Err(bad(12)));
        assert_eq!(
            new(0x1000, MAX_INDIRECT_BUFFER_SIZE + 8),
            Err(bad(MAX_INDIRECT_BUFFER_SIZE + 8))
        );
        let far = (1 << 48) - 8;
        assert_eq!(new(far, 8), Ok(8));
        assert_eq!(new(far, 16), Err(Violation::new(FaultReason::ADDRESS_OUT_OF_RANGE, far)));
    }
}
