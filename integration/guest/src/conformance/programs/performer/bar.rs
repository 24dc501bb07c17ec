// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's BAR, as bytes.

use super::{Perform, Performer};
use crate::conformance::programs::wire::{
    Failure, FillBar, FillDoorbells, FindBytes, SumDoorbells,
};
use bellhop_guest_umd::Error;
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{Area, AreaKind, BarHeader};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus};
use std::ops::Range;
use std::sync::Arc;
use vm_memory::{Bytes, MmapRegion, VolatileMemory, VolatileMemoryError};

impl From<VolatileMemoryError> for Failure {
    fn from(error: VolatileMemoryError) -> Self {
        Self::Other(format!("the BAR: {error}"))
    }
}

impl Performer {
    fn region(&self) -> Result<Arc<MmapRegion>, Failure> {
        Ok(self.transport.bar().ok_or(Error::NotAvailable("a BAR"))?.region)
    }

    fn areas(&self) -> Result<Vec<Area>, Failure> {
        let header: BarHeader = {
            let region = self.region()?;
            let mut bytes = [0; size_of::<BarHeader>()];
            region.as_volatile_slice().read_slice(&mut bytes, 0)?;
            zerocopy::transmute!(bytes)
        };
        Ok(header.areas.into_iter().take(header.area_count as usize).collect())
    }
}

/// The offsets of an area's words.
fn words(area: &Area) -> impl Iterator<Item = usize> + use<> {
    let Area { offset, length, .. } = *area;
    (offset as usize..(offset + length) as usize).step_by(8)
}

impl Perform for FindBytes {
    fn perform(self, performer: &mut Performer) -> Result<Option<u64>, Failure> {
        let region = performer.region()?;
        let slice = region.as_volatile_slice();
        let pages: Range<usize> = PAGE_SIZE as usize..slice.len();
        let mut page = vec![0; PAGE_SIZE as usize];
        for at in pages.step_by(PAGE_SIZE as usize) {
            slice.read_slice(&mut page, at)?;
            if let Some(byte) = page.iter().position(|byte| *byte != 0) {
                return Ok(Some((at + byte) as u64));
            }
        }
        Ok(None)
    }
}

impl Perform for FillDoorbells {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        let region = performer.region()?;
        let doorbells = performer.areas()?.into_iter().find(|a| a.kind == AreaKind::DOORBELLS);
        let doorbells = doorbells.ok_or(Error::BadBar("there are no doorbells"))?;
        for word in words(&doorbells) {
            region.as_volatile_slice().write_obj(self.word, word)?;
        }
        Ok(doorbells.length / PAGE_SIZE)
    }
}

impl Perform for SumDoorbells {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        let kinds = [AreaKind::DOORBELLS, AreaKind::PROGRESS, AreaKind::STATUS];
        let region = performer.region()?;
        let areas = performer.areas()?.into_iter().filter(|area| kinds.contains(&area.kind));
        let mut sum = 0u64;
        for area in areas {
            for word in words(&area) {
                let word: u64 = region.as_volatile_slice().read_obj(word)?;
                let word = if area.kind == AreaKind::STATUS { settled(word) } else { word };
                sum = sum.rotate_left(5).wrapping_add(word);
            }
        }
        Ok(sum)
    }
}

/// A status without what an engine changes by itself: whether it may sleep.
fn settled(word: u64) -> u64 {
    let status = DoorbellStatus(word);
    match status.connection() {
        ConnectionStatus::CONNECTED_NOTIFY => {
            let settled = DoorbellStatus::new(ConnectionStatus::CONNECTED);
            settled.with_logging_level(status.logging_level()).0
        }
        _ => word,
    }
}

impl Perform for FillBar {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        let region = performer.region()?;
        // Its memory, too: rings and command buffers are there.
        for word in (0..region.size()).step_by(8) {
            region.as_volatile_slice().write_obj(self.word, word)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_falls_asleep_changes_nothing_and_a_disconnect_does() {
        let all = [0, 1, 2, 3].map(|connection| settled(1 << 32 | connection));
        assert_eq!(all, [0, 0, 2, 3].map(|connection| 1 << 32 | connection));
    }
}
