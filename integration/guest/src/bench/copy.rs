// SPDX-License-Identifier: MIT OR Apache-2.0

//! The copy engine beside this processor's own copies.

use super::floor::copies::{MEMCPY, Order, copies, ways};
use super::report::Measured;
use super::set_up::{COMMANDS, TIMEOUT, context, null_commands};
use crate::timing::{Latency, time};
use bellhop_guest_umd::{Adapter, Device, Error};
use bellhop_guest_umd::{Allocation, CommandBuffer, GpuMapping, UserModeQueue};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a copy.
const SIZE: u64 = 1 << 20;
/// Bytes of a long copy, and of a short one.
const LONG: u64 = 64 << 20;
const SHORT: u64 = 64;
/// Where scattered pages are mapped, in another order than in memory.
const SCATTERED: [u64; 2] = [1 << 32, 2 << 32];
/// Adjacent pages of the mapping are this many pages apart in memory. It does not divide their number.
const STRIDE: u64 = 77;
/// The order in which the engine finds scattered pages.
const BY_PAGE: Order = Order { piece: PAGE_SIZE as usize, stride: STRIDE as usize };

pub(super) fn run(adapter: &Adapter, samples: u64, measured: &mut Measured) -> anyhow::Result<()> {
    let context = context(adapter, EngineType::COPY)?;
    let device = context.device();
    let mut queue = context.create_user_mode_queue(4096)?;
    let size = SIZE as usize;
    let memcpy = Order::at_once(size).rate(MEMCPY, size);
    measured.figure("memcpy_bytes_per_second", memcpy);
    let scattered_name = "memcpy_scattered_bytes_per_second";
    let rates = ways().into_iter().map(|way| (way.name.to_owned(), BY_PAGE.rate(way, size)));
    let scattered = measured.best_shape(scattered_name, rates.collect::<Vec<_>>());
    let scattered = scattered.unwrap_or(memcpy);
    measured.figure(scattered_name, scattered);
    for (name, kind) in [("local", AllocationKind::LOCAL), ("system", AllocationKind::SYSTEM)] {
        let (source, target) =
            (device.create_allocation(kind, SIZE)?, device.create_allocation(kind, SIZE)?);
        let bandwidth = between(device, &mut queue, &source, &target, SIZE)?;
        measured.figure(format!("copy_{name}_bytes_per_second"), bandwidth);
        measured.ratio(format!("copy_{name}_bandwidth_over_memcpy"), bandwidth, memcpy);
        if kind == AllocationKind::LOCAL {
            measured.ratio("copy_bandwidth_over_memcpy", bandwidth, memcpy);
        }
        let [from, to] = SCATTERED;
        let _mapped = (scatter(&source, from)?, scatter(&target, to)?);
        let name = format!("copy_{name}_scattered");
        let bandwidth = rate(device, &mut queue, from, to, SIZE)?;
        measured.figure(format!("{name}_bytes_per_second"), bandwidth);
        measured.ratio(format!("{name}_bandwidth_over_memcpy"), bandwidth, memcpy);
        measured.ratio(format!("{name}_bandwidth_over_memcpy_scattered"), bandwidth, scattered);
    }
    long(device, &mut queue, measured)?;
    short(device, &mut queue, samples, measured)
}

/// Copies of memory that no cache of the processor's own has.
fn long(device: &Device, queue: &mut UserModeQueue, measured: &mut Measured) -> anyhow::Result<()> {
    const RATIO: &str = "copy_64_mib_bandwidth_over_memcpy";
    // Local memory has no more than that by default, and has rings and command buffers.
    let allocate = || device.create_allocation(AllocationKind::SYSTEM, LONG);
    let (source, target) = match allocate().and_then(|source| Ok((source, allocate()?))) {
        Ok(both) => both,
        Err(error) => {
            measured.absent(RATIO, format!("there is no memory for two times 64 MiB: {error}"));
            return Ok(());
        }
    };
    let bandwidth = between(device, queue, &source, &target, LONG)?;
    let size = LONG as usize;
    let memcpy = Order::at_once(size).rate(MEMCPY, size);
    measured.figure("memcpy_64_mib_bytes_per_second", memcpy);
    measured.figure("copy_64_mib_bytes_per_second", bandwidth);
    measured.ratio(RATIO, bandwidth, memcpy);
    Ok(())
}

/// Copies of a cache line beside a command buffer that does nothing, on the same queue.
fn short(
    device: &Device,
    queue: &mut UserModeQueue,
    samples: u64,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let [source, target] =
        [(); 2].map(|()| device.create_allocation(AllocationKind::LOCAL, PAGE_SIZE));
    let (source, target) = (source?.map(Protection::WRITE)?, target?.map(Protection::WRITE)?);
    let mut copy = CommandBuffer::new(device, COMMANDS)?;
    copy.copy(source.gpu_va(), target.gpu_va(), SHORT)?;
    let mut null = null_commands(device)?;
    let mut latency = |commands: &mut CommandBuffer| -> anyhow::Result<Latency> {
        time(samples, || {
            let value = queue.submit(commands)?;
            queue.progress_fence().poll(value, TIMEOUT)
        })
    };
    let (null, copy) = (latency(&mut null)?, latency(&mut copy)?);
    measured.figure("copy_null_submission_ns_p50", null.p50 as f64);
    measured.figure("copy_64_b_ns_p50", copy.p50 as f64);
    measured.ratio("copy_64_b_over_null_submission", copy.p50 as f64, null.p50 as f64);
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

/// The engine's rate between two allocations, in bytes a second.
fn between(
    device: &Device,
    queue: &mut UserModeQueue,
    source: &Arc<Allocation>,
    target: &Arc<Allocation>,
    size: u64,
) -> Result<f64, Error> {
    let (source, target) = (source.map(Protection::WRITE)?, target.map(Protection::WRITE)?);
    rate(device, queue, source.gpu_va(), target.gpu_va(), size)
}

/// The engine's rate, in bytes a second.
fn rate(
    device: &Device,
    queue: &mut UserModeQueue,
    from: u64,
    to: u64,
    size: u64,
) -> Result<f64, Error> {
    let mut commands = CommandBuffer::new(device, COMMANDS)?;
    commands.copy(from, to, size)?;
    let mut fastest = f64::INFINITY;
    for _ in 0..copies(size as usize) {
        let start = Instant::now();
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    Ok(size as f64 / fastest)
}
