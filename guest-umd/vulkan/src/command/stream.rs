// SPDX-License-Identifier: MIT OR Apache-2.0

//! The stream of commands that a command buffer records, in memory of the GPU.
//!
//! Commands go into pieces of memory from the front, sets of descriptors that the commands use alone from the end. What is
//! recorded in a piece without a break is a *chunk*, which one packet has the GPU execute. Chunks are executed one after the
//! other, so that a chunk of a primary command buffer begins with everything before it done. Where a device has several GPUs, each
//! executes the chunks that are for it.
//!
//! A rendering and a query are not divided among chunks: while there is one, the stream is *held*, and a chunk goes on in the next
//! piece.
//!
//! Copies at the beginning of a chunk are packets (`packets`).

mod packets;
mod parts;
mod uses;

pub(crate) use uses::Uses;

use crate::device::DeviceMask;
use crate::heap::{Heap, Piece, put};
use ash::vk;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{Barrier, CommandCode, CommandHeader, Continue, Encoded};

/// Most bytes of a chunk.
pub(super) const CHUNK: usize = 64 << 10;
/// Bytes of the first piece; each further one has four times as many, up to [`CHUNK`].
const FIRST: usize = 4 << 10;
/// Alignment of sets.
const SET: usize = 64;
/// What is kept free in a piece while the stream is held: room for the command with which it goes on elsewhere.
const RESERVE: usize = SET;
/// Bytes of that command.
const LINK: usize = size_of::<Continue>();
const _: () = assert!(LINK <= RESERVE);

/// A header for [`Stream::push`] to fill in.
pub(super) const HEADER: CommandHeader =
    CommandHeader { code: CommandCode(0), units: 0, argument: 0 };

/// Commands that one packet executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// GPU virtual address of the first command.
    pub gpu_va: u64,
    /// Bytes there, without those that it goes on with.
    pub length: u32,
    /// The GPUs that execute it, a bit for each device index. It counts where a device has several.
    pub devices: DeviceMask,
    /// Whether these GPUs wait for each other before it.
    pub meets: bool,
    /// Whether it goes on elsewhere.
    pub goes_on: bool,
    /// Whether it has packets instead of commands.
    pub has_packets: bool,
    /// The packet that executes it.
    pub packet: [u64; 2],
}

/// Where a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    piece: usize,
    offset: usize,
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
    /// All GPUs of the device.
    all: DeviceMask,
    /// The GPUs that execute what comes next.
    devices: DeviceMask,
    /// Whether they wait for each other before the chunk.
    meets: bool,
    /// Bytes that are kept free: some while the stream is held.
    reserve: usize,
    /// Of a chunk that goes on: where it begins, its first bytes, and the command that leads to where it is being recorded.
    first: Option<(u64, u32)>,
    link: Option<Place>,
    /// Bytes of the chunk before where it is being recorded.
    before: usize,
    /// The addresses of all commands with which chunks go on.
    links: Vec<u64>,
    /// How many chunks have ended.
    turn: u32,
    /// Where the sets begin while the chunk has packets. For its commands there is no room then: they begin a chunk.
    packets_end: Option<usize>,
    /// What the commands write, and whether the last of them waits for all.
    pub(super) uses: Uses,
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
            all,
            devices: all,
            meets: false,
            reserve: 0,
            first: None,
            link: None,
            before: 0,
            links: Vec::new(),
            turn: 0,
            packets_end: None,
            uses: Uses::new(is_primary),
        }
    }

    /// Whether chunks are executed as they are.
    pub(super) const fn is_primary(&self) -> bool {
        self.is_primary
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
        (self.devices, self.meets) = (self.all, false);
        (self.reserve, self.before) = (0, 0);
        (self.first, self.link) = (None, None);
        self.links.clear();
        self.packets_end = None;
        self.uses.forget();
        self.uses.set_ordered(self.is_primary);
    }

    /// Gives back the memory that no command uses.
    pub(super) fn trim(&mut self) {
        let used = if self.pieces.is_empty() { 0 } else { self.current + 1 };
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
        self.uses.add(C::CODE);
        Ok(())
    }

    /// Has what comes next wait for everything before it.
    pub(super) fn barrier(&mut self, heap: &Heap) -> Result<(), vk::Result> {
        if !self.uses.is_ordered() {
            self.push(heap, 0, Barrier { header: HEADER }, [])?;
            self.uses.set_ordered(true);
        }
        Ok(())
    }

    /// Has what comes next wait for everything before it on all GPUs that execute it.
    pub(super) fn meet(&mut self, heap: &Heap) -> Result<(), vk::Result> {
        if self.devices.count_ones() > 1 {
            self.new_chunk();
            // A chunk that meets is never empty.
            self.meets = true;
            self.uses.set_ordered(false);
        }
        self.barrier(heap)
    }

    /// Puts descriptors into the stream's memory, and returns their address.
    pub(super) fn put_set(&mut self, heap: &Heap, bytes: &[u8]) -> Result<u64, vk::Result> {
        let size = bytes.len().next_multiple_of(SET).max(SET);
        let piece = self.room(heap, size)?;
        let piece = self.pieces.get(piece).ok_or(vk::Result::ERROR_UNKNOWN)?;
        self.end -= size;
        // What is kept free stays between commands and sets.
        let place = self.end + self.reserve;
        piece.write(place, bytes);
        Ok(piece.gpu_va() + place as u64)
    }

    /// Ends the chunk. What comes next is in another.
    pub(super) fn new_chunk(&mut self) {
        if let Some(piece) = self.pieces.get(self.current).filter(|_| self.at > self.start) {
            let gpu_va = piece.gpu_va() + self.start as u64;
            let length = (self.at - self.start) as u32;
            let meets = std::mem::take(&mut self.meets);
            let goes_on = self.first.is_some();
            let (gpu_va, length) =
                if goes_on { self.end_parts(gpu_va, length) } else { (gpu_va, length) };
            let packets_end = self.packets_end.take();
            let has_packets = packets_end.is_some();
            self.end = packets_end.unwrap_or(self.end);
            let packet = packets::executes(gpu_va, length, has_packets);
            let devices = self.devices;
            self.chunks.push(Chunk {
                gpu_va,
                length,
                devices,
                meets,
                goes_on,
                has_packets,
                packet,
            });
            self.start = self.at;
            self.uses.set_ordered(self.is_primary);
            self.turn = self.turn.wrapping_add(1);
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
        if self.packets_end.is_some() {
            self.new_chunk();
            if self.end - self.at >= bytes {
                return Ok(());
            }
        }
        if self.reserve > 0 {
            self.leave_piece();
        } else {
            self.new_chunk();
        }
        let bytes = bytes + self.reserve;
        let next = if self.pieces.is_empty() { 0 } else { self.current + 1 };
        if self.pieces.get(next).is_none_or(|piece| piece.size() < bytes) {
            let last = next.checked_sub(1).and_then(|last| self.pieces.get(last));
            let size = last.map_or(FIRST, |last| last.size().saturating_mul(4)).min(CHUNK);
            self.pieces.insert(next, heap.take(size.max(bytes).next_multiple_of(SET))?);
        }
        let end = self.pieces.get(next).map_or(0, room_of);
        self.current = next;
        (self.start, self.at, self.end) = (0, 0, end.saturating_sub(self.reserve));
        // What goes on has what was before it in the chunk.
        self.uses.set_ordered(self.is_primary && self.link.is_none());
        Ok(())
    }
}

/// Bytes of a piece that a stream uses: it may be larger than was asked for.
fn room_of(piece: &Piece) -> usize {
    piece.size().min(CHUNK) / SET * SET
}
