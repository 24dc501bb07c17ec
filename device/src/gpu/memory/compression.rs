// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compressed memory: this GPU's stand-in for the delta colour compression of real GPUs.
//!
//! When an engine writes to a page that is mapped with the *compressed* attribute, it encodes the page if that
//! makes the page smaller; when an engine reads the page, it decodes it. That saves bandwidth, not memory: the page
//! keeps its place. A reader without the attribute, such as the guest's CPU, sees the encoded bytes until a packet
//! of the system context decompresses the page.
//!
//! The *metadata* of a page tells whether the page is encoded: one word per page of physical memory, as in the flat
//! metadata of real GPUs, in memory that no guest can access. The word is the digest of the encoded bytes, or 0 for
//! a plain page. Bytes with another digest were written since then without the engines, and are plain. Another
//! packet clears the metadata of pages that return to the guest, because such a page still holds the encoded bytes.
//!
//! A block is 4 KiB. By contract, two engines that write different bytes of one block must be ordered as if they
//! wrote one byte.

use super::address_map::{AddressMap, Mapping, Place};
use super::words::word_at;
use bellhop_host_kmd::hardware::PhysicalPage;
use bellhop_protocol::PAGE_SIZE;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh64::xxh64;

/// Bytes in a block: a page.
const BLOCK: usize = PAGE_SIZE as usize;
/// Bytes in a word, and words in a block.
const WORD: usize = size_of::<u64>();
const WORDS: usize = BLOCK / WORD;

/// Encodes a block as the differences between consecutive words: first one bit for each byte of the differences,
/// then the nonzero bytes. Returns false if the result is longer than a block.
fn encode(plain: &[u8; BLOCK], encoded: &mut [u8; BLOCK]) -> bool {
    encoded.fill(0);
    let (masks, bytes) = encoded.split_at_mut(WORDS);
    let mut bytes = bytes.iter_mut();
    let mut before = 0u64;
    for (word, mask) in plain.as_chunks::<WORD>().0.iter().zip(masks) {
        let word = u64::from_le_bytes(*word);
        let difference = word.wrapping_sub(before).to_le_bytes();
        before = word;
        for (bit, byte) in difference.into_iter().enumerate().filter(|(_, byte)| *byte != 0) {
            let Some(place) = bytes.next() else { return false };
            *place = byte;
            *mask |= 1 << bit;
        }
    }
    true
}

/// Decodes a block. Any bytes decode to something.
fn decode(encoded: &[u8; BLOCK], plain: &mut [u8; BLOCK]) {
    let (masks, bytes) = encoded.split_at(WORDS);
    let mut bytes = bytes.iter();
    let mut before = 0u64;
    for (word, mask) in plain.as_chunks_mut::<WORD>().0.iter_mut().zip(masks) {
        let mut difference = [0; WORD];
        for (bit, byte) in difference.iter_mut().enumerate() {
            if mask & 1 << bit != 0 {
                *byte = bytes.next().copied().unwrap_or(0);
            }
        }
        before = before.wrapping_add(u64::from_le_bytes(difference));
        *word = before.to_le_bytes();
    }
}

/// The metadata of an encoded block.
fn digest(encoded: &[u8; BLOCK]) -> u64 {
    xxh64(encoded, 0).max(1)
}

/// Pages of each segment that have metadata: 1 TiB. Later pages are never encoded.
const SEGMENT_PAGES: u64 = 1 << 28;
/// Segments.
const SEGMENTS: u64 = 4;
/// Bytes of a guest's whole metadata.
pub const METADATA_SIZE: u64 = SEGMENTS * SEGMENT_PAGES * WORD as u64;

/// The metadata of all of a guest's memory. Only pages that are or were encoded take memory, one word each.
#[derive(Debug)]
pub struct Metadata(Mapping);

impl Metadata {
    /// Metadata in [`METADATA_SIZE`] bytes; a word of 0 marks a plain page.
    pub fn new(memory: Mapping) -> Self {
        Self(memory)
    }

    /// The word of the page that contains a place.
    fn word(&self, memory: &AddressMap, place: Place) -> Option<&AtomicU64> {
        self.word_of(memory.page(place)?)
    }

    /// The word of a page, whether the page exists or not.
    ///
    /// Relaxed is enough: whatever orders two engines' accesses to the page orders those to its word.
    fn word_of(&self, page: PhysicalPage) -> Option<&AtomicU64> {
        let number = page.address / PAGE_SIZE;
        if number >= SEGMENT_PAGES {
            return None;
        }
        let index = page.segment as u64 * SEGMENT_PAGES + number;
        let offset = self.0.base.checked_add(index.checked_mul(WORD as u64)?)?;
        word_at(&self.0.region, offset)
    }

    /// Marks a page plain, whatever it holds.
    pub fn clear(&self, page: PhysicalPage) {
        set_plain(self.word_of(page));
    }

    /// After a page was copied in its encoded or plain form: copies its metadata.
    pub fn carry(&self, memory: &AddressMap, from: Place, to: Place) {
        if let (Some(from), Some(to)) = (self.word(memory, from), self.word(memory, to)) {
            let (is, was) = (from.load(Ordering::Relaxed), to.load(Ordering::Relaxed));
            // Most pages are plain and stay plain: their metadata was never written and takes no memory.
            if is != was {
                to.store(is, Ordering::Relaxed);
            }
        }
    }
}

/// An engine's own buffers for a block.
#[derive(Debug)]
pub struct Blocks {
    plain: Box<[u8; BLOCK]>,
    stored: Box<[u8; BLOCK]>,
}

impl Blocks {
    /// Two buffers.
    pub fn new() -> Self {
        Self { plain: Box::new([0; BLOCK]), stored: Box::new([0; BLOCK]) }
    }
}

/// An engine's codec for one guest's memory. Places are those of a page's first byte; methods return `None` if a
/// page does not exist.
pub struct Codec<'a> {
    pub metadata: &'a Metadata,
    pub blocks: &'a mut Blocks,
}

impl Codec<'_> {
    /// Reads a page once, and decodes it into `plain` if it is encoded; returns whether it was.
    fn load(&mut self, memory: &AddressMap, page: Place) -> Option<bool> {
        let Blocks { plain, stored } = self.blocks;
        memory.slice(page, BLOCK)?.copy_to(&mut stored[..]);
        let word = self.metadata.word(memory, page).map_or(0, |word| word.load(Ordering::Relaxed));
        let is_encoded = word != 0 && word == digest(stored);
        if is_encoded {
            decode(stored, plain)
        } else {
            plain.copy_from_slice(&stored[..])
        }
        Some(is_encoded)
    }

    /// Reads bytes of a page from an offset on.
    pub fn read(
        &mut self,
        memory: &AddressMap,
        page: Place,
        offset: usize,
        bytes: &mut [u8],
    ) -> Option<()> {
        self.load(memory, page)?;
        let from = self.blocks.plain.get(offset..)?.get(..bytes.len())?;
        bytes.copy_from_slice(from);
        Some(())
    }

    /// Writes bytes of a page from an offset on, and encodes the page again.
    pub fn write(
        &mut self,
        memory: &AddressMap,
        page: Place,
        offset: usize,
        bytes: &[u8],
    ) -> Option<()> {
        self.load(memory, page)?;
        self.blocks.plain.get_mut(offset..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let Blocks { plain, stored } = self.blocks;
        let (memory_page, word) = (memory.slice(page, BLOCK)?, self.metadata.word(memory, page));
        match word {
            Some(word) if encode(plain, stored) => {
                memory_page.copy_from(&stored[..]);
                word.store(digest(stored), Ordering::Relaxed);
            }
            word => {
                memory_page.copy_from(&plain[..]);
                set_plain(word);
            }
        }
        Some(())
    }

    /// Makes a page plain.
    pub fn decompress(&mut self, memory: &AddressMap, page: Place) -> Option<()> {
        if self.load(memory, page)? {
            memory.slice(page, BLOCK)?.copy_from(&self.blocks.plain[..]);
            set_plain(self.metadata.word(memory, page));
        }
        Some(())
    }
}

/// Marks a page plain.
fn set_plain(word: Option<&AtomicU64>) {
    if let Some(word) = word
        && word.load(Ordering::Relaxed) != 0
    {
        word.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(word: impl Fn(u64) -> u64) -> Box<[u8; BLOCK]> {
        let mut block = Box::new([0; BLOCK]);
        for (place, index) in block.as_chunks_mut::<WORD>().0.iter_mut().zip(0..) {
            *place = word(index).to_le_bytes();
        }
        block
    }

    /// Number of bytes that encoding a block saves.
    fn saved(plain: &[u8; BLOCK]) -> Option<usize> {
        let mut encoded = [0; BLOCK];
        encode(plain, &mut encoded).then(|| {
            let mut decoded = [0; BLOCK];
            decode(&encoded, &mut decoded);
            assert_eq!(&decoded, plain);
            encoded.iter().rev().take_while(|byte| **byte == 0).count()
        })
    }

    #[test]
    fn patterns_and_counters_become_small_and_noise_does_not() {
        assert_eq!(saved(&block(|_| 0)), Some(BLOCK));
        assert!(saved(&block(|_| 0x0102_0304_0506_0708)).unwrap() >= BLOCK - WORDS - 8);
        assert!(saved(&block(|index| index * 3)).unwrap() >= BLOCK - 2 * WORDS);
        let noise = |index: u64| (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        assert_eq!(saved(&block(|index| noise(index) ^ noise(index * index))), None);
    }

    proptest! {
        #[test]
        fn what_can_be_encoded_is_decoded_to_itself(
            runs in proptest::collection::vec((any::<u64>(), 0u64..4, 1usize..200), 1..12)
        ) {
            let mut words = runs.into_iter().flat_map(|(first, step, count)| {
                (0..count as u64).map(move |index| first.wrapping_add(index * step))
            });
            let words: Vec<u64> = std::iter::from_fn(|| Some(words.next().unwrap_or(0))).take(WORDS).collect();
            let plain = block(|index| words[index as usize]);
            prop_assert!(saved(&plain).is_some());
        }

        #[test]
        fn any_bytes_can_be_decoded(bytes in proptest::collection::vec(any::<u8>(), BLOCK)) {
            let encoded: [u8; BLOCK] = bytes.try_into().unwrap();
            let mut plain = [0; BLOCK];
            decode(&encoded, &mut plain);
        }
    }
}
