// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptions that descriptors name: of views and samplers. They begin with a serial number, which a descriptor has too, so
//! that one of something that has ended is none.

use crate::heap::{Heap, Piece};
use ash::vk;
use std::sync::atomic::Ordering;
use zerocopy::{Immutable, IntoBytes};

/// A description in memory that the host reads, until it is dropped.
pub(crate) struct Numbered {
    memory: Piece,
    serial: u64,
}

impl Numbered {
    /// Writes a description, which begins with `serial`.
    pub(crate) fn new(
        heap: &Heap,
        serial: u64,
        description: &(impl IntoBytes + Immutable),
    ) -> Result<Self, vk::Result> {
        let bytes = description.as_bytes();
        let memory = heap.take(bytes.len())?;
        memory.write(0, bytes);
        Ok(Self { memory, serial })
    }

    /// Its GPU virtual address.
    pub(crate) fn address(&self) -> u64 {
        self.memory.gpu_va()
    }

    /// Its serial number.
    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        // Before the memory may become something else: no description has this number. A submission publishes it.
        self.memory.long(0).store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::test_heap;

    #[test]
    fn a_description_has_its_number_until_it_is_dropped() {
        let heap = test_heap::heap();
        let one = Numbered::new(heap, 7, &[7u64, 11]).unwrap();
        assert_eq!(one.serial(), 7);
        assert!(one.address().is_multiple_of(64));
        let mut words = [0u64; 2];
        one.memory.read(0, words.as_mut_bytes());
        assert_eq!(words, [7, 11]);
        let address = one.address();
        drop(one);
        let memory = heap.take(64).unwrap();
        assert_eq!(memory.gpu_va(), address, "the heap gives the same memory again");
        assert_eq!(memory.long(0).load(Ordering::Relaxed), 0);
    }
}
