// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "mappings at addresses that were chosen elsewhere")]

//! The window: a range of this process's addresses that are GPU virtual addresses.

use super::sandbox::REACH;
use crate::messages::PAGE;
use rustix::fd::BorrowedFd;
use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ptr::without_provenance_mut;

/// A range of addresses. It contains only what the owner has mapped there.
///
/// It is reserved until the process has loaded and started everything. What is not mapped is free from then on: the limit
/// of addresses counts what is reserved as it counts what is mapped. Linux puts nothing there by itself, since it takes the
/// highest free addresses below the stack, and the limit leaves most of them free.
pub struct Window {
    start: u64,
    end: u64,
    /// At most so many mappings does Linux count in the window.
    pieces: u64,
    /// At most so many bytes are mapped in the window.
    bytes: u64,
    /// With more mappings, the process might have none left for its own memory.
    most: u64,
}

/// Linux's default for the most mappings of a process.
const MAX_MAP_COUNT: u64 = 65_530;
/// A mapping in the middle of another leaves two parts beside it.
const SPLIT: u64 = 2;

/// Why a window cannot be reserved or mapped.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// The range is not whole pages, or not inside the window.
    #[error("{length:#x} bytes at {address:#x} are not pages of the window")]
    Outside {
        /// The first address.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// The range is occupied, or outside user space.
    #[error(
        "cannot reserve the GPU virtual addresses {start:#x} to {end:#x} in this process: {error}"
    )]
    Unavailable {
        /// The first address.
        start: u64,
        /// The address after the last.
        end: u64,
        /// Why.
        error: io::Errno,
    },
    /// Linux refused the mapping.
    #[error("cannot map {length:#x} bytes at {address:#x}: {error}")]
    Refused {
        /// The first address.
        address: u64,
        /// Bytes.
        length: u64,
        /// Why.
        error: io::Errno,
    },
}

impl Window {
    /// Reserves these addresses.
    ///
    /// # Errors
    /// When they are not pages, or not free.
    pub fn reserve(start: u64, length: u64) -> Result<Self, WindowError> {
        let end = start.checked_add(length).filter(|_| is_pages(start, length) && start > 0);
        let end = end.ok_or(WindowError::Outside { address: start, length })?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: `FIXED_NOREPLACE` replaces no mapping.
        let reserved =
            unsafe { mmap_anonymous(pointer(start), length as usize, ProtFlags::empty(), flags) };
        match reserved {
            Ok(at) if at.addr() as u64 == start => {
                Ok(Self { start, end, pieces: 1, bytes: 0, most: most() })
            }
            // Linux before 4.17 takes the address as a hint.
            Ok(_) => Err(WindowError::Unavailable { start, end, error: io::Errno::EXIST }),
            Err(error) => Err(WindowError::Unavailable { start, end, error }),
        }
    }

    /// Maps a part of a file.
    ///
    /// # Errors
    /// When these are not pages inside the window, or Linux refuses.
    pub fn map(
        &mut self,
        address: u64,
        length: u64,
        (file, offset): (BorrowedFd<'_>, u64),
        writable: bool,
    ) -> Result<(), WindowError> {
        self.check(address, length)?;
        self.pieces += SPLIT;
        self.bytes = self.bytes.saturating_add(length);
        let stores = if writable { ProtFlags::WRITE } else { ProtFlags::empty() };
        let (protection, flags) = (ProtFlags::READ | stores, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: the range is inside the window, which only kernels access: no Rust reference points there.
        unsafe { mmap(pointer(address), length as usize, protection, flags, file, offset) }
            .map(drop)
            .map_err(|error| WindowError::Refused { address, length, error })
    }

    /// Takes back what is mapped there, and leaves nothing there. After it returns, no access reaches the former mapping.
    ///
    /// # Errors
    /// When these are not pages inside the window, or Linux refuses.
    pub fn unmap(&mut self, address: u64, length: u64) -> Result<(), WindowError> {
        self.check(address, length)?;
        (self.pieces, self.bytes) = if length == self.end - self.start {
            (1, 0)
        } else {
            (self.pieces + SPLIT, self.bytes)
        };
        // SAFETY: as in `map`. Linux has flushed the TLBs of all processors when this returns.
        unsafe { munmap(pointer(address), length as usize) }.map_err(|error| WindowError::Refused {
            address,
            length,
            error,
        })
    }

    /// Returns whether a window may have no more mappings, or not so many more bytes mapped.
    pub fn is_full(&self, length: u64) -> bool {
        self.pieces + SPLIT > self.most || self.bytes.saturating_add(length) > REACH
    }

    /// Takes everything back.
    ///
    /// # Errors
    /// When Linux refuses.
    pub fn clear(&mut self) -> Result<(), WindowError> {
        self.unmap(self.start, self.end - self.start)
    }

    fn check(&self, address: u64, length: u64) -> Result<(), WindowError> {
        let end = address.checked_add(length);
        let inside = address >= self.start && end.is_some_and(|end| end <= self.end);
        if inside && is_pages(address, length) {
            Ok(())
        } else {
            Err(WindowError::Outside { address, length })
        }
    }
}

/// Three quarters of the mappings that Linux allows a process.
fn most() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(MAX_MAP_COUNT) / 4 * 3
}

fn is_pages(address: u64, length: u64) -> bool {
    length > 0 && address.is_multiple_of(PAGE) && length.is_multiple_of(PAGE)
}

fn pointer(address: u64) -> *mut std::ffi::c_void {
    without_provenance_mut(address as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    /// Addresses that Linux leaves free in a process. Each test uses its own part.
    const PLACE: u64 = 0x20_0000_0000;

    #[test]
    fn a_window_that_is_taken_is_refused() {
        let _window = Window::reserve(PLACE, GIB).unwrap();
        let again = Window::reserve(PLACE + GIB - PAGE, GIB).err().unwrap().to_string();
        assert!(
            again.starts_with("cannot reserve the GPU virtual addresses 0x203ffff000"),
            "{again}"
        );
        // Beyond user space; not whole pages; past the end of all addresses.
        assert!(Window::reserve(1 << 48, GIB).is_err());
        assert!(Window::reserve(PLACE + 1, GIB).is_err());
        assert!(Window::reserve(PAGE.wrapping_neg(), 2 * PAGE).is_err());
        assert!(Window::reserve(0, GIB).is_err());
    }

    #[test]
    fn nothing_outside_of_a_window_is_mapped_or_taken_back() {
        let start = PLACE + 2 * GIB;
        let mut window = Window::reserve(start, GIB).unwrap();
        let file = rustix::fs::memfd_create("pages", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 2 * PAGE).unwrap();
        let file = (rustix::fd::AsFd::as_fd(&file), 0);
        window.map(start, 2 * PAGE, file, true).unwrap();
        window.unmap(start + PAGE, PAGE).unwrap();
        for (address, length) in [
            (start - PAGE, PAGE),
            (start + GIB, PAGE),
            (start + GIB - PAGE, 2 * PAGE),
            (start + 1, PAGE),
            (start, PAGE + 1),
            (start, 0),
            (start, u64::MAX - PAGE + 1),
        ] {
            assert!(window.map(address, length, file, true).is_err(), "{address:#x} {length:#x}");
            assert!(window.unmap(address, length).is_err(), "{address:#x} {length:#x}");
        }
    }
}
