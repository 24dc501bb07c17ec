// SPDX-License-Identifier: MIT OR Apache-2.0

//! The DDIs: what dxgkrnl calls a driver for ([`Miniport`]) and what a driver calls dxgkrnl for
//! ([`DxgkCallbacks`]).
//!
//! Names are those of the references in Rust case, without `DxgkDdi` and `DxgkCb`. Only what our GPU needs is here.
//! Devices and contexts have no state below dxgkrnl, so a list of HW queues names a context.

pub mod display;
pub mod dma_buffer;
pub mod feature;
pub mod paging;
pub mod present;

pub use crate::hardware::VirtualAddressingModel;
use crate::hardware::{
    AddressSpaceId, DriverProtection, EngineProgress, FenceLogBuffer, FenceStorage, GlobalFence,
    GpuOrdinal, GuestId, HardwareError, HwQueueDescription, HwQueueId, Interrupt, KernelSubmission,
    PhysicalDoorbell, Pte, RingBinding, SchedulingPriority, SlotValue, SystemContext, UnknownId,
};
use bellhop_protocol::control::adapter::{NodeMetadata, UserModeSubmissionCaps};
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellPrivateData, LoggingLevel};
use display::DisplayDdi;
use dma_buffer::{DmaBuffer, RenderArguments, RenderError};
use feature::{DxgkFeatures, NativeFenceCaps, VidSchCaps};
use paging::{BuildPagingBufferError, PageSize, PagingBuffer, PagingOperation};
use present::{PresentArguments, PresentError};

/// How a doorbell was connected: the two statuses that `DxgkDdiConnectDoorbell` may return. A separate type, so that
/// dxgkrnl has no other status to refuse.
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

/// The GPU has no physical doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the GPU has no physical doorbell")]
pub struct NoPhysicalDoorbell;

/// What the driver wants to be notified of for an allocation (`DXGK_ALLOCATIONINFOFLAGS2`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllocationInfoFlags2 {
    /// `NotifyEviction`
    pub notify_eviction: bool,
    /// `NotifyIoMmuUnmap`; has no effect without an IOMMU. An allocation may have both flags: each notification is a
    /// separate call.
    pub notify_io_mmu_unmap: bool,
}

/// How CurrentValues are updated from the CPU (`DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CurrentValuesFlags {
    /// `AlwaysSignaled`: the value is `u64::MAX`, and the fences ignore later signals.
    pub always_signaled: bool,
    /// `NotificationOnly`: the driver writes no CurrentValue. Another adapter's engines or another guest wrote it,
    /// or, with `always_signaled`, it stays unwritten.
    pub notification_only: bool,
}

/// Where a fence's values are in the GPU's system process. Guest packets cannot reach them; code that runs in that
/// process may read and write both.
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
    /// Where its values are stored.
    pub storage: FenceStorage,
    /// Initial CurrentValue. `None` makes another view of a fence that other guests have.
    pub initial_value: Option<u64>,
    /// Where the values are mapped for the context management processor, if the driver set
    /// [`NativeFenceCaps::map_to_gpu_system_process`].
    pub system_process: Option<SystemProcessGpuVas>,
}

/// The driver does not accept this private driver data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the private driver data cannot hold {0:#x}")]
pub struct BadPrivateData(pub u32);

/// Why a doorbell was not created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateDoorbellError {
    /// The driver does not accept the private data.
    #[error(transparent)]
    PrivateData(#[from] BadPrivateData),
    /// The hardware does not have the queue or the doorbell slot.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
}

/// Why a doorbell was not connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectDoorbellError {
    /// No queue has a physical doorbell that the driver could take.
    #[error(transparent)]
    NoPhysicalDoorbell(#[from] NoPhysicalDoorbell),
    /// The hardware does not have the queue.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
}

/// Why dxgkrnl refuses a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidParameter {
    /// The queue has no doorbell.
    #[error("no doorbell was created for {0:?}")]
    UnknownDoorbell(HwQueueId),
    /// The reason is not one of `DISCONNECTED_*`.
    #[error("{0} is no reason to disconnect a doorbell")]
    NotADisconnectedStatus(ConnectionStatus),
}

/// What a kernel-mode driver does for dxgkrnl.
///
/// A HW queue has at most one doorbell, so its id names the doorbell. Dxgkrnl has checked ids, slots and addresses.
///
/// A call with an id that the hardware does not have is a bug of dxgkrnl. The call fails, and so does the request
/// that caused it. Calls that end or stop something or ask for an interrupt return nothing, because no request can
/// fail over them: the driver reports the bug and carries on.
pub trait Miniport: Send {
    /// `DxgkDdiStartDevice`: the first call. The driver queries which features the OS has enabled.
    fn start_device(&mut self, features: &dyn DxgkFeatures);

    /// The `DXGK_VIDSCHCAPS` part of `DXGKQAITYPE_DRIVERCAPS`.
    fn query_vidsch_caps(&self) -> VidSchCaps;

    /// `DXGKQAITYPE_NATIVE_FENCE_CAPS`. Called only if the driver advertises native fences.
    fn query_native_fence_caps(&self) -> NativeFenceCaps;

    /// `DXGKQAITYPE_USERMODESUBMISSION_CAPS`.
    fn query_user_mode_submission_caps(&self) -> UserModeSubmissionCaps;

    /// The virtual addressing model that the device supports, a driver cap.
    fn virtual_addressing_model(&self) -> VirtualAddressingModel;

    /// Number of nodes.
    fn node_count(&self) -> u32;

    /// `DxgkDdiGetNodeMetadata`. Returns `None` if there is no such node.
    fn get_node_metadata(&self, node: u32) -> Option<NodeMetadata>;

    /// `DxgkDdiCreateProcess`: creates the process's address space.
    ///
    /// # Errors
    /// Fails if there is no page-table memory left.
    fn create_process(&mut self, guest: GuestId) -> Result<AddressSpaceId, HardwareError>;

    /// `DxgkDdiDestroyProcess`. By now no engine uses the address space.
    fn destroy_process(&mut self, space: AddressSpaceId);

    /// Creates the context that executes the guest's paging buffers, the equivalent of dxgkrnl's own process.
    /// [`Self::destroy_hw_queue`] and [`Self::destroy_process`] destroy it.
    ///
    /// # Errors
    /// Fails if there is no page-table memory left.
    fn create_system_context(&mut self, guest: GuestId) -> Result<SystemContext, HardwareError>;

    /// `DxgkDdiSubmitCommand` of a paging buffer: executes it in the guest's system context, after earlier
    /// submissions to that context. `fence` is greater than any before. The buffer executes only once the engine of
    /// the system context has power.
    ///
    /// # Errors
    /// Fails if too much is submitted already; then nothing is done.
    fn submit_paging(
        &mut self,
        guest: GuestId,
        buffer: &PagingBuffer,
        fence: u64,
    ) -> Result<(), HardwareError>;

    /// Abandons the paging buffer with this fence as failed, if the guest's system context has begun it, and puts
    /// that context, which was pre-empted, back on the run list. Windows resets the adapter when paging hangs; here
    /// each guest has its own paging.
    fn abandon_paging(&mut self, guest: GuestId, fence: u64);

    /// `DxgkDdiCreateHwQueue`: creates a queue and puts it on the run list.
    ///
    /// # Errors
    /// Fails if the hardware does not have what the description names.
    fn create_hw_queue(&mut self, description: HwQueueDescription) -> Result<HwQueueId, UnknownId>;

    /// `DxgkDdiDestroyHwQueue`: takes a queue off the run list permanently.
    fn destroy_hw_queue(&mut self, queue: HwQueueId);

    /// `DxgkDdiSuspendContext`: removes the context's queues from the HW scheduler's list. After a later quiesce of
    /// the hardware they no longer execute. Doorbells stay connected.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn suspend_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId>;

    /// `DxgkDdiResumeContext`: adds the context's queues to the HW scheduler's list.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn resume_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId>;

    /// `DxgkDdiPreemptCommand`: stops the queue's running command at its next boundary.
    /// [`Interrupt::DmaPreempted`] with `preemption_fence` follows; [`Self::resume_context`] continues
    /// the queue from there.
    fn preempt_command(&mut self, queue: HwQueueId, preemption_fence: u64);

    /// `DxgkDdiQueryEngineStatus`: the progress of a node's engine. A responsive engine begins turns, or has no turn
    /// to begin.
    fn query_engine_status(&self, node: u32) -> EngineProgress;

    /// `DxgkDdiResetEngine`: [`Interrupt::EngineReset`] follows, unless the work that the engine is stuck in
    /// withstands the reset.
    fn reset_engine(&mut self, node: u32);

    /// `DxgkDdiResetFromTimeout`: resets the GPU that has this node. [`Interrupt::EngineReset`] follows for each of its
    /// nodes, after the engine has restarted (`DxgkDdiRestartFromTimeout`).
    fn reset_from_timeout(&mut self, node: u32);

    /// `DxgkDdiSetContextSchedulingProperties`: sets the priority of the context's queues.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn set_context_scheduling_priority(
        &mut self,
        queues: &[HwQueueId],
        priority: SchedulingPriority,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiSetPowerState` of a GPU of the chain: its displays have power in D0 and none in D3. Its engines' components
    /// are told of by themselves.
    fn set_power_state(&mut self, gpu: GpuOrdinal, state: DevicePowerState);

    /// `DxgkDdiSetPowerComponentFState` of a node's component. `transition` grows with each call for a node;
    /// [`EngineState::Active`](crate::hardware::EngineState::Active) names the refused transition.
    fn set_power_component_f_state(&mut self, node: u32, state: EnginePowerState, transition: u64);

    /// `DxgkDdiSubmitCommandToHwQueue`.
    ///
    /// # Errors
    /// Fails if too much is queued already.
    fn submit_command_to_hw_queue(
        &mut self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError>;

    /// `DxgkDdiRender`: checks a command buffer of the basic model and copies it into a DMA buffer.
    ///
    /// # Errors
    /// Fails if the command buffer may not be executed.
    fn render(&self, arguments: &RenderArguments<'_>) -> Result<DmaBuffer, RenderError>;

    /// `DxgkDdiPresent`: fills a DMA buffer with the packets that draw a surface on another.
    ///
    /// # Errors
    /// Fails if it may not be drawn.
    fn present(&self, arguments: &PresentArguments<'_>) -> Result<DmaBuffer, PresentError>;

    /// `DxgkDdiPatch`: puts the physical addresses of the allocations, in the order of the allocation list, into a
    /// DMA buffer that [`Self::render`] made.
    fn patch(&self, buffer: &mut DmaBuffer, physical_addresses: &[u64]);

    /// `DxgkDdiSubmitCommand`, `DxgkDdiSubmitCommandVirtual`: submits for a context that submits to its node. `queue`
    /// is the queue that was created for that context.
    ///
    /// # Errors
    /// Fails if too much is queued already.
    fn submit_command(
        &mut self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError>;

    /// `DxgkDdiQueryCurrentFence`: [`KernelSubmission::submission_fence`] of the queue's last completed command
    /// buffer, whether or not an interrupt has reported it; 0 if none has completed. It belongs to one queue, not to
    /// the node, which executes its queues in turns.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn query_current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId>;

    /// `DxgkDdiCreateDoorbell`: gives the queue its ring and passes the user-mode driver's private data. No physical
    /// doorbell is assigned yet.
    ///
    /// # Errors
    /// Fails if this driver does not accept the private data; then nothing is done.
    fn create_doorbell(
        &mut self,
        queue: HwQueueId,
        ring: RingBinding,
        private_data: DoorbellPrivateData,
    ) -> Result<(), CreateDoorbellError>;

    /// `DxgkDdiConnectDoorbell`: makes a physical doorbell watch the queue's doorbell, which is not connected. If no
    /// physical doorbell is free, the driver takes another queue's, after [`DxgkCallbacks::disconnect_doorbell`] for
    /// that queue has returned.
    ///
    /// # Errors
    /// Fails if no queue has a physical doorbell to take, or if the hardware does not have the queue.
    fn connect_doorbell(
        &mut self,
        queue: HwQueueId,
        callbacks: &mut dyn DxgkCallbacks,
    ) -> Result<ConnectedStatus, ConnectDoorbellError>;

    /// `DxgkDdiDisconnectDoorbell`: stops the watch, then looks at the ring one last time. Dxgkrnl has already
    /// published the disconnected status.
    fn disconnect_doorbell(&mut self, queue: HwQueueId);

    /// `DxgkDdiDestroyDoorbell`: takes the ring away. The doorbell is already disconnected.
    fn destroy_doorbell(&mut self, queue: HwQueueId);

    /// `DxgkDdiNotifyWorkSubmission`: the queue's ring may hold work; makes its engine look.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn notify_work_submission(&mut self, queue: HwQueueId) -> Result<(), UnknownId>;

    /// `DxgkDdiCreateNativeFence`: creates a fence that no process has opened yet.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn create_native_fence(&mut self, fence: CreateNativeFence) -> Result<(), UnknownId>;

    /// `DxgkDdiOpenNativeFence`: packets of `owner` name the fence by `slot`. For the first process that opens the
    /// fence, `slot` is the fence's own.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn open_native_fence(
        &mut self,
        fence: GlobalFence,
        slot: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiCloseNativeFence`: packets that name `slot` fault from now on.
    fn close_native_fence(&mut self, fence: GlobalFence, slot: u32);

    /// `DxgkDdiDestroyNativeFence`: no process has the fence open.
    fn destroy_native_fence(&mut self, fence: GlobalFence);

    /// Creates a monitored fence that no process has opened yet. Each signal raises
    /// [`Interrupt::MonitoredFenceSignaled`]. WDDM has no DDI for these fences: there packets name them by address,
    /// here by slot. Without an initial value it is another view, as for a native fence.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn create_monitored_fence(
        &mut self,
        fence: GlobalFence,
        storage: FenceStorage,
        initial_value: Option<u64>,
    ) -> Result<(), UnknownId>;

    /// Packets of `owner` name a monitored fence by `slot`, as with [`Self::open_native_fence`].
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn open_monitored_fence(
        &mut self,
        fence: GlobalFence,
        slot: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId>;

    /// Packets that name a monitored fence by `slot` fault from now on.
    fn close_monitored_fence(&mut self, fence: GlobalFence, slot: u32);

    /// `DxgkDdiUpdateMonitoredValues`: after this returns, any CurrentValue that dxgkrnl reads was written by an
    /// engine that saw the fence's new MonitoredValue, or an interrupt will follow.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn update_monitored_values(
        &mut self,
        guest: GuestId,
        values: &[SlotValue],
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiUpdateCurrentValuesFromCpu`: signals fences and releases the queues that wait for them, by making
    /// their engines look at the run list again.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn update_current_values_from_cpu(
        &mut self,
        guest: GuestId,
        values: &[SlotValue],
        flags: CurrentValuesFlags,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiSetNativeFenceLogBuffer`: gives one log to a queue that has no submissions yet.
    ///
    /// # Errors
    /// Fails if the hardware does not have what it names.
    fn set_native_fence_log_buffer(
        &mut self,
        queue: HwQueueId,
        log: FenceLogBuffer,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiUpdateNativeFenceLogs`: makes entries of these queues' logs readable that lie before the positions
    /// that dxgkrnl has loaded.
    fn update_native_fence_logs(&mut self, queues: &[HwQueueId]);

    /// `DxgkDdiUpdateLoggingLevel`: sets what is logged from now on.
    fn update_logging_level(&mut self, level: LoggingLevel);

    /// `DxgkDdiCreateAllocation` of a paged allocation.
    ///
    /// # Errors
    /// Fails if this driver does not accept the private data.
    fn create_allocation(
        &mut self,
        private_data: u32,
    ) -> Result<AllocationInfoFlags2, BadPrivateData>;

    /// The driver protection in the page-table entries through which queues reach an allocation with this private
    /// data, which the driver has accepted. Entries of the paging process do not have it: paging moves raw bytes.
    fn driver_protection(&self, private_data: u32) -> DriverProtection;

    /// `DxgkDdiBuildPagingBuffer`: appends the packets of one operation to a buffer, all or none. Dxgkrnl submits the
    /// buffer before it destroys an address space that the buffer names.
    ///
    /// # Errors
    /// Fails if the buffer has no room: submit it and build the operation into an empty one, which has room for any
    /// operation within the limits of [`paging`]. Fails if no page-table memory is left: then nothing is built.
    fn build_paging_buffer(
        &mut self,
        guest: GuestId,
        operation: &PagingOperation<'_>,
        buffer: &mut PagingBuffer,
    ) -> Result<(), BuildPagingBufferError>;

    /// `DXGKQAITYPE_PAGINGPROCESSGPUVASIZE`: the size in MiB that the driver wants for the paging process's GPU VA
    /// space; 0 leaves the choice to dxgkrnl.
    fn paging_process_gpu_va_size(&self) -> u32;

    /// `DXGK_OPERATION_UPDATE_PAGE_TABLE` with the CPU: writes the entries of consecutive pages from `gpu_va`
    /// immediately, regardless of pending paging buffers.
    ///
    /// # Errors
    /// Fails if no page-table memory is left; entries already written stay.
    fn update_page_table(
        &mut self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError>;

    /// The physical doorbell that watches the queue's doorbell, if any. For tools.
    fn physical_doorbell(&self, _queue: HwQueueId) -> Option<PhysicalDoorbell> {
        None
    }

    /// How many physical doorbells watch a queue's doorbell. For tools.
    fn physical_doorbells_in_use(&self) -> u32 {
        0
    }

    /// The DDIs of a display; `None` for a driver or a GPU without displays (render only).
    fn display(&self) -> Option<&dyn DisplayDdi> {
        None
    }

    /// `DxgkDdiInterruptRoutine`: takes what the hardware raised, hands it to [`DxgkCallbacks::notify_interrupt`] and
    /// does nothing else. Returns false if nothing was raised: the interrupt was another device's.
    fn interrupt_routine(&mut self, callbacks: &mut dyn DxgkCallbacks) -> bool;
}

/// What dxgkrnl does for a kernel-mode driver.
pub trait DxgkCallbacks {
    /// `DxgkCbDisconnectDoorbell`: publishes `reason` for the doorbell of `queue`. The driver may take the physical
    /// doorbell only after this has returned. Succeeds even if the doorbell is already disconnected.
    ///
    /// # Errors
    /// See [`InvalidParameter`].
    fn disconnect_doorbell(
        &mut self,
        queue: HwQueueId,
        reason: ConnectionStatus,
    ) -> Result<(), InvalidParameter>;

    /// `DxgkCbNotifyInterrupt`: reports an interrupt for the following DPC to handle.
    fn notify_interrupt(&mut self, interrupt: Interrupt);
}
