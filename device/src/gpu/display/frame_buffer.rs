// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that a frame is handed to a viewer in: a file that the viewer maps.

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

    /// Writes a row; nothing where there is no such row.
    pub fn write_row(&self, row: u32, words: &[u32]) {
        let bytes = words.as_bytes();
        let start = row as usize * self.width as usize * size_of::<u32>();
        if let Ok(slice) = self.region.get_slice(start, bytes.len()) {
            slice.copy_from(bytes);
        }
    }

    /// Copies the rows before one of another frame of this size.
    pub fn copy_rows(&self, other: &Self, before: u32) {
        let bytes = before.min(self.height) as usize * self.width as usize * size_of::<u32>();
        let parts = (self.region.get_slice(0, bytes), other.region.get_slice(0, bytes));
        if let (Ok(here), Ok(there)) = parts {
            there.copy_to_volatile_slice(here);
        }
    }

    /// Whether a row has these words.
    pub fn has_row(&self, row: u32, words: &[u32]) -> bool {
        let start = row as usize * self.width as usize * size_of::<u32>();
        let mut here = vec![0; words.len()];
        let slice = self.region.get_slice(start, size_of_val(words));
        slice.is_ok_and(|slice| {
            slice.copy_to(here.as_mut_bytes());
            here == words
        })
    }
}

impl AsFd for FrameBuffer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
