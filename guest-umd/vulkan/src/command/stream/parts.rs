// SPDX-License-Identifier: MIT OR Apache-2.0

//! Chunks that go on elsewhere, and what one stream takes over from another.

use super::{CHUNK, Chunk, HEADER, LINK, Place, RESERVE, Stream};
use crate::device::DeviceMask;
use crate::heap::{Heap, Piece};
use ash::vk;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{
    BeginRendering, CommandCode, CommandHeader, Continue, Encoded, MAX_CONTINUED,
};
use std::mem::offset_of;
use zerocopy::{FromBytes, IntoBytes};

/// From so many bytes of a chunk on there is no room for more than what is being recorded.
const FULL: usize = MAX_CONTINUED as usize - 4 * CHUNK;

/// Commands, whose renderings have this area.
fn with_area(commands: &[u8], area: vk::Rect2D) -> Vec<u8> {
    const OFFSET: usize = offset_of!(BeginRendering, offset);
    const END: usize = OFFSET + size_of::<[u32; 4]>();
    const _: () = assert!(offset_of!(BeginRendering, extent) == OFFSET + size_of::<[u32; 2]>());
    let vk::Rect2D { offset, extent } = area;
    let words = [offset.x as u32, offset.y as u32, extent.width, extent.height];
    let mut changed = commands.to_vec();
    let mut at = 0;
    while let Some(rest) = changed.get_mut(at..)
        && let Ok((header, _)) = CommandHeader::read_from_prefix(rest)
    {
        let room = rest.get_mut(OFFSET..END);
        if let Some(room) = room.filter(|_| header.code == CommandCode::BEGIN_RENDERING) {
            room.copy_from_slice(words.as_bytes());
        }
        at += usize::from(header.units).max(1) * UNIT;
    }
    changed
}

impl Stream {
    /// Has what comes next stay in one chunk, which goes on elsewhere where a piece ends.
    pub(in super::super) fn hold(&mut self, heap: &Heap) -> Result<(), vk::Result> {
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
    pub(in super::super) const fn let_go(&mut self) {
        self.end += self.reserve;
        self.reserve = 0;
    }

    /// Whether the stream is held.
    pub(in super::super) const fn is_held(&self) -> bool {
        self.reserve > 0
    }

    /// Whether the chunk has to end soon, held or not.
    #[inline]
    pub(in super::super) const fn is_full(&self) -> bool {
        self.before >= FULL
    }

    /// How many bytes may be appended to the chunk while it is held.
    pub(in super::super) const fn left(&self) -> usize {
        (FULL + CHUNK).saturating_sub(self.before)
    }

    /// How many chunks have ended: what the host keeps for a chunk is gone where this is another number.
    pub(in super::super) const fn turn(&self) -> u32 {
        self.turn
    }

    /// Where the last command of a size is, which was just appended.
    pub(in super::super) const fn last(&self, size: usize) -> Place {
        Place { piece: self.current, offset: self.at.saturating_sub(size) }
    }

    /// Writes bytes over those of a command, from a byte on.
    pub(in super::super) fn rewrite(&self, place: Place, from: usize, bytes: &[u8]) {
        if let Some(piece) = self.pieces.get(place.piece) {
            piece.write(place.offset + from, bytes);
        }
    }

    /// Appends a chunk of another stream, which has commands, to this one's chunk. The stream is held if the chunk goes on.
    pub(in super::super) fn append_chunk(
        &mut self,
        heap: &Heap,
        other: &Self,
        chunk: &Chunk,
    ) -> Result<(), vk::Result> {
        self.append_parts(heap, &other.parts(chunk).ok_or(vk::Result::ERROR_UNKNOWN)?)
    }

    /// Appends commands, a piece's after the other.
    fn append_parts(&mut self, heap: &Heap, parts: &[Vec<u8>]) -> Result<(), vk::Result> {
        for bytes in parts {
            let piece = self.room(heap, bytes.len())?;
            let piece = self.pieces.get(piece).ok_or(vk::Result::ERROR_UNKNOWN)?;
            piece.write(self.at, bytes);
            self.at += bytes.len();
            self.uses.set_ordered(false);
        }
        Ok(())
    }

    /// Has each GPU execute the chunks from a number on with a rendering area of its own, by device index.
    pub(in super::super) fn divide(
        &mut self,
        heap: &Heap,
        from: usize,
        areas: &[vk::Rect2D],
    ) -> Result<(), vk::Result> {
        let devices = self.devices;
        for chunk in self.chunks.split_off(from.min(self.chunks.len())) {
            if chunk.has_packets {
                // They are in no rendering.
                self.chunks.push(chunk);
                continue;
            }
            self.devices = chunk.devices;
            if chunk.meets {
                // They meet before any of them goes on.
                self.meet(heap)?;
                self.new_chunk();
            }
            let parts = self.parts(&chunk).ok_or(vk::Result::ERROR_UNKNOWN)?;
            for (device, area) in (0..DeviceMask::BITS).zip(areas) {
                self.devices = chunk.devices & 1 << device;
                if self.devices == 0 {
                    continue;
                }
                let parts: Vec<_> = parts.iter().map(|part| with_area(part, *area)).collect();
                if chunk.goes_on {
                    self.hold(heap)?;
                }
                let outcome = self.append_parts(heap, &parts);
                if chunk.goes_on {
                    self.let_go();
                }
                outcome?;
                self.new_chunk();
            }
        }
        self.devices = devices;
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
    pub(in super::super) fn size_of(&self, chunk: &Chunk) -> usize {
        self.parts(chunk).map_or(0, |parts| parts.iter().map(Vec::len).sum())
    }

    /// Appends commands that another stream has, which is no primary one's, for the GPUs of both. `apart` has each of its chunks
    /// begin one.
    pub(in super::super) fn append(
        &mut self,
        heap: &Heap,
        other: &Self,
        apart: bool,
    ) -> Result<(), vk::Result> {
        let devices = self.devices;
        self.uses.add_all(&other.uses);
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
    pub(in super::super) fn bytes(&self, chunk: &Chunk) -> Option<Vec<u8>> {
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

    /// Ends a chunk that goes on, whose last part is this. Returns its first part.
    #[cold]
    pub(super) fn end_parts(&mut self, gpu_va: u64, length: u32) -> (u64, u32) {
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
    pub(super) fn leave_piece(&mut self) {
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
}
