//! Contexts: streams of work for one node, and whether they are on the run list.
//!
//! Source: user-mode work submission, "Hardware context suspension".

use super::device::Device;
use super::error::RequestError;
use super::hw_queue::HwQueue;
use super::node_context::NodeSubmission;
use super::request::{Answer, Handled, zero};
use super::scope::Scope;
use super::termination::{Manner, Target};
use crate::hardware::{HwQueueId, SchedulingPriority};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::context::{
    CreateContext, DestroyContext, ResumeContext, SetContextSchedulingPriority, SuspendContext,
};
use bitflags::bitflags;
use std::collections::BTreeSet;

/// The engines of a node, a bit each: every node has one.
const ENGINES: u32 = 1;

bitflags! {
    /// Who keeps a context off the run list.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Suspension: u8 {
        /// Its owner.
        const OWNER = 1 << 0;
        /// Whoever runs the host.
        const HOST = 1 << 1;
        /// The device has no power, or is about to lose it.
        const POWER = 1 << 2;
        /// It is in error, or its process ended abnormally. For good.
        const ERROR = 1 << 3;
        /// Memory of its process is moved, or was taken away.
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
/// It is running while nobody suspends it. One that is lost is suspended until it is destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContextState(Suspension);

/// What a transition asks of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// `DxgkDdiSuspendContext`
    Suspend,
    /// `DxgkDdiResumeContext`
    Resume,
}

impl ContextState {
    /// How a context begins.
    pub(super) const CREATED: Self = Self(Suspension::empty());

    /// Somebody suspends it.
    pub(super) fn suspend(&mut self, by: Suspension) -> Option<Change> {
        let was_running = self.is_running();
        self.0 |= by;
        was_running.then_some(Change::Suspend)
    }

    /// Somebody who suspended it does so no more.
    pub(super) fn resume(&mut self, by: Suspension) -> Option<Change> {
        let was_running = self.is_running();
        self.0 -= by - Suspension::ERROR;
        (self.is_running() && !was_running).then_some(Change::Resume)
    }

    /// Whether its queues are on the run list.
    pub(super) fn is_running(self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is off the run list for good.
    pub(super) fn is_lost(self) -> bool {
        self.0.contains(Suspension::ERROR)
    }

    /// Who keeps it off the run list, for tools.
    pub(super) fn suspended_by(self) -> Vec<String> {
        self.0.iter_names().map(|(name, _)| name.to_lowercase()).collect()
    }

    /// Whether any of these keeps it off the run list.
    pub(super) fn is_suspended_by(self, any: Suspension) -> bool {
        self.0.intersects(any)
    }

    /// Whether its queues are off the run list only because the device has no power.
    pub(super) fn waits_for_power(self) -> bool {
        self.0 == Suspension::POWER
    }
}

/// A context.
#[derive(Debug)]
pub(super) struct Context {
    /// The device that it goes with.
    pub(super) device: Handle,
    /// The node that executes its queues.
    pub(super) node: u32,
    /// Its HW queues.
    pub(super) hw_queues: BTreeSet<Handle>,
    /// Whether it is on the run list.
    pub(super) state: ContextState,
    /// How it submits to its node, if it is not for HW queues.
    pub(super) node_submission: Option<NodeSubmission>,
    /// How urgent its work is.
    pub(super) priority: SchedulingPriority,
}

impl Scope<'_> {
    /// `D3DKMTCreateContextVirtual`.
    pub(super) fn create_context(&mut self, request: CreateContext) -> Handled<Handle> {
        let CreateContext { device, node, engine_affinity } = request;
        if engine_affinity & !ENGINES != 0 {
            return Err(RequestError::parameter("engine_affinity", engine_affinity.into()));
        }
        Ok(Answer::Done(self.insert_context(device, node)?))
    }

    /// Makes a context on a device that is not in error, for HW queues.
    pub(super) fn insert_context(
        &mut self,
        device: Handle,
        node: u32,
    ) -> Result<Handle, RequestError> {
        if self.get::<Device>(device)?.in_error {
            return Err(RequestError::DeviceRemoved(device));
        }
        self.node(node)?;
        let (hw_queues, state) = (BTreeSet::new(), ContextState::CREATED);
        let (priority, node_submission) = (SchedulingPriority::default(), None);
        let context =
            self.insert(Context { device, node, hw_queues, state, priority, node_submission })?;
        self.get_mut::<Device>(device)?.contexts.insert(context);
        if self.is_held() {
            self.suspend_context(context, Suspension::MEMORY)?;
        }
        Ok(context)
    }

    /// `D3DKMTDestroyContext`.
    pub(super) fn destroy_context(&mut self, request: DestroyContext) -> Handled<()> {
        self.get::<Context>(request.context)?;
        Ok(Answer::Terminate(Target::Context(request.context), Manner::Normal))
    }

    /// Its owner suspends a context.
    pub(super) fn suspend_own_context(&mut self, request: SuspendContext) -> Handled<()> {
        self.suspend_context(request.context, Suspension::OWNER)?;
        Ok(Answer::AfterQuiesce)
    }

    /// Its owner resumes a context.
    pub(super) fn resume_own_context(&mut self, request: ResumeContext) -> Handled<()> {
        self.resume_context(request.context, Suspension::OWNER)?;
        Ok(Answer::Done(()))
    }

    /// `D3DKMTSetContextSchedulingPriority`.
    pub(super) fn set_context_scheduling_priority(
        &mut self,
        request: SetContextSchedulingPriority,
    ) -> Handled<()> {
        zero("reserved", request.reserved)?;
        let queues = self.queue_ids(request.context)?;
        // What the guest gave, as the unsigned number that its bits are.
        let refused = RequestError::parameter("priority", request.priority.cast_unsigned().into());
        let priority = SchedulingPriority::new(request.priority).ok_or(refused)?;
        self.get_mut::<Context>(request.context)?.priority = priority;
        self.miniport.set_context_scheduling_priority(&queues, priority);
        Ok(Answer::Done(()))
    }

    /// Suspends a context. Its engine has left it once a later ticket has passed.
    pub(super) fn suspend_context(
        &mut self,
        handle: Handle,
        by: Suspension,
    ) -> Result<(), RequestError> {
        if self.get_mut::<Context>(handle)?.state.suspend(by) == Some(Change::Suspend) {
            let queues = self.queue_ids(handle)?;
            self.miniport.suspend_context(&queues);
        }
        Ok(())
    }

    /// Resumes a context that is suspended by nobody else. Its engine gets its power back.
    pub(super) fn resume_context(
        &mut self,
        handle: Handle,
        by: Suspension,
    ) -> Result<(), RequestError> {
        let context = self.get_mut::<Context>(handle)?;
        let node = context.node;
        if context.state.resume(by) == Some(Change::Resume) {
            let queues = self.live_queue_ids(handle)?;
            if !queues.is_empty() {
                self.power.wake_engine(node, self.miniport);
            }
            self.miniport.resume_context(&queues);
            for queue in self.get::<Context>(handle)?.hw_queues.clone() {
                self.look_at_software_queue(queue);
            }
        }
        Ok(())
    }

    /// A context's queues as the GPU knows them.
    fn queue_ids(&self, context: Handle) -> Result<Vec<HwQueueId>, RequestError> {
        let queues = self.get::<Context>(context)?.hw_queues.iter();
        queues.map(|queue| Ok(self.get::<HwQueue>(*queue)?.id)).collect()
    }

    /// Those of them that are not lost: a lost one is executed no more, whatever its context does.
    fn live_queue_ids(&self, context: Handle) -> Result<Vec<HwQueueId>, RequestError> {
        let mut ids = Vec::new();
        for queue in &self.get::<Context>(context)?.hw_queues {
            let queue = self.get::<HwQueue>(*queue)?;
            ids.extend((!queue.in_error).then_some(queue.id));
        }
        Ok(ids)
    }

    /// Destroys a context and its HW queues.
    pub(super) fn remove_context(&mut self, handle: Handle) -> Result<(), RequestError> {
        let context = self.remove::<Context>(handle)?;
        for hw_queue in context.hw_queues {
            self.remove_hw_queue(hw_queue)?;
        }
        if let Some(submission) = context.node_submission {
            self.remove_command_buffer(submission)?;
        }
        // The device is gone already when it takes its contexts with it.
        if let Ok(device) = self.get_mut::<Device>(context.device) {
            device.contexts.remove(&handle);
        }
        Ok(())
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
        /// The reference's rules: the driver is asked to suspend a running context and to resume a
        /// suspended one, never twice in a row, and a lost one is never resumed.
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
                // What giving the device its power would have the driver asked for.
                let mut powered = state;
                let resumes = powered.resume(Suspension::POWER) == Some(Change::Resume);
                prop_assert_eq!(state.waits_for_power(), resumes);
            }
        }
    }
}
