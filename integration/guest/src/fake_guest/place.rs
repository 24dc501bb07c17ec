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
    /// Puts a file, or nothing, in the place of a part of it.
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
        // SAFETY: the range lies within the region, which this process reserved for mappings of the
        // device's and which stays reserved for as long as anybody holds it. Nobody has references
        // into it but to atomics and by volatile accesses, which go on to be valid for whatever
        // memory is there. `shmem_map` has checked that the file is long enough for the mapping.
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
