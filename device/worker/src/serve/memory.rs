// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "copies between the window and this process's own memory")]

//! The window as this process's own code uses it: it copies what it needs, and looks at nothing twice.

use crate::messages::PAGE;
use std::ops::Range;
use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// The GPU virtual addresses that the owner maps on demand.
#[derive(Debug, Clone)]
pub struct Memory {
    window: Range<u64>,
}

/// What a page is mapped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To be read.
    Load,
    /// To be written.
    Store,
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
        self.check(address, into.len() as u64)?;
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
        self.check(address, from.len() as u64)?;
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

    /// Loads a word that another processor stores, and what that processor stored before. The thread waits for a page that
    /// is not mapped.
    ///
    /// # Errors
    /// When the word is not in the window, or its address no multiple of 4.
    pub fn word(&self, address: u64) -> Result<u32, Outside> {
        let length = size_of::<u32>() as u64;
        self.check(address, length)?;
        if !address.is_multiple_of(length) {
            return Err(Outside { address, length });
        }
        // SAFETY: as in `read`. The word is aligned.
        let word = unsafe { &*with_exposed_provenance::<AtomicU32>(address as usize) };
        Ok(word.load(Ordering::Acquire))
    }

    /// Accesses a byte of each page of a range, so that all of it is mapped, and changes none. The thread waits for each that is
    /// not.
    ///
    /// # Errors
    /// When the range is not in the window.
    pub fn touch(&self, address: u64, length: u64, access: Access) -> Result<(), Outside> {
        self.check(address, length)?;
        let pages = (address - address % PAGE..address + length).step_by(PAGE as usize);
        for page in pages {
            // SAFETY: as in `read`. The window's first address is that of a page.
            let byte = unsafe { &*with_exposed_provenance::<AtomicU8>(page as usize) };
            match access {
                Access::Load => {
                    byte.load(Ordering::Relaxed);
                }
                // A store of what is there, whatever other processors store meanwhile. Compilers make a load of one that adds
                // nothing, and leave it out.
                Access::Store => {
                    let _ = byte.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Checks that a range is in the window.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self, address: u64, length: u64) -> Result<(), Outside> {
        let end = address.checked_add(length);
        let inside = address >= self.window.start && end.is_some_and(|end| end <= self.window.end);
        if inside { Ok(()) } else { Err(Outside { address, length }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::io::pwrite;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::ptr::null_mut;

    /// What pages of a file's private copy show that were touched before the file changed. A store makes a copy.
    fn after_touching(access: Access) -> [u8; 2] {
        let (length, start) = (2 * PAGE as usize, [7; 1]);
        let file = memfd_create("pages", MemfdFlags::empty()).unwrap();
        ftruncate(&file, 2 * PAGE).unwrap();
        for page in [0, PAGE] {
            pwrite(&file, &start, page).unwrap();
        }
        let (data, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping where nothing is, which only what follows accesses.
        let first = unsafe { mmap(null_mut(), length, data, private, &file, 0) }.unwrap();
        let address = first.expose_provenance() as u64;
        let memory = Memory::new(address..address + 2 * PAGE);
        memory.touch(address + PAGE - 1, 2, access).unwrap();
        for page in [0, PAGE] {
            pwrite(&file, &[9], page).unwrap();
        }
        let shown = [0, PAGE].map(|page| {
            let mut byte = [0];
            memory.read(address + page, &mut byte).unwrap();
            byte[0]
        });
        // SAFETY: the mapping of above, which nobody uses any more.
        unsafe { munmap(first, length) }.unwrap();
        shown
    }

    #[test]
    fn touching_to_store_is_a_store_of_what_is_there() {
        assert_eq!(after_touching(Access::Store), [7, 7]);
        assert_eq!(after_touching(Access::Load), [9, 9]);
    }

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
