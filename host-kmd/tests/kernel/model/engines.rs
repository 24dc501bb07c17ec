// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines that execute. They do only what an engine does: an engine looks at a ring when a doorbell that it watches
//! rings, when it is kicked, and when the queue is put back on the run list. Between two inputs of the kernel they do
//! what they were told, so a kernel that forgets to tell them finds nothing done.

use super::{Model, State};
use bellhop_host_kmd::hardware::{EngineState, Fault, GlobalFence, GuestId, HwQueueId, Interrupt};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Work given to a queue: it ends with a signal of the progress fence.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work {
    /// The new value of the progress fence.
    pub value: u64,
    /// The fence and the value that it waits for first.
    pub waits_for: Option<(GuestId, u32, u64)>,
    /// The submission fence of kernel-mode work.
    pub submission: Option<u64>,
}

/// The engines' state, and what they have been told since they last looked.
#[derive(Debug, Default)]
pub struct Engines {
    /// Whether they execute by themselves, rather than the test acting for them.
    pub on: bool,
    /// Contents of rings and submission queues, oldest first.
    given: BTreeMap<HwQueueId, VecDeque<Work>>,
    kicked: BTreeSet<HwQueueId>,
    /// Queues with work that want a turn, including those that wait for a fence.
    in_line: BTreeSet<HwQueueId>,
    /// Pending power transitions of engines: whether to power on, and the transition's number.
    transitions: BTreeMap<u32, (bool, u64)>,
    /// Engines that gave up their power.
    off: BTreeSet<u32>,
    /// Work executed, in order.
    executed: Vec<(HwQueueId, u64)>,
    /// What each stuck engine is stuck in.
    stuck: BTreeMap<u32, Stuck>,
    /// Whether an engine came out of what it was stuck in, since the last look.
    is_freed: bool,
}

/// A turn that does not end by itself, nor because its queue leaves the run list.
#[derive(Debug, Clone, Copy)]
struct Stuck {
    queue: HwQueueId,
    /// Whether only a reset of the adapter ends it.
    withstands: bool,
}

impl Engines {
    /// Gives a queue work, without making an engine look.
    pub fn give(&mut self, queue: HwQueueId, work: Work) {
        self.given.entry(queue).or_default().push_back(work);
    }

    /// Tells the queue's engine to look at it.
    pub fn kick(&mut self, queue: HwQueueId) {
        self.kicked.insert(queue);
    }

    /// Requests that an engine have power, or none.
    pub fn change_power(&mut self, node: u32, on: bool, transition: u64) {
        self.transitions.insert(node, (on, transition));
    }

    /// Takes the ring away, with its work.
    pub fn forget(&mut self, queue: HwQueueId) {
        self.given.remove(&queue);
        self.kicked.remove(&queue);
        self.in_line.remove(&queue);
    }

    /// Whether a queue has executed the work that ends with this value.
    pub fn has_executed(&self, queue: HwQueueId, value: u64) -> bool {
        self.executed.contains(&(queue, value))
    }

    /// An engine stands in a packet of this queue until it is reset, or until the adapter is, if it withstands that.
    pub fn stick(&mut self, node: u32, queue: HwQueueId, withstands: bool) {
        self.stuck.insert(node, Stuck { queue, withstands });
    }

    /// The queue that an engine is stuck in.
    pub fn stuck_in(&self, node: u32) -> Option<HwQueueId> {
        self.stuck.get(&node).map(|stuck| stuck.queue)
    }

    /// Whether an engine is stuck. It passes no ticket.
    pub fn is_any_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// An engine comes to the end of the packet that it was stuck in, and of its turn.
    pub fn leave(&mut self, node: u32) {
        self.stuck.remove(&node);
    }

    /// An engine gives up what it is stuck in. Returns the queue.
    fn free(&mut self, node: u32, with_the_adapter: bool) -> Option<HwQueueId> {
        let Stuck { queue, withstands } = *self.stuck.get(&node)?;
        if withstands && !with_the_adapter {
            return None;
        }
        self.stuck.remove(&node);
        self.is_freed = true;
        Some(queue)
    }

    /// Whether an engine has given up its power.
    pub fn is_off(&self, node: u32) -> bool {
        self.off.contains(&node)
    }
}

impl State {
    /// A queue that can execute: it is on the run list, its engine has power, and the fence that it waits for has its
    /// value.
    fn take_turn(&mut self, values: impl Fn(&State, GuestId, u32) -> u64) -> Option<HwQueueId> {
        let line: Vec<_> = self.engines.in_line.iter().copied().collect();
        line.into_iter().find(|queue| {
            let node = self.queues[queue].node;
            if self.engines.stuck_in(node).is_some() {
                return false;
            }
            let first = self.engines.given.get(queue).and_then(VecDeque::front);
            let Some(Work { waits_for, .. }) = first else { return false };
            let may =
                waits_for.is_none_or(|(guest, slot, value)| values(self, guest, slot) >= value);
            may && !self.engines.off.contains(&node)
        })
    }
}

impl Model {
    /// A guest writes its last-queued value and its ring.
    pub fn queue_work(&self, queue: HwQueueId, work: Work) {
        let mut state = self.state();
        state.last_queued.insert(queue, work.value);
        state.engines.give(queue, work);
    }

    /// A guest rings the queue's doorbell. If no engine watches it, the ring is missed.
    pub fn ring(&self, queue: HwQueueId) {
        let mut state = self.state();
        let is_watched = state.watches.values().any(|watched| *watched == queue);
        if is_watched || state.global_watches.contains(&queue) {
            state.engines.kick(queue);
        }
    }

    /// A reset ends what an engine is stuck in, if that does not withstand it.
    pub fn reset(&self, state: &mut State, node: u32, with_the_adapter: bool) {
        let was_stuck = state.engines.stuck_in(node).is_some();
        if let Some(queue) = state.engines.free(node, with_the_adapter) {
            state.engines.forget(queue);
            let fault = Fault::new(FaultReason::ENGINE_TIMEOUT, Opcode::DISPATCH, 0);
            state.interrupts.push(Interrupt::HwQueueFault { queue, fault });
            state.interrupts.push(Interrupt::EngineReset { node });
        } else if with_the_adapter && !was_stuck {
            state.interrupts.push(Interrupt::EngineReset { node });
        }
        if state.prompt && !state.engines.is_any_stuck() {
            state.pass_tickets();
        }
    }

    /// Engines do what they were told. Returns whether they raised an interrupt.
    pub fn run_engines(&self) -> bool {
        let mut state = self.state();
        if std::mem::take(&mut state.engines.is_freed) {
            return true;
        }
        if !state.engines.on {
            return false;
        }
        for queue in std::mem::take(&mut state.engines.kicked) {
            // The ring of a queue off the run list need not be resident; putting the queue back kicks it.
            let holds = state.engines.given.get(&queue).is_some_and(|given| !given.is_empty());
            if holds && !state.suspended.contains(&queue) {
                state.engines.in_line.insert(queue);
            }
        }
        let State { engines, suspended, queues, .. } = &mut *state;
        engines.in_line.retain(|queue| !suspended.contains(queue) && queues.contains_key(queue));
        let mut told = false;
        for (node, (on, transition)) in std::mem::take(&mut state.engines.transitions) {
            let has_work =
                state.engines.in_line.iter().any(|queue| state.queues[queue].node == node);
            if on || has_work {
                state.engines.off.remove(&node);
            } else {
                state.engines.off.insert(node);
            }
            if !on && has_work {
                let new_state = EngineState::Active { transition };
                state.interrupts.push(Interrupt::GpuEngineStateChange { node, new_state });
                told = true;
            }
        }
        let values = |state: &State, guest, slot| self.current(state.fences[&(guest, slot)]);
        while let Some(queue) = state.take_turn(values) {
            self.execute(&mut state, queue);
            told = true;
        }
        told
    }

    fn execute(&self, state: &mut State, id: HwQueueId) {
        let queue = state.queues[&id];
        if let Some(ring) = state.rings.get(&id) {
            let ring_va = ring.ring_va;
            assert!(state.mapped(queue.address_space, ring_va).is_some(), "the ring is evicted");
        }
        let given = state.engines.given.get_mut(&id).expect("a queue in line");
        let work = given.pop_front().expect("work");
        if given.is_empty() {
            state.engines.in_line.remove(&id);
        }
        state.engines.executed.push((id, work.value));
        self.signal_with(state, queue.guest, queue.progress_fence, work.value);
        if let Some(fence) = work.submission {
            state.completed.insert(id, fence);
            let (node, engine) = (queue.node, 0);
            state.interrupts.push(Interrupt::DmaCompleted { node, engine, fence });
        }
    }

    /// An engine signals a fence.
    pub fn signal_with(&self, state: &mut State, guest: GuestId, slot: u32, value: u64) {
        let fence = state.fences.get_mut(&(guest, slot)).unwrap();
        if self.current(*fence) == u64::MAX {
            // It is permanently signaled.
            return;
        }
        self.set_current(fence, value);
        if value > fence.monitored {
            let signaled = vec![GlobalFence { guest, slot }];
            let interrupt = if fence.storage.native {
                let evaluate_legacy_monitored_fences = false;
                Interrupt::NativeFenceSignaled { signaled, evaluate_legacy_monitored_fences }
            } else {
                Interrupt::MonitoredFenceSignaled { signaled }
            };
            state.interrupts.push(interrupt);
        }
    }
}
