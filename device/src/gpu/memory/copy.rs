// SPDX-License-Identifier: MIT OR Apache-2.0

//! Copies of bytes, each in the way that is fastest on this processor for so many bytes.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;
use vm_memory::VolatileSlice;

/// Bytes of a whole operation from which on its stores bypass the caches. Measured with 2 MiB of second-level cache: at
/// 16 MiB such stores are no faster, at 64 MiB 1.4 times as fast. They evict what others have cached, and a shorter copy
/// is likely to be read while a cache has it.
const STREAMED: u64 = 32 << 20;
/// The longest run that is copied by this file's own loop, where that is faster. A C library copies from about a page on
/// with an instruction for strings, which on some processors takes seven times as long to copy a page, though they say
/// that it is fast. For longer runs its choice is good.
#[cfg(target_arch = "x86_64")]
const LONGEST_LOOP: usize = 64 << 10;
/// The shortest, below which a C library has no choice to make.
#[cfg(target_arch = "x86_64")]
const SHORTEST_LOOP: usize = 512;

/// How the bytes of an operation are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Into the caches.
    Cached,
    /// Past the caches, where the processor can do that.
    Streamed,
}

impl Stores {
    /// How to store the bytes of an operation that copies `length` bytes in all.
    #[inline]
    pub fn of(length: u64) -> Self {
        if length < STREAMED { Self::Cached } else { Self::Streamed }
    }
}

/// Whether the loop is the faster way to copy a page on this processor. No feature of a processor says that, so both ways
/// are tried, once, for some 50 µs.
#[cfg(target_arch = "x86_64")]
static IS_LOOP_FASTER: LazyLock<bool> = LazyLock::new(vector::is_faster);

/// Finds out how to copy on this processor, if that is not known yet. To be called before an engine runs.
pub fn choose() {
    #[cfg(target_arch = "x86_64")]
    LazyLock::force(&IS_LOOP_FASTER);
}

/// Copies as many bytes as fit into the shorter slice. Where the slices overlap, the target has what the source had.
/// A store of this thread that follows is seen after the bytes.
#[inline]
pub fn copy(from: &VolatileSlice<'_>, to: &VolatileSlice<'_>, stores: Stores) {
    #[cfg(target_arch = "x86_64")]
    if let Some(way) = vector::way(from.len().min(to.len()), stores, *IS_LOOP_FASTER)
        && let Some(copied) = vector::copy(from, to, way)
    {
        // The rest is shorter than a step of the loop.
        if let (Ok(from), Ok(to)) = (from.offset(copied), to.offset(copied)) {
            from.copy_to_volatile_slice(to);
        }
        return;
    }
    let _ = stores;
    from.copy_to_volatile_slice(*to);
}

#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "no library has a copy of volatile memory by vectors, or past the caches"
)]
mod vector {
    use super::{LONGEST_LOOP, SHORTEST_LOOP, Stores};
    use std::arch::x86_64::{
        __m256i, _mm_sfence, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256,
    };
    use std::time::Instant;
    use vm_memory::VolatileSlice;

    /// Bytes of a vector.
    const VECTOR: usize = size_of::<__m256i>();
    /// Bytes that the loop copies at once: four vectors.
    const STEP: usize = 4 * VECTOR;

    /// How to store so many bytes by vectors; `None` if another way is better.
    #[inline]
    pub fn way(length: usize, stores: Stores, is_loop_faster: bool) -> Option<Stores> {
        let fits = match stores {
            Stores::Cached => is_loop_faster && length <= LONGEST_LOOP,
            Stores::Streamed => true,
        };
        (fits && length >= SHORTEST_LOOP && is_x86_feature_detected!("avx2")).then_some(stores)
    }

    /// Copies whole steps, and returns how many bytes that are; `None` if the slices overlap, or this processor has no
    /// such vectors.
    #[inline]
    pub fn copy(from: &VolatileSlice<'_>, to: &VolatileSlice<'_>, stores: Stores) -> Option<usize> {
        let length = from.len().min(to.len());
        let whole = length - length % STEP;
        let (source, target) = (from.ptr_guard(), to.ptr_guard_mut());
        let (source, target) = (source.as_ptr(), target.as_ptr());
        let overlaps = source.addr().abs_diff(target.addr()) < length;
        if overlaps || !is_x86_feature_detected!("avx2") {
            return None;
        }
        // SAFETY: the processor has AVX2. Both slices have `whole` bytes, which is a multiple of a step, and they do not
        // overlap. They are memory of a guest, of which there are no references: other processes may access it at any
        // time, and any bytes are valid. Streamed stores are to vectors' boundaries.
        unsafe {
            if stores == Stores::Streamed && target.addr().is_multiple_of(VECTOR) {
                steps::<true>(source.cast(), target.cast(), whole);
            } else {
                steps::<false>(source.cast(), target.cast(), whole);
            }
        }
        Some(whole)
    }

    /// Whether [`copy`] takes clearly less time for pages than the C library.
    pub fn is_faster() -> bool {
        const PAGES: usize = 8;
        const TRIES: usize = 32;
        const PAGE: usize = bellhop_protocol::PAGE_SIZE as usize;
        let (mut source, mut target) = (vec![1_u8; PAGES * PAGE], vec![2_u8; PAGES * PAGE]);
        let (source, target) =
            (VolatileSlice::from(&mut source[..]), VolatileSlice::from(&mut target[..]));
        let time = |way: &dyn Fn(&VolatileSlice<'_>, &VolatileSlice<'_>)| {
            let try_it = |_| {
                let start = Instant::now();
                for at in (0..PAGES * PAGE).step_by(PAGE) {
                    if let (Ok(from), Ok(to)) =
                        (source.subslice(at, PAGE), target.subslice(at, PAGE))
                    {
                        way(&from, &to);
                    }
                }
                start.elapsed()
            };
            // Others may have been disturbed.
            (0..TRIES).map(try_it).min().unwrap_or_default()
        };
        let library = time(&|from, to| from.copy_to_volatile_slice(*to));
        let own = time(&|from, to| {
            copy(from, to, Stores::Cached);
        });
        is_x86_feature_detected!("avx2") && own * 10 < library * 9
    }

    /// Copies step by step.
    ///
    /// # Safety
    /// The processor has AVX2. Both have `length` bytes, a multiple of [`STEP`], and do not overlap. If the stores are
    /// streamed, the target begins at a multiple of a vector's size.
    #[target_feature(enable = "avx2")]
    unsafe fn steps<const IS_STREAMED: bool>(
        source: *const __m256i,
        target: *mut __m256i,
        length: usize,
    ) {
        for at in (0..length / VECTOR).step_by(STEP / VECTOR) {
            // SAFETY: the caller's: these four vectors are within `length`.
            unsafe {
                let (source, target) = (source.add(at), target.add(at));
                let first = _mm256_loadu_si256(source);
                let second = _mm256_loadu_si256(source.add(1));
                let third = _mm256_loadu_si256(source.add(2));
                let fourth = _mm256_loadu_si256(source.add(3));
                if IS_STREAMED {
                    _mm256_stream_si256(target, first);
                    _mm256_stream_si256(target.add(1), second);
                    _mm256_stream_si256(target.add(2), third);
                    _mm256_stream_si256(target.add(3), fourth);
                } else {
                    _mm256_storeu_si256(target, first);
                    _mm256_storeu_si256(target.add(1), second);
                    _mm256_storeu_si256(target.add(2), third);
                    _mm256_storeu_si256(target.add(3), fourth);
                }
            }
        }
        if IS_STREAMED {
            // Such stores are seen in any order otherwise, also after a later store that says that they are done.
            _mm_sfence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vm_memory::{Bytes, MmapRegion, VolatileMemory};

    const SIZE: usize = 0x3_0000;

    fn noise() -> Vec<u8> {
        (0..SIZE).map(|at| (at % 251) as u8 ^ (at >> 8) as u8).collect()
    }

    proptest! {
        #[test]
        fn every_way_copies_all_bytes_and_no_others(
            from in 0usize..0x200, to in 0usize..0x200, length in 0usize..0x2_8000, page in any::<bool>(),
            is_streamed in any::<bool>(),
        ) {
            let stores = if is_streamed { Stores::Streamed } else { Stores::Cached };
            // Most copies begin at the beginning of a page.
            let (from, to) = if page { (0, 0) } else { (from, to) };
            let regions = [(); 2].map(|()| MmapRegion::<()>::new(SIZE).unwrap());
            let [source, target] = regions.each_ref().map(|region| region.as_volatile_slice());
            let bytes = noise();
            source.write_slice(&bytes, 0).unwrap();
            copy(&source.subslice(from, length).unwrap(), &target.subslice(to, length).unwrap(), stores);
            let mut expected = vec![0; SIZE];
            expected[to..to + length].copy_from_slice(&bytes[from..from + length]);
            let mut copied = vec![0; SIZE];
            target.read_slice(&mut copied, 0).unwrap();
            prop_assert!(copied == expected);
        }

        #[test]
        fn what_overlaps_is_copied_as_it_was(
            from in 0usize..0x2000, to in 0usize..0x2000, length in 0usize..0x8000, is_streamed in any::<bool>(),
        ) {
            let stores = if is_streamed { Stores::Streamed } else { Stores::Cached };
            let region = MmapRegion::<()>::new(SIZE).unwrap();
            let memory = region.as_volatile_slice();
            let mut bytes = noise();
            memory.write_slice(&bytes, 0).unwrap();
            copy(&memory.subslice(from, length).unwrap(), &memory.subslice(to, length).unwrap(), stores);
            bytes.copy_within(from..from + length, to);
            let mut copied = vec![0; SIZE];
            memory.read_slice(&mut copied, 0).unwrap();
            prop_assert!(copied == bytes);
        }
    }

    /// Whichever way this processor prefers.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_loop_copies_whole_steps_and_nothing_behind_them() {
        for (length, from, to) in [(512, 0, 0), (4096, 0, 0), (4095, 3, 64), (0x1_0000, 32, 7)] {
            let regions = [(); 2].map(|()| MmapRegion::<()>::new(SIZE).unwrap());
            let [source, target] = regions.each_ref().map(|region| region.as_volatile_slice());
            source.write_slice(&noise(), 0).unwrap();
            for stores in [Stores::Cached, Stores::Streamed] {
                assert_eq!(
                    vector::way(length, stores, true).is_some(),
                    is_x86_feature_detected!("avx2")
                );
                let slices = (source.subslice(from, length), target.subslice(to, length));
                let Some(copied) = vector::copy(&slices.0.unwrap(), &slices.1.unwrap(), stores)
                else {
                    continue;
                };
                assert_eq!(copied, length - length % 128);
                let mut expected = vec![0; SIZE];
                expected[to..to + copied].copy_from_slice(&noise()[from..from + copied]);
                let mut bytes = vec![0; SIZE];
                target.read_slice(&mut bytes, 0).unwrap();
                assert!(bytes == expected, "{length}");
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_loop_is_for_pages_where_it_is_faster_and_for_long_operations() {
        let way = |length, stores, faster| vector::way(length, stores, faster).is_some();
        let has_vectors = is_x86_feature_detected!("avx2");
        assert_eq!(way(4096, Stores::Cached, true), has_vectors);
        assert_eq!(way(4096, Stores::Streamed, false), has_vectors);
        assert!(!way(4096, Stores::Cached, false));
        assert!(!way(LONGEST_LOOP + 1, Stores::Cached, true));
        assert!(!way(SHORTEST_LOOP - 1, Stores::Streamed, true));
    }

    #[test]
    fn the_shorter_slice_bounds_a_copy() {
        let region = MmapRegion::<()>::new(SIZE).unwrap();
        let memory = region.as_volatile_slice();
        memory.write_slice(&noise(), 0).unwrap();
        let [long, short] = [(0, 0x2000), (0x1_0000, 0x1001)]
            .map(|(at, length)| memory.subslice(at, length).unwrap());
        copy(&long, &short, Stores::Cached);
        let mut copied = vec![0; 0x1002];
        memory.read_slice(&mut copied, 0x1_0000).unwrap();
        assert_eq!(copied[..0x1001], noise()[..0x1001]);
        assert_eq!(copied[0x1001], noise()[0x1_1001]);
    }

    #[test]
    fn long_operations_alone_bypass_the_caches() {
        let lengths = [0, STREAMED - 1, STREAMED, u64::MAX].map(Stores::of);
        assert_eq!(lengths, [Stores::Cached, Stores::Cached, Stores::Streamed, Stores::Streamed]);
    }
}
