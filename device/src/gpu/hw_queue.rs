//! A HW queue: what its engine and the control plane share of it.
//!
//! What the engine knows about executing it is the engine's alone: see `run_list`.

use super::busy::Busy;
use super::fence_logs::FenceLogs;
use super::page_table::AddressSpace;
use super::partition::Partition;
use super::schedule::Rank;
use arc_swap::ArcSwapOption;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, Fault, HwContextId, HwQueueId, KernelSubmission, RingBinding,
    SchedulingPriority,
};
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::preemption::Preemption;
use bellhop_protocol::handoff::run_list::Membership;
use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How many kernel-mode submissions wait at most.
pub const SUBMISSIONS: usize = 256;

/// Not on the engine's run list yet.
const NOT_LISTED: u32 = u32::MAX;

/// Whose work a HW queue executes, and how that is told to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A guest's process's.
    Guest {
        /// Its context, among the guest's.
        context: HwContextId,
        /// The process, whose fences its packets may name.
        process: AddressSpaceId,
        /// Slot of its progress fence.
        progress_fence: u32,
        /// It may make no progress for as long as it likes.
        disable_gpu_timeout: bool,
    },
    /// The host's own, in the guest's system context.
    System,
}

/// A HW queue.
#[derive(Debug)]
pub struct HwQueue {
    /// Its id.
    pub id: HwQueueId,
    /// The engine that executes it.
    pub engine: u32,
    /// Whose it is.
    pub partition: Arc<Partition>,
    /// Through which its addresses are translated.
    pub space: Arc<AddressSpace>,
    /// Whose work it executes.
    pub role: Role,
    /// Its logs.
    pub logs: FenceLogs,
    /// Its ring. The engine looks here when it is kicked and when it begins to watch.
    pub ring: ArcSwapOption<RingBinding>,
    /// What was submitted in kernel mode. The queue's own ordering hands over the content.
    pub submissions: ArrayQueue<KernelSubmission>,
    /// Whether the engine may execute it.
    pub membership: Membership,
    /// How the control plane learns that the engine has left it.
    pub preemption: Preemption,
    /// How long its turns took.
    pub busy: Busy,
    kicked: AtomicBool,
    settling: AtomicBool,
    fault: OnceLock<Fault>,
    fault_reported: AtomicBool,
    completed: AtomicU64,
    completion_pending: AtomicBool,
    logged: AtomicBool,
    priority: AtomicI8,
    run_list_index: AtomicU32,
    last_use: AtomicU64,
}

impl HwQueue {
    /// A queue that has nothing to do.
    pub fn new(
        id: HwQueueId,
        engine: u32,
        partition: Arc<Partition>,
        space: Arc<AddressSpace>,
        role: Role,
    ) -> Self {
        Self {
            id,
            engine,
            partition,
            space,
            role,
            logs: FenceLogs::default(),
            ring: ArcSwapOption::empty(),
            submissions: ArrayQueue::new(SUBMISSIONS),
            membership: Membership::new(),
            kicked: AtomicBool::new(false),
            settling: AtomicBool::new(false),
            fault: OnceLock::new(),
            fault_reported: AtomicBool::new(false),
            completed: AtomicU64::new(0),
            completion_pending: AtomicBool::new(false),
            logged: AtomicBool::new(false),
            preemption: Preemption::new(),
            busy: Busy::default(),
            priority: AtomicI8::new(SchedulingPriority::default().number()),
            run_list_index: AtomicU32::new(NOT_LISTED),
            last_use: AtomicU64::new(0),
        }
    }

    /// Whether it executes paging buffers.
    #[inline]
    pub fn is_system(&self) -> bool {
        self.role == Role::System
    }

    /// Slot of its progress fence, if it has one.
    pub fn progress_fence(&self) -> Option<u32> {
        match self.role {
            Role::Guest { progress_fence, .. } => Some(progress_fence),
            Role::System => None,
        }
    }

    /// Whose fences its packets may name.
    #[inline]
    pub fn process(&self) -> AddressSpaceId {
        match self.role {
            Role::Guest { process, .. } => process,
            Role::System => self.space.id(),
        }
    }

    /// Whether it hangs when it makes no progress for too long.
    #[inline]
    pub fn has_timeout(&self) -> bool {
        !matches!(self.role, Role::Guest { disable_gpu_timeout: true, .. })
    }

    /// Control plane: whether the queue must be put among the engine's kicks; false when it is
    /// there already.
    pub fn begin_kick(&self) -> bool {
        !self.kicked.swap(true, Ordering::AcqRel)
    }

    /// Engine: looks at the queue now. A kick from here on puts it among the kicks again; one
    /// before that found it there happened before this. Pairs with [`Self::begin_kick`].
    pub fn end_kick(&self) {
        self.kicked.swap(false, Ordering::AcqRel);
    }

    /// Control plane: whether rings of the doorbell may still miss its page; the guest then notifies
    /// after each.
    pub fn set_settling(&self, settling: bool) {
        // Relaxed, and an engine may see it late: see `is_settling`.
        self.settling.store(settling, Ordering::Relaxed);
    }

    /// Engine: whether to leave the doorbell's status at `CONNECTED_NOTIFY` when it wakes. Not doing
    /// so loses no ring, since it looks at the ring before it sleeps; it only would see it later.
    pub fn is_settling(&self) -> bool {
        self.settling.load(Ordering::Relaxed)
    }

    /// Engine: keeps what the queue did wrong for [`Self::report_fault`].
    pub fn set_fault(&self, fault: Fault) {
        // A queue with a fault is not executed, so there is no second one to be lost here.
        let _ = self.fault.set(fault);
    }

    /// Control plane: what the queue did wrong, once.
    pub fn report_fault(&self) -> Option<Fault> {
        let fault = self.fault.get()?;
        (!self.fault_reported.swap(true, Ordering::Relaxed)).then_some(*fault)
    }

    /// Control plane: how urgent the queue's work is.
    pub fn set_priority(&self, priority: SchedulingPriority) {
        // Relaxed: nothing else comes with it, and an engine may see it late.
        self.priority.store(priority.number(), Ordering::Relaxed);
    }

    /// With which of the guest's contexts it shares the engine; `None` for the system context.
    pub fn context(&self) -> Option<HwContextId> {
        match self.role {
            Role::Guest { context, .. } => Some(context),
            Role::System => None,
        }
    }

    /// Engine: in which line its context stands.
    #[inline]
    pub fn rank(&self) -> Rank {
        if self.is_system() {
            return Rank::System;
        }
        let priority = self.priority.load(Ordering::Relaxed);
        Rank::Priority(SchedulingPriority::new(priority.into()).unwrap_or_default())
    }

    /// Engine: a kernel-mode submission is done. True when the control plane must be told; false when
    /// it has been and has not looked yet.
    pub fn complete(&self, submission_fence: u64) -> bool {
        self.completed.store(submission_fence, Ordering::Release);
        // Pairs with the exchange in `report_completion`: if this finds one pending, whoever takes
        // that one sees what was stored before this.
        !self.completion_pending.swap(true, Ordering::AcqRel)
    }

    /// Control plane: the last submission fence that is done, once for each time that
    /// [`Self::complete`] asked for it.
    pub fn report_completion(&self) -> Option<u64> {
        let is_pending = self.completion_pending.swap(false, Ordering::AcqRel);
        is_pending.then(|| self.last_completed())
    }

    /// Engine: has logged a signal that somebody waits for. True when the control plane must be told; false
    /// when it has been and has not looked yet.
    pub fn log(&self) -> bool {
        // Pairs with the exchange in `report_log`, as in `complete`.
        !self.logged.swap(true, Ordering::AcqRel)
    }

    /// Control plane, before it reads the log: whether it was told of it.
    pub fn report_log(&self) -> bool {
        self.logged.swap(false, Ordering::AcqRel)
    }

    /// The submission fence id of the last kernel-mode submission that is done; 0 when none is.
    pub fn last_completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Engine: where the queue is on its run list. Only the engine reads or writes this.
    #[inline]
    pub fn run_list_index(&self) -> Option<u32> {
        let index = self.run_list_index.load(Ordering::Relaxed);
        (index != NOT_LISTED).then_some(index)
    }

    /// Engine: remembers where the queue is on its run list.
    pub fn set_run_list_index(&self, index: u32) {
        self.run_list_index.store(index, Ordering::Relaxed);
    }

    /// Whoever uses its doorbell, or sees that it was used: remembers when. Relaxed: of an engine and the
    /// control plane that store at once, the later may lose by what came in between.
    #[inline]
    pub fn use_doorbell(&self, now: u64) {
        self.last_use.store(now, Ordering::Relaxed);
    }

    /// When its doorbell was used last: see [`uses`](super::uses).
    pub fn last_use(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }

    /// The words of a ring's doorbell.
    #[inline]
    pub fn doorbell(&self, ring: &RingBinding) -> Option<DoorbellWords<'_>> {
        self.partition.bar().doorbell(ring.slot)
    }
}
