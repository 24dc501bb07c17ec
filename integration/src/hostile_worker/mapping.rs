// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "what fills page tables are mappings, and calls that name them")]

//! Mappings, and what somebody who has taken over a worker does with them. Crates that map files look at the file first,
//! which the sandbox refuses.

use rustix::fd::AsFd;
use rustix::io;
use rustix::mm::{
    Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mmap_anonymous, mremap, munmap,
};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;

const PAGE: usize = bellhop_worker::messages::PAGE as usize;
const DATA: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// A mapping that nothing else is in.
pub(super) struct Mapping {
    at: *mut c_void,
    length: usize,
}

// SAFETY: memory is any thread's, and what is accessed of it are atomic words and pages as a whole.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps bytes that a file has.
    pub(super) fn of_file(file: impl AsFd, offset: u64, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping where nothing is.
        let at = unsafe { mmap(null_mut(), length, DATA, MapFlags::SHARED, file, offset) }?;
        Ok(Self { at, length })
    }

    /// Maps zeroes.
    pub(super) fn of_zeroes(length: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping where nothing is.
        let at = unsafe { mmap_anonymous(null_mut(), length, ProtFlags::READ, flags) }?;
        Ok(Self { at, length })
    }

    /// Maps memory of the process's own that others could share, and that no limit of data counts.
    pub(super) fn that_is_shared(length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping where nothing is.
        let at = unsafe { mmap_anonymous(null_mut(), length, DATA, MapFlags::SHARED) }?;
        Ok(Self { at, length })
    }

    /// Maps the same pages once more, without naming their file.
    pub(super) fn again(&self) -> io::Result<Self> {
        // SAFETY: with an old size of 0 the old mapping stays, and the new one is where nothing is.
        let at = unsafe { mremap(self.at, 0, self.length, MremapFlags::MAYMOVE) }?;
        Ok(Self { at, length: self.length })
    }

    /// A word of it, at a multiple of 8.
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length);
        // SAFETY: the word is within the mapping, which lives as long as `self`, and aligned; others access it atomically.
        unsafe { &*self.at.byte_add(offset).cast() }
    }

    /// Loads from each page.
    pub(super) fn touch(&self) {
        for offset in (0..self.length).step_by(PAGE) {
            // SAFETY: the byte is within the mapping. What others store there meanwhile does not matter.
            unsafe { self.at.byte_add(offset).cast::<u8>().read_volatile() };
        }
    }

    /// Fills Linux's page tables, in one call.
    pub(super) fn populate(&self) -> io::Result<()> {
        self.advise(Advice::LinuxPopulateRead)
    }

    /// Empties Linux's page tables, in one call.
    pub(super) fn empty(&self) -> io::Result<()> {
        self.advise(Advice::LinuxDontNeed)
    }

    /// Makes a hole in the file.
    pub(super) fn punch(&self) -> io::Result<()> {
        self.advise(Advice::LinuxRemove)
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: these are pages of a mapping of this type, of whose contents nothing depends on anything.
        unsafe { madvise(self.at, self.length, advice) }
    }

    /// Keeps it until the process has ended.
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        let _ = unsafe { munmap(self.at, self.length) };
    }
}

/// Sends this process the signal that undoes a stop, as `abort` sends another one: by the only call that sends signals in
/// the sandbox.
pub(super) fn undo_stop() -> std::io::Result<()> {
    // SAFETY: it has no memory as an argument.
    let result = unsafe { libc::raise(libc::SIGCONT) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
