// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submissions that every model refuses, and those that only one model accepts.

use super::{MODELS, Node, at, entry, new, render, submitted};
use crate::bench::Client;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::DestroyAllocation;
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::doorbell::CreateDoorbell;
use bellhop_protocol::control::fence::DestroyNativeFence;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue, SubmitCommand};
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, AllocationListEntry, CreateNodeContext, CreateNodeContextReply,
    PATCH_LOCATION_LIST_MAX, RENDER_COMMANDS_MAX, Render, SubmissionModel,
};
use bellhop_protocol::doorbell::DoorbellPrivateData;
use bellhop_protocol::packet::flow::{IndirectBuffer, NOP};
use bellhop_protocol::packet::transfer::Fill;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

#[test]
fn each_kind_of_context_refuses_the_requests_of_the_others() {
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
    // A context for HW queues refuses these submissions.
    let queues =
        Node { client, reply: CreateNodeContextReply { context: client.context, ..basic.reply } };
    assert_eq!(queues.render(&mut bench, NOP.as_bytes(), &[], &[]).unwrap_err(), refused);
    assert_eq!(queues.submit_udma(&mut bench, &[]).unwrap_err(), refused);
    assert_eq!(queues.submit_virtual(&mut bench).unwrap_err(), refused);
    // Each model refuses the submissions of the others.
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
    // Handles are dense, so this tries every value near the existing ones.
    let given = [last, node.reply.context, node.reply.progress_fence.fence, client.queue];
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
    let fence = node.reply.progress_fence.fence;
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
        (entry(own, u32::MAX), (parameter, u64::from(u32::MAX))),
        (AllocationListEntry { reserved: 7, ..entry(own, 0) }, (parameter, 7)),
        (entry(Handle(0), 0), (Status::INVALID_HANDLE, 0)),
        (entry(client.device, 0), (Status::OBJECT_TYPE_MISMATCH, client.device.0)),
    ] {
        // The bad entry follows a good one, whose allocation must not stay in use after the refusal.
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
    // Lists and commands of the largest allowed sizes fit into one request.
    let list = vec![entry(Handle(0), 0); ALLOCATION_LIST_MAX as usize];
    let patches = vec![at(0, 0, 0); PATCH_LOCATION_LIST_MAX as usize];
    let commands = vec![0; RENDER_COMMANDS_MAX as usize];
    let refused = node.render(&mut bench, &commands, &list, &patches).unwrap_err();
    assert_eq!(refused.0, Status::INVALID_HANDLE);
}

#[test]
fn a_context_that_cannot_have_what_its_model_needs_leaves_nothing() {
    let (mut bench, client) = new();
    // First all local memory is in use, then all fences.
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
    // One fence is the progress fence of the client's queue.
    assert_eq!(count, crate::bench::BAR.fence_count - 1);
    bench.input(bellhop_host_kmd::port::Input::Detach { guest: client.guest });
    assert!(bench.model.is_empty());
}

#[test]
fn a_context_of_a_device_in_error_or_without_a_device_is_refused() {
    let (mut bench, client) = new();
    let context = CreateContext { device: client.device, node: 0, engine_affinity: 0 };
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
