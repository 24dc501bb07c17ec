// SPDX-License-Identifier: MIT OR Apache-2.0

//! Words that driver and device share, located in a mapping once.

use bellhop_protocol::handoff::words::WORD;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vm_memory::{MmapRegion, VolatileMemory};

/// A word of a mapping. The mapping stays mapped while the word exists.
#[derive(Clone)]
pub(crate) struct Word {
    word: NonNull<AtomicU64>,
    /// Keeps the word in place.
    region: Arc<MmapRegion>,
}

#[expect(unsafe_code, reason = "the mapping says that threads may share it, a pointer does not")]
// SAFETY: `word` points to an atomic in a mapping that `region` keeps, and a mapping itself is `Send` and `Sync`.
unsafe impl Send for Word {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above; a shared `Word` only returns shared references to an atomic.
unsafe impl Sync for Word {}

impl Word {
    /// The word at an offset; `None` if it is outside the mapping or misaligned.
    pub(crate) fn new(region: Arc<MmapRegion>, offset: usize) -> Option<Self> {
        region.get_atomic_ref::<AtomicU64>(offset).ok()?;
        // Derived from the mapping's pointer, which may also access the words after this one.
        let word = NonNull::new(region.as_ptr().wrapping_add(offset).cast())?;
        Some(Self { word, region })
    }

    /// The word.
    #[inline]
    pub(crate) fn get(&self) -> &AtomicU64 {
        #[expect(unsafe_code, reason = "vm-memory checks a word's place with each access")]
        // SAFETY: `new` has checked that this word is in the mapping and aligned, and `region` keeps the mapping in
        // place while this is borrowed. Any bytes are a valid `AtomicU64`, and the driver has only atomic
        // references to shared memory: it copies bytes through raw pointers.
        unsafe {
            self.word.as_ref()
        }
    }
}

/// Consecutive 64-bit words of memory that driver and device share. The memory stays mapped while they exist.
#[derive(Clone)]
pub struct Words {
    first: Word,
    count: usize,
}

impl Words {
    /// The words in `length` bytes from an offset on; `None` if some are outside the mapping or misaligned, or
    /// there is none.
    pub(crate) fn new(region: Arc<MmapRegion>, offset: usize, length: usize) -> Option<Self> {
        region.get_slice(offset, length).ok()?;
        let count = length / size_of::<AtomicU64>();
        Some(Self { first: Word::new(region, offset)?, count })
    }

    /// The words. The device may change them at any time.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &[AtomicU64] {
        #[expect(unsafe_code, reason = "vm-memory checks a word's place with each access")]
        // SAFETY: as in `Word::get`, for all words in the bytes that `new` has checked.
        unsafe {
            std::slice::from_raw_parts(self.first.word.as_ptr(), self.count)
        }
    }

    /// All of the words, if there are `N`.
    pub(crate) fn array<const N: usize>(self) -> Option<WordArray<N>> {
        (self.count == N).then_some(WordArray { first: self.first })
    }

    /// At most `count` words from `first` on, to be filled.
    pub(crate) fn free(&self, first: usize, count: usize) -> Free {
        let (first, region) = (first.min(self.count), Arc::clone(&self.first.region));
        // Derived from the pointer to all words, as in `Word::new`.
        let next = NonNull::new(self.first.word.as_ptr().wrapping_add(first));
        let count = next.map_or(0, |_| count.min(self.count - first));
        Free { next: Word { word: next.unwrap_or(self.first.word), region }, count }
    }

    /// The word `offset` bytes from the first; `None` if there is no such word.
    pub(crate) fn word(&self, offset: u64) -> Option<Word> {
        let offset = usize::try_from(offset).ok()?;
        let word = self.get().get(offset / WORD).filter(|_| offset.is_multiple_of(WORD))?;
        Some(Word { word: NonNull::from(word), region: Arc::clone(&self.first.region) })
    }
}

/// So many consecutive words of a mapping.
pub(crate) struct WordArray<const N: usize> {
    first: Word,
}

impl<const N: usize> WordArray<N> {
    /// The words.
    #[inline]
    pub(crate) fn get(&self) -> &[AtomicU64; N] {
        #[expect(unsafe_code, reason = "each submission would check again how many there are")]
        // SAFETY: as in `Words::get`; `Words::array` has checked that there are `N` words.
        unsafe {
            self.first.word.cast::<[AtomicU64; N]>().as_ref()
        }
    }
}

/// Words of a mapping that the driver fills in order.
pub(crate) struct Free {
    next: Word,
    count: usize,
}

impl Free {
    /// Stores values to the next words if enough are left, and returns whether they were. One comparison finds
    /// their place: this is on the path of each submission.
    #[inline(always)]
    pub(crate) fn push<const N: usize>(&mut self, values: [u64; N]) -> bool {
        if self.count < N {
            return false;
        }
        #[expect(unsafe_code, reason = "each submission would check again where its words are")]
        // SAFETY: as in `Words::get`; `count` words from `next` on are among those that `Words::new` has checked.
        let words = unsafe { self.next.word.cast::<[AtomicU64; N]>().as_ref() };
        for (word, value) in words.iter().zip(values) {
            // The caller publishes them afterwards.
            word.store(value, Ordering::Relaxed);
        }
        #[expect(unsafe_code, reason = "as above")]
        // SAFETY: the word after them is also among those words, or is their end.
        let next = unsafe { self.next.word.add(N) };
        self.next.word = next;
        self.count -= N;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let within = |offset| words(8, 24).unwrap().word(offset);
        assert_eq!(within(8).unwrap().get().load(Ordering::Relaxed), 7);
        for offset in [4, 24, u64::MAX - 7] {
            assert!(within(offset).is_none(), "{offset}");
        }
        let array = words(8, 24).unwrap().array::<3>().unwrap();
        assert_eq!(array.get()[1].load(Ordering::Relaxed), 7);
        assert!(words(8, 24).unwrap().array::<2>().is_none());
        let word = |offset| Word::new(Arc::clone(&region), offset);
        assert_eq!(word(16).unwrap().get().load(Ordering::Relaxed), 7);
        for offset in [4, 4089, 4096, usize::MAX - 7] {
            assert!(word(offset).is_none(), "{offset}");
        }
    }
    #[test]
    fn free_words_are_filled_in_order_and_none_behind_them() {
        let region = Arc::new(MmapRegion::new(4096).unwrap());
        let words = Words::new(Arc::clone(&region), 0, 4096).unwrap();
        let filled =
            || words.get().iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let mut free = words.free(508, 3);
        assert!(free.push([1, 2]) && !free.push([9, 9]) && free.push([3]) && !free.push([9]));
        assert_eq!(filled()[508..], [1, 2, 3, 0]);
        let mut last = words.free(511, 8);
        assert!(!last.push([9, 9]) && last.push([4]) && !last.push([9]));
        assert_eq!(filled()[507..], [0, 1, 2, 3, 4]);
        assert!(!words.free(512, 1).push([9]) && !words.free(usize::MAX, 1).push([9]));
    }
}
