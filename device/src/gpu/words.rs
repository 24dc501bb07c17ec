//! Words of memory that engines and the control plane share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vm_memory::{MmapRegion, VolatileMemory};

/// The word at an offset of a mapping; none when it is not all there, or not aligned.
///
/// It is looked up for every fence that is signaled, and vm-memory's own looks three times as long.
#[inline]
pub fn word_at(region: &MmapRegion, offset: u64) -> Option<&AtomicU64> {
    let offset = usize::try_from(offset).ok()?;
    let end = offset.checked_add(size_of::<AtomicU64>())?;
    let word = region.as_ptr().wrapping_add(offset).cast::<AtomicU64>();
    if end > region.size() || !word.is_aligned() {
        return None;
    }
    #[expect(unsafe_code, reason = "vm-memory's own is slow")]
    // SAFETY: all of its bytes are in the mapping, which stays where it is for as long as it is borrowed, and
    // aligned. Any bytes are an `AtomicU64`, and nobody in this process refers to them other than as atomics
    // or by volatile accesses.
    unsafe {
        Some(&*word)
    }
}

/// Words of a mapping, which it keeps mapped.
#[derive(Debug)]
pub struct Words {
    region: Arc<MmapRegion>,
    first: usize,
    count: usize,
}

impl Words {
    /// `count` words from an offset on; none when they are not all there, or not aligned.
    pub fn new(region: Arc<MmapRegion>, offset: u64, count: usize) -> Option<Self> {
        let offset = usize::try_from(offset).ok()?;
        let slice = region.get_slice(offset, count.checked_mul(size_of::<AtomicU64>())?).ok()?;
        let first = slice.ptr_guard().as_ptr().addr();
        first.is_multiple_of(align_of::<AtomicU64>()).then_some(())?;
        Some(Self { region, first: offset, count })
    }

    /// The words.
    #[inline]
    pub fn get(&self) -> &[AtomicU64] {
        #[expect(unsafe_code, reason = "vm-memory lends single atomics only")]
        // SAFETY: `new` has found all of these bytes in the mapping, which `region` keeps where it is for
        // as long as this is borrowed, and aligned. Any bytes are an `AtomicU64`, and nobody in this
        // process refers to them other than as atomics or by volatile accesses.
        unsafe {
            std::slice::from_raw_parts(self.region.as_ptr().add(self.first).cast(), self.count)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use vm_memory::Bytes;

    #[test]
    fn words_are_those_at_the_offset_and_none_beyond_the_mapping() {
        let region = Arc::new(MmapRegion::new(0x1000).unwrap());
        let words = Words::new(Arc::clone(&region), 0xff0, 2).unwrap();
        words.get()[1].store(7, Ordering::Relaxed);
        let read: u64 = region.as_volatile_slice().read_obj(0xff8).unwrap();
        assert_eq!((words.get().len(), read), (2, 7));
        assert_eq!(word_at(&region, 0xff8).unwrap().load(Ordering::Relaxed), 7);
        for (offset, count) in [(0xff0, 3), (0x1000, 1), (4, 1), (u64::MAX, 1), (0, usize::MAX)] {
            assert!(Words::new(Arc::clone(&region), offset, count).is_none(), "{offset:#x}");
        }
        for offset in [0xff9, 0x1000, 4, u64::MAX, u64::MAX - 7] {
            assert!(word_at(&region, offset).is_none(), "{offset:#x}");
        }
    }
}
