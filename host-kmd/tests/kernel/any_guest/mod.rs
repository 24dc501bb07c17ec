// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests that send arbitrary requests: random numbers choose the requests and their objects.

mod agents;
mod displays;
mod seen;
mod videos;

use crate::bench::{Bench, TIMEOUT, bytes, bytes_with_list, fence_values};
use crate::model::monitors::caps;
use crate::model::{Model, NODES_WITH_VIDEO};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, EngineState, Fault, GpuOrdinal, GuestId, HwQueueId, Interrupt, KernelNumber,
    KernelOutcome,
};
use bellhop_host_kmd::port::{Command, Input, RequestToken};
use bellhop_protocol::control::adapter::{GetNodeMetadata, QueryStatistics};
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CloseAllocation, CreateAllocation, DestroyAllocation, Evict,
    Extent, Lock, MakeResident, OpenAllocation, OpenSharedAllocation, SetAllocationPriority,
    ShareAllocation, Unlock,
};
use bellhop_protocol::control::context::{
    CreateContext, DestroyContext, ResumeContext, SuspendContext,
};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, CreateDoorbell, DestroyDoorbell, NotifyWorkSubmission,
};
use bellhop_protocol::control::fence::{
    CancelWait, CreateMonitoredFence, CreateNativeFence, DestroyNativeFence, NtHandle,
    SignalFences, SignalFromGpu, WaitForFences, WaitFromGpu,
};
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, GPU_VA_END, GPU_VA_START, MapGpuVirtualAddress,
    ReserveGpuVirtualAddress, UpdateGpuVirtualAddress,
};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue, SubmitCommand};
use bellhop_protocol::control::kernel::{
    CreateKernel, DestroyKernel, KernelCreated, KernelResult, QueryKernelCaps,
    SpecialisationConstant, padded,
};
use bellhop_protocol::control::node_context::{
    AllocationListEntry, CreateNodeContext, PatchLocation, Render, SubmissionModel,
    SubmitCommandVirtual,
};
use bellhop_protocol::control::power::{
    DevicePowerState, EnginePowerState, QueryPower, SetDevicePower, SetEnginePower,
};
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess, SetObjectName};
use bellhop_protocol::control::security::QuerySecurityCaps;
use bellhop_protocol::control::{Handle, RequestCode, RequestHeader};
use bellhop_protocol::doorbell::DoorbellPrivateData;
use bellhop_protocol::event::{Event, EventKind, FaultReason, FlipOutcome};
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::transfer::Fill;
use bellhop_protocol::status::Status;
use seen::Seen;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

pub use seen::Step;

/// Number of kinds of steps.
pub const KINDS: u8 = 77;

/// The request of a step to an adapter of this number of GPUs.
fn request(step: &Step, seen: &Seen, gpus: usize) -> Option<Vec<u8>> {
    let [a, b, c, d] = step.choice;
    let nodes = NODES_WITH_VIDEO.len() * gpus;
    let size = if a % 8 == 0 { 2 * 4096 } else { 4096 };
    Some(match step.kind {
        0 => bytes(0, &CreateProcess { reserved: 0 }),
        1 => {
            let (process, _) = seen.pick(RequestCode::CREATE_PROCESS, a);
            bytes(process, &DestroyProcess { flags: u64::from(b > 64) })
        }
        2 | 3 => {
            let (process, _) = seen.pick(RequestCode::CREATE_PROCESS, a);
            bytes(process, &CreateDevice { reserved: 0 })
        }
        4..=6 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            if step.kind == 4 && b < 64 {
                bytes(process, &DestroyDevice { device })
            } else {
                let node = (d % nodes) as u32;
                bytes(process, &CreateContext { device, node, engine_affinity: 0 })
            }
        }
        7..=9 => {
            let (process, context) = seen.pick(RequestCode::CREATE_CONTEXT, a);
            if step.kind == 7 && b < 64 {
                bytes(process, &DestroyContext { context })
            } else {
                // Mostly for user-mode submission.
                let flags = [0, 2, 3, 3, 3][d % 5];
                bytes(process, &CreateHwQueue { context, flags, reserved: 0 })
            }
        }
        10 => {
            let (process, hw_queue) = seen.pick(RequestCode::CREATE_HW_QUEUE, a);
            bytes(process, &DestroyHwQueue { hw_queue })
        }
        11 | 12 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            let kind = AllocationKind::LOCAL;
            bytes(process, &CreateAllocation::fixed(device, kind, size, 0))
        }
        13 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            let kind = AllocationKind::SYSTEM;
            let page = Extent { address: d as u64 * 4096, length: 4096 };
            let extents = vec![page; size as usize / 4096];
            let extent_count = extents.len() as u32;
            let request = CreateAllocation::fixed(device, kind, size, extent_count);
            bytes_with_list(process, &request, &extents)
        }
        14 => {
            let (process, allocation) = seen.pick(RequestCode::CREATE_ALLOCATION, a);
            bytes(process, &DestroyAllocation { allocation })
        }
        15 | 16 => {
            let (process, allocation) = seen.pick(RequestCode::CREATE_ALLOCATION, a);
            let base = if d % 2 == 0 { 0 } else { GPU_VA_START + (d % 8) as u64 * 4096 };
            let protection = (d % 2) as u32;
            let request =
                MapGpuVirtualAddress { allocation, base, offset: 0, size, protection, reserved: 0 };
            bytes(process, &request)
        }
        17 => {
            let (process, address) = seen.pick(RequestCode::MAP_GPU_VIRTUAL_ADDRESS, a);
            bytes(process, &FreeGpuVirtualAddress { gpu_va: address.0, size })
        }
        18 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            bytes(process, &CreateNativeFence::new(device, d as u64))
        }
        19..=21 => {
            let created = RequestCode::CREATE_NATIVE_FENCE;
            let (process, fence) = seen.pick(created, a);
            let (value, cookie) = (c as u64, d as u64 % 4);
            match step.kind {
                19 => bytes(process, &DestroyNativeFence { fence }),
                20 => {
                    let flags = c as u32 % 3;
                    let fences = [(fence, value), (seen.pick_of(process, created, b), value + 1)];
                    let list = fence_values(fences.get(..1 + c % 2).unwrap());
                    let count = list.len() as u32;
                    bytes_with_list(process, &WaitForFences { cookie, flags, count }, &list)
                }
                _ => bytes(process, &CancelWait { cookie }),
            }
        }
        22 | 23 => {
            let (process, hw_queue) = seen.pick(RequestCode::CREATE_HW_QUEUE, a);
            let allocation = RequestCode::CREATE_ALLOCATION;
            bytes(
                process,
                &CreateDoorbell {
                    private_data: DoorbellPrivateData { flags: (b / 100) as u32, reserved: [0; 3] },
                    ..CreateDoorbell::new(
                        hw_queue,
                        seen.pick_of(process, allocation, b),
                        seen.pick_of(process, allocation, c),
                    )
                },
            )
        }
        24 => {
            let (process, hw_queue) = seen.pick(RequestCode::CREATE_HW_QUEUE, a);
            bytes(process, &ConnectDoorbell { hw_queue })
        }
        25 | 26 => {
            let (process, doorbell) = seen.pick(RequestCode::CREATE_DOORBELL, a);
            match step.kind {
                25 => bytes(process, &DestroyDoorbell { doorbell }),
                _ => bytes(process, &NotifyWorkSubmission { doorbell }),
            }
        }
        27 => {
            let (process, hw_queue) = seen.pick(RequestCode::CREATE_HW_QUEUE, a);
            let gpu_va = GPU_VA_START;
            let request =
                SubmitCommand { hw_queue, gpu_va, progress_fence_value: 1, size: 64, reserved: 0 };
            bytes(process, &request)
        }
        28 => bytes(0, &GetNodeMetadata { node: (d % (nodes + 1)) as u32, reserved: 0 }),
        29 => bytes(0, &QueryStatistics { reserved: 0 }),
        32 | 33 => {
            let (process, context) = seen.pick(RequestCode::CREATE_CONTEXT, a);
            match step.kind {
                32 => bytes(process, &SuspendContext { context }),
                _ => bytes(process, &ResumeContext { context }),
            }
        }
        34 | 35 => {
            let (process, allocation) = seen.pick(RequestCode::CREATE_ALLOCATION, a);
            let (_, device) = seen.pick(RequestCode::CREATE_DEVICE, b);
            let (count, reserved) = (1, 0);
            match step.kind {
                34 => bytes_with_list(process, &Evict { device, count, reserved }, &[allocation]),
                _ => {
                    let request = MakeResident { device, count, reserved };
                    bytes_with_list(process, &request, &[allocation])
                }
            }
        }
        36 => {
            let state = if d < 64 { DevicePowerState::D0 } else { DevicePowerState::D3 };
            bytes(0, &SetDevicePower { state, reserved: 0 })
        }
        37 => {
            let state = EnginePowerState((d % 3) as u32);
            bytes(0, &SetEnginePower { node: (c % nodes) as u32, state })
        }
        40 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            let (node, model) = ((d % nodes) as u32, SubmissionModel((c % 4) as u32));
            bytes(process, &CreateNodeContext { device, node, model })
        }
        41 | 42 => {
            let (process, context) = seen.pick(RequestCode::CREATE_NODE_CONTEXT, a);
            let listed = RequestCode::CREATE_ALLOCATION;
            let allocation = seen.pick_of(process, listed, b);
            let list = [AllocationListEntry { allocation, flags: (c % 3) as u32, reserved: 0 }];
            let patch_offset = if c % 8 == 0 { d as u32 } else { 8 };
            let (allocation_index, allocation_offset) = ((d % 16 / 15) as u32, b as u64 * 64);
            let patches = [PatchLocation { allocation_index, patch_offset, allocation_offset }];
            let is_basic = step.kind == 41;
            let request = Render {
                context,
                dma_buffer: if is_basic { 0 } else { GPU_VA_START },
                dma_buffer_size: if is_basic { 0 } else { 64 },
                command_length: if is_basic { 24 } else { 0 },
                allocation_count: 1,
                patch_location_count: u32::from(is_basic),
            };
            let fill = Fill::new(0, 8, 0);
            let lists = if is_basic {
                [fill.as_bytes(), list.as_bytes(), patches.as_bytes()].concat()
            } else {
                list.as_bytes().to_vec()
            };
            bytes_with_list(process, &request, &lists)
        }
        43 => {
            let (process, context) = seen.pick(RequestCode::CREATE_NODE_CONTEXT, a);
            let gpu_va = GPU_VA_END + d as u64 * 4096;
            bytes(process, &SubmitCommandVirtual { context, gpu_va, size: 8, reserved: 0 })
        }
        45 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            let request = CreateAllocation {
                supported_segments: (d % 8) as u32,
                flags: if b % 2 == 0 { AllocationFlags::SHARED.bits() } else { 0 },
                ..CreateAllocation::fixed(device, AllocationKind::PAGED, size, 0)
            };
            bytes(process, &request)
        }
        46..=48 => {
            let (process, allocation) = seen.pick(RequestCode::CREATE_ALLOCATION, a);
            let priority = d as u32;
            match step.kind {
                46 => bytes(process, &Lock { allocation }),
                47 => bytes(process, &Unlock { allocation }),
                _ => bytes(process, &SetAllocationPriority { allocation, priority, reserved: 0 }),
            }
        }
        49 | 50 => {
            let (process, allocation) = seen.pick(RequestCode::CREATE_ALLOCATION, a);
            let device = seen.pick_of(process, RequestCode::CREATE_DEVICE, b);
            match step.kind {
                49 => bytes(process, &OpenAllocation { device, allocation }),
                _ => bytes(process, &CloseAllocation { device, allocation }),
            }
        }
        51 => {
            let (process, _) = seen.pick(RequestCode::CREATE_PROCESS, a);
            let base = GPU_VA_START + (c % 8) as u64 * 4096;
            bytes(process, &ReserveGpuVirtualAddress { base, size })
        }
        52 => {
            let (process, allocation) = seen.pick(RequestCode::CREATE_ALLOCATION, a);
            let (gpu_va, offset) = (GPU_VA_START + (c % 16) as u64 * 4096, (d % 4) as u64 * 4096);
            let unmap = b % 4 == 0;
            let request = UpdateGpuVirtualAddress {
                gpu_va,
                size,
                allocation: if unmap { Handle(0) } else { allocation },
                offset: if unmap { 0 } else { offset },
                protection: 0,
                reserved: 0,
            };
            bytes(process, &request)
        }
        53 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            let (initial_value, flags) = (d as u64, c as u32 % 3);
            bytes(process, &CreateMonitoredFence { device, initial_value, flags, reserved: 0 })
        }
        54 | 55 => {
            let queues = [RequestCode::CREATE_HW_QUEUE, RequestCode::CREATE_NODE_CONTEXT];
            let (process, queue) = seen.pick(queues[c % 2], a);
            let fence = seen.pick_of(process, RequestCode::CREATE_NATIVE_FENCE, b);
            let list = fence_values(&[(fence, d as u64)]);
            let (count, reserved) = (1, 0);
            match step.kind {
                54 => bytes_with_list(process, &WaitFromGpu { queue, count, reserved }, &list),
                _ => bytes_with_list(process, &SignalFromGpu { queue, count, reserved }, &list),
            }
        }
        56 => {
            let (process, fence) = seen.pick(RequestCode::CREATE_NATIVE_FENCE, a);
            let list = fence_values(&[(fence, d as u64)]);
            bytes_with_list(process, &SignalFences { count: 1, reserved: 0 }, &list)
        }
        57 => {
            let (process, allocation) = seen.pick(RequestCode::CREATE_ALLOCATION, a);
            bytes(process, &ShareAllocation { allocation })
        }
        58 | 59 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            let (_, Handle(name)) = seen.pick(RequestCode::SHARE_ALLOCATION, b);
            let nt_handle = NtHandle(name);
            bytes(process, &OpenSharedAllocation { device, nt_handle })
        }
        60 | 61 => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            let count = c % 3;
            let constants = [(b as u32, 1), (7, 2)].map(|(id, value)| {
                let id = id % 9;
                SpecialisationConstant { id, value }
            });
            let request = CreateKernel {
                device,
                spirv: GPU_VA_START + (d % 8) as u64 * 4096,
                spirv_length: if b % 8 == 0 { 4096 } else { 20 },
                push_constants: (c % 8) as u32 * 4,
                descriptors: (b % 6) as u32,
                constant_count: count as u32,
                entry_point: padded("main"),
            };
            bytes_with_list(process, &request, constants.get(..count).unwrap())
        }
        62 => {
            let (process, kernel) = seen.pick(RequestCode::CREATE_KERNEL, a);
            if d % 8 == 0 {
                bytes(0, &QueryKernelCaps { reserved: 0 })
            } else if d % 8 == 1 {
                bytes(0, &QuerySecurityCaps { reserved: 0 })
            } else {
                bytes(process, &DestroyKernel { kernel })
            }
        }
        displays::FIRST..displays::HAPPEN => return displays::request(step, seen, gpus),
        // No request: something happens to displays.
        displays::HAPPEN => return None,
        agents::ESCAPE => agents::request(step, seen),
        videos::REQUEST => videos::request(step, seen, gpus),
        38 if c % 4 == 0 => bytes(0, &QueryPower { node: (d % nodes) as u32, reserved: 0 }),
        38 => {
            let kinds = [
                RequestCode::CREATE_DEVICE,
                RequestCode::CREATE_CONTEXT,
                RequestCode::CREATE_HW_QUEUE,
                RequestCode::CREATE_ALLOCATION,
                RequestCode::CREATE_NATIVE_FENCE,
                RequestCode::CREATE_DOORBELL,
            ];
            let (process, object) = seen.pick(kinds[b % kinds.len()], a);
            bytes(process, &SetObjectName::new(object, ["", "a name", "größe"][c % 3]))
        }
        _ => return None,
    })
}

/// Sends one request and learns from the reply.
fn send(bench: &mut Bench, guest: GuestId, request: Vec<u8>, seen: &mut Seen) -> RequestToken {
    let header = RequestHeader::read_from_prefix(&request).ok().map(|(header, _)| header);
    let token = bench.send(guest, request);
    if let (Some(header), Some((_, body))) = (header, bench.reply(guest, token)) {
        seen.learn(header.code, header.process, body);
    }
    token
}

/// A guest with a queue and a connected doorbell, so that random steps begin in the middle.
fn settled(bench: &mut Bench, id: u64) -> (GuestId, Seen) {
    let guest = bench.guest(id);
    let (client, doorbell) = bench.connected(guest);
    displays::light(bench, client);
    let process = client.process;
    let seen = Seen(vec![
        (RequestCode::CREATE_PROCESS, process, Handle(0)),
        (RequestCode::CREATE_DEVICE, process, client.device),
        (RequestCode::CREATE_CONTEXT, process, client.context),
        (RequestCode::CREATE_HW_QUEUE, process, client.queue),
        (RequestCode::CREATE_NATIVE_FENCE, process, client.fence),
        (RequestCode::CREATE_DOORBELL, process, doorbell),
    ]);
    (guest, seen)
}

/// The kernels that each GPU is compiling.
fn compiling(bench: &Bench) -> Vec<(Arc<Model>, (AddressSpaceId, KernelNumber))> {
    let of = |model: &Arc<Model>| {
        let kernels = model.compiling().into_iter();
        kernels.map(|kernel| (Arc::clone(model), kernel)).collect::<Vec<_>>()
    };
    bench.models.iter().flat_map(of).collect()
}

/// A request, as its header said it.
struct Sent {
    guest: GuestId,
    token: RequestToken,
    code: Option<RequestCode>,
}

/// A kernel with two guests that are in the middle of their work, over one adapter.
pub struct Scene {
    bench: Bench,
    guests: [GuestId; 2],
    seen: [Seen; 2],
    sent: Vec<Sent>,
    /// Requests for kernels that are not answered, each with its process.
    compiling: Vec<(GuestId, (u32, RequestToken))>,
}

impl Scene {
    /// The adapter is a chain of this number of GPUs.
    pub fn new(gpus: usize) -> Self {
        let model = || {
            let mut model = Model::new(1);
            model.display_caps = caps();
            model.nodes = NODES_WITH_VIDEO;
            model.state().video_room = videos::ROOM;
            model
        };
        let limits = Limits { video_sessions: videos::MOST, ..Limits::default() };
        let models = Model::chain((0..gpus).map(|_| model()).collect());
        let mut bench = Bench::linked(models, limits);
        let (one, seen_by_one) = settled(&mut bench, 1);
        let (two, seen_by_two) = settled(&mut bench, 2);
        let seen = [seen_by_one, seen_by_two];
        Self { bench, guests: [one, two], seen, sent: Vec::new(), compiling: Vec::new() }
    }

    /// Takes one step.
    pub fn take(&mut self, step: &Step) {
        let Self { bench, guests, seen, .. } = self;
        let guest = guests[step.guest];
        let gpus = bench.gpus();
        if let Some(mut request) = request(step, &seen[step.guest], gpus) {
            if let Some((at, change)) = step.mutation {
                let at = at % request.len();
                request[at] ^= change;
            }
            self.send(step.guest, request);
        } else if step.kind == 30 {
            let [a, b, ..] = step.choice;
            bench.model.state().prompt = a % 2 == 0;
            let slots: Vec<_> = bench.model.state().fences.keys().copied().collect();
            if let Some((guest, slot)) = slots.get(b % 16) {
                // A permanently signaled fence gets no more signals.
                let current = bench.model.state().fences[&(*guest, *slot)].current;
                if let Some(value) = current.checked_add(a as u64) {
                    bench.model.signal(*guest, *slot, value);
                }
            }
            bench.interrupt();
        } else if step.kind == 63 {
            // Kernels that are being compiled end in any order. Or one that nobody asked for.
            let [a, b, c, _] = step.choice;
            let outcome = match b % 4 {
                0 => KernelOutcome::Failed(KernelResult::REFUSED, "x".repeat(b * 8)),
                _ => KernelOutcome::Compiled,
            };
            match compiling(bench).get(a % (4 * gpus)) {
                Some((model, kernel)) => model.end_compiling(*kernel, outcome),
                None => bench.model.raise(Interrupt::KernelCompiled {
                    space: AddressSpaceId(c as u64 % 8),
                    kernel: KernelNumber(u32::MAX),
                    outcome,
                }),
            }
            if c % 4 > 0 {
                bench.interrupt();
            }
            self.learn_of_kernels();
        } else if step.kind == agents::OPERATE {
            agents::operate(bench, guest, step.choice);
        } else if step.kind == displays::HAPPEN {
            displays::happen(bench, guest, step.choice);
        } else if step.kind >= 44 {
            // The fence may or may not have been submitted.
            let [a, b, ..] = step.choice;
            let fence = a as u64 % 16;
            bench.models[b % gpus].raise(Interrupt::DmaCompleted { node: 0, engine: 0, fence });
            bench.interrupt();
        } else if step.kind == 39 {
            let [a, b, c, d] = step.choice;
            bench.later(Duration::from_millis(a as u64 * 20));
            let node = (c % (NODES_WITH_VIDEO.len() * gpus)) as u32;
            let state = EnginePowerState(d as u32 % 2);
            bench.command(match b % 6 {
                0 => Command::SetDevicePower(DevicePowerState::D3),
                1 => Command::SetEnginePower { node, state },
                2 => Command::SuspendGuest(guest),
                3 => Command::ResumeGuest(guest),
                4 => Command::DisconnectGuest(guest),
                _ => Command::FailGuest(guest),
            });
            // A model has two engines that do without power.
            let new_state = EngineState::TransitionToF1;
            let model = &bench.models[c / 2 % gpus];
            model.raise(Interrupt::GpuEngineStateChange { node: c as u32 % 2, new_state });
            bench.interrupt();
        } else {
            let gpu = step.choice[0] / 40 % gpus;
            let queue = HwQueueId::of(GpuOrdinal(gpu as u8), step.choice[0] as u64 % 40);
            let fault = Fault::new(FaultReason::MISALIGNED, Opcode::COPY, 1);
            let node = step.choice[2] as u32 % 3;
            bench.models[gpu].raise(match step.choice[1] % 5 {
                0 => Interrupt::PageFault { queue, fault },
                1 => {
                    let new_state = EngineState::Hung { queue, fault };
                    Interrupt::GpuEngineStateChange { node, new_state }
                }
                2 => Interrupt::DmaPreempted {
                    node,
                    engine: 0,
                    preemption_fence: step.choice[3] as u64 % 4,
                    last_completed_fence: 0,
                },
                3 => Interrupt::EngineReset { node },
                _ => Interrupt::HwQueueFault { queue, fault },
            });
            bench.pass_tickets();
        }
    }

    /// Learns of kernels from replies that came later than their requests.
    fn learn_of_kernels(&mut self) {
        let created = size_of::<KernelCreated>();
        for (guest, token) in &self.compiling {
            let place = self.guests.iter().position(|one| one == guest).unwrap();
            if let Some((_, body)) = self.bench.reply(*guest, token.1)
                && body.len() == created
            {
                self.seen[place].learn(RequestCode::CREATE_KERNEL, token.0, body);
            }
        }
        let bench = &self.bench;
        self.compiling.retain(|(guest, token)| bench.reply(*guest, token.1).is_none());
    }

    /// A process of this guest.
    pub fn process(&self, guest: usize) -> u32 {
        self.seen[guest].0[0].1
    }

    /// Whether a reply to such a request has named an object.
    #[allow(dead_code, reason = "the fuzz targets' tests use it")]
    pub fn has_seen(&self, guest: usize, code: RequestCode) -> bool {
        self.seen[guest].0.iter().any(|(other, _, handle)| *other == code && handle.0 != 0)
    }

    /// The statuses of the replies to such requests, in the order of the requests.
    #[allow(dead_code, reason = "the fuzz targets' tests use it")]
    pub fn answers(&self, guest: usize, code: RequestCode) -> Vec<Status> {
        let of = |sent: &&Sent| sent.guest == self.guests[guest] && sent.code == Some(code);
        let replies = self.sent.iter().filter(of);
        let replies = replies.filter_map(|sent| self.bench.reply(sent.guest, sent.token));
        replies.map(|(header, _)| header.status).collect()
    }

    /// How flips of a guest have ended.
    #[allow(dead_code, reason = "the fuzz targets' tests use it")]
    pub fn flips(&self, guest: usize) -> Vec<FlipOutcome> {
        let guest = self.guests[guest];
        let events = self.bench.events.iter();
        let of = |(to, event): &&(GuestId, Event)| *to == guest && event.kind == EventKind::FLIPPED;
        events.filter(of).map(|(_, event)| event.outcome).collect()
    }

    /// Sends these bytes for a guest.
    pub fn send(&mut self, guest: usize, request: Vec<u8>) {
        let header = RequestHeader::read_from_prefix(&request).ok().map(|(header, _)| header);
        let token = send(&mut self.bench, self.guests[guest], request, &mut self.seen[guest]);
        let code = header.map(|header| header.code);
        self.sent.push(Sent { guest: self.guests[guest], token, code });
        if let Some(header) = header.filter(|header| header.code == RequestCode::CREATE_KERNEL) {
            self.compiling.push((self.guests[guest], (header.process, token)));
        }
    }

    /// Checks that every request is answered exactly once when engines come round, and that nothing is left after the
    /// guests have detached. The model checks the kernel's calls.
    pub fn end(mut self) {
        for place in [0, 1] {
            self.bench.command(Command::ResumeGuest(self.guests[place]));
            // Immediate flips may wait for fences that nobody signals, and end with their sources.
            for request in displays::darken(&self.seen[place]) {
                self.send(place, request);
            }
        }
        let Self { mut bench, guests, sent, .. } = self;
        displays::let_go(&mut bench, guests);
        // Agents that do not answer are too late.
        bench.later(agents::PATIENCE);
        // Waits for queues without progress time out, and then engines pass their tickets.
        for _ in 0..4 {
            bench.later(TIMEOUT);
            bench.pass_tickets();
        }
        // Kernels that waited for paging are compiled now.
        for (model, kernel) in compiling(&bench) {
            model.end_compiling(kernel, KernelOutcome::Compiled);
        }
        bench.interrupt();
        for Sent { guest, token, .. } in &sent {
            assert!(
                bench.reply(*guest, *token).is_some(),
                "{token:?} of {guest:?} is not answered"
            );
        }
        for guest in guests {
            bench.input(Input::Detach { guest });
        }
        bench.pass_tickets();
        bench.pass_tickets();
        assert_eq!(bench.detached.as_slice(), guests.as_slice());
        assert!(bench.models.iter().all(|model| model.is_empty()));
    }
}
