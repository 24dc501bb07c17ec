//! The BAR as the driver sees it: words at offsets that the device gave.

use crate::error::Error;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{BAR_MAGIC, BarHeader};
use bellhop_protocol::features::Version;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vm_memory::{Bytes, MmapRegion, VolatileMemory, VolatileSlice};
use zerocopy::{FromZeros, IntoBytes};

/// The mapped BAR.
#[derive(Clone)]
pub(crate) struct Bar(Arc<MmapRegion>);

impl Bar {
    /// Takes a mapping over, once its header says that it is one.
    pub(crate) fn new(region: Arc<MmapRegion>) -> Result<Self, Error> {
        let bar = Self(region);
        let mut header = BarHeader::new_zeroed();
        bar.0
            .as_volatile_slice()
            .read_slice(header.as_mut_bytes(), 0)
            .map_err(|_| Error::BadBar("it is smaller than its header"))?;
        if header.magic != BAR_MAGIC {
            return Err(Error::BadBar("it does not begin with the magic"));
        }
        if !Version::CURRENT.is_compatible_with(header.version) {
            return Err(Error::Version { device: header.version, driver: Version::CURRENT });
        }
        let size = bar.0.size() as u64;
        let areas = header.areas.get(..header.area_count as usize);
        let areas = areas.ok_or(Error::BadBar("its header names more areas than it can"))?;
        for area in areas {
            let end = area.offset.checked_add(area.length);
            if !area.offset.is_multiple_of(PAGE_SIZE) || end.is_none_or(|end| end > size) {
                return Err(Error::BadBar("an area lies outside it"));
            }
        }
        Ok(bar)
    }

    /// The word at `offset`.
    #[inline]
    pub(crate) fn word(&self, offset: u64) -> Result<&AtomicU64, Error> {
        let outside = Error::BadBar("an offset that the device gave lies outside it");
        let Ok(offset) = usize::try_from(offset) else { return Err(outside) };
        self.0.get_atomic_ref(offset).map_err(|_| outside)
    }

    /// A range of local memory.
    pub(crate) fn slice(&self, offset: u64, length: usize) -> Option<VolatileSlice<'_>> {
        self.0.get_slice(usize::try_from(offset).ok()?, length).ok()
    }
}
