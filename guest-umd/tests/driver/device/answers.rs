// SPDX-License-Identifier: MIT OR Apache-2.0

//! The answers of a device that keeps the rules.

use super::fences::{Wait, opened};
use super::script::{Sent, reply, success};
use super::{Doorbell, LAYOUT, Place, ScriptedDevice, State};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::{
    ADAPTER_BAR_MAPPED, AdapterInfo, ClockCalibration, EngineType, NodeMetadata, OpenAdapter,
    Statistics, UserModeSubmissionCaps,
};
use bellhop_protocol::control::allocation::{
    AllocationKind, CreateAllocation, CreateAllocationReply, Extent, NOT_IN_BAR,
};
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, ConnectDoorbellReply, CreateDoorbell, CreateDoorbellReply,
};
use bellhop_protocol::control::fence::{CancelWait, CreateNativeFence, FenceValue};
use bellhop_protocol::control::gpu_va::{MapGpuVirtualAddress, MapGpuVirtualAddressReply};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, CreateHwQueueReply};
use bellhop_protocol::control::kernel::{CreateKernel, KernelCreated, KernelResult};
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, CreateNodeContext, CreateNodeContextReply, PATCH_LOCATION_LIST_MAX,
    RENDER_COMMANDS_MAX, SubmissionModel, SubmissionReply, VIRTUAL_COMMAND_BUFFER_SIZE,
};
use bellhop_protocol::control::process::CreateProcessReply;
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::doorbell::{ConnectionStatus, RingTag};
use bellhop_protocol::status::Status;
use std::sync::atomic::Ordering;
use zerocopy::FromBytes;

impl ScriptedDevice {
    /// The answer of a device that keeps the rules.
    pub(super) fn answer(&self, state: &mut State, sent: &Sent) -> Vec<u8> {
        let create = |state: &mut State, parents: &[u64]| {
            state.next_handle += 1;
            let handle = state.next_handle;
            state.create(handle, sent.code, parents);
            Handle(handle)
        };
        let process = u64::from(sent.process);
        let layout = LAYOUT;
        match sent.code {
            RequestCode::OPEN_ADAPTER => {
                let features = sent.read::<OpenAdapter>().features;
                if features & !self.shape.opened.bits() != 0 {
                    return reply(Status::REVISION_MISMATCH, self.shape.opened.bits(), &[]);
                }
                success(&AdapterInfo {
                    version: self.shape.config.version,
                    node_count: self.shape.config.node_count,
                    features,
                    local_memory: LAYOUT.local_memory,
                    flags: if self.shape.bar.is_some() { ADAPTER_BAR_MAPPED } else { 0 },
                })
            }
            RequestCode::GET_NODE_METADATA => success(&NodeMetadata {
                engine_type: EngineType::COPY,
                flags: 0,
                friendly_name: [0; 32],
            }),
            RequestCode::QUERY_USER_MODE_SUBMISSION_CAPS => success(&UserModeSubmissionCaps {
                flags: 0,
                doorbell_size: PAGE_SIZE as u32,
                secondary_doorbell_size: 0,
                physical_doorbells: 1,
            }),
            RequestCode::QUERY_CLOCK_CALIBRATION => {
                success(&ClockCalibration { gpu_frequency: 1_000_000_000, gpu_clock_counter: 5000 })
            }
            RequestCode::QUERY_STATISTICS => success(&Statistics::default()),
            RequestCode::CREATE_PROCESS => {
                let process = create(state, &[]).0 as u32;
                success(&CreateProcessReply { process, reserved: 0 })
            }
            RequestCode::CREATE_DEVICE => success(&create(state, &[process])),
            RequestCode::CREATE_CONTEXT => {
                let request = sent.read::<CreateContext>();
                success(&create(state, &[process, request.device.0]))
            }
            RequestCode::CREATE_HW_QUEUE => {
                let request = sent.read::<CreateHwQueue>();
                let hw_queue = create(state, &[process, request.context.0]);
                let (progress_fence, slot) = state.create_fence(0);
                let progress_fence = opened(progress_fence, slot);
                success(&CreateHwQueueReply {
                    hw_queue,
                    progress_fence,
                    wait_log_gpu_va: 0,
                    signal_log_gpu_va: 0,
                    log_entries: 0,
                    reserved: 0,
                })
            }
            RequestCode::SUBMIT_COMMAND | RequestCode::SET_OBJECT_NAME => success(&()),
            RequestCode::CREATE_NODE_CONTEXT => {
                let request = sent.read::<CreateNodeContext>();
                let context = create(state, &[process, request.device.0]);
                let (progress_fence, slot) = state.create_fence(0);
                let mut reply = CreateNodeContextReply {
                    context,
                    progress_fence: opened(progress_fence, slot),
                    command_buffer_size: RENDER_COMMANDS_MAX,
                    allocation_list_size: ALLOCATION_LIST_MAX,
                    patch_location_list_size: PATCH_LOCATION_LIST_MAX,
                    reserved: 0,
                    command_buffer_offset: NOT_IN_BAR,
                    command_buffer_gpu_va: 0,
                };
                if request.model == SubmissionModel::VIRTUAL {
                    let size = u64::from(VIRTUAL_COMMAND_BUFFER_SIZE);
                    reply.command_buffer_size = VIRTUAL_COMMAND_BUFFER_SIZE;
                    reply.command_buffer_offset = state.next_local;
                    reply.command_buffer_gpu_va = state.next_va;
                    let place = (Place::Local(state.next_local), size);
                    state.mappings.insert(state.next_va, place);
                    state.next_local += size;
                    state.next_va += size;
                }
                success(&reply)
            }
            RequestCode::RENDER | RequestCode::SUBMIT_COMMAND_VIRTUAL => {
                state.submitted += 1;
                let submitted = state.submitted;
                success(&SubmissionReply {
                    submission_fence: 100 + submitted,
                    progress_fence_value: submitted,
                })
            }
            RequestCode::CREATE_ALLOCATION => {
                let request = sent.read::<CreateAllocation>();
                let allocation = create(state, &[process, request.device.0]);
                if request.kind == AllocationKind::PAGED {
                    return state.describe(
                        allocation,
                        &request,
                        sent.following::<CreateAllocation>(),
                    );
                }
                let (place, bar_offset) = if request.kind == AllocationKind::LOCAL {
                    let offset = state.next_local;
                    state.next_local += request.size;
                    (Place::Local(offset), offset)
                } else {
                    let extents = &sent.body[size_of::<CreateAllocation>()..];
                    // This device gives out one run at a time.
                    let extent = Extent::read_from_bytes(extents).unwrap();
                    assert_eq!(extent.length, request.size);
                    (Place::System(extent.address), NOT_IN_BAR)
                };
                state.allocations.insert(allocation, (place, request.size));
                success(&CreateAllocationReply { allocation, bar_offset })
            }
            RequestCode::MAP_GPU_VIRTUAL_ADDRESS => {
                let request = sent.read::<MapGpuVirtualAddress>();
                let gpu_va = state.next_va;
                state.next_va += request.size;
                state.create(gpu_va, sent.code, &[process, request.allocation.0]);
                // The offset of a paged allocation depends on where it is.
                if let Some(mapping) = state.allocations.get(&request.allocation) {
                    state.mappings.insert(gpu_va, *mapping);
                }
                success(&MapGpuVirtualAddressReply { gpu_va })
            }
            RequestCode::CREATE_KERNEL => {
                let request = sent.read::<CreateKernel>();
                let kernel = create(state, &[process, request.device.0]);
                success(&KernelCreated {
                    kernel,
                    number: 1000 + kernel.0 as u32,
                    result: KernelResult::COMPILED,
                    text_length: 0,
                    reserved: 0,
                    text: [0; 1024],
                })
            }
            RequestCode::CREATE_NATIVE_FENCE => {
                let request = sent.read::<CreateNativeFence>();
                let (fence, slot) = state.create_fence(request.initial_value);
                state.create(fence.0, sent.code, &[process, request.device.0]);
                if self.shape.bar.is_some() {
                    self.word(layout.fence(slot)).store(request.initial_value, Ordering::Release);
                }
                success(&opened(fence, slot))
            }
            RequestCode::WAIT_FOR_FENCES => {
                let wait = Wait::of(sent);
                if wait.is_satisfied(&state.fences) {
                    return success(&());
                }
                state.waits.push(wait);
                reply(Status::PENDING, 0, &[])
            }
            RequestCode::SIGNAL_FENCES => {
                for FenceValue { fence, value } in sent.fences() {
                    self.signal_locked(state, fence, value);
                }
                success(&())
            }
            RequestCode::CANCEL_WAIT => {
                let CancelWait { cookie } = sent.read();
                let is_it = |wait: &Wait| wait.cookie == cookie;
                match state.waits.iter().position(is_it) {
                    Some(index) => {
                        state.waits.remove(index);
                        success(&())
                    }
                    None => reply(Status::INVALID_PARAMETER, cookie, &[]),
                }
            }
            RequestCode::CREATE_DOORBELL => {
                let CreateDoorbell { hw_queue, ring_buffer, ring_control, .. } = sent.read();
                let parents = [process, hw_queue.0, ring_buffer.0, ring_control.0];
                let handle = create(state, &parents);
                let slot = state.doorbells.len() as u32;
                state.doorbells.push(Doorbell {
                    handle,
                    slot,
                    hw_queue,
                    ring: ring_buffer,
                    control: ring_control,
                });
                self.set_status(slot, ConnectionStatus::DISCONNECTED_RETRY);
                success(&CreateDoorbellReply {
                    doorbell: handle,
                    doorbell_offset: layout.doorbell(slot),
                    status_offset: layout.status(slot),
                    last_queued_offset: layout.last_queued(slot),
                    ring_tag: RingTag(0),
                    reserved: 0,
                })
            }
            RequestCode::CONNECT_DOORBELL => {
                let ConnectDoorbell { hw_queue } = sent.read();
                let status = ConnectionStatus::CONNECTED;
                let mut doorbells = state.doorbells.iter();
                let doorbell = doorbells.find(|doorbell| doorbell.hw_queue == hw_queue).unwrap();
                self.set_status(doorbell.slot, status);
                success(&ConnectDoorbellReply { status, reserved: 0 })
            }
            RequestCode::NOTIFY_WORK_SUBMISSION => {
                let doorbell = Handle(sent.named());
                assert!(state.doorbells.iter().any(|other| other.handle == doorbell));
                success(&())
            }
            RequestCode::DESTROY_PROCESS => state.destroy(process),
            RequestCode::FREE_GPU_VIRTUAL_ADDRESS => {
                state.mappings.remove(&sent.named());
                state.destroy(sent.named())
            }
            RequestCode::DESTROY_HW_QUEUE => {
                let is_its = |doorbell: &&Doorbell| doorbell.hw_queue.0 == sent.named();
                // The queue's doorbell is destroyed with it.
                if let Some(handle) = state.doorbells.iter().find(is_its).map(|found| found.handle)
                {
                    state.live.remove(&handle.0);
                }
                state.destroy(sent.named())
            }
            RequestCode::DESTROY_ALLOCATION => {
                state.forget_paged(Handle(sent.named()));
                state.destroy(sent.named())
            }
            RequestCode::DESTROY_DEVICE
            | RequestCode::DESTROY_CONTEXT
            | RequestCode::DESTROY_KERNEL
            | RequestCode::DESTROY_NATIVE_FENCE
            | RequestCode::DESTROY_DOORBELL => state.destroy(sent.named()),
            _ => state.answer_paged(sent),
        }
    }
}
