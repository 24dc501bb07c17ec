// SPDX-License-Identifier: MIT OR Apache-2.0

//! Windows of a system context's address space: ranges that show memory as a whole, without page-table entries, so
//! that a segment of many GiB costs none.
//!
//! An engine looks a window up where it would walk a page table, and no TLB caches the result. Moving a window
//! therefore needs no flush.

use super::host_memory::PAGING_BUFFERS_SIZE;
use arc_swap::ArcSwap;
use bellhop_host_kmd::ddi::dma_buffer::{DMA_BUFFERS_SIZE, DMA_BUFFERS_START};
use bellhop_host_kmd::ddi::paging::{LOCAL_START, PRIVATE_START};
use bellhop_host_kmd::hardware::{PhysicalPage, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::Extent;
use std::sync::Arc;

/// Start of the guest's paging buffers. Only the GPU uses addresses there.
pub const PAGING_BUFFERS_START: u64 = 1 << 24;

/// What a window shows at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// A page of a segment.
    Page(PhysicalPage),
    /// The page at this offset of the guest's paging buffers and, after them, DMA buffers.
    Buffer(u64),
}

/// A part of local memory. If the guest donated local memory, it can be in several pieces.
#[derive(Debug)]
struct Piece {
    /// Offset in local memory of the first byte after the piece.
    end: u64,
    /// Its length in bytes.
    length: u64,
    /// Its first page.
    page: PhysicalPage,
}

/// The windows of one system context.
#[derive(Debug)]
pub struct Windows {
    /// In the order of their offsets, without gaps.
    local: ArcSwap<Box<[Piece]>>,
    private: u64,
}

impl Windows {
    /// Windows that show this much local memory, in the BAR, and this much private memory.
    pub fn new(local: u64, private: u64) -> Self {
        let page = PhysicalPage { segment: Segment::Local, address: 0 };
        let pieces: Box<[Piece]> = Box::new([Piece { end: local, length: local, page }]);
        Self { local: ArcSwap::new(Arc::new(pieces)), private }
    }

    /// Control plane, while nothing uses local memory: moves it to the guest's own memory.
    pub fn place_local(&self, extents: &[Extent]) {
        let mut end = 0u64;
        let pieces: Box<[Piece]> = extents
            .iter()
            .map(|extent| {
                end = end.saturating_add(extent.length);
                let page = PhysicalPage { segment: Segment::System, address: extent.address };
                Piece { end, length: extent.length, page }
            })
            .collect();
        // The paging buffers submitted after this hand it over to the engine.
        self.local.store(Arc::new(pieces));
    }

    /// Engine: what a window shows at an address; `None` if the address is in no window.
    pub fn find(&self, gpu_va: u64) -> Option<Shown> {
        let page = gpu_va - gpu_va % PAGE_SIZE;
        let within = |start: u64, length: u64| page.checked_sub(start).filter(|at| *at < length);
        if let Some(offset) = within(PAGING_BUFFERS_START, PAGING_BUFFERS_SIZE) {
            return Some(Shown::Buffer(offset));
        }
        if let Some(offset) = within(DMA_BUFFERS_START, DMA_BUFFERS_SIZE) {
            return Some(Shown::Buffer(PAGING_BUFFERS_SIZE + offset));
        }
        if let Some(address) = within(PRIVATE_START, self.private) {
            return Some(Shown::Page(PhysicalPage { segment: Segment::Private, address }));
        }
        let offset = within(LOCAL_START, PRIVATE_START - LOCAL_START)?;
        let pieces = self.local.load();
        let piece = pieces.get(pieces.partition_point(|piece| piece.end <= offset))?;
        let into = offset - (piece.end - piece.length);
        let address = piece.page.address.checked_add(into)?;
        Some(Shown::Page(PhysicalPage { address, ..piece.page }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(segment: Segment, address: u64) -> Option<Shown> {
        Some(Shown::Page(PhysicalPage { segment, address }))
    }

    #[test]
    fn a_window_shows_its_segment_and_nothing_behind_it() {
        let windows = Windows::new(0x3000, 0x2000);
        assert_eq!(windows.find(LOCAL_START), page(Segment::Local, 0));
        assert_eq!(windows.find(LOCAL_START + 0x2fff), page(Segment::Local, 0x2000));
        assert_eq!(windows.find(LOCAL_START + 0x3000), None);
        assert_eq!(windows.find(LOCAL_START - 1), None);
        assert_eq!(windows.find(PRIVATE_START + 0x1000), page(Segment::Private, 0x1000));
        assert_eq!(windows.find(PRIVATE_START + 0x2000), None);
        assert_eq!(windows.find(PAGING_BUFFERS_START + 0x1008), Some(Shown::Buffer(0x1000)));
        assert_eq!(windows.find(PAGING_BUFFERS_START + PAGING_BUFFERS_SIZE), None);
        let first = Some(Shown::Buffer(PAGING_BUFFERS_SIZE));
        assert_eq!(windows.find(DMA_BUFFERS_START + 8), first);
        assert_eq!(windows.find(DMA_BUFFERS_START - 1), None);
        assert_eq!(windows.find(DMA_BUFFERS_START + DMA_BUFFERS_SIZE), None);
        assert_eq!(windows.find(0), None);
        assert_eq!(windows.find(u64::MAX), None);
    }

    #[test]
    fn local_memory_in_pieces_of_the_guests_shows_each_piece_in_its_place() {
        let windows = Windows::new(0x8000, 0);
        let extent = |address, length| Extent { address, length };
        windows.place_local(&[extent(0x10_0000, 0x2000), extent(0x5000, 0x1000)]);
        assert_eq!(windows.find(LOCAL_START + 0x1000), page(Segment::System, 0x10_1000));
        assert_eq!(windows.find(LOCAL_START + 0x2000), page(Segment::System, 0x5000));
        assert_eq!(windows.find(LOCAL_START + 0x3000), None);
    }
}
