// SPDX-License-Identifier: MIT OR Apache-2.0

//! Words of memory that engines and the control plane share.
//!
//! The host relies on fences and logs, and this process accesses their memory as atomic words only. A guest's
//! memory is different: packets copy to and from it in any way, and other processes access it at any time. A word
//! there may hold any value, and nothing in the host depends on it.

use super::region::Region;
use bellhop_protocol::handoff::words::{WORD, load, store};
use std::sync::atomic::AtomicU64;
use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

/// The word at an offset of a mapping; `None` if it is outside the mapping or misaligned.
///
/// Every signal of a fence looks a word up, and vm-memory's own function takes three times as long.
#[inline]
pub fn word_at(region: &MmapRegion, offset: u64) -> Option<&AtomicU64> {
    let offset = usize::try_from(offset).ok()?;
    let end = offset.checked_add(size_of::<AtomicU64>())?;
    let word = region.as_ptr().wrapping_add(offset).cast::<AtomicU64>();
    if end > region.size() || !word.is_aligned() {
        return None;
    }
    #[expect(unsafe_code, reason = "vm-memory's own is slow")]
    // SAFETY: all of its bytes are in the mapping, which stays in place while it is borrowed, and they are aligned.
    // Any bytes are a valid `AtomicU64`, and this process has only atomic references to them: its other accesses
    // use raw pointers, and only in a guest's memory.
    unsafe {
        Some(&*word)
    }
}

/// Words of a mapping. The mapping stays mapped while they exist.
#[derive(Debug)]
pub struct Words {
    region: Region,
    first: usize,
    count: usize,
}

impl Words {
    /// `count` words from an offset on; `None` if some are outside the mapping, or misaligned, or there are none.
    pub fn new(region: Region, offset: u64, count: usize) -> Option<Self> {
        let offset = usize::try_from(offset).ok()?;
        let slice = region.get_slice(offset, count.checked_mul(size_of::<AtomicU64>())?).ok()?;
        let first = slice.ptr_guard().as_ptr().addr();
        (count > 0 && first.is_multiple_of(align_of::<AtomicU64>())).then_some(())?;
        Some(Self { region, first: offset, count })
    }

    /// `count` of these words, from one on; `None` if there are not so many, or none.
    pub fn part(&self, first: usize, count: usize) -> Option<Self> {
        let end = first.checked_add(count)?;
        let first = self.first.checked_add(first.checked_mul(size_of::<AtomicU64>())?)?;
        (count > 0 && end <= self.count).then(|| Self { region: self.region.clone(), first, count })
    }

    /// The first word.
    #[inline]
    pub fn first(&self) -> &AtomicU64 {
        #[expect(unsafe_code, reason = "vm-memory lends single atomics only")]
        // SAFETY: as in `get`, for the first of its words; `new` and `part` make none without words.
        unsafe {
            &*self.region.as_ptr().add(self.first).cast()
        }
    }

    /// The words.
    #[inline]
    pub fn get(&self) -> &[AtomicU64] {
        #[expect(unsafe_code, reason = "vm-memory lends single atomics only")]
        // SAFETY: `new` has checked that all of these bytes are in the mapping and aligned, and `region` keeps the
        // mapping in place while this is borrowed. Any bytes are a valid `AtomicU64`, and this process has only
        // atomic references to them: its other accesses use raw pointers, and only in a guest's memory.
        unsafe {
            std::slice::from_raw_parts(self.region.as_ptr().add(self.first).cast(), self.count)
        }
    }
}

/// Memory as whole words, and the bytes before and after them.
struct Split<'a> {
    head: VolatileSlice<'a>,
    words: &'a [AtomicU64],
    tail: VolatileSlice<'a>,
}

/// Splits memory at word boundaries; `None` if it ends before the first one.
fn split<'a>(memory: &VolatileSlice<'a>) -> Option<Split<'a>> {
    let first = memory.ptr_guard().as_ptr().align_offset(WORD);
    let count = memory.len().checked_sub(first)? / WORD;
    let end = first + count * WORD;
    let head = memory.subslice(0, first).ok()?;
    let tail = memory.subslice(end, memory.len() - end).ok()?;
    #[expect(unsafe_code, reason = "vm-memory lends single atomics only")]
    // SAFETY: these bytes are in the slice, which borrows its mapping for `'a`, and begin at a word boundary. Any
    // bytes are a valid `AtomicU64`. For other references to them see `word_at`.
    let words = unsafe {
        let start = memory.ptr_guard().as_ptr().add(first);
        std::slice::from_raw_parts(start.cast::<AtomicU64>(), count)
    };
    Some(Split { head, words, tail })
}

/// Stores as many bytes as fit, each aligned word of the memory whole. See [`bellhop_protocol::handoff::words`].
pub fn store_whole(to: &VolatileSlice<'_>, from: &[u8]) {
    let length = to.len().min(from.len());
    let memory = to.subslice(0, length).ok();
    let Some(Split { head, words, tail }) = memory.as_ref().and_then(split) else {
        return to.copy_from(from);
    };
    let from = from.get(..length).unwrap_or_default();
    let (before, rest) = from.split_at(head.len());
    let (whole, behind) = rest.split_at(words.len() * WORD);
    head.copy_from(before);
    store(words, whole.as_chunks::<WORD>().0);
    tail.copy_from(behind);
}

/// Reads as many bytes as fit, each aligned word of the memory whole.
pub fn load_whole(from: &VolatileSlice<'_>, to: &mut [u8]) {
    let length = from.len().min(to.len());
    let memory = from.subslice(0, length).ok();
    let Some(Split { head, words, tail }) = memory.as_ref().and_then(split) else {
        from.copy_to(to);
        return;
    };
    let to = to.get_mut(..length).unwrap_or_default();
    let (before, rest) = to.split_at_mut(head.len());
    let (whole, behind) = rest.split_at_mut(words.len() * WORD);
    head.copy_to(before);
    load(words, whole.as_chunks_mut::<WORD>().0);
    tail.copy_to(behind);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::Ordering;
    use vm_memory::Bytes;

    proptest! {
        #[test]
        fn what_is_stored_whole_is_what_is_read_and_nothing_beside_it_changes(
            offset in 0usize..40, length in 0usize..100, byte in 1u8..,
        ) {
            let region = MmapRegion::<()>::new(0x1000).unwrap();
            let from: Vec<u8> = (0..length).map(|at| byte.wrapping_add(at as u8)).collect();
            let slice = region.get_slice(offset, length).unwrap();
            store_whole(&slice, &from);
            let mut all = [0; 256];
            region.as_volatile_slice().read(&mut all, 0).unwrap();
            let mut expected = [0; 256];
            expected[offset..offset + length].copy_from_slice(&from);
            prop_assert_eq!(all, expected);
            let mut read = vec![0; length];
            load_whole(&slice, &mut read);
            prop_assert_eq!(read, from);
        }
    }

    #[test]
    fn no_store_tears_a_word_that_another_thread_looks_at() {
        let region = Region::from(MmapRegion::new(0x1000).unwrap());
        let values = [0x0101_0101_0101_0101u64, 0x7e7e_7e7e_7e7e_7e7e];
        let word = Words::new(region.clone(), 0x48, 1).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..20_000 {
                    // 3 bytes before the word and 5 after it.
                    let bytes = [values[round % 2] as u8; 16];
                    store_whole(&region.get_slice(0x45, 16).unwrap(), &bytes);
                }
            });
            for _ in 0..20_000 {
                let seen = word.get()[0].load(Ordering::Acquire);
                assert!(seen == 0 || values.contains(&seen), "{seen:#x}");
            }
        });
    }

    #[test]
    fn words_are_those_at_the_offset_and_none_beyond_the_mapping() {
        let region = Region::from(MmapRegion::new(0x1000).unwrap());
        let words = Words::new(region.clone(), 0xff0, 2).unwrap();
        words.get()[1].store(7, Ordering::Relaxed);
        let read: u64 = region.as_volatile_slice().read_obj(0xff8).unwrap();
        assert_eq!((words.get().len(), read), (2, 7));
        assert_eq!(words.part(1, 1).unwrap().first().load(Ordering::Relaxed), 7);
        for (first, count) in [(0, 0), (0, 3), (2, 1), (usize::MAX, 1)] {
            assert!(words.part(first, count).is_none(), "{first}");
        }
        assert_eq!(word_at(&region, 0xff8).unwrap().load(Ordering::Relaxed), 7);
        for (offset, count) in
            [(0xff0, 3), (0x1000, 1), (4, 1), (u64::MAX, 1), (0, usize::MAX), (0, 0)]
        {
            assert!(Words::new(region.clone(), offset, count).is_none(), "{offset:#x}");
        }
        for offset in [0xff9, 0x1000, 4, u64::MAX, u64::MAX - 7] {
            assert!(word_at(&region, offset).is_none(), "{offset:#x}");
        }
    }
}
