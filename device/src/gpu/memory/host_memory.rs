// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a file is mapped inside of another mapping")]

//! Host memory that belongs to one guest and that no guest can map: the segments outside the BAR, the paging
//! buffers and the DMA buffers.
//!
//! Two memfds: one with what kernels of the guest may reach, which the guest's workers receive, and one with the rest,
//! which nobody receives. A page costs nothing until it is written; punching a hole frees it. The configuration bounds
//! their sizes.

use super::address_map::{HostMappings, Mapping};
use super::compression::METADATA_SIZE;
use super::region::Region;
use bellhop_host_kmd::ddi::dma_buffer::DMA_BUFFERS_SIZE;
use bellhop_host_kmd::ddi::paging::PAGING_BUFFER_SIZE;
use bellhop_host_kmd::hardware::{PhysicalAddress, Segment, SegmentSizes, fence_segment_size};
use bellhop_protocol::PAGE_SIZE;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// Maximum number of submitted but uncompleted paging buffers of a guest.
pub const PAGING_BUFFERS: u64 = 32;
/// Bytes of all paging buffers.
pub const PAGING_BUFFERS_SIZE: u64 = PAGING_BUFFERS * PAGING_BUFFER_SIZE as u64;
/// Bytes of the paging buffers and the DMA buffers.
const BUFFERS_SIZE: u64 = PAGING_BUFFERS_SIZE + DMA_BUFFERS_SIZE;

/// One guest's host memory: the paging buffers and the DMA buffers, fence values and logs, the segment `Private`,
/// the segment `Backing`, and the metadata of all possible pages of the guest, in this order.
///
/// `all` maps them in this order. Of its file, which stays here, the part for the segments stays empty: `all` shows the
/// segments' own file there. The segments have a second mapping, whose file is the one that it says.
#[derive(Debug)]
pub struct HostMemory {
    file: Arc<File>,
    all: Region,
    /// The segments `Private` and `Backing`. A worker receives the file, so its length is sealed: a shorter one would
    /// raise SIGBUS here.
    shared_file: Arc<File>,
    segments: Region,
    sizes: SegmentSizes,
    /// Bytes of fence values and logs.
    fences: u64,
    /// Where the segment `Private` ends for kernels.
    private_end: Arc<AtomicU64>,
}

impl HostMemory {
    /// Zeroed memory.
    ///
    /// # Errors
    /// If the operating system has no memory, or the sizes exceed the address space.
    pub fn new(sizes: SegmentSizes, fence_count: u32) -> io::Result<Self> {
        let fences = fence_segment_size(fence_count);
        let before = BUFFERS_SIZE.checked_add(fences).ok_or(io::ErrorKind::InvalidInput)?;
        let length = sizes.private.checked_add(sizes.backing);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        let size = before
            .checked_add(length)
            .and_then(|size| size.checked_add(METADATA_SIZE))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let (file, all) = memfd("bellhop-memory", size)?;
        // A mapping has at least a page.
        let (shared_file, segments) = memfd("bellhop-segments", length.max(PAGE_SIZE))?;
        if length > 0 {
            show(&all, before, &shared_file, length)?;
        }
        let private_end = Arc::new(AtomicU64::new(sizes.private));
        Ok(Self { file, all, shared_file, segments, sizes, fences, private_end })
    }

    fn mapping(&self, base: u64, length: u64) -> Mapping {
        Mapping { region: self.all.clone(), base, start: 0, length }
    }

    fn segment(&self, base: u64, length: u64) -> Mapping {
        Mapping { region: self.segments.clone(), base, start: 0, length }
    }

    /// Mappings of all of it, together with the given local memory and the given cross-adapter memory.
    pub fn mappings(&self, local: Mapping, cross_adapter: Mapping) -> HostMappings {
        let (private, backing, fences) = (self.private(), self.backing(), self.fences());
        let (buffers, private_end) = (self.buffers(), Arc::clone(&self.private_end));
        HostMappings { local, private, backing, fences, cross_adapter, buffers, private_end }
    }

    /// The mapping of all of it.
    pub fn region(&self) -> Region {
        self.all.clone()
    }

    /// Offset in [`Self::region`] of an address in one of the segments.
    pub fn offset_of(&self, address: PhysicalAddress) -> Option<u64> {
        let (mapping, before) = match address.segment {
            Segment::Private => (self.private(), self.before_segments()),
            Segment::Backing => (self.backing(), self.before_segments()),
            Segment::Fence => (self.fences(), 0),
            Segment::System | Segment::Local | Segment::CrossAdapter => return None,
        };
        (address.address < mapping.length).then(|| before + mapping.base + address.address)
    }

    /// Control plane: a fence has a value here. If that is in the segment `Private`, kernels reach its page no more, nor
    /// those behind it: the kernel has all values there at the end. Relaxed: see [`AddressMap`](super::address_map).
    pub fn keep_from_kernels(&self, value: PhysicalAddress) {
        if value.segment == Segment::Private {
            self.private_end
                .fetch_min(value.address - value.address % PAGE_SIZE, Ordering::Relaxed);
        }
    }

    /// Offset in [`Self::region`] of the segments `Private` and `Backing`.
    fn before_segments(&self) -> u64 {
        BUFFERS_SIZE + self.fences
    }

    /// The paging buffers, one after another, and then the DMA buffers.
    fn buffers(&self) -> Mapping {
        self.mapping(0, BUFFERS_SIZE)
    }

    /// The segment `Fence`.
    pub fn fences(&self) -> Mapping {
        self.mapping(BUFFERS_SIZE, self.fences)
    }

    /// The segment `Private`.
    pub fn private(&self) -> Mapping {
        self.segment(0, self.sizes.private)
    }

    /// The segment `Backing`.
    pub fn backing(&self) -> Mapping {
        self.segment(self.sizes.private, self.sizes.backing)
    }

    /// The metadata, which no page-table entry can name.
    pub fn metadata(&self) -> Mapping {
        let base = self.before_segments() + self.sizes.private + self.sizes.backing;
        self.mapping(base, METADATA_SIZE)
    }

    /// Control plane: fills the paging buffer `index`. The engine has completed its earlier content.
    ///
    /// # Errors
    /// If the packets do not fit.
    #[expect(clippy::disallowed_methods, reason = "memory that no front end and no worker has")]
    pub fn write_paging_buffer(&self, index: u64, packets: &[u8]) -> io::Result<()> {
        let size = PAGING_BUFFER_SIZE;
        let offset = usize::try_from(index).map_err(io::Error::other)?.saturating_mul(size);
        let buffer = self.all.get_slice(offset, size).map_err(io::Error::other)?;
        buffer.write_slice(packets, 0).map_err(io::Error::other)
    }

    /// Control plane: writes packets at this offset of the DMA buffers. No engine executes the earlier content any
    /// more.
    ///
    /// # Errors
    /// If the packets do not fit there.
    #[expect(clippy::disallowed_methods, reason = "memory that no front end and no worker has")]
    pub fn write_dma_buffer(&self, offset: u64, packets: &[u8]) -> io::Result<()> {
        let (start, size) = (PAGING_BUFFERS_SIZE as usize, DMA_BUFFERS_SIZE as usize);
        let buffers = self.all.get_slice(start, size).map_err(io::Error::other)?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        buffers.write_slice(packets, offset).map_err(io::Error::other)
    }

    /// Zeroes a range of one of the [`Mapping`]s and frees its pages.
    ///
    /// # Errors
    /// If the range is not in it, or the operating system refuses.
    pub fn zero(&self, mapping: &Mapping, offset: u64, length: u64) -> io::Result<()> {
        let is_shared = mapping.region.is(&self.segments);
        let file = if is_shared { &self.shared_file } else { &self.file };
        zero(file, mapping, offset, length)
    }
}

/// A file in memory whose length never changes, and its mapping.
fn memfd(name: &str, size: u64) -> io::Result<(Arc<File>, Region)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create(name, flags)?);
    file.set_len(size)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let file = Arc::new(file);
    let size = usize::try_from(size).map_err(io::Error::other)?;
    let mapped = MmapRegion::from_file(FileOffset::from_arc(Arc::clone(&file), 0), size);
    Ok((file, mapped.map_err(io::Error::other)?.into()))
}

/// Shows the first `length` bytes of a file at an offset of a mapping that nobody uses yet.
fn show(region: &MmapRegion, offset: u64, file: &File, length: u64) -> io::Result<()> {
    let convert = |size| usize::try_from(size).map_err(io::Error::other);
    let (offset, length) = (convert(offset)?, convert(length)?);
    let part = region.get_slice(offset, length).map_err(io::Error::other)?;
    let (protection, flags) =
        (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    // SAFETY: the range is inside the region, as `get_slice` says, so this replaces only pages of it, which nobody
    // accesses yet. The region unmaps them with its own when it is dropped.
    unsafe { mmap(part.ptr_guard_mut().as_ptr().cast(), length, protection, flags, file, 0)? };
    Ok(())
}

/// Zeroes a range of a file's mapping and frees its pages.
///
/// # Errors
/// If the range is not in it, or the operating system refuses.
#[expect(
    clippy::disallowed_methods,
    reason = "the hand, which the control plane gives up when it stands"
)]
pub fn zero(file: &File, mapping: &Mapping, offset: u64, length: u64) -> io::Result<()> {
    let end = offset.checked_add(length).ok_or(io::ErrorKind::InvalidInput)?;
    if end > mapping.length {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if length == 0 {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, mapping.base + offset, length)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    const SIZES: SegmentSizes = SegmentSizes { private: 0x4000, backing: 0x8000, aperture: 0 };

    fn bytes(mapping: &Mapping) -> Vec<u8> {
        let mut bytes = vec![0; mapping.length as usize];
        mapping.region.as_volatile_slice().read_slice(&mut bytes, mapping.base as usize).unwrap();
        bytes
    }

    fn fill(mapping: &Mapping, byte: u8) {
        let bytes = vec![byte; mapping.length as usize];
        mapping.region.as_volatile_slice().write_slice(&bytes, mapping.base as usize).unwrap();
    }

    /// Writes the first and the last page.
    fn edges(mapping: &Mapping, byte: u8) {
        for at in [0, mapping.length - PAGE_SIZE] {
            let offset = (mapping.base + at) as usize;
            let page = [byte; PAGE_SIZE as usize];
            mapping.region.as_volatile_slice().write_slice(&page, offset).unwrap();
        }
    }

    #[test]
    fn segments_do_not_overlap_and_zeroing_a_range_zeroes_no_other_byte() {
        let memory = HostMemory::new(SIZES, 64).unwrap();
        let (private, backing) = (memory.private(), memory.backing());
        fill(&private, 1);
        fill(&backing, 2);
        memory.write_paging_buffer(PAGING_BUFFERS - 1, &[3; PAGING_BUFFER_SIZE]).unwrap();
        memory.zero(&private, 0x1000, 0x2000).unwrap();
        let expected = [vec![1; 0x1000], vec![0; 0x2000], vec![1; 0x1000]].concat();
        assert_eq!(bytes(&private), expected);
        assert_eq!(bytes(&backing), vec![2; 0x8000]);
        memory.write_dma_buffer(0, &[4; 0x1000]).unwrap();
        memory.write_dma_buffer(DMA_BUFFERS_SIZE - 0x1000, &[5; 0x1000]).unwrap();
        let buffers = bytes(&memory.buffers());
        let (paging, dma) = buffers.split_at(PAGING_BUFFERS_SIZE as usize);
        assert_eq!(paging[paging.len() - PAGING_BUFFER_SIZE..], [3; PAGING_BUFFER_SIZE]);
        assert_eq!(
            (&dma[..0x1000], &dma[dma.len() - 0x1000..]),
            (&[4; 0x1000][..], &[5; 0x1000][..])
        );
        assert_eq!(bytes(&private), expected);
    }

    /// What a worker could do with the file that it is sent.
    #[test]
    fn the_segments_file_has_nothing_but_the_segments_and_keeps_its_length() {
        let memory = HostMemory::new(SIZES, 64).unwrap();
        let file = |mapping: &Mapping| {
            let offset = mapping.region.file_offset().expect("a file");
            assert_eq!(offset.start(), 0);
            offset.arc().metadata().map(|metadata| (metadata.ino(), metadata.len())).unwrap()
        };
        let (private, backing) = (memory.private(), memory.backing());
        let shared = file(&private);
        assert_eq!((shared.1, shared), (SIZES.private + SIZES.backing, file(&backing)));
        assert_eq!((private.base, backing.base), (0, SIZES.private));
        for other in [memory.buffers(), memory.fences(), memory.metadata()] {
            assert_ne!(file(&other).0, shared.0);
            edges(&other, 9);
        }
        assert_eq!(bytes(&private), vec![0; SIZES.private as usize]);
        let shared = private.region.file_offset().unwrap().file();
        assert!(shared.set_len(0).is_err() && shared.set_len(1 << 20).is_err());
    }

    /// Fence values may be in either segment, and engines reach all of them through one mapping.
    #[test]
    fn the_mapping_of_everything_shows_the_segments_at_the_offsets_of_their_addresses() {
        let memory = HostMemory::new(SIZES, 64).unwrap();
        for (segment, mapping) in [
            (Segment::Private, memory.private()),
            (Segment::Backing, memory.backing()),
            (Segment::Fence, memory.fences()),
        ] {
            let last = mapping.length - 8;
            let offset = memory.offset_of(PhysicalAddress { segment, address: last }).unwrap();
            let all = memory.region();
            all.as_volatile_slice().write_slice(&[7; 8], offset as usize).unwrap();
            assert_eq!(bytes(&mapping)[last as usize..], [7; 8]);
            memory.zero(&mapping, 0, mapping.length).unwrap();
            assert_eq!(bytes(&mapping)[last as usize..], [0; 8]);
            let beyond = PhysicalAddress { segment, address: mapping.length };
            assert_eq!(memory.offset_of(beyond), None);
        }
        edges(&memory.metadata(), 3);
        assert_eq!(bytes(&memory.backing()), vec![0; SIZES.backing as usize]);
    }

    #[test]
    fn kernels_reach_private_memory_up_to_the_first_value_of_a_fence() {
        let memory = HostMemory::new(SIZES, 64).unwrap();
        let end = || memory.private_end.load(Ordering::Relaxed);
        for (segment, address, expected) in [
            (Segment::Fence, 0, 0x4000),
            (Segment::Private, 0x3040, 0x3000),
            (Segment::Private, 0x2fff, 0x2000),
            (Segment::Private, 0x3000, 0x2000),
        ] {
            memory.keep_from_kernels(PhysicalAddress { segment, address });
            assert_eq!(end(), expected);
        }
    }

    #[test]
    fn what_is_not_there_is_neither_zeroed_nor_written() {
        let memory = HostMemory::new(SIZES, 64).unwrap();
        let private = memory.private();
        assert!(memory.zero(&private, 0x3000, 0x1001).is_err());
        assert!(memory.zero(&private, u64::MAX, 2).is_err());
        assert!(memory.zero(&private, 0x4000, 0).is_ok());
        assert!(memory.write_paging_buffer(0, &[0; PAGING_BUFFER_SIZE + 1]).is_err());
        assert!(memory.write_paging_buffer(u64::MAX, &[0]).is_err());
        assert!(memory.write_dma_buffer(DMA_BUFFERS_SIZE - 1, &[0; 2]).is_err());
        assert!(memory.write_dma_buffer(u64::MAX, &[0]).is_err());
    }

    #[test]
    fn memory_that_was_never_written_costs_nothing() {
        let sizes = SegmentSizes { private: 64 << 30, backing: 256 << 30, aperture: 0 };
        let memory = HostMemory::new(sizes, 64).unwrap();
        let blocks = || {
            let files = [&memory.file, &memory.shared_file];
            files.map(|file| file.metadata().unwrap().blocks()).iter().sum::<u64>()
        };
        assert_eq!(blocks(), 0);
        let end = memory.backing();
        end.region
            .as_volatile_slice()
            .write_slice(&[1], (end.base + end.length - 1) as usize)
            .unwrap();
        assert_ne!(blocks(), 0);
        memory.zero(&end, end.length - 0x1000, 0x1000).unwrap();
        assert_eq!(blocks(), 0);
    }
}
