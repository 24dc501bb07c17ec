//! Packets that only a guest's system context executes: paging.
//!
//! Source: "BuildPagingBuffer" of the Windows KMD overview.

use super::{Context, Hold, Outcome};
use crate::gpu::violation::Violation;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::paging::WritePageTable;

/// `WRITE_PAGE_TABLE`. An entry that was valid before counts as changed when a flush has followed.
pub fn write_page_table(
    context: &mut Context<'_>,
    packet: &WritePageTable,
) -> Result<Outcome, Violation> {
    let WritePageTable { address, first, increment, .. } = *packet;
    let written = context.chip.nodes.write(address, packet.count(), first, increment);
    written.ok_or(Violation::new(FaultReason::ADDRESS_OUT_OF_RANGE, address))?;
    Ok(Outcome::Done)
}

/// `FLUSH_TLB`: every engine flushes between two of its turns, this one too. Entries that were
/// written before this are handed over with the attention that it raises.
pub fn flush_tlb(context: &mut Context<'_>) -> Outcome {
    Outcome::Hold(Hold::Flush(context.chip.quiesce()))
}
