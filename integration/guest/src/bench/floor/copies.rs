// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ways in which this processor copies memory, beside which the copy engine is measured.

use std::hint::black_box;
use std::time::Instant;

/// Number of copies of the fewest bytes; the fastest counts, because others may have been disturbed.
const COPIES: usize = 64;
/// Bytes that are copied in all copies of one size, at most, and at least [`FEWEST`] copies.
const BYTES: usize = 512 << 20;
const FEWEST: usize = 8;
/// Bytes by which the copied memory is off the beginning of a page: as the engine's is, and as a heap's is.
const OFFSETS: [usize; 2] = [0, 16];
const PAGE: usize = bellhop_protocol::PAGE_SIZE as usize;

/// How many copies of so many bytes to measure.
pub(in crate::bench) fn copies(size: usize) -> usize {
    (BYTES / size.max(1)).clamp(FEWEST, COPIES)
}

/// A way to copy as many bytes as both slices have.
#[derive(Clone, Copy)]
pub(in crate::bench) struct Way {
    /// Its name.
    pub(in crate::bench) name: &'static str,
    copy: fn(&[u8], &mut [u8]),
}

/// The C library's.
pub(in crate::bench) const MEMCPY: Way =
    Way { name: "memcpy", copy: |source, target| target.copy_from_slice(source) };

/// All ways that this processor has.
pub(in crate::bench) fn ways() -> Vec<Way> {
    let mut ways = vec![MEMCPY];
    #[cfg(target_arch = "x86_64")]
    ways.extend(x86::ways());
    ways
}

/// The order in which pieces are copied: the first piece, the one `stride` pieces further on, and so on around.
#[derive(Clone, Copy)]
pub(in crate::bench) struct Order {
    /// Bytes of a piece.
    pub(in crate::bench) piece: usize,
    /// Pieces from one to the next.
    pub(in crate::bench) stride: usize,
}

impl Order {
    /// All bytes at once.
    pub(in crate::bench) const fn at_once(size: usize) -> Self {
        Self { piece: size, stride: 1 }
    }

    fn copy(self, way: Way, source: &[u8], target: &mut [u8]) {
        let pieces = source.len() / self.piece;
        for number in 0..pieces {
            let start = number * self.stride % pieces * self.piece;
            let piece = start..start + self.piece;
            // Keeps the compiler from making one copy of several.
            (way.copy)(black_box(&source[piece.clone()]), black_box(&mut target[piece]));
        }
    }

    /// The rate at which this processor copies `size` bytes in this way, in bytes a second.
    pub(in crate::bench) fn rate(self, way: Way, size: usize) -> f64 {
        let rate = |offset| {
            let (mut source, mut target) =
                (Memory::new(1, size, offset), Memory::new(2, size, offset));
            let (source, target) = (source.bytes(), target.bytes());
            let mut fastest = f64::INFINITY;
            for _ in 0..copies(size) {
                let start = Instant::now();
                self.copy(way, source, target);
                fastest = fastest.min(start.elapsed().as_secs_f64());
            }
            size as f64 / fastest
        };
        OFFSETS.map(rate).into_iter().fold(0.0, f64::max)
    }
}

/// So many bytes behind the beginning of a page.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
    size: usize,
}

impl Memory {
    fn new(value: u8, size: usize, offset: usize) -> Self {
        let bytes = vec![value; size + 2 * PAGE];
        let start = bytes.as_ptr().align_offset(PAGE) + offset;
        Self { bytes, start, size }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.size]
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions of the processor")]
mod x86 {
    use super::Way;
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, _mm_sfence, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256,
    };

    /// Bytes that a loop copies at once.
    const STEP: usize = 4 * size_of::<__m256i>();

    /// The ways that are not the C library's.
    pub(super) fn ways() -> Vec<Way> {
        let mut ways = vec![Way { name: "rep movsb", copy: by_string_instruction }];
        if is_x86_feature_detected!("avx2") {
            ways.push(Way { name: "AVX2", copy: by_vectors::<false> });
            ways.push(Way { name: "non-temporal", copy: by_vectors::<true> });
        }
        ways
    }

    fn by_string_instruction(source: &[u8], target: &mut [u8]) {
        let count = source.len().min(target.len());
        // SAFETY: both have that many bytes, and do not overlap.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") count => _,
                inout("rsi") source.as_ptr() => _,
                inout("rdi") target.as_mut_ptr() => _,
                options(nostack, preserves_flags),
            );
        }
    }

    fn by_vectors<const NON_TEMPORAL: bool>(source: &[u8], target: &mut [u8]) {
        let count = source.len().min(target.len());
        // Non-temporal stores are to vectors' boundaries only.
        let before = match NON_TEMPORAL {
            true => target.as_ptr().align_offset(size_of::<__m256i>()).min(count),
            false => 0,
        };
        let behind = count - (count - before) % STEP;
        target[..before].copy_from_slice(&source[..before]);
        // SAFETY: the processor has AVX2, since this way is offered. The parts are of one length, in whole steps, and
        // where that matters the target's begins at a vector's boundary.
        unsafe { steps::<NON_TEMPORAL>(&source[before..behind], &mut target[before..behind]) };
        target[behind..count].copy_from_slice(&source[behind..count]);
    }

    /// # Safety
    /// The processor has AVX2; both have one length, a multiple of [`STEP`]; and the target begins at a multiple of a
    /// vector's size, if `NON_TEMPORAL`.
    #[target_feature(enable = "avx2")]
    unsafe fn steps<const NON_TEMPORAL: bool>(source: &[u8], target: &mut [u8]) {
        for (from, to) in source.chunks_exact(STEP).zip(target.chunks_exact_mut(STEP)) {
            let (from, to) = (from.as_ptr().cast::<__m256i>(), to.as_mut_ptr().cast::<__m256i>());
            // SAFETY: a step is four vectors. For the boundary see the caller.
            unsafe {
                let vectors = (
                    _mm256_loadu_si256(from),
                    _mm256_loadu_si256(from.add(1)),
                    _mm256_loadu_si256(from.add(2)),
                    _mm256_loadu_si256(from.add(3)),
                );
                if NON_TEMPORAL {
                    _mm256_stream_si256(to, vectors.0);
                    _mm256_stream_si256(to.add(1), vectors.1);
                    _mm256_stream_si256(to.add(2), vectors.2);
                    _mm256_stream_si256(to.add(3), vectors.3);
                } else {
                    _mm256_storeu_si256(to, vectors.0);
                    _mm256_storeu_si256(to.add(1), vectors.1);
                    _mm256_storeu_si256(to.add(2), vectors.2);
                    _mm256_storeu_si256(to.add(3), vectors.3);
                }
            }
        }
        if NON_TEMPORAL {
            _mm_sfence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_copies_all_of_it_in_any_order() {
        let size = 16 * PAGE;
        let orders =
            [Order::at_once(size), Order { piece: PAGE, stride: 7 }, Order { piece: 1, stride: 1 }];
        for way in ways() {
            for (order, offset) in
                orders.into_iter().flat_map(|order| OFFSETS.map(|at| (order, at)))
            {
                let (mut source, mut target) =
                    (Memory::new(0, size, offset), Memory::new(0, size, offset));
                assert_eq!(source.bytes().as_ptr().addr() % PAGE, offset);
                for (index, byte) in source.bytes().iter_mut().enumerate() {
                    *byte = (index % 251) as u8;
                }
                order.copy(way, source.bytes(), target.bytes());
                assert!(source.bytes() == target.bytes(), "{} by {}", way.name, order.piece);
            }
        }
    }

    #[test]
    fn long_copies_are_measured_less_often() {
        assert_eq!([1 << 20, 64 << 20, 1 << 40].map(copies), [COPIES, FEWEST, FEWEST]);
    }
}
