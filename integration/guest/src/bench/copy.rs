//! The copy engine beside memcpy.

use super::report::Report;
use super::{TIMEOUT, node};
use bellhop_guest_umd::{Adapter, CommandBuffer};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::hint::black_box;
use std::time::Instant;

/// Bytes of a copy.
const SIZE: u64 = 1 << 20;
/// Copies, of which the best counts: others may have been disturbed.
const COPIES: usize = 64;

pub(super) fn run(adapter: &Adapter, report: &mut Report) -> anyhow::Result<()> {
    let device = adapter.create_device()?;
    let context = device.create_context(node(adapter, EngineType::COPY)?)?;
    let mut queue = context.create_user_mode_queue(4096)?;
    let map = |kind| device.create_allocation(kind, SIZE)?.map(Protection::WRITE);
    let mut best = 0f64;
    for (name, kind) in [("local", AllocationKind::LOCAL), ("system", AllocationKind::SYSTEM)] {
        let (source, target) = (map(kind)?, map(kind)?);
        let mut commands = CommandBuffer::new(&device, 64)?;
        commands.copy(source.gpu_va(), target.gpu_va(), SIZE)?;
        let mut fastest = f64::INFINITY;
        for _ in 0..COPIES {
            let start = Instant::now();
            let value = queue.submit(&mut commands)?;
            queue.progress_fence().poll(value, TIMEOUT)?;
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        let bandwidth = SIZE as f64 / fastest;
        report.figure(format!("copy_{name}_bytes_per_second"), bandwidth);
        best = best.max(bandwidth);
    }
    let memcpy = memcpy();
    report.figure("memcpy_bytes_per_second", memcpy);
    report.ratio("copy_bandwidth_over_memcpy", best, memcpy);
    Ok(())
}

/// Bytes a second that this processor copies.
fn memcpy() -> f64 {
    let source = vec![1u8; SIZE as usize];
    let mut target = vec![2u8; SIZE as usize];
    let mut fastest = f64::INFINITY;
    for _ in 0..COPIES {
        let start = Instant::now();
        target.copy_from_slice(black_box(&source));
        black_box(&mut target);
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    SIZE as f64 / fastest
}
