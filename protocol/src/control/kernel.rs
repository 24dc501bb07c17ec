// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about kernels: programs in SPIR-V, which `DISPATCH_KERNEL` runs. Specific to Bellhop.

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the device offers to those who bring their own kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryKernelCaps {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QueryKernelCaps, 8, reserved at 0);
request!(QueryKernelCaps, QUERY_KERNEL_CAPS -> KernelCaps);

/// [`KernelCaps::flags`]: kernels can be created. Without it, only [`KernelCaps::missing`] means something.
pub const KERNELS_SUPPORTED: u32 = 1 << 0;
/// [`KernelCaps::flags`]: kernels may use GPU virtual addresses as pointers. Without it, they reach memory only through
/// descriptors.
pub const KERNEL_POINTERS: u32 = 1 << 1;

/// What kernels can be. Texts are UTF-8, padded with zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct KernelCaps {
    /// [`KERNELS_SUPPORTED`] and [`KERNEL_POINTERS`].
    pub flags: u32,
    /// Version of Vulkan, as Vulkan encodes it.
    pub api_version: u32,
    /// Most work groups of a dispatch in each dimension.
    pub max_groups: [u32; 3],
    /// Most invocations of a work group in each dimension.
    pub max_group_size: [u32; 3],
    /// Most invocations of a work group.
    pub max_invocations: u32,
    /// Bytes of memory that a work group's invocations can share.
    pub shared_memory: u32,
    /// Most bytes of push constants.
    pub max_push_constants: u32,
    /// Most descriptors.
    pub max_descriptors: u32,
    /// What the address of a descriptor must be a multiple of.
    pub descriptor_alignment: u32,
    /// Most bytes of SPIR-V in a kernel.
    pub max_spirv: u32,
    /// Most kernels that this guest can have at a time.
    pub max_kernels: u32,
    /// Zero.
    pub reserved: u32,
    /// First GPU virtual address that kernels can reach.
    pub window_start: u64,
    /// Bytes from there on that kernels can reach.
    pub window_length: u64,
    /// The name of the Vulkan device.
    pub device: [u8; 64],
    /// Its driver, with version.
    pub driver: [u8; 64],
    /// Why there are no kernels, and what to install on the host. Empty if there are.
    pub missing: [u8; 256],
}
crate::assert_layout!(
    KernelCaps, 464,
    flags at 0, api_version at 4, max_groups at 8, max_group_size at 20, max_invocations at 32,
    shared_memory at 36, max_push_constants at 40, max_descriptors at 44, descriptor_alignment at 48,
    max_spirv at 52, max_kernels at 56, reserved at 60, window_start at 64, window_length at 72,
    device at 80, driver at 144, missing at 208,
);

impl KernelCaps {
    /// The device has no kernels, for this reason.
    #[must_use]
    pub fn none(missing: &str) -> Self {
        Self {
            flags: 0,
            api_version: 0,
            max_groups: [0; 3],
            max_group_size: [0; 3],
            max_invocations: 0,
            shared_memory: 0,
            max_push_constants: 0,
            max_descriptors: 0,
            descriptor_alignment: 0,
            max_spirv: 0,
            max_kernels: 0,
            reserved: 0,
            window_start: 0,
            window_length: 0,
            device: [0; 64],
            driver: [0; 64],
            missing: padded(missing),
        }
    }

    /// Whether kernels can be created.
    #[must_use]
    pub const fn are_supported(&self) -> bool {
        self.flags & KERNELS_SUPPORTED != 0
    }

    /// Whether kernels may use GPU virtual addresses as pointers.
    #[must_use]
    pub const fn have_pointers(&self) -> bool {
        self.flags & KERNEL_POINTERS != 0
    }
}

/// The beginning of a text, as many whole characters as there is room for, padded with zeroes.
#[must_use]
pub fn padded<const ROOM: usize>(text: &str) -> [u8; ROOM] {
    let mut bytes = [0; ROOM];
    let whole = &text.as_bytes()[..text.floor_char_boundary(ROOM)];
    bytes[..whole.len()].copy_from_slice(whole);
    bytes
}

/// The text before the padding of [`padded`]. Of bytes that are no text, the part that is.
#[must_use]
pub fn unpadded(bytes: &[u8]) -> &str {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let valid = match core::str::from_utf8(bytes) {
        Ok(text) => return text,
        Err(error) => error.valid_up_to(),
    };
    core::str::from_utf8(&bytes[..valid]).unwrap_or_default()
}

/// Fewest bytes of SPIR-V in a kernel: a module's header.
pub const MIN_SPIRV: u32 = 20;
/// Most bytes of SPIR-V in a kernel.
pub const MAX_SPIRV: u32 = 1 << 20;
/// Most specialisation constants of a kernel.
pub const MAX_SPECIALISATION_CONSTANTS: u32 = 16;

/// The value of a specialisation constant, in place of the module's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SpecialisationConstant {
    /// Its number in the module (`SpecId`).
    pub id: u32,
    /// Its value, 32 bits.
    pub value: u32,
}
crate::assert_layout!(SpecialisationConstant, 8, id at 0, value at 4);

/// Compiles a kernel. A list of `constant_count` [`SpecialisationConstant`]s follows.
///
/// The device copies the SPIR-V before it compiles, so the process can reuse that memory once the request is answered.
/// The answer comes when the kernel is compiled, or is refused; other requests do not wait for it. `NOT_SUPPORTED` if the
/// device has no kernels; `ACCESS_VIOLATION` if the process cannot read the SPIR-V (`detail`: the address).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateKernel {
    /// The device.
    pub device: Handle,
    /// GPU virtual address of the SPIR-V, a multiple of 8.
    pub spirv: u64,
    /// Bytes of SPIR-V: a multiple of 4, from [`MIN_SPIRV`] to [`MAX_SPIRV`].
    pub spirv_length: u32,
    /// Bytes of push constants that each dispatch has: a multiple of 4, at most [`KernelCaps::max_push_constants`].
    pub push_constants: u32,
    /// Number of descriptors that each dispatch has, at most [`KernelCaps::max_descriptors`]: storage buffers, bindings
    /// 0, 1 and so on of set 0.
    pub descriptors: u32,
    /// Number of entries in the list, at most [`MAX_SPECIALISATION_CONSTANTS`].
    pub constant_count: u32,
    /// Name of the entry point: printable ASCII, at least one character, padded with at least one zero.
    pub entry_point: [u8; 64],
}
crate::assert_layout!(
    CreateKernel, 96,
    device at 0, spirv at 8, spirv_length at 16, push_constants at 20, descriptors at 24,
    constant_count at 28, entry_point at 32,
);
request!(CreateKernel, CREATE_KERNEL -> KernelCreated);

open_enum! {
    /// What came of compiling a kernel.
    pub struct KernelResult: u32 {
        /// The kernel can be dispatched.
        COMPILED = 0;
        /// The compiler refused it.
        REFUSED = 1;
        /// The compiler crashed.
        COMPILER_CRASHED = 2;
        /// Compiling took longer than a kernel may take.
        TOO_SLOW = 3;
        /// The host could not start a process that compiles.
        NO_WORKER = 4;
    }
}

/// A compiled kernel, or why it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct KernelCreated {
    /// The kernel; 0 if it is not compiled.
    pub kernel: Handle,
    /// The number by which packets name it: unique in the process, and never used again. 0 if it is not compiled.
    pub number: u32,
    /// What came of compiling it.
    pub result: KernelResult,
    /// Bytes of the text.
    pub text_length: u32,
    /// Zero.
    pub reserved: u32,
    /// What the compiler said, or why there is none: UTF-8, padded with zeroes.
    pub text: [u8; 1024],
}
crate::assert_layout!(
    KernelCreated, 1048,
    kernel at 0, number at 8, result at 12, text_length at 16, reserved at 20, text at 24,
);

/// Destroys a kernel. A dispatch that executes finishes; later ones are faults. A kernel ends with its device as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyKernel {
    /// The kernel.
    pub kernel: Handle,
}
crate::assert_layout!(DestroyKernel, 8, kernel at 0);
request!(DestroyKernel, DESTROY_KERNEL -> ());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_ends_with_its_last_whole_character() {
        assert_eq!(padded::<4>("ab"), *b"ab\0\0");
        assert_eq!(padded::<4>("abcdef"), *b"abcd");
        // Each is two bytes long.
        assert_eq!(padded::<4>("a\u{e9}\u{e9}"), *b"a\xc3\xa9\0");
        assert_eq!(unpadded(&padded::<4>("abcdef")), "abcd");
        assert_eq!(unpadded(&padded::<4>("")), "");
        assert_eq!(unpadded(b"ab\0cd"), "ab");
        assert_eq!(unpadded(b"ab\xffcd"), "ab");
    }
}
