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

use crate::device::DeviceMask;
use crate::heap::{Heap, Piece, put};
use ash::vk;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{
    Barrier, CommandCode, CommandHeader, Continue, Encoded, MAX_CONTINUED,
};
use zerocopy::{FromBytes, IntoBytes};

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
/// From so many bytes of a chunk on there is no room for more than what is being recorded.
const FULL: usize = MAX_CONTINUED as usize - 4 * CHUNK;

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
    /// Whether everything before is done before what comes next.
    is_ordered: bool,
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
            reserve: 0,
            first: None,
            link: None,
            before: 0,
            links: Vec::new(),
            turn: 0,
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
        (self.reserve, self.before) = (0, 0);
        (self.first, self.link) = (None, None);
        self.links.clear();
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
        // What is kept free stays between commands and sets.
        let place = self.end + self.reserve;
        piece.write(place, bytes);
        Ok(piece.gpu_va() + place as u64)
    }

    /// Has what comes next stay in one chunk, which goes on elsewhere where a piece ends.
    pub(super) fn hold(&mut self, heap: &Heap) -> Result<(), vk::Result> {
        if self.reserve == 0 {
            if self.end - self.at < RESERVE {
                self.next_piece(heap, RESERVE)?;
            }
            self.end -= RESERVE;
            self.reserve = RESERVE;
        }
        Ok(())
    }

    /// Ends [`Self::hold`].
    pub(super) const fn let_go(&mut self) {
        self.end += self.reserve;
        self.reserve = 0;
    }

    /// Whether the stream is held.
    pub(super) const fn is_held(&self) -> bool {
        self.reserve > 0
    }

    /// Whether the chunk has to end soon, held or not.
    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.before >= FULL
    }

    /// How many bytes may be appended to the chunk while it is held.
    pub(super) const fn left(&self) -> usize {
        (FULL + CHUNK).saturating_sub(self.before)
    }

    /// How many chunks have ended: what the host keeps for a chunk is gone where this is another number.
    pub(super) const fn turn(&self) -> u32 {
        self.turn
    }

    /// Where the last command of a size is, which was just appended.
    pub(super) const fn last(&self, size: usize) -> Place {
        Place { piece: self.current, offset: self.at.saturating_sub(size) }
    }

    /// Writes bytes over those of a command, from a byte on.
    pub(super) fn rewrite(&self, place: Place, from: usize, bytes: &[u8]) {
        if let Some(piece) = self.pieces.get(place.piece) {
            piece.write(place.offset + from, bytes);
        }
    }

    /// Appends a chunk of another stream to this one's chunk. The stream is held if the chunk goes on.
    pub(super) fn append_chunk(
        &mut self,
        heap: &Heap,
        other: &Self,
        chunk: &Chunk,
    ) -> Result<(), vk::Result> {
        for bytes in other.parts(chunk).ok_or(vk::Result::ERROR_UNKNOWN)? {
            let piece = self.room(heap, bytes.len())?;
            let piece = self.pieces.get(piece).ok_or(vk::Result::ERROR_UNKNOWN)?;
            piece.write(self.at, &bytes);
            self.at += bytes.len();
            self.is_ordered = false;
        }
        Ok(())
    }

    /// The bytes of a chunk, in each place where it is, without the commands with which it goes on.
    fn parts(&self, chunk: &Chunk) -> Option<Vec<Vec<u8>>> {
        let mut parts = Vec::new();
        let (mut address, mut length) = (chunk.gpu_va, chunk.length as usize);
        loop {
            let mut bytes = self.read(address, length)?;
            let end = length.checked_sub(LINK).map(|end| (end, address + end as u64));
            let Some((end, _)) = end.filter(|(_, link)| chunk.goes_on && self.links.contains(link))
            else {
                parts.push(bytes);
                return Some(parts);
            };
            let link = Continue::read_from_bytes(bytes.get(end..)?).ok()?;
            bytes.truncate(end);
            parts.push(bytes);
            (address, length) = (link.address, link.length as usize);
        }
    }

    /// Bytes of a chunk with all that it goes on with.
    pub(super) fn size_of(&self, chunk: &Chunk) -> usize {
        self.parts(chunk).map_or(0, |parts| parts.iter().map(Vec::len).sum())
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
            self.set_devices(devices & chunk.devices);
            if apart || chunk.meets || chunk.goes_on {
                self.new_chunk();
            }
            self.meets |= chunk.meets;
            if chunk.goes_on {
                self.hold(heap)?;
            }
            let outcome = self.append_chunk(heap, other, chunk);
            if chunk.goes_on {
                self.let_go();
            }
            outcome?;
        }
        self.set_devices(devices);
        Ok(())
    }

    /// The bytes of a chunk, wherever they are.
    #[cfg(test)]
    pub(super) fn bytes(&self, chunk: &Chunk) -> Option<Vec<u8>> {
        self.parts(chunk).map(|parts| parts.concat())
    }

    /// Bytes of the stream.
    fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let offset = |piece: &Piece| address.checked_sub(piece.gpu_va());
        let holds = |piece: &&Piece| offset(piece).is_some_and(|at| at < piece.size() as u64);
        let piece = self.pieces.iter().find(holds)?;
        let mut bytes = vec![0; length];
        piece.read(offset(piece)? as usize, &mut bytes);
        Some(bytes)
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
            self.chunks.push(Chunk { gpu_va, length, devices: self.devices, meets, goes_on });
            self.start = self.at;
            self.is_ordered = self.is_primary;
            self.turn = self.turn.wrapping_add(1);
        }
    }

    /// Ends a chunk that goes on, whose last part is this. Returns its first part.
    #[cold]
    fn end_parts(&mut self, gpu_va: u64, length: u32) -> (u64, u32) {
        self.end_part(gpu_va, length);
        self.before = 0;
        self.link = None;
        self.first.take().unwrap_or((gpu_va, length))
    }

    /// Ends a part of a chunk: what leads to it learns where it is.
    fn end_part(&mut self, address: u64, length: u32) {
        if let Some(link) = self.link {
            let command = Continue { header: HEADER, address, length: length.into() };
            self.rewrite(link, 0, command.with_header(0, 0).as_bytes());
        } else {
            self.first = Some((address, length));
        }
    }

    /// Has the chunk go on in another piece.
    fn leave_piece(&mut self) {
        let Some(piece) = self.pieces.get(self.current).filter(|_| self.at > self.start) else {
            // Nothing of the chunk is here. What leads here will lead to the other piece.
            return;
        };
        let base = piece.gpu_va();
        let link = Place { piece: self.current, offset: self.at };
        self.at += LINK;
        let length = self.at - self.start;
        self.before += length;
        self.links.push(base + link.offset as u64);
        self.end_part(base + self.start as u64, length as u32);
        self.link = Some(link);
        self.start = self.at;
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
        self.is_ordered = self.is_primary && self.link.is_none();
        Ok(())
    }
}

/// Bytes of a piece that a stream uses: it may be larger than was asked for.
fn room_of(piece: &Piece) -> usize {
    piece.size().min(CHUNK) / SET * SET
}
