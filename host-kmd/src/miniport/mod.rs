// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver of our GPU.

mod display;
mod doorbells;
mod paging;
mod present;
mod render;

use crate::ddi::display::DisplayDdi;
use crate::ddi::dma_buffer::{DmaBuffer, RenderArguments, RenderError};
use crate::ddi::feature::{
    DxgkFeatures, FeatureId, FeatureInterface, NativeFenceCaps, NativeFenceOsCaps, VidSchCaps,
};
use crate::ddi::paging::{BuildPagingBufferError, PageSize, PagingBuffer, PagingOperation};
use crate::ddi::present::{PresentArguments, PresentError};
use crate::ddi::{
    AllocationInfoFlags2, BadPrivateData, ConnectDoorbellError, ConnectedStatus,
    CreateDoorbellError, CreateNativeFence, CurrentValuesFlags, DxgkCallbacks, Miniport,
    NoPhysicalDoorbell, VirtualAddressingModel,
};
use crate::hardware::{
    AddressSpaceId, DoorbellModel, DriverProtection, EngineProgress, FenceLogBuffer, FenceStorage,
    GlobalFence, Gpu, GpuOrdinal, GuestId, HardwareError, HwQueueDescription, HwQueueId,
    KernelSubmission, PhysicalDoorbell, Pte, Reported as _, RingBinding, SchedulingPriority,
    SlotValue, SocketId, SystemContext, UnknownId,
};
use bellhop_protocol::bar::FENCE_STRIDE;
use bellhop_protocol::control::adapter::{
    CAPS_GLOBAL_DOORBELL, EngineType, NODE_USER_MODE_SUBMISSION_SUPPORTED, NodeMetadata,
    UserModeSubmissionCaps,
};
use bellhop_protocol::control::allocation::{COMPRESSED, SegmentSet};
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::doorbell::{
    ConnectionStatus, DoorbellPrivateData, LoggingLevel, NOTIFY_EACH_SUBMISSION,
};
use display::DisplayDriver;
use doorbells::{PhysicalDoorbells, Uses};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Bytes of a doorbell: its word. The page around it belongs to the logical doorbell.
const DOORBELL_SIZE: u32 = size_of::<u64>() as u32;

/// The driver. The GPU does nearly everything by itself; the driver decides which queue has a physical doorbell.
pub struct BellhopMiniport {
    gpu: Arc<dyn Gpu>,
    doorbells: PhysicalDoorbells,
    /// The displays, if there are any.
    display: Option<DisplayDriver>,
    /// The guest that owns each queue.
    owners: HashMap<HwQueueId, GuestId>,
    /// In the global model: the queues at which engines look when the guest rings. There, no queue has a physical
    /// doorbell to lose; "This mechanism isn't required if a GPU uses global doorbells."
    globally_connected: HashSet<HwQueueId>,
    /// The address spaces of guests' system contexts, for the aperture.
    systems: HashMap<GuestId, AddressSpaceId>,
    /// Queues of user-mode drivers that notify of each submission.
    notify_each: HashSet<HwQueueId>,
    /// The OS's capabilities for native fences, if the OS has enabled them.
    native_fences: Option<NativeFenceOsCaps>,
}

/// The socket of a guest that the hardware does not know.
const NO_SOCKET: SocketId = SocketId(u64::MAX);

/// The hardware's information about doorbells.
struct OfHardware<'a>(&'a dyn Gpu);

impl Uses for OfHardware<'_> {
    fn last_use(&self, queue: HwQueueId) -> u64 {
        self.0.last_use(queue).reported()
    }

    fn share(&self, guest: GuestId) -> u32 {
        self.0.doorbell_share(guest).reported()
    }

    fn socket(&self, guest: GuestId) -> SocketId {
        self.0.socket(guest).reported_or(NO_SOCKET)
    }
}

/// The OS's capabilities for native fences, if the OS has enabled a version that this driver knows.
fn negotiate_native_fences(features: &dyn DxgkFeatures) -> Option<NativeFenceOsCaps> {
    let feature = FeatureId::NativeFence;
    let answer = features.is_feature_enabled(feature);
    if !answer.enabled {
        return None;
    }
    match features.query_feature_interface(feature, answer.version) {
        Ok(FeatureInterface::NativeFence1(table)) => Some(table.get_os_caps()),
        Err(error) => {
            tracing::error!(%error, "the OS enabled a feature but has no interface for it");
            None
        }
    }
}

impl BellhopMiniport {
    /// Starts the driver on a GPU that has no queue yet.
    #[must_use]
    pub fn new(gpu: Arc<dyn Gpu>) -> Self {
        let doorbells = PhysicalDoorbells::new(gpu.physical_doorbells());
        Self {
            display: DisplayDriver::new(Arc::clone(&gpu)),
            gpu,
            doorbells,
            owners: HashMap::new(),
            notify_each: HashSet::new(),
            globally_connected: HashSet::new(),
            systems: HashMap::new(),
            native_fences: None,
        }
    }

    /// The type of a node's engine; `None` if there is no such node.
    fn engine_type(&self, node: u32) -> Option<EngineType> {
        let nodes = self.gpu.nodes();
        usize::try_from(node).ok().and_then(|node| nodes.get(node)).map(|node| node.engine_type)
    }

    fn is_global(&self) -> bool {
        self.gpu.doorbell_model() == DoorbellModel::Global
    }

    /// The status of a queue's doorbell when it is connected.
    fn connected_status(&self, queue: HwQueueId) -> ConnectedStatus {
        if self.notify_each.contains(&queue) {
            ConnectedStatus::ConnectedNotify
        } else {
            // The engine changes this to CONNECTED_NOTIFY by itself before it sleeps.
            ConnectedStatus::Connected
        }
    }

    /// `VictimizeDoorbell()` of the reference: dxgkrnl publishes the status first, then the driver disconnects.
    fn victimise(
        &mut self,
        guest: GuestId,
        callbacks: &mut dyn DxgkCallbacks,
    ) -> Result<(), NoPhysicalDoorbell> {
        let uses = OfHardware(self.gpu.as_ref());
        let victim = self.doorbells.victim(guest, &uses).ok_or(NoPhysicalDoorbell)?;
        let reason = ConnectionStatus::DISCONNECTED_RETRY;
        if let Err(error) = callbacks.disconnect_doorbell(victim, reason) {
            // A guest cannot ring a doorbell that dxgkrnl does not know, so it is free.
            tracing::error!(?victim, %error, "the OS does not know the victim's doorbell");
        }
        self.disconnect_doorbell(victim);
        Ok(())
    }
}

impl Miniport for BellhopMiniport {
    fn start_device(&mut self, features: &dyn DxgkFeatures) {
        self.native_fences = negotiate_native_fences(features);
        tracing::debug!(native_fences = ?self.native_fences, "what the OS has enabled");
    }

    fn query_vidsch_caps(&self) -> VidSchCaps {
        let native_gpu_fence = self.native_fences.is_some();
        VidSchCaps {
            native_gpu_fence,
            optimized_native_fence_signaled_interrupt: native_gpu_fence
                && self.gpu.optimized_fence_interrupt(),
        }
    }

    fn query_native_fence_caps(&self) -> NativeFenceCaps {
        NativeFenceCaps {
            monitored_value_stride: FENCE_STRIDE as u32,
            preferred_segments: SegmentSet::PRIVATE,
            // An engine is its own context management processor and reaches a fence by its slot, so no packet of the
            // product uses these mappings. They exist because the reference's table of fence types gives that
            // processor an address of both values ("CMPVA", read and write); tests execute packets on them. Source:
            // native GPU fence object, 9.2 and "GPU VA mappings in paging process address space for CMP use".
            map_to_gpu_system_process: true,
            minimum_address: 0,
            maximum_address: u64::MAX,
        }
    }

    fn query_user_mode_submission_caps(&self) -> UserModeSubmissionCaps {
        let (flags, physical_doorbells) = match self.gpu.doorbell_model() {
            DoorbellModel::Dedicated => (0, self.gpu.physical_doorbells()),
            DoorbellModel::Global => (CAPS_GLOBAL_DOORBELL, 1),
        };
        UserModeSubmissionCaps {
            flags,
            doorbell_size: DOORBELL_SIZE,
            secondary_doorbell_size: 0,
            physical_doorbells,
        }
    }

    fn virtual_addressing_model(&self) -> VirtualAddressingModel {
        self.gpu.virtual_addressing_model()
    }

    fn node_count(&self) -> u32 {
        u32::try_from(self.gpu.nodes().len()).unwrap_or(u32::MAX)
    }

    fn get_node_metadata(&self, node: u32) -> Option<NodeMetadata> {
        let description = self.gpu.nodes().get(usize::try_from(node).ok()?)?;
        let mut friendly_name = [0; 32];
        for (to, from) in friendly_name.iter_mut().zip(description.name.bytes()) {
            *to = from;
        }
        Some(NodeMetadata {
            engine_type: description.engine_type,
            flags: if description.user_mode_submission {
                NODE_USER_MODE_SUBMISSION_SUPPORTED
            } else {
                0
            },
            friendly_name,
        })
    }

    fn create_process(&mut self, guest: GuestId) -> Result<AddressSpaceId, HardwareError> {
        self.gpu.create_address_space(guest)
    }

    fn destroy_process(&mut self, space: AddressSpaceId) {
        self.systems.retain(|_, system| *system != space);
        self.gpu.destroy_address_space(space).reported();
    }

    fn create_system_context(&mut self, guest: GuestId) -> Result<SystemContext, HardwareError> {
        let system = self.gpu.create_system_context(guest)?;
        self.systems.insert(guest, system.address_space);
        Ok(system)
    }

    fn submit_paging(
        &mut self,
        guest: GuestId,
        buffer: &PagingBuffer,
        fence: u64,
    ) -> Result<(), HardwareError> {
        self.gpu.submit_paging(guest, buffer.packets(), fence)
    }

    fn create_hw_queue(&mut self, description: HwQueueDescription) -> Result<HwQueueId, UnknownId> {
        let queue = self.gpu.create_hw_queue(description)?;
        self.owners.insert(queue, description.guest);
        Ok(queue)
    }

    fn destroy_hw_queue(&mut self, queue: HwQueueId) {
        self.owners.remove(&queue);
        self.gpu.destroy_hw_queue(queue).reported();
    }

    fn suspend_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        self.gpu.suspend_hw_queues(queues)
    }

    fn resume_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        self.gpu.resume_hw_queues(queues)
    }

    fn abandon_paging(&mut self, guest: GuestId, fence: u64) {
        self.gpu.abandon_paging(guest, fence).reported();
    }

    fn preempt_command(&mut self, queue: HwQueueId, preemption_fence: u64) {
        self.gpu.preempt_hw_queue(queue, preemption_fence).reported();
    }

    fn query_engine_status(&self, node: u32) -> EngineProgress {
        self.gpu.engine_progress(node).reported()
    }

    fn reset_engine(&mut self, node: u32) {
        self.gpu.reset_engine(node).reported();
    }

    fn reset_from_timeout(&mut self, _node: u32) {
        self.gpu.reset_adapter();
    }

    fn set_context_scheduling_priority(
        &mut self,
        queues: &[HwQueueId],
        priority: SchedulingPriority,
    ) -> Result<(), UnknownId> {
        self.gpu.set_scheduling_priority(queues, priority)
    }

    fn set_power_state(&mut self, _: GpuOrdinal, state: DevicePowerState) {
        if let Some(display) = &self.display {
            display.set_power(state == DevicePowerState::D0);
        }
    }

    fn set_power_component_f_state(&mut self, node: u32, state: EnginePowerState, transition: u64) {
        self.gpu.set_engine_power(node, state, transition).reported();
    }

    fn submit_command_to_hw_queue(
        &mut self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError> {
        self.gpu.submit_kernel_mode(queue, submission)?;
        Ok(self.gpu.kick(queue)?)
    }

    fn render(&self, arguments: &RenderArguments<'_>) -> Result<DmaBuffer, RenderError> {
        // A node that does not exist executes nothing.
        let nothing = RenderError::IllegalInstruction { offset: 0 };
        render::render(arguments, self.engine_type(arguments.node).ok_or(nothing)?)
    }

    fn present(&self, arguments: &PresentArguments<'_>) -> Result<DmaBuffer, PresentError> {
        let engine_type = self.engine_type(arguments.node).ok_or(PresentError::NotSupported)?;
        present::present(arguments, engine_type)
    }

    fn patch(&self, buffer: &mut DmaBuffer, physical_addresses: &[u64]) {
        render::patch(buffer, physical_addresses);
    }

    fn submit_command(
        &mut self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError> {
        // The GPU's queues serve either kind of context, and all addresses are virtual to the GPU.
        self.submit_command_to_hw_queue(queue, submission)
    }

    fn query_current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        self.gpu.current_fence(queue)
    }

    fn create_doorbell(
        &mut self,
        queue: HwQueueId,
        ring: RingBinding,
        private_data: DoorbellPrivateData,
    ) -> Result<(), CreateDoorbellError> {
        let DoorbellPrivateData { flags, reserved } = private_data;
        if flags & !NOTIFY_EACH_SUBMISSION != 0 {
            return Err(BadPrivateData(flags).into());
        }
        if let Some(value) = reserved.into_iter().find(|value| *value != 0) {
            return Err(BadPrivateData(value).into());
        }
        let notify_each = flags & NOTIFY_EACH_SUBMISSION != 0;
        self.gpu.bind_ring(queue, RingBinding { notify_each, ..ring })?;
        if notify_each {
            self.notify_each.insert(queue);
        }
        Ok(())
    }

    fn connect_doorbell(
        &mut self,
        queue: HwQueueId,
        callbacks: &mut dyn DxgkCallbacks,
    ) -> Result<ConnectedStatus, ConnectDoorbellError> {
        if self.is_global() {
            self.gpu.watch_global(queue)?;
            self.globally_connected.insert(queue);
            return Ok(self.connected_status(queue));
        }
        let guest = *self.owners.get(&queue).ok_or(UnknownId::HwQueue(queue))?;
        let doorbell = match self.doorbells.assign(guest, queue) {
            Some(doorbell) => doorbell,
            None => {
                self.victimise(guest, callbacks)?;
                self.doorbells.assign(guest, queue).ok_or(NoPhysicalDoorbell)?
            }
        };
        if let Err(unknown) = self.gpu.watch(doorbell, queue) {
            self.doorbells.release(queue);
            return Err(unknown.into());
        }
        Ok(self.connected_status(queue))
    }

    fn disconnect_doorbell(&mut self, queue: HwQueueId) {
        if self.globally_connected.remove(&queue) {
            // The order is that of the dedicated model below.
            self.gpu.unwatch_global(queue).reported();
            self.gpu.kick(queue).reported();
            return;
        }
        let Some(doorbell) = self.doorbells.release(queue) else { return };
        // Second half of `disconnect` in protocol::handoff::doorbell: the status and its full fence came before. A
        // guest that still read a connected status has rung by now, and this last look finds what it wrote; a guest
        // that rings later reads the disconnected status.
        self.gpu.unwatch(doorbell).reported();
        self.gpu.kick(queue).reported();
    }

    fn destroy_doorbell(&mut self, queue: HwQueueId) {
        self.notify_each.remove(&queue);
        self.gpu.unbind_ring(queue).reported();
    }

    fn notify_work_submission(&mut self, queue: HwQueueId) -> Result<(), UnknownId> {
        // The engine's look counts as a use of the doorbell, if it finds work.
        self.gpu.kick(queue)
    }

    fn create_native_fence(&mut self, arguments: CreateNativeFence) -> Result<(), UnknownId> {
        let CreateNativeFence { fence, storage, initial_value, .. } = arguments;
        self.gpu.create_fence(fence.guest, fence.slot, storage, initial_value)
    }

    fn open_native_fence(
        &mut self,
        fence: GlobalFence,
        slot: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId> {
        self.gpu.open_fence(fence.guest, slot, fence.slot, owner)
    }

    fn close_native_fence(&mut self, fence: GlobalFence, slot: u32) {
        self.gpu.close_fence(fence.guest, slot).reported();
    }

    fn destroy_native_fence(&mut self, _fence: GlobalFence) {
        // The GPU keeps no state of a fence that no process has open.
    }

    fn create_monitored_fence(
        &mut self,
        fence: GlobalFence,
        storage: FenceStorage,
        initial_value: Option<u64>,
    ) -> Result<(), UnknownId> {
        self.gpu.create_fence(fence.guest, fence.slot, storage, initial_value)
    }

    fn open_monitored_fence(
        &mut self,
        fence: GlobalFence,
        slot: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId> {
        self.gpu.open_fence(fence.guest, slot, fence.slot, owner)
    }

    fn close_monitored_fence(&mut self, fence: GlobalFence, slot: u32) {
        self.gpu.close_fence(fence.guest, slot).reported();
    }

    fn update_monitored_values(
        &mut self,
        guest: GuestId,
        values: &[SlotValue],
    ) -> Result<(), UnknownId> {
        self.gpu.update_monitored_values(guest, values)
    }

    fn update_current_values_from_cpu(
        &mut self,
        guest: GuestId,
        values: &[SlotValue],
        flags: CurrentValuesFlags,
    ) -> Result<(), UnknownId> {
        let CurrentValuesFlags { always_signaled, notification_only } = flags;
        if notification_only {
            let slots: Vec<_> = values.iter().map(|value| value.slot).collect();
            return self.gpu.notify_current_values(guest, &slots, always_signaled);
        }
        self.gpu.update_current_values(guest, values, always_signaled)
    }

    fn set_native_fence_log_buffer(
        &mut self,
        queue: HwQueueId,
        log: FenceLogBuffer,
    ) -> Result<(), UnknownId> {
        self.gpu.set_fence_log(queue, log)
    }

    fn update_native_fence_logs(&mut self, queues: &[HwQueueId]) {
        self.gpu.flush_fence_logs(queues);
    }

    fn update_logging_level(&mut self, level: LoggingLevel) {
        self.gpu.set_logging_level(level);
    }

    fn update_page_table(
        &mut self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError> {
        self.gpu.update_page_table(space, gpu_va, page_size, entries)
    }

    fn create_allocation(
        &mut self,
        private_data: u32,
    ) -> Result<AllocationInfoFlags2, BadPrivateData> {
        match private_data {
            0 => Ok(AllocationInfoFlags2::default()),
            // Encoded pages must be decoded before a CPU reads them, and engines must have forgotten pages that
            // return to the guest's own use.
            COMPRESSED => {
                Ok(AllocationInfoFlags2 { notify_eviction: true, notify_io_mmu_unmap: true })
            }
            other => Err(BadPrivateData(other)),
        }
    }

    fn driver_protection(&self, private_data: u32) -> DriverProtection {
        DriverProtection { compressed: private_data == COMPRESSED, protected: false }
    }

    fn build_paging_buffer(
        &mut self,
        guest: GuestId,
        operation: &PagingOperation<'_>,
        buffer: &mut PagingBuffer,
    ) -> Result<(), BuildPagingBufferError> {
        let system =
            self.systems.get(&guest).ok_or(HardwareError::from(UnknownId::SystemContext(guest)))?;
        let packets = paging::build(self.gpu.as_ref(), *system, operation)?;
        Ok(buffer.append(&packets)?)
    }

    fn paging_process_gpu_va_size(&self) -> u32 {
        // The segments are large enough for the default size.
        0
    }

    fn physical_doorbell(&self, queue: HwQueueId) -> Option<PhysicalDoorbell> {
        self.doorbells.of(queue)
    }

    fn physical_doorbells_in_use(&self) -> u32 {
        self.doorbells.in_use()
    }

    fn display(&self) -> Option<&dyn DisplayDdi> {
        self.display.as_ref().map(|display| display as _)
    }

    fn interrupt_routine(&mut self, callbacks: &mut dyn DxgkCallbacks) -> bool {
        let taken = self.gpu.take_interrupts();
        let was_ours = !taken.is_empty();
        for interrupt in taken {
            callbacks.notify_interrupt(interrupt);
        }
        was_ours
    }
}
