// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's own computation of the GPU's result.

use bellhop_protocol::packet::dispatch::apply_xor_stream;
use multiversion::multiversion;
use vm_memory::{VolatileMemoryError, VolatileSlice};
use xxhash_rust::xxh64::Xxh64;

/// Bytes to compute or compare at once: together with their source or counterpart they fit into a first-level
/// cache. Whole words.
const BLOCK: usize = 8 << 10;
const WORD: usize = size_of::<u64>();

/// The transformation of bytes that begin with this word of a chunk, compiled for several kinds of processors:
/// where one can multiply eight words at a time, it takes a tenth of the time.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn transform(bytes: &mut [u8], key: u64, first: u64) {
    apply_xor_stream(bytes, key, first);
}

/// The expected result for a chunk, in memory that the GPU does not reach. The guest computes it as the input
/// arrives, before it submits the chunk.
pub(super) struct Expected {
    bytes: Vec<u8>,
    made: usize,
    key: u64,
    hash: Xxh64,
}

impl Expected {
    /// Room for chunks of at most `chunk` bytes.
    pub(super) fn new(chunk: usize) -> Self {
        Self { bytes: vec![0; chunk], made: 0, key: 0, hash: Xxh64::new(0) }
    }

    /// Begins another chunk.
    pub(super) fn begin(&mut self, key: u64, seed: u64) {
        (self.made, self.key) = (0, key);
        self.hash.reset(seed);
    }

    /// Takes the first `length` bytes of the chunk's input, and computes the whole blocks among them.
    pub(super) fn take(
        &mut self,
        input: &VolatileSlice<'_>,
        length: usize,
    ) -> Result<(), VolatileMemoryError> {
        self.make(input, length - length % BLOCK)
    }

    /// Computes the rest of the chunk, whose input has `length` bytes, and returns the result's hash.
    pub(super) fn finish(
        &mut self,
        input: &VolatileSlice<'_>,
        length: usize,
    ) -> Result<u64, VolatileMemoryError> {
        self.make(input, length)?;
        Ok(self.hash.digest())
    }

    fn make(&mut self, input: &VolatileSlice<'_>, end: usize) -> Result<(), VolatileMemoryError> {
        while self.made < end {
            let start = self.made;
            let block = &mut self.bytes[start..end.min(start + BLOCK)];
            input.subslice(start, block.len())?.copy_to(block);
            transform(block, self.key, (start / WORD) as u64);
            self.hash.update(block);
            self.made += block.len();
        }
        Ok(())
    }

    /// The bytes that the GPU must return.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.made]
    }
}

/// Compares the GPU's result with the expected one.
pub(super) struct Comparison {
    block: Vec<u8>,
}

impl Comparison {
    pub(super) fn new() -> Self {
        Self { block: vec![0; BLOCK] }
    }

    /// The offset of the first byte that differs, if one does. Each byte is read once.
    pub(super) fn first_difference(
        &mut self,
        returned: &VolatileSlice<'_>,
        expected: &[u8],
    ) -> Result<Option<usize>, VolatileMemoryError> {
        for (index, expected) in expected.chunks(BLOCK).enumerate() {
            let block = &mut self.block[..expected.len()];
            returned.subslice(index * BLOCK, block.len())?.copy_to(block);
            // Slices are compared many bytes at a time.
            if *block != *expected {
                let place = block.iter().zip(expected).position(|(made, it)| made != it);
                return Ok(place.map(|place| index * BLOCK + place));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::packet::dispatch::xor_stream;
    use xxhash_rust::xxh64::xxh64;

    /// More than two blocks, and no whole number of words.
    const LENGTH: usize = 2 * BLOCK + 1003;
    const KEY: u64 = 77;

    fn bytes() -> Vec<u8> {
        (0..LENGTH).map(|at| (at / 7) as u8).collect()
    }

    /// The transformation as the protocol defines it, byte by byte.
    fn returned() -> Vec<u8> {
        let masked =
            |(at, byte): (usize, u8)| byte ^ xor_stream(KEY, (at / 8) as u64).to_le_bytes()[at % 8];
        bytes().into_iter().enumerate().map(masked).collect()
    }

    fn difference(mut returned: Vec<u8>, expected: &[u8]) -> Option<usize> {
        let returned = VolatileSlice::from(&mut *returned);
        Comparison::new().first_difference(&returned, expected).unwrap()
    }

    #[test]
    fn what_is_expected_is_the_transformed_input_however_it_comes() {
        let mut input = bytes();
        let input = VolatileSlice::from(&mut *input);
        let mut expected = Expected::new(LENGTH);
        for pieces in [vec![], vec![3, BLOCK + 5, 2 * BLOCK], vec![LENGTH]] {
            expected.begin(KEY, 5);
            for length in pieces {
                expected.take(&input, length).unwrap();
            }
            assert_eq!(expected.finish(&input, LENGTH).unwrap(), xxh64(&returned(), 5));
            assert!(expected.bytes() == returned());
        }
        expected.begin(KEY, 5);
        assert_eq!(expected.finish(&input, 11).unwrap(), xxh64(&returned()[..11], 5));
        assert_eq!(expected.bytes(), &returned()[..11]);
    }

    #[test]
    fn what_was_read_already_is_not_read_again() {
        let (mut first, mut second) = (bytes(), vec![0; LENGTH]);
        let mut expected = Expected::new(LENGTH);
        expected.begin(KEY, 5);
        expected.take(&VolatileSlice::from(&mut *first), 2 * BLOCK).unwrap();
        expected.finish(&VolatileSlice::from(&mut *second), 2 * BLOCK).unwrap();
        assert!(expected.bytes() == &returned()[..2 * BLOCK]);
    }

    #[test]
    fn the_first_wrong_byte_is_found_wherever_it_is() {
        assert_eq!(difference(returned(), &returned()), None);
        for place in [0, BLOCK - 1, BLOCK, 2 * BLOCK + 9, LENGTH - 1] {
            let mut wrong = returned();
            wrong[place] ^= 0x10;
            wrong[LENGTH - 1] ^= 1;
            assert_eq!(difference(wrong, &returned()), Some(place));
        }
    }
}
