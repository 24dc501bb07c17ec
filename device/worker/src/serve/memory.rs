// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "copies between the window and this process's own memory")]
#![cfg_attr(not(feature = "codecs"), allow(dead_code, reason = "only codecs store pictures"))]

//! The window as roles without Vulkan use it: they copy what they need, and look at nothing twice.

use std::ops::Range;
use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut};

/// The GPU virtual addresses that the owner maps on demand.
#[derive(Debug, Clone)]
pub struct Memory {
    window: Range<u64>,
}

/// A range that is not in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{length:#x} bytes at {address:#x} are not in the window")]
pub struct Outside {
    /// The first address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
}

impl Memory {
    /// The memory of this window, which must stay reserved until the process ends.
    pub fn new(window: Range<u64>) -> Self {
        Self { window }
    }

    /// Copies from the window. The thread waits for pages that are not mapped.
    ///
    /// # Errors
    /// When the range is not in the window.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Outside> {
        self.check(address, into.len())?;
        // SAFETY: the window is reserved, and no Rust reference points into it. Another thread maps pages there, and waits
        // in the signal handler until the owner has answered; the guest may store there meanwhile, which changes only what
        // is copied: bytes have no invalid value.
        unsafe {
            copy_nonoverlapping(
                with_exposed_provenance(address as usize),
                into.as_mut_ptr(),
                into.len(),
            );
        }
        Ok(())
    }

    /// Copies into the window, as [`Self::read`] copies from it.
    ///
    /// # Errors
    /// When the range is not in the window.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Outside> {
        self.check(address, from.len())?;
        // SAFETY: as in `read`.
        unsafe {
            copy_nonoverlapping(
                from.as_ptr(),
                with_exposed_provenance_mut(address as usize),
                from.len(),
            );
        }
        Ok(())
    }

    fn check(&self, address: u64, length: usize) -> Result<(), Outside> {
        let end = address.checked_add(length as u64);
        let inside = address >= self.window.start && end.is_some_and(|end| end <= self.window.end);
        if inside { Ok(()) } else { Err(Outside { address, length: length as u64 }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_of_the_window_is_copied() {
        let mut place = [1_u8, 2, 3, 4];
        let start = place.as_mut_ptr().expose_provenance() as u64;
        let memory = Memory::new(start..start + 4);
        let mut bytes = [0; 4];
        memory.read(start, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 4]);
        memory.write(start + 1, &[9, 8]).unwrap();
        memory.read(start, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 9, 8, 4]);
        for address in [start - 1, start + 1, 0, u64::MAX, u64::MAX - 3] {
            let outside = Outside { address, length: 4 };
            assert_eq!(memory.read(address, &mut bytes), Err(outside));
            assert_eq!(memory.write(address, &bytes), Err(outside));
        }
    }
}
