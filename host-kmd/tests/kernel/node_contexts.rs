//! Contexts that submit to their node, in each of the three models.

use crate::bench::{Bench, Client, Refused, TIMEOUT, bytes_with_list};
use crate::model::Call;
use bellhop_host_kmd::ddi::dma_buffer::{DMA_BUFFERS_SIZE, DMA_BUFFERS_START};
use bellhop_host_kmd::ddi::paging::APERTURE_START;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{Fault, Interrupt, KernelSubmission, PhysicalPage, Pte, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{DestroyAllocation, NOT_IN_BAR};
use bellhop_protocol::control::context::{
    CreateContext, DestroyContext, ResumeContext, SuspendContext,
};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::doorbell::CreateDoorbell;
use bellhop_protocol::control::fence::DestroyNativeFence;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue, SubmitCommand};
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, ALLOCATION_WRITE, AllocationListEntry, CreateNodeContext,
    CreateNodeContextReply, PATCH_LOCATION_LIST_MAX, PatchLocation, RENDER_COMMANDS_MAX, Render,
    SubmissionModel, SubmissionReply, SubmitCommandVirtual, VIRTUAL_COMMAND_BUFFER_SIZE,
};
use bellhop_protocol::doorbell::DoorbellPrivateData;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::flow::{IndirectBuffer, NOP};
use bellhop_protocol::packet::transfer::{Copy, Fill};
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, IntoBytes};

const MODELS: [SubmissionModel; 3] =
    [SubmissionModel::BASIC, SubmissionModel::BASIC_PLUS_PLUS, SubmissionModel::VIRTUAL];

/// A node context, and what the GPU knows it by.
pub struct Node {
    pub client: Client,
    pub reply: CreateNodeContextReply,
}

impl Node {
    pub fn new(bench: &mut Bench, client: Client, model: SubmissionModel) -> Self {
        let request = CreateNodeContext { device: client.device, node: 0, model };
        let reply = bench.call(client, &request).unwrap();
        let id = *bench.model.state().queues.last_key_value().unwrap().0;
        Self { client: Client { id, context: reply.context, ..client }, reply }
    }

    fn render(
        &self,
        bench: &mut Bench,
        commands: &[u8],
        list: &[AllocationListEntry],
        patches: &[PatchLocation],
    ) -> Result<SubmissionReply, Refused> {
        let request = Render {
            context: self.reply.context,
            dma_buffer: 0,
            dma_buffer_size: 0,
            command_length: commands.len() as u32,
            allocation_count: list.len() as u32,
            patch_location_count: patches.len() as u32,
        };
        let lists = [commands, list.as_bytes(), patches.as_bytes()].concat();
        render(bench, self.client, &request, &lists)
    }

    fn submit_udma(
        &self,
        bench: &mut Bench,
        list: &[AllocationListEntry],
    ) -> Result<SubmissionReply, Refused> {
        render(bench, self.client, &udma(self.reply.context, list), list.as_bytes())
    }

    fn submit_virtual(&self, bench: &mut Bench) -> Result<SubmissionReply, Refused> {
        let gpu_va = self.reply.command_buffer_gpu_va;
        let context = self.reply.context;
        bench.call(self.client, &SubmitCommandVirtual { context, gpu_va, size: 8, reserved: 0 })
    }

    /// Some submission that its model takes.
    fn submit(&self, bench: &mut Bench) -> Result<SubmissionReply, Refused> {
        match self.reply {
            CreateNodeContextReply { patch_location_list_size: 1.., .. } => {
                self.render(bench, NOP.as_bytes(), &[], &[])
            }
            CreateNodeContextReply { allocation_list_size: 1.., .. } => {
                self.submit_udma(bench, &[])
            }
            _ => self.submit_virtual(bench),
        }
    }

    fn destroy(&self, bench: &mut Bench) {
        bench.begin(self.client, &DestroyContext { context: self.reply.context });
        bench.later(TIMEOUT);
        // Engines have left it.
        bench.interrupt();
    }
}

fn udma(context: Handle, list: &[AllocationListEntry]) -> Render {
    Render {
        context,
        dma_buffer: 0x10_0008,
        dma_buffer_size: 24,
        command_length: 0,
        allocation_count: list.len() as u32,
        patch_location_count: 0,
    }
}

fn render(
    bench: &mut Bench,
    client: Client,
    request: &Render,
    lists: &[u8],
) -> Result<SubmissionReply, Refused> {
    let token = bench.send(client.guest, bytes_with_list(client.process, request, lists));
    let (header, body) = bench.reply(client.guest, token).expect("an answer at once");
    match header.status {
        Status::SUCCESS => Ok(SubmissionReply::read_from_bytes(body).unwrap()),
        status => Err((status, header.detail)),
    }
}

fn new() -> (Bench, Client) {
    with_limits(Limits::default())
}

fn with_limits(limits: Limits) -> (Bench, Client) {
    let mut bench = Bench::with_limits(2, limits);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    (bench, client)
}

fn entry(allocation: Handle, flags: u32) -> AllocationListEntry {
    AllocationListEntry { allocation, flags, reserved: 0 }
}

fn at(patch_offset: u32, allocation_index: u32, allocation_offset: u64) -> PatchLocation {
    PatchLocation { allocation_index, patch_offset, allocation_offset }
}

fn completed(bench: &mut Bench, fence: u64) {
    bench.raise(Interrupt::DmaCompleted { node: 0, engine: 0, fence });
}

fn submitted(bench: &Bench) -> Vec<KernelSubmission> {
    let log = bench.model.take_log().into_iter();
    log.filter_map(|call| match call {
        Call::Submit(_, submission) => Some(submission),
        _ => None,
    })
    .collect()
}

#[test]
fn a_basic_command_buffer_is_copied_patched_and_executed_where_no_guest_can_reach() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    assert_eq!(node.reply.command_buffer_size, RENDER_COMMANDS_MAX);
    assert_eq!(node.reply.allocation_list_size, ALLOCATION_LIST_MAX);
    assert_eq!(node.reply.patch_location_list_size, PATCH_LOCATION_LIST_MAX);
    assert_eq!(node.reply.command_buffer_offset, NOT_IN_BAR);
    let first = bench.local(client, 2 * PAGE_SIZE).unwrap().allocation;
    let second = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let list = [entry(first, 0), entry(second, ALLOCATION_WRITE)];
    let commands = Copy::new(u64::MAX, u64::MAX, 64);
    let patches = [at(8, 0, 4096), at(16, 1, 8)];
    bench.model.take_log();
    let reply = node.render(&mut bench, commands.as_bytes(), &list, &patches).unwrap();
    assert_eq!(reply, SubmissionReply { submission_fence: 1, progress_fence_value: 1 });
    let patched = Copy::new(APERTURE_START + 4096, APERTURE_START + 8192 + 8, 64);
    let submission = KernelSubmission {
        gpu_va: DMA_BUFFERS_START,
        size: 32,
        progress_fence_value: 1,
        submission_fence: 1,
    };
    assert_eq!(
        bench.model.take_log(),
        [
            Call::WriteDmaBuffer(client.guest, 0, patched.as_bytes().to_vec()),
            Call::Submit(node.client.id, submission),
            Call::Kick(node.client.id),
        ]
    );
    // In the system context, with the fences of its process; and no process maps the aperture.
    let state = bench.model.state();
    let description = state.queues[&node.client.id];
    let process = state.queues[&client.id].address_space;
    assert_ne!(description.address_space, process);
    assert_eq!(description.process, process);
    let page = |address| Pte::new(PhysicalPage { segment: Segment::Local, address }, true);
    for (at, address) in [(0, 0), (4096, 4096), (8192, 8192)] {
        let mapped = state.mapped(description.address_space, APERTURE_START + at);
        assert_eq!(mapped, Some(page(address)));
        assert_eq!(state.mapped(process, APERTURE_START + at), None);
    }
}

#[test]
fn an_allocation_keeps_its_physical_address_until_it_is_evicted() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    let allocation = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let list = [entry(allocation, ALLOCATION_WRITE), entry(allocation, ALLOCATION_WRITE)];
    let commands = Fill::new(0, 8, 0);
    let submit = |bench: &mut Bench| {
        let reply = node.render(bench, commands.as_bytes(), &list, &[at(8, 1, 0)]);
        reply.unwrap().submission_fence
    };
    submit(&mut bench);
    bench.model.take_log();
    let fence = submit(&mut bench);
    let log = bench.model.take_log();
    assert!(matches!(log[..], [Call::WriteDmaBuffer(_, 4096, _), Call::Submit(..), Call::Kick(_)]));
    let busy = (Status::GRAPHICS_ALLOCATION_BUSY, allocation.0);
    assert_eq!(bench.evict(client, &[allocation]).unwrap_err(), busy);
    assert_eq!(bench.call(client, &DestroyAllocation { allocation }).unwrap_err(), busy);
    completed(&mut bench, fence);
    bench.evict(client, &[allocation]).unwrap();
    assert!(bench.model.take_log().contains(&Call::Invalidate(APERTURE_START)));
    // Listing it makes it resident again, and a DMA buffer's place is used again.
    let fence = submit(&mut bench);
    let log = bench.model.take_log();
    assert!(matches!(log[0], Call::WriteDmaBuffer(_, 0, _)));
    completed(&mut bench, fence);
    bench.call(client, &DestroyAllocation { allocation }).unwrap();
}

#[test]
fn a_user_mode_dma_buffer_is_submitted_where_it_is_and_its_list_is_made_resident() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC_PLUS_PLUS);
    assert_eq!(node.reply.patch_location_list_size, 0);
    let allocation = bench.local(client, PAGE_SIZE).unwrap().allocation;
    bench.evict(client, &[allocation]).unwrap();
    bench.model.take_log();
    let list = [entry(allocation, 0)];
    node.submit_udma(&mut bench, &list).unwrap();
    let submission = KernelSubmission {
        gpu_va: 0x10_0008,
        size: 24,
        progress_fence_value: 1,
        submission_fence: 1,
    };
    assert_eq!(submitted(&bench), [submission]);
    let state = bench.model.state();
    let [own, first] = [node.client.id, client.id].map(|id| state.queues[&id].address_space);
    assert_eq!(own, first);
    drop(state);
    let busy = (Status::GRAPHICS_ALLOCATION_BUSY, allocation.0);
    assert_eq!(bench.evict(client, &[allocation]).unwrap_err(), busy);
    completed(&mut bench, 1);
    bench.evict(client, &[allocation]).unwrap();
}

#[test]
fn the_virtual_model_submits_parts_of_the_buffer_that_it_was_supplied_with() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::VIRTUAL);
    let CreateNodeContextReply { context, command_buffer_gpu_va: start, .. } = node.reply;
    assert_eq!(node.reply.command_buffer_size, VIRTUAL_COMMAND_BUFFER_SIZE);
    assert_ne!(node.reply.command_buffer_offset, NOT_IN_BAR);
    let size = VIRTUAL_COMMAND_BUFFER_SIZE;
    {
        let state = bench.model.state();
        let space = state.queues[&node.client.id].address_space;
        let first = state.mapped(space, start).unwrap();
        assert!(!first.is_writable());
        assert!(state.mapped(space, start + u64::from(size) - PAGE_SIZE).is_some());
    }
    let mut submit = |gpu_va, size| {
        bench.call(node.client, &SubmitCommandVirtual { context, gpu_va, size, reserved: 0 })
    };
    assert_eq!(submit(start, size).unwrap().progress_fence_value, 1);
    assert_eq!(submit(start + u64::from(size) - 8, 8).unwrap().progress_fence_value, 2);
    for (gpu_va, size) in [
        (start - 8, 8),
        (start - 8, 16),
        (start + u64::from(size), 8),
        (start + 8, size),
        (start + 4, 8),
        (start, 0),
        (start, 12),
        (u64::MAX - 7, 8),
        (0, 8),
    ] {
        assert_eq!(submit(gpu_va, size).unwrap_err().0, Status::INVALID_PARAMETER);
    }
    let request = SubmitCommandVirtual { context, gpu_va: start, size: 8, reserved: 1 };
    assert_eq!(bench.call(node.client, &request).unwrap_err().0, Status::INVALID_PARAMETER);
    // It goes with its context, local memory included.
    node.destroy(&mut bench);
    bench.local(client, 64 * PAGE_SIZE).unwrap();
}

#[test]
fn each_kind_of_context_refuses_what_is_anothers() {
    let (mut bench, client) = new();
    let not_supported = Status::NOT_SUPPORTED;
    let [basic, plus, wddm2] = MODELS.map(|model| Node::new(&mut bench, client, model));
    for node in [&basic, &plus, &wddm2] {
        for flags in [0, 1] {
            let request = CreateHwQueue { context: node.reply.context, flags, reserved: 0 };
            assert_eq!(bench.call(client, &request).unwrap_err().0, not_supported);
        }
    }
    let refused = (not_supported, 0);
    // A context for HW queues takes none of it.
    let queues =
        Node { client, reply: CreateNodeContextReply { context: client.context, ..basic.reply } };
    assert_eq!(queues.render(&mut bench, NOP.as_bytes(), &[], &[]).unwrap_err(), refused);
    assert_eq!(queues.submit_udma(&mut bench, &[]).unwrap_err(), refused);
    assert_eq!(queues.submit_virtual(&mut bench).unwrap_err(), refused);
    // Nor does one model take what is another's.
    assert_eq!(wddm2.render(&mut bench, NOP.as_bytes(), &[], &[]).unwrap_err(), refused);
    assert_eq!(wddm2.submit_udma(&mut bench, &[]).unwrap_err(), refused);
    for node in [&basic, &plus] {
        let buffer = wddm2.reply.command_buffer_gpu_va;
        let reply = CreateNodeContextReply { command_buffer_gpu_va: buffer, ..node.reply };
        let node = Node { client, reply };
        assert_eq!(node.submit_virtual(&mut bench).unwrap_err(), refused);
    }
    let parameter = Status::INVALID_PARAMETER;
    let nop = NOP.as_bytes();
    assert_eq!(plus.render(&mut bench, nop, &[], &[]).unwrap_err(), (parameter, 8));
    let udma = basic.submit_udma(&mut bench, &[]).unwrap_err();
    assert_eq!(udma, (parameter, 0x10_0008));
    assert_eq!(basic.render(&mut bench, &[], &[], &[]).unwrap_err().0, parameter);
    let unknown = CreateNodeContext { device: client.device, node: 0, model: SubmissionModel(4) };
    assert_eq!(bench.call(client, &unknown).unwrap_err(), (parameter, 4));
    let elsewhere = CreateNodeContext { device: client.device, node: 9, model: MODELS[0] };
    assert_eq!(bench.call(client, &elsewhere).unwrap_err().0, parameter);
    assert_eq!(submitted(&bench), []);
}

#[test]
fn no_guest_can_name_the_queue_or_end_the_fence_of_a_node_context() {
    let (mut bench, client) = new();
    let last = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let node = Node::new(&mut bench, client, SubmissionModel::VIRTUAL);
    // Handles are dense: every value near those that were given out.
    let given = [last, node.reply.context, node.reply.progress_fence, client.queue];
    let range = 0..64;
    let candidates = given.iter().flat_map(|handle| range.clone().map(|bit| handle.0 ^ bit));
    for handle in candidates.map(Handle).collect::<Vec<_>>() {
        if handle == client.queue {
            continue;
        }
        let hw_queue = handle;
        let request =
            SubmitCommand { hw_queue, gpu_va: 8, progress_fence_value: 1, size: 8, reserved: 0 };
        assert!(bench.call(client, &request).is_err());
        assert!(bench.call(client, &DestroyHwQueue { hw_queue }).is_err());
        let (ring_buffer, ring_control) = (last, last);
        let private_data = DoorbellPrivateData::default();
        let request =
            CreateDoorbell { hw_queue, ring_buffer, ring_control, flags: 0, private_data };
        assert!(bench.call(client, &request).is_err());
        if handle != last {
            let allocation = handle;
            assert!(bench.evict(client, &[allocation]).is_err());
            assert!(bench.call(client, &DestroyAllocation { allocation }).is_err());
        }
    }
    let fence = node.reply.progress_fence;
    let busy = (Status::DEVICE_BUSY, fence.0);
    assert_eq!(bench.call(client, &DestroyNativeFence { fence }).unwrap_err(), busy);
    node.submit_virtual(&mut bench).unwrap();
}

#[test]
fn lists_are_checked_before_anything_is_done() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    let plus = Node::new(&mut bench, client, SubmissionModel::BASIC_PLUS_PLUS);
    let other = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    let foreign = bench.local(Client { device: other, ..client }, PAGE_SIZE).unwrap().allocation;
    let own = bench.local(client, PAGE_SIZE).unwrap().allocation;
    bench.model.take_log();
    let parameter = Status::INVALID_PARAMETER;
    for (list, expected) in [
        (entry(foreign, 0), (parameter, foreign.0)),
        (entry(own, 2), (parameter, 2)),
        (entry(own, u32::MAX), (parameter, u64::from(u32::MAX - 1))),
        (AllocationListEntry { reserved: 7, ..entry(own, 0) }, (parameter, 7)),
        (entry(Handle(0), 0), (Status::INVALID_HANDLE, 0)),
        (entry(client.device, 0), (Status::OBJECT_TYPE_MISMATCH, client.device.0)),
    ] {
        // Behind a good one, which must not be held afterwards.
        let list = [entry(own, 0), list];
        assert_eq!(node.render(&mut bench, NOP.as_bytes(), &list, &[]).unwrap_err(), expected);
        assert_eq!(plus.submit_udma(&mut bench, &list).unwrap_err(), expected);
    }
    let nop = NOP.as_bytes();
    let fill = Fill::new(0, 8, 0);
    let list = [entry(own, 0)];
    for (commands, patches, expected) in [
        (nop, vec![at(0, 0, 0)], (parameter, 0)),
        (fill.as_bytes(), vec![], (Status::PRIVILEGED_INSTRUCTION, 0)),
        (fill.as_bytes(), vec![at(8, 0, 0)], (Status::PRIVILEGED_INSTRUCTION, 0)),
        (fill.as_bytes(), vec![at(8, 1, 0)], (parameter, 0)),
        (fill.as_bytes(), vec![at(8, 0, u64::MAX)], (parameter, 0)),
        (IndirectBuffer::new(8, 8).as_bytes(), vec![], (Status::ILLEGAL_INSTRUCTION, 0)),
        (&fill.as_bytes()[..16], vec![at(8, 0, 0)], (Status::INVALID_USER_BUFFER, 0)),
    ] {
        assert_eq!(node.render(&mut bench, commands, &list, &patches).unwrap_err(), expected);
    }
    assert_eq!(bench.model.take_log(), []);
    bench.call(client, &DestroyAllocation { allocation: own }).unwrap();
}

#[test]
fn a_request_is_as_long_as_its_counts_say_and_they_are_bounded() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    let good = Render {
        context: node.reply.context,
        dma_buffer: 0,
        dma_buffer_size: 0,
        command_length: 8,
        allocation_count: 0,
        patch_location_count: 0,
    };
    let mut try_one = |request: Render, length: usize| {
        render(&mut bench, client, &request, &vec![0; length]).unwrap_err().0
    };
    let size = Status::INVALID_BUFFER_SIZE;
    for length in [0, 7, 9, 16] {
        assert_eq!(try_one(good, length), size);
    }
    assert_eq!(try_one(Render { allocation_count: 1, ..good }, 8), size);
    assert_eq!(try_one(Render { patch_location_count: 1, ..good }, 8 + 15), size);
    for request in [
        Render { command_length: RENDER_COMMANDS_MAX + 8, ..good },
        Render { command_length: u32::MAX, ..good },
        Render { allocation_count: ALLOCATION_LIST_MAX + 1, ..good },
        Render { allocation_count: u32::MAX, ..good },
        Render { patch_location_count: PATCH_LOCATION_LIST_MAX + 1, ..good },
        Render { patch_location_count: u32::MAX, ..good },
    ] {
        assert_eq!(try_one(request, 8), Status::INVALID_PARAMETER);
    }
    // The largest of all fits into a request.
    let list = vec![entry(Handle(0), 0); ALLOCATION_LIST_MAX as usize];
    let patches = vec![at(0, 0, 0); PATCH_LOCATION_LIST_MAX as usize];
    let commands = vec![0; RENDER_COMMANDS_MAX as usize];
    let refused = node.render(&mut bench, &commands, &list, &patches).unwrap_err();
    assert_eq!(refused.0, Status::INVALID_HANDLE);
}

#[test]
fn dma_buffers_come_from_a_bounded_pool_and_go_back_when_they_are_done() {
    let (mut bench, client) = new();
    bench.model.state().submission_room = usize::MAX;
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    let commands = NOP.as_bytes().repeat(RENDER_COMMANDS_MAX as usize / 8);
    let most = DMA_BUFFERS_SIZE / u64::from(RENDER_COMMANDS_MAX);
    for _ in 0..most {
        node.render(&mut bench, &commands, &[], &[]).unwrap();
    }
    let full = (Status::INSUFFICIENT_RESOURCES, 0);
    assert_eq!(node.render(&mut bench, NOP.as_bytes(), &[], &[]).unwrap_err(), full);
    // Even when only the GPU knows yet that one is done.
    bench.model.state().completed.insert(node.client.id, 1);
    node.render(&mut bench, &commands, &[], &[]).unwrap();
    assert_eq!(node.render(&mut bench, &commands, &[], &[]).unwrap_err(), full);
    completed(&mut bench, 3);
    node.render(&mut bench, &commands, &[], &[]).unwrap();
    node.render(&mut bench, &commands, &[], &[]).unwrap();
    assert_eq!(node.render(&mut bench, &commands, &[], &[]).unwrap_err(), full);
    // Another guest has its own.
    let guest = bench.guest(2);
    let other = bench.client(guest);
    let other = Node::new(&mut bench, other, SubmissionModel::BASIC);
    other.render(&mut bench, &commands, &[], &[]).unwrap();
    // A context that goes takes its submissions with it.
    node.destroy(&mut bench);
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    node.render(&mut bench, &commands, &[], &[]).unwrap();
}

#[test]
fn what_the_gpu_refuses_holds_nothing() {
    for model in MODELS {
        let limits = Limits { submissions: 1, listed_allocations: 2, ..Limits::default() };
        let (mut bench, client) = with_limits(limits);
        let node = Node::new(&mut bench, client, model);
        bench.model.state().submission_room = 0;
        let full = (Status::INSUFFICIENT_RESOURCES, 0);
        for _ in 0..3 {
            assert_eq!(node.submit(&mut bench).unwrap_err(), full);
        }
        bench.model.state().submission_room = 1;
        let reply = node.submit(&mut bench).unwrap();
        assert_eq!(reply.progress_fence_value, 1);
        let refused = (Status::QUOTA_EXCEEDED, 1);
        assert_eq!(node.submit(&mut bench).unwrap_err(), refused);
    }
}

#[test]
fn entries_of_allocation_lists_are_bounded() {
    let limits = Limits { listed_allocations: 3, ..Limits::default() };
    let (mut bench, client) = with_limits(limits);
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC_PLUS_PLUS);
    let allocation = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let list = [entry(allocation, 0); 2];
    node.submit_udma(&mut bench, &list).unwrap();
    let refused = (Status::QUOTA_EXCEEDED, 3);
    assert_eq!(node.submit_udma(&mut bench, &list).unwrap_err(), refused);
    node.submit_udma(&mut bench, &list[..1]).unwrap();
    completed(&mut bench, 2);
    node.submit_udma(&mut bench, &list).unwrap();
}

#[test]
fn the_aperture_is_bounded_and_what_is_not_in_use_makes_room() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    let pages = crate::bench::SEGMENTS.aperture / PAGE_SIZE;
    let extent = bellhop_protocol::control::allocation::Extent { address: 0, length: PAGE_SIZE };
    let all = vec![extent; pages as usize];
    let whole = bench.system(client, pages * PAGE_SIZE, &all).unwrap().allocation;
    let small = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let submit = |bench: &mut Bench, allocation| {
        node.render(bench, NOP.as_bytes(), &[entry(allocation, 0)], &[])
    };
    let fence = submit(&mut bench, whole).unwrap().submission_fence;
    let full = (Status::INSUFFICIENT_RESOURCES, 0);
    assert_eq!(submit(&mut bench, small).unwrap_err(), full);
    // Nothing makes room while it is in use.
    assert_eq!(submit(&mut bench, small).unwrap_err(), full);
    completed(&mut bench, fence);
    bench.model.state().prompt = false;
    assert_eq!(submit(&mut bench, small).unwrap_err(), full);
    // Engines may know it yet.
    assert_eq!(submit(&mut bench, small).unwrap_err(), full);
    bench.pass_tickets();
    let fence = submit(&mut bench, small).unwrap().submission_fence;
    bench.model.state().prompt = true;
    completed(&mut bench, fence);
    // Evicting one's own does the same.
    bench.evict(client, &[small]).unwrap();
    submit(&mut bench, whole).unwrap();
}

#[test]
fn a_fault_is_told_with_the_context_and_frees_what_its_submissions_held() {
    for model in MODELS {
        let limits = Limits { submissions: 1, ..Limits::default() };
        let (mut bench, client) = with_limits(limits);
        let node = Node::new(&mut bench, client, model);
        let allocation = bench.local(client, PAGE_SIZE).unwrap().allocation;
        match model {
            SubmissionModel::BASIC => {
                let list = [entry(allocation, ALLOCATION_WRITE)];
                let fill = Fill::new(0, 8, 0);
                node.render(&mut bench, fill.as_bytes(), &list, &[at(8, 0, 0)]).unwrap();
            }
            SubmissionModel::BASIC_PLUS_PLUS => {
                node.submit_udma(&mut bench, &[entry(allocation, 0)]).unwrap();
            }
            _ => {
                node.submit_virtual(&mut bench).unwrap();
            }
        }
        let fault = Fault {
            reason: FaultReason::READ_PAGE_FAULT,
            opcode: Opcode::COPY,
            address: 0x1234,
            read_pointer: 0,
        };
        bench.raise(Interrupt::PageFault { queue: node.client.id, fault });
        let (_, event) = *bench.events.last().unwrap();
        let context = node.reply.context.0;
        assert_eq!((event.object, event.context, event.value), (context, context, 0x1234));
        let lost = (Status::DEVICE_REMOVED, context);
        assert_eq!(node.submit(&mut bench).unwrap_err(), lost);
        bench.call(client, &DestroyAllocation { allocation }).unwrap();
        let next = Node::new(&mut bench, client, model);
        next.submit(&mut bench).unwrap();
    }
}

#[test]
fn a_node_context_is_suspended_resumed_and_drained_as_any_other() {
    for model in MODELS {
        let (mut bench, client) = new();
        let node = Node::new(&mut bench, client, model);
        let context = node.reply.context;
        bench.call(client, &SuspendContext { context }).unwrap();
        assert!(bench.model.state().suspended.contains(&node.client.id));
        bench.call(client, &ResumeContext { context }).unwrap();
        node.submit(&mut bench).unwrap();
        node.submit(&mut bench).unwrap();
        let token = bench.begin(client, &DestroyContext { context });
        assert_eq!(bench.outcome(client, token), None);
        let lost = (Status::DEVICE_REMOVED, context.0);
        assert_eq!(node.submit(&mut bench).unwrap_err(), lost);
        bench.model.signal(client.guest, node.reply.progress_fence_slot, 2);
        bench.interrupt();
        assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
        let invalid = (Status::INVALID_HANDLE, context.0);
        assert_eq!(node.submit(&mut bench).unwrap_err(), invalid);
    }
}

#[test]
fn a_device_a_process_and_a_guest_go_with_their_node_contexts() {
    for model in MODELS {
        for what in 0..3 {
            let (mut bench, client) = new();
            let node = Node::new(&mut bench, client, model);
            let allocation = bench.local(client, PAGE_SIZE).unwrap().allocation;
            match model {
                SubmissionModel::VIRTUAL => drop(node.submit(&mut bench).unwrap()),
                SubmissionModel::BASIC => {
                    let list = [entry(allocation, 0)];
                    node.render(&mut bench, NOP.as_bytes(), &list, &[]).unwrap();
                }
                _ => drop(node.submit_udma(&mut bench, &[entry(allocation, 0)]).unwrap()),
            }
            match what {
                0 => {
                    bench.begin(client, &DestroyDevice { device: client.device });
                    bench.later(TIMEOUT);
                    bench.interrupt();
                    assert_eq!(
                        bench.local(client, PAGE_SIZE).unwrap_err().0,
                        Status::INVALID_HANDLE
                    );
                }
                1 => {
                    let flags = bellhop_protocol::control::process::TERMINATED_ABNORMALLY;
                    let request = bellhop_protocol::control::process::DestroyProcess { flags };
                    bench.call(client, &request).unwrap();
                }
                _ => {}
            }
            bench.input(bellhop_host_kmd::port::Input::Detach { guest: client.guest });
            assert_eq!(bench.detached, [client.guest]);
            assert!(bench.model.is_empty());
        }
    }
}

#[test]
fn a_context_that_cannot_have_what_its_model_needs_leaves_nothing() {
    let (mut bench, client) = new();
    // All local memory is taken, then all fences.
    bench.local(client, 64 * PAGE_SIZE).unwrap();
    let request = |model| CreateNodeContext { device: client.device, node: 0, model };
    let refused = bench.call(client, &request(SubmissionModel::VIRTUAL)).unwrap_err();
    assert_eq!(refused.0, Status::GRAPHICS_NO_VIDEO_MEMORY);
    let mut count = 0;
    let error = loop {
        match bench.call(client, &request(SubmissionModel::BASIC)) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, (Status::QUOTA_EXCEEDED, u64::from(crate::bench::BAR.fence_count)));
    // One fence is the client's own queue's.
    assert_eq!(count, crate::bench::BAR.fence_count - 1);
    bench.input(bellhop_host_kmd::port::Input::Detach { guest: client.guest });
    assert!(bench.model.is_empty());
}

#[test]
fn a_context_of_a_device_in_error_or_without_a_device_is_refused() {
    let (mut bench, client) = new();
    let context = CreateContext { device: client.device, node: 0, reserved: 0 };
    bench.call(client, &context).unwrap();
    for device in [Handle(0), client.context] {
        for model in MODELS {
            assert!(bench.call(client, &CreateNodeContext { device, node: 0, model }).is_err());
        }
    }
    let allocation = bench.local(client, PAGE_SIZE).unwrap().allocation;
    bench.make_resident(client, &[allocation]).unwrap();
    let fail = bellhop_host_kmd::port::Command::FailGuest(client.guest);
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    node.submit(&mut bench).unwrap();
    assert_eq!(bench.command(fail), Some(Ok(())));
    assert_eq!(node.submit(&mut bench).unwrap_err().0, Status::DEVICE_REMOVED);
    for model in MODELS {
        let request = CreateNodeContext { device: client.device, node: 0, model };
        assert_eq!(bench.call(client, &request).unwrap_err().0, Status::DEVICE_REMOVED);
    }
}
