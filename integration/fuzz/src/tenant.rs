// SPDX-License-Identifier: MIT OR Apache-2.0

//! A hostile guest that is attached once. After an input, what it had is taken from it, and what it wrote is zeroed: that
//! takes less than a new guest.

use crate::places::{KEPT, KEPT_AT, PAGES, RINGS, WRITABLE};
use crate::rig::{Guest, LOCAL, PHYSICAL, Queue, SIZE, SYSTEM};
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{DriverProtection, PageTables as _, PhysicalPage, Pte, Segment};
use bellhop_protocol::PAGE_SIZE;
use std::ops::Range;
use std::sync::atomic::Ordering;
use vm_memory::{Bytes as _, VolatileMemory as _};

/// Pages of local memory, from the start, that engines keep compressed.
const COMPRESSED: Range<u64> = PAGES - 2..PAGES;
/// The contents of memory that the guest cannot write.
const KEPT_BYTES: [u8; KEPT as usize] = [0xA5; KEPT as usize];

/// Bytes of the BAR's first page.
const HEADER: usize = PAGE_SIZE as usize;
/// The longest part of memory that packets can write.
static ZEROES: [u8; (PAGES * PAGE_SIZE) as usize] = [0; (PAGES * PAGE_SIZE) as usize];

/// The guest.
pub struct Tenant {
    /// With nothing at the start of an input.
    pub guest: Guest,
    header: Vec<u8>,
    seen: Vec<u8>,
}

impl Tenant {
    /// Of a guest that has its two memories mapped from end to end, takes most of that: packets then reach the end of
    /// mapped memory soon. Sets up memory that packets must not write in either mapping, and compressed memory.
    pub fn new(guest: Guest) -> Self {
        for (memory, segment, start) in
            [(LOCAL, Segment::Local, 0), (SYSTEM, Segment::System, PHYSICAL)]
        {
            guest.unmap(memory, SIZE);
            for part in WRITABLE {
                let length = part.end - part.start;
                guest.map(memory + part.start, segment, start + part.start, length, true);
            }
            if memory == LOCAL {
                let length = RINGS.end - RINGS.start;
                guest.map(memory + RINGS.start, segment, RINGS.start, length, true);
            }
            let va = memory + KEPT_AT;
            guest.write(va, &KEPT_BYTES);
            guest.map(va + KEPT / 2, segment, start + KEPT_AT + KEPT / 2, KEPT / 2, false);
        }
        let compressed = COMPRESSED.map(|page| {
            let page = PhysicalPage { segment: Segment::Local, address: page * PAGE_SIZE };
            Pte::new(page, true).protected(DriverProtection { compressed: true, protected: false })
        });
        let va = LOCAL + COMPRESSED.start * PAGE_SIZE;
        let entries: Vec<_> = compressed.collect();
        guest.gpu.update_page_table(guest.space, va, PageSize::Small, &entries).unwrap();
        let mut header = vec![0; HEADER];
        read_header(&guest, &mut header);
        Self { guest, header, seen: vec![0; KEPT as usize] }
    }

    /// Checks what the guest cannot write, and takes everything else from it.
    pub fn end(&mut self, queues: &[&Queue]) {
        let Self { guest, header, seen } = self;
        guest.clear(queues);
        for memory in [LOCAL, SYSTEM] {
            guest.read_into(memory + KEPT_AT, seen);
            assert!(*seen == KEPT_BYTES, "written past its page tables");
        }
        read_header(guest, &mut seen[..HEADER]);
        assert_eq!(header[..], seen[..HEADER], "a packet wrote the BAR's header");
        zero(guest);
    }

    /// Takes everything from a guest that may have written these words of its BAR, too.
    pub fn end_with_words(&mut self, queues: &[&Queue], words: impl Iterator<Item = u64>) {
        let Self { guest, header, .. } = self;
        guest.clear(queues);
        for offset in words {
            let of_header = header.as_chunks::<8>().0.get(offset as usize / 8);
            let word = of_header.map_or(0, |word| u64::from_le_bytes(*word));
            guest.word(offset).store(word, Ordering::Relaxed);
        }
        zero(guest);
    }
}

/// Zeroes what packets can write.
fn zero(guest: &Guest) {
    for Range { start, end } in WRITABLE {
        let zeroes = &ZEROES[..(end - start) as usize];
        guest.write(LOCAL + start, zeroes);
        guest.write(SYSTEM + start, zeroes);
    }
    guest.write(LOCAL + RINGS.start, &ZEROES[..(RINGS.end - RINGS.start) as usize]);
}

/// Reads the header page of a guest's BAR.
fn read_header(guest: &Guest, to: &mut [u8]) {
    guest.bar.as_volatile_slice().read_slice(to, 0).unwrap();
}
