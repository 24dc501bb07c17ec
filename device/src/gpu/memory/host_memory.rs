// SPDX-License-Identifier: MIT OR Apache-2.0

//! Host memory that belongs to one guest and that no guest can map: the segments outside the BAR, the paging
//! buffers and the DMA buffers.
//!
//! All of it is one memfd. A page costs nothing until it is written; punching a hole frees it. The configuration
//! bounds its size.

use super::address_map::{HostMappings, Mapping};
use super::compression::METADATA_SIZE;
use bellhop_host_kmd::ddi::dma_buffer::DMA_BUFFERS_SIZE;
use bellhop_host_kmd::ddi::paging::PAGING_BUFFER_SIZE;
use bellhop_host_kmd::hardware::{PhysicalAddress, Segment, SegmentSizes, fence_segment_size};
use rustix::fs::{FallocateFlags, MemfdFlags};
use std::fs::File;
use std::io;
use std::sync::Arc;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// Maximum number of submitted but uncompleted paging buffers of a guest.
pub const PAGING_BUFFERS: u64 = 32;
/// Bytes of all paging buffers.
pub const PAGING_BUFFERS_SIZE: u64 = PAGING_BUFFERS * PAGING_BUFFER_SIZE as u64;
/// Bytes of the paging buffers and the DMA buffers.
const BUFFERS_SIZE: u64 = PAGING_BUFFERS_SIZE + DMA_BUFFERS_SIZE;

/// One guest's host memory: the paging buffers and the DMA buffers, fence values and logs, the segment `Private`,
/// the segment `Backing`, and the metadata of all possible pages of the guest, in this order.
#[derive(Debug)]
pub struct HostMemory {
    file: Arc<File>,
    region: Arc<MmapRegion>,
    sizes: SegmentSizes,
    /// Bytes of fence values and logs.
    fences: u64,
}

impl HostMemory {
    /// Zeroed memory.
    ///
    /// # Errors
    /// If the operating system has no memory, or the sizes exceed the address space.
    pub fn new(sizes: SegmentSizes, fence_count: u32) -> io::Result<Self> {
        let fences = fence_segment_size(fence_count);
        let size = BUFFERS_SIZE
            .checked_add(fences)
            .and_then(|size| size.checked_add(sizes.private))
            .and_then(|size| size.checked_add(sizes.backing))
            .and_then(|size| size.checked_add(METADATA_SIZE))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let file = File::from(rustix::fs::memfd_create("bellhop-memory", MemfdFlags::CLOEXEC)?);
        file.set_len(size)?;
        let file = Arc::new(file);
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let mapped = MmapRegion::from_file(FileOffset::from_arc(Arc::clone(&file), 0), size);
        Ok(Self { file, region: Arc::new(mapped.map_err(io::Error::other)?), sizes, fences })
    }

    fn mapping(&self, base: u64, length: u64) -> Mapping {
        Mapping { region: Arc::clone(&self.region), base, start: 0, length }
    }

    /// Mappings of all of it, together with the given local memory and the given cross-adapter memory.
    pub fn mappings(&self, local: Mapping, cross_adapter: Mapping) -> HostMappings {
        let (private, backing, fences) = (self.private(), self.backing(), self.fences());
        HostMappings { local, private, backing, fences, cross_adapter, buffers: self.buffers() }
    }

    /// The mapping of all of it.
    pub fn region(&self) -> Arc<MmapRegion> {
        Arc::clone(&self.region)
    }

    /// Offset in [`Self::region`] of an address in one of the segments.
    pub fn offset_of(&self, address: PhysicalAddress) -> Option<u64> {
        let mapping = match address.segment {
            Segment::Private => self.private(),
            Segment::Backing => self.backing(),
            Segment::Fence => self.fences(),
            Segment::System | Segment::Local | Segment::CrossAdapter => return None,
        };
        (address.address < mapping.length).then(|| mapping.base + address.address)
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
        self.mapping(BUFFERS_SIZE + self.fences, self.sizes.private)
    }

    /// The segment `Backing`.
    pub fn backing(&self) -> Mapping {
        self.mapping(BUFFERS_SIZE + self.fences + self.sizes.private, self.sizes.backing)
    }

    /// The metadata, which no page-table entry can name.
    pub fn metadata(&self) -> Mapping {
        let Mapping { base, length, .. } = self.backing();
        self.mapping(base + length, METADATA_SIZE)
    }

    /// Control plane: fills the paging buffer `index`. The engine has completed its earlier content.
    ///
    /// # Errors
    /// If the packets do not fit.
    pub fn write_paging_buffer(&self, index: u64, packets: &[u8]) -> io::Result<()> {
        let size = PAGING_BUFFER_SIZE;
        let offset = usize::try_from(index).map_err(io::Error::other)?.saturating_mul(size);
        let buffer = self.region.get_slice(offset, size).map_err(io::Error::other)?;
        buffer.write_slice(packets, 0).map_err(io::Error::other)
    }

    /// Control plane: writes packets at this offset of the DMA buffers. No engine executes the earlier content any
    /// more.
    ///
    /// # Errors
    /// If the packets do not fit there.
    pub fn write_dma_buffer(&self, offset: u64, packets: &[u8]) -> io::Result<()> {
        let (start, size) = (PAGING_BUFFERS_SIZE as usize, DMA_BUFFERS_SIZE as usize);
        let buffers = self.region.get_slice(start, size).map_err(io::Error::other)?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        buffers.write_slice(packets, offset).map_err(io::Error::other)
    }

    /// Zeroes a range of one of the [`Mapping`]s and frees its pages.
    ///
    /// # Errors
    /// If the range is not in it, or the operating system refuses.
    pub fn zero(&self, mapping: &Mapping, offset: u64, length: u64) -> io::Result<()> {
        zero(&self.file, mapping, offset, length)
    }
}

/// Zeroes a range of a file's mapping and frees its pages.
///
/// # Errors
/// If the range is not in it, or the operating system refuses.
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
        use std::os::unix::fs::MetadataExt;
        assert_eq!(memory.file.metadata().unwrap().blocks(), 0);
        let end = memory.backing();
        end.region
            .as_volatile_slice()
            .write_slice(&[1], (end.base + end.length - 1) as usize)
            .unwrap();
        memory.zero(&end, end.length - 0x1000, 0x1000).unwrap();
        assert_eq!(memory.file.metadata().unwrap().blocks(), 0);
    }
}
