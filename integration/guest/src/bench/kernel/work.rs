// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's work with the kernels with which one process is measured, and what it takes.

use super::Times;
use crate::bench::round_trip::KERNEL_SHARE;
use crate::bench::set_up::{TIMEOUT, context};
use crate::own_kernels::modules::{Module, module};
use crate::timing::{Latency, time, time_all};
use anyhow::ensure;
use bellhop_guest_umd::{
    Adapter, Allocation, Arguments, CommandBuffer, Device, GpuMapping, Kernel, UserModeQueue,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Arc;
use std::time::Instant;

/// Dispatches of a batch, which depend on each other: as many as a worker takes at once.
const BATCH: u64 = 64;
/// Work groups of the dispatch of several, as where one process is measured.
const GROUPS: u32 = 16;
/// Bytes that the kernel limited by memory loads and stores.
pub(super) const STREAM: u64 = 64 << 20;
/// Bytes of one of its work groups: 256 invocations of 16 bytes.
const STREAM_GROUP: u64 = 256 * 16;
/// Most bytes that a worker maps at once.
const RUN: u64 = 2 << 20;
/// Bytes whose pages are not contiguous in memory, so that each is mapped by itself.
const SCATTERED: u64 = 16 << 20;
/// Where they are mapped.
const SCATTERED_AT: u64 = 1 << 36;
/// Adjacent pages there are this many pages apart in memory. It does not divide their number.
const STRIDE: u64 = 77;
/// A batch, and the kernel limited by memory, are measured less often than a dispatch by these factors.
const BATCH_SHARE: u64 = 10;
const STREAM_SHARE: u64 = 100;
/// Times that the kernel limited by memory runs before it is measured.
const STREAM_WARM_UP: u64 = 3;
/// Times that untouched pages are measured in one repetition.
const UNTOUCHED: usize = 3;

/// Does nothing.
pub(super) const NULL: Module = module!("null", push constants 0, descriptors 0);
/// Steps a sequence of words on.
const STEP: Module = module!("step", push constants 0, descriptors 1);
/// Adds 1 to each 32-bit word.
const STREAM_KERNEL: Module = module!("stream", push constants 0, descriptors 1);

/// A guest's work: the kernels of the repository's own measurements.
pub(super) struct Work {
    // Dropped in this order: work, then what it uses.
    queue: UserModeQueue,
    null: CommandBuffer,
    groups: CommandBuffer,
    batch: CommandBuffer,
    stream: CommandBuffer,
    kernel: Kernel,
    /// What the steps have made.
    state: GpuMapping,
    words: GpuMapping,
    device: Device,
    /// Steps, and runs of the kernel limited by memory, so far.
    made: (u64, u32),
}

impl Work {
    pub(super) fn new(adapter: &Adapter) -> anyhow::Result<Self> {
        let context = context(adapter, EngineType::THREE_D)?;
        let device = &context.device().clone();
        let mut null = CommandBuffer::new(device, PAGE_SIZE as usize)?;
        let nothing = NULL.create(device)?;
        null.dispatch_kernel(&nothing, [1; 3], &Arguments::new())?;
        let mut groups = CommandBuffer::new(device, PAGE_SIZE as usize)?;
        groups.dispatch_kernel(&nothing, [GROUPS, 1, 1], &Arguments::new())?;
        let state = memory(device, PAGE_SIZE)?.map(Protection::WRITE)?;
        let step = STEP.create(device)?;
        let mut arguments = Arguments::new();
        arguments.descriptor(state.gpu_va(), PAGE_SIZE);
        let mut batch = CommandBuffer::new(device, 2 * PAGE_SIZE as usize)?;
        for _ in 0..BATCH {
            batch.barrier().dispatch_kernel(&step, [1; 3], &arguments)?;
        }
        let kernel = STREAM_KERNEL.create(device)?;
        let words = memory(device, STREAM)?.map(Protection::WRITE)?;
        let stream = streaming(device, &kernel, words.gpu_va(), STREAM)?;
        let queue = context.create_user_mode_queue(4096)?;
        let device = device.clone();
        let made = (0, 0);
        Ok(Self { queue, null, groups, batch, stream, kernel, state, words, device, made })
    }

    /// Measures everything that one process can be measured with, and checks what the kernels made.
    pub(super) fn times(&mut self, samples: u64) -> anyhow::Result<(Times, Latency)> {
        let samples = samples.div_ceil(KERNEL_SHARE);
        let Self { queue, null, groups, batch, stream, made: (steps, runs), .. } = self;
        let null = time(samples, || polled(queue, null))?;
        let groups = time(samples, || polled(queue, groups))?;
        let batch = time(samples.div_ceil(BATCH_SHARE), || {
            *steps += BATCH;
            polled(queue, batch)
        })?;
        let mut run = || {
            *runs += 1;
            blocked(queue, stream)
        };
        (0..STREAM_WARM_UP).try_for_each(|_| run())?;
        let stream = time_all(samples.div_ceil(STREAM_SHARE), run)?;
        self.check()?;
        let times = Times {
            null_ns: null.p50 as f64,
            groups_ns: groups.p50 as f64,
            batch_ns: batch.p50 as f64,
            stream_ns: stream.p50 as f64,
        };
        Ok((times, null))
    }

    fn check(&self) -> anyhow::Result<()> {
        let (steps, runs) = self.made;
        let step = |x: u32, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut state = [0; 4];
        self.state.allocation().read(0, &mut state)?;
        ensure!(
            u32::from_le_bytes(state) == (0..steps).fold(0, step),
            "after {steps} dispatches, the word is {state:x?}"
        );
        let mut words = vec![0; STREAM as usize];
        self.words.allocation().read(0, &mut words)?;
        let (words, _) = words.as_chunks();
        let right = words.iter().all(|word| u32::from_le_bytes(*word) == runs);
        ensure!(right, "the kernel limited by memory computes wrongly");
        Ok(())
    }

    /// Measures pages that no kernel has touched: mapped anew, they have new addresses, and what was mapped before is
    /// forgotten. Their memory has been used, so that Linux has nothing to clear.
    pub(super) fn untouched(&mut self, mapped_ns: f64) -> anyhow::Result<Untouched> {
        let device = self.device.clone();
        let words = Arc::clone(self.words.allocation());
        let mut least = [f64::INFINITY; 2];
        for _ in 0..UNTOUCHED {
            let mapping = words.map(Protection::WRITE)?;
            let mut commands = streaming(&device, &self.kernel, mapping.gpu_va(), STREAM)?;
            least[0] = least[0].min(once(&mut self.queue, &mut commands)?);
            self.made.1 += 1;
        }
        self.check()?;
        let scattered = memory(&device, SCATTERED)?;
        for _ in 0..UNTOUCHED {
            let _mapped = scatter(&scattered)?;
            let mut commands = streaming(&device, &self.kernel, SCATTERED_AT, SCATTERED)?;
            least[1] = least[1].min(once(&mut self.queue, &mut commands)?);
        }
        let over =
            |time: f64, bytes: u64| (time - mapped_ns * bytes as f64 / STREAM as f64).max(0.0);
        let [runs, pages] = least;
        Ok(Untouched {
            runs_ns: runs,
            run_miss_ns: over(runs, STREAM) / (STREAM / RUN) as f64,
            page_miss_ns: over(pages, SCATTERED) / (SCATTERED / PAGE_SIZE) as f64,
        })
    }
}

/// What pages take that no kernel has touched. In nanoseconds.
pub(super) struct Untouched {
    /// The kernel limited by memory.
    pub(super) runs_ns: f64,
    /// What one miss adds where memory is contiguous.
    pub(super) run_miss_ns: f64,
    /// What one miss adds where each page is by itself.
    pub(super) page_miss_ns: f64,
}

/// Memory of the guest's own, all used already.
fn memory(device: &Device, size: u64) -> anyhow::Result<Arc<Allocation>> {
    let memory = device.create_allocation(AllocationKind::SYSTEM, size)?;
    memory.write(0, &vec![0; size as usize])?;
    Ok(memory)
}

/// Maps an allocation page by page, in an order that is not that of memory.
fn scatter(allocation: &Arc<Allocation>) -> anyhow::Result<Vec<GpuMapping>> {
    let pages = allocation.size() / PAGE_SIZE;
    let map = |page| {
        let offset = page * STRIDE % pages * PAGE_SIZE;
        let at = SCATTERED_AT + page * PAGE_SIZE;
        Ok(allocation.map_at(at, offset, PAGE_SIZE, Protection::WRITE)?)
    };
    (0..pages).map(map).collect()
}

/// The kernel limited by memory, over these bytes.
fn streaming(
    device: &Device,
    kernel: &Kernel,
    gpu_va: u64,
    bytes: u64,
) -> anyhow::Result<CommandBuffer> {
    let mut arguments = Arguments::new();
    arguments.descriptor(gpu_va, bytes);
    let mut commands = CommandBuffer::new(device, PAGE_SIZE as usize)?;
    commands.dispatch_kernel(kernel, [(bytes / STREAM_GROUP) as u32, 1, 1], &arguments)?;
    Ok(commands)
}

/// Submits, and reads the fence until it is signaled.
fn polled(queue: &mut UserModeQueue, commands: &mut CommandBuffer) -> anyhow::Result<()> {
    let done = queue.submit(commands).and_then(|value| queue.progress_fence().poll(value, TIMEOUT));
    Ok(done.map_err(|error| commands.blame(error))?)
}

/// Submits, and blocks until the fence is signaled: the kernel has all processors.
fn blocked(queue: &mut UserModeQueue, commands: &mut CommandBuffer) -> anyhow::Result<()> {
    let done = queue.submit(commands).and_then(|value| queue.progress_fence().wait(value, TIMEOUT));
    Ok(done.map_err(|error| commands.blame(error))?)
}

/// The time of one submission, in nanoseconds.
fn once(queue: &mut UserModeQueue, commands: &mut CommandBuffer) -> anyhow::Result<f64> {
    let start = Instant::now();
    blocked(queue, commands)?;
    Ok(start.elapsed().as_nanos() as f64)
}
