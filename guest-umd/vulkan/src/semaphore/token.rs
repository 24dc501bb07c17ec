// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a file descriptor of a semaphore is: a page of memory that the programs of a guest pass to each other, and map.

use bellhop_guest_umd::protocol::control::fence::NtHandle;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};

/// Bytes of the page.
const SIZE: usize = 4096;
/// What the first word is: `bellsema`.
const MAGIC: u64 = u64::from_le_bytes(*b"bellsema");
/// Where the words are: that number, the name of the fence, whether it is a timeline's, and the signals of a binary semaphore.
const AT_MAGIC: usize = 0;
const AT_NAME: usize = 8;
const AT_IS_TIMELINE: usize = 16;
const AT_SIGNALS: usize = 24;

/// A page that names a shared fence.
pub(super) struct Token {
    file: File,
    memory: MmapRegion,
    name: NtHandle,
    is_timeline: bool,
}

impl Token {
    /// Makes a page for a fence of this name.
    pub(super) fn create(name: NtHandle, is_timeline: bool) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("vulkan-semaphore", flags)?;
        ftruncate(&file, SIZE as u64)?;
        // Nobody takes the page away from who has mapped it.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = map(file.as_fd().try_clone_to_owned()?)?;
        let token = Self { file: file.into(), memory, name, is_timeline };
        let words = [(AT_NAME, name.0), (AT_IS_TIMELINE, is_timeline.into()), (AT_MAGIC, MAGIC)];
        for (at, value) in words {
            token.word(at).store(value, Ordering::Relaxed);
        }
        Ok(token)
    }

    /// Reads the page of a descriptor; `None` if it is none.
    pub(super) fn open(file: OwnedFd) -> Option<Self> {
        let file = File::from(file);
        // Only memory has seals.
        let seals = fcntl_get_seals(&file).ok()?;
        let is_whole = file.metadata().is_ok_and(|data| data.len() == SIZE as u64);
        if !seals.contains(SealFlags::SHRINK) || !is_whole {
            return None;
        }
        let memory = map(file.as_fd().try_clone_to_owned().ok()?).ok()?;
        let mut token = Self { file, memory, name: NtHandle(0), is_timeline: false };
        // Each is read once: who passed it may change it at any time.
        let read = |at| token.word(at).load(Ordering::Relaxed);
        let (magic, name, is_timeline) = (read(AT_MAGIC), read(AT_NAME), read(AT_IS_TIMELINE));
        (token.name, token.is_timeline) = (NtHandle(name), is_timeline != 0);
        (magic == MAGIC).then_some(token)
    }

    /// The name of the fence.
    pub(super) fn name(&self) -> NtHandle {
        self.name
    }

    /// Whether it is a timeline's.
    pub(super) fn is_timeline(&self) -> bool {
        self.is_timeline
    }

    /// The number of signals of a binary semaphore.
    pub(super) fn signals(&self) -> &AtomicU64 {
        self.word(AT_SIGNALS)
    }

    /// A descriptor for another program.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        static NOWHERE: AtomicU64 = AtomicU64::new(0);
        // All are in the page.
        self.memory.get_atomic_ref(at).unwrap_or(&NOWHERE)
    }
}

fn map(file: OwnedFd) -> io::Result<MmapRegion> {
    let place = FileOffset::new(file.into(), 0);
    MmapRegion::from_file(place, SIZE).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_names_its_fence_and_shares_the_count_of_signals() {
        let token = Token::create(NtHandle(77), false).unwrap();
        let other = Token::open(token.descriptor().unwrap()).unwrap();
        assert_eq!((other.name(), other.is_timeline()), (NtHandle(77), false));
        assert_eq!(token.signals().fetch_add(1, Ordering::Relaxed), 0);
        assert_eq!(other.signals().load(Ordering::Relaxed), 1);
        let again = Token::open(other.descriptor().unwrap()).unwrap();
        assert_eq!(again.name(), NtHandle(77));
        let timeline = Token::create(NtHandle(1), true).unwrap();
        assert!(Token::open(timeline.descriptor().unwrap()).unwrap().is_timeline());
    }

    #[test]
    fn what_is_no_such_page_is_refused() {
        let null = File::open("/dev/null").unwrap();
        assert!(Token::open(null.into()).is_none());
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        for (size, seals) in
            [(4096, SealFlags::empty()), (0, SealFlags::SHRINK), (4096, SealFlags::SHRINK)]
        {
            let memory = memfd_create("other", flags).unwrap();
            ftruncate(&memory, size).unwrap();
            fcntl_add_seals(&memory, seals).unwrap();
            assert!(Token::open(memory).is_none(), "{size} {seals:?}");
        }
        // The magic alone is not enough where the page may be taken away.
        let unsealed = memfd_create("unsealed", flags).unwrap();
        ftruncate(&unsealed, 4096).unwrap();
        rustix::io::pwrite(&unsealed, &MAGIC.to_le_bytes(), 0).unwrap();
        assert!(Token::open(unsealed).is_none());
    }
}
