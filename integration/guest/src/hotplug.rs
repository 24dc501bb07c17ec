// SPDX-License-Identifier: MIT OR Apache-2.0

//! Work in memory that was plugged into a running VM.
//!
//! Either the guest's kernel uses the memory and gives the driver pages of it; or the kernel leaves it alone, and
//! the driver has all of it until it is unplugged.

use crate::client::{Client, Shape};
use crate::guest::Guest;
use crate::intercepted::{Intercept, Intercepted};
use crate::output::Unwritable;
use anyhow::{Context as _, bail, ensure};
use bellhop_guest_umd::transport::SystemMemory;
use bellhop_guest_umd::{Adapter, Error, GpuMapping, PlacementPolicy};
use bellhop_protocol::control::allocation::{AllocationKind, Extent};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vm_memory::MmapRegion;

/// Size of the allocations in which the program looks for pages of the memory.
const PIECE: u64 = 4 << 20;
/// How many such allocations it tries.
const PIECES: usize = 256;

/// The memory that was plugged in.
struct Plugged {
    /// Guest-physical addresses of the memory.
    memory: Range<u64>,
    /// Bytes of the memory that the kernel gave to the driver.
    found: AtomicU64,
    /// Whether the next allocation is the memory itself.
    is_wanted: AtomicBool,
}

impl Plugged {
    fn beside(guest: Arc<dyn Guest>, memory: Range<u64>) -> Arc<Intercepted<Self>> {
        let (found, is_wanted) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Intercepted { intercept: Self { memory, found, is_wanted }, guest })
    }
}

/// Memory at addresses that the guest's kernel does not use. The mapping shows other memory: no processor reaches
/// the real one.
struct Elsewhere {
    mapping: Box<dyn SystemMemory>,
    extents: [Extent; 1],
}

impl SystemMemory for Elsewhere {
    fn region(&self) -> &Arc<MmapRegion> {
        self.mapping.region()
    }

    fn offset(&self) -> usize {
        self.mapping.offset()
    }

    fn len(&self) -> usize {
        self.mapping.len()
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

impl Intercept for Plugged {
    fn allocated(&self, mapping: Box<dyn SystemMemory>) -> Box<dyn SystemMemory> {
        if self.is_wanted.swap(false, Ordering::Relaxed) {
            let extents = [Extent { address: self.memory.start, length: mapping.len() as u64 }];
            return Box::new(Elsewhere { mapping, extents });
        }
        for Extent { address, length } in mapping.extents() {
            let start = (*address).max(self.memory.start);
            let end = (address + length).min(self.memory.end);
            self.found.fetch_add(end.saturating_sub(start), Ordering::Relaxed);
        }
        mapping
    }
}

/// Works on memory that was plugged in; its own memory stays.
struct Worker(Client);

impl Worker {
    fn new(adapter: &Adapter) -> Result<Self, Error> {
        let shape = Shape { kind: AllocationKind::LOCAL, ..Shape::default() };
        Ok(Self(Client::new(adapter.open_process()?, shape)?))
    }

    fn system(&self, size: u64) -> Result<GpuMapping, Error> {
        self.0.device.create_allocation(AllocationKind::SYSTEM, size)?.map(Protection::WRITE)
    }

    fn fill(&mut self, address: u64, length: u64, pattern: u32) -> Result<(), Error> {
        self.0.commands.reset();
        self.0.commands.fill(address, length, pattern)?;
        self.0.run()
    }

    /// Has the queue work on local memory.
    fn work(&mut self) -> anyhow::Result<()> {
        self.fill(self.0.va(0), 4096, 5).context("work on what stays")
    }
}

fn verify(mapping: &GpuMapping, pattern: u32) -> anyhow::Result<()> {
    let mut bytes = vec![0; mapping.size() as usize];
    mapping.allocation().read(0, &mut bytes)?;
    let words = bytes.as_chunks().0;
    ensure!(words.iter().all(|word| *word == pattern.to_le_bytes()), "it holds something else");
    Ok(())
}

/// Has the GPU work on pages of the memory that the guest's kernel gives to the driver. Returns the bytes
/// of those pages.
///
/// # Errors
/// When the kernel gives none, or the GPU does not reach them.
pub fn work_in_pages(
    guest: Arc<dyn Guest>,
    placement: PlacementPolicy,
    memory: Range<u64>,
) -> anyhow::Result<u64> {
    let transport = Plugged::beside(guest, memory);
    let adapter = Adapter::open_with(Arc::clone(&transport) as Arc<_>, placement)?;
    let mut worker = Worker::new(&adapter)?;
    let mut kept = Vec::new();
    for pattern in 1..=PIECES as u32 {
        let before = transport.intercept.found.load(Ordering::Relaxed);
        let piece = worker.system(PIECE)?;
        let found = transport.intercept.found.load(Ordering::Relaxed) - before;
        if found != 0 {
            worker.fill(piece.gpu_va(), PIECE, pattern)?;
            verify(&piece, pattern)?;
            return Ok(found);
        }
        // Kept, or the kernel would give these pages again.
        kept.push(piece);
    }
    bail!("none of {PIECES} allocations of {PIECE} bytes has a page in the memory")
}

/// Has the GPU work on memory that the guest's kernel does not use, until it is unplugged; calls `begun` once the
/// work succeeds. Unplugging must lose the queue that works on the memory, and no other.
///
/// # Errors
/// When the GPU does not reach the memory, another queue is lost, or this one is not.
pub fn work_until_unplugged(
    guest: Arc<dyn Guest>,
    placement: PlacementPolicy,
    memory: Range<u64>,
    begun: impl FnOnce() -> Result<(), Unwritable>,
) -> anyhow::Result<()> {
    let transport = Plugged::beside(guest, memory);
    let adapter = Adapter::open_with(Arc::clone(&transport) as Arc<_>, placement)?;
    let (mut user, mut neighbour) = (Worker::new(&adapter)?, Worker::new(&adapter)?);
    transport.intercept.is_wanted.store(true, Ordering::Relaxed);
    let plugged = user.system(PIECE)?;
    // The program checks the result through other memory.
    let copy = user.system(PIECE)?;
    let pattern = 0x1234_5678;
    user.0.commands.fill(plugged.gpu_va(), PIECE, pattern)?;
    user.0.commands.copy(plugged.gpu_va(), copy.gpu_va(), PIECE)?;
    user.0.run()?;
    verify(&copy, pattern)?;
    begun()?;
    let lost = loop {
        match user.fill(plugged.gpu_va(), PIECE, pattern) {
            Ok(()) => neighbour.work()?,
            Err(error) => break error,
        }
    };
    let Error::QueueLost { fault: Some(fault), .. } = lost else {
        bail!("unplugging did not lose the queue with a fault: {lost}");
    };
    let range = plugged.gpu_va()..plugged.gpu_va() + PIECE;
    ensure!(
        fault.reason == FaultReason::WRITE_PAGE_FAULT && range.contains(&fault.address),
        "the fault is not for the unplugged memory: {fault}"
    );
    transport.intercept.is_wanted.store(true, Ordering::Relaxed);
    ensure!(
        user.system(PIECE).is_err(),
        "the queue was lost although the memory is still there: {fault}"
    );
    neighbour.work()?;
    user.0.queue = user.0.context.create_user_mode_queue(4096)?;
    user.work()
}
