// SPDX-License-Identifier: MIT OR Apache-2.0

//! A snapshot of where a guest's physical memory is mapped in this process.

use super::region::Region;
use super::words::{Words, word_at};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{PhysicalAddress, PhysicalPage, Segment};
use bellhop_protocol::PAGE_SIZE;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vm_memory::{
    Address, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, VolatileMemory, VolatileSlice,
};

/// A range of physical memory that is mapped here.
#[derive(Debug)]
pub struct Mapping {
    /// The mapping.
    pub region: Region,
    /// Offset in the mapping of the first byte.
    pub base: u64,
    /// Physical address of the first byte.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
}

impl Mapping {
    /// Offset in the mapping of `length` bytes at a physical address, if the mapping contains them all.
    fn offset_of(&self, address: u64, length: u64) -> Option<u64> {
        let offset = address.checked_sub(self.start)?;
        if offset.checked_add(length)? > self.length {
            return None;
        }
        self.base.checked_add(offset)
    }
}

/// The place of a page, as cached by a TLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Index of the mapping in its [`AddressMap`].
    mapping: u32,
    /// Offset in the mapping's region.
    offset: u64,
}

impl Place {
    /// Returns whether it is in the segment of fence values and logs, which engines and the control plane access as
    /// words.
    #[inline]
    pub fn has_host_words(self) -> bool {
        matches!(self.mapping as usize, FENCES | CROSS_ADAPTER)
    }

    /// How many bytes it is behind another place of the same mapping, negative if it is before that.
    pub fn distance_from(self, other: Self) -> Option<i64> {
        let distance = self.offset.wrapping_sub(other.offset).cast_signed();
        (self.mapping == other.mapping).then_some(distance)
    }

    /// The place `bytes` earlier.
    #[inline]
    pub fn minus(self, bytes: u64) -> Self {
        Self { offset: self.offset.wrapping_sub(bytes), ..self }
    }

    /// The place `bytes` later.
    #[inline]
    pub fn plus(self, bytes: u64) -> Self {
        Self { offset: self.offset.wrapping_add(bytes), ..self }
    }
}

/// The host memory of a guest. It does not change while the guest exists.
#[derive(Debug)]
pub struct HostMappings {
    /// The segment `Local`.
    pub local: Mapping,
    /// The segment `Private`.
    pub private: Mapping,
    /// The segment `Backing`.
    pub backing: Mapping,
    /// The segment `Fence`.
    pub fences: Mapping,
    /// The segment `CrossAdapter`, which all guests share.
    pub cross_adapter: Mapping,
    /// The guest's paging buffers and DMA buffers, which no page-table entry can name.
    pub buffers: Mapping,
    /// Where the segment `Private` ends for kernels: fences' values may follow. See
    /// [`HostMemory::keep_from_kernels`](super::host_memory::HostMemory::keep_from_kernels).
    pub private_end: Arc<AtomicU64>,
}

/// Indices of [`HostMappings`] among the mappings. The guest's own memory follows.
const LOCAL: usize = 0;
const PRIVATE: usize = 1;
const BACKING: usize = 2;
const FENCES: usize = 3;
const CROSS_ADAPTER: usize = 4;
const BUFFERS: usize = 5;
const SYSTEM: usize = 6;

/// The host memory of a guest and one snapshot of the guest's own memory.
///
/// A snapshot never changes. When the guest's memory changes, the guest gets another snapshot, and a TLB flush
/// prevents look-ups of one snapshot's places in the other.
#[derive(Debug)]
pub struct AddressMap {
    /// The host's mappings, then the guest's memory in the order of its addresses.
    mappings: Box<[Mapping]>,
    /// As in [`HostMappings`].
    private_end: Arc<AtomicU64>,
}

impl AddressMap {
    /// Takes a snapshot.
    pub fn new(host: HostMappings, memory: &GuestMemoryMmap) -> Self {
        let system = memory.iter().map(|region| Mapping {
            region: region.get_mmap().into(),
            base: 0,
            start: region.start_addr().raw_value(),
            length: region.len(),
        });
        let HostMappings { local, private, backing, fences, cross_adapter, buffers, private_end } =
            host;
        let host = [local, private, backing, fences, cross_adapter, buffers];
        Self { mappings: host.into_iter().chain(system).collect(), private_end }
    }

    /// Bytes of all memory here.
    pub fn bytes(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.length).sum()
    }

    /// The place of a page; `None` unless all of it is mapped, in one piece.
    pub fn locate(&self, page: PhysicalPage, size: PageSize) -> Option<Place> {
        self.locate_in(self.mappings_of(page.segment), page.address, size)
    }

    fn mappings_of(&self, segment: Segment) -> Range<usize> {
        match segment {
            Segment::Local => LOCAL..PRIVATE,
            Segment::Private => PRIVATE..BACKING,
            Segment::Backing => BACKING..FENCES,
            Segment::Fence => FENCES..CROSS_ADAPTER,
            Segment::CrossAdapter => CROSS_ADAPTER..BUFFERS,
            Segment::System => SYSTEM..self.mappings.len(),
        }
    }

    /// The place of a page, if it is where kernels may reach: not where values of fences are.
    pub fn locate_shareable(&self, page: PhysicalPage, size: PageSize) -> Option<Place> {
        match page.segment {
            Segment::Fence | Segment::CrossAdapter => None,
            Segment::Private if !self.is_before_values(page, size) => None,
            Segment::Local | Segment::Private | Segment::Backing | Segment::System => {
                self.locate(page, size)
            }
        }
    }

    /// Whether a page of the segment `Private` ends before the values of fences.
    fn is_before_values(&self, page: PhysicalPage, size: PageSize) -> bool {
        // Relaxed: the kernel reserves the values' memory before the guest runs, so no page of it was ever given out.
        let end = self.private_end.load(Ordering::Relaxed);
        page.address.checked_add(size.bytes()).is_some_and(|page_end| page_end <= end)
    }

    /// The place of bytes in one piece of a segment; `None` unless all of them are mapped there.
    pub fn locate_bytes(&self, address: PhysicalAddress, length: u64) -> Option<Place> {
        self.locate_length(self.mappings_of(address.segment), address.address, length)
    }

    /// The file that is mapped at a place, and the place's offset in it; `None` if no file is, as in tests.
    pub fn file_at(&self, place: Place) -> Option<(&File, u64)> {
        let mapping = self.mappings.get(place.mapping as usize)?;
        let file = mapping.region.file_offset()?;
        Some((file.file(), file.start().checked_add(place.offset)?))
    }

    /// The place of a page of the paging and DMA buffers, by its offset in all of them.
    pub fn locate_buffer(&self, offset: u64) -> Option<Place> {
        self.locate_in(BUFFERS..SYSTEM, offset, PageSize::Small)
    }

    fn locate_in(&self, mappings: Range<usize>, address: u64, size: PageSize) -> Option<Place> {
        self.locate_length(mappings, address, size.bytes())
    }

    fn locate_length(&self, mappings: Range<usize>, address: u64, length: u64) -> Option<Place> {
        let candidates = self.mappings.get(mappings.clone())?;
        mappings.zip(candidates).find_map(|(index, mapping)| {
            let offset = mapping.offset_of(address, length)?;
            Some(Place { mapping: u32::try_from(index).ok()?, offset })
        })
    }

    /// The page that contains a place; `None` if no page-table entry can name it.
    pub fn page(&self, place: Place) -> Option<PhysicalPage> {
        let index = usize::try_from(place.mapping).ok()?;
        let segment = match index {
            LOCAL => Segment::Local,
            PRIVATE => Segment::Private,
            BACKING => Segment::Backing,
            FENCES => Segment::Fence,
            CROSS_ADAPTER => Segment::CrossAdapter,
            BUFFERS => return None,
            _ => Segment::System,
        };
        let mapping = self.mappings.get(index)?;
        let address = mapping.start.checked_add(place.offset.checked_sub(mapping.base)?)?;
        Some(PhysicalPage { segment, address: address - address % PAGE_SIZE })
    }

    /// The bytes at a place; `None` if the place does not belong to this snapshot.
    #[inline]
    pub fn slice(&self, place: Place, length: usize) -> Option<VolatileSlice<'_>> {
        let mapping = self.mappings.get(place.mapping as usize)?;
        mapping.region.get_slice(usize::try_from(place.offset).ok()?, length).ok()
    }

    /// The word at a place; `None` if the place does not belong to this snapshot.
    #[inline]
    pub fn word(&self, place: Place) -> Option<&AtomicU64> {
        let mapping = self.mappings.get(place.mapping as usize)?;
        word_at(&mapping.region, place.offset)
    }

    /// `count` words from a place on, for a caller that keeps them.
    pub fn words(&self, place: Place, count: usize) -> Option<Words> {
        let mapping = self.mappings.get(place.mapping as usize)?;
        Words::new(mapping.region.clone(), place.offset, count)
    }

    /// Returns whether a whole range of guest-physical addresses is the guest's memory.
    pub fn is_system_memory(&self, address: u64, length: u64) -> bool {
        let Some(end) = address.checked_add(length) else { return false };
        let mut next = address;
        // Regions are ordered by address, so one pass suffices.
        for mapping in self.mappings.iter().skip(SYSTEM) {
            if next < end && mapping.offset_of(next, 1).is_some() {
                next = mapping.start.saturating_add(mapping.length);
            }
        }
        next >= end
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};
    use vm_memory::{FileOffset, GuestAddress, MmapRegion};

    /// Segments in one file, and 4 MiB of the guest's own memory, from address 0 on, in another.
    pub fn shared_map() -> AddressMap {
        let file = |size: u64| {
            let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
            file.set_len(size).unwrap();
            FileOffset::new(file, 0)
        };
        let ranges = [(GuestAddress(0), 4 << 20, Some(file(4 << 20)))];
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).unwrap();
        let region = Region::from(MmapRegion::from_file(file(0x2_0000), 0x2_0000).unwrap());
        let part = |base, length| Mapping { region: region.clone(), base, start: 0, length };
        let host = HostMappings {
            local: part(0, 0x8000),
            private: part(0x8000, 0x8000),
            backing: part(0x1_0000, 0x8000),
            fences: part(0x1_8000, 0x1000),
            cross_adapter: part(0x1_9000, 0x1000),
            buffers: part(0x1_a000, 0x1000),
            private_end: Arc::new(AtomicU64::new(0x7000)),
        };
        AddressMap::new(host, &memory)
    }

    fn map(ranges: &[(u64, usize)]) -> AddressMap {
        let ranges: Vec<_> = ranges.iter().map(|&(at, len)| (GuestAddress(at), len)).collect();
        let memory = GuestMemoryMmap::from_ranges(&ranges).unwrap();
        let region = Region::from(MmapRegion::new(0xa000).unwrap());
        let part = |base, length| Mapping { region: region.clone(), base, start: 0, length };
        let host = HostMappings {
            local: part(0x1000, 0x3000),
            private: part(0x4000, 0x1000),
            backing: part(0x5000, 0x2000),
            fences: part(0x7000, 0x1000),
            cross_adapter: part(0x8000, 0x1000),
            buffers: part(0x9000, 0x1000),
            private_end: Arc::new(AtomicU64::new(0x1000)),
        };
        AddressMap::new(host, &memory)
    }

    const SMALL: PageSize = PageSize::Small;

    fn page(segment: Segment, address: u64) -> PhysicalPage {
        PhysicalPage { segment, address }
    }

    #[test]
    fn a_page_is_found_in_its_own_segment_and_only_when_all_of_it_is_there() {
        let map = map(&[(0x1000, 0x1000), (0x10_0000, 0x1800), (0x20_0000, 0x1_f000)]);
        let place = |mapping, offset| Some(Place { mapping, offset });
        assert_eq!(map.locate(page(Segment::Local, 0x2000), SMALL), place(0, 0x3000));
        assert_eq!(map.locate(page(Segment::Local, 0x3000), SMALL), None);
        let region = page(Segment::System, 0x20_0000);
        assert_eq!(map.locate(region, PageSize::Large), place(8, 0));
        let behind = page(Segment::System, 0x21_0000);
        assert_eq!(map.locate(behind, SMALL), place(8, 0x10000));
        assert_eq!(map.locate(behind, PageSize::Large), None);
        assert_eq!(map.locate(page(Segment::System, 0), SMALL), None);
        assert_eq!(map.locate(page(Segment::Private, 0), SMALL), place(1, 0x4000));
        assert_eq!(map.locate(page(Segment::Private, 0x1000), SMALL), None);
        assert_eq!(map.locate(page(Segment::Backing, 0x1000), SMALL), place(2, 0x6000));
        assert_eq!(map.locate(page(Segment::Backing, 0x2000), SMALL), None);
        assert_eq!(map.locate(page(Segment::Fence, 0), SMALL), place(3, 0x7000));
        assert_eq!(map.locate(page(Segment::Fence, 0x1000), SMALL), None);
        assert_eq!(map.locate(page(Segment::CrossAdapter, 0), SMALL), place(4, 0x8000));
        assert_eq!(map.locate(page(Segment::CrossAdapter, 0x1000), SMALL), None);
        assert_eq!(map.locate_buffer(0), place(5, 0x9000));
        assert_eq!(map.locate_buffer(0x1000), None);
        for page in [
            page(Segment::Backing, 0x1000),
            page(Segment::Fence, 0),
            page(Segment::CrossAdapter, 0),
            page(Segment::System, 0x10_0000),
        ] {
            let place = map.locate(page, SMALL).unwrap();
            assert_eq!(map.page(place.plus(0xfff)), Some(page));
        }
        assert_eq!(map.page(map.locate_buffer(0).unwrap()), None);
        assert_eq!(map.locate(page(Segment::System, 0x1000), SMALL), place(6, 0));
        assert_eq!(map.locate(page(Segment::System, 0x10_0000), SMALL), place(7, 0));
        assert_eq!(map.locate(page(Segment::System, 0x10_1000), SMALL), None);
        assert_eq!(map.locate(page(Segment::System, u64::MAX - 0xfff), SMALL), None);
    }

    #[test]
    fn a_range_is_guest_memory_when_no_byte_of_it_is_missing() {
        let map = map(&[(0x1000, 0x1000), (0x2000, 0x1000), (0x8000, 0x1000)]);
        assert!(map.is_system_memory(0x1000, 0x2000));
        assert!(map.is_system_memory(0x1fff, 2));
        assert!(!map.is_system_memory(0xfff, 2));
        assert!(!map.is_system_memory(0x2000, 0x6001));
        assert!(!map.is_system_memory(u64::MAX, 2));
    }
}
