// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that copy or fill rectangles of surfaces, row by row.

use super::context::{BUFFER, Context};
use super::progress::{Cursor, Progress};
use super::transfer::Copying;
use crate::gpu::memory::mmu::check_range;
use crate::gpu::memory::violation::{Violation, aligned};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::surface::{CopyRect, FillRect, MAX_PITCH, MAX_ROWS, extent};
use bellhop_protocol::packet::transfer::Copy;

/// Bytes that a row counts for at least, so that a step of many short rows ends in time.
const ROW_COST: usize = 512;

/// The error for a value that no surface has.
pub fn bad(value: impl Into<u64>) -> Violation {
    Violation::new(FaultReason::BAD_RECTANGLE, value.into())
}

fn is_zero(reserved: u32) -> Result<(), Violation> {
    if reserved == 0 { Ok(()) } else { Err(bad(reserved)) }
}

/// The rows of a rectangle.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// Address of the first byte.
    pub start: u64,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// Bytes of a row.
    pub row: u32,
    /// How many there are.
    pub count: u32,
}

impl Rows {
    /// Checks that a rectangle is one, and lies in the address space. Without rows or columns it is empty.
    ///
    /// # Errors
    /// `BAD_RECTANGLE` or `ADDRESS_OUT_OF_RANGE`.
    pub fn new(start: u64, pitch: u32, row: u32, count: u32) -> Result<Self, Violation> {
        if pitch > MAX_PITCH {
            return Err(bad(pitch));
        }
        if row > pitch {
            return Err(bad(row));
        }
        if count > MAX_ROWS {
            return Err(bad(count));
        }
        let count = if row == 0 { 0 } else { count };
        check_range(start, extent(pitch, row, count))?;
        Ok(Self { start, pitch, row, count })
    }

    /// Address of a row's first byte.
    pub const fn at(&self, row: u32) -> u64 {
        self.start + row as u64 * self.pitch as u64
    }
}

/// Executes rows until they cost `limit`, and some of one at least. `step` executes some of the present row and returns its
/// progress; `next` begins the row after it and returns whether there is one.
fn by_rows<T>(
    state: &mut T,
    limit: usize,
    mut step: impl FnMut(&mut T, usize) -> Result<Progress, Violation>,
    mut next: impl FnMut(&mut T) -> Result<bool, Violation>,
) -> Result<Progress, Violation> {
    let (mut moved, mut cost) = (0, 0);
    // Whatever little is left of a turn, nothing moved means that all rows are done.
    while cost < limit || moved == 0 {
        // What was moved before counts. The next step meets a violation again.
        match step(state, limit.saturating_sub(cost).max(1)) {
            Ok(Progress::Moved(bytes)) => {
                moved += bytes;
                cost += bytes;
            }
            Ok(_) if next(state)? => cost += ROW_COST,
            Err(violation) if moved == 0 => return Err(violation),
            Ok(_) | Err(_) => break,
        }
    }
    Ok(if moved > 0 { Progress::Moved(moved) } else { Progress::Finished })
}

/// A `COPY_RECT` in progress.
#[derive(Debug)]
pub struct RectCopying {
    source: Rows,
    destination: Rows,
    row: u32,
    copying: Copying,
}

impl RectCopying {
    /// Starts the operation.
    ///
    /// # Errors
    /// `BAD_RECTANGLE` or `ADDRESS_OUT_OF_RANGE`.
    pub fn new(packet: &CopyRect) -> Result<Self, Violation> {
        is_zero(packet.reserved)?;
        let (row, rows) = (packet.header.argument, packet.rows);
        let source = Rows::new(packet.source, packet.source_pitch, row, rows)?;
        let destination = Rows::new(packet.destination, packet.destination_pitch, row, rows)?;
        let length = if source.count == 0 { 0 } else { row };
        let copying = Copying::new(&Copy::new(source.start, destination.start, length.into()))?;
        Ok(Self { source, destination, row: 0, copying })
    }

    /// See `Operation::step`.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        by_rows(self, limit, |copy, limit| copy.copying.step(context, limit), Self::next)
    }

    fn next(&mut self) -> Result<bool, Violation> {
        if self.row + 1 >= self.source.count {
            return Ok(false);
        }
        self.row += 1;
        let (from, to) = (self.source.at(self.row), self.destination.at(self.row));
        self.copying = Copying::new(&Copy::new(from, to, self.source.row.into()))?;
        Ok(true)
    }
}

/// A `FILL_RECT` in progress.
#[derive(Debug)]
pub struct RectFilling {
    rows: Rows,
    pattern: [u8; 4],
    row: u32,
    cursor: Cursor,
}

impl RectFilling {
    /// Starts the operation.
    ///
    /// # Errors
    /// `MISALIGNED`, `BAD_RECTANGLE` or `ADDRESS_OUT_OF_RANGE`.
    pub fn new(packet: &FillRect) -> Result<Self, Violation> {
        is_zero(packet.reserved)?;
        for value in [packet.destination, packet.pitch.into(), packet.row.into()] {
            aligned(value, 2)?;
        }
        let rows = Rows::new(packet.destination, packet.pitch, packet.row, packet.rows)?;
        let length = if rows.count == 0 { 0 } else { rows.row };
        let pattern = packet.header.argument.to_le_bytes();
        Ok(Self { rows, pattern, row: 0, cursor: Cursor::new(length.into()) })
    }

    /// See `Operation::step`.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        // A row's parts begin with the pattern's first byte, since a buffer's length is a multiple of the pattern's.
        context.scratch.first.as_chunks_mut().0.fill(self.pattern);
        by_rows(
            self,
            limit,
            |fill, _| {
                let Some(next) = fill.cursor.next(BUFFER) else { return Ok(Progress::Finished) };
                let at = fill.rows.at(fill.row) + fill.cursor.done;
                context.mmu.write(at, &context.scratch.first[..next])?;
                Ok(fill.cursor.advance(next))
            },
            |fill| {
                if fill.row + 1 >= fill.rows.count {
                    return Ok(false);
                }
                fill.row += 1;
                fill.cursor = Cursor::new(fill.rows.row.into());
                Ok(true)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes rows of so many bytes in turns of a limit; returns how many bytes were moved by the end.
    fn moved(rows: usize, row: usize, limit: usize) -> usize {
        let mut state = (1, row);
        let mut all = 0;
        loop {
            let step = |(_, left): &mut (usize, usize), limit: usize| {
                let bytes = limit.min(*left);
                *left -= bytes;
                Ok(if bytes > 0 { Progress::Moved(bytes) } else { Progress::Finished })
            };
            let next = |(at, left): &mut (usize, usize)| {
                if *at == rows {
                    return Ok(false);
                }
                (*at, *left) = (*at + 1, row);
                Ok(true)
            };
            match by_rows(&mut state, limit, step, next).unwrap() {
                Progress::Moved(bytes) => all += bytes,
                _ => return all,
            }
        }
    }

    #[test]
    fn all_rows_are_executed_however_little_is_left_of_a_turn() {
        for limit in [1, 7, ROW_COST - 1, ROW_COST, ROW_COST + 1, 4096] {
            for row in [1, 7, ROW_COST, 2560] {
                assert_eq!(moved(5, row, limit), 5 * row, "{limit} bytes of rows of {row}");
            }
        }
    }
}
