// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rows, by request.

use super::agents::agents;
use super::displays::displays;
use super::lists::*;
use super::presents::presents;
use super::row::*;
use super::world::*;
use crate::bench::FEATURES;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::{
    GetNodeMetadata, OpenAdapter, QueryBarLayout, QueryClockCalibration, QueryNativeFenceCaps,
    QueryStatistics, QueryUserModeSubmissionCaps,
};
use bellhop_protocol::control::allocation::{
    CloseAllocation, DestroyAllocation, Evict, Lock, MakeResident, OpenAllocation,
    OpenSharedAllocation, QueryVideoMemoryInfo, SegmentSet, SetAllocationPriority, ShareAllocation,
    Unlock,
};
use bellhop_protocol::control::context::{
    CreateContext, DestroyContext, ResumeContext, SetContextSchedulingPriority, SuspendContext,
};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, CreateDoorbell, DestroyDoorbell, NotifyWorkSubmission,
};
use bellhop_protocol::control::escape::{Escape, ObjectList};
use bellhop_protocol::control::fence::{
    CancelWait, CreateMonitoredFence, CreateNativeFence, DestroyNativeFence, FenceValue,
    OpenNativeFence, ShareNativeFence, SignalFences, SignalFromGpu, WaitForFences, WaitFromGpu,
};
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, GPU_VA_END, GPU_VA_START, Protection, ReserveGpuVirtualAddress,
    UpdateGpuVirtualAddress,
};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue, SubmitCommand};
use bellhop_protocol::control::kernel::{
    CreateKernel, DestroyKernel, QueryKernelCaps, SpecialisationConstant, padded,
};
use bellhop_protocol::control::node_context::{
    CreateNodeContext, CreateNodeContextReply, SubmissionModel, SubmitCommandVirtual,
};
use bellhop_protocol::control::power::{
    DevicePowerState, EnginePowerState, QueryGpuPower, QueryPower, SetDevicePower, SetEnginePower,
};
use bellhop_protocol::control::process::{
    CreateProcess, DescribeProcess, DestroyProcess, SetObjectName, SetProcessShare,
};
use bellhop_protocol::control::security::QuerySecurityCaps;
use bellhop_protocol::control::video::{DestroyVideoSession, QueryVideoCaps};
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::features::Version;
use bellhop_protocol::status::Status;

/// Whether a guest may map whole pages of `size` bytes at `base`; 0 is anywhere.
pub(super) fn base_rule(size: u64) -> impl Fn(u64) -> bool {
    move |base| {
        base == 0
            || base.is_multiple_of(PAGE_SIZE)
                && base >= GPU_VA_START
                && base.checked_add(size).is_some_and(|end| end <= GPU_VA_END)
    }
}

/// The rows of a guest without processes.
pub(super) fn openings() -> Vec<Row> {
    let request = OpenAdapter { version: Version::CURRENT, reserved: 0, features: FEATURES.bits() };
    let (mismatch, major) = (Status::REVISION_MISMATCH, Version::CURRENT.major);
    let fields = vec![
        only("version.major", 2, major.into(), mismatch),
        any("version.minor", 2),
        zero("reserved", 4),
        field("features", 8, move |features| match features & !FEATURES.bits() {
            0 => Ok(()),
            _ => Err(mismatch),
        }),
    ];
    vec![row(0, &request, fields)]
}

/// The rows of a request. There is no wildcard arm: a missing request is a failure.
pub(super) fn rows(code: RequestCode, world: &World) -> Vec<Row> {
    let (parameter, invalid) = (Status::INVALID_PARAMETER, Status::INVALID_HANDLE);
    let World { client, device, doorbell, queue, paged, locked, reserved, fence, .. } = *world;
    let process = client.process;
    let fixed = world.fixed.0;
    let list_count = 1;
    match code {
        RequestCode::OPEN_ADAPTER => openings(),
        RequestCode::GET_NODE_METADATA => {
            let fields = vec![if_so("node", 4, |node| node < 2), zero("reserved", 4)];
            vec![row(0, &GetNodeMetadata { node: 0, reserved: 0 }, fields)]
        }
        RequestCode::QUERY_USER_MODE_SUBMISSION_CAPS => {
            let request = QueryUserModeSubmissionCaps { reserved: 0 };
            vec![row(0, &request, vec![zero("reserved", 8)])]
        }
        RequestCode::QUERY_NATIVE_FENCE_CAPS => {
            vec![row(0, &QueryNativeFenceCaps { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::QUERY_CLOCK_CALIBRATION => {
            vec![row(0, &QueryClockCalibration { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::QUERY_STATISTICS => {
            vec![row(0, &QueryStatistics { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::QUERY_BAR_LAYOUT => {
            vec![row(0, &QueryBarLayout { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::DONATE_AREA => donations(),
        RequestCode::QUERY_POWER => {
            let fields = vec![if_so("node", 4, |node| node < 2), zero("reserved", 4)];
            vec![row(0, &QueryPower { node: 0, reserved: 0 }, fields)]
        }
        RequestCode::QUERY_GPU_POWER => {
            let fields = vec![if_so("gpu", 4, |gpu| gpu == 0), zero("reserved", 4)];
            vec![row(0, &QueryGpuPower { gpu: 0, reserved: 0 }, fields)]
        }
        RequestCode::SET_DEVICE_POWER => {
            let state = DevicePowerState::D0;
            let known = |state| matches!(state, 1 | 4);
            let fields = vec![if_so("state", 4, known), zero("reserved", 4)];
            vec![row(0, &SetDevicePower { state, reserved: 0 }, fields)]
        }
        RequestCode::SET_ENGINE_POWER => {
            let fields =
                vec![if_so("node", 4, |node| node < 2), if_so("state", 4, |state| state < 2)];
            vec![row(0, &SetEnginePower { node: 0, state: EnginePowerState::F0 }, fields)]
        }
        RequestCode::ESCAPE => {
            let request =
                Escape { list: ObjectList::CONTEXTS, process, parent: client.device, after: 0 };
            let fields = vec![
                field("list", 4, move |list| match ObjectList(list as u32) {
                    ObjectList::CONTEXTS => Ok(()),
                    _ => Err(parameter),
                }),
                only("process", 4, process.into(), invalid),
                handle("parent", client.device),
                any("after", 8),
            ];
            vec![row(0, &request, fields)]
        }
        RequestCode::CREATE_PROCESS => {
            vec![row(0, &CreateProcess { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::CREATE_PROCESS_WITH_BAR => process_bars(),
        RequestCode::DESCRIBE_PROCESS => {
            let request = DescribeProcess { user: 1, pid: 2, command: *b"a program\0\0\0\0\0\0\0" };
            let command = ["command", "its end"].map(|name| any(name, 8));
            let fields = [any("user", 4), any("pid", 4)].into_iter().chain(command).collect();
            vec![row(process, &request, fields)]
        }
        RequestCode::SET_PROCESS_SHARE => {
            let weight = if_so("weight", 4, |weight| (1..=10_000).contains(&weight));
            let request = SetProcessShare { weight: 7, group: 0 };
            vec![row(process, &request, vec![weight, any("group", 4)])]
        }
        RequestCode::SET_OBJECT_NAME => [client.device, client.context, queue, paged, fence]
            .map(|object| {
                let fields = [handle("object", object)].into_iter().chain(main("name"));
                row(process, &SetObjectName::new(object, "main"), fields.collect())
            })
            .into(),
        RequestCode::DESTROY_PROCESS => {
            let fields = vec![if_so("flags", 8, |flags| flags < 2)];
            vec![row(process, &DestroyProcess { flags: 0 }, fields)]
        }
        RequestCode::CREATE_DEVICE => {
            vec![row(process, &CreateDevice { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::DESTROY_DEVICE => {
            vec![row(process, &DestroyDevice { device }, vec![handle("device", device)])]
        }
        RequestCode::CREATE_CONTEXT => {
            let fields = vec![
                handle("device", device),
                if_so("node", 4, |node| node < 2),
                // A node has one engine; 0 is any.
                if_so("engine_affinity", 4, |engines| engines < 2),
            ];
            vec![row(process, &CreateContext { device, node: 0, engine_affinity: 0 }, fields)]
        }
        RequestCode::DESTROY_CONTEXT => {
            let context = world.nodes[0].context;
            vec![row(process, &DestroyContext { context }, vec![handle("context", context)])]
        }
        RequestCode::SUSPEND_CONTEXT => {
            let context = client.context;
            vec![row(process, &SuspendContext { context }, vec![handle("context", context)])]
        }
        RequestCode::RESUME_CONTEXT => {
            let context = client.context;
            vec![row(process, &ResumeContext { context }, vec![handle("context", context)])]
        }
        RequestCode::SET_CONTEXT_SCHEDULING_PRIORITY => {
            let context = client.context;
            let request = SetContextSchedulingPriority { context, priority: 0, reserved: 0 };
            let fields = vec![
                handle("context", context),
                if_so("priority", 4, |priority| (-7..=7).contains(&(priority as i32))),
                zero("reserved", 4),
            ];
            vec![row(process, &request, fields)]
        }
        RequestCode::CREATE_HW_QUEUE => {
            let request = CreateHwQueue { context: client.context, flags: 3, reserved: 0 };
            let fields = vec![
                handle("context", client.context),
                // A queue for user-mode submission has a native progress fence.
                if_so("flags", 4, |flags| matches!(flags, 0 | 2 | 3 | 4 | 6 | 7)),
                zero("reserved", 4),
            ];
            vec![row(process, &request, fields)]
        }
        RequestCode::DESTROY_HW_QUEUE => {
            let fields = vec![handle("hw_queue", queue)];
            vec![row(process, &DestroyHwQueue { hw_queue: queue }, fields)]
        }
        RequestCode::SUBMIT_COMMAND => {
            let request = SubmitCommand {
                hw_queue: queue,
                gpu_va: COMMANDS,
                progress_fence_value: 1,
                size: 64,
                reserved: 0,
            };
            let fields = vec![
                handle("hw_queue", queue),
                if_so("gpu_va", 8, |gpu_va| gpu_va.is_multiple_of(8)),
                any("progress_fence_value", 8),
                if_so("size", 4, command_size),
                zero("reserved", 4),
            ];
            vec![row(process, &request, fields)]
        }
        RequestCode::CREATE_NODE_CONTEXT => {
            let request = CreateNodeContext { device, node: 0, model: SubmissionModel::VIRTUAL };
            let fields = vec![
                handle("device", device),
                if_so("node", 4, |node| node < 2),
                if_so("model", 4, |model| (1..=3).contains(&model)),
            ];
            vec![row(process, &request, fields)]
        }
        RequestCode::RENDER => vec![basic(world), basic_plus_plus(world)],
        RequestCode::SUBMIT_COMMAND_VIRTUAL => {
            let CreateNodeContextReply { context, command_buffer_gpu_va: gpu_va, .. } =
                world.nodes[2];
            let request =
                SubmitCommandVirtual { context, gpu_va, size: PAGE_SIZE as u32, reserved: 0 };
            let fields = vec![
                handle("context", context),
                only("gpu_va", 8, gpu_va, parameter),
                only("size", 4, PAGE_SIZE, parameter),
                zero("reserved", 4),
            ];
            vec![row(process, &request, fields)]
        }
        RequestCode::CREATE_ALLOCATION => create_allocation(world),
        RequestCode::DESTROY_ALLOCATION => {
            let fields = vec![handle("allocation", fixed)];
            vec![row(process, &DestroyAllocation { allocation: fixed }, fields)]
        }
        RequestCode::MAKE_RESIDENT => {
            let request = MakeResident { device: client.device, count: list_count, reserved: 0 };
            vec![row_with_list(process, &request, &[locked], residency(client.device, locked))]
        }
        RequestCode::EVICT => {
            let request = Evict { device: client.device, count: list_count, reserved: 0 };
            vec![row_with_list(process, &request, &[paged], residency(client.device, paged))]
        }
        RequestCode::LOCK => {
            vec![row(process, &Lock { allocation: paged }, vec![handle("allocation", paged)])]
        }
        RequestCode::UNLOCK => {
            let fields = vec![handle("allocation", locked)];
            vec![row(process, &Unlock { allocation: locked }, fields)]
        }
        RequestCode::SET_ALLOCATION_PRIORITY => {
            let request = SetAllocationPriority { allocation: paged, priority: 0, reserved: 0 };
            let fields = vec![handle("allocation", paged), any("priority", 4), zero("reserved", 4)];
            vec![row(process, &request, fields)]
        }
        RequestCode::QUERY_VIDEO_MEMORY_INFO => {
            let segment = SegmentSet::LOCAL.bits();
            let fields = vec![
                if_so("segment", 4, |segment| {
                    SegmentSet::from_bits(segment as u32)
                        .is_some_and(|set| set.bits().count_ones() == 1)
                }),
                zero("gpu", 4),
            ];
            vec![row(process, &QueryVideoMemoryInfo { segment, gpu: 0 }, fields)]
        }
        RequestCode::OPEN_ALLOCATION => {
            let fields = vec![handle("device", device), handle("allocation", paged)];
            vec![row(process, &OpenAllocation { device, allocation: paged }, fields)]
        }
        RequestCode::CLOSE_ALLOCATION => {
            let device = client.device;
            let fields = vec![handle("device", device), handle("allocation", paged)];
            vec![row(process, &CloseAllocation { device, allocation: paged }, fields)]
        }
        RequestCode::SHARE_ALLOCATION => {
            let allocation = world.offering;
            let fields = vec![handle("allocation", allocation)];
            vec![row(process, &ShareAllocation { allocation }, fields)]
        }
        RequestCode::OPEN_SHARED_ALLOCATION => {
            let nt_handle = world.offered;
            let fields =
                vec![handle("device", device), only("nt_handle", 8, nt_handle.0, parameter)];
            vec![row(process, &OpenSharedAllocation { device, nt_handle }, fields)]
        }
        RequestCode::MAP_GPU_VIRTUAL_ADDRESS => [fixed, paged]
            .map(|allocation| {
                let fields = vec![
                    handle("allocation", allocation),
                    if_so("base", 8, base_rule(PAGE_SIZE)),
                    if_so("offset", 8, |offset| offset == 0 || offset == PAGE_SIZE),
                    only("size", 8, PAGE_SIZE, parameter),
                    if_so("protection", 4, |protection| protection < 2),
                    zero("reserved", 4),
                ];
                row(process, &map(allocation, 0), fields)
            })
            .into(),
        RequestCode::FREE_GPU_VIRTUAL_ADDRESS => {
            let (gpu_va, conflict) = (world.fixed.1, Status::CONFLICTING_ADDRESSES);
            let fields =
                vec![only("gpu_va", 8, gpu_va, conflict), only("size", 8, PAGE_SIZE, conflict)];
            vec![row(process, &FreeGpuVirtualAddress { gpu_va, size: PAGE_SIZE }, fields)]
        }
        RequestCode::RESERVE_GPU_VIRTUAL_ADDRESS => {
            let fields = vec![
                if_so("base", 8, base_rule(PAGE_SIZE)),
                field("size", 8, move |size| match size {
                    size if !size.is_multiple_of(PAGE_SIZE) || size == 0 => Err(parameter),
                    size if size > GPU_VA_END => Err(Status::QUOTA_EXCEEDED),
                    _ => Ok(()),
                }),
            ];
            vec![row(process, &ReserveGpuVirtualAddress { base: 0, size: PAGE_SIZE }, fields)]
        }
        RequestCode::UPDATE_GPU_VIRTUAL_ADDRESS => {
            let conflict = Status::CONFLICTING_ADDRESSES;
            let at = move |gpu_va: u64| match gpu_va {
                gpu_va if gpu_va == reserved => Ok(()),
                gpu_va if !gpu_va.is_multiple_of(PAGE_SIZE) => Err(parameter),
                _ => Err(conflict),
            };
            let whole_pages = move |size: u64| match size {
                PAGE_SIZE => Ok(()),
                size if !size.is_multiple_of(PAGE_SIZE) || size == 0 => Err(parameter),
                _ => Err(conflict),
            };
            let mapped = vec![
                field("gpu_va", 8, at),
                only("size", 8, PAGE_SIZE, parameter),
                field("allocation", 8, move |allocation| match Handle(allocation) {
                    // An unmapping has no protection.
                    Handle(0) => Err(parameter),
                    allocation if allocation == paged => Ok(()),
                    _ => Err(invalid),
                })
                .naming(0, Protection::WRITE.bits().into()),
                if_so("offset", 8, |offset| offset == 0 || offset == PAGE_SIZE),
                if_so("protection", 4, |protection| protection < 2),
                zero("reserved", 4),
            ];
            let unmap =
                UpdateGpuVirtualAddress { allocation: Handle(0), protection: 0, ..world.update() };
            let unmapped = vec![
                field("gpu_va", 8, at),
                field("size", 8, whole_pages),
                only("allocation", 8, 0, invalid),
                zero("offset", 8),
                zero("protection", 4),
                zero("reserved", 4),
            ];
            vec![row(process, &world.update(), mapped), row(process, &unmap, unmapped)]
        }
        RequestCode::CREATE_NATIVE_FENCE => {
            let fields = vec![
                handle("device", device),
                any("initial_value", 8),
                if_so("fence_type", 4, |fence_type| fence_type < 2),
                if_so("flags", 4, |flags| flags < 2),
            ];
            vec![row(process, &CreateNativeFence::new(device, 0), fields)]
        }
        RequestCode::SHARE_NATIVE_FENCE => {
            let fence = world.shared;
            vec![row(process, &ShareNativeFence { fence }, vec![handle("fence", fence)])]
        }
        RequestCode::OPEN_NATIVE_FENCE => {
            let name = world.shared_name;
            let fields = vec![handle("device", device), only("nt_handle", 8, name.0, parameter)];
            vec![row(process, &OpenNativeFence { device, nt_handle: name }, fields)]
        }
        RequestCode::DESTROY_NATIVE_FENCE => {
            vec![row(process, &DestroyNativeFence { fence }, vec![handle("fence", fence)])]
        }
        RequestCode::WAIT_FOR_FENCES => {
            let fields = vec![
                any("cookie", 8),
                if_so("flags", 4, |flags| flags < 2),
                count("count", 1),
                handle("fence", fence),
                any("value", 8),
            ];
            let request = WaitForFences { cookie: 9, flags: 0, count: 1 };
            vec![row_with_list(process, &request, &[FenceValue { fence, value: 9 }], fields)]
        }
        RequestCode::CANCEL_WAIT => {
            let fields = vec![only("cookie", 8, COOKIE, parameter)];
            vec![row(process, &CancelWait { cookie: COOKIE }, fields)]
        }
        RequestCode::SIGNAL_FENCES => {
            let fields = vec![
                count("count", 1),
                zero("reserved", 4),
                handle("fence", fence),
                any("value", 8),
            ];
            let request = SignalFences { count: 1, reserved: 0 };
            vec![row_with_list(process, &request, &[FenceValue { fence, value: 9 }], fields)]
        }
        RequestCode::CREATE_MONITORED_FENCE => {
            let device = client.device;
            let request = CreateMonitoredFence { device, initial_value: 7, flags: 1, reserved: 0 };
            let fields = vec![
                handle("device", device),
                any("initial_value", 8),
                if_so("flags", 4, |flags| flags < 2),
                zero("reserved", 4),
            ];
            vec![row(process, &request, fields)]
        }
        RequestCode::WAIT_FROM_GPU => {
            let fields = vec![
                handle("queue", world.queue),
                count("count", 1),
                zero("reserved", 4),
                handle("fence", fence),
                any("value", 8),
            ];
            let request = WaitFromGpu { queue: world.queue, count: 1, reserved: 0 };
            vec![row_with_list(process, &request, &[FenceValue { fence, value: 9 }], fields)]
        }
        RequestCode::SIGNAL_FROM_GPU => {
            let fields = vec![
                handle("queue", world.queue),
                count("count", 1),
                zero("reserved", 4),
                handle("fence", fence),
                any("value", 8),
            ];
            let request = SignalFromGpu { queue: world.queue, count: 1, reserved: 0 };
            vec![row_with_list(process, &request, &[FenceValue { fence, value: 9 }], fields)]
        }
        RequestCode::CREATE_DOORBELL => {
            let (ring_buffer, ring_control) = world.ring;
            let request = CreateDoorbell::new(world.unrung, ring_buffer, ring_control);
            let fields = vec![
                handle("hw_queue", world.unrung),
                handle("ring_buffer", ring_buffer),
                handle("ring_control", ring_control),
                zero("flags", 8),
                if_so("private_data.flags", 4, |flags| flags < 2),
                zero("private_data.reserved", 4),
                zero("private_data.reserved", 4),
                zero("private_data.reserved", 4),
            ];
            vec![row(process, &request, fields)]
        }
        RequestCode::CONNECT_DOORBELL => {
            let fields = vec![handle("hw_queue", client.queue)];
            vec![row(process, &ConnectDoorbell { hw_queue: client.queue }, fields)]
        }
        RequestCode::DESTROY_DOORBELL => {
            vec![row(process, &DestroyDoorbell { doorbell }, vec![handle("doorbell", doorbell)])]
        }
        RequestCode::NOTIFY_WORK_SUBMISSION => {
            let fields = vec![handle("doorbell", doorbell)];
            vec![row(process, &NotifyWorkSubmission { doorbell }, fields)]
        }
        RequestCode::QUERY_KERNEL_CAPS => {
            vec![row(0, &QueryKernelCaps { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::QUERY_SECURITY_CAPS => {
            vec![row(0, &QuerySecurityCaps { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::CREATE_KERNEL => vec![kernel(process, client.device, world.fixed.1)],
        RequestCode::DESTROY_KERNEL => {
            let kernel = world.kernel;
            vec![row(process, &DestroyKernel { kernel }, vec![handle("kernel", kernel)])]
        }
        RequestCode::QUERY_VIDEO_CAPS => {
            vec![row(0, &QueryVideoCaps { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::CREATE_VIDEO_SESSION => {
            let request = create_video_session(client.device);
            let fields = vec![
                handle("device", client.device),
                field("node", 4, |node| match node {
                    2 => Ok(()),
                    0 | 1 => Err(Status::NOT_SUPPORTED),
                    _ => Err(Status::INVALID_PARAMETER),
                }),
                if_so("codec", 4, |codec| codec == 1),
                if_so("format", 4, |format| (1..=4).contains(&format)),
                if_so("width", 4, |width| (1..=8192).contains(&width)),
                if_so("height", 4, |height| (1..=8192).contains(&height)),
                zero("rate_control", 4),
                zero("rate", 4),
                zero("frame_rate_numerator", 4),
                zero("frame_rate_denominator", 4),
                zero("key_frame_interval", 4),
                zero("speed", 4),
                zero("reserved", 4),
            ];
            vec![row(process, &request, fields)]
        }
        RequestCode::DESTROY_VIDEO_SESSION => {
            let session = world.video_session;
            vec![row(process, &DestroyVideoSession { session }, vec![handle("session", session)])]
        }
        RequestCode::PRESENT => presents(world),
        code if code >= RequestCode::REGISTER_AGENT => agents(code, world),
        code if code >= RequestCode::QUERY_CHILD_RELATIONS => displays(code, world),
        code => panic!("{code} has no row"),
    }
}

/// A kernel of SPIR-V at `spirv`, where a page of memory is.
fn kernel(process: u32, device: Handle, spirv: u64) -> Row {
    let request = CreateKernel {
        device,
        spirv,
        spirv_length: PAGE_SIZE as u32,
        push_constants: 8,
        descriptors: 2,
        constant_count: 1,
        entry_point: padded("main"),
    };
    let mut fields = vec![
        handle("device", device),
        field("spirv", 8, move |seen| match seen {
            _ if seen == spirv => Ok(()),
            _ if seen.is_multiple_of(8) => Err(Status::ACCESS_VIOLATION),
            _ => Err(Status::INVALID_PARAMETER),
        }),
        if_so("spirv_length", 4, |length| length == PAGE_SIZE),
        // Of the edges, these alone are multiples of 4 within what the device has.
        if_so("push_constants", 4, |bytes| bytes == 0),
        if_so("descriptors", 4, |count| count <= 4),
        count("constant_count", 1),
    ];
    fields.extend(main("entry_point"));
    fields.extend([any("id", 4), any("value", 4)]);
    let constant = SpecialisationConstant { id: 3, value: 9 };
    row_with_list(process, &request, &[constant], fields)
}

/// The bytes of the name "main" in 64. Bytes are printable up to the first zero, and then zero: of the edges, that is 0 alone.
fn main(name: &'static str) -> impl Iterator<Item = Field> {
    let text = "main".bytes().enumerate().map(move |(place, _)| {
        let cut = field(name, 1, move |seen| match (place, seen) {
            // "m", "ma" and "mai" are followed by what is left of the name; only the last can go.
            (3, 0) => Ok(()),
            _ => Err(Status::INVALID_PARAMETER),
        });
        match place {
            0 => cut.naming(0, b'a'.into()),
            1 => cut.naming(0, b'i'.into()),
            _ => cut.naming(0, b'n'.into()),
        }
    });
    text.chain((4..64).map(move |_| zero(name, 1)))
}
