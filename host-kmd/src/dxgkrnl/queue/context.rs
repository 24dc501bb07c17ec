// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts: whether each is on the run list, and if not, why.

use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::node::NodeSubmission;
use crate::hardware::SchedulingPriority;
use bellhop_protocol::control::Handle;
use bitflags::bitflags;
use std::collections::BTreeSet;

bitflags! {
    /// Why a context is off the run list.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Suspension: u8 {
        /// Its owner suspended it.
        const OWNER = 1 << 0;
        /// The host's operator suspended it.
        const HOST = 1 << 1;
        /// The device has no power, or is about to lose it.
        const POWER = 1 << 2;
        /// It is in error, or its process ended abnormally. Permanent.
        const ERROR = 1 << 3;
        /// Memory of its process is being moved, or was taken away.
        const MEMORY = 1 << 4;
    }
}

/// The life of a context.
///
/// ```text
///             ┌──suspend (the first who wants it)──┐
///             │                                    v
///  create ──> Running                          Suspended ──error──> Lost
///             ^                                    │                 ^
///             └──resume (the last who wanted it)───┘                 │
///             └───────────────────────error──────────────────────────┘
/// ```
/// A context runs while nothing suspends it. A lost context stays suspended until it is destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextState(Suspension);

/// What a transition requires of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// `DxgkDdiSuspendContext`
    Suspend,
    /// `DxgkDdiResumeContext`
    Resume,
}

impl ContextState {
    /// The initial state.
    pub(crate) const CREATED: Self = Self(Suspension::empty());

    /// Adds a reason for its suspension.
    pub(crate) fn suspend(&mut self, by: Suspension) -> Option<Change> {
        let was_running = self.is_running();
        self.0 |= by;
        was_running.then_some(Change::Suspend)
    }

    /// Removes a reason for its suspension.
    pub(crate) fn resume(&mut self, by: Suspension) -> Option<Change> {
        let was_running = self.is_running();
        self.0 -= by - Suspension::ERROR;
        (self.is_running() && !was_running).then_some(Change::Resume)
    }

    /// Whether its queues are on the run list.
    pub(crate) fn is_running(self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is off the run list permanently.
    pub(crate) fn is_lost(self) -> bool {
        self.0.contains(Suspension::ERROR)
    }

    /// Why it is off the run list, for tools.
    pub(crate) fn suspended_by(self) -> Vec<String> {
        self.0.iter_names().map(|(name, _)| name.to_lowercase()).collect()
    }

    /// Whether any of these reasons suspends it.
    pub(crate) fn is_suspended_by(self, any: Suspension) -> bool {
        self.0.intersects(any)
    }

    /// Whether its queues are off the run list only because the device has no power.
    pub(crate) fn waits_for_power(self) -> bool {
        self.0 == Suspension::POWER
    }
}

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    /// The device that owns it.
    device: Handle,
    /// The node that executes its queues.
    node: u32,
    /// Its HW queues.
    hw_queues: BTreeSet<Handle>,
    /// Whether it is on the run list.
    state: ContextState,
    /// How it submits to its node; `None` for a context with HW queues of the guest.
    node_submission: Option<NodeSubmission>,
    /// Its scheduling priority.
    priority: SchedulingPriority,
    /// Whether it is about to be destroyed.
    terminating: bool,
}

impl Context {
    /// Creates a running context for HW queues, without queues.
    pub(crate) fn new(device: Handle, node: u32) -> Self {
        Self {
            device,
            node,
            hw_queues: BTreeSet::new(),
            state: ContextState::CREATED,
            node_submission: None,
            priority: SchedulingPriority::default(),
            terminating: false,
        }
    }

    /// Refuses a context that is lost or about to be destroyed: a queue that is created in it could not do its work.
    pub(crate) fn check_alive(&self, handle: Handle) -> Result<(), RequestError> {
        let is_lost = self.state.is_lost() || self.terminating;
        if is_lost { Err(RequestError::DeviceRemoved(handle)) } else { Ok(()) }
    }

    /// Marks it as about to be destroyed.
    pub(crate) fn begin_termination(&mut self) {
        self.terminating = true;
    }

    /// The device that owns it.
    pub(crate) fn device(&self) -> Handle {
        self.device
    }

    /// The node that executes its queues.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// Its HW queues.
    pub(crate) fn hw_queues(&self) -> &BTreeSet<Handle> {
        &self.hw_queues
    }

    /// Adds a HW queue.
    pub(crate) fn add_hw_queue(&mut self, queue: Handle) {
        self.hw_queues.insert(queue);
    }

    /// Removes a HW queue.
    pub(crate) fn remove_hw_queue(&mut self, queue: Handle) {
        self.hw_queues.remove(&queue);
    }

    /// Whether it is on the run list.
    pub(crate) fn state(&self) -> ContextState {
        self.state
    }

    /// See [`ContextState::suspend`].
    pub(crate) fn suspend(&mut self, by: Suspension) -> Option<Change> {
        self.state.suspend(by)
    }

    /// See [`ContextState::resume`].
    pub(crate) fn resume(&mut self, by: Suspension) -> Option<Change> {
        self.state.resume(by)
    }

    /// How it submits to its node; `None` for a context with HW queues of the guest.
    pub(crate) fn node_submission(&self) -> Option<NodeSubmission> {
        self.node_submission
    }

    /// Makes it submit to its node.
    pub(crate) fn set_node_submission(&mut self, submission: NodeSubmission) {
        self.node_submission = Some(submission);
    }

    /// Counts a submission to its node.
    pub(crate) fn count_submission(&mut self) {
        if let Some(submission) = &mut self.node_submission {
            submission.count();
        }
    }

    /// Its scheduling priority.
    pub(crate) fn priority(&self) -> SchedulingPriority {
        self.priority
    }

    /// Sets its scheduling priority.
    pub(crate) fn set_priority(&mut self, priority: SchedulingPriority) {
        self.priority = priority;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn who() -> impl Strategy<Value = Suspension> {
        proptest::sample::select(Suspension::all().iter().collect::<Vec<_>>())
    }

    proptest! {
        /// The reference's rules: the driver is asked to suspend a running context and to resume a suspended one,
        /// never twice in a row; a lost context is never resumed.
        #[test]
        fn the_driver_is_asked_in_turn_and_a_lost_context_stays_off_the_list(
            steps in proptest::collection::vec((any::<bool>(), who()), 0..40),
        ) {
            let mut state = ContextState::CREATED;
            let mut listed = true;
            let mut holders = Suspension::empty();
            for (suspend, by) in steps {
                let change = if suspend { state.suspend(by) } else { state.resume(by) };
                if suspend {
                    holders |= by;
                } else if by != Suspension::ERROR {
                    holders -= by;
                }
                match change {
                    Some(Change::Suspend) => {
                        prop_assert!(listed);
                        listed = false;
                    }
                    Some(Change::Resume) => {
                        prop_assert!(!listed);
                        listed = true;
                    }
                    None => {}
                }
                prop_assert_eq!(listed, holders.is_empty());
                prop_assert_eq!(state.is_running(), listed);
                // Whether powering up the device would make the kernel ask the driver to resume the context.
                let mut powered = state;
                let resumes = powered.resume(Suspension::POWER) == Some(Change::Resume);
                prop_assert_eq!(state.waits_for_power(), resumes);
            }
        }
    }
}
