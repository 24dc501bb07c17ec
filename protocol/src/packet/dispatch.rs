// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that only 3D and Compute nodes execute.

use super::header::{Opcode, PacketHeader};
use bitflags::bitflags;
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

bitflags! {
    /// How a dispatch relates to the dispatches before it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct DispatchFlags: u32 {
        /// Waits until the dispatches before it in the queue are done and their stores are visible. Without it, they
        /// may overlap with this one.
        const BARRIER = 1 << 0;
    }
}

/// Most bytes of push constants that a dispatch can have. A device may have fewer:
/// [`KernelCaps::max_push_constants`](crate::control::kernel::KernelCaps::max_push_constants).
pub const MAX_PUSH_CONSTANTS: u32 = 256;
/// Most descriptors that a dispatch can have. A device may have fewer:
/// [`KernelCaps::max_descriptors`](crate::control::kernel::KernelCaps::max_descriptors).
pub const MAX_DESCRIPTORS: u32 = 16;

/// `DISPATCH_KERNEL`: runs a kernel that the process created with
/// [`CreateKernel`](crate::control::kernel::CreateKernel).
///
/// Its arguments lie in memory: push constants, zeroes up to a multiple of 8 bytes, and then
/// [`KernelDescriptor`]s. The engine reads them once, before the kernel starts. Every other packet, and the end of the
/// buffer, waits for the dispatches before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DispatchKernel {
    /// `argument` is the kernel's number.
    pub header: PacketHeader,
    /// Number of work groups in each dimension. The kernel does not run if one is 0.
    pub groups: [u32; 3],
    /// [`DispatchFlags`]; an unknown flag is refused.
    pub flags: u32,
    /// GPU virtual address of the arguments, a multiple of 8; ignored if there are none.
    pub arguments: u64,
    /// Bytes of push constants: as many as the kernel was created with.
    pub push_constants: u32,
    /// Number of descriptors: as many as the kernel was created with.
    pub descriptors: u32,
}
crate::assert_layout!(
    DispatchKernel, 40,
    header at 0, groups at 8, flags at 20, arguments at 24, push_constants at 32, descriptors at 36,
);

/// Memory that a kernel reaches through a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct KernelDescriptor {
    /// Address of its first byte: a multiple of
    /// [`KernelCaps::descriptor_alignment`](crate::control::kernel::KernelCaps::descriptor_alignment).
    pub gpu_va: u64,
    /// Its length in bytes.
    pub length: u64,
}
crate::assert_layout!(KernelDescriptor, 16, gpu_va at 0, length at 8);

impl DispatchKernel {
    /// Runs the kernel of this number without arguments.
    #[must_use]
    pub const fn new(kernel: u32, groups: [u32; 3], flags: DispatchFlags) -> Self {
        let header = PacketHeader::new(Opcode::DISPATCH_KERNEL, size_of::<Self>(), kernel);
        let flags = flags.bits();
        Self { header, groups, flags, arguments: 0, push_constants: 0, descriptors: 0 }
    }

    /// With these arguments.
    #[must_use]
    pub const fn with_arguments(
        self,
        arguments: u64,
        push_constants: u32,
        descriptors: u32,
    ) -> Self {
        Self { arguments, push_constants, descriptors, ..self }
    }

    /// The kernel's number.
    #[must_use]
    pub const fn kernel(&self) -> u32 {
        self.header.argument
    }

    /// Bytes of all arguments, if these are numbers of arguments that a packet can have.
    #[must_use]
    pub const fn arguments_size(&self) -> Option<usize> {
        if !self.push_constants.is_multiple_of(4)
            || self.push_constants > MAX_PUSH_CONSTANTS
            || self.descriptors > MAX_DESCRIPTORS
        {
            return None;
        }
        let push_constants = (self.push_constants as usize).next_multiple_of(8);
        Some(push_constants + self.descriptors as usize * size_of::<KernelDescriptor>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_push_constants_up_to_a_whole_word_and_then_descriptors() {
        let size = |push_constants, descriptors| {
            DispatchKernel::new(1, [1; 3], DispatchFlags::empty())
                .with_arguments(0x1000, push_constants, descriptors)
                .arguments_size()
        };
        assert_eq!(size(0, 0), Some(0));
        assert_eq!(size(4, 0), Some(8));
        assert_eq!(size(8, 1), Some(24));
        assert_eq!(size(12, 2), Some(48));
        assert_eq!(size(256, 16), Some(512));
        for (push_constants, descriptors) in [(2, 0), (260, 0), (u32::MAX, 0), (0, 17)] {
            assert_eq!(size(push_constants, descriptors), None, "{push_constants} {descriptors}");
        }
    }
}
