// SPDX-License-Identifier: MIT OR Apache-2.0

//! How each model executes a submission.

use super::{Node, at, completed, entry, new, submitted};
use crate::bench::Bench;
use crate::model::Call;
use bellhop_host_kmd::ddi::dma_buffer::DMA_BUFFERS_START;
use bellhop_host_kmd::ddi::paging::APERTURE_START;
use bellhop_host_kmd::hardware::{KernelSubmission, PhysicalPage, Pte, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{DestroyAllocation, NOT_IN_BAR};
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, ALLOCATION_WRITE, CreateNodeContextReply, PATCH_LOCATION_LIST_MAX,
    RENDER_COMMANDS_MAX, SubmissionModel, SubmissionReply, SubmitCommandVirtual,
    VIRTUAL_COMMAND_BUFFER_SIZE,
};
use bellhop_protocol::packet::transfer::{Copy, Fill};
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

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
    // It executes in the system context, with its own process's fences, and no process maps the aperture.
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
    // Listing the allocation makes it resident again, and the DMA buffer's memory is reused.
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
    // The command buffer is freed with its context, local memory included.
    node.destroy(&mut bench);
    bench.local(client, 64 * PAGE_SIZE).unwrap();
}
