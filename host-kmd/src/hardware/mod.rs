//! What a miniport can do to a GPU, and what the GPU tells back.
//!
//! This trait is the whole border between the control plane and the data plane: the device crate
//! implements it over engine threads, tests implement it over a few maps. No call blocks on an
//! engine: what must wait for one is asked for with [`Hardware::quiesce`] and reported by an
//! interrupt.

mod fence;
mod observe;
mod priority;
mod pte;

pub use fence::{
    FENCE_LOGS_SIZE, FENCES_PER_PAGE, FenceLogBuffer, FenceStorage, GlobalFence, QueueLog,
    SlotValue, fence_log_address, fence_segment_size, fence_storage_size,
};
pub use observe::{BusyOf, EXECUTED, FrontEnd, HostClocks, Observe};
pub use priority::SchedulingPriority;
pub use pte::{ACCESSED, DriverProtection, PhysicalAddress, PhysicalPage, Pte, Segment};

use crate::ddi::VirtualAddressingModel;
use crate::ddi::paging::PageSize;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::adapter::{EngineType, Statistics};
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::doorbell::{ConnectionStatus, LoggingLevel};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::fence_log::FenceLog;
use bellhop_protocol::packet::Opcode;

/// A guest attached to the adapter: one vhost-user connection. Ids are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestId(pub u64);

/// A process's GPU address space. Ids are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressSpaceId(pub u64);

/// A HW queue as the GPU knows it. Ids are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HwQueueId(pub u64);

/// A context as the GPU knows it, among its guest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HwContextId(pub u64);

/// One of the GPU's physical doorbells, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalDoorbell(pub u32);

/// How queues and doorbells go together, for all of an adapter's guests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DoorbellModel {
    /// Each HW queue has a doorbell of its own, which one of few physical doorbells watches.
    #[default]
    Dedicated,
    /// All HW queues of a guest ring one doorbell, and everything rung is seen.
    Global,
}

/// A point in time up to which engines have forgotten; see [`Hardware::quiesce`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// What a node is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeDescription {
    /// What its engine is made for.
    pub engine_type: EngineType,
    /// A name for people.
    pub name: &'static str,
    /// Whether its queues may be for user-mode submission.
    pub user_mode_submission: bool,
}

/// Where the ring of a HW queue for user-mode submission is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingBinding {
    /// The guest's logical doorbell: an index into the BAR's doorbell, progress and status areas.
    pub slot: u32,
    /// GPU virtual address of the ring buffer in the queue's address space.
    pub ring_va: u64,
    /// Size of the ring buffer in bytes; valid per [`bellhop_protocol::ring`].
    pub ring_size: u64,
    /// GPU virtual address of the ring buffer control.
    pub control_va: u64,
    /// The doorbell is always `CONNECTED_NOTIFY` while it is connected: the engine does not change
    /// that as it falls asleep and wakes.
    pub notify_each: bool,
}

/// A command buffer submitted in kernel mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSubmission {
    /// GPU virtual address of the command buffer.
    pub gpu_va: u64,
    /// Its size in bytes.
    pub size: u32,
    /// What the queue's progress fence gets when the buffer is done.
    pub progress_fence_value: u64,
    /// Its submission fence id, by which interrupts name it: greater than any that came before to its
    /// queue, and no other queue's.
    pub submission_fence: u64,
}

/// What a HW queue is created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HwQueueDescription {
    /// Whose it is.
    pub guest: GuestId,
    /// The context that it goes with: all queues of one take turns as one.
    pub context: HwContextId,
    /// Through which its addresses are translated.
    pub address_space: AddressSpaceId,
    /// The process whose fences its packets may name.
    pub process: AddressSpaceId,
    /// The node that executes it.
    pub node: u32,
    /// Slot of the progress fence (`hHwQueueProgressFence`).
    pub progress_fence: u32,
    /// `NativeProgressFence`: that is a native fence, and not a monitored one.
    pub native_progress_fence: bool,
    /// `DisableGpuTimeout`: that it makes no progress is no hang, and is not told.
    pub disable_gpu_timeout: bool,
}

/// How much memory a guest has beside its CPU-visible local memory, in bytes: whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentSizes {
    /// [`Segment::Private`]
    pub private: u64,
    /// [`Segment::Backing`]
    pub backing: u64,
    /// Of the aperture segment, which is addresses only; no more than lie behind
    /// [`APERTURE_START`](crate::ddi::paging::APERTURE_START).
    pub aperture: u64,
}

/// A guest's system context: what paging buffers are executed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemContext {
    /// Its address space, which is no process's. What lies where: [`crate::ddi::paging`].
    pub address_space: AddressSpaceId,
    /// Its queue. It takes paging buffers only, comes before all other queues of its guest on its engine,
    /// whose time it takes, and is destroyed as they are.
    pub hw_queue: HwQueueId,
    /// The queue's node.
    pub node: u32,
}

/// Where entries of consecutive pages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTableRange {
    /// Of the first, in bytes from the start of page-table memory; `None` where there is no table.
    pub address: Option<u64>,
    /// How many there are, in one table.
    pub entries: u32,
}

/// What a HW queue did wrong. The engine has taken it off its lists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What it is.
    pub reason: FaultReason,
    /// The packet that was being executed; `NOP` when none was.
    pub opcode: Opcode,
    /// What `reason` says it is.
    pub address: u64,
    /// Where in the ring, in bytes since its creation.
    pub read_pointer: u64,
}

/// How far rotating a doorbell's page got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationProgress {
    /// There was nothing to do: the page is what it has to be.
    Done,
    /// An interrupt tells when the page is there: [`Interrupt::DoorbellRotated`].
    Pending,
}

/// What became of a doorbell whose page was rotated to a physical doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationOutcome {
    /// The page is there. For a while rings may still miss it.
    Shown,
    /// That while is over.
    Settled,
    /// The VMM did not map the page.
    Refused,
}

/// What an engine tells of itself (`DXGK_ENGINE_STATE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineState {
    /// It has work, and did not go to F1 when it was told to.
    Active {
        /// The number of the transition that it refused: see [`Hardware::set_engine_power`].
        transition: u64,
    },
    /// It has had nothing to do for so long that it is worthwhile to take its power.
    TransitionToF1,
    /// `DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT`: it has executed this queue for longer than it may while
    /// neither the queue's read pointer nor its progress fence moved. It goes on with it in turn, and
    /// tells again after as long.
    Hung {
        /// The queue.
        queue: HwQueueId,
        /// Where; the reason is `ENGINE_TIMEOUT`.
        fault: Fault,
    },
}

/// What the GPU tells the host (`DXGK_INTERRUPT_TYPE`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interrupt {
    /// `DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED`: fences passed their MonitoredValues.
    NativeFenceSignaled {
        /// `pSignaledNativeFenceArray`: which. None when that is not known: any that is monitored may
        /// have.
        signaled: Vec<GlobalFence>,
        /// `EvaluateLegacyMonitoredFences`: and any monitored fence may have been signaled. Of hardware
        /// that cannot tell which kind of fence was.
        evaluate_legacy_monitored_fences: bool,
    },
    /// `DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED`: monitored fences were signaled.
    MonitoredFenceSignaled {
        /// Which. WDDM's tells the engine only.
        signaled: Vec<GlobalFence>,
    },
    /// The same where the driver has the cap `OptimizedNativeFenceSignaledInterrupt`: fences passed their
    /// MonitoredValues that a HW queue has signaled and logged. Fences that were signaled without an entry
    /// are told of by [`Self::NativeFenceSignaled`].
    NativeFencesLogged {
        /// The node that signaled them.
        node: u32,
        /// Which of the node's engines: 0, since a node has one.
        engine: u32,
        /// `hHWQueue`: whose log has new entries. None when that is not known: any queue's of the engine.
        queue: Option<HwQueueId>,
    },
    /// The same of a HW queue that is gone, and its log with it: any fence that its guest's packets can name.
    GoneQueueLogged {
        /// Whose it was.
        guest: GuestId,
    },
    /// `DXGK_INTERRUPT_DMA_COMPLETED`: a kernel-mode submission is done, and with it all that its
    /// queue was given before.
    DmaCompleted {
        /// The node that it was submitted to.
        node: u32,
        /// Which of the node's engines: 0, since a node has one.
        engine: u32,
        /// Its submission fence id.
        fence: u64,
    },
    /// `DXGK_INTERRUPT_DMA_PREEMPTED`: a queue has stopped where [`Hardware::preempt_hw_queue`] found
    /// it. Nothing of it executes until it is resumed, and then it goes on from there.
    DmaPreempted {
        /// The queue's node.
        node: u32,
        /// Which of the node's engines: 0, since a node has one.
        engine: u32,
        /// What the pre-emption was asked for with.
        preemption_fence: u64,
        /// The submission fence id of the last of the queue's kernel-mode submissions that is done; 0
        /// when none is.
        last_completed_fence: u64,
    },
    /// `DXGK_INTERRUPT_PAGE_FAULTED`: a HW queue is in error since it accessed memory that is not
    /// mapped, or not for writing.
    PageFault {
        /// Which.
        queue: HwQueueId,
        /// Where.
        fault: Fault,
    },
    /// A HW queue is in error over anything else.
    HwQueueFault {
        /// Which.
        queue: HwQueueId,
        /// Why.
        fault: Fault,
    },
    /// The page of a doorbell was rotated, since [`Hardware::rotate_to_physical`] was asked last.
    DoorbellRotated {
        /// The doorbell's.
        queue: HwQueueId,
        /// What became of it.
        outcome: RotationOutcome,
    },
    /// `DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE`.
    GpuEngineStateChange {
        /// The engine's node.
        node: u32,
        /// What it is now, or asks for.
        new_state: EngineState,
    },
    /// A paging buffer failed: nothing of it behind the fault was executed. Later ones go on. A
    /// [`Self::PagingCompleted`] that covers its fence follows.
    PagingFaulted {
        /// Whose.
        guest: GuestId,
        /// The fence that it was submitted with.
        fence: u64,
        /// What is wrong with it; the read pointer is the packet's place in the buffer.
        fault: Fault,
    },
    /// `DXGK_INTERRUPT_DMA_COMPLETED` of a system context: all paging buffers up to this fence are
    /// done with.
    PagingCompleted {
        /// Whose.
        guest: GuestId,
        /// The fence.
        fence: u64,
    },
    /// An engine was reset, as [`Hardware::reset_engine`] or [`Hardware::reset_adapter`] asked. The queue
    /// that it was stuck in, if it was, is in error, or its paging buffer failed, which was told before.
    EngineReset {
        /// The engine's node.
        node: u32,
    },
    /// [`Hardware::quiesced`] advanced.
    Quiesced,
}

/// Where an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineProgress {
    /// It sleeps, and so executes nothing. One that was just called may still count as asleep.
    pub is_asleep: bool,
    /// Turns that it began to give to queues.
    pub turns: u64,
    /// The queue whose turn it is now. `None` between turns, when it looks after everything else.
    pub executing: Option<HwQueueId>,
}

/// A table of the hardware is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hardware has no room for another {0}")]
pub struct HardwareFull(pub &'static str);

/// The registers of a GPU, so to speak.
///
/// Calls come from one thread, the control plane's. Ids must be ones that this object gave out
/// and that were not destroyed: anything else is a bug of the caller, which implementations
/// ignore with a log line and do not panic over. Slots, offsets and addresses were checked by the
/// caller against what the guest was given.
pub trait Hardware: Observe + Send + Sync {
    /// The nodes, by ordinal.
    fn nodes(&self) -> &[NodeDescription];

    /// How queues and doorbells go together.
    fn doorbell_model(&self) -> DoorbellModel {
        DoorbellModel::Dedicated
    }

    /// How it reaches memory.
    fn virtual_addressing_model(&self) -> VirtualAddressingModel {
        VirtualAddressingModel::GpuVaIoMmuGlobal
    }

    /// Whether interrupts for signals that are logged name HW queues: [`Interrupt::NativeFencesLogged`].
    fn optimized_fence_interrupt(&self) -> bool {
        false
    }

    /// How many physical doorbells there are, in the dedicated model.
    fn physical_doorbells(&self) -> u32;

    /// How many of them are a guest's share, which others do not take from it.
    fn doorbell_share(&self, guest: GuestId) -> u32;

    /// When the queue's doorbell was used last, by [`Self::watch`] or by a ring that an engine saw: a greater
    /// number is later. Of rings that two engines saw the order is known only as far as a call of
    /// [`Self::watch`] came between them.
    fn last_use(&self, queue: HwQueueId) -> u64;

    /// Makes an empty address space.
    ///
    /// # Errors
    /// When there is no page-table memory left.
    fn create_address_space(&self, guest: GuestId) -> Result<AddressSpaceId, HardwareFull>;

    /// Frees an address space. No queue may use it, and a ticket taken after the last of them
    /// went must have passed. Paging buffers that are submitted may still write its page tables;
    /// none that is submitted from now on may.
    fn destroy_address_space(&self, space: AddressSpaceId);

    /// Where the root of an address space's page tables is, in bytes from the start of page-table
    /// memory; `None` when there is no such space.
    fn page_table_root(&self, space: AddressSpaceId) -> Option<u64>;

    /// Where the entries of consecutive pages from `gpu_va` are, for packets to write. The tables are
    /// made if `create`; they stay where they are for the address space's life.
    ///
    /// # Errors
    /// When there is no page-table memory left; tables made so far stay.
    fn locate_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        pages: u64,
        create: bool,
    ) -> Result<Vec<PageTableRange>, HardwareFull>;

    /// Whether engines have accessed a page of a range, which is whole pages, since this was last asked
    /// of it, as far as they did not remember it from before: see [`Self::forget_translations`].
    fn take_accessed(&self, space: AddressSpaceId, gpu_va: u64, length: u64) -> bool;

    /// Has engines that are awake walk page tables anew, and others when they wake. Nothing waits for
    /// it, and nothing may depend on it but what [`Self::take_accessed`] tells.
    fn forget_translations(&self);

    /// Writes the entries of consecutive pages from `gpu_va`, now. An entry that was valid before
    /// counts as changed for an engine only when a later [`Self::quiesce`] has passed.
    ///
    /// # Errors
    /// When there is no page-table memory left; entries written so far stay.
    fn update_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareFull>;

    /// Makes a guest's system context. The segments [`Segment::Local`] and [`Segment::Private`] are
    /// mapped in it whole, the aperture and the paging process's GPU VA space are empty.
    ///
    /// # Errors
    /// When there is no page-table memory left.
    fn create_system_context(&self, guest: GuestId) -> Result<SystemContext, HardwareFull>;

    /// Queues packets in a guest's system context, which executes them after what was queued before.
    /// `fence` is greater than any before; an interrupt tells when it is reached.
    ///
    /// # Errors
    /// When too much is queued already.
    fn submit_paging(&self, guest: GuestId, packets: &[u8], fence: u64)
    -> Result<(), HardwareFull>;

    /// Gives up the paging buffer that was queued with `fence`, if the guest's system context has begun it
    /// and is not done: [`Interrupt::PagingFaulted`] with `ENGINE_TIMEOUT` follows. And puts the system
    /// context's queue back on its engine's run list, from which it was taken by
    /// [`Self::preempt_hw_queue`].
    fn abandon_paging(&self, guest: GuestId, fence: u64);

    /// Zeroes a range of a segment that is not the guest's own memory, and gives its pages back to
    /// the host.
    fn zero_memory(&self, guest: GuestId, segment: Segment, offset: u64, length: u64);

    /// Puts an area of the BAR into the guest's own memory, once: `extents` are as long together as
    /// the area. False when the guest does not have that memory. Of local memory there may be less
    /// than the area has, and only the system context is told: a page-table entry names the guest's
    /// own memory.
    #[must_use]
    fn place_area(&self, guest: GuestId, kind: AreaKind, extents: &[Extent]) -> bool;

    /// Whether the guest has memory at all of these guest-physical addresses now.
    fn is_guest_memory(&self, guest: GuestId, address: u64, length: u64) -> bool;

    /// The 64-bit word at `offset` of a guest's local memory, a multiple of 8.
    fn read_local_word(&self, guest: GuestId, offset: u64) -> u64;

    /// Puts a global fence with CurrentValue `initial` into an empty slot, and publishes that if the fence
    /// is published. Nobody monitors it yet, unless it is a monitored fence. Without an initial value
    /// CurrentValue stays what it is: others have the fence already.
    fn create_fence(&self, guest: GuestId, slot: u32, storage: FenceStorage, initial: Option<u64>);

    /// Makes a slot the name by which packets of `owner` know the global fence in the slot `global`, which
    /// may be the same.
    fn open_fence(&self, guest: GuestId, slot: u32, global: u32, owner: AddressSpaceId);

    /// Packets that name a slot fault from now on.
    fn close_fence(&self, guest: GuestId, slot: u32);

    /// CurrentValue of a fence.
    fn fence_value(&self, guest: GuestId, slot: u32) -> u64;

    /// Stores MonitoredValues; a full fence stands between that and whatever the caller loads next, so
    /// that it sees each CurrentValue that no interrupt tells of.
    fn update_monitored_values(&self, guest: GuestId, values: &[SlotValue]);

    /// Makes values CurrentValues, each unless an engine got further, publishes them and releases the
    /// queues that wait for them. With `always`, signals of these fences do nothing from now on, and
    /// the values are `u64::MAX`.
    fn update_current_values(&self, guest: GuestId, values: &[SlotValue], always: bool);

    /// CurrentValues may have been changed by another guest's engines, or for it: publishes them and
    /// releases the queues that wait for them. With `always` the fences are signaled for good, to this guest
    /// alone: `u64::MAX` is published, signals do nothing, and CurrentValues stay.
    fn notify_current_values(&self, guest: GuestId, slots: &[u32], always: bool);

    /// Makes a HW queue and puts it on its engine's run list.
    fn create_hw_queue(&self, description: HwQueueDescription) -> HwQueueId;

    /// Gives a HW queue one of its logs, empty, before anything is submitted to it.
    fn set_fence_log(&self, queue: HwQueueId, log: FenceLogBuffer);

    /// Does something with a log that [`Self::set_fence_log`] gave. Entries are read behind
    /// [`Self::flush_fence_logs`].
    fn with_fence_log(&self, log: QueueLog, act: &mut dyn FnMut(FenceLog<'_>));

    /// What engines have logged of these queues, before positions that were loaded, is there to be read.
    fn flush_fence_logs(&self, queues: &[HwQueueId]);

    /// What is logged from now on. Each status that is published tells it.
    fn set_logging_level(&self, level: LoggingLevel);

    /// Gives a HW queue its ring. The last-queued value and, in the dedicated model, the doorbell
    /// word become 0, the status `DISCONNECTED_RETRY`.
    fn bind_ring(&self, queue: HwQueueId, ring: RingBinding);

    /// Takes the ring away again. The doorbell must be disconnected.
    fn unbind_ring(&self, queue: HwQueueId);

    /// Takes a HW queue off its engine's run list for good. An engine may still be executing it
    /// until a later [`Self::quiesce`] has passed.
    fn destroy_hw_queue(&self, queue: HwQueueId);

    /// Takes HW queues off their engine's run list, until [`Self::resume_hw_queues`]. An engine may
    /// still be executing one until a later [`Self::quiesce`] has passed.
    fn suspend_hw_queues(&self, queues: &[HwQueueId]);

    /// Puts HW queues back on their engine's run list, and makes it look at each as [`Self::kick`]
    /// does.
    fn resume_hw_queues(&self, queues: &[HwQueueId]);

    /// Takes a HW queue off its engine's run list, as [`Self::suspend_hw_queues`] does, at the next
    /// boundary of a packet or of a step within one. [`Interrupt::DmaPreempted`] with `preemption_fence`
    /// tells when it has stopped. Of several that are asked for before it has, the last is told of.
    fn preempt_hw_queue(&self, queue: HwQueueId, preemption_fence: u64);

    /// Sets the priority of all HW queues of a context beside the others of their guest, 0 before that. It
    /// counts from when the context is next put in line.
    fn set_scheduling_priority(&self, queues: &[HwQueueId], priority: SchedulingPriority);

    /// Where a node's engine is.
    fn engine_progress(&self, node: u32) -> EngineProgress;

    /// Resets a node's engine: it gives up the packet that it is stuck in, if it is, and goes on with
    /// the other queues, which lose nothing. [`Interrupt::EngineReset`] tells when it has; a packet may
    /// be stuck so that this never comes.
    fn reset_engine(&self, node: u32);

    /// Resets all engines so that nothing stays stuck. [`Interrupt::EngineReset`] follows for each.
    fn reset_adapter(&self);

    /// Takes a node's power or gives it back. Without it the engine executes nothing, whatever it is
    /// given, and uses no CPU time. An engine that has work when it loses power keeps it, and says so
    /// by an interrupt.
    ///
    /// `transition` is greater for each call of a node's, and a refusal names it: when that is read, the
    /// engine may have been asked for something else.
    fn set_engine_power(&self, node: u32, state: EnginePowerState, transition: u64);

    /// Makes a physical doorbell watch the page of the queue's logical doorbell.
    fn watch(&self, doorbell: PhysicalDoorbell, queue: HwQueueId);

    /// Makes a physical doorbell watch nothing.
    fn unwatch(&self, doorbell: PhysicalDoorbell);

    /// Makes the page of the queue's logical doorbell show the physical one that watches it, where
    /// pages are moved at all. The VMM may take its time: that is not waited for.
    fn rotate_to_physical(&self, _queue: HwQueueId) -> RotationProgress {
        RotationProgress::Done
    }

    /// Makes it show the dummy page. Nobody is told when it does: of stores that reach the old page
    /// until then, and a while after, an engine only sees that there were some.
    fn rotate_to_dummy(&self, _queue: HwQueueId) {}

    /// In the global model: makes rings of the guest's one doorbell be looked for in this queue's
    /// ring, too.
    fn watch_global(&self, queue: HwQueueId);

    /// In the global model: the opposite of [`Self::watch_global`].
    fn unwatch_global(&self, queue: HwQueueId);

    /// Makes the queue's engine, woken if need be, look at the ring's write pointer and at
    /// kernel-mode submissions once.
    fn kick(&self, queue: HwQueueId);

    /// Publishes a connected status for the queue's doorbell.
    fn publish_connected(&self, queue: HwQueueId, status: ConnectionStatus);

    /// Publishes a disconnected status for the queue's doorbell; a full fence follows the store.
    fn publish_disconnected(&self, queue: HwQueueId, reason: ConnectionStatus);

    /// `HwQueueProgressFenceLastQueuedValue`, as the guest wrote it.
    fn last_queued_value(&self, queue: HwQueueId) -> u64;

    /// Queues a command buffer in kernel mode; [`Self::kick`] makes the engine see it.
    ///
    /// # Errors
    /// When too many are queued already.
    fn submit_kernel_mode(
        &self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareFull>;

    /// Puts packets at this offset of a guest's DMA buffers, where no engine executes any.
    fn write_dma_buffer(&self, guest: GuestId, offset: u64, packets: &[u8]);

    /// [`KernelSubmission::submission_fence`] of the queue's last command buffer that is done; 0 when
    /// none is.
    fn current_fence(&self, queue: HwQueueId) -> u64;

    /// Asks every engine to forget the guest's translations, or everybody's, and all destroyed queues. The
    /// ticket has passed once [`Self::quiesced`] is not less; an interrupt tells when that advances.
    fn quiesce(&self, guest: Option<GuestId>) -> Ticket;

    /// The latest ticket that has passed on every engine.
    fn quiesced(&self) -> Ticket;

    /// `DxgkDdiInterruptRoutine`'s part: what was raised since the last call.
    fn take_interrupts(&self) -> Vec<Interrupt>;

    /// The weight by which engines share their time with this guest, for tools.
    fn guest_weight(&self, guest: GuestId) -> u32;

    /// The hardware's part of a guest's statistics: packets, bytes, doorbells, interrupts, wake-ups and
    /// engines' time. The rest is zero.
    fn statistics(&self, guest: GuestId) -> Statistics;
}
