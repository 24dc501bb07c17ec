// SPDX-License-Identifier: MIT OR Apache-2.0

//! The areas of the BAR as the driver accesses them: each in the BAR, or in donated memory.
//!
//! The device names bytes by their offset in the BAR, wherever they are.

use crate::error::Error;
use crate::link::words::{Word, Words};
use crate::transport::{BarMapping, SystemMemory};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{Area, AreaKind, BAR_MAGIC, BarHeader};
use bellhop_protocol::features::Version;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vm_memory::{Bytes, MmapRegion, VolatileMemory, VolatileSlice};
use zerocopy::{FromZeros, IntoBytes};

/// The error for an offset outside all areas.
pub(crate) const OUTSIDE: Error = Error::BadBar("an offset that the device gave lies outside it");

/// Memory that the device named by an offset in the BAR.
#[derive(Clone)]
pub(crate) struct Place {
    region: Arc<MmapRegion>,
    offset: usize,
    length: usize,
}

impl Place {
    /// Its bytes.
    pub(crate) fn slice(&self) -> Result<VolatileSlice<'_>, Error> {
        self.region.get_slice(self.offset, self.length).map_err(|_| OUTSIDE)
    }

    /// Its words, with the checks done once.
    pub(crate) fn words(&self) -> Result<Words, Error> {
        Words::new(Arc::clone(&self.region), self.offset, self.length).ok_or(OUTSIDE)
    }

    /// The word at byte `offset`.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> Result<&AtomicU64, Error> {
        let end = offset.checked_add(size_of::<u64>());
        if end.is_none_or(|end| end > self.length) {
            return Err(OUTSIDE);
        }
        self.region.get_atomic_ref(self.offset + offset).map_err(|_| OUTSIDE)
    }
}

/// An area that the driver can access.
struct Reachable {
    /// Offsets in the BAR.
    start: u64,
    length: u64,
    region: Arc<MmapRegion>,
    /// Offset in the region of the first byte.
    base: usize,
}

/// All areas that the driver can access.
pub(crate) struct Areas {
    areas: Vec<Reachable>,
    needs_store_fence: bool,
    /// Keeps donated memory allocated while the driver reads it.
    _donated: Vec<Arc<dyn SystemMemory>>,
}

impl Areas {
    /// The areas that a header names, each donated or in the BAR. Omits the others.
    pub(crate) fn new(
        header: &BarHeader,
        bar: Option<&BarMapping>,
        donated: BTreeMap<AreaKind, Arc<dyn SystemMemory>>,
    ) -> Result<Self, Error> {
        let mut areas = Vec::new();
        let mut written_in_bar = false;
        for area in named(header)? {
            let Area { kind, offset: start, length, .. } = *area;
            if let Some(memory) = donated.get(&kind) {
                let length = length.min(memory.len() as u64);
                let (region, base) = (Arc::clone(memory.region()), memory.offset());
                areas.push(Reachable { start, length, region, base });
            } else if let Some(bar) = bar {
                let end = start.checked_add(length);
                if end.is_none_or(|end| end > bar.region.size() as u64) {
                    return Err(Error::BadBar("an area lies outside it"));
                }
                let region = Arc::clone(&bar.region);
                areas.push(Reachable { start, length, region, base: start as usize });
                written_in_bar |= kind != AreaKind::STATUS && kind != AreaKind::FENCES;
            }
        }
        let weak = bar.is_some_and(|bar| bar.memory_type.needs_store_fence());
        let donated = donated.into_values().collect();
        Ok(Self { areas, needs_store_fence: weak && written_in_bar, _donated: donated })
    }

    /// Returns whether the driver writes to write-combining memory. A full fence must then separate work from the
    /// store that announces it.
    pub(crate) fn needs_store_fence(&self) -> bool {
        self.needs_store_fence
    }

    /// The bytes from an offset on.
    pub(crate) fn place(&self, offset: u64, length: u64) -> Result<Place, Error> {
        let end = offset.checked_add(length).ok_or(OUTSIDE)?;
        let holds = |area: &&Reachable| area.start <= offset && end <= area.start + area.length;
        let area = self.areas.iter().find(holds).ok_or(OUTSIDE)?;
        let offset = area.base + (offset - area.start) as usize;
        let place = Place { region: Arc::clone(&area.region), offset, length: length as usize };
        place.slice()?;
        Ok(place)
    }

    /// The words in `length` bytes from an offset on.
    pub(crate) fn words(&self, offset: u64, length: usize) -> Result<Words, Error> {
        let Place { region, offset, .. } = self.place(offset, length as u64)?;
        Words::new(region, offset, length).ok_or(OUTSIDE)
    }

    /// The word at an offset.
    pub(crate) fn word(&self, offset: u64) -> Result<Word, Error> {
        let Place { region, offset, .. } = self.place(offset, size_of::<u64>() as u64)?;
        Word::new(region, offset).ok_or(OUTSIDE)
    }
}

/// The areas that a header names, after checking the header.
fn named(header: &BarHeader) -> Result<&[Area], Error> {
    if header.magic != BAR_MAGIC {
        return Err(Error::BadBar("it does not begin with the magic"));
    }
    if !Version::CURRENT.is_compatible_with(header.version) {
        return Err(Error::Version { device: header.version, driver: Version::CURRENT });
    }
    let areas = header.areas.get(..header.area_count as usize);
    let areas = areas.ok_or(Error::BadBar("its header names more areas than it can hold"))?;
    for area in areas {
        if !area.offset.is_multiple_of(PAGE_SIZE) || area.offset.checked_add(area.length).is_none()
        {
            return Err(Error::BadBar("an area lies outside it"));
        }
    }
    Ok(areas)
}

/// The header page of a BAR.
pub(crate) fn read_header(bar: &BarMapping) -> Result<BarHeader, Error> {
    let mut header = BarHeader::new_zeroed();
    bar.region
        .as_volatile_slice()
        .read_slice(header.as_mut_bytes(), 0)
        .map_err(|_| Error::BadBar("it is smaller than its header"))?;
    named(&header)?;
    Ok(header)
}

/// An area of a header.
pub(crate) fn area_of(header: &BarHeader, kind: AreaKind) -> Result<&Area, Error> {
    let found = named(header)?.iter().find(|area| area.kind == kind);
    found.ok_or(Error::BadBar("an area is missing from it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::MemoryType;
    use bellhop_protocol::bar::BarLayout;

    const LAYOUT: BarLayout =
        BarLayout { doorbell_count: 2, fence_count: 2, local_memory: 1 << 16 };

    struct Pages(Arc<MmapRegion>);

    impl SystemMemory for Pages {
        fn region(&self) -> &Arc<MmapRegion> {
            &self.0
        }

        fn offset(&self) -> usize {
            4096
        }

        fn len(&self) -> usize {
            self.0.size() - 4096
        }

        fn extents(&self) -> &[bellhop_protocol::control::allocation::Extent] {
            &[]
        }
    }

    fn areas(memory_type: MemoryType, donated: &[AreaKind]) -> Areas {
        let region = Arc::new(MmapRegion::new(LAYOUT.bar_size() as usize).unwrap());
        let bar = BarMapping { region, memory_type };
        let header = LAYOUT.header();
        let donate = |kind: &AreaKind| {
            let length = area_of(&header, *kind).unwrap().length as usize;
            let pages = Pages(Arc::new(MmapRegion::new(length + 4096).unwrap()));
            (*kind, Arc::new(pages) as Arc<dyn SystemMemory>)
        };
        Areas::new(&header, Some(&bar), donated.iter().map(donate).collect()).unwrap()
    }

    #[test]
    fn only_stores_to_gathering_memory_need_a_fence() {
        let written = [AreaKind::DOORBELLS, AreaKind::PROGRESS, AreaKind::LOCAL_MEMORY];
        let combining = MemoryType::WriteCombining;
        assert!(areas(combining, &[]).needs_store_fence());
        assert!(areas(combining, &written[..2]).needs_store_fence());
        assert!(!areas(combining, &written).needs_store_fence());
        assert!(!areas(MemoryType::Uncached, &[]).needs_store_fence());
        assert!(!areas(MemoryType::WriteBack, &[]).needs_store_fence());
    }

    #[test]
    fn a_place_lies_in_one_area_wherever_that_is() {
        for donated in [&[][..], &[AreaKind::FENCES, AreaKind::LOCAL_MEMORY]] {
            let areas = areas(MemoryType::WriteBack, donated);
            let end = LAYOUT.local_memory() + LAYOUT.local_memory;
            assert!(areas.word(LAYOUT.fence(1)).is_ok());
            assert!(areas.place(LAYOUT.local_memory(), LAYOUT.local_memory).is_ok());
            assert!(areas.word(end).is_err());
            assert!(areas.place(LAYOUT.local_memory() - 8, 16).is_err());
            assert!(areas.place(u64::MAX, 1).is_err());
            assert!(areas.word(0).is_err());
        }
    }

    #[test]
    fn what_is_written_through_one_view_is_read_through_another() {
        use std::sync::atomic::Ordering;
        let areas = areas(MemoryType::WriteBack, &[AreaKind::LOCAL_MEMORY]);
        let offset = LAYOUT.local_memory() + 0x1238;
        areas.word(offset).unwrap().get().store(7, Ordering::Release);
        let page = areas.place(LAYOUT.local_memory() + 0x1000, PAGE_SIZE).unwrap();
        assert_eq!(page.word(0x238).unwrap().load(Ordering::Acquire), 7);
        assert!(page.word(PAGE_SIZE as usize - 7).is_err());
    }
}
