// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of a dispatch.

use bellhop_protocol::packet::dispatch::KernelDescriptor;
use zerocopy::IntoBytes;

/// The arguments of one dispatch: push constants by value, and descriptors.
///
/// Push constants are laid out as a kernel's `std430` block: each value stands at the next multiple of its size.
/// Descriptors are bindings 0, 1 and so on of set 0, in the order in which they are added.
///
/// ```
/// use bellhop_guest_umd::Arguments;
///
/// // layout(push_constant) uniform Arguments { uint count; Values values; };
/// let mut arguments = Arguments::new();
/// arguments.u32(1000).address(0x10_0000);
/// assert_eq!(arguments.push_constants().len(), 16);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    push_constants: Vec<u8>,
    descriptors: Vec<KernelDescriptor>,
}

impl Arguments {
    /// No arguments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value that stands at a multiple of its size.
    fn value<const SIZE: usize>(&mut self, bytes: [u8; SIZE]) -> &mut Self {
        let start = self.push_constants.len().next_multiple_of(SIZE);
        self.push_constants.resize(start, 0);
        self.bytes(&bytes)
    }

    /// Adds a 32-bit integer.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.value(value.to_le_bytes())
    }

    /// Adds a signed 32-bit integer.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.value(value.to_le_bytes())
    }

    /// Adds a 32-bit floating-point number.
    pub fn f32(&mut self, value: f32) -> &mut Self {
        self.value(value.to_le_bytes())
    }

    /// Adds a 64-bit integer.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.value(value.to_le_bytes())
    }

    /// Adds a pointer: a GPU virtual address. Devices whose
    /// [`KernelCaps`](crate::Adapter::kernel_caps) have no pointers run no kernel that follows it.
    pub fn address(&mut self, gpu_va: u64) -> &mut Self {
        self.u64(gpu_va)
    }

    /// Adds bytes of push constants as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.push_constants.extend_from_slice(bytes);
        self
    }

    /// Adds a descriptor: the kernel's next storage buffer is `length` bytes from `gpu_va` on.
    pub fn descriptor(&mut self, gpu_va: u64, length: u64) -> &mut Self {
        self.descriptors.push(KernelDescriptor { gpu_va, length });
        self
    }

    /// The push constants.
    #[must_use]
    pub fn push_constants(&self) -> &[u8] {
        &self.push_constants
    }

    /// The descriptors.
    #[must_use]
    pub fn descriptors(&self) -> &[KernelDescriptor] {
        &self.descriptors
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.push_constants.is_empty() && self.descriptors.is_empty()
    }

    /// The bytes that `DISPATCH_KERNEL` reads: push constants up to a whole word, then descriptors. A program that
    /// keeps arguments in memory of its own writes these there; see
    /// [`CommandBuffer::dispatch_kernel_at`](crate::CommandBuffer::dispatch_kernel_at).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.push_constants.clone();
        bytes.resize(bytes.len().next_multiple_of(size_of::<u64>()), 0);
        bytes.extend_from_slice(self.descriptors.as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_push_constant_stands_at_a_multiple_of_its_size() {
        let mut arguments = Arguments::new();
        arguments.u32(1).u64(2).f32(1.0).i32(-1).u32(5);
        let words: Vec<_> = arguments.push_constants().chunks(4).collect();
        let expected: [[u8; 4]; 7] = [
            [1, 0, 0, 0],
            [0; 4],
            [2, 0, 0, 0],
            [0; 4],
            1f32.to_le_bytes(),
            [0xFF; 4],
            [5, 0, 0, 0],
        ];
        assert_eq!(words, expected.iter().map(|word| &word[..]).collect::<Vec<_>>());
    }

    #[test]
    fn descriptors_begin_at_a_whole_word_behind_the_push_constants() {
        let mut arguments = Arguments::new();
        assert!(arguments.is_empty() && arguments.to_bytes().is_empty());
        arguments.descriptor(0x1_0000, 4096);
        assert_eq!(arguments.to_bytes(), [0x1_0000u64, 4096].as_bytes());
        arguments.u32(7);
        assert_eq!(arguments.to_bytes(), [7u64, 0x1_0000, 4096].as_bytes());
    }
}
