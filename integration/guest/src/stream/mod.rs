// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bytes, chunk by chunk, through local memory.
//!
//! Each chunk goes through three stages on three nodes: copied in, transformed and hashed, copied out. Each
//! stage waits for the one before with a GPU fence, so the guest submits all three at once and stages of
//! different chunks overlap.

mod alone;
mod check;
mod input;
mod nodes;
mod parts;
mod transformation;

pub use alone::check_alone;
pub use input::Input;
pub use nodes::Nodes;
pub use parts::{Bound, Parts};
pub use transformation::{Transformation, TransformedBy};

use anyhow::{Context, bail};
use bellhop_guest_umd::{
    Adapter, CommandBuffer, Device, DoorbellCounters, GpuMapping, UserModeQueue,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use check::{Comparison, Expected};
use parts::Clock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Default bytes of a chunk: copying it takes far longer than a submission, a stage finds it in a second-level
/// cache, and the chunks of all stages fit into a last-level one.
pub const CHUNK: u64 = 256 << 10;
/// Most chunks in flight: two for each of the three engines, so that none waits for the guest, and two for the
/// guest.
const MAX_DEPTH: u64 = 8;
/// HW queues on compute nodes, each in a separate context.
const COMPUTE_QUEUES: usize = 2;
const RING_SIZE: u64 = 4096;
const COMMANDS: usize = 512;
/// Seed of the hashes and first of the keys.
const SEED: u64 = 0xB311_40B0;
/// How long a chunk may take before the stream fails.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The result of streaming.
#[derive(Debug, Clone)]
pub struct Streamed {
    /// Bytes of input.
    pub bytes: u64,
    /// Chunks of the input.
    pub chunks: u64,
    /// Command buffers.
    pub submissions: u64,
    /// Counts of rings, and of the connects and notifies that they took.
    pub doorbells: DoorbellCounters,
    /// How the time was spent.
    pub parts: Parts,
    /// Offset at which the GPU's result first differed from the guest's own.
    pub mismatch: Option<u64>,
}

/// The memory of a chunk in flight. The next chunk reuses it when this one is done.
struct Slot {
    input: GpuMapping,
    local: GpuMapping,
    output: GpuMapping,
    /// The hash goes to its first word.
    digest: GpuMapping,
    copy_in: CommandBuffer,
    compute: CommandBuffer,
    copy_out: CommandBuffer,
    /// The chunk's expected result.
    expected: Expected,
    /// The chunk that uses it.
    chunk: Option<Chunk>,
}

struct Chunk {
    number: u64,
    offset: u64,
    /// The hash of its expected result.
    hash: u64,
    /// The value of the copy-out queue's progress fence when the chunk is done.
    done: u64,
}

fn mapped(device: &Device, kind: AllocationKind, size: u64) -> anyhow::Result<GpuMapping> {
    let allocation = device.create_allocation(kind, size)?;
    Ok(allocation.map(Protection::WRITE)?)
}

impl Slot {
    fn new(device: &Device, local: AllocationKind, chunk: u64) -> anyhow::Result<Self> {
        let commands = || CommandBuffer::new(device, COMMANDS);
        Ok(Self {
            input: mapped(device, AllocationKind::SYSTEM, chunk)?,
            local: mapped(device, local, chunk)?,
            output: mapped(device, AllocationKind::SYSTEM, chunk)?,
            digest: mapped(device, AllocationKind::SYSTEM, PAGE_SIZE)?,
            copy_in: commands()?,
            compute: commands()?,
            copy_out: commands()?,
            expected: Expected::new(usize::try_from(chunk)?),
            chunk: None,
        })
    }
}

struct Queues {
    copy_in: UserModeQueue,
    compute: Vec<UserModeQueue>,
    copy_out: UserModeQueue,
}

impl Queues {
    fn new(device: &Device, nodes: &Nodes) -> anyhow::Result<Self> {
        let queue = |node| device.create_context(node)?.create_user_mode_queue(RING_SIZE);
        let compute = nodes.compute.into_iter().map(queue).collect::<Result<_, _>>();
        Ok(Self {
            copy_in: queue(nodes.copy_in)?,
            compute: compute?,
            copy_out: queue(nodes.copy_out)?,
        })
    }

    fn all(&self) -> impl Iterator<Item = &UserModeQueue> {
        [&self.copy_in, &self.copy_out].into_iter().chain(&self.compute)
    }

    /// Submits the three stages of a chunk.
    fn submit(
        &mut self,
        slot: &mut Slot,
        transformation: &Transformation,
        number: u64,
        length: u64,
    ) -> anyhow::Result<u64> {
        let Slot { input, local, output, digest, copy_in, compute, copy_out, .. } = slot;
        // Kernels work on whole words: bytes behind the chunk's end are transformed as well, and ignored.
        let words = length.next_multiple_of(8);

        copy_in.reset();
        copy_in.copy(input.gpu_va(), local.gpu_va(), words)?;
        let copied_in = self.copy_in.submit(copy_in)?;

        let queue = &mut self.compute[number as usize % COMPUTE_QUEUES];
        compute.reset();
        compute.wait_fence(self.copy_in.progress_fence(), copied_in)?;
        transformation.append(compute, local.gpu_va(), words, SEED + number)?.hash(
            local.gpu_va(),
            length,
            SEED,
            digest.gpu_va(),
        )?;
        let computed = queue.submit(compute)?;

        copy_out.reset();
        copy_out.wait_fence(queue.progress_fence(), computed)?.copy(
            local.gpu_va(),
            output.gpu_va(),
            length,
        )?;
        Ok(self.copy_out.submit(copy_out)?)
    }
}

/// Waits for a chunk, compares it with the guest's own result, and returns the offset of the first difference.
fn verify(
    queue: &UserModeQueue,
    slot: &mut Slot,
    comparison: &mut Comparison,
    clock: &mut Clock,
) -> anyhow::Result<Option<u64>> {
    let Some(Chunk { number, offset, hash, done }) = slot.chunk.take() else { return Ok(None) };
    queue
        .progress_fence()
        .wait(done, TIMEOUT)
        .with_context(|| format!("the GPU did not return chunk {number}"))?;
    clock.end(|parts| &mut parts.waiting);
    let returned = slot.output.allocation().lock()?;
    let difference = comparison.first_difference(&returned, slot.expected.bytes())?;
    let digest = slot.digest.allocation().word(0)?.load(Ordering::Relaxed);
    clock.end(|parts| &mut parts.checking);
    Ok(match difference {
        Some(place) => Some(offset + place as u64),
        None => (hash != u64::from_le(digest)).then_some(offset),
    })
}

/// Streams the input. Calls `progress` with the bytes of each chunk.
///
/// # Errors
/// When a chunk is too large, the input cannot be read, or the device cannot be used.
pub fn run(
    adapter: &Adapter,
    nodes: &Nodes,
    input: &mut Input,
    chunk: u64,
    transformation: &Transformation,
    progress: impl Fn(u64),
) -> anyhow::Result<Streamed> {
    let device = adapter.create_device()?;
    let mut queues = Queues::new(&device, nodes)?;
    // Leaves half of local memory to rings and command buffers. A program behind a broker has none.
    let (local, depth) = match adapter.local_memory() {
        0 => (AllocationKind::SYSTEM, MAX_DEPTH),
        bytes => (AllocationKind::LOCAL, (bytes / 2 / chunk).min(MAX_DEPTH)),
    };
    if depth == 0 {
        let most = adapter.local_memory() / 2 / 1024;
        bail!(
            "a chunk of {} KiB is too large; local memory allows --chunk {most} at most",
            chunk / 1024
        );
    }
    let slots: anyhow::Result<Vec<_>> =
        (0..depth).map(|_| Slot::new(&device, local, chunk)).collect();
    let mut slots = slots?;
    let mut comparison = Comparison::new();
    let engine_time =
        || adapter.statistics().map(|counts| Duration::from_nanos(counts.engine_time));
    let before = engine_time()?;

    let mut clock = Clock::start();
    let (mut bytes, mut chunks, mut mismatch) = (0, 0, None);
    loop {
        let slot = &mut slots[(chunks % depth) as usize];
        mismatch = mismatch.or(verify(&queues.copy_out, slot, &mut comparison, &mut clock)?);
        let Slot { input: shared, expected, .. } = &mut *slot;
        let shared = shared.allocation().lock()?;
        expected.begin(SEED + chunks, SEED);
        let length = input.read(&shared, |length| {
            clock.end(|parts| &mut parts.reading);
            expected.take(&shared, length)?;
            clock.end(|parts| &mut parts.checking);
            Ok(())
        })?;
        clock.end(|parts| &mut parts.reading);
        if length == 0 {
            break;
        }
        let hash = expected.finish(&shared, length)?;
        clock.end(|parts| &mut parts.checking);
        let done = queues.submit(slot, transformation, chunks, length as u64)?;
        slot.chunk = Some(Chunk { number: chunks, offset: bytes, hash, done });
        bytes += length as u64;
        chunks += 1;
        progress(length as u64);
        clock.end(|parts| &mut parts.handing_over);
    }
    for at in chunks..chunks + depth {
        let slot = &mut slots[(at % depth) as usize];
        mismatch = mismatch.or(verify(&queues.copy_out, slot, &mut comparison, &mut clock)?);
    }
    let mut parts = clock.stop();
    parts.engines = nodes.engines();
    parts.executing = engine_time()?.saturating_sub(before);

    let mut streamed = Streamed {
        bytes,
        chunks,
        submissions: 0,
        doorbells: DoorbellCounters::default(),
        parts,
        mismatch,
    };
    for queue in queues.all() {
        streamed.submissions += queue.last_value();
        let counters = queue.counters();
        streamed.doorbells.rings += counters.rings;
        streamed.doorbells.notifies += counters.notifies;
        streamed.doorbells.connects += counters.connects;
    }
    Ok(streamed)
}
