// SPDX-License-Identifier: MIT OR Apache-2.0

//! What happens to a VM's memory from outside: modules that are plugged in and out, a kernel that boots, a file that
//! shrinks.

use super::{GuestRam, Plugged, all_free};
use crate::transport::TransportError;
use bellhop_protocol::PAGE_SIZE;
use rustix::fs::ftruncate;
use std::fs::File;
use std::sync::atomic::Ordering;
use vm_allocator::AllocPolicy;
use vm_memory::{Bytes, VolatileMemory};

impl GuestRam {
    /// Frees all memory except what is never freed, whichever part of the program has it: a booting kernel knows
    /// no earlier owners.
    ///
    /// # Errors
    /// None of its own.
    pub fn reclaim(&self) -> Result<(), TransportError> {
        let mut state = self.lock();
        let mut free = all_free(if state.plugged.module { self.size() } else { self.module })?;
        for range in &state.taken {
            let again = AllocPolicy::ExactMatch(range.start());
            free.allocate(range.len(), PAGE_SIZE, again).map_err(|error| {
                TransportError::Io("guest memory", std::io::Error::other(error))
            })?;
        }
        state.free = free;
        state.reclaims += 1;
        Ok(())
    }

    /// Sets the parts that the memory table has. Newly plugged memory can be allocated from then on, and memory
    /// that was lost is free again.
    ///
    /// # Errors
    /// None of its own.
    pub fn plug(&self, plugged: Plugged) -> Result<(), TransportError> {
        self.lock().plugged = plugged;
        self.reclaim()
    }

    /// The 16-bit word at a guest-physical address.
    #[must_use]
    pub fn load(&self, address: u64) -> u16 {
        let bytes = self.region.as_volatile_slice();
        let word = bytes.load::<u16>(self.offset_of(address) as usize, Ordering::Acquire);
        word.map_or(0, u16::from_le)
    }

    /// Truncates the memory by this many bytes.
    ///
    /// # Errors
    /// When it is sealed.
    pub fn shrink(&self, bytes: u64) -> Result<(), TransportError> {
        let file = self.region.file_offset().map(|file| file.file());
        let shrunk = file.map(|file| ftruncate(file, self.size().saturating_sub(bytes)));
        shrunk
            .unwrap_or(Ok(()))
            .map_err(|error| TransportError::Io("cannot shrink the guest's memory", error.into()))
    }

    /// The file of the memory.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn file(&self) -> Result<File, TransportError> {
        let file = self.region.file_offset().map(|file| file.file().try_clone());
        let file = file.unwrap_or_else(|| Err(std::io::ErrorKind::NotFound.into()));
        file.map_err(|error| TransportError::Io("guest memory", error))
    }

    /// The first guest-physical address behind all memory.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.extents(0, self.size()).last().map_or(0, |last| last.address + last.length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HIGH, LOW};
    use super::*;

    #[test]
    fn a_module_is_a_region_of_its_own_while_it_is_plugged_in() {
        let ram = GuestRam::new(4 * PAGE_SIZE, 2 * PAGE_SIZE, 3 * PAGE_SIZE, true).unwrap();
        assert_eq!(ram.region_infos().len(), 2);
        assert!(ram.allocate(5 * PAGE_SIZE).is_err());
        ram.plug(Plugged { base: true, module: true }).unwrap();
        let [_, high, module] = ram.region_infos()[..] else { panic!("not three regions") };
        assert_eq!(module.guest_phys_addr, high.guest_phys_addr + 2 * PAGE_SIZE);
        assert_eq!((module.mmap_offset, module.memory_size), (4 * PAGE_SIZE, 3 * PAGE_SIZE));
        let in_module = ram.allocate(PAGE_SIZE).unwrap();
        assert_eq!(in_module.extents()[0].address, module.guest_phys_addr + 2 * PAGE_SIZE);
        ram.plug(Plugged { base: false, module: true }).unwrap();
        assert_eq!(ram.region_infos().len(), 1);
    }

    #[test]
    fn a_reclaim_has_back_what_was_lost_and_keeps_the_queues() {
        let ram = GuestRam::new(4 * PAGE_SIZE, 1 << 31, 0, true).unwrap();
        let queue = ram.take(PAGE_SIZE).unwrap();
        let kept = ram.allocate(PAGE_SIZE).unwrap();
        std::mem::forget(ram.allocate(2 * PAGE_SIZE).unwrap());
        ram.reclaim().unwrap();
        let all = ram.allocate(3 * PAGE_SIZE).unwrap();
        assert_eq!(queue.address(), LOW);
        // The earlier owner must not free memory that has a new owner.
        drop(kept);
        assert!(ram.allocate(PAGE_SIZE).is_err());
        drop(all);
    }

    #[test]
    fn memory_ends_behind_its_last_piece() {
        let ram = GuestRam::new(8 * PAGE_SIZE, 3 * PAGE_SIZE, 0, true).unwrap();
        assert_eq!(ram.end(), HIGH + 5 * PAGE_SIZE);
        let ram = GuestRam::new(4 * PAGE_SIZE, 1 << 31, 0, true).unwrap();
        assert_eq!(ram.end(), LOW + 4 * PAGE_SIZE);
    }
}
