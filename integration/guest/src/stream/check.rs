// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's own computation of what the GPU is to return.

use bellhop_protocol::packet::dispatch::xor_stream;
use xxhash_rust::xxh64::Xxh64;

/// Bytes that are checked at once: with what they are compared with, they stay in a first-level cache. Whole
/// words.
const BLOCK: usize = 8 << 10;
const WORD: usize = size_of::<u64>();

/// Compares what the GPU returned with what the guest computes.
pub(super) struct Check {
    block: Vec<u8>,
}

impl Check {
    pub(super) fn new() -> Self {
        Self { block: vec![0; BLOCK] }
    }

    /// Transforms `bytes` in place and compares them with what was returned, which `read` copies from an
    /// offset on. Returns the offset of the first difference, or else the hash of the bytes.
    pub(super) fn run<E>(
        &mut self,
        bytes: &mut [u8],
        key: u64,
        seed: u64,
        mut read: impl FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<Result<u64, usize>, E> {
        let mut hash = Xxh64::new(seed);
        for (index, expected) in bytes.chunks_mut(BLOCK).enumerate() {
            let offset = index * BLOCK;
            transform(expected, key, (offset / WORD) as u64);
            let returned = &mut self.block[..expected.len()];
            read(offset, returned)?;
            if *returned != *expected {
                let differs = returned.iter().zip(&*expected).position(|(made, it)| made != it);
                return Ok(Err(offset + differs.unwrap_or(0)));
            }
            hash.update(expected);
        }
        Ok(Ok(hash.digest()))
    }
}

/// The transformation of bytes that begin with this word of a chunk.
pub(super) fn transform(bytes: &mut [u8], key: u64, first: u64) {
    let (words, rest) = bytes.as_chunks_mut::<WORD>();
    let mut index = first;
    for word in words {
        *word = (u64::from_le_bytes(*word) ^ xor_stream(key, index)).to_le_bytes();
        index += 1;
    }
    for (byte, mask) in rest.iter_mut().zip(xor_stream(key, index).to_le_bytes()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use xxhash_rust::xxh64::xxh64;

    /// More than two blocks, and no whole number of words.
    const LENGTH: usize = 2 * BLOCK + 1003;
    const KEY: u64 = 77;

    fn bytes() -> Vec<u8> {
        (0..LENGTH).map(|at| (at / 7) as u8).collect()
    }

    /// The transformation as the protocol has it, byte by byte.
    fn returned() -> Vec<u8> {
        let masked =
            |(at, byte): (usize, u8)| byte ^ xor_stream(KEY, (at / 8) as u64).to_le_bytes()[at % 8];
        bytes().into_iter().enumerate().map(masked).collect()
    }

    fn check(returned: &[u8]) -> Result<u64, usize> {
        let read = |offset: usize, block: &mut [u8]| {
            block.copy_from_slice(&returned[offset..offset + block.len()]);
            Ok::<_, Infallible>(())
        };
        Check::new().run(&mut bytes(), KEY, 5, read).unwrap()
    }

    #[test]
    fn what_was_transformed_right_has_the_hash_of_all_of_it() {
        assert_eq!(check(&returned()), Ok(xxh64(&returned(), 5)));
    }

    #[test]
    fn the_first_wrong_byte_is_found_wherever_it_is() {
        for place in [0, BLOCK - 1, BLOCK, 2 * BLOCK + 9, LENGTH - 1] {
            let mut wrong = returned();
            wrong[place] ^= 0x10;
            wrong[LENGTH - 1] ^= 1;
            assert_eq!(check(&wrong), Err(place));
        }
    }
}
