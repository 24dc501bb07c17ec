// SPDX-License-Identifier: MIT OR Apache-2.0

//! An engine's run list: the queues that it knows, and which of them have work.
//!
//! Only the engine uses it. Adding a queue to the list may allocate; giving turns does not.
//!
//! Source: user-mode work submission, "Hardware context suspension" (the HW scheduler's list).

use super::command_processor::{Execution, Ring, Turn};
use super::sampling::Sampling;
use super::schedule::{Ended, Pick, Schedule};
use crate::gpu::memory::pins::View;
use crate::gpu::shared::fence::handle::FenceHandle;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use crate::gpu::shared::rank::Rank;
use crate::gpu::shared::statistics::Tally;
use crate::gpu::shared::watching::WatchedAt;
use bellhop_host_kmd::hardware::{RingBinding, SchedulingPriority};
use std::sync::Arc;
use std::time::Duration;

/// The state of a queue on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// It has no work.
    Idle,
    /// It waits for a turn.
    Runnable,
    /// It waits for a fence.
    Blocked,
    /// It is never executed again.
    Dead,
}

/// A queue on the list.
#[derive(Debug)]
pub struct Entry {
    /// The queue.
    pub queue: Arc<HwQueue>,
    /// The guest's memory, as of the queue's last turn or the last change.
    pub view: View,
    /// The fence that the queue's packets signaled last.
    pub fence: FenceHandle,
    /// The fence that the queue's packets waited for last.
    pub waited: FenceHandle,
    /// Rings that are not yet in the guest's counters.
    pub doorbells: u64,
    /// Which of the queue's turns are timed.
    pub sampling: Sampling,
    /// The progress of the queue's packets.
    pub execution: Execution,
    /// The doorbell's last value.
    pub last_rung: u64,
    /// Where the engine watches for the queue's rings, and the ring at that time.
    pub watched: Option<(WatchedAt, Arc<RingBinding>)>,
    condition: Condition,
    /// Index in `RunList::blocked`, while the queue is blocked.
    blocked_at: usize,
}

impl Entry {
    fn new(queue: &Arc<HwQueue>) -> Self {
        // Read before the memory, so that the memory is never older than this count.
        let flushes = queue.partition.flushes();
        let mut entry = Self {
            queue: Arc::clone(queue),
            view: View::new(queue.partition.memory(), flushes),
            fence: FenceHandle::new(&queue.partition, queue.process()),
            waited: FenceHandle::new(&queue.partition, queue.process()),
            doorbells: 0,
            sampling: Sampling::default(),
            execution: Execution::new(),
            last_rung: 0,
            watched: None,
            condition: Condition::Idle,
            blocked_at: 0,
        };
        entry.refresh_ring();
        entry
    }

    /// Catches up with the guest's flushes, before the queue accesses memory.
    #[inline]
    pub fn catch_up(&mut self) {
        let flushes = self.queue.partition.flushes();
        if flushes != self.view.flushes() {
            self.view.replace(self.queue.partition.memory(), flushes);
        }
    }

    /// Adds the rings to the guest's counters of engine `engine` now, since no turn follows that would do it.
    #[cold]
    pub fn count_doorbells(&mut self, engine: u32) {
        let doorbells = std::mem::take(&mut self.doorbells);
        self.queue.partition.counters().add(engine, Tally { doorbells, ..Tally::default() });
    }

    /// Takes over another ring, or the loss of the ring. Drops started work of the old ring, which its owner took
    /// away.
    pub fn refresh_ring(&mut self) {
        let bound = self.queue.ring.load_full();
        let unchanged = match &bound {
            Some(bound) => self.has_ring(bound),
            None => self.execution.ring.is_none(),
        };
        if unchanged || self.is_dead() {
            return;
        }
        if self.execution.ring.is_some() {
            self.execution = Execution::new();
        }
        self.execution.ring = bound.map(Ring::new);
        self.last_rung = 0;
    }

    /// Whether `binding` is the queue's current ring.
    pub fn has_ring(&self, binding: &Arc<RingBinding>) -> bool {
        self.execution.ring.as_ref().is_some_and(|ring| Arc::ptr_eq(&ring.binding, binding))
    }

    /// Whether the queue is never executed again.
    pub fn is_dead(&self) -> bool {
        self.condition == Condition::Dead
    }

    /// Drops the queue's started work, at the end of its turn. The queue is never executed again.
    pub fn kill(&mut self) {
        self.condition = Condition::Dead;
        self.execution = Execution::new();
    }
}

/// The list.
#[derive(Debug)]
pub struct RunList {
    /// The engine's number.
    engine: u32,
    /// By index. An index is in use until its queue is forgotten.
    entries: Vec<Option<Box<Entry>>>,
    free: Vec<u32>,
    /// Queues that wait for a turn, each once at most, in keeping with its condition.
    schedule: Schedule,
    blocked: Vec<u32>,
}

impl RunList {
    /// An empty list. `quantum` is how long a context keeps the engine while others of equal priority in its guest
    /// wait.
    pub fn new(quantum: Duration, engine: u32) -> Self {
        Self {
            engine,
            entries: Vec::new(),
            free: Vec::new(),
            schedule: Schedule::new(quantum),
            blocked: Vec::new(),
        }
    }

    /// Puts a queue on the list, unless it is there, and returns its index; `None` if it is destroyed.
    pub fn enlist(&mut self, queue: &Arc<HwQueue>) -> Option<u32> {
        if let Some(index) = queue.run_list_index() {
            // The queue may be forgotten, and another queue may have its index.
            let entry = self.get(index).filter(|entry| Arc::ptr_eq(&entry.queue, queue));
            return entry.map(|_| index);
        }
        if queue.membership.is_destroyed() {
            return None;
        }
        let entry = Some(Box::new(Entry::new(queue)));
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.entries.len()).ok()?;
                self.entries.push(None);
                // Room for all queues, so that turns do not allocate.
                let count = self.entries.len();
                self.blocked.reserve(count - self.blocked.len());
                self.free.reserve(count - self.free.len());
                index
            }
        };
        *self.entries.get_mut(index as usize)? = entry;
        let partition = &queue.partition;
        let account = partition.account();
        if self.schedule.add(
            index,
            (partition.id(), account.id()),
            queue.context().zip(queue.party()),
        ) {
            let left = account.left(self.engine);
            self.schedule.charge_aside(partition.id(), left, partition.weight());
        }
        queue.set_run_list_index(index);
        Some(index)
    }

    /// A queue on the list.
    #[inline]
    pub fn get(&mut self, index: u32) -> Option<&mut Entry> {
        #[cfg(test)]
        super::visits::note();
        self.entries.get_mut(index as usize)?.as_deref_mut()
    }

    /// The doorbell of a queue on the list rang. If `look` finds work and the queue is idle, makes the queue
    /// runnable. Returns the queue if it has work but was not idle.
    #[inline(always)]
    pub fn ring(
        &mut self,
        index: u32,
        look: impl FnOnce(&mut Entry) -> bool,
    ) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(index as usize)?.as_deref_mut()?;
        if !look(entry) {
            return None;
        }
        if entry.condition != Condition::Idle {
            return self.get(index);
        }
        entry.condition = Condition::Runnable;
        self.push(index);
        None
    }

    /// Puts a queue in line that is in none.
    #[inline]
    fn push(&mut self, index: u32) {
        let entries = &self.entries;
        self.schedule.push(index, |index| match entries.get(index as usize) {
            Some(Some(entry)) => entry.queue.rank(),
            _ => Rank::Priority(SchedulingPriority::default()),
        });
    }

    /// Whether a queue is in line.
    #[inline]
    pub fn is_runnable(&self) -> bool {
        !self.schedule.is_empty()
    }

    /// Whether a queue waits for a turn or for a fence. A suspended queue counts until its turn would have come.
    pub fn has_work(&self) -> bool {
        self.is_runnable() || !self.blocked.is_empty()
    }

    /// Makes an idle queue runnable. Returns false if it is not idle.
    #[inline]
    pub fn make_runnable(&mut self, index: u32) -> bool {
        self.change(index, Condition::Idle, Condition::Runnable)
    }

    /// Picks the queue that gets the next turn. The queue is idle until the turn ends: the engine then calls
    /// [`Self::end_turn`], before anything else here.
    #[inline]
    pub fn next(&mut self) -> Option<(Pick, Option<&mut Entry>)> {
        let pick = self.schedule.next()?;
        let mut entry = self.entries.get_mut(pick.queue as usize).and_then(Option::as_deref_mut);
        if let Some(entry) = &mut entry
            && entry.condition == Condition::Runnable
        {
            entry.condition = Condition::Idle;
        }
        Some((pick, entry))
    }

    /// Ends the turn that [`Self::next`] gave to a queue, which then waits for the next, for a fence or for work.
    /// `time` is the turn's time, if it was measured.
    #[inline]
    pub fn end_turn(&mut self, index: u32, next: Turn, time: Option<Duration>) {
        if next != Turn::Idle || time.is_some() || !self.schedule.end_alone(index) {
            self.end_turn_beside(index, next, time);
        }
    }

    /// Ends a turn that was timed, or while other queues wait.
    #[inline(never)]
    fn end_turn_beside(&mut self, index: u32, next: Turn, time: Option<Duration>) {
        let Some(Some(entry)) = self.entries.get_mut(index as usize) else { return };
        let weight = entry.queue.partition.weight();
        let again = (next == Turn::Runnable && entry.condition == Condition::Idle)
            .then(|| entry.queue.rank());
        if again.is_some() {
            entry.condition = Condition::Runnable;
        }
        let (time, party_weight) = (time.unwrap_or_default(), entry.queue.process_weight());
        self.schedule.end_turn(index, Ended { time, weight, party_weight, again });
        if next == Turn::Blocked {
            self.change(index, Condition::Idle, Condition::Blocked);
        }
    }

    /// Charges time that the engine spent for a guest between two turns.
    pub fn charge_aside(&mut self, partition: &Partition, time: Duration) {
        self.schedule.charge_aside(partition.id(), time, partition.weight());
    }

    /// Makes all queues that wait for fences runnable: each checks its fence first.
    pub fn unblock_all(&mut self) {
        while let Some(index) = self.blocked.pop() {
            self.change(index, Condition::Blocked, Condition::Runnable);
        }
    }

    #[inline]
    fn change(&mut self, index: u32, from: Condition, to: Condition) -> bool {
        #[cfg(test)]
        super::visits::note();
        let Some(Some(entry)) = self.entries.get_mut(index as usize) else { return false };
        if entry.condition != from {
            return false;
        }
        entry.condition = to;
        match to {
            Condition::Runnable => self.push(index),
            Condition::Blocked => {
                entry.blocked_at = self.blocked.len();
                self.blocked.push(index);
            }
            Condition::Idle | Condition::Dead => {}
        }
        true
    }

    /// Makes suspended queues idle. The control plane kicks a queue when it resumes it.
    pub fn drop_suspended(&mut self) {
        let entries = &mut self.entries;
        let mut may_run = |index: &u32| {
            let Some(Some(entry)) = entries.get_mut(*index as usize) else { return false };
            let may_run = entry.queue.membership.may_run();
            // A dead queue stays dead, so that its ring cannot start again.
            if !may_run && entry.condition != Condition::Dead {
                entry.condition = Condition::Idle;
            }
            may_run
        };
        self.schedule.retain(|index| may_run(&index));
        self.blocked.retain(&mut may_run);
        for (at, index) in self.blocked.iter().enumerate() {
            if let Some(Some(entry)) = entries.get_mut(*index as usize) {
                entry.blocked_at = at;
            }
        }
    }

    /// A queue is lost between two turns: drops its started work, and what it waits for. It is never executed again, and
    /// is no work that keeps the engine awake.
    pub fn kill(&mut self, index: u32) {
        let Some(entry) = self.get(index) else { return };
        entry.kill();
        let at = entry.blocked_at;
        self.end_wait(index, at);
    }

    /// A queue does not wait for a fence any more; it was in this place if it did.
    fn end_wait(&mut self, index: u32, at: usize) {
        if self.blocked.get(at) != Some(&index) {
            return;
        }
        self.blocked.swap_remove(at);
        let moved = self.blocked.get(at).copied();
        if let Some(moved) = moved.and_then(|moved| self.get(moved)) {
            moved.blocked_at = at;
        }
    }

    /// Forgets a destroyed queue. The cost does not grow with the queues of other guests.
    pub fn forget(&mut self, index: u32) {
        let Some(entry) = self.entries.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        self.end_wait(index, entry.blocked_at);
        self.schedule.remove(index);
        self.free.push(index);
    }

    /// Releases a guest's old memory after a change, also for queues that get no turn soon.
    pub fn catch_up(&mut self) {
        for entry in self.entries.iter_mut().flatten() {
            #[cfg(test)]
            super::visits::note();
            entry.catch_up();
        }
    }
}
