// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that move, generate or read bytes.
//!
//! Addresses and lengths are checked when a packet starts. That its pages are mapped is checked only when it gets
//! to them.

use super::context::{BUFFER, Context};
use super::progress::{Cursor, Progress};
use crate::gpu::memory::copy::{Stores, copy};
use crate::gpu::memory::mmu::{Access, Ahead, Run, check_range, protected};
use crate::gpu::memory::prefetch::prefetch;
use crate::gpu::memory::violation::{Violation, aligned};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::packet::transfer::{
    COMPARE_EQUAL, Compare, Copy, Fill, Hash, Timestamp, WriteData,
};
use vm_memory::VolatileSlice;
use xxhash_rust::xxh64::Xxh64;

const WORD: u64 = size_of::<u64>() as u64;
/// Bytes of a copy that takes no longer than other packets, so that no turn is timed for it.
const SHORT: u64 = 256;
/// Runs that a copy of scattered pages finds before it copies them. The copied bytes evict the TLB from the innermost
/// cache; several lookups in a row wait for it together.
const RUNS: usize = 16;

/// Checks the address of a 64-bit result.
fn check_result(gpu_va: u64) -> Result<(), Violation> {
    aligned(gpu_va, WORD)?;
    check_range(gpu_va, WORD)
}

/// Writes a 64-bit result.
fn write_result(context: &mut Context<'_>, gpu_va: u64, value: u64) -> Result<(), Violation> {
    // A guest that polls the word sees what was written before it.
    context.mmu.store_word(gpu_va, value)
}

/// `WRITE_DATA`.
pub fn write_data(
    context: &mut Context<'_>,
    packet: &WriteData,
    data: &[u8],
) -> Result<(), Violation> {
    check_range(packet.destination, data.len() as u64)?;
    context.mmu.write(packet.destination, data)
}

/// `TIMESTAMP`.
pub fn timestamp(context: &mut Context<'_>, packet: &Timestamp) -> Result<(), Violation> {
    check_result(packet.destination)?;
    let now = context.chip.now();
    write_result(context, packet.destination, now)
}

/// A `FILL` in progress.
#[derive(Debug)]
pub struct Filling {
    destination: u64,
    pattern: [u8; 4],
    cursor: Cursor,
}

impl Filling {
    /// Starts the operation.
    ///
    /// # Errors
    /// `MISALIGNED` or `ADDRESS_OUT_OF_RANGE`.
    pub fn new(packet: &Fill) -> Result<Self, Violation> {
        aligned(packet.destination, 4)?;
        aligned(packet.length, 4)?;
        check_range(packet.destination, packet.length)?;
        Ok(Self {
            destination: packet.destination,
            pattern: packet.header.argument.to_le_bytes(),
            cursor: Cursor::new(packet.length),
        })
    }

    /// See `Operation::step`.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        let Some(next) = self.cursor.next(limit) else { return Ok(Progress::Finished) };
        let destination = self.destination + self.cursor.done;
        let run = context.mmu.run(destination, next, Access::Write)?;
        // All ends are multiples of 4, so each run begins with the pattern's first byte.
        let buffer = &mut context.scratch.first[..run.len().min(BUFFER)];
        let (words, _) = buffer.as_chunks_mut();
        words.fill(self.pattern);
        let Run::Direct(slice) = run else {
            context.mmu.store(destination, &run, buffer)?;
            return Ok(self.cursor.advance(buffer.len()));
        };
        let mut filled = 0;
        while let Ok(rest) = slice.offset(filled)
            && !rest.is_empty()
        {
            rest.copy_from(buffer);
            filled += buffer.len().min(rest.len());
        }
        Ok(self.cursor.advance(filled))
    }
}

/// `COPY`. Executes a short one at once, as a packet that has its bytes in it; returns what a longer one leaves.
///
/// # Errors
/// `ADDRESS_OUT_OF_RANGE`, or a page fault of a short one.
pub fn copy_bytes(context: &mut Context<'_>, packet: &Copy) -> Result<Option<Copying>, Violation> {
    let mut copying = Copying::new(packet)?;
    if packet.length > SHORT {
        return Ok(Some(copying));
    }
    while let Progress::Moved(bytes) = copying.step(context, SHORT as usize)? {
        context.signals.tally.bytes += bytes as u64;
    }
    Ok(None)
}

/// A `COPY` in progress.
#[derive(Debug)]
pub struct Copying {
    source: u64,
    destination: u64,
    stores: Stores,
    cursor: Cursor,
}

impl Copying {
    /// Starts the operation.
    ///
    /// # Errors
    /// `ADDRESS_OUT_OF_RANGE`.
    pub fn new(packet: &Copy) -> Result<Self, Violation> {
        check_range(packet.source, packet.length)?;
        check_range(packet.destination, packet.length)?;
        Ok(Self {
            source: packet.source,
            destination: packet.destination,
            stores: Stores::of(packet.length),
            cursor: Cursor::new(packet.length),
        })
    }

    /// See `Operation::step`. Copies run by run; where pages are scattered, each run is a page.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        let (mut moved, mut ahead) = (0, [Ahead::default(); 2]);
        while let Some(next) = self.cursor.next(limit.saturating_sub(moved)) {
            match self.copy_runs(context, next, &mut ahead) {
                Ok(bytes) => {
                    self.cursor.advance(bytes);
                    moved += bytes;
                }
                // What was copied before counts. The next step meets this violation again.
                Err(_) if moved > 0 => break,
                Err(violation) => return Err(violation),
            }
        }
        Ok(if moved > 0 { Progress::Moved(moved) } else { Progress::Finished })
    }

    /// Copies at most `next` bytes: one run that is contiguous in both ranges, or several where pages are scattered.
    /// Returns how many.
    #[inline]
    fn copy_runs(
        &self,
        context: &mut Context<'_>,
        next: usize,
        ahead: &mut [Ahead; 2],
    ) -> Result<usize, Violation> {
        let (from, to) = match self.find_run(context, 0, next, ahead)? {
            (Run::Direct(from), Run::Direct(to)) => (from, to),
            (from, to) => return self.copy_buffered(context, &from, &to),
        };
        let copied = if to.len() < next {
            self.copy_scattered(context, (from, to), next, ahead)
        } else {
            copy(&from, &to, self.stores);
            next
        };
        if context.is_system {
            self.carry_compression(context, copied)?;
        }
        Ok(copied)
    }

    /// Finds the run `offset` bytes further on: at most `next` bytes that are contiguous in the source, and those of
    /// them that are contiguous in the destination.
    #[inline]
    fn find_run<'a>(
        &self,
        context: &mut Context<'a>,
        offset: usize,
        next: usize,
        [source_ahead, destination_ahead]: &mut [Ahead; 2],
    ) -> Result<(Run<'a>, Run<'a>), Violation> {
        let at = self.cursor.done + offset as u64;
        let from = context.mmu.run_on(self.source + at, next, Access::Read, source_ahead)?;
        let length = from.len();
        let to =
            context.mmu.run_on(self.destination + at, length, Access::Write, destination_ahead)?;
        Ok((from, to))
    }

    /// Copies the first run and the runs after it, at most `next` bytes in all. Returns how many. Stops before a run
    /// that faults or needs a buffer, which the next call meets first.
    #[inline(never)]
    fn copy_scattered(
        &self,
        context: &mut Context<'_>,
        first: (VolatileSlice<'_>, VolatileSlice<'_>),
        next: usize,
        ahead: &mut [Ahead; 2],
    ) -> usize {
        let (mut runs, mut found) = ([None; RUNS], first.1.len());
        runs[0] = Some(first);
        for run in &mut runs[1..] {
            if found == next {
                break;
            }
            let Ok((Run::Direct(from), Run::Direct(to))) =
                self.find_run(context, found, next - found, ahead)
            else {
                break;
            };
            found += to.len();
            *run = Some((from, to));
        }
        let mut runs = runs.into_iter().flatten().peekable();
        let mut behind = self.cursor.done + found as u64;
        while let Some((from, to)) = runs.next() {
            // The copied bytes evict the TLB. What the next call looks up comes back meanwhile.
            context.mmu.prefetch(self.source + behind);
            context.mmu.prefetch(self.destination + behind);
            behind += PAGE_SIZE;
            // No processor predicts where the next run is.
            if let Some((from, to)) = runs.peek() {
                prefetch(from);
                prefetch(to);
            }
            // Copies as much as fits into the shorter run, which is the destination.
            copy(&from, &to, self.stores);
        }
        found
    }

    /// As [`Self::copy_runs`], where one of the runs is compressed or protected, or holds fence values. The destination
    /// is the shorter. Protected bytes go to protected memory only.
    #[cold]
    fn copy_buffered(
        &self,
        context: &mut Context<'_>,
        source: &Run<'_>,
        destination: &Run<'_>,
    ) -> Result<usize, Violation> {
        let done = self.cursor.done;
        let length = destination.len().min(BUFFER);
        if source.is_protected() && !destination.is_protected() {
            return Err(protected(self.destination + done));
        }
        let buffer = &mut context.scratch.first[..length];
        context.mmu.load_protected(self.source + done, source, buffer)?;
        context.mmu.store(self.destination + done, destination, buffer)?;
        Ok(length)
    }

    /// Paging moves pages as they are, encoded or not: for each whole page that this step finished copying, carries
    /// the metadata along.
    fn carry_compression(&self, context: &mut Context<'_>, copied: usize) -> Result<(), Violation> {
        if !self.source.is_multiple_of(PAGE_SIZE) || !self.destination.is_multiple_of(PAGE_SIZE) {
            return Ok(());
        }
        let done = self.cursor.done;
        for page in done / PAGE_SIZE..(done + copied as u64) / PAGE_SIZE {
            let at = page * PAGE_SIZE;
            context.mmu.carry_compression(self.source + at, self.destination + at)?;
        }
        Ok(())
    }
}

/// A `COMPARE` in progress.
#[derive(Debug)]
pub struct Comparison {
    left: u64,
    right: u64,
    result: u64,
    verdict: u64,
    cursor: Cursor,
}

impl Comparison {
    /// Starts the operation.
    ///
    /// # Errors
    /// `MISALIGNED` or `ADDRESS_OUT_OF_RANGE`.
    pub fn new(packet: &Compare) -> Result<Self, Violation> {
        check_result(packet.result)?;
        check_range(packet.left, packet.length)?;
        check_range(packet.right, packet.length)?;
        Ok(Self {
            left: packet.left,
            right: packet.right,
            result: packet.result,
            verdict: COMPARE_EQUAL,
            cursor: Cursor::new(packet.length),
        })
    }

    /// See `Operation::step`.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        let Some(next) = self.cursor.next(limit.min(BUFFER)) else {
            write_result(context, self.result, self.verdict)?;
            return Ok(Progress::Finished);
        };
        let done = self.cursor.done;
        let left = context.mmu.run(self.left + done, next, Access::Read)?;
        let right = context.mmu.run(self.right + done, left.len(), Access::Read)?;
        let length = right.len();
        let first = &mut context.scratch.first[..length];
        let second = &mut context.scratch.second[..length];
        context.mmu.load(self.left + done, &left, first)?;
        context.mmu.load(self.right + done, &right, second)?;
        // Equal is the common case, and comparing slices is the fastest way to see it.
        if first != second
            && let Some(offset) = first.iter().zip(&*second).position(|(left, right)| left != right)
        {
            self.verdict = done + offset as u64;
            self.cursor.finish();
            return Ok(Progress::Moved(length));
        }
        Ok(self.cursor.advance(length))
    }
}

/// A `HASH` in progress.
#[derive(Debug)]
pub struct Hashing {
    source: u64,
    result: u64,
    state: XxHash,
    cursor: Cursor,
}

/// The state of XXH64, which has no `Debug` of its own.
struct XxHash(Xxh64);

impl std::fmt::Debug for XxHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "XxHash({:#x})", self.0.digest())
    }
}

impl Hashing {
    /// Starts the operation.
    ///
    /// # Errors
    /// `MISALIGNED` or `ADDRESS_OUT_OF_RANGE`.
    pub fn new(packet: &Hash) -> Result<Self, Violation> {
        check_result(packet.result)?;
        check_range(packet.source, packet.length)?;
        Ok(Self {
            source: packet.source,
            result: packet.result,
            state: XxHash(Xxh64::new(packet.seed)),
            cursor: Cursor::new(packet.length),
        })
    }

    /// See `Operation::step`.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        let Some(next) = self.cursor.next(limit.min(BUFFER)) else {
            write_result(context, self.result, self.state.0.digest())?;
            return Ok(Progress::Finished);
        };
        let source = self.source + self.cursor.done;
        let run = context.mmu.run(source, next, Access::Read)?;
        let buffer = &mut context.scratch.first[..run.len()];
        context.mmu.load(source, &run, buffer)?;
        self.state.0.update(buffer);
        Ok(self.cursor.advance(run.len()))
    }
}
