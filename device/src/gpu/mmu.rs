//! How packets reach memory: every GPU virtual address goes through the queue's page tables.

use super::address_map::{AddressMap, Place};
use super::page_table::{ADDRESS_BITS, AddressSpace};
use super::tlb::{Key, Tlb};
use super::violation::{Violation, aligned};
use super::windows::Shown;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use std::sync::atomic::AtomicU64;
use vm_memory::VolatileSlice;

/// What is done to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

impl Access {
    fn page_fault(self, gpu_va: u64) -> Violation {
        let reason = match self {
            Self::Read => FaultReason::READ_PAGE_FAULT,
            Self::Write => FaultReason::WRITE_PAGE_FAULT,
        };
        Violation::new(reason, gpu_va)
    }
}

/// Checks that a range lies in the address space.
///
/// # Errors
/// `ADDRESS_OUT_OF_RANGE`.
#[inline]
pub fn check_range(start: u64, length: u64) -> Result<(), Violation> {
    match start.checked_add(length) {
        Some(end) if end <= 1 << ADDRESS_BITS || length == 0 => Ok(()),
        None if length == 0 => Ok(()),
        _ => Err(Violation::new(FaultReason::ADDRESS_OUT_OF_RANGE, start)),
    }
}

/// One queue's view of memory, with the engine's translations.
pub struct Mmu<'a> {
    tlb: &'a mut Tlb,
    space: &'a AddressSpace,
    memory: &'a AddressMap,
}

impl<'a> Mmu<'a> {
    /// The view that `space` gives of `memory`.
    #[inline]
    pub fn new(tlb: &'a mut Tlb, space: &'a AddressSpace, memory: &'a AddressMap) -> Self {
        Self { tlb, space, memory }
    }

    /// Where a byte is.
    #[inline]
    fn translate(&mut self, gpu_va: u64, access: Access) -> Result<Place, Violation> {
        let key = self.key(gpu_va, PageSize::Small);
        match self.tlb.lookup(key) {
            Some((place, writable)) if writable || access == Access::Read => {
                Ok(place.plus(gpu_va % PAGE_SIZE))
            }
            // A page remembered as read-only may be writable by now, as one not remembered may
            // be mapped.
            _ => self.translate_large(gpu_va, access),
        }
    }

    #[inline]
    fn key(&self, gpu_va: u64, page_size: PageSize) -> Key {
        Key::new(self.space.id(), self.memory.generation(), gpu_va, page_size)
    }

    /// The same where no small page is remembered.
    fn translate_large(&mut self, gpu_va: u64, access: Access) -> Result<Place, Violation> {
        match self.tlb.lookup(self.key(gpu_va, PageSize::Large)) {
            Some((place, writable)) if writable || access == Access::Read => {
                Ok(place.plus(gpu_va % PageSize::Large.bytes()))
            }
            _ => self.translate_anew(gpu_va, access),
        }
    }

    #[cold]
    fn translate_anew(&mut self, gpu_va: u64, access: Access) -> Result<Place, Violation> {
        check_range(gpu_va, 1)?;
        if let Some(shown) = self.space.window(gpu_va) {
            let place = match shown {
                Shown::Page(page) => self.memory.locate(page, PageSize::Small),
                // The GPU's own: packets are fetched from there, and write nothing.
                Shown::Buffer(offset) if access == Access::Read => {
                    self.memory.locate_buffer(offset)
                }
                Shown::Buffer(_) => None,
            };
            return Ok(place.ok_or(access.page_fault(gpu_va))?.plus(gpu_va % PAGE_SIZE));
        }
        let (pte, page_size) = self.space.walk(gpu_va);
        let page = pte.page().ok_or(access.page_fault(gpu_va))?;
        // A page table may name memory that the guest no longer has.
        let place = self.memory.locate(page, page_size).ok_or(access.page_fault(gpu_va))?;
        if access == Access::Write && !pte.is_writable() {
            return Err(Violation::new(FaultReason::WRITE_PROTECTION_FAULT, gpu_va));
        }
        self.tlb.insert(self.key(gpu_va, page_size), place, pte.is_writable());
        Ok(place.plus(gpu_va % page_size.bytes()))
    }

    /// The first bytes of a range that are contiguous in this process: at least 1, at most
    /// `length`, which is not 0.
    ///
    /// # Errors
    /// A page fault of the first byte. One of a later byte ends the run before it.
    #[inline]
    pub fn run(
        &mut self,
        gpu_va: u64,
        length: usize,
        access: Access,
    ) -> Result<VolatileSlice<'a>, Violation> {
        let place = self.translate(gpu_va, access)?;
        let mut run = PAGE_SIZE - gpu_va % PAGE_SIZE;
        while run < length as u64 {
            match self.translate(gpu_va.wrapping_add(run), access) {
                Ok(next) if next == place.plus(run) => run += PAGE_SIZE,
                _ => break,
            }
        }
        let length = length.min(run as usize);
        self.memory.slice(place, length).ok_or(access.page_fault(gpu_va))
    }

    /// The word at an address.
    ///
    /// # Errors
    /// A page fault, or `MISALIGNED`.
    #[inline]
    pub fn word(&mut self, gpu_va: u64, access: Access) -> Result<&'a AtomicU64, Violation> {
        aligned(gpu_va, size_of::<u64>() as u64)?;
        let place = self.translate(gpu_va, access)?;
        self.memory.word(place).ok_or(access.page_fault(gpu_va))
    }

    /// Reads a range.
    ///
    /// # Errors
    /// A page fault.
    #[inline]
    pub fn read(&mut self, gpu_va: u64, bytes: &mut [u8]) -> Result<(), Violation> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..)
            && !rest.is_empty()
        {
            let run = self.run(gpu_va.wrapping_add(done as u64), rest.len(), Access::Read)?;
            done += run.copy_to(rest);
        }
        Ok(())
    }

    /// Writes a range.
    ///
    /// # Errors
    /// A page fault; the bytes before it are written.
    #[inline]
    pub fn write(&mut self, gpu_va: u64, bytes: &[u8]) -> Result<(), Violation> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..)
            && !rest.is_empty()
        {
            let run = self.run(gpu_va.wrapping_add(done as u64), rest.len(), Access::Write)?;
            run.copy_from(rest);
            done += run.len();
        }
        Ok(())
    }
}
