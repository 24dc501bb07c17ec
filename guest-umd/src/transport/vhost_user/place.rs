// SPDX-License-Identifier: MIT OR Apache-2.0

//! The address space of the window into which the device maps its BAR.

use crate::transport::TransportError;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use vm_memory::MmapRegion;
use vm_memory::mmap::MmapRegionBuilder;

/// The window's address space, of which a clone is another reference.
#[derive(Clone)]
pub struct Place(Arc<MmapRegion>);

impl Place {
    /// Reserves `size` bytes of address space. As behind QEMU, it reads as zero, and stores to it are lost.
    ///
    /// # Errors
    /// If this process has no address space left.
    pub fn reserve(size: u64) -> Result<Self, TransportError> {
        let failed =
            |error| TransportError::Io("address space for the BAR", io::Error::other(error));
        let region = MmapRegionBuilder::<()>::new(size.max(1) as usize)
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            .with_mmap_flags(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE)
            .build()
            .map_err(failed)?;
        Ok(Self(Arc::new(region)))
    }

    /// All of it.
    #[must_use]
    pub fn region(&self) -> &Arc<MmapRegion> {
        &self.0
    }

    /// Maps a file, or nothing, at a part of it.
    ///
    /// # Errors
    /// If the part lies outside, the file is too short, or the operating system refuses.
    pub fn replace(
        &self,
        offset: u64,
        length: u64,
        file: Option<(BorrowedFd<'_>, u64)>,
    ) -> io::Result<()> {
        if offset.checked_add(length).is_none_or(|end| end > self.0.size() as u64) {
            return Err(ErrorKind::InvalidInput.into());
        }
        if let Some((file, start)) = file {
            let size = rustix::fs::fstat(file)?.st_size as u64;
            if start.checked_add(length).is_none_or(|end| end > size) {
                let problem = format!("the file has only {size} bytes");
                return Err(io::Error::new(ErrorKind::InvalidInput, problem));
            }
        }
        let (offset, length) = (offset as usize, length as usize);
        let place = self.0.as_ptr().wrapping_add(offset).cast();
        // SAFETY: the range lies within the region, which `reserve` made for mappings of the device, and which stays
        // reserved as long as any user holds it. The only references into it are to atomics, and all other accesses
        // are volatile: both stay valid for any memory that is mapped there. The file is long enough for the mapping.
        #[expect(unsafe_code, reason = "a mapping over one's own reservation")]
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
