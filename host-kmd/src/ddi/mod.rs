// SPDX-License-Identifier: MIT OR Apache-2.0

//! The DDIs: what dxgkrnl calls a driver for ([`Miniport`]) and what a driver calls dxgkrnl for
//! ([`DxgkCallbacks`]).
//!
//! Names are the references' in Rust case, without `DxgkDdi` and `DxgkCb`. Only what our GPU needs
//! is here: devices and contexts have no state below dxgkrnl, so a context is named by its HW queues.

pub mod dma_buffer;
pub mod feature;
pub mod paging;

pub use crate::hardware::VirtualAddressingModel;
use crate::hardware::{
    AddressSpaceId, DriverProtection, EngineProgress, FenceLogBuffer, FenceStorage, GlobalFence,
    GuestId, HardwareError, HwQueueDescription, HwQueueId, Interrupt, KernelSubmission,
    PhysicalDoorbell, Pte, RingBinding, SchedulingPriority, SlotValue, SystemContext, UnknownId,
};
use bellhop_protocol::control::adapter::{NodeMetadata, UserModeSubmissionCaps};
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellPrivateData, LoggingLevel};
use dma_buffer::{DmaBuffer, RenderArguments, RenderError};
use feature::{DxgkFeatures, NativeFenceCaps, VidSchCaps};
use paging::{BuildPagingBufferError, PageSize, PagingBuffer, PagingOperation};

/// How a doorbell was connected: the two statuses that `DxgkDdiConnectDoorbell` may answer with.
/// A type of its own, so that there is no other answer to refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectedStatus {
    /// The GPU sees rings by itself.
    Connected,
    /// The guest must notify after each ring.
    ConnectedNotify,
}

impl From<ConnectedStatus> for ConnectionStatus {
    fn from(status: ConnectedStatus) -> Self {
        match status {
            ConnectedStatus::Connected => Self::CONNECTED,
            ConnectedStatus::ConnectedNotify => Self::CONNECTED_NOTIFY,
        }
    }
}

/// The GPU has no physical doorbell at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the GPU has no physical doorbell")]
pub struct NoPhysicalDoorbell;

/// What the driver wants to be notified of for an allocation (`DXGK_ALLOCATIONINFOFLAGS2`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllocationInfoFlags2 {
    /// `NotifyEviction`
    pub notify_eviction: bool,
    /// `NotifyIoMmuUnmap`; it has no effect without an IOMMU. An allocation may have both: each
    /// notification is a call of its own.
    pub notify_io_mmu_unmap: bool,
}

/// How CurrentValues are updated from the CPU (`DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CurrentValuesFlags {
    /// `AlwaysSignaled`: the value is `u64::MAX`, and the fences ignore signals from now on.
    pub always_signaled: bool,
    /// `NotificationOnly`: no CurrentValue is written; another adapter's engines, or another guest, did
    /// that, or with `always_signaled` no one writes it.
    pub notification_only: bool,
}

/// Where a fence's values are in the GPU's system process, which packets of no guest reach. Code that runs
/// there may read and write both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemProcessGpuVas {
    /// `CurrentValueSystemProcessGpuVa`
    pub current_value: u64,
    /// `MonitoredValueSystemProcessGpuVa`
    pub monitored_value: u64,
}

/// A native fence to be made (`DXGKARG_CREATENATIVEFENCE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateNativeFence {
    /// `hGlobalNativeFence`
    pub fence: GlobalFence,
    /// Where its values are.
    pub storage: FenceStorage,
    /// CurrentValue to begin with. Without one it is another view of a fence that other guests have.
    pub initial_value: Option<u64>,
    /// Where they are mapped for the context management processor, if the driver asked for that:
    /// [`NativeFenceCaps::map_to_gpu_system_process`].
    pub system_process: Option<SystemProcessGpuVas>,
}

/// Private driver data that the driver does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the private driver data cannot hold {0:#x}")]
pub struct BadPrivateData(pub u32);

/// Why a doorbell was not created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateDoorbellError {
    /// The private data is not what the driver takes.
    #[error(transparent)]
    PrivateData(#[from] BadPrivateData),
    /// The hardware does not have the queue or the doorbell slot.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
}

/// Why a doorbell was not connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectDoorbellError {
    /// There is none to take from any queue.
    #[error(transparent)]
    NoPhysicalDoorbell(#[from] NoPhysicalDoorbell),
    /// The hardware does not have the queue.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
}

/// What dxgkrnl refuses of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidParameter {
    /// No doorbell was created for that queue.
    #[error("no doorbell was created for {0:?}")]
    UnknownDoorbell(HwQueueId),
    /// The reason is not one of `DISCONNECTED_*`.
    #[error("{0} is no reason to disconnect a doorbell")]
    NotADisconnectedStatus(ConnectionStatus),
}

/// What a kernel-mode driver does for dxgkrnl.
///
/// A doorbell is named by its HW queue, which has at most one. Ids, slots and addresses were
/// checked by dxgkrnl.
///
/// A call with an id that the hardware does not have is a bug of dxgkrnl. It fails, and with it the request that led
/// to it. Calls that end something, stop something or ask for an interrupt return nothing: no request can fail over
/// them, and the driver reports the bug and carries on.
pub trait Miniport: Send {
    /// `DxgkDdiStartDevice`: the first call. The driver finds out what the OS has enabled.
    fn start_device(&mut self, features: &dyn DxgkFeatures);

    /// `DXGKQAITYPE_DRIVERCAPS`, of which `DXGK_VIDSCHCAPS`.
    fn query_vidsch_caps(&self) -> VidSchCaps;

    /// `DXGKQAITYPE_NATIVE_FENCE_CAPS`. Asked only of a driver that advertises native fences.
    fn query_native_fence_caps(&self) -> NativeFenceCaps;

    /// `DXGKQAITYPE_USERMODESUBMISSION_CAPS`.
    fn query_user_mode_submission_caps(&self) -> UserModeSubmissionCaps;

    /// Which virtual addressing model the device supports: a driver cap.
    fn virtual_addressing_model(&self) -> VirtualAddressingModel;

    /// How many nodes there are.
    fn node_count(&self) -> u32;

    /// `DxgkDdiGetNodeMetadata`; `None` when there is no such node.
    fn get_node_metadata(&self, node: u32) -> Option<NodeMetadata>;

    /// `DxgkDdiCreateProcess`: makes the process's address space.
    ///
    /// # Errors
    /// When there is no page-table memory left.
    fn create_process(&mut self, guest: GuestId) -> Result<AddressSpaceId, HardwareError>;

    /// `DxgkDdiDestroyProcess`. No engine uses the address space any more.
    fn destroy_process(&mut self, space: AddressSpaceId);

    /// Makes the context that the guest's paging buffers are executed in; dxgkrnl's own process, so
    /// to speak. It is destroyed with [`Self::destroy_hw_queue`] and [`Self::destroy_process`].
    ///
    /// # Errors
    /// When there is no page-table memory left.
    fn create_system_context(&mut self, guest: GuestId) -> Result<SystemContext, HardwareError>;

    /// `DxgkDdiSubmitCommand` of a paging buffer: executes it in the guest's system context, after
    /// what was submitted there before. `fence` is greater than any before. The engine of the system
    /// context must have power, or get it, for that to happen.
    ///
    /// # Errors
    /// When too much is submitted already; nothing is done then.
    fn submit_paging(
        &mut self,
        guest: GuestId,
        buffer: &PagingBuffer,
        fence: u64,
    ) -> Result<(), HardwareError>;

    /// Gives up the paging buffer of this fence where the guest's system context has begun it, as one that
    /// failed, and puts that context, which was pre-empted, back on the run list. Windows resets the
    /// adapter when paging hangs; here a guest's paging is its own.
    fn abandon_paging(&mut self, guest: GuestId, fence: u64);

    /// `DxgkDdiCreateHwQueue`: makes a queue and puts it on the run list.
    ///
    /// # Errors
    /// When the hardware does not have what the description names.
    fn create_hw_queue(&mut self, description: HwQueueDescription) -> Result<HwQueueId, UnknownId>;

    /// `DxgkDdiDestroyHwQueue`: takes a queue off the run list for good.
    fn destroy_hw_queue(&mut self, queue: HwQueueId);

    /// `DxgkDdiSuspendContext`: removes the context's queues from the HW scheduler's list. They
    /// execute no more once a later quiesce of the hardware has passed. Doorbells stay connected.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn suspend_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId>;

    /// `DxgkDdiResumeContext`: adds the context's queues to the HW scheduler's list.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn resume_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId>;

    /// `DxgkDdiPreemptCommand`: stops the queue's running command at its next boundary.
    /// [`Interrupt::DmaPreempted`] with `preemption_fence` follows; [`Self::resume_context`] continues
    /// the queue from there.
    fn preempt_command(&mut self, queue: HwQueueId, preemption_fence: u64);

    /// `DxgkDdiQueryEngineStatus`: where a node's engine is. One that is responsive begins turns, or
    /// has none to give.
    fn query_engine_status(&self, node: u32) -> EngineProgress;

    /// `DxgkDdiResetEngine`: [`Interrupt::EngineReset`] follows, unless what the engine is stuck in
    /// withstands that.
    fn reset_engine(&mut self, node: u32);

    /// `DxgkDdiResetFromTimeout`: resets the adapter. [`Interrupt::EngineReset`] follows for each node;
    /// engines have restarted then (`DxgkDdiRestartFromTimeout`).
    fn reset_from_timeout(&mut self);

    /// `DxgkDdiSetContextSchedulingProperties`: the priority of the context's queues.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn set_context_scheduling_priority(
        &mut self,
        queues: &[HwQueueId],
        priority: SchedulingPriority,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiSetPowerComponentFState` of a node's component. `transition` is greater for each call of a
    /// node's; [`EngineState::Active`](crate::hardware::EngineState::Active) names the one that was refused.
    fn set_power_component_f_state(&mut self, node: u32, state: EnginePowerState, transition: u64);

    /// `DxgkDdiSubmitCommandToHwQueue`.
    ///
    /// # Errors
    /// When too much is queued already.
    fn submit_command_to_hw_queue(
        &mut self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError>;

    /// `DxgkDdiRender`: checks a command buffer of the basic model and copies it into a DMA buffer.
    ///
    /// # Errors
    /// When the command buffer is not one that may be executed.
    fn render(&self, arguments: &RenderArguments<'_>) -> Result<DmaBuffer, RenderError>;

    /// `DxgkDdiPatch`: puts physical addresses, those of the allocations in the order of the
    /// allocation list, into a DMA buffer that [`Self::render`] made of it.
    fn patch(&self, buffer: &mut DmaBuffer, physical_addresses: &[u64]);

    /// `DxgkDdiSubmitCommand`, `DxgkDdiSubmitCommandVirtual`: of a context that submits to its node; the
    /// queue is the one that was made for it.
    ///
    /// # Errors
    /// When too much is queued already.
    fn submit_command(
        &mut self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError>;

    /// `DxgkDdiQueryCurrentFence`: [`KernelSubmission::submission_fence`] of the queue's last command buffer
    /// that is done, whether an interrupt has told of it yet or not; 0 when none is. Of one queue and
    /// not of its node, which executes its queues in turns.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn query_current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId>;

    /// `DxgkDdiCreateDoorbell`: gives the queue its ring, and takes the user-mode driver's private
    /// data. No physical doorbell is assigned yet.
    ///
    /// # Errors
    /// When the private data is not what this driver takes; nothing is done then.
    fn create_doorbell(
        &mut self,
        queue: HwQueueId,
        ring: RingBinding,
        private_data: DoorbellPrivateData,
    ) -> Result<(), CreateDoorbellError>;

    /// `DxgkDdiConnectDoorbell`: makes a physical doorbell watch the queue's. When none is free
    /// the driver takes another queue's, after [`DxgkCallbacks::disconnect_doorbell`] for it
    /// returned. The queue's doorbell is not connected.
    ///
    /// # Errors
    /// When there is no physical doorbell to take from any queue, or the hardware does not have the queue.
    fn connect_doorbell(
        &mut self,
        queue: HwQueueId,
        callbacks: &mut dyn DxgkCallbacks,
    ) -> Result<ConnectedStatus, ConnectDoorbellError>;

    /// `DxgkDdiDisconnectDoorbell`: stops the watch and then looks at the ring one last time.
    /// dxgkrnl has published the disconnected status before.
    fn disconnect_doorbell(&mut self, queue: HwQueueId);

    /// `DxgkDdiDestroyDoorbell`: takes the ring away. The doorbell is disconnected.
    fn destroy_doorbell(&mut self, queue: HwQueueId);

    /// `DxgkDdiNotifyWorkSubmission`: there may be work in the queue's ring; makes its engine
    /// look.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn notify_work_submission(&mut self, queue: HwQueueId) -> Result<(), UnknownId>;

    /// `DxgkDdiCreateNativeFence`: a fence that no process has open yet.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn create_native_fence(&mut self, fence: CreateNativeFence) -> Result<(), UnknownId>;

    /// `DxgkDdiOpenNativeFence`: packets of `owner` name the fence by `slot`, which is the fence's own for the
    /// first that opens it.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn open_native_fence(
        &mut self,
        fence: GlobalFence,
        slot: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiCloseNativeFence`: packets that name `slot` fault.
    fn close_native_fence(&mut self, fence: GlobalFence, slot: u32);

    /// `DxgkDdiDestroyNativeFence`: no process has the fence open any more.
    fn destroy_native_fence(&mut self, fence: GlobalFence);

    /// Makes a monitored fence that no process has open yet; each of its signals interrupts:
    /// [`Interrupt::MonitoredFenceSignaled`]. WDDM has no DDI for these; packets know them by their
    /// addresses there, and ours by slots. Without an initial value it is as with a native one.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn create_monitored_fence(
        &mut self,
        fence: GlobalFence,
        storage: FenceStorage,
        initial_value: Option<u64>,
    ) -> Result<(), UnknownId>;

    /// Packets of `owner` name a monitored fence by `slot`, as with [`Self::open_native_fence`].
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn open_monitored_fence(
        &mut self,
        fence: GlobalFence,
        slot: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId>;

    /// Packets that name a monitored fence by `slot` fault.
    fn close_monitored_fence(&mut self, fence: GlobalFence, slot: u32);

    /// `DxgkDdiUpdateMonitoredValues`: a CurrentValue that is read when this has returned was written
    /// by an engine that saw the fence's new MonitoredValue, or will be followed by an interrupt.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn update_monitored_values(
        &mut self,
        guest: GuestId,
        values: &[SlotValue],
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiUpdateCurrentValuesFromCpu`: signals fences, and releases the queues that wait for them: it has
    /// their engines look at the run list again.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn update_current_values_from_cpu(
        &mut self,
        guest: GuestId,
        values: &[SlotValue],
        flags: CurrentValuesFlags,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiSetNativeFenceLogBuffer`: gives a queue, to which nothing was submitted yet, one of its logs.
    ///
    /// # Errors
    /// When the hardware does not have what it names.
    fn set_native_fence_log_buffer(
        &mut self,
        queue: HwQueueId,
        log: FenceLogBuffer,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiUpdateNativeFenceLogs`: entries of these queues' logs before the positions that dxgkrnl has
    /// loaded are there to be read.
    fn update_native_fence_logs(&mut self, queues: &[HwQueueId]);

    /// `DxgkDdiUpdateLoggingLevel`: what is logged from now on.
    fn update_logging_level(&mut self, level: LoggingLevel);

    /// `DxgkDdiCreateAllocation` of a paged allocation.
    ///
    /// # Errors
    /// When the private data is not what this driver takes.
    fn create_allocation(
        &mut self,
        private_data: u32,
    ) -> Result<AllocationInfoFlags2, BadPrivateData>;

    /// What the page-table entries have through which queues reach an allocation with this private
    /// data, which was taken. Those of the paging process do not have it: paging moves bytes as they
    /// are.
    fn driver_protection(&self, private_data: u32) -> DriverProtection;

    /// `DxgkDdiBuildPagingBuffer`: appends the packets of one operation to a buffer, all or none.
    /// The buffer is submitted before the address spaces that it names are destroyed.
    ///
    /// # Errors
    /// When the buffer has no room: submit it and build the operation into an empty one, in which
    /// one within the limits of [`paging`] always has room. When there is no page-table memory:
    /// nothing is built.
    fn build_paging_buffer(
        &mut self,
        guest: GuestId,
        operation: &PagingOperation<'_>,
        buffer: &mut PagingBuffer,
    ) -> Result<(), BuildPagingBufferError>;

    /// `DXGKQAITYPE_PAGINGPROCESSGPUVASIZE`: how large the paging process's GPU VA space is to be, in
    /// MiB; 0 leaves it to dxgkrnl.
    fn paging_process_gpu_va_size(&self) -> u32;

    /// `DXGK_OPERATION_UPDATE_PAGE_TABLE` with the CPU: writes the entries of consecutive pages from
    /// `gpu_va` now, whatever paging buffers hold.
    ///
    /// # Errors
    /// When there is no page-table memory left; entries written so far stay.
    fn update_page_table(
        &mut self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError>;

    /// Which physical doorbell watches the queue's, if one does: a tool asks.
    fn physical_doorbell(&self, _queue: HwQueueId) -> Option<PhysicalDoorbell> {
        None
    }

    /// How many physical doorbells watch some queue's: a tool asks.
    fn physical_doorbells_in_use(&self) -> u32 {
        0
    }

    /// `DxgkDdiInterruptRoutine`: takes what was raised, hands it to
    /// [`DxgkCallbacks::notify_interrupt`], and does nothing else about it. False when nothing was: the
    /// interrupt was another device's.
    fn interrupt_routine(&mut self, callbacks: &mut dyn DxgkCallbacks) -> bool;
}

/// What dxgkrnl does for a kernel-mode driver.
pub trait DxgkCallbacks {
    /// `DxgkCbDisconnectDoorbell`: publishes `reason` for the doorbell of `queue`. Only once this
    /// has returned is the physical doorbell the driver's to take. Succeeds also when the doorbell
    /// is disconnected already.
    ///
    /// # Errors
    /// See [`InvalidParameter`].
    fn disconnect_doorbell(
        &mut self,
        queue: HwQueueId,
        reason: ConnectionStatus,
    ) -> Result<(), InvalidParameter>;

    /// `DxgkCbNotifyInterrupt`: an interrupt to be handled in the DPC that follows.
    fn notify_interrupt(&mut self, interrupt: Interrupt);
}
