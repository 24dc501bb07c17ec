// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that a frame is handed to a viewer in: a file that the viewer maps.

use super::cells::{Cells, Grid};
use bellhop_protocol::rect::Rect;
use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};
use zerocopy::IntoBytes;

/// A frame of pixels `0x00RRGGBB`, rows without gaps. The file's length is sealed: a viewer that could shorten it would
/// raise SIGBUS here.
#[derive(Debug)]
pub struct FrameBuffer {
    file: Arc<File>,
    region: MmapRegion,
    width: u32,
    height: u32,
}

impl FrameBuffer {
    /// A black frame of this size.
    ///
    /// # Errors
    /// If the operating system has no memory or no file descriptors.
    pub fn new((width, height): (u32, u32)) -> io::Result<Self> {
        let size = u64::from(width) * u64::from(height) * size_of::<u32>() as u64;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("bellhop-frame", flags)?);
        file.set_len(size)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let file = Arc::new(file);
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let region = MmapRegion::from_file(FileOffset::from_arc(Arc::clone(&file), 0), size);
        Ok(Self { file, region: region.map_err(io::Error::other)?, width, height })
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Copies the rows before one of another frame of this size.
    pub fn copy_rows(&self, other: &Self, before: u32) {
        let bytes = before.min(self.height) as usize * self.width as usize * size_of::<u32>();
        let parts = (self.region.get_slice(0, bytes), other.region.get_slice(0, bytes));
        if let (Ok(here), Ok(there)) = parts {
            there.copy_to_volatile_slice(here);
        }
    }

    /// Writes pixels of a row, from a column on; nothing where there are none.
    fn write(&self, row: u32, from: u32, words: &[u32]) {
        if let Ok(slice) = self.region.get_slice(self.place(row, from), size_of_val(words)) {
            slice.copy_from(words.as_bytes());
        }
    }

    /// Reads as many pixels of a row, from a column on.
    fn read(&self, row: u32, from: u32, words: &mut [u32]) {
        if let Ok(slice) = self.region.get_slice(self.place(row, from), size_of_val(words)) {
            slice.copy_to(words.as_mut_bytes());
        }
    }

    fn place(&self, row: u32, from: u32) -> usize {
        (row as usize * self.width as usize + from as usize) * size_of::<u32>()
    }
}

/// Puts a frame into a buffer, and finds out where it differs from the frame before.
#[derive(Debug)]
pub struct Writing<'b> {
    into: &'b FrameBuffer,
    /// The frame before: in the same buffer, or in another of this size.
    before: Option<&'b FrameBuffer>,
    grid: Grid,
    old: Vec<u32>,
    /// Where the two differ, as far as it was written; everywhere if there is no frame before.
    pub changed: Cells,
    /// Bytes that were written or found to be there, and bytes that were compared.
    pub bytes: (u64, u64),
}

impl<'b> Writing<'b> {
    /// Nothing is written.
    pub fn new(into: &'b FrameBuffer, before: Option<&'b FrameBuffer>) -> Self {
        let changed = if before.is_some() { Cells::NONE } else { Cells::ALL };
        let grid = Grid::of(into.size());
        Self { into, before, grid, old: Vec::new(), changed, bytes: (0, 0) }
    }

    /// Puts pixels into a row, from a column on.
    pub fn put(&mut self, row: u32, from: u32, words: &[u32]) {
        let length = size_of_val(words) as u64;
        self.bytes.0 += length;
        let mut is_same = false;
        if let Some(before) = self.before {
            self.bytes.1 += length;
            self.old.resize(words.len(), 0);
            before.read(row, from, &mut self.old);
            is_same = self.old == words;
            if !is_same {
                self.mark(row, from, words);
            }
        }
        let is_there = self.before.is_some_and(|before| std::ptr::eq(before, self.into));
        if !(is_same && is_there) {
            self.into.write(row, from, words);
        }
    }

    /// Marks the cells in which a row is not as before.
    fn mark(&mut self, row: u32, from: u32, words: &[u32]) {
        let (cell, _) = self.grid.cell();
        let (mut left, mut rest) = (from, words.iter().zip(&self.old));
        let end = from.saturating_add(words.len() as u32);
        while left < end {
            let right = (left / cell).saturating_add(1).saturating_mul(cell).min(end);
            let mut of_cell = rest.by_ref().take((right - left) as usize);
            // All of them are taken, for the next cell to begin behind.
            if of_cell.by_ref().fold(false, |differs, (new, old)| differs | (new != old)) {
                let part = Rect { left, top: row, right, bottom: row.saturating_add(1) };
                self.changed.mark(&self.grid, &part);
            }
            left = right;
        }
    }
}

impl AsFd for FrameBuffer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pixels of a frame.
    fn seen(frame: &FrameBuffer) -> Vec<u32> {
        let (width, height) = frame.size();
        let mut rows = vec![0; (width * height) as usize];
        let of_rows = rows.chunks_exact_mut(width as usize);
        (0..height).zip(of_rows).for_each(|(row, words)| frame.read(row, 0, words));
        rows
    }

    #[test]
    fn what_is_written_is_there_and_only_what_differs_from_the_frame_before_has_changed() {
        // Cells of three by one pixels.
        let frames = [(); 2].map(|()| FrameBuffer::new((192, 3)).unwrap());
        let mut words = [0; 192];
        (words[5], words[100]) = (7, 8);
        for into in [&frames[1], &frames[0]] {
            let mut writing = Writing::new(into, Some(&frames[0]));
            writing.put(1, 0, &words);
            writing.put(2, 4, &[0; 20]);
            let mut expected = [0; 64];
            expected[1] = 1 << 1 | 1 << 33;
            assert_eq!(writing.changed, Cells::from_words(expected));
            assert_eq!(writing.bytes, (848, 848));
            assert_eq!(seen(into)[192..384], words);
        }
        let mut again = Writing::new(&frames[0], Some(&frames[0]));
        again.put(1, 3, &words[3..]);
        assert!(again.changed.is_empty());
        let mut first = Writing::new(&frames[0], None);
        first.put(0, 0, &words);
        assert_eq!((first.changed, first.bytes), (Cells::ALL, (768, 0)));
    }
}
