// SPDX-License-Identifier: MIT OR Apache-2.0

//! The translations that an engine caches.

use super::address_map::Place;
use super::prefetch::prefetch_line;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::AddressSpaceId;

/// Sets of the table. With their ways they cover 4 MiB of pages and fit the inner caches.
const SETS: usize = 512;
/// Entries per set. With one, a ring and the buffer that it names could keep evicting each other.
const WAYS: usize = 2;

/// The key of a translation: a page of an address space, since the last flush of its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The address space's id, never 0.
    pub space: u64,
    /// The guest's count of flushes.
    pub flushes: u64,
    /// GPU virtual page number, with [`LARGE`] for a large page.
    page: u64,
}

/// Set in the number of a large page, to tell it from every small page's.
const LARGE: u64 = 1 << 63;

impl Key {
    /// The key of the page that contains an address, for one page size.
    #[inline]
    pub fn new(space: AddressSpaceId, flushes: u64, gpu_va: u64, size: PageSize) -> Self {
        let number = gpu_va / size.bytes();
        let page = match size {
            PageSize::Small => number,
            PageSize::Large => number | LARGE,
        };
        Self { space: space.0, flushes, page }
    }

    #[inline]
    fn set(self) -> usize {
        // Neighbouring pages get neighbouring sets; spaces are spread over the whole table.
        let spread = self.space.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (self.page ^ (self.page >> 9) ^ spread) as usize % SETS
    }
}

/// A cached page, and what is known of the pages behind it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    key: Key,
    /// The page's place.
    pub place: Place,
    /// Whether packets may write the page.
    pub writable: bool,
    /// The number of bytes behind the page that continue it: at their addresses the table had pages since the same
    /// flush, at the places behind this one, and writable if this one is.
    following: u32,
}

impl Entry {
    /// The number of bytes from the page's beginning on that are contiguous.
    #[inline]
    pub fn length(&self, size: PageSize) -> u64 {
        size.bytes() + u64::from(self.following)
    }
}

/// A table of translations. It holds only valid pages, so mapping a page takes effect at once. Unmapping takes
/// effect when the guest's flush count advances, or with [`Self::flush`].
#[derive(Debug)]
pub struct Tlb {
    /// Each set has its most recent entry first.
    sets: Box<[[Option<Entry>; WAYS]]>,
    /// Number of flushes of the whole table, plus 1.
    epoch: u64,
}

impl Tlb {
    /// An empty table.
    pub fn new() -> Self {
        Self { sets: vec![[None; WAYS]; SETS].into_boxed_slice(), epoch: 1 }
    }

    /// The entry of a page, if the table has it.
    #[inline]
    pub fn lookup(&self, key: Key) -> Option<&Entry> {
        self.sets[key.set()].iter().flatten().find(|entry| entry.key == key)
    }

    /// Prefetches where the table has a page, if it has it. Nothing waits for that.
    #[inline]
    pub fn prefetch(&self, key: Key) {
        for entry in &self.sets[key.set()] {
            prefetch_line(std::ptr::from_ref(entry).cast());
        }
    }

    /// Notes how many bytes continue a page, as `Entry` says, if the table has the page. What the table forgets of them
    /// later makes no difference: until the next flush they may be used as they were.
    pub fn extend(&mut self, key: Key, following: u64) {
        let entry = self.sets[key.set()].iter_mut().flatten().find(|entry| entry.key == key);
        if let Some(entry) = entry {
            // Fewer are as true as all.
            entry.following = u32::try_from(following).unwrap_or(0).max(entry.following);
        }
    }

    /// Caches a page. It replaces its own earlier entry, or else the oldest entry of its set.
    pub fn insert(&mut self, key: Key, place: Place, writable: bool) {
        let set = &mut self.sets[key.set()];
        let same = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.key == key);
        let replaced = set.iter().position(same).unwrap_or(WAYS - 1);
        set[..=replaced].rotate_right(1);
        set[0] = Some(Entry { key, place, writable, following: 0 });
    }

    /// Empties the table.
    pub fn flush(&mut self) {
        self.sets.fill([None; WAYS]);
        self.epoch += 1;
    }

    /// A number, never 0, that each [`Self::flush`] changes. Copies of table contents kept elsewhere are valid in
    /// one epoch only.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::PAGE_SIZE;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn key(page: u64) -> Key {
        Key::new(AddressSpaceId(1), 1, page * PAGE_SIZE, PageSize::Small)
    }

    fn found(tlb: &Tlb, key: Key) -> Option<(Place, bool)> {
        tlb.lookup(key).map(|entry| (entry.place, entry.writable))
    }

    #[test]
    fn as_many_pages_as_a_set_has_entries_never_evict_each_other() {
        let mut tlb = Tlb::new();
        let in_set = |page: &u64| key(*page).set() == key(0).set();
        let pages: Vec<_> = (0..).filter(in_set).take(WAYS + 1).collect();
        for round in 0..3 {
            for page in &pages[..WAYS] {
                tlb.insert(key(*page), Place::default().plus(round), true);
            }
            for page in &pages[..WAYS] {
                assert_eq!(found(&tlb, key(*page)), Some((Place::default().plus(round), true)));
            }
        }
        tlb.insert(key(pages[WAYS]), Place::default(), false);
        assert_eq!(found(&tlb, key(pages[0])), None);
    }

    #[test]
    fn what_continues_a_page_is_forgotten_with_the_page() {
        let mut tlb = Tlb::new();
        let length = |tlb: &Tlb| tlb.lookup(key(7)).map(|entry| entry.length(PageSize::Small));
        tlb.extend(key(7), PAGE_SIZE);
        assert_eq!(length(&tlb), None);
        tlb.insert(key(7), Place::default(), false);
        assert_eq!(length(&tlb), Some(PAGE_SIZE));
        tlb.extend(key(7), 3 * PAGE_SIZE);
        tlb.extend(key(7), PAGE_SIZE);
        tlb.extend(key(7), u64::MAX);
        assert_eq!(length(&tlb), Some(4 * PAGE_SIZE));
        // Cached anew, since it may be written now.
        tlb.insert(key(7), Place::default(), true);
        assert_eq!(length(&tlb), Some(PAGE_SIZE));
        tlb.extend(key(7), PAGE_SIZE);
        tlb.flush();
        tlb.insert(key(7), Place::default(), true);
        assert_eq!(length(&tlb), Some(PAGE_SIZE));
    }

    proptest! {
        #[test]
        fn what_is_remembered_is_the_latest_and_never_another_page_s(
            inserts in proptest::collection::vec((1u64..3, 1u64..3, any::<bool>(), 0u64..2000, any::<bool>()), 1..500)
        ) {
            let mut tlb = Tlb::new();
            let mut model = HashMap::new();
            for ((space, flushes, large, page, writable), number) in inserts.into_iter().zip(0..) {
                let size = if large { PageSize::Large } else { PageSize::Small };
                let key = Key::new(AddressSpaceId(space), flushes, page * size.bytes(), size);
                let place = Place::default().plus(number);
                tlb.insert(key, place, writable);
                model.insert(key, (place, writable));
                prop_assert_eq!(found(&tlb, key), Some((place, writable)));
            }
            let mut known = model.iter();
            let are_right = known.all(|(key, expected)| {
                found(&tlb, *key).is_none_or(|found| found == *expected)
            });
            prop_assert!(are_right);
            tlb.flush();
            prop_assert!(model.keys().all(|key| tlb.lookup(*key).is_none()));
        }
    }
}
