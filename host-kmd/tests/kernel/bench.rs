// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests that send requests to the kernel.

use crate::model::Model;
use bellhop_host_kmd::dxgkrnl::{Adapters, Kernel, Limits, OsFeatures, PowerPolicy};
use bellhop_host_kmd::hardware::{
    EngineState, Fault, GuestId, HwQueueId, Interrupt, KernelOutcome, SegmentSizes,
};
use bellhop_host_kmd::port::{
    AdapterId, Command, CommandError, CommandToken, Effect, GuestResources, Input, ListError,
    ListObjects, ObjectPage, RequestToken, SharingGroups, TraceError, TracePage,
};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::adapter::{AdapterInfo, OpenAdapter};
use bellhop_protocol::control::agent::{AgentAnswer, AskAgent};
use bellhop_protocol::control::allocation::{
    AllocationKind, CreateAllocation, CreateAllocationReply, Evict, Extent, MakeResident,
};
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, ConnectDoorbellReply, CreateDoorbell, CreateDoorbellReply,
};
use bellhop_protocol::control::fence::{FenceValue, SignalFences, WaitFlags, WaitForFences};
use bellhop_protocol::control::gpu_va::{MapGpuVirtualAddress, Protection};
use bellhop_protocol::control::hw_queue::{
    CreateHwQueue, CreateHwQueueReply, HwQueueFlags, SubmitCommand,
};
use bellhop_protocol::control::kernel::{CreateKernel, KernelCreated, padded};
use bellhop_protocol::control::process::CreateProcess;
use bellhop_protocol::control::{Handle, MAX_REPLY_SIZE, ReplyHeader, Request, RequestHeader};
use bellhop_protocol::event::Event;
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

pub const BAR: BarLayout =
    BarLayout { doorbell_count: 6, fence_count: 32 * 64, local_memory: 64 * 4096 };

pub const FEATURES: Features = Features::USER_MODE_SUBMISSION
    .union(Features::POWER_CONTROL)
    .union(Features::NATIVE_FENCES)
    .union(Features::PROCESS_BARS)
    .union(Features::OBJECT_NAMES)
    .union(Features::DISABLE_GPU_TIMEOUT);

pub const SEGMENTS: SegmentSizes =
    SegmentSizes { private: 32 * 4096, backing: 256 * 4096, aperture: 64 * 4096 };

pub const RESOURCES: GuestResources = GuestResources {
    bar: BAR,
    segments: SEGMENTS,
    bar_mapped: true,
    features: FEATURES,
    sharing: SharingGroups::NONE,
};

/// Number of fences that guests can share.
pub const CROSS_ADAPTER_FENCES: u32 = 4;

/// Flags of a queue for user-mode submission.
pub const USER_MODE: HwQueueFlags =
    HwQueueFlags::USER_MODE_SUBMISSION.union(HwQueueFlags::NATIVE_PROGRESS_FENCE);

/// How long all engines are in F1 before the device goes to D3.
pub const DEVICE_IDLE: Duration = Duration::from_secs(10);
/// How long the work of a destroyed object may take.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// Status and detail of a refused request.
pub type Refused = (Status, u64);

/// A list of fences with their values.
pub fn fence_values(fences: &[(Handle, u64)]) -> Vec<FenceValue> {
    fences.iter().map(|(fence, value)| FenceValue { fence: *fence, value: *value }).collect()
}

/// A request that maps an allocation's first `size` bytes writable.
pub fn map(allocation: Handle, base: u64, size: u64) -> MapGpuVirtualAddress {
    let protection = Protection::WRITE.bits();
    MapGpuVirtualAddress { allocation, base, offset: 0, size, protection, reserved: 0 }
}

/// A kernel-mode submission of an arbitrary command buffer to the client's queue.
pub fn submission(client: Client, progress_fence_value: u64) -> SubmitCommand {
    let (hw_queue, gpu_va, size) = (client.queue, 0x10_0000, 8);
    SubmitCommand { hw_queue, gpu_va, progress_fence_value, size, reserved: 0 }
}

/// A request for a kernel of SPIR-V at this address.
pub fn create_kernel(client: Client, spirv: u64) -> CreateKernel {
    CreateKernel {
        device: client.device,
        spirv,
        spirv_length: 20,
        push_constants: 0,
        descriptors: 0,
        constant_count: 0,
        entry_point: padded("main"),
    }
}

/// The bytes of a request.
pub fn bytes<T: Request>(process: u32, request: &T) -> Vec<u8> {
    bytes_with_list::<T, u64>(process, request, &[])
}

/// The bytes of a request with a list behind it.
pub fn bytes_with_list<T: Request, E: IntoBytes + zerocopy::Immutable>(
    process: u32,
    request: &T,
    list: &[E],
) -> Vec<u8> {
    let length = size_of::<RequestHeader>() + size_of::<T>() + size_of_val(list);
    let header = RequestHeader { code: T::CODE, length: length as u32, process, reserved: 0 };
    [header.as_bytes(), request.as_bytes(), list.as_bytes()].concat()
}

/// A host's kernels and GPUs, and the effects of its inputs.
pub struct Bench {
    /// The GPU of the first adapter, the only one in most tests.
    pub model: Arc<Model>,
    /// All GPUs, by adapter; or those of the only one.
    pub models: Vec<Arc<Model>>,
    pub kernel: Adapters,
    /// Which adapter each guest is attached to.
    homes: BTreeMap<GuestId, AdapterId>,
    pub replies: BTreeMap<(GuestId, RequestToken), Vec<u8>>,
    pub events: Vec<(GuestId, Event)>,
    pub detached: Vec<GuestId>,
    pub commands: BTreeMap<CommandToken, Result<(), CommandError>>,
    pub traces: BTreeMap<CommandToken, Result<TracePage, TraceError>>,
    /// Answers of agents to the operator.
    pub answers: BTreeMap<CommandToken, AgentAnswer>,
    now: Duration,
    next_token: u64,
}

/// A process with a device, a context and a queue.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    pub guest: GuestId,
    pub process: u32,
    pub device: Handle,
    pub context: Handle,
    pub queue: Handle,
    /// The GPU's id of the queue.
    pub id: HwQueueId,
    pub fence: Handle,
    pub fence_slot: u32,
}

impl Bench {
    pub fn new(physical_doorbells: u32) -> Self {
        Self::with_limits(physical_doorbells, Limits::default())
    }

    pub fn with_limits(physical_doorbells: u32, limits: Limits) -> Self {
        Self::of(vec![Arc::new(Model::new(physical_doorbells))], limits)
    }

    /// A host with a client of guest 1.
    pub fn with_client(physical_doorbells: u32) -> (Self, Client) {
        let mut bench = Self::new(physical_doorbells);
        let guest = bench.guest(1);
        let client = bench.client(guest);
        (bench, client)
    }

    /// A host with a client of guest 1 and its connected doorbell.
    pub fn with_connected(physical_doorbells: u32) -> (Self, Client, Handle) {
        let mut bench = Self::new(physical_doorbells);
        let guest = bench.guest(1);
        let (client, doorbell) = bench.connected(guest);
        (bench, client, doorbell)
    }

    /// A host with an adapter for each of these GPUs.
    pub fn of(models: Vec<Arc<Model>>, limits: Limits) -> Self {
        let features = vec![OsFeatures::default(); models.len()];
        Self::with_features(models, &features, limits)
    }

    /// Like [`Self::of`], with these features enabled for each adapter.
    pub fn with_features(models: Vec<Arc<Model>>, features: &[OsFeatures], limits: Limits) -> Self {
        let kernels = models
            .iter()
            .zip(features)
            .map(|(model, features)| Kernel::new(Arc::clone(model), *features, limits).unwrap());
        let kernels = kernels.collect();
        Self::over(models, kernels)
    }

    /// A host with one adapter, of these GPUs of a chain.
    #[allow(dead_code, reason = "for tests of chains")]
    pub fn linked(models: Vec<Arc<Model>>, limits: Limits) -> Self {
        let (master, slaves) = models.split_first().unwrap();
        let features = OsFeatures::default();
        let kernel = Kernel::linked(master.clone(), slaves.to_vec(), features, limits).unwrap();
        Self::over(models, vec![kernel])
    }

    fn over(models: Vec<Arc<Model>>, kernels: Vec<Kernel>) -> Self {
        let policy = PowerPolicy { engine_idle: None, device_idle: Some(DEVICE_IDLE) };
        let kernels = kernels.into_iter().map(|kernel| kernel.with_power_policy(policy));
        let kernel =
            Adapters::new(kernels.collect()).with_cross_adapter_fences(CROSS_ADAPTER_FENCES);
        let (replies, events) = (BTreeMap::new(), Vec::new());
        Self {
            model: Arc::clone(&models[0]),
            models,
            kernel,
            homes: BTreeMap::new(),
            replies,
            events,
            detached: Vec::new(),
            commands: BTreeMap::new(),
            traces: BTreeMap::new(),
            answers: BTreeMap::new(),
            now: Duration::ZERO,
            next_token: 0,
        }
    }

    pub fn input(&mut self, input: Input) {
        self.input_on(AdapterId(0), input);
    }

    /// Handles an input; `adapter` matters only if the input concerns one.
    pub fn input_on(&mut self, adapter: AdapterId, input: Input) {
        let mut effects = Vec::new();
        self.kernel.handle(adapter, input, &mut effects);
        while self.models.iter().any(|model| model.run_engines() || model.state().is_paging_done())
        {
            self.kernel.handle(adapter, Input::Interrupt, &mut effects);
        }
        for effect in effects {
            match effect {
                Effect::Reply { guest, token, reply } => {
                    let before = self.replies.insert((guest, token), reply);
                    assert_eq!(before, None, "a request was answered twice");
                }
                Effect::Event { guest, event } => self.events.push((guest, event)),
                Effect::Detached { guest } => self.detached.push(guest),
                Effect::Traced { token, result } => {
                    let before = self.traces.insert(token, result);
                    assert_eq!(before, None, "a trace was answered twice");
                }
                Effect::AgentAnswered { token, answer } => {
                    let before = self.answers.insert(token, answer);
                    assert_eq!(before, None, "an operator was answered twice");
                }
                Effect::CommandDone { token, result } => {
                    let before = self.commands.insert(token, result);
                    assert_eq!(before, None, "a command was done twice");
                }
            }
        }
    }

    /// Advances the time.
    pub fn later(&mut self, time: Duration) {
        self.now += time;
        self.kernel.set_time(self.now);
        self.input(Input::Timeout);
    }

    /// Sends a command. Returns its result, if it is done.
    pub fn command(&mut self, command: Command) -> Option<Result<(), CommandError>> {
        let token = self.begin_command(command);
        self.commands.get(&token).cloned()
    }

    /// As [`Self::command`]. What comes of it comes into `commands`.
    pub fn begin_command(&mut self, command: Command) -> CommandToken {
        let token = CommandToken(self.next_token);
        self.next_token += 1;
        self.input(Input::Command { token, command });
        token
    }

    /// The operator asks a guest's agent. The answer comes into `answers`.
    pub fn operator_asks(&mut self, guest: GuestId, request: AskAgent) -> CommandToken {
        let token = CommandToken(self.next_token);
        self.next_token += 1;
        self.input(Input::AskAgent { token, guest, request });
        token
    }

    pub fn raise(&mut self, interrupt: Interrupt) {
        self.model.raise(interrupt);
        self.interrupt();
    }

    /// The GPUs of the only adapter.
    pub fn gpus(&self) -> usize {
        self.models.len()
    }

    /// The first engine of a node has pre-empted as requested.
    pub fn preempted(&mut self, node: u32, preemption_fence: u64) {
        let (engine, last_completed_fence) = (0, 0);
        self.raise(Interrupt::DmaPreempted {
            node,
            engine,
            preemption_fence,
            last_completed_fence,
        });
    }

    /// An engine of node 0 reports that a queue makes no progress.
    pub fn hung(&mut self, queue: HwQueueId, fault: Fault) {
        let new_state = EngineState::Hung { queue, fault };
        self.raise(Interrupt::GpuEngineStateChange { node: 0, new_state });
    }

    pub fn interrupt(&mut self) {
        self.input(Input::Interrupt);
    }

    /// All engines pass all tickets.
    pub fn pass_tickets(&mut self) {
        self.model.pass_tickets();
        self.interrupt();
    }

    /// Sends a request.
    pub fn send(&mut self, guest: GuestId, request: Vec<u8>) -> RequestToken {
        self.send_with_room(guest, request, MAX_REPLY_SIZE)
    }

    /// Sends a request with at most `room` bytes for its reply.
    pub fn send_with_room(
        &mut self,
        guest: GuestId,
        request: Vec<u8>,
        room: usize,
    ) -> RequestToken {
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        self.input(Input::Request { guest, token, request, room });
        token
    }

    /// The reply to a request, if it came.
    pub fn reply(&self, guest: GuestId, token: RequestToken) -> Option<(ReplyHeader, &[u8])> {
        let reply = self.replies.get(&(guest, token))?;
        let (header, body) = ReplyHeader::read_from_prefix(reply).unwrap();
        assert_eq!(header.length as usize, reply.len());
        Some((header, body))
    }

    /// Sends bytes that are answered immediately. Returns the reply's status and detail.
    pub fn raw(&mut self, guest: GuestId, request: Vec<u8>) -> Refused {
        let token = self.send(guest, request);
        let (header, _) = self.reply(guest, token).expect("an answer at once");
        (header.status, header.detail)
    }

    /// A request's reply.
    pub fn decode<T: Request>(
        &self,
        guest: GuestId,
        token: RequestToken,
    ) -> Result<T::Reply, Refused> {
        let (header, body) = self.reply(guest, token).expect("an answer at once");
        if header.status != Status::SUCCESS {
            assert!(body.is_empty());
            return Err((header.status, header.detail));
        }
        assert_eq!(header.detail, 0);
        Ok(T::Reply::read_from_bytes(body).unwrap())
    }

    /// Sends a request that is answered immediately.
    pub fn ask<T: Request>(
        &mut self,
        guest: GuestId,
        process: u32,
        request: &T,
    ) -> Result<T::Reply, Refused> {
        let token = self.send(guest, bytes(process, request));
        self.decode::<T>(guest, token)
    }

    /// Sends a client's request that is answered immediately.
    pub fn call<T: Request>(&mut self, client: Client, request: &T) -> Result<T::Reply, Refused> {
        self.ask(client.guest, client.process, request)
    }

    /// Sends a client's request.
    pub fn begin<T: Request>(&mut self, client: Client, request: &T) -> RequestToken {
        self.send(client.guest, bytes(client.process, request))
    }

    /// The status of a request, if it is answered.
    pub fn outcome(&self, client: Client, token: RequestToken) -> Option<Status> {
        self.reply(client.guest, token).map(|(header, _)| header.status)
    }

    pub fn attach(&mut self, guest: u64) -> GuestId {
        self.attach_to(AdapterId(0), guest, RESOURCES)
    }

    pub fn attach_to(
        &mut self,
        adapter: AdapterId,
        guest: u64,
        resources: GuestResources,
    ) -> GuestId {
        let guest = GuestId(guest);
        self.homes.insert(guest, adapter);
        self.input_on(adapter, Input::Attach { guest, resources });
        guest
    }

    /// The GPU that a guest is attached to.
    pub fn model_of(&self, guest: GuestId) -> &Model {
        &self.models[self.homes.get(&guest).map_or(0, |adapter| adapter.0 as usize)]
    }

    /// A page of a list of the first adapter, or of a guest.
    pub fn list(&self, wanted: ListObjects, room: usize) -> Result<ObjectPage, ListError> {
        self.kernel.list(AdapterId(0), wanted, room)
    }

    pub fn open(&mut self, guest: GuestId) -> Result<AdapterInfo, Refused> {
        self.open_with(guest, FEATURES)
    }

    pub fn open_with(
        &mut self,
        guest: GuestId,
        features: Features,
    ) -> Result<AdapterInfo, Refused> {
        let features = features.bits();
        self.ask(guest, 0, &OpenAdapter { version: Version::CURRENT, reserved: 0, features })
    }

    /// A guest with an open adapter.
    pub fn guest(&mut self, guest: u64) -> GuestId {
        let guest = self.attach(guest);
        self.open(guest).unwrap();
        guest
    }

    pub fn process(&mut self, guest: GuestId) -> u32 {
        self.ask(guest, 0, &CreateProcess { reserved: 0 }).unwrap().process
    }

    /// A process with a device, a context and a queue for user-mode submission.
    pub fn client(&mut self, guest: GuestId) -> Client {
        self.client_with(guest, USER_MODE)
    }

    /// A process with a device, a context and a queue with these flags.
    pub fn client_with(&mut self, guest: GuestId, flags: HwQueueFlags) -> Client {
        let process = self.process(guest);
        self.client_in(guest, process, flags)
    }

    /// A device, a context and a queue with these flags, in a process.
    pub fn client_in(&mut self, guest: GuestId, process: u32, flags: HwQueueFlags) -> Client {
        let device = self.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap();
        let request = CreateContext { device, node: 0, engine_affinity: 0 };
        let context = self.ask(guest, process, &request).unwrap();
        self.queue_of(guest, process, device, context, flags)
    }

    /// A queue in a new context on the client's device.
    pub fn queue_in_another_context(&mut self, client: Client, flags: HwQueueFlags) -> Client {
        let request = CreateContext { device: client.device, node: 0, engine_affinity: 0 };
        let context = self.call(client, &request).unwrap();
        self.queue(Client { context, ..client }, flags)
    }

    /// Another queue in the client's context.
    pub fn queue(&mut self, client: Client, flags: HwQueueFlags) -> Client {
        self.queue_of(client.guest, client.process, client.device, client.context, flags)
    }

    fn queue_of(
        &mut self,
        guest: GuestId,
        process: u32,
        device: Handle,
        context: Handle,
        flags: HwQueueFlags,
    ) -> Client {
        let request = CreateHwQueue { context, flags: flags.bits(), reserved: 0 };
        let CreateHwQueueReply { hw_queue, progress_fence, .. } =
            self.ask(guest, process, &request).unwrap();
        let id = *self.model_of(guest).state().queues.last_key_value().unwrap().0;
        Client {
            guest,
            process,
            device,
            context,
            queue: hw_queue,
            id,
            fence: progress_fence.fence,
            fence_slot: progress_fence.slot,
        }
    }

    pub fn local(&mut self, client: Client, size: u64) -> Result<CreateAllocationReply, Refused> {
        let (device, kind) = (client.device, AllocationKind::LOCAL);
        self.call(client, &CreateAllocation::fixed(device, kind, size, 0))
    }

    pub fn system(
        &mut self,
        client: Client,
        size: u64,
        extents: &[Extent],
    ) -> Result<CreateAllocationReply, Refused> {
        let (kind, count) = (AllocationKind::SYSTEM, extents.len() as u32);
        let request = CreateAllocation::fixed(client.device, kind, size, count);
        let token = self.send(client.guest, bytes_with_list(client.process, &request, extents));
        self.decode::<CreateAllocation>(client.guest, token)
    }

    /// Makes allocations resident.
    pub fn make_resident(&mut self, client: Client, list: &[Handle]) -> Result<(), Refused> {
        let request = MakeResident { device: client.device, count: list.len() as u32, reserved: 0 };
        self.call_with_list(client, &request, list)
    }

    /// Begins to make allocations resident, without waiting for the reply.
    pub fn make_resident_later(&mut self, client: Client, list: &[Handle]) -> RequestToken {
        let request = MakeResident { device: client.device, count: list.len() as u32, reserved: 0 };
        self.send(client.guest, bytes_with_list(client.process, &request, list))
    }

    /// Evicts allocations.
    pub fn evict(&mut self, client: Client, list: &[Handle]) -> Result<(), Refused> {
        let request = Evict { device: client.device, count: list.len() as u32, reserved: 0 };
        self.call_with_list(client, &request, list)
    }

    /// Waits for a fence.
    pub fn wait(&mut self, client: Client, fence: Handle, value: u64, cookie: u64) -> RequestToken {
        self.wait_for(client, WaitFlags::empty(), &[(fence, value)], cookie)
    }

    /// Waits for several fences, or for any of them.
    pub fn wait_for(
        &mut self,
        client: Client,
        flags: WaitFlags,
        fences: &[(Handle, u64)],
        cookie: u64,
    ) -> RequestToken {
        let list = fence_values(fences);
        let request = WaitForFences { cookie, flags: flags.bits(), count: list.len() as u32 };
        self.send(client.guest, bytes_with_list(client.process, &request, &list))
    }

    /// Signals fences from the CPU.
    pub fn signal(&mut self, client: Client, fences: &[(Handle, u64)]) -> Result<(), Refused> {
        let list = fence_values(fences);
        let request = SignalFences { count: list.len() as u32, reserved: 0 };
        self.call_with_list(client, &request, &list)
    }

    /// Sends a client's request with a list that is answered immediately.
    pub fn call_with_list<T: Request, E: IntoBytes + zerocopy::Immutable>(
        &mut self,
        client: Client,
        request: &T,
        list: &[E],
    ) -> Result<T::Reply, Refused> {
        let token = self.send(client.guest, bytes_with_list(client.process, request, list));
        self.decode::<T>(client.guest, token)
    }

    /// A page of memory for SPIR-V. Returns its address.
    pub fn spirv(&mut self, client: Client) -> u64 {
        let allocation = self.local(client, 4096).unwrap().allocation;
        self.call(client, &map(allocation, 0, 4096)).unwrap().gpu_va
    }

    /// Begins to create a kernel of SPIR-V at this address.
    pub fn begin_kernel(&mut self, client: Client, spirv: u64) -> RequestToken {
        self.begin(client, &create_kernel(client, spirv))
    }

    /// What came of creating a kernel, if that is known.
    pub fn kernel_reply(
        &self,
        client: Client,
        token: RequestToken,
    ) -> Option<Result<KernelCreated, Refused>> {
        self.reply(client.guest, token)?;
        Some(self.decode::<CreateKernel>(client.guest, token))
    }

    /// A compiled kernel of SPIR-V at this address.
    pub fn kernel(&mut self, client: Client, spirv: u64) -> KernelCreated {
        let token = self.begin_kernel(client, spirv);
        let kernel = *self.model.compiling().last().expect("a kernel to compile");
        self.model.end_compiling(kernel, KernelOutcome::Compiled);
        self.interrupt();
        self.kernel_reply(client, token).expect("an answer").unwrap()
    }

    /// A ring: ring buffer and ring buffer control.
    pub fn ring(&mut self, client: Client) -> (Handle, Handle) {
        let ring = self.local(client, 2 * 4096).unwrap().allocation;
        (ring, self.local(client, 4096).unwrap().allocation)
    }

    pub fn doorbell_on(
        &mut self,
        client: Client,
        (ring_buffer, ring_control): (Handle, Handle),
    ) -> Result<CreateDoorbellReply, Refused> {
        self.call(client, &CreateDoorbell::new(client.queue, ring_buffer, ring_control))
    }

    /// A doorbell with a ring of its own.
    pub fn doorbell(&mut self, client: Client) -> Handle {
        let ring = self.ring(client);
        self.doorbell_on(client, ring).unwrap().doorbell
    }

    pub fn connect(&mut self, client: Client) -> Result<ConnectDoorbellReply, Refused> {
        self.call(client, &ConnectDoorbell { hw_queue: client.queue })
    }

    /// A client with a connected doorbell.
    pub fn connected(&mut self, guest: GuestId) -> (Client, Handle) {
        let client = self.client(guest);
        let doorbell = self.doorbell(client);
        self.connect(client).unwrap();
        (client, doorbell)
    }
}
