// SPDX-License-Identifier: MIT OR Apache-2.0

//! A file, chunk by chunk, through local memory.
//!
//! Each chunk goes through three stages on three nodes: copied in, transformed and hashed, copied out. Each
//! stage waits for the one before with a GPU fence, so the guest submits all three at once and stages of
//! different chunks overlap.

use super::Nodes;
use crate::output::note;
use anyhow::{Context, bail};
use bellhop_guest_umd::{
    Adapter, Allocation, CommandBuffer, Device, DoorbellCounters, GpuMapping, UserModeQueue,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::packet::dispatch::{Kernel, xor_stream};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xxhash_rust::xxh64::xxh64;

/// Most chunks on their way.
const MAX_DEPTH: u64 = 8;
/// HW queues on the compute node, each of a context of its own.
const COMPUTE_QUEUES: usize = 2;
const RING_SIZE: u64 = 4096;
const COMMANDS: usize = 512;
/// Seed of the hashes and first of the keys.
const SEED: u64 = 0xB311_40B0;
/// How long a chunk may take before something is wrong.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The file to stream.
pub(super) struct Input {
    file: File,
    path: PathBuf,
    /// `None` unless it is a regular file.
    size: Option<u64>,
}

impl Input {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot read {}; name a file with --input", path.display());
        let file = File::open(path).with_context(cannot)?;
        let metadata = file.metadata().with_context(cannot)?;
        if metadata.is_dir() {
            bail!("{} is a folder; name a file with --input", path.display());
        }
        let size = metadata.is_file().then_some(metadata.len());
        Ok(Self { file, path: path.to_owned(), size })
    }

    /// Reads a whole chunk, or what is left.
    fn read(&mut self, chunk: &mut Vec<u8>, length: u64) -> anyhow::Result<()> {
        chunk.clear();
        let mut rest = (&mut self.file).take(length);
        rest.read_to_end(chunk).with_context(|| format!("cannot read {}", self.path.display()))?;
        Ok(())
    }
}

/// The result of streaming.
pub(super) struct Streamed {
    pub(super) bytes: u64,
    pub(super) chunks: u64,
    pub(super) submissions: u64,
    pub(super) doorbells: DoorbellCounters,
    pub(super) elapsed: Duration,
    /// Offset at which the GPU's result first differed from the guest's own.
    pub(super) mismatch: Option<u64>,
}

/// The memory that one chunk uses on its way. The next chunk uses it when this one is done.
struct Slot {
    input: GpuMapping,
    local: GpuMapping,
    output: GpuMapping,
    /// The hash goes to its first word.
    digest: GpuMapping,
    copy_in: CommandBuffer,
    compute: CommandBuffer,
    copy_out: CommandBuffer,
    /// The chunk that uses it.
    chunk: Option<Chunk>,
}

struct Chunk {
    number: u64,
    offset: u64,
    bytes: Vec<u8>,
    /// The value of the copy-out queue's progress fence when the chunk is done.
    done: u64,
}

fn mapped(device: &Device, kind: AllocationKind, size: u64) -> anyhow::Result<GpuMapping> {
    let allocation = device.create_allocation(kind, size)?;
    Ok(allocation.map(Protection::WRITE)?)
}

impl Slot {
    fn new(device: &Device, chunk: u64) -> anyhow::Result<Self> {
        let commands = || CommandBuffer::new(device, COMMANDS);
        Ok(Self {
            input: mapped(device, AllocationKind::SYSTEM, chunk)?,
            local: mapped(device, AllocationKind::LOCAL, chunk)?,
            output: mapped(device, AllocationKind::SYSTEM, chunk)?,
            digest: mapped(device, AllocationKind::SYSTEM, PAGE_SIZE)?,
            copy_in: commands()?,
            compute: commands()?,
            copy_out: commands()?,
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
        let compute = (0..COMPUTE_QUEUES).map(|_| queue(nodes.compute)).collect::<Result<_, _>>();
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
    fn submit(&mut self, slot: &mut Slot, number: u64, length: u64) -> anyhow::Result<u64> {
        let Slot { input, local, output, digest, copy_in, compute, copy_out, .. } = slot;
        // Kernels work on whole words: bytes behind the chunk's end are transformed as well, and ignored.
        let words = length.next_multiple_of(8);

        copy_in.reset();
        copy_in.copy(input.gpu_va(), local.gpu_va(), words)?;
        let copied_in = self.copy_in.submit(copy_in)?;

        let queue = &mut self.compute[number as usize % COMPUTE_QUEUES];
        compute.reset();
        compute
            .wait_fence(self.copy_in.progress_fence(), copied_in)?
            .dispatch(Kernel::XOR_STREAM, local.gpu_va(), local.gpu_va(), words, SEED + number)?
            .hash(local.gpu_va(), length, SEED, digest.gpu_va())?;
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

/// The transformation, computed without the GPU.
fn transform(bytes: &mut [u8], key: u64) {
    for (index, word) in bytes.chunks_mut(8).enumerate() {
        let stream = xor_stream(key, index as u64).to_le_bytes();
        for (byte, mask) in word.iter_mut().zip(stream) {
            *byte ^= mask;
        }
    }
}

/// Waits for a chunk, compares it with what the guest computes, and returns the offset of the first
/// difference.
fn verify(queue: &UserModeQueue, slot: &mut Slot) -> anyhow::Result<Option<u64>> {
    let Some(mut chunk) = slot.chunk.take() else { return Ok(None) };
    queue
        .progress_fence()
        .wait(chunk.done, TIMEOUT)
        .with_context(|| format!("the GPU did not return chunk {}", chunk.number))?;
    transform(&mut chunk.bytes, SEED + chunk.number);
    let read = |allocation: &Allocation, length| {
        let mut bytes = vec![0; length];
        allocation.read(0, &mut bytes).map(|()| bytes)
    };
    let output = read(slot.output.allocation(), chunk.bytes.len())?;
    let digest = read(slot.digest.allocation(), size_of::<u64>())?;
    let differs = output.iter().zip(&chunk.bytes).position(|(made, expected)| made != expected);
    if let Some(place) = differs {
        return Ok(Some(chunk.offset + place as u64));
    }
    let hashed = digest == xxh64(&chunk.bytes, SEED).to_le_bytes();
    Ok((!hashed).then_some(chunk.offset))
}

pub(super) fn run(
    adapter: &Adapter,
    nodes: &Nodes,
    mut input: Input,
    chunk: u64,
) -> anyhow::Result<Streamed> {
    let device = adapter.create_device()?;
    let mut queues = Queues::new(&device, nodes)?;
    // Leaves half of local memory to rings and command buffers.
    let depth = (adapter.local_memory() / 2 / chunk).min(MAX_DEPTH);
    if depth == 0 {
        let most = adapter.local_memory() / 2 / 1024;
        bail!(
            "a chunk of {} KiB is too large; local memory allows --chunk {most} at most",
            chunk / 1024
        );
    }
    let slots: anyhow::Result<Vec<_>> = (0..depth).map(|_| Slot::new(&device, chunk)).collect();
    let mut slots = slots?;

    let progress = progress(&input);
    let start = Instant::now();
    let mut streamed = Streamed {
        bytes: 0,
        chunks: 0,
        submissions: 0,
        doorbells: DoorbellCounters::default(),
        elapsed: Duration::ZERO,
        mismatch: None,
    };
    loop {
        let number = streamed.chunks;
        let slot = &mut slots[(number % depth) as usize];
        let mismatch = verify(&queues.copy_out, slot)?;
        streamed.mismatch = streamed.mismatch.or(mismatch);
        let mut bytes = Vec::new();
        input.read(&mut bytes, chunk)?;
        if bytes.is_empty() {
            break;
        }
        slot.input.allocation().write(0, &bytes)?;
        let length = bytes.len() as u64;
        let done = queues.submit(slot, number, length)?;
        slot.chunk = Some(Chunk { number, offset: streamed.bytes, bytes, done });
        streamed.bytes += length;
        streamed.chunks += 1;
        progress.inc(length);
    }
    for slot in &mut slots {
        let mismatch = verify(&queues.copy_out, slot)?;
        streamed.mismatch = streamed.mismatch.or(mismatch);
    }
    streamed.elapsed = start.elapsed();
    progress.finish_and_clear();
    for queue in queues.all() {
        streamed.submissions += queue.last_value();
        let counters = queue.counters();
        streamed.doorbells.rings += counters.rings;
        streamed.doorbells.notifies += counters.notifies;
        streamed.doorbells.connects += counters.connects;
    }
    Ok(streamed)
}

fn progress(input: &Input) -> ProgressBar {
    note(format_args!("streaming {} through the GPU", input.path.display()));
    let (bar, template) = match input.size {
        Some(size) => (ProgressBar::new(size), "{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {bytes_per_sec}"),
    };
    // The templates are correct. A wrong one would leave the bar its default look.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
