// SPDX-License-Identifier: MIT OR Apache-2.0

//! A HW queue, shared by its engine and the control plane.
//!
//! Only the engine has its execution state: see `engine::run_list`.

use super::busy::Busy;
use super::fence::logs::FenceLogs;
use super::partition::Partition;
use crate::gpu::memory::bar::BarDoorbell;
use crate::gpu::memory::page_table::AddressSpace;
use crate::gpu::shared::rank::{Party, Rank};
use crate::gpu::shared::watching::Watching;
use arc_swap::ArcSwapOption;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, Fault, HwContextId, HwQueueId, KernelSubmission, ProcessShare, RingBinding,
    SchedulingPriority,
};
use bellhop_protocol::control::process::DEFAULT_WEIGHT;
use bellhop_protocol::handoff::pending::Pending;
use bellhop_protocol::handoff::preemption::Preemption;
use bellhop_protocol::handoff::publication;
use bellhop_protocol::handoff::run_list::Membership;
use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Maximum number of waiting kernel-mode submissions.
pub const SUBMISSIONS: usize = 256;

/// Not yet on the engine's run list.
const NOT_LISTED: u32 = u32::MAX;

/// The owner of a HW queue's work, which determines how completion is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A process of the guest.
    Guest {
        /// The guest's context that the queue belongs to.
        context: HwContextId,
        /// The process that owns the fences its packets may name.
        process: AddressSpaceId,
        /// The process's part of its guest's engine time.
        share: ProcessShare,
        /// Slot of its progress fence.
        progress_fence: u32,
        /// Whether the queue may make no progress for any length of time.
        disable_gpu_timeout: bool,
    },
    /// The host, in the guest's system context.
    System,
}

/// A HW queue.
#[derive(Debug)]
pub struct HwQueue {
    /// Its id.
    pub id: HwQueueId,
    /// The engine that executes it.
    pub engine: u32,
    /// The guest that owns the queue.
    pub partition: Arc<Partition>,
    /// The address space that its packets use.
    pub space: Arc<AddressSpace>,
    /// The owner of its work.
    pub role: Role,
    /// Its logs.
    pub logs: FenceLogs,
    /// Its ring. The engine looks here when it is kicked and when it begins to watch.
    pub ring: ArcSwapOption<RingBinding>,
    /// Kernel-mode submissions. The `ArrayQueue` hands over their content.
    pub submissions: ArrayQueue<KernelSubmission>,
    /// Whether the engine may execute it.
    pub membership: Membership,
    /// Tells the control plane that the engine has left the queue.
    pub preemption: Preemption,
    /// Engine time of its turns.
    pub busy: Busy,
    /// Whether the queue is among its engine's kicks and the engine has yet to look at it.
    pub kicked: Pending,
    /// The place where its engine watches for rings.
    pub watching: Watching,
    /// Whether the control plane was told that the queue logged a signal with a CPU waiter, and has yet to read the
    /// log.
    pub logged: Pending,
    settling: AtomicBool,
    fault: OnceLock<Fault>,
    fault_reported: AtomicBool,
    lost: AtomicBool,
    completed: AtomicU64,
    completion: Pending,
    priority: AtomicI8,
    run_list_index: AtomicU32,
    last_use: AtomicU64,
}

impl HwQueue {
    /// An idle queue.
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
            kicked: Pending::new(),
            watching: Watching::default(),
            logged: Pending::new(),
            settling: AtomicBool::new(false),
            fault: OnceLock::new(),
            fault_reported: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            completed: AtomicU64::new(0),
            completion: Pending::new(),
            preemption: Preemption::new(),
            busy: Busy::default(),
            priority: AtomicI8::new(SchedulingPriority::default().number()),
            run_list_index: AtomicU32::new(NOT_LISTED),
            last_use: AtomicU64::new(0),
        }
    }

    /// Returns whether the queue executes paging buffers.
    #[inline]
    pub fn is_system(&self) -> bool {
        matches!(self.role, Role::System)
    }

    /// Slot of its progress fence, if it has one.
    pub fn progress_fence(&self) -> Option<u32> {
        match self.role {
            Role::Guest { progress_fence, .. } => Some(progress_fence),
            Role::System => None,
        }
    }

    /// The process that owns the fences its packets may name.
    #[inline]
    pub fn process(&self) -> AddressSpaceId {
        match self.role {
            Role::Guest { process, .. } => process,
            Role::System => self.space.id(),
        }
    }

    /// Returns whether the queue counts as hung when it makes no progress for too long.
    #[inline]
    pub fn has_timeout(&self) -> bool {
        !matches!(self.role, Role::Guest { disable_gpu_timeout: true, .. })
    }

    /// Control plane: sets whether rings may still miss the doorbell's page. While they may, the guest notifies
    /// after each ring.
    pub fn set_settling(&self, settling: bool) {
        // Relaxed, and an engine may see it late: see `is_settling`.
        self.settling.store(settling, Ordering::Relaxed);
    }

    /// Engine, when it wakes: returns whether to leave the doorbell's status at `CONNECTED_NOTIFY`. A stale answer
    /// loses no ring, since the engine looks at the ring before it sleeps; it only sees the ring later.
    pub fn is_settling(&self) -> bool {
        self.settling.load(Ordering::Relaxed)
    }

    /// Control plane: the queue is never executed again. The engine must then be kicked, which hands this over.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Engine, when it was kicked: returns whether to drop what the queue has begun.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Engine: stores the queue's fault for [`Self::report_fault`].
    pub fn set_fault(&self, fault: Fault) {
        // A queue with a fault is not executed, so it has no second fault to lose.
        let _ = self.fault.set(fault);
    }

    /// Control plane: takes the queue's fault, once.
    pub fn report_fault(&self) -> Option<Fault> {
        let fault = self.fault.get()?;
        (!self.fault_reported.swap(true, Ordering::Relaxed)).then_some(*fault)
    }

    /// Control plane: sets the priority of the queue's context.
    pub fn set_priority(&self, priority: SchedulingPriority) {
        // Relaxed: it hands nothing over, and an engine may see it late.
        self.priority.store(priority.number(), Ordering::Relaxed);
    }

    /// The guest's context of the queue; `None` for the system context.
    pub fn context(&self) -> Option<HwContextId> {
        match self.role {
            Role::Guest { context, .. } => Some(context),
            Role::System => None,
        }
    }

    /// Whose part of its guest's engine time its turns use; `None` for the system context.
    pub fn party(&self) -> Option<Party> {
        match self.role {
            Role::Guest { share, .. } => Some(Party(share.group)),
            Role::System => None,
        }
    }

    /// Engine: the weight of its process among its guest's processes.
    #[inline]
    pub fn process_weight(&self) -> u32 {
        match self.role {
            Role::Guest { share, .. } => share.weight,
            Role::System => DEFAULT_WEIGHT,
        }
    }

    /// Engine: the rank of its context.
    #[inline]
    pub fn rank(&self) -> Rank {
        if self.is_system() {
            return Rank::System;
        }
        let priority = self.priority.load(Ordering::Relaxed);
        Rank::Priority(SchedulingPriority::new(priority.into()).unwrap_or_default())
    }

    /// Engine: completes a kernel-mode submission. Returns true if the engine must interrupt, and false if the
    /// control plane has yet to handle an earlier interrupt.
    pub fn complete(&self, submission_fence: u64) -> bool {
        // Pairs with the read in `last_completed`.
        publication::publish(&self.completed, submission_fence);
        self.completion.mark()
    }

    /// Control plane: the last completed submission fence, once per interrupt that [`Self::complete`] asked for.
    pub fn report_completion(&self) -> Option<u64> {
        self.completion.take().then(|| self.last_completed())
    }

    /// The submission fence id of the last completed kernel-mode submission, or 0.
    pub fn last_completed(&self) -> u64 {
        publication::read(&self.completed)
    }

    /// Engine: the queue's position on its run list. Only the engine reads or writes this.
    #[inline]
    pub fn run_list_index(&self) -> Option<u32> {
        let index = self.run_list_index.load(Ordering::Relaxed);
        (index != NOT_LISTED).then_some(index)
    }

    /// Engine: stores the queue's position on its run list.
    pub fn set_run_list_index(&self, index: u32) {
        self.run_list_index.store(index, Ordering::Relaxed);
    }

    /// Engine or control plane: stamps a use of the doorbell. Relaxed: of two concurrent stores the earlier stamp
    /// may win, and it is older by at most the time between them.
    #[inline]
    pub fn use_doorbell(&self, now: u64) {
        self.last_use.store(now, Ordering::Relaxed);
    }

    /// The stamp of the doorbell's last use: see [`uses`](super::uses).
    pub fn last_use(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }

    /// The words of a ring's doorbell.
    #[inline]
    pub fn doorbell(&self, ring: &RingBinding) -> Option<BarDoorbell<'_>> {
        self.partition.bar().doorbell(ring.slot)
    }
}
