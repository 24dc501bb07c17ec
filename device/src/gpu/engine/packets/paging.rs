// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paging packets, which only a guest's system context executes.
//!
//! Source: "BuildPagingBuffer" of the Windows KMD overview.

use super::context::Context;
use super::progress::{Cursor, Progress};
use crate::gpu::memory::mmu::check_range;
use crate::gpu::memory::violation::{Violation, aligned};
use bellhop_host_kmd::hardware::{PhysicalPage, Segment, Ticket};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::tlb::TlbUsers;
use bellhop_protocol::packet::paging::{ClearMetadata, Decompress, FlushTlb, WritePageTable};

/// `WRITE_PAGE_TABLE`. The change of a valid entry takes effect with the next flush.
pub fn write_page_table(
    context: &mut Context<'_>,
    packet: &WritePageTable,
) -> Result<(), Violation> {
    let WritePageTable { address, first, increment, .. } = *packet;
    // Of any GPU of the chain: its page tables are written in the order of this one's paging.
    let pool = context.chip.chain().pool_at(address);
    let written = pool.and_then(|pool| pool.write(address, packet.count(), first, increment));
    written.ok_or(Violation::new(FaultReason::ADDRESS_OUT_OF_RANGE, address))
}

/// `FLUSH_TLB`, of the guest's translations. This engine flushes at once. If other engines may have cached entries
/// of the address space, every engine flushes between two of its turns: raising their attention hands over the
/// entries that were written before. Returns the ticket of that flush, if there is one.
pub fn flush_tlb(context: &mut Context<'_>, packet: &FlushTlb) -> Option<Ticket> {
    // Pairs with `AddressSpace::walk_to_remember`. An unknown space may be in use by any engine.
    let pool = context.chip.chain().pool_at(packet.root);
    let users = pool.and_then(|pool| pool.users(packet.root));
    let users = users.map_or(u64::MAX, TlbUsers::after_change);
    context.mmu.flush_tlb(context.partition.flush());
    // Workers forget their memory between two turns.
    let has_workers = context.workers.as_ref().is_some_and(|workers| workers.has_any());
    let others = has_workers || users & !(1 << context.engine) != 0;
    others.then(|| context.chip.quiesce())
}

/// A `DECOMPRESS` in progress.
#[derive(Debug)]
pub struct Decompression {
    address: u64,
    cursor: Cursor,
}

impl Decompression {
    /// Starts the operation.
    ///
    /// # Errors
    /// `MISALIGNED` or `ADDRESS_OUT_OF_RANGE`.
    pub fn new(packet: &Decompress) -> Result<Self, Violation> {
        aligned(packet.address, PAGE_SIZE)?;
        aligned(packet.length, PAGE_SIZE)?;
        check_range(packet.address, packet.length)?;
        Ok(Self { address: packet.address, cursor: Cursor::new(packet.length) })
    }

    /// See `Operation::step`. A step is a page, whatever the limit.
    pub fn step(&mut self, context: &mut Context<'_>, _: usize) -> Result<Progress, Violation> {
        if self.cursor.next(1).is_none() {
            return Ok(Progress::Finished);
        }
        context.mmu.decompress(self.address + self.cursor.done)?;
        Ok(self.cursor.advance(PAGE_SIZE as usize))
    }
}

/// A `CLEAR_METADATA` in progress.
#[derive(Debug)]
pub struct Clearing {
    address: u64,
    cursor: Cursor,
}

impl Clearing {
    /// Starts the operation.
    ///
    /// # Errors
    /// `MISALIGNED` or `ADDRESS_OUT_OF_RANGE`.
    pub fn new(packet: &ClearMetadata) -> Result<Self, Violation> {
        let ClearMetadata { address, length, .. } = *packet;
        aligned(address, PAGE_SIZE)?;
        aligned(length, PAGE_SIZE)?;
        let end = address.checked_add(length);
        end.ok_or(Violation::new(FaultReason::ADDRESS_OUT_OF_RANGE, address))?;
        Ok(Self { address, cursor: Cursor::new(length) })
    }

    /// See `Operation::step`. A step is a page, whatever the limit. Also clears pages that the guest no longer has.
    pub fn step(&mut self, context: &mut Context<'_>, _: usize) -> Result<Progress, Violation> {
        if self.cursor.next(1).is_none() {
            return Ok(Progress::Finished);
        }
        let address = self.address + self.cursor.done;
        context.partition.metadata().clear(PhysicalPage { segment: Segment::System, address });
        Ok(self.cursor.advance(PAGE_SIZE as usize))
    }
}
