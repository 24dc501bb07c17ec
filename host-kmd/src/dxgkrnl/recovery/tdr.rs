// SPDX-License-Identifier: MIT OR Apache-2.0

//! Timeout detection and recovery (TDR).
//!
//! There are two kinds of hangs. In the first, an engine executes a queue for longer than the time-out while neither
//! the queue's read pointer nor its progress fence moves. The engine counts that time, reports it by an interrupt and
//! executes the queue again on its next turn; a queue created with its time-out disabled may take that long. In the
//! second, a turn does not end. No interrupt reports that, so the kernel checks engines while one is awake. Waiting
//! for a fence is not a hang.
//!
//! An engine that is idle for a time-out goes to F1. Once all engines are in F1, the kernel stops checking.
//!
//! ```text
//!  hang ──> Preempting ──DmaPreempted──────────────────────> the context is lost
//!               └─time─> ResettingEngine ──EngineReset─────> the context is lost
//!                              └─time─> ResettingAdapter ──> every device is in error
//! ```
//! In a chain only the GPU is reset that has the engine, and the contexts on its engines are lost.
//!
//! An engine that does not reset because it *stands* is not reset harder. It waits for memory that a guest's VMM keeps
//! from it, and goes on by itself. Only that guest's devices are lost, and until the engine is back, others have no
//! time to lose.
//!
//! A system context that hangs is not lost, because it pages for all processes of its guest. The kernel abandons the
//! paging buffer as failed, and paging continues with the next. The processes that own the buffer's memory then lose
//! their contexts. The hang does not count against the guest: paging buffers are the driver's.
//!
//! A guest that hangs too often is blocked: all its devices are in error, and it gets no new ones until it is reset.
//!
//! Source: Windows KMD overview, "TDR".

use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::{Fault, GpuOrdinal, GuestId, HwQueueId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How the kernel handles hangs. The kernel's time-out defines a hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TdrPolicy {
    /// `TdrDdiDelay`: how long a pre-emption, and an engine reset, may take before the kernel takes the next, harder
    /// step.
    pub step: Duration,
    /// `TdrLimitCount`: this many hangs within [`Self::limit_time`] block a guest. 0 is never.
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

/// The step of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The queue is asked to stop, with this pre-emption fence.
    Preempting(u64),
    /// Its engine is asked to abandon what it executes.
    ResettingEngine,
}

/// The cause of a hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guilty {
    /// A guest's queue.
    Queue(HwQueueId),
    /// A guest's system context, in the paging buffer with this fence.
    Paging(GuestId, u64),
}

/// A hang, and the fault that it causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hang {
    /// The cause.
    pub(crate) guilty: Guilty,
    /// The fault that loses the queue.
    pub(crate) fault: Fault,
}

/// The next, harder step of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escalation {
    /// `DxgkDdiResetEngine`: the cause did not stop when the engine was asked to pre-empt it.
    ResetEngine(Guilty),
    /// `DxgkDdiResetFromTimeout` of this GPU.
    ResetAdapter(GpuOrdinal, Hang),
    /// None: the engine stands, in memory of the guest that hung. That guest loses its devices.
    CutOff(Hang),
}

/// What an engine's reset completes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// Nothing yet.
    Nothing,
    /// The recovery of this engine.
    Engine(Hang),
    /// The reset of its GPU, which also ends the recoveries of all engines of that.
    Adapter(Guilty, Vec<Guilty>),
}

/// The recovery of an engine that hung.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    hang: Hang,
    step: Step,
    deadline: Duration,
    /// Whether the guest that hung has lost its devices because the engine stands.
    is_cut_off: bool,
}

/// A turn in progress when the kernel checked the engine, or the last turn before the engine slept.
#[derive(Debug, Clone, Copy)]
struct Seen {
    turns: u64,
    since: Duration,
}

impl Seen {
    /// Updates the sighting. Returns how long this turn has lasted.
    fn look(seen: &mut Option<Self>, turns: u64, now: Duration) -> Duration {
        let same = seen.filter(|seen| seen.turns == turns);
        now.saturating_sub(seen.insert(same.unwrap_or(Self { turns, since: now })).since)
    }
}

/// An engine that was seen standing.
#[derive(Debug, Clone, Copy)]
struct Stood {
    last: Duration,
    /// The guest in whose memory that was, if it was within a turn.
    culprit: Option<GuestId>,
}

/// Hang detection and recovery of an engine.
#[derive(Debug, Clone, Copy, Default)]
struct Engine {
    /// When it last stood.
    stood: Option<Stood>,
    /// The turn in progress.
    seen: Option<Seen>,
    /// The last turn before it slept.
    asleep: Option<Seen>,
    recovery: Option<Recovery>,
}

/// A reset of a GPU: of the adapter, if that is no chain.
#[derive(Debug)]
struct AdapterReset {
    guilty: Guilty,
    /// Engines that have not reset yet.
    waiting: BTreeSet<u32>,
}

/// Hang detection and recovery of all engines.
#[derive(Debug)]
pub(crate) struct Tdr {
    policy: TdrPolicy,
    /// When engines are checked next: while one is awake, or in F0 without work.
    next_look: Option<Duration>,
    engines: Vec<Engine>,
    /// The GPU of each engine.
    gpus: Vec<GpuOrdinal>,
    /// The GPUs of a chain are reset one by one.
    resets: BTreeMap<GpuOrdinal, AdapterReset>,
    last_preemption: u64,
}

impl Tdr {
    /// Creates the state without hangs, of engines of these GPUs.
    pub(crate) fn new(gpus: Vec<GpuOrdinal>) -> Self {
        Self {
            policy: TdrPolicy::default(),
            next_look: None,
            engines: vec![Engine::default(); gpus.len()],
            gpus,
            resets: BTreeMap::new(),
            last_preemption: 0,
        }
    }

    /// The GPU of an engine.
    pub(crate) fn gpu_of(&self, node: u32) -> GpuOrdinal {
        self.gpus.get(node as usize).copied().unwrap_or_default()
    }

    /// The engines of a GPU.
    pub(crate) fn engines_of(&self, gpu: GpuOrdinal) -> BTreeSet<u32> {
        (0..).zip(&self.gpus).filter(|(_, of)| **of == gpu).map(|(node, _)| node).collect()
    }

    /// Whether the adapter is a chain of several GPUs.
    pub(crate) fn is_chain(&self) -> bool {
        self.gpus.iter().any(|gpu| *gpu != GpuOrdinal::MASTER)
    }

    /// How the kernel handles hangs.
    pub(crate) fn policy(&self) -> TdrPolicy {
        self.policy
    }

    /// Sets how the kernel handles hangs.
    pub(crate) fn set_policy(&mut self, policy: TdrPolicy) {
        self.policy = policy;
    }

    /// When the next check or step is due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let engines = self.engines.iter().zip(&self.gpus);
        let left = engines.filter(|(_, gpu)| !self.resets.contains_key(gpu));
        let deadlines = left.filter_map(|(engine, _)| engine.recovery).map(|r| r.deadline);
        deadlines.chain(self.next_look).min()
    }

    /// Schedules a check of the engines by `time`, unless one is scheduled.
    pub(crate) fn watch_until(&mut self, time: Duration) {
        self.next_look.get_or_insert(time);
    }

    /// Whether the engines must be checked now.
    pub(crate) fn is_look_due(&self, now: Duration) -> bool {
        self.next_look.is_some_and(|time| time <= now)
    }

    /// Schedules the next check at `time`, if at all.
    pub(crate) fn look_next(&mut self, time: Option<Duration>) {
        self.next_look = time;
    }

    /// An engine was seen in a turn, or in none. Returns how long it has been in that turn.
    pub(crate) fn see_turn(&mut self, node: u32, turns: Option<u64>, now: Duration) -> Duration {
        let Some(engine) = self.engines.get_mut(node as usize) else { return Duration::ZERO };
        let Some(turns) = turns else {
            engine.seen = None;
            return Duration::ZERO;
        };
        Seen::look(&mut engine.seen, turns, now)
    }

    /// An engine was seen asleep without work after these turns, or not (`None`). Returns whether that has lasted for
    /// `time`. If so, its time restarts, in case it refuses F1 or wakes before the next check.
    pub(crate) fn see_idleness(
        &mut self,
        node: u32,
        turns: Option<u64>,
        now: Duration,
        time: Duration,
    ) -> bool {
        let Some(engine) = self.engines.get_mut(node as usize) else { return false };
        let Some(turns) = turns else {
            engine.asleep = None;
            return false;
        };
        let is_long = Seen::look(&mut engine.asleep, turns, now) >= time;
        if is_long {
            engine.asleep = None;
        }
        is_long
    }

    /// An engine was seen standing, in a turn of this guest's or in none.
    pub(crate) fn see_standing(&mut self, node: u32, culprit: Option<GuestId>, now: Duration) {
        if let Some(engine) = self.engines.get_mut(node as usize) {
            engine.stood = Some(Stood { last: now, culprit });
        }
    }

    /// Whether an engine has been seen standing at this time or later, and not in memory of this guest.
    pub(crate) fn stood_for_another(&self, node: u32, guest: GuestId, since: Duration) -> bool {
        let stood = self.engines.get(node as usize).and_then(|engine| engine.stood);
        stood.is_some_and(|stood| stood.last >= since && stood.culprit != Some(guest))
    }

    /// Whether a step of an engine's recovery takes too long.
    pub(crate) fn is_step_late(&self, node: u32, now: Duration) -> bool {
        let recovery = self.engines.get(node as usize).and_then(|engine| engine.recovery);
        recovery.is_some_and(|recovery| recovery.deadline <= now)
    }

    /// Whether an engine is already recovering, alone or with its GPU.
    pub(crate) fn is_recovering(&self, node: u32) -> bool {
        let engine = self.engines.get(node as usize);
        self.resets.contains_key(&self.gpu_of(node))
            || engine.is_none_or(|engine| engine.recovery.is_some())
    }

    /// An engine hung. Returns the pre-emption fence with which its queue is asked to stop.
    pub(crate) fn begin(&mut self, node: u32, hang: Hang, now: Duration) -> u64 {
        self.last_preemption += 1;
        let (step, deadline) =
            (Step::Preempting(self.last_preemption), now.saturating_add(self.policy.step));
        if let Some(engine) = self.engines.get_mut(node as usize) {
            engine.recovery = Some(Recovery { hang, step, deadline, is_cut_off: false });
        }
        self.last_preemption
    }

    /// Takes the next step of an engine's recovery if the current step takes too long. A GPU's reset absorbs all
    /// recoveries of its engines.
    pub(crate) fn escalate(&mut self, node: u32, now: Duration) -> Option<Escalation> {
        let gpu = self.gpu_of(node);
        if self.resets.contains_key(&gpu) {
            return None;
        }
        let waiting = self.engines_of(gpu);
        let Engine { recovery, stood, .. } = self.engines.get_mut(node as usize)?;
        let recovery = recovery.as_mut().filter(|recovery| recovery.deadline <= now)?;
        // Seen at the beginning of this step, or later.
        let stood = stood.is_some_and(|stood| stood.last + self.policy.step >= recovery.deadline);
        match recovery.step {
            Step::Preempting(_) => {
                recovery.step = Step::ResettingEngine;
                recovery.deadline = now.saturating_add(self.policy.step);
                Some(Escalation::ResetEngine(recovery.hang.guilty))
            }
            Step::ResettingEngine if stood => {
                recovery.deadline = now.saturating_add(self.policy.step);
                let was_cut_off = std::mem::replace(&mut recovery.is_cut_off, true);
                if was_cut_off { None } else { Some(Escalation::CutOff(recovery.hang)) }
            }
            Step::ResettingEngine => {
                let hang = recovery.hang;
                self.resets.insert(gpu, AdapterReset { guilty: hang.guilty, waiting });
                Some(Escalation::ResetAdapter(gpu, hang))
            }
        }
    }

    /// A queue stopped with a pre-emption fence. Returns the hang if the recovery waits for that fence.
    pub(crate) fn preempted(&mut self, node: u32, fence: u64) -> Option<Hang> {
        self.end(node, Step::Preempting(fence))
    }

    /// An engine was reset.
    pub(crate) fn engine_was_reset(&mut self, node: u32) -> Recovered {
        let gpu = self.gpu_of(node);
        let Some(reset) = self.resets.get_mut(&gpu) else {
            let ended = self.end(node, Step::ResettingEngine);
            return ended.map_or(Recovered::Nothing, Recovered::Engine);
        };
        reset.waiting.remove(&node);
        if !reset.waiting.is_empty() {
            return Recovered::Nothing;
        }
        let guilty = reset.guilty;
        self.resets.remove(&gpu);
        let own = self.engines.iter_mut().zip(&self.gpus).filter(|(_, of)| **of == gpu);
        let engines = own.map(|(engine, _)| std::mem::take(engine));
        let ended =
            engines.filter_map(|engine| engine.recovery).map(|recovery| recovery.hang.guilty);
        Recovered::Adapter(guilty, ended.collect())
    }

    /// Ends an engine's recovery if it is at this step.
    fn end(&mut self, node: u32, step: Step) -> Option<Hang> {
        let engine = self.engines.get_mut(node as usize)?;
        let recovery = engine.recovery.take_if(|recovery| recovery.step == step)?;
        engine.seen = None;
        Some(recovery.hang)
    }
}

/// The hangs of a guest.
#[derive(Debug, Default)]
pub(crate) struct Hangs {
    /// The times of its recent hangs.
    times: VecDeque<Duration>,
    /// Number of hangs that blocked the guest.
    taken_out: Option<u32>,
}

impl Hangs {
    /// Counts a hang. Returns whether it blocks the guest.
    pub(crate) fn count(&mut self, now: Duration, policy: TdrPolicy) -> bool {
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

    /// Refuses new work of a blocked guest.
    pub(crate) fn check_new_work(&self) -> Result<(), RequestError> {
        self.taken_out.map_or(Ok(()), |count| Err(RequestError::TooManyHangs(count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dxgkrnl::object::faults::IN_ERROR;

    #[test]
    fn only_hangs_that_come_close_upon_each_other_take_a_guest_out_and_only_once() {
        let policy = TdrPolicy::default();
        let mut hangs = Hangs::default();
        // Every 16 seconds: 4 in any 60.
        for number in 0..20 {
            assert!(!hangs.count(Duration::from_secs(16 * number), policy));
        }
        hangs.check_new_work().unwrap();
        let now = Duration::from_secs(16 * 19 + 1);
        assert!(hangs.count(now, policy));
        assert!(!hangs.count(now, policy));
        assert_eq!(hangs.check_new_work(), Err(RequestError::TooManyHangs(policy.limit_count)));
        let never = TdrPolicy { limit_count: 0, ..policy };
        let mut hangs = Hangs::default();
        assert!((0..100).all(|_| !hangs.count(now, never)));
    }

    const NOW: Duration = Duration::from_secs(100);
    const HANG: Hang = Hang { guilty: Guilty::Queue(HwQueueId(7)), fault: IN_ERROR };

    #[test]
    fn a_recovery_takes_one_harder_step_after_another_and_ends_with_the_step_that_it_is_at() {
        let mut tdr = Tdr::new(vec![GpuOrdinal::MASTER; 2]);
        let step = tdr.policy().step;
        let fence = tdr.begin(0, HANG, NOW);
        assert!(tdr.is_recovering(0) && !tdr.is_recovering(1));
        assert_eq!((tdr.deadline(), tdr.escalate(0, NOW)), (Some(NOW + step), None));
        assert_eq!(tdr.preempted(0, fence + 1), None);
        assert_eq!(tdr.engine_was_reset(0), Recovered::Nothing);
        assert_eq!(tdr.preempted(0, fence), Some(HANG));
        assert_eq!(tdr.deadline(), None);

        let late = tdr.begin(0, HANG, NOW);
        assert_eq!(tdr.escalate(0, NOW + step), Some(Escalation::ResetEngine(HANG.guilty)));
        assert_eq!(tdr.preempted(0, late), None);
        assert_eq!(tdr.engine_was_reset(0), Recovered::Engine(HANG));
    }

    #[test]
    fn the_adapter_s_reset_takes_all_recoveries_with_it_and_ends_with_the_last_engine() {
        let mut tdr = Tdr::new(vec![GpuOrdinal::MASTER; 2]);
        let (step, other) = (tdr.policy().step, Guilty::Paging(GuestId(3), 5));
        tdr.begin(0, HANG, NOW);
        tdr.begin(1, Hang { guilty: other, ..HANG }, NOW + step);
        assert_eq!(tdr.escalate(0, NOW + step), Some(Escalation::ResetEngine(HANG.guilty)));
        assert_eq!(
            tdr.escalate(0, NOW + 2 * step),
            Some(Escalation::ResetAdapter(GpuOrdinal::MASTER, HANG))
        );
        assert_eq!((tdr.escalate(1, NOW + 9 * step), tdr.deadline()), (None, None));
        assert_eq!(tdr.engine_was_reset(1), Recovered::Nothing);
        let ended = vec![HANG.guilty, other];
        assert_eq!(tdr.engine_was_reset(0), Recovered::Adapter(HANG.guilty, ended));
        assert!(!tdr.is_recovering(0) && !tdr.is_recovering(1));
    }

    #[test]
    fn a_gpu_of_a_chain_is_reset_alone_and_its_peer_recovers_beside_it() {
        let gpus = [0, 0, 1, 1].map(GpuOrdinal);
        let mut tdr = Tdr::new(gpus.to_vec());
        let step = tdr.policy().step;
        let other = Hang { guilty: Guilty::Queue(HwQueueId(8)), ..HANG };
        tdr.begin(2, HANG, NOW);
        tdr.begin(0, other, NOW + step);
        assert_eq!(tdr.escalate(2, NOW + step), Some(Escalation::ResetEngine(HANG.guilty)));
        let reset = Some(Escalation::ResetAdapter(GpuOrdinal(1), HANG));
        assert_eq!(tdr.escalate(2, NOW + 2 * step), reset);
        assert!(tdr.is_recovering(3) && !tdr.is_recovering(1));
        // The peer's recovery takes its own steps meanwhile.
        assert_eq!(tdr.deadline(), Some(NOW + 2 * step));
        assert_eq!(tdr.escalate(0, NOW + 2 * step), Some(Escalation::ResetEngine(other.guilty)));
        assert_eq!(tdr.engine_was_reset(2), Recovered::Nothing);
        assert_eq!(tdr.engine_was_reset(0), Recovered::Engine(other));
        let ended = vec![HANG.guilty];
        assert_eq!(tdr.engine_was_reset(3), Recovered::Adapter(HANG.guilty, ended));
        assert!(!tdr.is_recovering(2) && !tdr.is_recovering(0));
    }

    #[test]
    fn a_turn_or_a_sleep_lasts_from_when_it_was_first_seen() {
        let mut tdr = Tdr::new(vec![GpuOrdinal::MASTER]);
        let second = Duration::from_secs(1);
        assert_eq!(tdr.see_turn(0, Some(4), NOW), Duration::ZERO);
        assert_eq!(tdr.see_turn(0, Some(4), NOW + second), second);
        assert_eq!(tdr.see_turn(0, Some(5), NOW + second), Duration::ZERO);
        assert_eq!(tdr.see_turn(0, None, NOW + second), Duration::ZERO);
        assert!(!tdr.see_idleness(0, Some(5), NOW, second));
        assert!(tdr.see_idleness(0, Some(5), NOW + second, second));
        // The time restarts.
        assert!(!tdr.see_idleness(0, Some(5), NOW + 2 * second, second));
        assert!(!tdr.see_idleness(0, None, NOW + 3 * second, second));
        assert!(!tdr.see_idleness(0, Some(5), NOW + 3 * second, second));
    }
}
