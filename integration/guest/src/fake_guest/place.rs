// SPDX-License-Identifier: MIT OR Apache-2.0

//! The address space of the window into which the device maps its BAR.

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use vm_memory::MmapRegion;

/// The window's address space.
#[derive(Clone)]
pub(super) struct Place(pub(super) Arc<MmapRegion>);

impl Place {
    /// Maps a file, or nothing, at a part of it.
    pub(super) fn replace(
        &self,
        offset: u64,
        length: u64,
        file: Option<(BorrowedFd<'_>, u64)>,
    ) -> io::Result<()> {
        let (offset, length) = (offset as usize, length as usize);
        if offset.checked_add(length).is_none_or(|end| end > self.0.size()) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let place = self.0.as_ptr().wrapping_add(offset).cast();
        // SAFETY: the range lies within the region, which this process reserved for mappings of the device
        // and keeps reserved as long as any user holds it. The only references into it are to atomics, and
        // all other accesses are volatile: both stay valid for any memory that is mapped there. `shmem_map`
        // has checked that the file is long enough for the mapping.
        #[expect(unsafe_code, reason = "a VMM's mapping over its own reservation")]
        unsafe {
            match file {
                Some((file, start)) => mmap(
                    place,
                    length,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED | MapFlags::FIXED,
                    file,
                    start,
                )?,
                None => mmap_anonymous(
                    place,
                    length,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
                )?,
            };
        }
        Ok(())
    }
}
