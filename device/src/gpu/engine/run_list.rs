// SPDX-License-Identifier: MIT OR Apache-2.0

//! An engine's run list: which queues it knows, and which of them have something to do.
//!
//! Only the engine touches it. Taking a queue onto the list may allocate; giving turns does not.
//!
//! Source: user-mode work submission, "Hardware context suspension" (the HW scheduler's list).

use super::command_processor::{Execution, Ring, Turn};
use super::sampling::Sampling;
use super::schedule::{Ended, Pick, Schedule};
use crate::gpu::memory::pins::View;
use crate::gpu::shared::fence_handle::FenceHandle;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::statistics::Tally;
use crate::gpu::shared::watching::WatchedAt;
use bellhop_host_kmd::hardware::RingBinding;
use std::sync::Arc;
use std::time::Duration;

/// What a queue on the list does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// It has nothing to do.
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
    /// Its guest's memory, as it was at the queue's last turn or the last change.
    pub view: View,
    /// The fence that its packets signaled last.
    pub fence: FenceHandle,
    /// The fence that its packets waited for last.
    pub waited: FenceHandle,
    /// Rings that the guest's counters have yet to get.
    pub doorbells: u64,
    /// Which of its turns are timed.
    pub sampling: Sampling,
    /// How far its packets are executed.
    pub execution: Execution,
    /// Its doorbell's last value.
    pub last_rung: u64,
    /// Where the engine looks for its rings, and the ring that it then had.
    pub watched: Option<(WatchedAt, Arc<RingBinding>)>,
    condition: Condition,
    /// Where it is in `RunList::blocked`, while it is.
    blocked_at: usize,
}

impl Entry {
    fn new(queue: &Arc<HwQueue>) -> Self {
        // Read before the memory, so that the memory is never older than this count says.
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

    /// Before the queue reaches memory: forgets what was flushed since it last did.
    #[inline]
    pub fn catch_up(&mut self) {
        let flushes = self.queue.partition.flushes();
        if flushes != self.view.flushes() {
            self.view.replace(self.queue.partition.memory(), flushes);
        }
    }

    /// Engine `engine`: has the guest's counters count the rings now, where no turn follows that would.
    #[cold]
    pub fn count_doorbells(&mut self, engine: u32) {
        let doorbells = std::mem::take(&mut self.doorbells);
        self.queue.partition.counters().add(engine, Tally { doorbells, ..Tally::default() });
    }

    /// Takes over another ring, or the loss of the ring. Drops what was begun of the old ring, which its
    /// owner took away.
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

    /// Whether this is the ring that the queue has now.
    pub fn has_ring(&self, binding: &Arc<RingBinding>) -> bool {
        self.execution.ring.as_ref().is_some_and(|ring| Arc::ptr_eq(&ring.binding, binding))
    }

    /// Whether the queue is not executed any more.
    pub fn is_dead(&self) -> bool {
        self.condition == Condition::Dead
    }

    /// Drops what the queue has begun; it is never executed again.
    pub fn kill(&mut self) {
        self.condition = Condition::Dead;
        self.execution = Execution::new();
    }
}

/// The list.
#[derive(Debug)]
pub struct RunList {
    /// By index; an index is in use until its queue is forgotten.
    entries: Vec<Option<Box<Entry>>>,
    free: Vec<u32>,
    /// Queues that wait for a turn, each at most once, as its condition says.
    schedule: Schedule,
    blocked: Vec<u32>,
}

impl RunList {
    /// No queues. `quantum` is how long a context keeps the engine while others of its guest and its
    /// priority wait.
    pub fn new(quantum: Duration) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            schedule: Schedule::new(quantum),
            blocked: Vec::new(),
        }
    }

    /// The index of a queue, which is taken onto the list if it is not there; `None` when it is
    /// destroyed.
    pub fn index_of(&mut self, queue: &Arc<HwQueue>) -> Option<u32> {
        if let Some(index) = queue.run_list_index() {
            // The queue may be forgotten, and its index another queue's.
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
                // Room for all queues, so that no turn allocates.
                let count = self.entries.len();
                self.blocked.reserve(count - self.blocked.len());
                self.free.reserve(count - self.free.len());
                index
            }
        };
        *self.entries.get_mut(index as usize)? = entry;
        self.schedule.add(index, queue.partition.id(), queue.context());
        queue.set_run_list_index(index);
        Some(index)
    }

    /// A queue on the list.
    #[inline]
    pub fn get(&mut self, index: u32) -> Option<&mut Entry> {
        #[cfg(test)]
        super::looks::note();
        self.entries.get_mut(index as usize)?.as_deref_mut()
    }

    /// The doorbell of a queue on the list rang. Has the queue wait for a turn if it is idle and `look` finds that it
    /// has something to do. Returns a queue that has, and that waits for a turn already, or for a fence.
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
        if entry.condition == Condition::Idle {
            entry.condition = Condition::Runnable;
            self.schedule.push(index, entry.queue.rank());
            return None;
        }
        Some(entry)
    }

    /// Whether some queue is in line.
    #[inline]
    pub fn is_runnable(&self) -> bool {
        !self.schedule.is_empty()
    }

    /// Whether a queue waits for a turn or for a fence. A suspended queue counts until its turn would have
    /// come.
    pub fn has_work(&self) -> bool {
        self.is_runnable() || !self.blocked.is_empty()
    }

    /// Has an idle queue wait for a turn; false when it is not idle.
    #[inline]
    pub fn make_runnable(&mut self, index: u32) -> bool {
        self.change(index, Condition::Idle, Condition::Runnable)
    }

    /// Picks the queue that gets the next turn. The queue is idle until the turn ends; the engine calls
    /// [`Self::end_turn`] then, before anything else here.
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

    /// The turn that [`Self::next`] gave to a queue is over, and it waits for the next, for a fence or
    /// for work. `time` is what it took, as far as that was measured.
    #[inline]
    pub fn end_turn(&mut self, index: u32, next: Turn, time: Option<Duration>) {
        if next != Turn::Idle || time.is_some() || !self.schedule.end_alone(index) {
            self.end_turn_beside(index, next, time);
        }
    }

    /// Ends a turn that has a time, or that others wait for.
    #[inline(never)]
    fn end_turn_beside(&mut self, index: u32, next: Turn, time: Option<Duration>) {
        let Some(Some(entry)) = self.entries.get_mut(index as usize) else { return };
        let weight = entry.queue.partition.weight();
        let again = (next == Turn::Runnable && entry.condition == Condition::Idle)
            .then(|| entry.queue.rank());
        if again.is_some() {
            entry.condition = Condition::Runnable;
        }
        self.schedule.end_turn(index, Ended { time: time.unwrap_or_default(), weight, again });
        if next == Turn::Blocked {
            self.change(index, Condition::Idle, Condition::Blocked);
        }
    }

    /// Has all queues that wait for fences wait for a turn: each looks at its fence first.
    pub fn unblock_all(&mut self) {
        while let Some(index) = self.blocked.pop() {
            self.change(index, Condition::Blocked, Condition::Runnable);
        }
    }

    #[inline]
    fn change(&mut self, index: u32, from: Condition, to: Condition) -> bool {
        #[cfg(test)]
        super::looks::note();
        let Some(Some(entry)) = self.entries.get_mut(index as usize) else { return false };
        if entry.condition != from {
            return false;
        }
        entry.condition = to;
        match to {
            Condition::Runnable => self.schedule.push(index, entry.queue.rank()),
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
            // A dead queue stays dead: its ring must not start again.
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

    /// Forgets a destroyed queue, at a cost that does not grow with what other guests have.
    pub fn forget(&mut self, index: u32) {
        let Some(entry) = self.entries.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        // A queue that died while it waited is still among the blocked.
        if self.blocked.get(entry.blocked_at) == Some(&index) {
            self.blocked.swap_remove(entry.blocked_at);
            let moved = self.blocked.get(entry.blocked_at).copied();
            if let Some(moved) = moved.and_then(|moved| self.get(moved)) {
                moved.blocked_at = entry.blocked_at;
            }
        }
        self.schedule.remove(index);
        self.free.push(index);
    }

    /// After a change of some guest's memory: lets go of the old memory, also for queues that have no turn
    /// soon.
    pub fn catch_up(&mut self) {
        for entry in self.entries.iter_mut().flatten() {
            #[cfg(test)]
            super::looks::note();
            entry.catch_up();
        }
    }
}
