//! Timeout detection and recovery (TDR).
//!
//! Two things are hangs. A queue that an engine executes for longer than the time-out while neither its
//! read pointer nor its progress fence moves: the engine counts that, tells by interrupt, and goes on
//! with it in turn; a queue that was created with its time-out off may do that. And a turn that does not end: nobody tells, so engines are looked at while one is
//! awake. Waiting for a fence is neither.
//!
//! An engine that is seen to do nothing for as long goes to F1, and once all are there nobody looks.
//!
//! ```text
//!  hang ──> Preempting ──DmaPreempted──────────────────────> the context is lost
//!               └─time─> ResettingEngine ──EngineReset─────> the context is lost
//!                              └─time─> ResettingAdapter ──> every device is in error
//! ```
//! A system context that hangs is not lost, since it pages for all the guest's processes: the paging buffer
//! is given up, as one that failed, and paging goes on with the next. Whose memory it was loses its
//! contexts then. That counts against nobody: paging buffers are the driver's.
//!
//! A guest that hangs too often is taken out: all its devices are in error, and it gets no new ones until
//! it is reset.
//!
//! Source: Windows KMD overview, "TDR".

use super::command::IN_ERROR;
use super::context::Context;
use super::device::Failing;
use super::error::RequestError;
use super::guest::Guest;
use super::hw_queue::{HwQueue, QueueOwner};
use super::kernel::Kernel;
use crate::hardware::{EngineProgress, Fault, GuestId, HwQueueId};
use crate::port::Effect;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// How hangs are dealt with. What a hang is, is the kernel's time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TdrPolicy {
    /// `TdrDdiDelay`: how long a pre-emption, and a reset of an engine, may take before the next
    /// harder thing is done.
    pub step: Duration,
    /// `TdrLimitCount`: with so many hangs within [`Self::limit_time`] a guest is taken out. 0 is never.
    pub limit_count: u32,
    /// `TdrLimitTime`
    pub limit_time: Duration,
}

impl Default for TdrPolicy {
    fn default() -> Self {
        Self {
            step: Duration::from_millis(500),
            limit_count: 5,
            limit_time: Duration::from_secs(60),
        }
    }
}

/// The fault of every queue when the adapter was reset.
const ADAPTER_RESET: Fault =
    Fault { reason: FaultReason::ADAPTER_RESET, opcode: Opcode::NOP, address: 0, read_pointer: 0 };

/// How far a recovery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The queue is asked to stop, with this pre-emption fence.
    Preempting(u64),
    /// Its engine is asked to give up what it executes.
    ResettingEngine,
}

/// What hung.
#[derive(Debug, Clone, Copy)]
enum Guilty {
    /// A guest's queue.
    Queue(HwQueueId),
    /// A guest's system context, in the paging buffer of this fence.
    Paging(GuestId, u64),
}

/// A queue that hung, while its engine is brought back.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    guilty: Guilty,
    fault: Fault,
    step: Step,
    deadline: Duration,
}

/// A turn that was going on when the engine was looked at, or that was its last when it was seen to sleep.
#[derive(Debug, Clone, Copy)]
struct Seen {
    turns: u64,
    since: Duration,
}

impl Seen {
    /// Looks once more. Returns how long it has been this turn.
    fn look(seen: &mut Option<Self>, turns: u64, now: Duration) -> Duration {
        let same = seen.filter(|seen| seen.turns == turns);
        now.saturating_sub(seen.insert(same.unwrap_or(Self { turns, since: now })).since)
    }
}

/// What is known of an engine.
#[derive(Debug, Clone, Copy, Default)]
struct Engine {
    /// The turn that it is at.
    seen: Option<Seen>,
    /// The last turn before it slept.
    asleep: Option<Seen>,
    recovery: Option<Recovery>,
}

/// A reset of the adapter.
#[derive(Debug)]
struct AdapterReset {
    guilty: Guilty,
    /// Engines that were not reset yet.
    waiting: BTreeSet<u32>,
}

/// Hangs of all engines.
#[derive(Debug)]
pub(super) struct Tdr {
    pub(super) policy: TdrPolicy,
    /// When engines are looked at next: while one is awake, or in F0 without work.
    next_look: Option<Duration>,
    engines: Vec<Engine>,
    adapter: Option<AdapterReset>,
    last_preemption: u64,
}

impl Tdr {
    /// Nothing hangs.
    pub(super) fn new(engines: u32) -> Self {
        Self {
            policy: TdrPolicy::default(),
            next_look: None,
            engines: vec![Engine::default(); engines as usize],
            adapter: None,
            last_preemption: 0,
        }
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let recoveries = self.engines.iter().filter_map(|engine| engine.recovery);
        let deadlines = recoveries.filter(|_| self.adapter.is_none()).map(|r| r.deadline);
        deadlines.chain(self.next_look).min()
    }
}

/// How often a guest hung.
#[derive(Debug, Default)]
pub(super) struct Hangs {
    /// When, of late.
    times: VecDeque<Duration>,
    /// How often it had when it was taken out.
    taken_out: Option<u32>,
}

impl Hangs {
    /// It hung again. True when that takes it out.
    fn count(&mut self, now: Duration, policy: TdrPolicy) -> bool {
        let begin = now.saturating_sub(policy.limit_time);
        while self.times.pop_front_if(|time| *time < begin).is_some() {}
        self.times.push_back(now);
        let count = u32::try_from(self.times.len()).unwrap_or(u32::MAX);
        if policy.limit_count == 0 {
            self.times.clear();
        }
        if policy.limit_count == 0 || count < policy.limit_count || self.taken_out.is_some() {
            return false;
        }
        self.taken_out = Some(count);
        true
    }

    /// Refuses new work of a guest that was taken out.
    pub(super) fn check(&self, code: RequestCode) -> Result<(), RequestError> {
        match self.taken_out {
            Some(count) if is_new_work(code) => Err(RequestError::TooManyHangs(count)),
            _ => Ok(()),
        }
    }
}

/// Whether a request is on the way to have something executed.
fn is_new_work(code: RequestCode) -> bool {
    matches!(
        code,
        RequestCode::CREATE_PROCESS
            | RequestCode::CREATE_DEVICE
            | RequestCode::CREATE_CONTEXT
            | RequestCode::CREATE_HW_QUEUE
            | RequestCode::CREATE_DOORBELL
            | RequestCode::CONNECT_DOORBELL
            | RequestCode::CREATE_ALLOCATION
            | RequestCode::CREATE_NATIVE_FENCE
            | RequestCode::CREATE_MONITORED_FENCE
            | RequestCode::SUBMIT_COMMAND
    )
}

impl Kernel {
    /// Somebody asked for something that may wake an engine: looks at engines for as long as one is
    /// awake, or in F0 without work. An engine is woken by requests only, or by another that is awake.
    pub(super) fn watch_engines(&mut self) {
        let period = self.timeout / 2;
        self.tdr.next_look.get_or_insert(self.now.saturating_add(period));
    }

    /// Does what is due.
    pub(super) fn continue_recoveries(&mut self, effects: &mut Vec<Effect>) {
        if self.tdr.next_look.is_some_and(|time| time <= self.now) {
            self.look_at_engines(effects);
        }
        for node in 0..self.miniport.node_count() {
            let recovery = self.tdr.engines.get(node as usize).and_then(|engine| engine.recovery);
            let Some(recovery) = recovery.filter(|recovery| recovery.deadline <= self.now) else {
                continue;
            };
            match (recovery.step, &self.tdr.adapter) {
                // It goes with the adapter's reset that is under way.
                (_, Some(_)) => {}
                (Step::Preempting(_), None) => self.reset_engine(node, recovery),
                (Step::ResettingEngine, None) => self.reset_adapter(recovery, effects),
            }
        }
    }

    /// Finds turns that do not end, and engines that have had nothing to do for as long as a turn may take.
    fn look_at_engines(&mut self, effects: &mut Vec<Effect>) {
        let mut looks_again = false;
        for node in 0..self.miniport.node_count() {
            let progress = self.miniport.query_engine_status(node);
            self.look_for_hang(node, progress);
            looks_again |= self.look_for_idleness(node, progress, effects);
        }
        self.tdr.next_look = looks_again.then(|| self.now.saturating_add(self.timeout / 2));
    }

    fn look_for_hang(&mut self, node: u32, progress: EngineProgress) {
        let Some(engine) = self.tdr.engines.get_mut(node as usize) else { return };
        let Some(queue) = progress.executing else {
            engine.seen = None;
            return;
        };
        let time = Seen::look(&mut engine.seen, progress.turns, self.now);
        if time >= self.timeout {
            let address = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let reason = FaultReason::ENGINE_TIMEOUT;
            let fault = Fault { reason, opcode: Opcode::NOP, address, read_pointer: 0 };
            self.begin_recovery(node, queue, fault);
        }
    }

    /// "Dxgkrnl monitors whether a GPU engine is making progress using TDR timeout cadence": one that slept
    /// from one look to another a time-out later, and has no work, goes to F1. The driver may ask for that
    /// sooner. An engine that has work after all refuses.
    ///
    /// Returns whether the engine is to be looked at again. One that sleeps with work waits for a fence, which
    /// a request signals, or an engine that is awake.
    ///
    /// Source: user-mode work submission, "Engine F-state transitions".
    fn look_for_idleness(
        &mut self,
        node: u32,
        progress: EngineProgress,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let runs = |context: &Context| context.state.is_running();
        let mut queues = self.queues.iter().filter(|(_, owner)| owner.node == node);
        let sleeps = progress.is_asleep && self.power.is_in_f0(node);
        let is_idle = sleeps && !queues.any(|(id, owner)| self.has_work(*id, owner, runs));
        let (now, timeout) = (self.now, self.timeout);
        let Some(engine) = self.tdr.engines.get_mut(node as usize) else { return false };
        if !is_idle {
            engine.asleep = None;
            return !progress.is_asleep;
        }
        if Seen::look(&mut engine.asleep, progress.turns, now) >= timeout {
            // Should it refuse, or come back before the next look, its time begins anew.
            engine.asleep = None;
            tracing::debug!(node, "an engine that has had nothing to do goes to F1");
            self.power_down_engine(node, effects);
        }
        self.power.is_in_f0(node)
    }

    /// An engine executed a queue for longer than the time-out without its making progress: a hang, unless
    /// it is the queue's right (`DisableGpuTimeout`).
    pub(super) fn makes_no_progress(&mut self, node: u32, queue: HwQueueId, fault: Fault) {
        if self.queues.get(&queue).is_none_or(|owner| !owner.disable_gpu_timeout) {
            self.begin_recovery(node, queue, fault);
        }
    }

    /// An engine hung in a queue: pre-empts that. Of several the first goes first; the others hang on.
    fn begin_recovery(&mut self, node: u32, queue: HwQueueId, fault: Fault) {
        let Some(engine) = self.tdr.engines.get_mut(node as usize) else { return };
        if engine.recovery.is_some() || self.tdr.adapter.is_some() {
            return;
        }
        // A queue that was destroyed meanwhile hangs no more, unless its engine is stuck in it: then
        // it is not destroyed.
        let is_system = |guest: &Guest| guest.system.is_ok_and(|system| system.hw_queue == queue);
        let guilty = if let Some(owner) = self.queues.get(&queue) {
            let (guest, queue_handle) = (owner.guest.0, owner.handle);
            tracing::warn!(guest, hw_queue = %queue_handle, node, ?fault, "hang: pre-empting");
            Guilty::Queue(queue)
        } else if let Some((id, guest)) = self.guests.iter().find(|(_, guest)| is_system(guest)) {
            tracing::error!(guest = id.0, node, ?fault, "paging hangs: pre-empting");
            Guilty::Paging(*id, guest.paging.oldest_fence())
        } else {
            return;
        };
        self.tdr.last_preemption += 1;
        let fence = self.tdr.last_preemption;
        let deadline = self.now.saturating_add(self.tdr.policy.step);
        engine.recovery = Some(Recovery { guilty, fault, step: Step::Preempting(fence), deadline });
        self.miniport.preempt_command(queue, fence);
    }

    fn reset_engine(&mut self, node: u32, recovery: Recovery) {
        tracing::warn!(node, "hang: it cannot be pre-empted, resetting the engine");
        let deadline = self.now.saturating_add(self.tdr.policy.step);
        if let Some(engine) = self.tdr.engines.get_mut(node as usize) {
            engine.recovery = Some(Recovery { step: Step::ResettingEngine, deadline, ..recovery });
        }
        self.miniport.reset_engine(node);
    }

    /// Everything that was under way is lost, of all guests.
    fn reset_adapter(&mut self, recovery: Recovery, effects: &mut Vec<Effect>) {
        tracing::error!("hang: resetting the engine did not help, resetting the adapter");
        let Recovery { guilty, fault, .. } = recovery;
        let waiting = (0..self.miniport.node_count()).collect();
        self.tdr.adapter = Some(AdapterReset { guilty, waiting });
        self.miniport.reset_from_timeout();
        // First, so that the guest learns what it did; the rest is told of the reset.
        if let Guilty::Queue(queue) = guilty {
            self.lose_context_of(queue, fault, effects);
        }
        for guest in self.guests.keys().copied().collect::<Vec<_>>() {
            self.fail_guest(guest, ADAPTER_RESET, effects);
        }
    }

    /// `DXGK_INTERRUPT_DMA_PREEMPTED`.
    pub(super) fn dma_preempted(&mut self, node: u32, fence: u64, effects: &mut Vec<Effect>) {
        self.end_recovery(node, Step::Preempting(fence), effects);
    }

    /// An engine was reset.
    pub(super) fn engine_was_reset(&mut self, node: u32, effects: &mut Vec<Effect>) {
        let Some(reset) = &mut self.tdr.adapter else {
            return self.end_recovery(node, Step::ResettingEngine, effects);
        };
        reset.waiting.remove(&node);
        if !reset.waiting.is_empty() {
            return;
        }
        let AdapterReset { guilty, .. } = *reset;
        tracing::warn!("the adapter was reset");
        self.tdr.adapter = None;
        let recoveries = self.tdr.engines.iter_mut().map(std::mem::take);
        let recoveries = recoveries.filter_map(|engine| engine.recovery).collect::<Vec<_>>();
        for Recovery { guilty, .. } in recoveries {
            // Devices are in error; a system context goes on.
            if let Guilty::Paging(guest, fence) = guilty {
                self.abandon_paging(guest, fence);
            }
        }
        if let Guilty::Queue(queue) = guilty {
            self.blame(queue, effects);
        }
    }

    /// A hung engine is back, if that is the step that its recovery is at.
    fn end_recovery(&mut self, node: u32, step: Step, effects: &mut Vec<Effect>) {
        let Some(engine) = self.tdr.engines.get_mut(node as usize) else { return };
        let is_at_step = |recovery: &mut Recovery| recovery.step == step;
        if let Some(Recovery { guilty, fault, .. }) = engine.recovery.take_if(is_at_step) {
            engine.seen = None;
            match guilty {
                Guilty::Queue(queue) => {
                    self.lose_context_of(queue, fault, effects);
                    self.blame(queue, effects);
                }
                Guilty::Paging(guest, fence) => self.abandon_paging(guest, fence),
            }
        }
    }

    /// Paging of a guest hung, and has stopped: it goes on with what comes after this buffer, unless the
    /// guest went meanwhile.
    fn abandon_paging(&mut self, guest: GuestId, fence: u64) {
        if self.guests.get(&guest).is_some_and(|guest| !guest.detaching) {
            self.miniport.abandon_paging(guest, fence);
        }
    }

    /// The context of a queue that hung is lost, with all its queues. Others go on.
    fn lose_context_of(&mut self, queue: HwQueueId, fault: Fault, effects: &mut Vec<Effect>) {
        if let Some(QueueOwner { guest, process, handle, .. }) = self.queues.get(&queue).copied()
            && let Some(mut scope) = self.scope(guest, process, effects)
            && let Ok(queue) = scope.get::<HwQueue>(handle)
        {
            let context = queue.context;
            scope.lose_context(context, fault);
            let given_up = scope.given_up;
            self.retire_given_up(guest, given_up);
        }
    }

    /// Counts a hang against the guest whose queue hung, and takes it out when it was one too many.
    fn blame(&mut self, guilty: HwQueueId, effects: &mut Vec<Effect>) {
        let Some(owner) = self.queues.get(&guilty).map(|owner| owner.guest) else { return };
        let (now, policy) = (self.now, self.tdr.policy);
        let Some(guest) = self.guests.get_mut(&owner) else { return };
        if guest.hangs.count(now, policy) {
            tracing::error!(
                guest = owner.0,
                "it hung engines {} times in {:?} and gets nothing executed until it is reset",
                policy.limit_count,
                policy.limit_time
            );
            self.fail_guest(owner, IN_ERROR, effects);
        }
    }

    /// Nothing more is executed for any device that a guest has now.
    pub(super) fn fail_guest(&mut self, guest: GuestId, fault: Fault, effects: &mut Vec<Effect>) {
        let processes = self.guests.get(&guest).map(|guest| guest.processes.keys().copied());
        for process in processes.into_iter().flatten().collect::<Vec<_>>() {
            let Some(mut scope) = self.scope(guest, process, effects) else { continue };
            scope.fail_process(fault, Failing::WithItsGuest);
            let given_up = scope.given_up;
            self.retire_given_up(guest, given_up);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hangs_that_come_close_upon_each_other_take_a_guest_out_and_only_once() {
        let policy = TdrPolicy::default();
        let mut hangs = Hangs::default();
        // Every 16 seconds: 4 in any 60.
        for number in 0..20 {
            assert!(!hangs.count(Duration::from_secs(16 * number), policy));
        }
        hangs.check(RequestCode::SUBMIT_COMMAND).unwrap();
        let now = Duration::from_secs(16 * 19 + 1);
        assert!(hangs.count(now, policy));
        assert!(!hangs.count(now, policy));
        assert_eq!(
            hangs.check(RequestCode::SUBMIT_COMMAND),
            Err(RequestError::TooManyHangs(policy.limit_count))
        );
        hangs.check(RequestCode::DESTROY_DEVICE).unwrap();
        hangs.check(RequestCode::QUERY_STATISTICS).unwrap();
        let never = TdrPolicy { limit_count: 0, ..policy };
        let mut hangs = Hangs::default();
        assert!((0..100).all(|_| !hangs.count(now, never)));
    }
}
