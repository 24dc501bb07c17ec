// SPDX-License-Identifier: MIT OR Apache-2.0

//! The DDI calls, each dispatched to the drivers that it concerns.

use super::Proxy;
use super::callbacks::ProxyCallbacks;
use crate::ddi::display::DisplayDdi;
use crate::ddi::dma_buffer::{DmaBuffer, RenderArguments, RenderError};
use crate::ddi::feature::{DxgkFeatures, NativeFenceCaps, VidSchCaps};
use crate::ddi::paging::{BuildPagingBufferError, PageSize, PagingBuffer, PagingOperation};
use crate::ddi::present::{PresentArguments, PresentError};
use crate::ddi::{
    AllocationInfoFlags2, BadPrivateData, ConnectDoorbellError, ConnectedStatus,
    CreateDoorbellError, CreateNativeFence, CurrentValuesFlags, DxgkCallbacks, Miniport,
    VirtualAddressingModel,
};
use crate::hardware::{
    AddressSpaceId, DriverProtection, EngineProgress, FenceLogBuffer, FenceStorage, GlobalFence,
    GpuOrdinal, GuestId, HardwareError, HwQueueDescription, HwQueueId, KernelSubmission,
    PhysicalDoorbell, Pte, Reported as _, RingBinding, SchedulingPriority, SlotValue,
    SystemContext, UnknownId,
};
use bellhop_protocol::control::adapter::{NodeMetadata, UserModeSubmissionCaps};
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::doorbell::{DoorbellPrivateData, LoggingLevel};
use delegate::delegate;

impl Miniport for Proxy {
    delegate! {
        to self.master() {
            fn query_native_fence_caps(&self) -> NativeFenceCaps;
            fn virtual_addressing_model(&self) -> VirtualAddressingModel;
            fn patch(&self, buffer: &mut DmaBuffer, physical_addresses: &[u64]);
            fn driver_protection(&self, private_data: u32) -> DriverProtection;
            fn paging_process_gpu_va_size(&self) -> u32;
        }
        to self.master_mut() {
            fn submit_paging(
                &mut self,
                guest: GuestId,
                buffer: &PagingBuffer,
                fence: u64,
            ) -> Result<(), HardwareError>;
            fn abandon_paging(&mut self, guest: GuestId, fence: u64);
            fn create_native_fence(&mut self, fence: CreateNativeFence) -> Result<(), UnknownId>;
            fn open_native_fence(
                &mut self,
                fence: GlobalFence,
                slot: u32,
                owner: AddressSpaceId,
            ) -> Result<(), UnknownId>;
            fn close_native_fence(&mut self, fence: GlobalFence, slot: u32);
            fn destroy_native_fence(&mut self, fence: GlobalFence);
            fn create_monitored_fence(
                &mut self,
                fence: GlobalFence,
                storage: FenceStorage,
                initial_value: Option<u64>,
            ) -> Result<(), UnknownId>;
            fn open_monitored_fence(
                &mut self,
                fence: GlobalFence,
                slot: u32,
                owner: AddressSpaceId,
            ) -> Result<(), UnknownId>;
            fn close_monitored_fence(&mut self, fence: GlobalFence, slot: u32);
            fn update_monitored_values(
                &mut self,
                guest: GuestId,
                values: &[SlotValue],
            ) -> Result<(), UnknownId>;
            fn update_current_values_from_cpu(
                &mut self,
                guest: GuestId,
                values: &[SlotValue],
                flags: CurrentValuesFlags,
            ) -> Result<(), UnknownId>;
            fn create_allocation(
                &mut self,
                private_data: u32,
            ) -> Result<AllocationInfoFlags2, BadPrivateData>;
        }
        to self.driver_mut(gpu) {
            fn set_power_state(&mut self, gpu: GpuOrdinal, state: DevicePowerState);
        }
        to self.driver_mut(queue.gpu()) {
            fn preempt_command(&mut self, queue: HwQueueId, preemption_fence: u64);
            fn submit_command_to_hw_queue(
                &mut self,
                queue: HwQueueId,
                submission: KernelSubmission,
            ) -> Result<(), HardwareError>;
            fn submit_command(
                &mut self,
                queue: HwQueueId,
                submission: KernelSubmission,
            ) -> Result<(), HardwareError>;
            fn create_doorbell(
                &mut self,
                queue: HwQueueId,
                ring: RingBinding,
                private_data: DoorbellPrivateData,
            ) -> Result<(), CreateDoorbellError>;
            fn connect_doorbell(
                &mut self,
                queue: HwQueueId,
                callbacks: &mut dyn DxgkCallbacks,
            ) -> Result<ConnectedStatus, ConnectDoorbellError>;
            fn disconnect_doorbell(&mut self, queue: HwQueueId);
            fn destroy_doorbell(&mut self, queue: HwQueueId);
            fn notify_work_submission(&mut self, queue: HwQueueId) -> Result<(), UnknownId>;
            fn set_native_fence_log_buffer(
                &mut self,
                queue: HwQueueId,
                log: FenceLogBuffer,
            ) -> Result<(), UnknownId>;
        }
        to self.driver(queue.gpu()) {
            fn query_current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId>;
        }
    }

    fn display(&self) -> Option<&dyn DisplayDdi> {
        match self.drivers.as_slice() {
            [only] => only.miniport.display(),
            _ if self.has_displays() => Some(self),
            _ => None,
        }
    }

    fn start_device(&mut self, features: &dyn DxgkFeatures) {
        self.drivers.iter_mut().for_each(|driver| driver.miniport.start_device(features));
    }

    fn query_vidsch_caps(&self) -> VidSchCaps {
        // The graphics kernel believes a cap of every GPU.
        let all = self.drivers.iter().map(|driver| driver.miniport.query_vidsch_caps());
        let both = |a: VidSchCaps, b: VidSchCaps| VidSchCaps {
            native_gpu_fence: a.native_gpu_fence && b.native_gpu_fence,
            optimized_native_fence_signaled_interrupt: a.optimized_native_fence_signaled_interrupt
                && b.optimized_native_fence_signaled_interrupt,
        };
        all.reduce(both).unwrap_or_default()
    }

    fn query_user_mode_submission_caps(&self) -> UserModeSubmissionCaps {
        let all =
            self.drivers.iter().map(|driver| driver.miniport.query_user_mode_submission_caps());
        let master = self.master().query_user_mode_submission_caps();
        let is_global = master.flags != 0;
        let doorbells = all.map(|caps| caps.physical_doorbells).sum();
        // A guest's global doorbell is one word for all GPUs.
        let physical_doorbells = if is_global { master.physical_doorbells } else { doorbells };
        UserModeSubmissionCaps { physical_doorbells, ..master }
    }

    fn node_count(&self) -> u32 {
        self.drivers.iter().map(|driver| driver.nodes).sum()
    }

    fn get_node_metadata(&self, node: u32) -> Option<NodeMetadata> {
        let (gpu, own) = self.node(node)?;
        Some(self.driver(gpu).get_node_metadata(own)?.on_gpu(gpu.0))
    }

    fn create_process(&mut self, guest: GuestId) -> Result<AddressSpaceId, HardwareError> {
        let mut spaces = Vec::with_capacity(self.drivers.len());
        for driver in &mut self.drivers {
            match driver.miniport.create_process(guest) {
                Ok(space) => spaces.push(space),
                Err(error) => {
                    for (driver, space) in self.drivers.iter_mut().zip(spaces) {
                        driver.miniport.destroy_process(space);
                    }
                    return Err(error);
                }
            }
        }
        let master = spaces.remove(0);
        self.shared.insert_space(master, spaces);
        Ok(master)
    }

    fn destroy_process(&mut self, space: AddressSpaceId) {
        self.master_mut().destroy_process(space);
        let (_, slaves) = self.drivers.split_at_mut(1);
        if !slaves.is_empty() {
            let spaces = self.shared.remove_space(space);
            for (driver, space) in slaves.iter_mut().zip(spaces) {
                driver.miniport.destroy_process(space);
            }
        }
    }

    fn create_system_context(&mut self, guest: GuestId) -> Result<SystemContext, HardwareError> {
        let mut systems = Vec::with_capacity(self.drivers.len());
        for driver in &mut self.drivers {
            match driver.miniport.create_system_context(guest) {
                Ok(system) => systems.push(system),
                Err(error) => {
                    for (driver, system) in self.drivers.iter_mut().zip(systems) {
                        driver.miniport.destroy_hw_queue(system.hw_queue);
                        driver.miniport.destroy_process(system.address_space);
                    }
                    return Err(error);
                }
            }
        }
        let master = systems.remove(0);
        self.shared.insert_space(
            master.address_space,
            systems.iter().map(|system| system.address_space).collect(),
        );
        let queues = systems.iter().map(|system| system.hw_queue).collect();
        self.shared.insert_system(master.hw_queue, queues);
        Ok(master)
    }

    fn create_hw_queue(&mut self, description: HwQueueDescription) -> Result<HwQueueId, UnknownId> {
        let unknown = UnknownId::Node(description.node);
        let (gpu, node) = self.node(description.node).ok_or(unknown)?;
        let address_space = self.shared.space(description.address_space, gpu);
        // The owner of fences stays the process as the graphics kernel knows it: the GPUs share its fences.
        self.driver_mut(gpu).create_hw_queue(HwQueueDescription {
            node,
            address_space,
            ..description
        })
    }

    fn destroy_hw_queue(&mut self, queue: HwQueueId) {
        self.driver_mut(queue.gpu()).destroy_hw_queue(queue);
        if self.drivers.len() > 1 {
            for slave in self.shared.remove_system(queue) {
                self.driver_mut(slave.gpu()).destroy_hw_queue(slave);
            }
        }
    }

    fn suspend_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        self.each_gpu(queues, |driver, queues| driver.suspend_context(queues))
    }

    fn resume_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        self.each_gpu(queues, |driver, queues| driver.resume_context(queues))
    }

    fn query_engine_status(&self, node: u32) -> EngineProgress {
        let found = self.node(node).ok_or(UnknownId::Node(node));
        found.map(|(gpu, own)| self.driver(gpu).query_engine_status(own)).reported()
    }

    fn reset_engine(&mut self, node: u32) {
        let found = self.node(node).ok_or(UnknownId::Node(node));
        found.map(|(gpu, own)| self.driver_mut(gpu).reset_engine(own)).reported();
    }

    fn reset_from_timeout(&mut self, node: u32) {
        let found = self.node(node).ok_or(UnknownId::Node(node));
        found.map(|(gpu, own)| self.driver_mut(gpu).reset_from_timeout(own)).reported();
    }

    fn set_context_scheduling_priority(
        &mut self,
        queues: &[HwQueueId],
        priority: SchedulingPriority,
    ) -> Result<(), UnknownId> {
        self.each_gpu(queues, |driver, queues| {
            driver.set_context_scheduling_priority(queues, priority)
        })
    }

    fn set_power_component_f_state(&mut self, node: u32, state: EnginePowerState, transition: u64) {
        let found = self.node(node).ok_or(UnknownId::Node(node));
        found
            .map(|(gpu, own)| {
                self.driver_mut(gpu).set_power_component_f_state(own, state, transition);
            })
            .reported();
    }

    fn render(&self, arguments: &RenderArguments<'_>) -> Result<DmaBuffer, RenderError> {
        // The master's driver refuses a node that no GPU has.
        let (gpu, node) = self.node(arguments.node).unwrap_or((GpuOrdinal::MASTER, u32::MAX));
        self.driver(gpu).render(&RenderArguments { node, ..*arguments })
    }

    fn present(&self, arguments: &PresentArguments<'_>) -> Result<DmaBuffer, PresentError> {
        let (gpu, node) = self.node(arguments.node).unwrap_or((GpuOrdinal::MASTER, u32::MAX));
        self.driver(gpu).present(&PresentArguments { node, ..*arguments })
    }

    fn update_native_fence_logs(&mut self, queues: &[HwQueueId]) {
        if queues.is_empty() {
            self.drivers
                .iter_mut()
                .for_each(|driver| driver.miniport.update_native_fence_logs(&[]));
        }
        let flushed: Result<(), UnknownId> = self.each_gpu(queues, |driver, queues| {
            driver.update_native_fence_logs(queues);
            Ok(())
        });
        flushed.reported();
    }

    fn update_logging_level(&mut self, level: LoggingLevel) {
        self.drivers.iter_mut().for_each(|driver| driver.miniport.update_logging_level(level));
    }

    fn build_paging_buffer(
        &mut self,
        guest: GuestId,
        operation: &PagingOperation<'_>,
        buffer: &mut PagingBuffer,
    ) -> Result<(), BuildPagingBufferError> {
        if self.drivers.len() == 1 {
            return self.master_mut().build_paging_buffer(guest, operation, buffer);
        }
        // All or none: the packets for all GPUs are built first. Each driver's name its own page tables, which the master's
        // engine reaches like its own.
        let mut built = PagingBuffer::new();
        for (gpu, driver) in (0..).map(GpuOrdinal).zip(&mut self.drivers) {
            let own = match *operation {
                PagingOperation::UpdatePageTable { gpus, space, gpu_va, page_size, entries } => {
                    let space = self.shared.space(space, gpu);
                    gpus.contains(gpu).then_some(PagingOperation::UpdatePageTable {
                        gpus,
                        space,
                        gpu_va,
                        page_size,
                        entries,
                    })
                }
                PagingOperation::FlushTlb { space } => {
                    Some(PagingOperation::FlushTlb { space: self.shared.space(space, gpu) })
                }
                PagingOperation::MapApertureSegment { .. }
                | PagingOperation::UnmapApertureSegment { .. } => Some(*operation),
                // Memory is moved once, by the master.
                _ => (gpu == GpuOrdinal::MASTER).then_some(*operation),
            };
            if let Some(own) = own {
                driver.miniport.build_paging_buffer(guest, &own, &mut built)?;
            }
        }
        Ok(buffer.append(built.packets())?)
    }

    fn update_page_table(
        &mut self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError> {
        for (gpu, driver) in (0..).map(GpuOrdinal).zip(&mut self.drivers) {
            let own = self.shared.space(space, gpu);
            driver.miniport.update_page_table(own, gpu_va, page_size, entries)?;
        }
        Ok(())
    }

    fn physical_doorbell(&self, queue: HwQueueId) -> Option<PhysicalDoorbell> {
        let own = self.driver(queue.gpu()).physical_doorbell(queue)?;
        let before = self.drivers.iter().take(queue.gpu().index());
        let before: u32 = before
            .map(|driver| driver.miniport.query_user_mode_submission_caps().physical_doorbells)
            .sum();
        Some(PhysicalDoorbell(before + own.0))
    }

    fn physical_doorbells_in_use(&self) -> u32 {
        self.drivers.iter().map(|driver| driver.miniport.physical_doorbells_in_use()).sum()
    }

    fn interrupt_routine(&mut self, callbacks: &mut dyn DxgkCallbacks) -> bool {
        if let [only] = self.drivers.as_mut_slice() {
            return only.miniport.interrupt_routine(callbacks);
        }
        let mut was_ours = false;
        for (gpu, driver) in (0..).map(GpuOrdinal).zip(&mut self.drivers) {
            let mut own = ProxyCallbacks {
                kernel: callbacks,
                gpu,
                first_node: driver.first_node,
                shared: &self.shared,
            };
            // "If the KMD does not own the interrupt in question, return FALSE."
            was_ours |= driver.miniport.interrupt_routine(&mut own);
        }
        was_ours
    }
}
