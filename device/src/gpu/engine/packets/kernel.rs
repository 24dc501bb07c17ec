// SPDX-License-Identifier: MIT OR Apache-2.0

//! `DISPATCH_KERNEL`: guests' own kernels. Consecutive packets of one buffer are executed as one batch.

use super::context::Context;
use super::progress::Progress;
use crate::gpu::engine::workers::{Batch, InFlight, Item, Start, Wait};
use crate::gpu::memory::violation::{Violation, aligned};
use bellhop_protocol::control::kernel::KernelCaps;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::dispatch::{DispatchFlags, DispatchKernel, KernelDescriptor};
use zerocopy::FromBytes;

/// A batch of dispatches in progress. If it is dropped while a worker executes it, the engine ends that worker.
#[derive(Debug)]
pub struct KernelBatch {
    batch: Batch,
    in_flight: Option<InFlight>,
}

impl KernelBatch {
    /// Begins a batch with a packet.
    ///
    /// # Errors
    /// The rule that the packet broke.
    pub fn new(context: &mut Context<'_>, packet: &DispatchKernel) -> Result<Self, Violation> {
        let mut batch = Self {
            batch: context.workers.as_mut().map(|w| w.batch()).unwrap_or_default(),
            in_flight: None,
        };
        batch.add(context, packet)?;
        Ok(batch)
    }

    /// Whether another dispatch fits.
    pub fn has_room(&self) -> bool {
        self.batch.has_room()
    }

    /// Adds the dispatch of the next packet, whose arguments are read now.
    ///
    /// # Errors
    /// The rule that the packet broke: nothing was added.
    pub fn add(
        &mut self,
        context: &mut Context<'_>,
        packet: &DispatchKernel,
    ) -> Result<(), Violation> {
        let number = packet.kernel();
        let none = Violation::new(FaultReason::NO_SUCH_KERNEL, number.into());
        let Some(workers) = &context.workers else {
            let opcode = u64::from(Opcode::DISPATCH_KERNEL.0);
            let unsupported = Violation::new(FaultReason::NOT_SUPPORTED_BY_NODE, opcode);
            return Err(if context.engine_type.computes() { none } else { unsupported });
        };
        let space = context.queue.space.id();
        // The system context has no kernels.
        let kernels = workers.kernels(space).filter(|_| !context.is_system).ok_or(none)?;
        let module = kernels.compiled(number).ok_or(none)?;
        let caps = *workers.caps();
        let bad = |value: u64| Violation::new(FaultReason::BAD_KERNEL_ARGUMENTS, value);
        let flags = DispatchFlags::from_bits(packet.flags).ok_or(bad(packet.flags.into()))?;
        for (groups, most) in packet.groups.into_iter().zip(caps.max_groups) {
            if groups > most {
                return Err(bad(groups.into()));
            }
        }
        if packet.push_constants != module.push_constants {
            return Err(bad(packet.push_constants.into()));
        }
        if packet.descriptors != module.descriptors {
            return Err(bad(packet.descriptors.into()));
        }
        let size = packet.arguments_size().ok_or(bad(packet.push_constants.into()))?;
        if size > 0 {
            aligned(packet.arguments, size_of::<u64>() as u64)?;
        }
        let bytes = context.scratch.first.get_mut(..size).unwrap_or_default();
        // The only read: the guest may store there at any time.
        context.mmu.read(packet.arguments, bytes)?;
        let (constants, descriptors) =
            bytes.split_at((packet.push_constants as usize).next_multiple_of(size_of::<u64>()));
        let constants = constants.get(..packet.push_constants as usize).unwrap_or_default();
        let descriptors = <[KernelDescriptor]>::ref_from_bytes(descriptors).unwrap_or_default();
        for descriptor in descriptors {
            check(descriptor, &caps).map_err(bad)?;
        }
        // A dispatch without work groups does nothing.
        if packet.groups.iter().all(|groups| *groups > 0) {
            let (barrier, groups) = (flags.contains(DispatchFlags::BARRIER), packet.groups);
            let item = Item { module, number, groups, barrier };
            self.batch.push(kernels, item, constants, descriptors);
        }
        Ok(())
    }

    /// See `Operation::step`. If the kernels have not ended at the end of a slice of time, the turn is over.
    ///
    /// # Errors
    /// What ended the kernels. Their worker is killed.
    pub fn step(&mut self, context: &mut Context<'_>) -> Result<Progress, Violation> {
        let Some(workers) = context.workers.as_deref_mut() else { return Ok(Progress::Finished) };
        if self.batch.is_empty() {
            return Ok(Progress::Finished);
        }
        let in_flight = match self.in_flight.take() {
            Some(in_flight) => in_flight,
            None => match workers.begin(context.queue, &context.mmu, &self.batch)? {
                Start::Begun(in_flight) => in_flight,
                Start::Waits => return Ok(Progress::Waits),
            },
        };
        match workers.wait(in_flight, &context.mmu, &self.batch, context.others)? {
            Wait::Done(()) => {
                workers.keep(std::mem::take(&mut self.batch));
                Ok(Progress::Finished)
            }
            Wait::GoesOn(in_flight) => {
                self.in_flight = Some(in_flight);
                Ok(Progress::TurnIsOver)
            }
        }
    }
}

/// Checks a descriptor; returns what is wrong with it.
fn check(descriptor: &KernelDescriptor, caps: &KernelCaps) -> Result<(), u64> {
    let KernelDescriptor { gpu_va, length } = *descriptor;
    let window_end = caps.window_start.saturating_add(caps.window_length);
    if gpu_va < caps.window_start
        || !gpu_va.is_multiple_of(u64::from(caps.descriptor_alignment).max(1))
    {
        return Err(gpu_va);
    }
    let fits = gpu_va.checked_add(length).is_some_and(|end| end <= window_end);
    if length > 0 && fits { Ok(()) } else { Err(length) }
}
