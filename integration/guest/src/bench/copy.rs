// SPDX-License-Identifier: MIT OR Apache-2.0

//! The copy engine beside memcpy.

use super::report::Measured;
use super::set_up::{TIMEOUT, context};
use bellhop_guest_umd::{Adapter, Error};
use bellhop_guest_umd::{Allocation, CommandBuffer, GpuMapping, UserModeQueue};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a copy.
const SIZE: u64 = 1 << 20;
/// Number of copies; the fastest counts, because others may have been disturbed.
const COPIES: usize = 64;
/// Where scattered pages are mapped, in another order than in memory.
const SCATTERED: [u64; 2] = [1 << 32, 2 << 32];
/// Adjacent pages of the mapping are this many pages apart in memory. It does not divide their number.
const STRIDE: u64 = 77;

pub(super) fn run(adapter: &Adapter, measured: &mut Measured) -> anyhow::Result<()> {
    let context = context(adapter, EngineType::COPY)?;
    let device = context.device();
    let mut queue = context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(device, 64)?;
    let memcpy = fastest(&CONTIGUOUS);
    measured.figure("memcpy_bytes_per_second", memcpy);
    let mut put = |name: &str, from: u64, to: u64| -> Result<(), Error> {
        let bandwidth = copies(&mut queue, &mut commands, from, to)?;
        measured.figure(format!("copy_{name}_bytes_per_second"), bandwidth);
        measured.ratio(format!("copy_{name}_bandwidth_over_memcpy"), bandwidth, memcpy);
        match name {
            "local" => measured.ratio("copy_bandwidth_over_memcpy", bandwidth, memcpy),
            "local_scattered" => {
                let scattered = fastest(&SCATTERED_WAYS);
                measured.figure("memcpy_scattered_bytes_per_second", scattered);
                let name = "copy_local_scattered_bandwidth_over_memcpy_scattered";
                measured.ratio(name, bandwidth, scattered);
            }
            _ => {}
        }
        Ok(())
    };
    for (name, kind) in [("local", AllocationKind::LOCAL), ("system", AllocationKind::SYSTEM)] {
        let (source, target) =
            (device.create_allocation(kind, SIZE)?, device.create_allocation(kind, SIZE)?);
        {
            let (source, target) = (source.map(Protection::WRITE)?, target.map(Protection::WRITE)?);
            put(name, source.gpu_va(), target.gpu_va())?;
        }
        let [from, to] = SCATTERED;
        let _mapped = (scatter(&source, from)?, scatter(&target, to)?);
        put(&format!("{name}_scattered"), from, to)?;
    }
    Ok(())
}

/// Maps an allocation page by page from `base` on, in an order that is not that of memory.
fn scatter(allocation: &Arc<Allocation>, base: u64) -> Result<Vec<GpuMapping>, Error> {
    let pages = SIZE / PAGE_SIZE;
    let map = |page| {
        let offset = page * STRIDE % pages * PAGE_SIZE;
        allocation.map_at(base + page * PAGE_SIZE, offset, PAGE_SIZE, Protection::WRITE)
    };
    (0..pages).map(map).collect()
}

/// The engine's rate, in bytes a second.
fn copies(
    queue: &mut UserModeQueue,
    commands: &mut CommandBuffer,
    from: u64,
    to: u64,
) -> Result<f64, Error> {
    commands.reset();
    commands.copy(from, to, SIZE)?;
    let mut fastest = f64::INFINITY;
    for _ in 0..COPIES {
        let start = Instant::now();
        let value = queue.submit(commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    Ok(SIZE as f64 / fastest)
}

/// A way in which this processor copies so many bytes.
type Way = fn(&[u8], &mut [u8]);

/// Copies all of it at once.
const CONTIGUOUS: [Way; 1] = [|source, target| target.copy_from_slice(source)];

/// Copy page by page, in the order in which the engine finds scattered pages. A C library copies a page with an
/// instruction for strings where it takes that for fast, which on some processors is a seventh as fast as the copies that
/// it has for shorter pieces.
const SCATTERED_WAYS: [Way; 2] = [
    |source, target| by_page(source, target, PAGE_SIZE as usize),
    |source, target| by_page(source, target, PIECE),
];

/// Bytes of a short piece.
const PIECE: usize = 1024;

fn by_page(source: &[u8], target: &mut [u8], piece: usize) {
    let pages = (SIZE / PAGE_SIZE) as usize;
    for number in 0..pages {
        let start = number * STRIDE as usize % pages * PAGE_SIZE as usize;
        let end = start + PAGE_SIZE as usize;
        let pieces = target[start..end].chunks_mut(piece).zip(source[start..end].chunks(piece));
        for (target, source) in pieces {
            // Keeps the compiler from making one copy of several.
            black_box(target).copy_from_slice(black_box(source));
        }
    }
}

/// This processor's rate, in bytes a second: that of the fastest way. Others may have been disturbed, or do not suit this
/// processor.
fn fastest(ways: &[Way]) -> f64 {
    let rates = ways.iter().flat_map(|way| OFFSETS.map(|offset| rate(*way, offset)));
    rates.fold(0.0, f64::max)
}

/// Bytes by which the copied memory is off the beginning of a page: as the engine's is, and as a heap's is.
const OFFSETS: [usize; 2] = [0, 16];

fn rate(copy: Way, offset: usize) -> f64 {
    let (mut source, mut target) = (Memory::new(1, offset), Memory::new(2, offset));
    let (source, target) = (source.bytes(), target.bytes());
    let mut fastest = f64::INFINITY;
    for _ in 0..COPIES {
        let start = Instant::now();
        copy(black_box(source), target);
        black_box(&mut *target);
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    SIZE as f64 / fastest
}

/// [`SIZE`] bytes, so many bytes behind the beginning of a page.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
}

impl Memory {
    fn new(value: u8, offset: usize) -> Self {
        let page = PAGE_SIZE as usize;
        let bytes = vec![value; SIZE as usize + 2 * page];
        let start = bytes.as_ptr().align_offset(page) + offset;
        Self { bytes, start }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + SIZE as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_copies_all_of_it() {
        for way in CONTIGUOUS.iter().chain(&SCATTERED_WAYS) {
            for offset in OFFSETS {
                let (mut source, mut target) = (Memory::new(0, offset), Memory::new(0, offset));
                assert_eq!(source.bytes().as_ptr().addr() % PAGE_SIZE as usize, offset);
                for (index, byte) in source.bytes().iter_mut().enumerate() {
                    *byte = (index % 251) as u8;
                }
                way(source.bytes(), target.bytes());
                assert!(source.bytes() == target.bytes());
            }
        }
    }
}
