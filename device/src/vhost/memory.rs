// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's memory, as announced by its front end, which is not trusted.

use super::lost_memory::{WatchError, Watched};
use rustix::fs::{FileType, fstat, fstatfs};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap, MmapRegion,
};

/// `TMPFS_MAGIC` of `linux/magic.h`: memfds, `/dev/shm` and other tmpfs mounts.
const TMPFS: i64 = 0x0102_1994;
/// `HUGETLBFS_MAGIC` of `linux/magic.h`.
const HUGETLBFS: i64 = 0x9584_58F6;
/// Bytes of address space reserved for the daemon.
const SPARE: usize = 64 << 20;

/// Why memory is refused.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The file is shorter than the region.
    #[error(
        "the region at {physical:#x} ends at offset {end:#x} of its file, which has only {length:#x} bytes"
    )]
    BeyondFile {
        /// Guest-physical address of the region.
        physical: u64,
        /// Offset of the region's end in its file.
        end: u64,
        /// Length of the file in bytes.
        length: u64,
    },
    /// The region exceeds the address space.
    #[error("the region at {physical:#x} of {size:#x} bytes ends beyond the address space")]
    NoAddress {
        /// Guest-physical address of the region.
        physical: u64,
        /// Bytes.
        size: u64,
    },
    /// Mapping the file would put other guests at risk.
    #[error(
        "the region at {physical:#x} is not in a memfd, nor in a file of tmpfs or hugetlbfs; have the VMM take \
         memory of these kinds"
    )]
    NoMemory {
        /// Guest-physical address of the region.
        physical: u64,
    },
    /// The guest exceeds its memory limit.
    #[error(
        "the VMM announces {size:#x} bytes of memory; guest.announced_memory allows {limit:#x}"
    )]
    TooMuch {
        /// Bytes.
        size: u64,
        /// The guest's limit in bytes.
        limit: u64,
    },
    /// Engines still use the memory announced before.
    #[error("the VMM announced memory again before the engines released the earlier memory")]
    TooOften,
    /// The operating system refused to map the file.
    #[error("the region at {physical:#x} cannot be mapped: {source}")]
    Map {
        /// Guest-physical address of the region.
        physical: u64,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The mapping would leave the daemon no address space.
    #[error("the daemon has no address space left ({0}); raise its limit, or serve fewer guests")]
    NoAddressesLeft(#[source] io::Error),
    /// Regions overlap.
    #[error("the regions do not form a memory map: {0}")]
    Table(#[source] vm_memory::GuestRegionCollectionError),
    /// The region cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// The memory that a front end announced.
#[derive(Debug)]
pub struct AnnouncedMemory {
    /// The guest's limit in bytes.
    limit: u64,
    /// Each region's range in the front end's address space, and its guest-physical address.
    places: Vec<(Range<u64>, u64)>,
    /// All mapped regions, including those of earlier tables that an engine still uses.
    watched: Vec<Watched>,
}

impl AnnouncedMemory {
    /// No memory yet.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { limit, places: Vec::new(), watched: Vec::new() }
    }

    /// Maps a whole memory table, which replaces the guest's memory. A refused table has no effect.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn announce(
        &mut self,
        table: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> Result<GuestMemoryMmap, MemoryError> {
        let size = table.iter().fold(0, |sum: u64, region| sum.saturating_add(region.memory_size));
        if size > self.limit {
            return Err(MemoryError::TooMuch { size, limit: self.limit });
        }
        self.watched.retain(Watched::is_in_use);
        let before: u64 = self.watched.iter().map(Watched::length).sum();
        if before.saturating_add(size) > self.limit.saturating_mul(2) {
            return Err(MemoryError::TooOften);
        }
        let mut sorted: Vec<_> = table.iter().zip(files).collect();
        sorted.sort_by_key(|(region, _)| region.guest_phys_addr);
        let (mut regions, mut places) = (Vec::new(), Vec::new());
        for (region, file) in sorted {
            let (mapped, watched) = map(region, file)?;
            // Recorded first, so that it counts even if a later region is refused.
            self.watched.push(watched);
            places.push((
                region.user_addr..region.user_addr + region.memory_size,
                region.guest_phys_addr,
            ));
            regions.push(mapped);
        }
        let memory = GuestMemoryMmap::from_regions(regions).map_err(MemoryError::Table)?;
        spare()?;
        self.places = places;
        Ok(memory)
    }

    /// Translates an address of the front end to a guest-physical address.
    #[must_use]
    pub fn physical(&self, address: u64) -> Option<u64> {
        let (place, physical) = self.places.iter().find(|(place, _)| place.contains(&address))?;
        Some(physical + (address - place.start))
    }

    /// Returns whether a part of the memory disappeared.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.watched.iter().any(Watched::is_lost)
    }
}

/// Maps a region, after checking that its file holds all of it.
fn map(
    region: &VhostUserMemoryRegion,
    file: File,
) -> Result<(GuestRegionMmap, Watched), MemoryError> {
    let VhostUserMemoryRegion { guest_phys_addr: physical, memory_size: size, .. } = *region;
    let (user, offset) = (region.user_addr, region.mmap_offset);
    let ends = [physical, user].map(|start| start.checked_add(size));
    let bytes = usize::try_from(size).ok().filter(|bytes| *bytes > 0);
    let (Some(bytes), [Some(_), Some(_)]) = (bytes, ends) else {
        return Err(MemoryError::NoAddress { physical, size });
    };
    let refused = |source| MemoryError::Map { physical, source };
    let status = fstat(&file).map_err(|error| refused(error.into()))?;
    let kind = fstatfs(&file).map_err(|error| refused(error.into()))?.f_type;
    // On any other file system an access, and therefore an engine, may wait without bound.
    if !FileType::from_raw_mode(status.st_mode).is_file() || ![TMPFS, HUGETLBFS].contains(&kind) {
        return Err(MemoryError::NoMemory { physical });
    }
    let length = u64::try_from(status.st_size).unwrap_or(0);
    let end = offset.saturating_add(size);
    if end > length {
        return Err(MemoryError::BeyondFile { physical, end, length });
    }
    let mapped = MmapRegion::from_file(FileOffset::new(file, offset), bytes)
        .map_err(|error| refused(io::Error::other(error)))?;
    let mapped = Arc::new(mapped);
    let page = u64::try_from(status.st_blksize).unwrap_or(0);
    let watched = Watched::new(&mapped, page)?;
    let mapped = GuestRegionMmap::with_arc(mapped, GuestAddress(physical))
        .ok_or(MemoryError::NoAddress { physical, size })?;
    debug_assert_eq!(mapped.len(), size);
    Ok((mapped, watched))
}

/// Checks that enough address space is left for the daemon.
fn spare() -> Result<(), MemoryError> {
    let none = |error: rustix::io::Errno| MemoryError::NoAddressesLeft(error.into());
    // SAFETY: The kernel chooses a free place for the mapping, and no pointer to it exists when it is
    // unmapped.
    #[expect(unsafe_code, reason = "there is no safe way to ask whether there is room")]
    unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let place = mmap_anonymous(std::ptr::null_mut(), SPARE, ProtFlags::empty(), flags);
        munmap(place.map_err(none)?, SPARE).map_err(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use vm_memory::GuestMemoryBackend;

    const PAGE: u64 = 0x1000;

    fn file(length: u64) -> File {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("test", flags).unwrap();
        ftruncate(&file, length).unwrap();
        file.into()
    }

    fn region(physical: u64, size: u64, user: u64, offset: u64) -> VhostUserMemoryRegion {
        VhostUserMemoryRegion::new(physical, size, user, offset)
    }

    #[test]
    fn regions_are_found_by_the_front_ends_addresses_in_whatever_order_they_come() {
        let mut memory = AnnouncedMemory::new(1 << 20);
        let table = [region(8 * PAGE, PAGE, 0x9000, PAGE), region(PAGE, 2 * PAGE, 0x5000, 0)];
        let mapped = memory.announce(&table, vec![file(2 * PAGE), file(2 * PAGE)]).unwrap();
        assert_eq!(mapped.num_regions(), 2);
        let found = [0x5000, 0x6FFF, 0x7000, 0x9010, 0x4FFF].map(|place| memory.physical(place));
        assert_eq!(found, [Some(PAGE), Some(3 * PAGE - 1), None, Some(8 * PAGE + 0x10), None]);
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let mut memory = AnnouncedMemory::new(1 << 20);
        let _mapped = memory.announce(&[region(0, PAGE, 0x5000, 0)], vec![file(PAGE)]).unwrap();
        let beyond = memory.announce(&[region(0, 2 * PAGE, 0x6000, 0)], vec![file(PAGE)]);
        assert!(matches!(beyond, Err(MemoryError::BeyondFile { end: 0x2000, length: 0x1000, .. })));
        let both = [region(0, 2 * PAGE, 0x6000, 0), region(PAGE, PAGE, 0x8000, 0)];
        let overlap = memory.announce(&both, vec![file(2 * PAGE), file(PAGE)]);
        assert!(matches!(overlap, Err(MemoryError::Table(_))));
        assert_eq!((memory.physical(0x5000), memory.physical(0x6000)), (Some(0), None));
    }

    #[test]
    fn what_is_still_in_use_counts_and_what_is_not_does_not() {
        let mut memory = AnnouncedMemory::new(4 * PAGE);
        let announce = |memory: &mut AnnouncedMemory| {
            memory.announce(&[region(0, 4 * PAGE, 0x5000, 0)], vec![file(4 * PAGE)])
        };
        let too_much = memory.announce(&[region(0, 5 * PAGE, 0x5000, 0)], vec![file(5 * PAGE)]);
        assert!(matches!(too_much, Err(MemoryError::TooMuch { size: 0x5000, limit: 0x4000 })));
        let (first, second) = (announce(&mut memory).unwrap(), announce(&mut memory).unwrap());
        assert!(matches!(announce(&mut memory), Err(MemoryError::TooOften)));
        drop(first);
        let third = announce(&mut memory).unwrap();
        drop((second, third));
    }

    #[test]
    fn a_sealed_memfd_is_accepted_and_a_read_only_one_is_refused() {
        let mut memory = AnnouncedMemory::new(1 << 20);
        let sealed = file(PAGE);
        fcntl_add_seals(&sealed, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        assert!(memory.announce(&[region(0, PAGE, 0x5000, 0)], vec![sealed]).is_ok());
        let read_only = file(PAGE);
        fcntl_add_seals(&read_only, SealFlags::WRITE).unwrap();
        let refused = memory.announce(&[region(0, PAGE, 0x5000, 0)], vec![read_only]);
        assert!(matches!(refused, Err(MemoryError::Map { .. })));
    }
}
