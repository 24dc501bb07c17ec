// SPDX-License-Identifier: MIT OR Apache-2.0

//! Words that driver and device share, found in a mapping once.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vm_memory::{MmapRegion, VolatileMemory};

/// Words of a mapping. The mapping stays mapped while they exist.
#[derive(Clone)]
pub(crate) struct Words {
    region: Arc<MmapRegion>,
    first: usize,
    count: usize,
}

impl Words {
    /// The words in `length` bytes from an offset on; none when some are outside of the mapping, or not
    /// aligned.
    pub(crate) fn new(region: Arc<MmapRegion>, offset: usize, length: usize) -> Option<Self> {
        let slice = region.get_slice(offset, length).ok()?;
        let first = slice.ptr_guard().as_ptr().addr();
        first.is_multiple_of(align_of::<AtomicU64>()).then_some(())?;
        Some(Self { region, first: offset, count: length / size_of::<AtomicU64>() })
    }

    /// The words.
    #[inline]
    pub(crate) fn get(&self) -> &[AtomicU64] {
        #[expect(unsafe_code, reason = "vm-memory checks a word's place with each access")]
        // SAFETY: `new` has found all of these bytes in the mapping, which `region` keeps where it is for
        // as long as this is borrowed, and aligned. Any bytes are an `AtomicU64`, and the driver has no
        // reference to shared memory but to atomics: it copies bytes through raw pointers.
        unsafe {
            std::slice::from_raw_parts(self.region.as_ptr().add(self.first).cast(), self.count)
        }
    }
}

/// One word.
#[derive(Clone)]
pub(crate) struct Word {
    region: Arc<MmapRegion>,
    offset: usize,
}

impl Word {
    /// The word at an offset; none when it is outside of the mapping, or not aligned.
    pub(crate) fn new(region: Arc<MmapRegion>, offset: usize) -> Option<Self> {
        region.get_atomic_ref::<AtomicU64>(offset).ok()?;
        Some(Self { region, offset })
    }

    /// The word.
    #[inline]
    pub(crate) fn get(&self) -> &AtomicU64 {
        #[expect(unsafe_code, reason = "vm-memory checks a word's place with each access")]
        // SAFETY: as in `Words::get`, for the one word that `new` has found in the mapping.
        unsafe {
            &*self.region.as_ptr().add(self.offset).cast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_lie_in_their_mapping_and_are_aligned() {
        let region = Arc::new(MmapRegion::new(4096).unwrap());
        let words = |offset, length| Words::new(Arc::clone(&region), offset, length);
        assert_eq!(words(0, 4096).unwrap().get().len(), 512);
        assert_eq!(words(4088, 8).unwrap().get().len(), 1);
        assert_eq!(words(8, 12).unwrap().get().len(), 1);
        for (offset, length) in [(4, 8), (4096, 8), (4088, 16), (usize::MAX - 7, 16)] {
            assert!(words(offset, length).is_none(), "{offset} {length}");
        }
        words(0, 4096).unwrap().get()[2].store(7, Ordering::Relaxed);
        assert_eq!(words(16, 8).unwrap().get()[0].load(Ordering::Relaxed), 7);
        let word = |offset| Word::new(Arc::clone(&region), offset);
        assert_eq!(word(16).unwrap().get().load(Ordering::Relaxed), 7);
        for offset in [4, 4089, 4096, usize::MAX - 7] {
            assert!(word(offset).is_none(), "{offset}");
        }
    }
}
