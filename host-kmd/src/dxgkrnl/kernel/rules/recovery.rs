// SPDX-License-Identifier: MIT OR Apache-2.0

//! A hang loses a context: how timeout detection and recovery affects queues, guests, paging and power. The state
//! machine of a recovery is `recovery::tdr`.
//!
//! Source: Windows KMD overview, "TDR".

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::object::faults::{ADAPTER_RESET, IN_ERROR};
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::recovery::tdr::{Escalation, Guilty, Hang, Recovered};
use crate::hardware::{EngineProgress, Fault, GpuOrdinal, GuestId, HwQueueId};
use bellhop_protocol::control::agent::RecoveryKind;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use tracing::Span;

impl Kernel {
    /// An input may wake an engine: schedules a check of the engines. Checks continue while an engine is awake, or in
    /// F0 without work. Only requests and awake engines wake an engine.
    pub(crate) fn watch_engines(&mut self) {
        self.tdr.watch_until(self.now.saturating_add(self.timeout / 2));
    }

    /// Checks the engines and takes the next steps of recoveries, if they are due.
    pub(crate) fn continue_recoveries(&mut self) {
        if self.tdr.is_look_due(self.now) {
            self.look_at_engines();
        }
        for node in 0..self.miniport.node_count() {
            if self.tdr.is_step_late(node, self.now) {
                self.see_standing(node);
            }
            match self.tdr.escalate(node, self.now) {
                Some(Escalation::ResetEngine(guilty)) => {
                    let (guest, span) = self.hang_span(guilty);
                    let guest = guest.map(|guest| guest.0);
                    tracing::warn!(parent: &span, guest, node, "hang: pre-emption failed; resetting the engine");
                    self.miniport.reset_engine(node);
                }
                Some(Escalation::ResetAdapter(gpu, hang)) => {
                    self.reset_adapter((node, gpu), hang);
                }
                Some(Escalation::CutOff(hang)) => self.cut_off(node, hang),
                None => {}
            }
        }
    }

    /// Finds turns that do not end, and engines that have had no work for as long as a turn may take.
    fn look_at_engines(&mut self) {
        let mut looks_again = false;
        for node in 0..self.miniport.node_count() {
            let progress = self.see_standing(node);
            self.look_for_hang(node, progress);
            looks_again |= self.look_for_idleness(node, progress);
        }
        let next = looks_again.then(|| self.now.saturating_add(self.timeout / 2));
        self.tdr.look_next(next);
    }

    /// Looks at an engine, and notes whether it stands.
    pub(crate) fn see_standing(&mut self, node: u32) -> EngineProgress {
        let progress = self.miniport.query_engine_status(node);
        if progress.stands {
            let culprit = progress.executing.and_then(|queue| self.owner_of(queue));
            self.tdr.see_standing(node, culprit, self.now);
        }
        progress
    }

    /// The guest that owns a queue, its system context's included.
    fn owner_of(&self, queue: HwQueueId) -> Option<GuestId> {
        let system = || self.guest_of_system_queue(queue).map(|guest| guest.id);
        self.queues.get(&queue).map(|owner| owner.guest).or_else(system)
    }

    /// The guest whose system context has this queue.
    fn guest_of_system_queue(&self, queue: HwQueueId) -> Option<&Guest> {
        let is_system =
            |guest: &&Guest| guest.system().is_ok_and(|system| system.hw_queue == queue);
        self.guests.values().find(is_system)
    }

    /// An engine does not reset because it stands in memory of the guest that hung: its VMM keeps that from it. That
    /// guest loses its devices, and nobody else anything. The recovery ends when the engine is back.
    fn cut_off(&mut self, node: u32, Hang { guilty, fault }: Hang) {
        let (guest, span) = self.hang_span(guilty);
        let Some(guest) = guest else { return };
        tracing::error!(
            parent: &span,
            guest = guest.0,
            node,
            "hang: the engine stands in memory that the guest's VMM keeps from it; the guest loses its devices, and \
             the engine goes on when the VMM lets it"
        );
        if let Guilty::Queue(queue) = guilty {
            self.lose_context_of(queue, fault);
        }
        self.fail_guest(guest, IN_ERROR);
    }

    fn look_for_hang(&mut self, node: u32, progress: EngineProgress) {
        let turns = progress.executing.map(|_| progress.turns);
        let time = self.tdr.see_turn(node, turns, self.now);
        if let Some(queue) = progress.executing
            && time >= self.timeout
        {
            let address = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            self.begin_recovery(
                node,
                queue,
                Fault::new(FaultReason::ENGINE_TIMEOUT, Opcode::NOP, address),
            );
        }
    }

    /// "Dxgkrnl monitors whether a GPU engine is making progress using TDR timeout cadence": an engine that slept
    /// from one check to another a time-out later, and has no work, goes to F1. The driver may request that sooner.
    /// An engine that has work after all refuses.
    ///
    /// Returns whether to check the engine again. An engine that sleeps with work waits for a fence, which a request
    /// or an awake engine signals.
    ///
    /// Source: user-mode work submission, "Engine F-state transitions".
    fn look_for_idleness(&mut self, node: u32, progress: EngineProgress) -> bool {
        let runs = |context: &Context| context.state().is_running();
        let mut queues = self.queues.iter().filter(|(_, owner)| owner.node == node);
        let sleeps = progress.is_asleep && self.power.is_in_f0(node);
        let is_idle = sleeps && !queues.any(|(id, owner)| self.has_work(*id, owner, runs));
        let turns = is_idle.then_some(progress.turns);
        if self.tdr.see_idleness(node, turns, self.now, self.timeout) {
            tracing::debug!(node, "an engine that has had nothing to do goes to F1");
            self.power_down_engine(node);
        }
        if is_idle { self.power.is_in_f0(node) } else { !progress.is_asleep }
    }

    /// An engine executed a queue for longer than the time-out while the queue made no progress: a hang, unless the
    /// queue may do that (`DisableGpuTimeout`).
    pub(crate) fn makes_no_progress(&mut self, node: u32, queue: HwQueueId, fault: Fault) {
        if self.queues.get(&queue).is_none_or(|owner| !owner.disable_gpu_timeout) {
            self.begin_recovery(node, queue, fault);
        }
    }

    /// An engine hung in a queue: pre-empts the queue. Ignores further hangs of an engine that is recovering: they
    /// last, and are found again.
    fn begin_recovery(&mut self, node: u32, queue: HwQueueId, fault: Fault) {
        if self.tdr.is_recovering(node) {
            return;
        }
        // A destroyed queue cannot hang: it is destroyed when its engine has left it.
        let guilty = if let Some(owner) = self.queues.get(&queue) {
            let (guest, span) = (owner.guest.0, queue_span(owner.process, owner.handle));
            tracing::warn!(parent: &span, guest, node, ?fault, "hang: pre-empting the queue");
            Guilty::Queue(queue)
        } else if let Some(guest) = self.guest_of_system_queue(queue) {
            tracing::error!(guest = guest.id.0, node, ?fault, "hang: pre-empting a paging buffer");
            Guilty::Paging(guest.id, guest.paging.oldest_fence())
        } else {
            return;
        };
        let fence = self.tdr.begin(node, Hang { guilty, fault }, self.now);
        self.miniport.preempt_command(queue, fence);
    }

    /// Resets the GPU of a node: all guests lose all work in flight there. Without a chain that is all their work, and
    /// their devices are in error. In a chain they lose the contexts on that GPU. Its displays begin anew.
    fn reset_adapter(&mut self, (node, gpu): (u32, GpuOrdinal), Hang { guilty, fault }: Hang) {
        let (guest, span) = self.hang_span(guilty);
        let guest = guest.map(|guest| guest.0);
        tracing::error!(parent: &span, guest, "hang: the engine did not reset; resetting the adapter");
        self.miniport.reset_from_timeout(node);
        // The guilty queue first, so that its guest learns of the hang; the other queues report the reset.
        if let Guilty::Queue(queue) = guilty {
            self.lose_context_of(queue, fault);
        }
        if self.tdr.is_chain() {
            self.lose_contexts_on(gpu, ADAPTER_RESET);
        }
        for guest in self.guests.keys().copied().collect::<Vec<_>>() {
            if !self.tdr.is_chain() {
                self.fail_guest(guest, ADAPTER_RESET);
            }
            self.reset_display((guest, gpu));
            let of_a_chain = self.tdr.is_chain().then_some(node);
            self.tell_recovery(guest, RecoveryKind::ADAPTER, of_a_chain);
        }
    }

    /// `DXGK_INTERRUPT_DMA_PREEMPTED`.
    pub(crate) fn dma_preempted(&mut self, node: u32, fence: u64) {
        if let Some(hang) = self.tdr.preempted(node, fence) {
            self.tell_guilty(hang.guilty, RecoveryKind::QUEUE, node);
            self.punish(hang);
        }
    }

    /// An engine was reset.
    pub(crate) fn engine_was_reset(&mut self, node: u32) {
        match self.tdr.engine_was_reset(node) {
            Recovered::Nothing => {}
            Recovered::Engine(hang) => {
                self.tell_guilty(hang.guilty, RecoveryKind::ENGINE, node);
                self.punish(hang);
            }
            Recovered::Adapter(guilty, ended) => {
                tracing::warn!("the adapter was reset");
                for guilty in ended {
                    // Devices are already in error; a system context survives.
                    if let Guilty::Paging(guest, fence) = guilty {
                        self.abandon_paging(guest, fence);
                    }
                }
                if let Guilty::Queue(queue) = guilty {
                    self.blame(queue);
                }
            }
        }
    }

    /// Tells the agent of the guest that hung.
    fn tell_guilty(&mut self, guilty: Guilty, kind: RecoveryKind, node: u32) {
        let guest = match guilty {
            Guilty::Queue(queue) => self.queues.get(&queue).map(|owner| owner.guest),
            Guilty::Paging(guest, _) => Some(guest),
        };
        if let Some(guest) = guest {
            self.tell_recovery(guest, kind, Some(node));
        }
    }

    /// A hung engine is back: the guilty context is lost, or the paging buffer abandoned.
    fn punish(&mut self, Hang { guilty, fault }: Hang) {
        match guilty {
            Guilty::Queue(queue) => {
                self.lose_context_of(queue, fault);
                self.blame(queue);
            }
            Guilty::Paging(guest, fence) => self.abandon_paging(guest, fence),
        }
    }

    /// A guest's paging hung and has stopped: it continues after this buffer, unless the guest is gone.
    fn abandon_paging(&mut self, guest: GuestId, fence: u64) {
        if self.guests.get(&guest).is_some_and(|guest| !guest.is_detaching()) {
            self.miniport.abandon_paging(guest, fence);
        }
    }

    /// Counts a hang against the guest that owns the queue. One hang too many puts the guest's devices in error.
    fn blame(&mut self, guilty: HwQueueId) {
        let Some(owner) = self.queues.get(&guilty).map(|owner| owner.guest) else { return };
        let (now, policy) = (self.now, self.tdr.policy());
        let Some(guest) = self.guests.get_mut(&owner) else { return };
        if guest.hangs.count(now, policy) {
            tracing::error!(
                guest = owner.0,
                "the guest hung engines {} times in {:?}; nothing of it is executed until it resets its device",
                policy.limit_count,
                policy.limit_time
            );
            self.fail_guest(owner, IN_ERROR);
        }
    }

    /// The guest that caused a hang, and the span of the queue that hung. Paging has no queue of the guest, so no
    /// span.
    fn hang_span(&self, guilty: Guilty) -> (Option<GuestId>, Span) {
        match guilty {
            Guilty::Queue(queue) => self.queues.get(&queue).map_or((None, Span::none()), |owner| {
                (Some(owner.guest), queue_span(owner.process, owner.handle))
            }),
            Guilty::Paging(guest, _) => (Some(guest), Span::none()),
        }
    }
}
