// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory access of packets: the queue's page tables translate every GPU virtual address.

use super::address_map::{AddressMap, Place};
use super::compression::Codec;
use super::drawn::Brush;
use super::page_table::{ADDRESS_BITS, AddressSpace};
use super::pins::{HostPage, Pinned, Use};
use super::shareable::{Extent, extent};
use super::tlb::{Entry, Key, Tlb};
use super::violation::{Violation, aligned};
use super::windows::Shown;
use super::words::{load_whole, store_whole};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::publication;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use vm_memory::VolatileSlice;

#[cfg(test)]
mod tests;

/// A kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A read.
    Read,
    /// A write.
    Write,
}

impl Access {
    /// The fault of an access to an address without a page.
    pub fn page_fault(self, gpu_va: u64) -> Violation {
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

/// Bytes from an address on that are known to be contiguous and to allow the same accesses.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// The first byte's place.
    place: Place,
    /// The number of bytes, at least to the end of the page.
    length: u64,
    /// Whether packets may write all of them.
    writable: bool,
    /// The size of the first page, if the TLB has it.
    cached: Option<PageSize>,
}

impl Span {
    /// The part of a page of the TLB, and of what continues it, from an address on.
    #[inline]
    fn from(gpu_va: u64, page: &Entry, size: PageSize) -> Self {
        let before = gpu_va % size.bytes();
        let place = page.place.plus(before);
        let length = page.length(size) - before;
        Self { place, length, writable: page.writable, cached: Some(size) }
    }
}

/// The place of a byte, and its form there.
enum Found {
    /// In plain form.
    Direct(Span),
    /// In a compressed page.
    Compressed(Place),
    /// In a protected page. Not cached, so that cached pages can be read by every packet.
    Protected(Place),
}

/// A run: the first bytes of a range, as many as one access can handle.
#[derive(Debug)]
pub enum Run<'a> {
    /// The bytes are contiguous in this process.
    Direct(VolatileSlice<'a>),
    /// As `Direct`, but words are read and stored whole: use [`Mmu::read`] and [`Mmu::write`].
    Words(VolatileSlice<'a>),
    /// This number of bytes lies in one compressed page, which only [`Mmu::read`] and [`Mmu::write`] can access.
    Compressed(usize),
    /// The bytes are contiguous in one protected page. Every packet may write them; only those that put them into
    /// protected memory again read them, with [`Mmu::load_protected`].
    Protected(VolatileSlice<'a>),
}

impl Run<'_> {
    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Direct(slice) | Self::Words(slice) | Self::Protected(slice) => slice.len(),
            Self::Compressed(length) => *length,
        }
    }

    /// Whether the bytes are protected.
    #[inline]
    pub fn is_protected(&self) -> bool {
        matches!(self, Self::Protected(_))
    }
}

/// The fault of a packet that would make protected memory readable.
#[cold]
pub fn protected(gpu_va: u64) -> Violation {
    Violation::new(FaultReason::PROTECTED_MEMORY, gpu_va)
}

/// The translation of the address after a run, found while looking for the run's end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ahead(Option<(u64, Span)>);

/// One queue's view of memory, with the engine's translations.
pub struct Mmu<'a> {
    tlb: &'a mut Tlb,
    space: &'a AddressSpace,
    pinned: Pinned<'a>,
    memory: &'a AddressMap,
    flushes: u64,
    codec: Codec<'a>,
    brush: Brush<'a>,
    engine: u32,
}

impl<'a> Mmu<'a> {
    /// The view of `engine`, through `space`, of a queue's memory; `codec` accesses its compressed pages, and `brush` notes
    /// what is written.
    #[inline]
    pub fn new(
        tlb: &'a mut Tlb,
        space: &'a AddressSpace,
        pinned: Pinned<'a>,
        codec: Codec<'a>,
        brush: Brush<'a>,
        engine: u32,
    ) -> Self {
        let (memory, flushes) = (pinned.memory(), pinned.flushes());
        Self { tlb, space, pinned, memory, flushes, codec, brush, engine }
    }

    /// Called at the end of a turn: tells of what was written into pictures that somebody watches.
    #[inline]
    pub fn tell_what_was_drawn(&mut self) {
        self.brush.lift();
    }

    /// Discards translations that the engine cached for the guest before this flush.
    pub fn flush_tlb(&mut self, flushes: u64) {
        self.flushes = flushes;
        self.pinned.revoke();
    }

    /// The number of the guest's flushes that this view has caught up with.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// The memory around an address that is contiguous in a file, for kernels' accesses.
    ///
    /// # Errors
    /// A page fault or `WRITE_PROTECTION_FAULT`.
    pub fn extent(
        &self,
        gpu_va: u64,
        access: Access,
        within: &Range<u64>,
    ) -> Result<Extent<'a>, Violation> {
        extent(self.space, self.memory, self.engine, (gpu_va, access), within)
    }

    /// The pinned page of an address for one use. `None` if the page cannot be accessed this way, or if its words
    /// cannot be accessed directly: any other access to the address then reports the reason.
    #[inline]
    pub fn page(&mut self, what: Use, gpu_va: u64, access: Access) -> Option<HostPage<'a>> {
        match self.pinned.get(what, gpu_va, access == Access::Write) {
            None => self.pin(what, gpu_va, access),
            page => page,
        }
    }

    /// Pins a page that is not pinned, or not for this access.
    #[cold]
    fn pin(&mut self, what: Use, gpu_va: u64, access: Access) -> Option<HostPage<'a>> {
        self.translate(gpu_va, access).ok()?;
        // Only what the TLB caches is valid until a flush.
        let in_large = gpu_va % PageSize::Large.bytes() / PAGE_SIZE * PAGE_SIZE;
        let [small, large] = [PageSize::Small, PageSize::Large].map(|size| self.key(gpu_va, size));
        let (place, writable) = match (self.tlb.lookup(small), self.tlb.lookup(large)) {
            (Some(page), _) if page.writable || access == Access::Read => {
                (page.place, page.writable)
            }
            (_, Some(page)) => (page.place.plus(in_large), page.writable),
            _ => return None,
        };
        let is_allowed = writable || access == Access::Read;
        is_allowed.then(|| self.pinned.pin(what, gpu_va, place, writable)).flatten()
    }

    /// The pinned pages.
    #[inline]
    pub fn pinned(&self) -> &Pinned<'a> {
        &self.pinned
    }

    /// Translates an address.
    #[inline]
    fn translate(&mut self, gpu_va: u64, access: Access) -> Result<Found, Violation> {
        let key = self.key(gpu_va, PageSize::Small);
        match self.tlb.lookup(key) {
            Some(page) if page.writable || access == Access::Read => {
                Ok(Found::Direct(Span::from(gpu_va, page, PageSize::Small)))
            }
            // A page cached as read-only may be writable by now, as an uncached page may be mapped.
            _ => self.translate_large(gpu_va, access),
        }
    }

    /// Prefetches what the TLB knows of an address in a small page. Nothing waits for that.
    #[inline]
    pub fn prefetch(&self, gpu_va: u64) {
        self.tlb.prefetch(self.key(gpu_va, PageSize::Small));
    }

    #[inline]
    fn key(&self, gpu_va: u64, page_size: PageSize) -> Key {
        Key::new(self.space.id(), self.flushes, gpu_va, page_size)
    }

    /// Translates an address for which the TLB has no small page.
    #[inline(never)]
    fn translate_large(&mut self, gpu_va: u64, access: Access) -> Result<Found, Violation> {
        match self.tlb.lookup(self.key(gpu_va, PageSize::Large)) {
            Some(page) if page.writable || access == Access::Read => {
                Ok(Found::Direct(Span::from(gpu_va, page, PageSize::Large)))
            }
            _ => self.translate_anew(gpu_va, access),
        }
    }

    #[cold]
    fn translate_anew(&mut self, gpu_va: u64, access: Access) -> Result<Found, Violation> {
        check_range(gpu_va, 1)?;
        if let Some(shown) = self.space.window(gpu_va) {
            let place = match shown {
                Shown::Page(page) => self.memory.locate(page, PageSize::Small),
                // Host buffers: engines fetch packets from them, and packets write nothing to them.
                Shown::Buffer(offset) if access == Access::Read => {
                    self.memory.locate_buffer(offset)
                }
                Shown::Buffer(_) => None,
            };
            let page = place.ok_or(access.page_fault(gpu_va))?;
            let before = gpu_va % PAGE_SIZE;
            let (place, length) = (page.plus(before), PAGE_SIZE - before);
            return Ok(Found::Direct(Span { place, length, writable: false, cached: None }));
        }
        let (pte, page_size) = self.space.walk_to_remember(gpu_va, self.engine);
        let page = pte.page().ok_or(access.page_fault(gpu_va))?;
        // A page table may name memory that the guest has lost.
        let place = self.memory.locate(page, page_size).ok_or(access.page_fault(gpu_va))?;
        if access == Access::Write && !pte.is_writable() {
            return Err(Violation::new(FaultReason::WRITE_PROTECTION_FAULT, gpu_va));
        }
        let before = gpu_va % page_size.bytes();
        let byte = place.plus(before);
        if pte.is_protected() {
            return Ok(Found::Protected(byte));
        }
        if pte.compressed() {
            // Not cached, so that cached pages can always be accessed directly.
            return Ok(Found::Compressed(byte));
        }
        let writable = pte.is_writable();
        self.tlb.insert(self.key(gpu_va, page_size), place, writable);
        let (length, cached) = (page_size.bytes() - before, Some(page_size));
        Ok(Found::Direct(Span { place: byte, length, writable, cached }))
    }

    /// The first bytes of a range that one access can handle: at least 1 and at most `length`, which is not 0.
    ///
    /// # Errors
    /// A page fault of the first byte. A fault of a later byte ends the run before it.
    #[inline]
    pub fn run(
        &mut self,
        gpu_va: u64,
        length: usize,
        access: Access,
    ) -> Result<Run<'a>, Violation> {
        self.run_on(gpu_va, length, access, &mut Ahead::default())
    }

    /// As [`Self::run`], for consecutive runs of one range: `ahead` keeps what the previous run found of this one.
    /// It is invalid after a flush and must not outlast a step.
    ///
    /// # Errors
    /// As [`Self::run`].
    #[inline]
    pub fn run_on(
        &mut self,
        gpu_va: u64,
        length: usize,
        access: Access,
        ahead: &mut Ahead,
    ) -> Result<Run<'a>, Violation> {
        let first = match ahead.0.take() {
            Some((at, span)) if at == gpu_va => span,
            _ => match self.translate(gpu_va, access)? {
                Found::Direct(span) => span,
                Found::Compressed(_) => {
                    let in_page = (PAGE_SIZE - gpu_va % PAGE_SIZE) as usize;
                    return Ok(Run::Compressed(length.min(in_page)));
                }
                Found::Protected(place) => {
                    let in_page = (PAGE_SIZE - gpu_va % PAGE_SIZE) as usize;
                    let slice = self.memory.slice(place, length.min(in_page));
                    return slice.map(Run::Protected).ok_or(access.page_fault(gpu_va));
                }
            },
        };
        let mut run = first.length;
        if run < length as u64 {
            run = self.continued(gpu_va, first, length as u64, access, ahead);
        }
        let (place, length) = (first.place, length.min(usize::try_from(run).unwrap_or(length)));
        let slice = self.memory.slice(place, length).ok_or(access.page_fault(gpu_va))?;
        if access == Access::Write {
            self.brush.note(place, length);
        }
        Ok(if place.has_host_words() { Run::Words(slice) } else { Run::Direct(slice) })
    }

    /// The number of bytes from an address on that are contiguous, whose first are `first`: all that are, or at least
    /// `length`. What a look at each page has found, the TLB remembers with the first one, so that the next run from
    /// there on takes one look. That is as good as remembering each page: it ends with the same flush.
    #[inline]
    fn continued(
        &mut self,
        gpu_va: u64,
        first: Span,
        length: u64,
        access: Access,
        ahead: &mut Ahead,
    ) -> u64 {
        let (mut run, mut remembered) = (first.length, first.length);
        while run < length {
            let behind = gpu_va.wrapping_add(run);
            let Ok(Found::Direct(next)) = self.translate(behind, access) else { break };
            if next.place != first.place.plus(run) {
                ahead.0 = Some((behind, next));
                break;
            }
            // A window's page may be another one the next time, and a page that is only read ends what may be written.
            let is_alike = next.cached.is_some() && (next.writable || !first.writable);
            if remembered == run && is_alike {
                remembered += next.length;
            }
            run += next.length;
        }
        if let Some(size) = first.cached
            && remembered > first.length
        {
            let before = gpu_va % size.bytes();
            self.tlb.extend(self.key(gpu_va, size), before + remembered - size.bytes());
        }
        run
    }

    /// Two words of one uncompressed page, for a packet that shares them with a CPU, at these offsets from the
    /// page's start.
    ///
    /// # Errors
    /// A page fault, or `PROTECTED_MEMORY`.
    #[inline]
    pub fn two_words(
        &mut self,
        page: u64,
        offsets: [u64; 2],
        access: Access,
    ) -> Result<[&'a AtomicU64; 2], Violation> {
        let fault = access.page_fault(page);
        let place = match self.translate(page, access)? {
            Found::Direct(span) => span.place,
            Found::Compressed(_) => return Err(fault),
            Found::Protected(_) => return Err(protected(page)),
        };
        let [first, second] = offsets.map(|offset| self.memory.word(place.plus(offset)));
        Ok([first.ok_or(fault)?, second.ok_or(fault)?])
    }

    /// Acquires and reads the word at an address.
    ///
    /// # Errors
    /// A page fault, or `MISALIGNED`.
    #[inline]
    pub fn load_word(&mut self, gpu_va: u64) -> Result<u64, Violation> {
        aligned(gpu_va, size_of::<u64>() as u64)?;
        match self.translate(gpu_va, Access::Read)? {
            Found::Direct(span) => {
                let word = self.memory.word(span.place);
                let word = word.ok_or(Access::Read.page_fault(gpu_va))?;
                Ok(publication::read(word))
            }
            Found::Compressed(_) => {
                let mut bytes = [0; size_of::<u64>()];
                self.read(gpu_va, &mut bytes)?;
                Ok(u64::from_le_bytes(bytes))
            }
            Found::Protected(_) => Err(protected(gpu_va)),
        }
    }

    /// Writes the word at an address. Releases earlier writes to a reader that polls the word.
    ///
    /// # Errors
    /// A page fault, or `MISALIGNED`.
    #[inline]
    pub fn store_word(&mut self, gpu_va: u64, value: u64) -> Result<(), Violation> {
        aligned(gpu_va, size_of::<u64>() as u64)?;
        let place = match self.translate(gpu_va, Access::Write)? {
            Found::Direct(span) => span.place,
            Found::Protected(place) => place,
            Found::Compressed(_) => return self.write(gpu_va, &value.to_le_bytes()),
        };
        let word = self.memory.word(place).ok_or(Access::Write.page_fault(gpu_va))?;
        publication::publish(word, value);
        Ok(())
    }

    /// Reads a range.
    ///
    /// # Errors
    /// A page fault, or `PROTECTED_MEMORY`.
    #[inline]
    pub fn read(&mut self, gpu_va: u64, bytes: &mut [u8]) -> Result<(), Violation> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..)
            && !rest.is_empty()
        {
            let at = gpu_va.wrapping_add(done as u64);
            let run = self.run(at, rest.len(), Access::Read)?;
            let length = run.len();
            self.load(at, &run, rest.get_mut(..length).unwrap_or_default())?;
            done += length;
        }
        Ok(())
    }

    /// Reads a range that lies in one page.
    ///
    /// # Errors
    /// A page fault.
    #[inline]
    pub fn read_in_page(&mut self, gpu_va: u64, bytes: &mut [u8]) -> Result<(), Violation> {
        let Found::Direct(span) = self.translate(gpu_va, Access::Read)? else {
            return self.read(gpu_va, bytes);
        };
        let slice = self.memory.slice(span.place, bytes.len());
        slice.ok_or(Access::Read.page_fault(gpu_va))?.copy_to(bytes);
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
            let at = gpu_va.wrapping_add(done as u64);
            let run = self.run(at, rest.len(), Access::Write)?;
            let length = run.len();
            self.store(at, &run, rest.get(..length).unwrap_or_default())?;
            done += length;
        }
        Ok(())
    }

    /// Reads the bytes of the run at an address, as many as `to` has room for, for a packet that puts them into
    /// protected memory again where they are protected.
    ///
    /// # Errors
    /// A page fault.
    pub fn load_protected(
        &mut self,
        gpu_va: u64,
        run: &Run<'_>,
        to: &mut [u8],
    ) -> Result<(), Violation> {
        match run {
            Run::Protected(slice) => {
                slice.copy_to(to);
                Ok(())
            }
            run => self.load(gpu_va, run, to),
        }
    }

    /// Reads the bytes of the run at an address, as many as `to` has room for.
    ///
    /// # Errors
    /// A page fault, or `PROTECTED_MEMORY`.
    #[inline]
    pub fn load(&mut self, gpu_va: u64, run: &Run<'_>, to: &mut [u8]) -> Result<(), Violation> {
        match run {
            Run::Direct(slice) => {
                slice.copy_to(to);
                Ok(())
            }
            Run::Words(slice) => {
                load_whole(slice, to);
                Ok(())
            }
            Run::Compressed(_) => {
                let (page, offset) = self.compressed_page(gpu_va, Access::Read)?;
                let read = self.codec.read(self.memory, page, offset, to);
                read.ok_or(Access::Read.page_fault(gpu_va))
            }
            Run::Protected(_) => Err(protected(gpu_va)),
        }
    }

    /// Writes the first bytes of the run at an address.
    ///
    /// # Errors
    /// A page fault.
    #[inline]
    pub fn store(&mut self, gpu_va: u64, run: &Run<'_>, from: &[u8]) -> Result<(), Violation> {
        match run {
            Run::Direct(slice) | Run::Protected(slice) => {
                slice.copy_from(from);
                Ok(())
            }
            Run::Words(slice) => {
                store_whole(slice, from);
                Ok(())
            }
            Run::Compressed(_) => {
                let (page, offset) = self.compressed_page(gpu_va, Access::Write)?;
                let written = self.codec.write(self.memory, page, offset, from);
                written.ok_or(Access::Write.page_fault(gpu_va))
            }
        }
    }

    /// The page that contains an address, however it is mapped, and the address's offset in it.
    fn compressed_page(
        &mut self,
        gpu_va: u64,
        access: Access,
    ) -> Result<(Place, usize), Violation> {
        let offset = gpu_va % PAGE_SIZE;
        let place = match self.translate(gpu_va, access)? {
            Found::Direct(span) => span.place,
            Found::Compressed(place) => place,
            // Never compressed, and paging does not see it as protected.
            Found::Protected(_) => return Err(protected(gpu_va)),
        };
        Ok((place.minus(offset), offset as usize))
    }

    /// Decompresses the page that contains an address.
    ///
    /// # Errors
    /// A page fault.
    pub fn decompress(&mut self, gpu_va: u64) -> Result<(), Violation> {
        let (page, _) = self.compressed_page(gpu_va, Access::Write)?;
        self.codec.decompress(self.memory, page).ok_or(Access::Write.page_fault(gpu_va))
    }

    /// Called after a page was copied unchanged to another page: copies its compression metadata.
    ///
    /// # Errors
    /// A page fault.
    pub fn carry_compression(&mut self, from: u64, to: u64) -> Result<(), Violation> {
        let (from, _) = self.compressed_page(from, Access::Read)?;
        let (to, _) = self.compressed_page(to, Access::Write)?;
        self.codec.metadata.carry(self.memory, from, to);
        Ok(())
    }
}
