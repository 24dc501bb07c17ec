// SPDX-License-Identifier: MIT OR Apache-2.0

//! Huge pages for memory in a file, so that a device reaches it in few pieces.
//!
//! A machine that has run for a while has few small pages that are adjacent, and programs that come and go leave it fewer. Linux
//! gives a file in memory small pages unless its administrator says otherwise (`shmem_enabled`), but it makes huge ones of them for
//! whoever asks, since version 6.1.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::ptr::null_mut;

/// Bytes of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;
/// Bytes of a small page.
const SMALL_PAGE: usize = bellhop_protocol::PAGE_SIZE as usize;

/// Has the first `size` bytes of a new file in memory be huge pages, as far as the kernel has any. What is left has small pages,
/// once somebody touches it.
pub(super) fn make_huge(file: &File, size: usize) {
    let count = size / HUGE_PAGE;
    let Some(view) = Aligned::new(file, count) else { return };
    for page in 0..count {
        view.make_huge(page);
    }
}

/// A view of a file whose huge pages are aligned in memory as they are in the file: the kernel makes none elsewhere.
struct Aligned {
    /// What is reserved: the view, and what comes before and after it.
    reserved: *mut c_void,
    length: usize,
    start: *mut c_void,
}

impl Aligned {
    /// Maps the first `count` huge pages. None if there are none, or no room.
    fn new(file: &File, count: usize) -> Option<Self> {
        let size = count.checked_mul(HUGE_PAGE).filter(|size| *size > 0)?;
        let length = size.checked_add(HUGE_PAGE)?;
        // SAFETY: the kernel chooses a place where nothing is.
        #[expect(unsafe_code, reason = "the kernel reserves addresses")]
        let reserved = unsafe {
            mmap_anonymous(null_mut(), length, ProtFlags::empty(), MapFlags::PRIVATE).ok()?
        };
        let offset = reserved.addr().next_multiple_of(HUGE_PAGE) - reserved.addr();
        let view = Self { reserved, length, start: reserved.wrapping_byte_add(offset) };
        let (access, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: it replaces a part of what was just reserved, which nothing else uses: `offset` is less than a huge page, and
        // `length` has one more than the view.
        #[expect(unsafe_code, reason = "a file is mapped at an address")]
        unsafe {
            mmap(view.start, size, access, flags, file, 0).ok()?
        };
        Some(view)
    }

    /// Makes a page huge that nobody has touched.
    fn make_huge(&self, page: usize) {
        let start = self.start.wrapping_byte_add(page * HUGE_PAGE);
        // SAFETY: the range is a part of the view. Its pages hold zeroes before and after, and nobody refers to bytes of the view.
        #[expect(unsafe_code, reason = "advice is given by address")]
        unsafe {
            // The kernel collapses no hole: there has to be one small page. It refuses where it has no huge one.
            if madvise(start, SMALL_PAGE, Advice::LinuxPopulateWrite).is_ok() {
                libc::madvise(start, HUGE_PAGE, libc::MADV_COLLAPSE);
            }
        }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: the range is what `new` reserved, and nobody refers to bytes of it.
        #[expect(unsafe_code, reason = "the kernel gets its addresses back")]
        let result = unsafe { munmap(self.reserved, self.length) };
        // A range that is mapped can be unmapped.
        debug_assert_eq!(result, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::file::memory_file;
    use vm_memory::{Bytes, VolatileMemory};

    /// Whether the kernel makes huge pages for whoever asks.
    fn can_collapse() -> bool {
        let state = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
        state.is_ok_and(|state| !state.contains("[deny]"))
    }

    /// The bytes of huge pages in the mapping at this address, as the kernel counts them.
    fn huge_bytes(address: usize) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&format!("{address:x}-")));
        let line = lines.find_map(|line| line.strip_prefix("ShmemPmdMapped:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn a_new_file_gets_the_huge_pages_that_fit_and_stays_zero() {
        let size = 2 * HUGE_PAGE + SMALL_PAGE;
        let region = memory_file(size).unwrap();
        let file = region.file_offset().unwrap().file();
        make_huge(file, size);
        let mut bytes = vec![1; size];
        region.as_volatile_slice().read_slice(&mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
        let view = Aligned::new(file, 2).unwrap();
        #[expect(unsafe_code, reason = "the view is touched by address")]
        // SAFETY: the range is the view, whose pages are there.
        unsafe {
            madvise(view.start, 2 * HUGE_PAGE, Advice::LinuxPopulateWrite).unwrap();
        }
        if can_collapse() {
            assert_eq!(huge_bytes(view.start.addr()), 2 * HUGE_PAGE);
        }
    }

    #[test]
    fn a_file_without_room_for_a_huge_page_stays_as_it_is() {
        let region = memory_file(SMALL_PAGE).unwrap();
        make_huge(region.file_offset().unwrap().file(), SMALL_PAGE);
        region.as_volatile_slice().write_slice(&[7; SMALL_PAGE], 0).unwrap();
    }
}
