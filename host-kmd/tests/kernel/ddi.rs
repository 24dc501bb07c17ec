// SPDX-License-Identifier: MIT OR Apache-2.0

//! The border between dxgkrnl and a driver, with a driver other than our GPU's.

use crate::bench::Bench;
use crate::model::{Call, Model};
use bellhop_host_kmd::ddi::dma_buffer::{DmaBuffer, RenderArguments, RenderError};
use bellhop_host_kmd::ddi::feature::{DxgkFeatures, NativeFenceCaps, VidSchCaps};
use bellhop_host_kmd::ddi::paging::{
    AllocationId, BuildPagingBufferError, PageSize, PagingBuffer, PagingOperation,
};
use bellhop_host_kmd::ddi::present::{PresentArguments, PresentError};
use bellhop_host_kmd::ddi::{
    AllocationInfoFlags2, BadPrivateData, ConnectDoorbellError, ConnectedStatus,
    CreateDoorbellError, CreateNativeFence, CurrentValuesFlags, DxgkCallbacks, InvalidParameter,
    Miniport, VirtualAddressingModel,
};
use bellhop_host_kmd::dxgkrnl::{AdapterError, Kernel, Limits, OsFeatures};
use bellhop_host_kmd::hardware::{
    AddressSpaceId, Doorbells as _, DriverProtection, EngineProgress, FenceLogBuffer, FenceStorage,
    GlobalFence, GpuOrdinal, GuestId, HardwareError, HwQueueDescription, HwQueueId,
    KernelSubmission, PhysicalDoorbell, PhysicalPage, Pte, Queues as _, RingBinding,
    SchedulingPriority, SlotValue, SystemContext, UnknownId,
};
use bellhop_host_kmd::miniport::BellhopMiniport;
use bellhop_host_kmd::port::Input;
use bellhop_protocol::control::adapter::{NodeMetadata, UserModeSubmissionCaps};
use bellhop_protocol::control::fence::{
    CreateNativeFence as CreateFence, DestroyNativeFence, FenceFlags, OpenNativeFence,
    ShareNativeFence,
};
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::control::process::DestroyProcess;
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellPrivateData, LoggingLevel};
use delegate::delegate;
use std::sync::{Arc, Mutex};

type Answers = Arc<Mutex<Vec<Result<(), InvalidParameter>>>>;

/// A paging operation that the driver has built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Built {
    /// Fills memory.
    Fill,
    /// Copies bytes.
    Transfer,
    /// Writes page-table entries; the page of the first.
    Entries(Option<PhysicalPage>),
    /// Discards memory: the first physical address, and bytes.
    Discard(u64, u64),
    /// Tells the address of a physically accessed allocation.
    NotifyResidency(AllocationId, Option<u64>),
    /// Any other.
    Other,
}

impl Built {
    fn new(operation: &PagingOperation<'_>) -> Self {
        match *operation {
            PagingOperation::Fill { .. } | PagingOperation::VirtualFill { .. } => Self::Fill,
            PagingOperation::Transfer { .. } | PagingOperation::VirtualTransfer { .. } => {
                Self::Transfer
            }
            PagingOperation::UpdatePageTable { entries, .. } => {
                Self::Entries(entries.first().and_then(|entry| entry.page()))
            }
            PagingOperation::Discard { address, length } => Self::Discard(address, length),
            PagingOperation::NotifyResidency { allocation, address } => {
                Self::NotifyResidency(allocation, address)
            }
            _ => Self::Other,
        }
    }
}

/// Paging operations that the driver has built, in order.
pub type Log = Arc<Mutex<Vec<Built>>>;

/// A call about native fences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FenceCall {
    /// `DxgkDdiCreateNativeFence`
    Create(CreateNativeFence),
    /// `DxgkDdiOpenNativeFence`, as this slot
    Open(GlobalFence, u32),
    /// `DxgkDdiCloseNativeFence` of this slot
    Close(GlobalFence, u32),
    /// `DxgkDdiDestroyNativeFence`
    Destroy(GlobalFence),
    /// `DxgkDdiUpdateCurrentValuesFromCpu`
    UpdateCurrentValues(Vec<SlotValue>, CurrentValuesFlags),
}

/// The calls about native fences, in order.
pub type FenceCalls = Arc<Mutex<Vec<FenceCall>>>;

/// What a driver reports about its GPU.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// What it advertises, regardless of what is enabled; `None` for what ours would advertise.
    pub advertises: Option<VidSchCaps>,
    /// Its requirements for native fences.
    pub caps: NativeFenceCaps,
}

/// A driver of a GPU that must be notified of every submission. The driver misuses its callbacks, and records the
/// paging operations that it builds.
struct NotifyMiniport {
    rest: BellhopMiniport,
    hardware: Arc<Model>,
    built: Log,
    answers: Answers,
    connected: Vec<HwQueueId>,
    driver: Option<Driver>,
    fences: FenceCalls,
}

impl Miniport for NotifyMiniport {
    delegate! {
        to self.rest {
            fn virtual_addressing_model(&self) -> VirtualAddressingModel;
            fn query_user_mode_submission_caps(&self) -> UserModeSubmissionCaps;
            fn node_count(&self) -> u32;
            fn get_node_metadata(&self, node: u32) -> Option<NodeMetadata>;
            fn create_process(&mut self, guest: GuestId) -> Result<AddressSpaceId, HardwareError>;
            fn destroy_process(&mut self, space: AddressSpaceId);
            fn create_system_context(
                &mut self,
                guest: GuestId,
            ) -> Result<SystemContext, HardwareError>;
            fn submit_paging(
                &mut self,
                guest: GuestId,
                buffer: &PagingBuffer,
                fence: u64,
            ) -> Result<(), HardwareError>;
            fn create_hw_queue(
                &mut self,
                description: HwQueueDescription,
            ) -> Result<HwQueueId, UnknownId>;
            fn destroy_hw_queue(&mut self, queue: HwQueueId);
            fn submit_command_to_hw_queue(
                &mut self,
                queue: HwQueueId,
                submission: KernelSubmission,
            ) -> Result<(), HardwareError>;
            fn render(&self, arguments: &RenderArguments<'_>) -> Result<DmaBuffer, RenderError>;
            fn present(&self, arguments: &PresentArguments<'_>) -> Result<DmaBuffer, PresentError>;
            fn patch(&self, buffer: &mut DmaBuffer, physical_addresses: &[u64]);
            fn submit_command(
                &mut self,
                queue: HwQueueId,
                submission: KernelSubmission,
            ) -> Result<(), HardwareError>;
            fn query_current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId>;
            fn suspend_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId>;
            fn resume_context(&mut self, queues: &[HwQueueId]) -> Result<(), UnknownId>;
            fn abandon_paging(&mut self, guest: GuestId, fence: u64);
            fn preempt_command(&mut self, queue: HwQueueId, preemption_fence: u64);
            fn query_engine_status(&self, node: u32) -> EngineProgress;
            fn reset_engine(&mut self, node: u32);
            fn reset_from_timeout(&mut self, node: u32);
            fn set_context_scheduling_priority(
                &mut self,
                queues: &[HwQueueId],
                priority: SchedulingPriority,
            ) -> Result<(), UnknownId>;
            fn set_power_state(&mut self, gpu: GpuOrdinal, state: DevicePowerState);
            fn set_power_component_f_state(
                &mut self,
                node: u32,
                state: EnginePowerState,
                transition: u64,
            );
            fn create_doorbell(
                &mut self,
                queue: HwQueueId,
                ring: RingBinding,
                private_data: DoorbellPrivateData,
            ) -> Result<(), CreateDoorbellError>;
            fn destroy_doorbell(&mut self, queue: HwQueueId);
            fn notify_work_submission(&mut self, queue: HwQueueId) -> Result<(), UnknownId>;
            fn start_device(&mut self, features: &dyn DxgkFeatures);
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
            fn set_native_fence_log_buffer(
                &mut self,
                queue: HwQueueId,
                log: FenceLogBuffer,
            ) -> Result<(), UnknownId>;
            fn update_native_fence_logs(&mut self, queues: &[HwQueueId]);
            fn update_logging_level(&mut self, level: LoggingLevel);
            fn update_page_table(
                &mut self,
                space: AddressSpaceId,
                gpu_va: u64,
                page_size: PageSize,
                entries: &[Pte],
            ) -> Result<(), HardwareError>;
            fn create_allocation(
                &mut self,
                private_data: u32,
            ) -> Result<AllocationInfoFlags2, BadPrivateData>;
            fn driver_protection(&self, private_data: u32) -> DriverProtection;
            fn paging_process_gpu_va_size(&self) -> u32;
            fn interrupt_routine(&mut self, callbacks: &mut dyn DxgkCallbacks) -> bool;
        }
    }

    fn connect_doorbell(
        &mut self,
        queue: HwQueueId,
        callbacks: &mut dyn DxgkCallbacks,
    ) -> Result<ConnectedStatus, ConnectDoorbellError> {
        let unknown = HwQueueId(u64::MAX);
        let mut answers = self.answers.lock().unwrap();
        for reason in ConnectionStatus::ALL {
            answers.push(callbacks.disconnect_doorbell(queue, *reason));
            answers.push(callbacks.disconnect_doorbell(unknown, *reason));
            // A later abort would be permanent.
            if *reason == ConnectionStatus::DISCONNECTED_RETRY {
                break;
            }
        }
        self.connected.push(queue);
        self.hardware.watch(PhysicalDoorbell(0), queue).unwrap();
        Ok(ConnectedStatus::ConnectedNotify)
    }

    fn disconnect_doorbell(&mut self, queue: HwQueueId) {
        if self.connected.contains(&queue) {
            self.connected.retain(|other| *other != queue);
            self.hardware.unwatch(PhysicalDoorbell(0)).unwrap();
            self.hardware.kick(queue).unwrap();
        }
    }

    fn query_vidsch_caps(&self) -> VidSchCaps {
        let advertised = self.driver.and_then(|driver| driver.advertises);
        advertised.unwrap_or(self.rest.query_vidsch_caps())
    }

    fn query_native_fence_caps(&self) -> NativeFenceCaps {
        self.driver.map_or(self.rest.query_native_fence_caps(), |driver| driver.caps)
    }

    fn create_native_fence(&mut self, fence: CreateNativeFence) -> Result<(), UnknownId> {
        self.fences.lock().unwrap().push(FenceCall::Create(fence));
        self.rest.create_native_fence(fence)
    }

    fn open_native_fence(
        &mut self,
        fence: GlobalFence,
        slot: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId> {
        self.fences.lock().unwrap().push(FenceCall::Open(fence, slot));
        self.rest.open_native_fence(fence, slot, owner)
    }

    fn close_native_fence(&mut self, fence: GlobalFence, slot: u32) {
        self.fences.lock().unwrap().push(FenceCall::Close(fence, slot));
        self.rest.close_native_fence(fence, slot);
    }

    fn destroy_native_fence(&mut self, fence: GlobalFence) {
        self.fences.lock().unwrap().push(FenceCall::Destroy(fence));
        self.rest.destroy_native_fence(fence);
    }

    fn update_current_values_from_cpu(
        &mut self,
        guest: GuestId,
        values: &[SlotValue],
        flags: CurrentValuesFlags,
    ) -> Result<(), UnknownId> {
        let call = FenceCall::UpdateCurrentValues(values.to_vec(), flags);
        self.fences.lock().unwrap().push(call);
        self.rest.update_current_values_from_cpu(guest, values, flags)
    }

    fn build_paging_buffer(
        &mut self,
        guest: GuestId,
        operation: &PagingOperation<'_>,
        buffer: &mut PagingBuffer,
    ) -> Result<(), BuildPagingBufferError> {
        self.rest.build_paging_buffer(guest, operation, buffer)?;
        self.built.lock().unwrap().push(Built::new(operation));
        Ok(())
    }
}

/// A kernel with the misbehaving driver.
fn new() -> (Bench, Log, Answers) {
    let mut bench = Bench::new(1);
    let (built, answers) = (Log::default(), Answers::default());
    let miniport = NotifyMiniport {
        rest: BellhopMiniport::new(Arc::clone(&bench.model) as _),
        hardware: Arc::clone(&bench.model),
        built: Arc::clone(&built),
        answers: Arc::clone(&answers),
        connected: Vec::new(),
        driver: None,
        fences: FenceCalls::default(),
    };
    let hardware = Arc::clone(&bench.model) as _;
    let (features, limits) = (OsFeatures::default(), Limits::default());
    let kernel = Kernel::with_miniport(hardware, Box::new(miniport), features, limits);
    bench.kernel = kernel.unwrap().into();
    (bench, built, answers)
}

/// A kernel with a driver that reports this about its GPU.
pub fn kernel_with(
    model: Arc<Model>,
    features: OsFeatures,
    driver: Driver,
) -> Result<(Kernel, FenceCalls), AdapterError> {
    kernel_with_driver(model, features, Some(driver))
}

/// A kernel with a driver that reports what ours does.
pub fn kernel_with_fence_calls(
    model: Arc<Model>,
    features: OsFeatures,
) -> Result<(Kernel, FenceCalls), AdapterError> {
    kernel_with_driver(model, features, None)
}

fn kernel_with_driver(
    model: Arc<Model>,
    features: OsFeatures,
    driver: Option<Driver>,
) -> Result<(Kernel, FenceCalls), AdapterError> {
    let fences = FenceCalls::default();
    let miniport = NotifyMiniport {
        rest: BellhopMiniport::new(Arc::clone(&model) as _),
        hardware: Arc::clone(&model),
        built: Log::default(),
        answers: Answers::default(),
        connected: Vec::new(),
        driver,
        fences: Arc::clone(&fences),
    };
    let kernel = Kernel::with_miniport(model, Box::new(miniport), features, Limits::default())?;
    Ok((kernel, fences))
}

/// A kernel with a driver that records the paging operations that it builds.
pub fn with_log() -> (Bench, Log) {
    let (bench, built, _) = new();
    (bench, built)
}

#[test]
fn a_driver_may_ask_for_notifies_and_its_bad_callbacks_are_refused() {
    let (mut bench, _, answers) = new();
    let guest = bench.guest(1);
    let client = bench.client(guest);
    bench.doorbell(client);
    bench.model.take_log();
    let notify = ConnectionStatus::CONNECTED_NOTIFY;
    assert_eq!(bench.connect(client).unwrap().status, notify);
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Watch(PhysicalDoorbell(0), client.id),
            Call::Connected(client.id, notify),
            Call::Kick(client.id),
        ]
    );
    // A connected status is not a reason; disconnecting a disconnected doorbell succeeds.
    let no_reason = |status| Err(InvalidParameter::NotADisconnectedStatus(status));
    assert_eq!(
        *answers.lock().unwrap(),
        [
            no_reason(ConnectionStatus::CONNECTED),
            no_reason(ConnectionStatus::CONNECTED),
            no_reason(notify),
            no_reason(notify),
            Ok(()),
            Err(InvalidParameter::UnknownDoorbell(HwQueueId(u64::MAX))),
        ]
    );
}

/// Source: native GPU fence object, "Global and local handles for shared fences".
#[test]
fn a_fence_is_closed_for_each_process_and_destroyed_after_the_last() {
    let mut bench = Bench::new(1);
    let (kernel, calls) =
        kernel_with_fence_calls(Arc::clone(&bench.model), OsFeatures::default()).unwrap();
    bench.kernel = kernel.into();
    let guest = bench.guest(1);
    let (a, b) = (bench.client(guest), bench.client(guest));
    let take = || std::mem::take(&mut *calls.lock().unwrap());
    take();
    let flags = FenceFlags::SHARED.bits();
    let request = CreateFence { flags, ..CreateFence::new(a.device, 0) };
    let of_a = bench.call(a, &request).unwrap();
    let global = GlobalFence { guest, slot: of_a.slot };
    let [FenceCall::Create(created), FenceCall::Open(opened, local_a)] = take()[..] else {
        panic!("a fence is created, and then opened");
    };
    assert_eq!((created.fence, opened, local_a), (global, global, of_a.slot));
    let nt_handle = bench.call(a, &ShareNativeFence { fence: of_a.fence }).unwrap();
    let of_b = bench.call(b, &OpenNativeFence { device: b.device, nt_handle }).unwrap();
    assert_eq!(take(), [FenceCall::Open(global, of_b.slot)]);
    bench.call(a, &DestroyNativeFence { fence: of_a.fence }).unwrap();
    assert_eq!(take(), [FenceCall::Close(global, of_a.slot)], "B has it");
    bench.call(b, &DestroyNativeFence { fence: of_b.fence }).unwrap();
    assert_eq!(take(), [FenceCall::Close(global, of_b.slot), FenceCall::Destroy(global)]);
    // Fences are destroyed with whatever owns them, progress fences too.
    bench.call(a, &request).unwrap();
    bench.call(b, &CreateFence::new(b.device, 0)).unwrap();
    take();
    bench.call(b, &DestroyProcess { flags: 0 }).unwrap();
    let destroyed = |calls: Vec<FenceCall>| {
        calls.iter().filter(|call| matches!(call, FenceCall::Destroy(_))).count()
    };
    assert_eq!(destroyed(take()), 2);
    bench.input(Input::Detach { guest });
    assert_eq!(destroyed(take()), 2);
}
