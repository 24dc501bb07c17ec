// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that only 3D/compute nodes execute.

use super::header::{Opcode, PacketHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// A built-in kernel of the compute node.
    pub struct Kernel: u32 {
        /// Each 64-bit word `w` at index `i` becomes `w ^ xor_stream(parameter, i)`; see [`xor_stream`]. Source and
        /// destination may be one range. Applying it twice with one parameter restores the source.
        XOR_STREAM = 1;
        /// Executes until the 64-bit word at the source is at least the parameter, and then stores that word at the
        /// destination; the length is 8. It can be pre-empted but occupies its engine: a word that never arrives is
        /// a hang.
        SPIN_UNTIL = 2;
        /// Executes until its engine is reset, and cannot be pre-empted. For tests: the host's configuration must
        /// allow it.
        HANG_UNTIL_ENGINE_RESET = 3;
        /// Executes until the adapter is reset: a reset of its engine alone does not end it. For tests, as
        /// [`Self::HANG_UNTIL_ENGINE_RESET`].
        HANG_UNTIL_ADAPTER_RESET = 4;
    }
}

/// Word `index` of the key stream that [`Kernel::XOR_STREAM`] applies: the SplitMix64 finaliser
/// over `key + index * 0x9E3779B97F4A7C15`.
#[must_use]
#[inline]
pub const fn xor_stream(key: u64, index: u64) -> u64 {
    let mut z = key.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Applies [`Kernel::XOR_STREAM`] to bytes in place; the first byte belongs to word `first`. A partial last word
/// uses the first bytes of its key.
///
/// Compilers vectorise this loop; callers compiled for several kinds of processor inline it.
#[inline(always)]
pub fn apply_xor_stream(bytes: &mut [u8], key: u64, first: u64) {
    let (words, rest) = bytes.as_chunks_mut();
    let end = first.wrapping_add(words.len() as u64);
    for (word, index) in words.iter_mut().zip(first..) {
        *word = (u64::from_le_bytes(*word) ^ xor_stream(key, index)).to_le_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(xor_stream(key, end).to_le_bytes()) {
        *byte ^= mask;
    }
}

/// `DISPATCH`: runs a kernel over a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Dispatch {
    /// `argument` is the [`Kernel`].
    pub header: PacketHeader,
    /// First byte to read, a multiple of 8.
    pub source: u64,
    /// First byte to write, a multiple of 8.
    pub destination: u64,
    /// Length of both ranges in bytes, a multiple of 8.
    pub length: u64,
    /// The kernel's parameter.
    pub parameter: u64,
}
crate::assert_layout!(
    Dispatch, 40, header at 0, source at 8, destination at 16, length at 24, parameter at 32,
);

impl Dispatch {
    /// Runs `kernel`.
    #[must_use]
    pub const fn new(
        kernel: Kernel,
        source: u64,
        destination: u64,
        length: u64,
        parameter: u64,
    ) -> Self {
        let header = PacketHeader::new(Opcode::DISPATCH, size_of::<Self>(), kernel.0);
        Self { header, source, destination, length, parameter }
    }

    /// The kernel to run.
    #[must_use]
    pub const fn kernel(&self) -> Kernel {
        Kernel(self.header.argument)
    }
}
