// SPDX-License-Identifier: MIT OR Apache-2.0

//! The part of an engine that executes packets.

use super::command_processor::{CommandProcessor, Execution, ShortTurn, Turn};
use super::fetch::Windows;
use super::others::Others;
use super::packets::context::{Before, Context, Timing};
use super::packets::fence::Signals;
use super::run_list::{Entry, RunList};
use super::workers::Workers;
use crate::gpu::memory::compression::Codec;
use crate::gpu::memory::drawn::Brush;
use crate::gpu::memory::mmu::Mmu;
use crate::gpu::memory::pins::Pinned;
use crate::gpu::memory::violation::Violation;
use crate::gpu::security;
use crate::gpu::shared::chip::{Chip, attention};
use crate::gpu::shared::fence::handle::FenceHandle;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::statistics::Tally;
use crate::gpu::shared::uses::Rings;
use bellhop_protocol::control::adapter::EngineType;
use std::sync::Arc;

/// The part of an engine that executes packets.
#[derive(Debug)]
pub struct Core {
    /// The GPU of the engine.
    pub chip: Arc<Chip>,
    /// The engine's node, which is also its index among the chip's ports.
    pub index: u32,
    /// The engine's type.
    engine_type: EngineType,
    /// The engine's working memory.
    pub unit: CommandProcessor,
    rings: Rings,
}

impl Core {
    /// The executing part of a node's engine.
    pub fn new(
        chip: Arc<Chip>,
        index: u32,
        engine_type: EngineType,
        workers: Option<Workers>,
        security: Option<security::unit::SecurityUnit>,
    ) -> Self {
        Self {
            chip,
            index,
            engine_type,
            unit: CommandProcessor::new(workers, security),
            rings: Rings::default(),
        }
    }

    /// Calls `act` with a queue's execution and the context of its packets.
    pub fn with<R>(
        &mut self,
        entry: &mut Entry,
        act: impl FnOnce(&mut Execution, &HwQueue, &mut Context<'_>) -> R,
    ) -> R {
        entry.catch_up();
        let Entry { queue, view, fence, waited, execution, .. } = entry;
        let (pinned, mut tally) = (view.open(self.unit.tlb.epoch()), Tally::default());
        let signals = Signals::new(&self.chip, &queue.partition, fence, &mut tally);
        let timing = Timing { began: None, is_short: true };
        let reached = Reached { queue, pinned, signals, waited, timing, others: None };
        let (mut context, _) = reached.by(self.index, self.engine_type, &mut self.unit);
        act(execution, queue, &mut context)
    }

    /// Gives a queue its turn. Also returns what is known of the turn's time.
    #[inline]
    pub fn turn<'e>(
        &mut self,
        entry: &mut Entry,
        tally: &mut Tally,
        began: Option<u64>,
        others: impl FnOnce() -> Option<Others<'e>>,
    ) -> (Result<Turn, Violation>, Timing) {
        entry.catch_up();
        let Entry { queue, view, fence, waited, execution, .. } = entry;
        let pinned = view.open(self.unit.tlb.epoch());
        let mut signals = Signals::new(&self.chip, &queue.partition, fence, tally);
        let timing = Timing { began, is_short: true };
        let turn = match execution.short_turn(&mut signals, &pinned) {
            Ok(ShortTurn::Over(turn)) => Ok(turn),
            Ok(ShortTurn::GoesOn(packets)) => {
                let Self { index, engine_type, unit, .. } = self;
                return apart(|| {
                    // This turn may take long.
                    if let Some(workers) = &mut unit.workers {
                        workers.make_way(queue.id);
                    }
                    let others = others();
                    let reached = Reached { queue, pinned, signals, waited, timing, others };
                    let (mut context, windows) = reached.by(*index, *engine_type, unit);
                    let turn = execution.turn(queue, &mut context, windows, packets);
                    context.mmu.tell_what_was_drawn();
                    (turn, context.timing)
                });
            }
            Err(violation) => Err(violation),
        };
        (turn, timing)
    }

    /// Prefetches what a queue reads next.
    #[inline(never)]
    pub fn prefetch(&mut self, entry: &mut Entry) {
        let pinned = entry.view.open(self.unit.tlb.epoch());
        for (what, gpu_va) in entry.execution.foreseen() {
            pinned.prefetch(what, gpu_va);
        }
    }

    /// Looks once at a queue's ring and its kernel-mode submissions, and lines the queue up if it has work.
    pub fn look_at_ring(&mut self, run_list: &mut RunList, index: u32) {
        let Some(entry) = run_list.get(index) else { return };
        if entry.is_dead() {
            return;
        }
        let looked = self.with(entry, |execution, queue, context| execution.look(queue, context));
        match looked {
            Ok(true) => {
                self.note_use(&entry.queue);
                run_list.make_runnable(index);
            }
            Ok(false) => {}
            Err(violation) => self.fault(entry, violation),
        }
    }

    /// Notes that a queue used its doorbell.
    #[inline]
    pub fn note_use(&mut self, queue: &HwQueue) {
        if let Some(stamp) = self.rings.another(&self.chip.connects, queue.id) {
            queue.use_doorbell(stamp);
        }
    }

    /// Handles a ring after which the queue has no work, or that carried an invalid write pointer.
    #[cold]
    pub fn rung_in_vain(&self, entry: &mut Entry, violation: Option<Violation>) {
        entry.count_doorbells(self.index);
        if let Some(violation) = violation {
            self.fault(entry, violation);
        }
    }

    /// The queue broke a rule: no more of it is executed, and the host is told.
    #[cold]
    pub fn fault(&self, entry: &mut Entry, violation: Violation) {
        let fault = entry.execution.fault(violation);
        let (guest, hw_queue) = (entry.queue.partition.id().0, entry.queue.id.0);
        tracing::debug!(guest, hw_queue, opcode = %fault.opcode, %violation, "HW queue fault");
        if entry.queue.is_system() {
            // Only the buffer is lost. Its fence must still be reached, or later ones never would be.
            if let Some(fence) = entry.execution.abandon() {
                let paging = entry.queue.partition.paging();
                paging.fail(fence, fault);
                paging.complete(fence, &self.chip.interrupts);
            }
            return;
        }
        entry.kill();
        if self.unit.workers.is_some()
            && let Some(port) = self.chip.engines.get(self.index as usize)
        {
            // A worker may have executed the queue's kernels: it is killed before the next turn.
            port.raise(attention::WORKERS);
        }
        entry.queue.set_fault(fault);
        self.chip.interrupts.raise_fault(entry.queue.id);
    }
}

/// Runs the rare case in a function of its own, so that its registers and its stack do not burden the common case.
#[inline(never)]
fn apart<R>(act: impl FnOnce() -> R) -> R {
    act()
}

/// What a queue's packets reach, except the engine.
struct Reached<'a> {
    queue: &'a Arc<HwQueue>,
    pinned: Pinned<'a>,
    signals: Signals<'a>,
    waited: &'a mut FenceHandle,
    timing: Timing,
    others: Option<Others<'a>>,
}

impl<'a> Reached<'a> {
    /// Adds the engine: everything that the packets reach, and the windows that they are fetched into.
    fn by(
        self,
        engine: u32,
        engine_type: EngineType,
        unit: &'a mut CommandProcessor,
    ) -> (Context<'a>, &'a mut Windows) {
        let Self { queue, pinned, signals, waited, timing, others } = self;
        let CommandProcessor { tlb, scratch, blocks, strokes, windows, workers, security } = unit;
        let codec = Codec { metadata: queue.partition.metadata(), blocks };
        let brush = Brush::new(queue.partition.drawn(), strokes);
        let context = Context {
            chip: signals.chip,
            engine,
            engine_type,
            partition: &queue.partition,
            space: queue.process(),
            is_system: queue.is_system(),
            queue,
            before: Before::Other,
            signals,
            waited,
            others,
            timing,
            mmu: Mmu::new(tlb, &queue.space, pinned, codec, brush, engine),
            scratch,
            workers: workers.as_deref_mut(),
            security: security.as_deref_mut(),
        };
        (context, windows)
    }
}
