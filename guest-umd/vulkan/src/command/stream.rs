// SPDX-License-Identifier: MIT OR Apache-2.0

//! The stream of commands that a command buffer records, in memory of the GPU.
//!
//! Commands go into pieces of memory from the front, sets of descriptors that the commands use alone from the end. What is
//! recorded in a piece without a break is a *chunk*, which one packet has the GPU execute. Chunks are executed one after the
//! other, so that a chunk of a primary command buffer begins with everything before it done. Where a device has several GPUs, each
//! executes the chunks that are for it.

use crate::device::DeviceMask;
use crate::heap::{Heap, Piece, put};
use ash::vk;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{Barrier, CommandCode, CommandHeader, Encoded};

/// Most bytes of a chunk.
pub(super) const CHUNK: usize = 64 << 10;
/// Bytes of the first piece; each further one has four times as many, up to [`CHUNK`].
const FIRST: usize = 4 << 10;
/// Alignment of sets.
const SET: usize = 64;

/// A header for [`Stream::push`] to fill in.
pub(super) const HEADER: CommandHeader =
    CommandHeader { code: CommandCode(0), units: 0, argument: 0 };

/// Commands that one packet executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// GPU virtual address of the first command.
    pub gpu_va: u64,
    /// Bytes.
    pub length: u32,
    /// The GPUs that execute it, a bit for each device index. It counts where a device has several.
    pub devices: DeviceMask,
    /// Whether these GPUs wait for each other before it.
    pub meets: bool,
}

/// A stream.
pub(super) struct Stream {
    /// Whether chunks are executed as they are, and not copied into another stream.
    is_primary: bool,
    pieces: Vec<Piece>,
    /// Which piece is being filled.
    current: usize,
    /// Where in it the chunk begins, its next command goes, and the sets begin.
    start: usize,
    at: usize,
    end: usize,
    chunks: Vec<Chunk>,
    /// Whether everything before is done before what comes next.
    is_ordered: bool,
    /// All GPUs of the device.
    all: DeviceMask,
    /// The GPUs that execute what comes next.
    devices: DeviceMask,
    /// Whether they wait for each other before the chunk.
    meets: bool,
}

impl Stream {
    /// A stream without commands or memory, for these GPUs.
    pub(super) const fn new(is_primary: bool, all: DeviceMask) -> Self {
        Self {
            is_primary,
            pieces: Vec::new(),
            current: 0,
            start: 0,
            at: 0,
            end: 0,
            chunks: Vec::new(),
            is_ordered: is_primary,
            all,
            devices: all,
            meets: false,
        }
    }

    /// The GPUs that execute what comes next.
    pub(super) const fn devices(&self) -> DeviceMask {
        self.devices
    }

    /// Has these GPUs execute what comes next, and no others.
    pub(super) fn set_devices(&mut self, devices: DeviceMask) {
        if devices != self.devices {
            self.new_chunk();
            self.devices = devices;
        }
    }

    /// Forgets all commands, and keeps the memory.
    pub(super) fn reset(&mut self) {
        self.chunks.clear();
        self.current = 0;
        (self.start, self.at) = (0, 0);
        self.end = self.pieces.first().map_or(0, room_of);
        self.is_ordered = self.is_primary;
        (self.devices, self.meets) = (self.all, false);
    }

    /// Gives back the memory that no command uses.
    pub(super) fn trim(&mut self) {
        let used = if self.end == 0 { 0 } else { self.current + 1 };
        self.pieces.truncate(used);
    }

    /// Forgets all commands, and gives back the memory.
    pub(super) fn release(&mut self) {
        self.pieces = Vec::new();
        self.chunks = Vec::new();
        self.reset();
    }

    /// The chunks: all of them after [`Self::new_chunk`].
    pub(super) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Appends a command, and behind it parts, each padded to 8 bytes.
    #[inline]
    pub(super) fn push<C: Encoded, const N: usize>(
        &mut self,
        heap: &Heap,
        argument: u32,
        command: C,
        parts: [&[u8]; N],
    ) -> Result<(), vk::Result> {
        let data: usize = parts.iter().map(|part| part.len().next_multiple_of(UNIT)).sum();
        let size = size_of::<C>() + data;
        let piece = self.room(heap, size)?;
        let piece = self.pieces.get(piece).ok_or(vk::Result::ERROR_UNKNOWN)?;
        let command = command.with_header(argument, data);
        if let Some(words) = piece.few_words(self.at, size) {
            let rest = put(words, command.as_bytes());
            parts.iter().fold(rest, |rest, part| put(rest, part));
        } else {
            piece.write(self.at, command.as_bytes());
            let mut at = self.at + size_of::<C>();
            for part in parts {
                piece.write(at, part);
                at += part.len().next_multiple_of(UNIT);
            }
        }
        self.at += size;
        self.is_ordered = false;
        Ok(())
    }

    /// Has what comes next wait for everything before it.
    pub(super) fn barrier(&mut self, heap: &Heap) -> Result<(), vk::Result> {
        if !self.is_ordered {
            self.push(heap, 0, Barrier { header: HEADER }, [])?;
            self.is_ordered = true;
        }
        Ok(())
    }

    /// Has what comes next wait for everything before it on all GPUs that execute it.
    pub(super) fn meet(&mut self, heap: &Heap) -> Result<(), vk::Result> {
        if self.devices.count_ones() > 1 {
            self.new_chunk();
            // A chunk that meets is never empty.
            (self.meets, self.is_ordered) = (true, false);
        }
        self.barrier(heap)
    }

    /// Puts descriptors into the stream's memory, and returns their address.
    pub(super) fn put_set(&mut self, heap: &Heap, bytes: &[u8]) -> Result<u64, vk::Result> {
        let size = bytes.len().next_multiple_of(SET).max(SET);
        let piece = self.room(heap, size)?;
        let piece = self.pieces.get(piece).ok_or(vk::Result::ERROR_UNKNOWN)?;
        self.end -= size;
        piece.write(self.end, bytes);
        Ok(piece.gpu_va() + self.end as u64)
    }

    /// Appends commands that another stream has, which is no primary one's, for the GPUs of both. `apart` has each of its chunks
    /// begin one.
    pub(super) fn append(
        &mut self,
        heap: &Heap,
        other: &Self,
        apart: bool,
    ) -> Result<(), vk::Result> {
        let devices = self.devices;
        for chunk in &other.chunks {
            let bytes = other.bytes(chunk).ok_or(vk::Result::ERROR_UNKNOWN)?;
            self.set_devices(devices & chunk.devices);
            if apart || chunk.meets {
                self.new_chunk();
            }
            self.meets |= chunk.meets;
            let piece = self.room(heap, bytes.len())?;
            let piece = self.pieces.get(piece).ok_or(vk::Result::ERROR_UNKNOWN)?;
            piece.write(self.at, &bytes);
            self.at += bytes.len();
            self.is_ordered = false;
        }
        self.set_devices(devices);
        Ok(())
    }

    /// The bytes of a chunk.
    pub(super) fn bytes(&self, chunk: &Chunk) -> Option<Vec<u8>> {
        let offset = |piece: &Piece| chunk.gpu_va.checked_sub(piece.gpu_va());
        let holds = |piece: &&Piece| offset(piece).is_some_and(|at| at < piece.size() as u64);
        let piece = self.pieces.iter().find(holds)?;
        let mut bytes = vec![0; chunk.length as usize];
        piece.read(offset(piece)? as usize, &mut bytes);
        Some(bytes)
    }

    /// Ends the chunk. What comes next is in another.
    pub(super) fn new_chunk(&mut self) {
        if let Some(piece) = self.pieces.get(self.current).filter(|_| self.at > self.start) {
            let gpu_va = piece.gpu_va() + self.start as u64;
            let length = (self.at - self.start) as u32;
            let meets = std::mem::take(&mut self.meets);
            self.chunks.push(Chunk { gpu_va, length, devices: self.devices, meets });
            self.start = self.at;
            self.is_ordered = self.is_primary;
        }
    }

    /// Finds the piece in which there is room for so many bytes from `at` on, at most [`CHUNK`].
    #[inline]
    fn room(&mut self, heap: &Heap, bytes: usize) -> Result<usize, vk::Result> {
        if self.end - self.at < bytes {
            self.next_piece(heap, bytes)?;
        }
        Ok(self.current)
    }

    /// Goes on in the next piece, which has room for so many bytes.
    #[cold]
    fn next_piece(&mut self, heap: &Heap, bytes: usize) -> Result<(), vk::Result> {
        self.new_chunk();
        let next = if self.end == 0 { 0 } else { self.current + 1 };
        if self.pieces.get(next).is_none_or(|piece| piece.size() < bytes) {
            let last = next.checked_sub(1).and_then(|last| self.pieces.get(last));
            let size = last.map_or(FIRST, |last| last.size().saturating_mul(4)).min(CHUNK);
            self.pieces.insert(next, heap.take(size.max(bytes).next_multiple_of(SET))?);
        }
        let end = self.pieces.get(next).map_or(0, room_of);
        self.current = next;
        (self.start, self.at, self.end) = (0, 0, end);
        self.is_ordered = self.is_primary;
        Ok(())
    }
}

/// Bytes of a piece that a stream uses: it may be larger than was asked for.
fn room_of(piece: &Piece) -> usize {
    piece.size().min(CHUNK) / SET * SET
}
