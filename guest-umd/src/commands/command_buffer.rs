// SPDX-License-Identifier: MIT OR Apache-2.0

//! Command buffers: packets that the GPU fetches from memory.

use super::kernel_dispatch::Dispatches;
use crate::device::Device;
use crate::error::Error;
use crate::fence::object::Fence;
use crate::link::areas::Place;
use crate::memory::allocation::{Allocation, pages};
use crate::memory::mapping::GpuMapping;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel};
use bellhop_protocol::packet::fence::{ConditionalInterrupt, LogFence, LoggedSignal, LoggedWait};
use bellhop_protocol::packet::flow::{IndirectBuffer, MAX_INDIRECT_BUFFER_SIZE, NOP};
use bellhop_protocol::packet::surface::{CopyRect, FillRect, StretchRect};
use bellhop_protocol::packet::transfer::{
    Compare, Copy, Fill, Hash, Timestamp, WRITE_DATA_MAX, WriteData,
};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vm_memory::Bytes;
use zerocopy::{Immutable, IntoBytes};

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;
/// Most words of packets that a ring holds in a submission, instead of the address of a buffer.
pub(crate) const SMALL_WORDS: usize = 5;

/// The words of a buffer of at most [`SMALL_WORDS`], which the driver need not read back from memory that may be slow
/// to read.
#[derive(Debug, Clone, Copy)]
struct Small {
    /// [`Small::NONE`] if there are more words than fit, or if the program may change them in memory.
    count: u8,
    /// Whether the program cannot change them in memory.
    is_own: bool,
    words: [u64; SMALL_WORDS],
}

impl Small {
    const NONE: u8 = u8::MAX;

    /// Of an empty buffer.
    const fn empty(is_own: bool) -> Self {
        Self { count: if is_own { 0 } else { Self::NONE }, is_own, words: [0; SMALL_WORDS] }
    }

    /// Appends the bytes that the buffer has from `used` on.
    fn append(&mut self, used: usize, bytes: &[u8]) {
        let end = used + bytes.len();
        match self.words.as_mut_bytes().get_mut(used..end) {
            Some(words) if self.count != Self::NONE && end.is_multiple_of(UNIT) => {
                words.copy_from_slice(bytes);
                self.count = (end / UNIT) as u8;
            }
            _ => self.count = Self::NONE,
        }
    }
}

/// A buffer of packets in memory that the GPU reads. The program may submit it again at any time, and may change it
/// once its last submission is done. At most 1 MiB.
///
/// Addresses are GPU virtual addresses and lengths are in bytes. [`bellhop_protocol::packet`] defines the packets'
/// layouts. Each method appends one packet, and fails with [`Error::CommandBufferFull`] if there is no room for it.
pub struct CommandBuffer {
    memory: Memory,
    /// GPU virtual address of the memory.
    gpu_va: u64,
    used: usize,
    small: Small,
    /// Offsets of the packets that log fences.
    logs: Vec<usize>,
    /// Tells what was recorded since the last reset from all else, once somebody has asked.
    recording: Option<NonZeroU64>,
    /// What belongs to dispatches of kernels.
    pub(super) dispatches: Dispatches,
}

/// The place of the packets.
enum Memory {
    /// In a part of an allocation of the driver.
    Own { mapping: Arc<GpuMapping>, offset: usize, size: u64 },
    /// In memory that the host supplied to a context and maps.
    Supplied { place: Place, size: u64 },
}

impl Memory {
    fn size(&self) -> u64 {
        match self {
            Self::Own { size, .. } | Self::Supplied { size, .. } => *size,
        }
    }

    #[inline]
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        match self {
            // `CommandBuffer::raw` has checked that there is room.
            Self::Own { mapping, offset: start, .. } => {
                mapping.allocation().write(start + offset, bytes)
            }
            Self::Supplied { place, size, .. } => {
                let outside = |_| Error::OutOfRange {
                    offset,
                    end: offset.saturating_add(bytes.len()),
                    size: *size as usize,
                };
                place.slice()?.write_slice(bytes, offset).map_err(outside)
            }
        }
    }
}

impl CommandBuffer {
    /// Creates a buffer for `capacity` bytes of packets, in memory that is fast for both sides.
    ///
    /// # Errors
    /// As [`Device::create_allocation`], and [`Error::BadPacket`] if it would exceed 1 MiB.
    pub fn new(device: &Device, capacity: usize) -> Result<Self, Error> {
        let allocation = Self::allocate(device, capacity.max(UNIT))?;
        let mut buffer = Self::over(&allocation)?;
        buffer.small = Small::empty(true);
        Ok(buffer)
    }

    /// Creates `count` adjacent buffers. They take less memory than buffers on separate pages, and fewer lines of
    /// both sides' caches.
    ///
    /// # Errors
    /// As [`Device::create_allocation`].
    pub fn many(device: &Device, capacity: usize, count: usize) -> Result<Vec<Self>, Error> {
        let size = capacity.max(UNIT).next_multiple_of(CACHE_LINE);
        let allocation = Self::allocate(device, size.saturating_mul(count))?;
        let mapping = Arc::new(allocation.map(Protection::empty())?);
        let buffer = |index| {
            let memory = Memory::Own {
                mapping: Arc::clone(&mapping),
                offset: index * size,
                size: size as u64,
            };
            let small = Small::empty(true);
            Self { small, ..Self::empty(memory, mapping.gpu_va() + (index * size) as u64) }
        };
        Ok((0..count).map(buffer).collect())
    }

    fn allocate(device: &Device, size: usize) -> Result<Arc<Allocation>, Error> {
        let session = device.session();
        let kind = match session.areas() {
            Ok(_) => session.link.placements.rings,
            Err(_) => AllocationKind::SYSTEM,
        };
        device.create_allocation(kind, pages(size as u64))
    }

    /// Uses a whole allocation as a buffer.
    ///
    /// # Errors
    /// [`Error::BadPacket`] if the allocation is larger than 1 MiB; [`Error::Refused`] if it cannot be mapped.
    pub fn over(allocation: &Arc<Allocation>) -> Result<Self, Error> {
        if allocation.size() > u64::from(MAX_INDIRECT_BUFFER_SIZE) {
            return Err(Error::BadPacket("a command buffer is at most 1 MiB"));
        }
        let mapping = Arc::new(allocation.map(Protection::empty())?);
        let (gpu_va, size) = (mapping.gpu_va(), mapping.size());
        Ok(Self::empty(Memory::Own { mapping, offset: 0, size }, gpu_va))
    }

    /// The buffer that the host supplied to a context.
    pub(crate) fn supplied(place: Place, gpu_va: u64, size: u64) -> Self {
        Self::empty(Memory::Supplied { place, size }, gpu_va)
    }

    fn empty(memory: Memory, gpu_va: u64) -> Self {
        let (logs, dispatches) = (Vec::new(), Dispatches::default());
        let small = Small::empty(false);
        Self { memory, gpu_va, used: 0, small, logs, recording: None, dispatches }
    }

    /// Removes all packets, and the arguments of kernels.
    pub fn reset(&mut self) {
        self.used = 0;
        self.small = Small::empty(self.small.is_own);
        self.logs.clear();
        self.recording = None;
        self.dispatches.clear();
    }

    /// A number that no other buffer has had, nor this one before its last reset. An address tells less: a program
    /// may record other packets there, or drop the buffer and get another in its place.
    pub(crate) fn recording(&mut self) -> NonZeroU64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        *self.recording.get_or_insert_with(|| {
            NonZeroU64::MIN.saturating_add(LAST.fetch_add(1, Ordering::Relaxed))
        })
    }

    /// GPU virtual address of the first packet.
    #[must_use]
    pub fn gpu_va(&self) -> u64 {
        self.gpu_va
    }

    /// Bytes of packets in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Returns whether the buffer holds no packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Appends bytes unchanged: packets that the program encoded itself.
    ///
    /// # Errors
    /// If there is no room.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<&mut Self, Error> {
        self.check_room(bytes.len())?;
        self.memory.write(self.used, bytes)?;
        self.small.append(self.used, bytes);
        self.used += bytes.len();
        Ok(self)
    }

    /// Fails unless `needed` bytes are free.
    #[inline]
    pub(super) fn check_room(&self, needed: usize) -> Result<(), Error> {
        let taken = self.used + self.dispatches.arguments();
        let free = (self.memory.size() as usize).saturating_sub(taken);
        if needed > free { Err(Error::CommandBufferFull { needed, free }) } else { Ok(()) }
    }

    fn packet<T: IntoBytes + Immutable>(&mut self, packet: &T) -> Result<&mut Self, Error> {
        self.raw(packet.as_bytes())
    }

    /// Does nothing.
    ///
    /// # Errors
    /// If there is no room.
    pub fn nop(&mut self) -> Result<&mut Self, Error> {
        self.packet(&NOP)
    }

    /// Executes `size` bytes of packets at `gpu_va`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn indirect_buffer(&mut self, gpu_va: u64, size: u32) -> Result<&mut Self, Error> {
        self.packet(&IndirectBuffer::new(gpu_va, size))
    }

    /// Fills `length` bytes with a pattern.
    ///
    /// # Errors
    /// If there is no room.
    pub fn fill(&mut self, to: u64, length: u64, pattern: u32) -> Result<&mut Self, Error> {
        self.packet(&Fill::new(to, length, pattern))
    }

    /// Copies `length` bytes.
    ///
    /// # Errors
    /// If there is no room.
    pub fn copy(&mut self, from: u64, to: u64, length: u64) -> Result<&mut Self, Error> {
        self.packet(&Copy::new(from, to, length))
    }

    /// Writes 1 to 256 bytes.
    ///
    /// # Errors
    /// If there is no room; [`Error::BadPacket`] for no bytes or more than 256.
    pub fn write_data(&mut self, to: u64, bytes: &[u8]) -> Result<&mut Self, Error> {
        let packet = WriteData::new(to, bytes.len())
            .ok_or(Error::BadPacket("WRITE_DATA carries 1 to 256 bytes"))?;
        let mut buffer = [0; size_of::<WriteData>() + WRITE_DATA_MAX];
        let (fixed, data) = buffer.split_at_mut(size_of::<WriteData>());
        fixed.copy_from_slice(packet.as_bytes());
        data[..bytes.len()].copy_from_slice(bytes);
        let size = packet.header.size();
        self.raw(&buffer[..size])
    }

    /// Compares two ranges, and writes the offset of the first difference to `result`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn compare(
        &mut self,
        left: u64,
        right: u64,
        length: u64,
        result: u64,
    ) -> Result<&mut Self, Error> {
        self.packet(&Compare::new(left, right, length, result))
    }

    /// Writes the XXH64 digest of a range to `result`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn hash(
        &mut self,
        from: u64,
        length: u64,
        seed: u64,
        result: u64,
    ) -> Result<&mut Self, Error> {
        self.packet(&Hash::new(from, length, seed, result))
    }

    /// Writes the adapter's clock to `to`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn timestamp(&mut self, to: u64) -> Result<&mut Self, Error> {
        self.packet(&Timestamp::new(to))
    }

    /// Copies `rows` rows of `row` bytes. Each surface is an address and a pitch in bytes.
    ///
    /// # Errors
    /// If there is no room.
    pub fn copy_rect(
        &mut self,
        from: (u64, u32),
        to: (u64, u32),
        row: u32,
        rows: u32,
    ) -> Result<&mut Self, Error> {
        self.packet(&CopyRect::new(from, to, row, rows))
    }

    /// Fills `rows` rows of `row` bytes with a pattern. The surface is an address and a pitch in bytes.
    ///
    /// # Errors
    /// If there is no room.
    pub fn fill_rect(
        &mut self,
        to: (u64, u32),
        row: u32,
        rows: u32,
        pattern: u32,
    ) -> Result<&mut Self, Error> {
        self.packet(&FillRect::new(to, row, rows, pattern))
    }

    /// Scales a rectangle of pixels. 3D nodes execute it.
    ///
    /// # Errors
    /// If there is no room.
    pub fn stretch_rect(&mut self, stretch: &StretchRect) -> Result<&mut Self, Error> {
        self.packet(stretch)
    }

    /// Signals a fence and records the signal in the queue's signal log.
    ///
    /// # Errors
    /// If there is no room.
    pub fn signal_fence(&mut self, fence: &Fence, value: u64) -> Result<&mut Self, Error> {
        let log = self.used + std::mem::offset_of!(LoggedSignal, log);
        self.packet(&LoggedSignal::new(fence.slot(), value))?;
        self.logs.push(log);
        Ok(self)
    }

    /// Holds the queue until a fence reaches a value, and records the wait in the queue's wait log.
    ///
    /// # Errors
    /// If there is no room.
    pub fn wait_fence(&mut self, fence: &Fence, value: u64) -> Result<&mut Self, Error> {
        let log = self.used + std::mem::offset_of!(LoggedWait, log);
        self.packet(&LoggedWait::new(fence.slot(), value))?;
        self.logs.push(log);
        Ok(self)
    }

    /// Interrupts the host if a CPU waits for a value that the fence has reached.
    ///
    /// # Errors
    /// If there is no room.
    pub fn conditional_interrupt(&mut self, fence: &Fence) -> Result<&mut Self, Error> {
        self.packet(&ConditionalInterrupt::new(fence.slot()))
    }

    /// Runs a built-in kernel of the compute node.
    ///
    /// # Errors
    /// If there is no room.
    pub fn dispatch(
        &mut self,
        kernel: Kernel,
        from: u64,
        to: u64,
        length: u64,
        parameter: u64,
    ) -> Result<&mut Self, Error> {
        self.packet(&Dispatch::new(kernel, from, to, length, parameter))
    }

    /// Writes bytes to the end of the memory, before those that stand there already, at a whole word. Returns their
    /// GPU virtual address.
    pub(super) fn write_behind(&mut self, bytes: &[u8]) -> Result<u64, Error> {
        let end = self.memory.size() as usize & !(UNIT - 1);
        let taken = self.dispatches.arguments() + bytes.len();
        let offset = end.saturating_sub(taken);
        self.memory.write(offset, bytes)?;
        Ok(self.gpu_va + offset as u64)
    }

    /// The number of the buffer's words, if they are few and nobody else changes them, or more than there can be; and
    /// these words.
    #[inline(always)]
    pub(crate) fn small(&self) -> (u8, &[u64; SMALL_WORDS]) {
        (self.small.count, &self.small.words)
    }

    /// The packet that executes the buffer.
    #[inline]
    pub(crate) fn execute(&self) -> IndirectBuffer {
        IndirectBuffer::new(self.gpu_va(), self.used as u32)
    }

    /// Writes the time at which the buffer is queued, on the adapter's clock, into its packets that log fences.
    pub(crate) fn stamp_logs(&mut self, queued_timestamp: u64) -> Result<(), Error> {
        for log in &self.logs {
            let at = log + std::mem::offset_of!(LogFence, queued_timestamp);
            self.memory.write(at, queued_timestamp.as_bytes())?;
        }
        Ok(())
    }
}
