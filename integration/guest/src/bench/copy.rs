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
    let memcpy = memcpy();
    measured.figure("memcpy_bytes_per_second", memcpy);
    let mut put = |name: &str, from: u64, to: u64| -> Result<(), Error> {
        let bandwidth = copies(&mut queue, &mut commands, from, to)?;
        measured.figure(format!("copy_{name}_bytes_per_second"), bandwidth);
        measured.ratio(format!("copy_{name}_bandwidth_over_memcpy"), bandwidth, memcpy);
        match name {
            "local" => measured.ratio("copy_bandwidth_over_memcpy", bandwidth, memcpy),
            "local_scattered" => {
                let scattered = memcpy_scattered();
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

/// This processor's rate, in bytes a second.
fn memcpy() -> f64 {
    copies_here(|source, target| target.copy_from_slice(source))
}

/// This processor's rate page by page, in the order in which the engine finds scattered pages.
fn memcpy_scattered() -> f64 {
    let pages = (SIZE / PAGE_SIZE) as usize;
    let page = |number: usize| {
        let start = number * STRIDE as usize % pages * PAGE_SIZE as usize;
        start..start + PAGE_SIZE as usize
    };
    copies_here(|source, target| {
        for number in 0..pages {
            target[page(number)].copy_from_slice(&source[page(number)]);
        }
    })
}

fn copies_here(copy: impl Fn(&[u8], &mut [u8])) -> f64 {
    let source = vec![1u8; SIZE as usize];
    let mut target = vec![2u8; SIZE as usize];
    let mut fastest = f64::INFINITY;
    for _ in 0..COPIES {
        let start = Instant::now();
        copy(black_box(&source), &mut target);
        black_box(&mut target);
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    SIZE as f64 / fastest
}
