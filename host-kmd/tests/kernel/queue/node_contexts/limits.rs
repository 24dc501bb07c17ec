// SPDX-License-Identifier: MIT OR Apache-2.0

//! The limits of what submissions may hold.

use super::{MODELS, Node, completed, entry, new, with_limits};
use crate::bench::{Bench, map};
use bellhop_host_kmd::ddi::dma_buffer::DMA_BUFFERS_SIZE;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::node_context::{RENDER_COMMANDS_MAX, SubmissionModel};
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

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
    // A DMA buffer is also free when the GPU has completed it but the interrupt has not arrived yet.
    bench.model.state().completed.insert(node.client.id, 1);
    node.render(&mut bench, &commands, &[], &[]).unwrap();
    assert_eq!(node.render(&mut bench, &commands, &[], &[]).unwrap_err(), full);
    completed(&mut bench, 3);
    node.render(&mut bench, &commands, &[], &[]).unwrap();
    node.render(&mut bench, &commands, &[], &[]).unwrap();
    assert_eq!(node.render(&mut bench, &commands, &[], &[]).unwrap_err(), full);
    // The limit is per guest.
    let guest = bench.guest(2);
    let other = bench.client(guest);
    let other = Node::new(&mut bench, other, SubmissionModel::BASIC);
    other.render(&mut bench, &commands, &[], &[]).unwrap();
    // Destroying a context frees the DMA buffers of its submissions.
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

/// If the listed allocations cannot be made resident, no entry of the list counts.
#[test]
fn a_list_that_cannot_be_made_resident_is_not_charged_for() {
    let limits = Limits { listed_allocations: 1, ..Limits::default() };
    let (mut bench, client) = with_limits(limits);
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC_PLUS_PLUS);
    let [one, other] = [(); 2].map(|()| bench.local(client, PAGE_SIZE).unwrap().allocation);
    bench.call(client, &map(one, 0, PAGE_SIZE)).unwrap();
    bench.evict(client, &[one]).unwrap();
    bench.model.state().page_table_room = 0;
    let full = (Status::INSUFFICIENT_RESOURCES, 0);
    assert_eq!(node.submit_udma(&mut bench, &[entry(one, 0)]).unwrap_err(), full);
    bench.model.state().page_table_room = 1;
    node.submit_udma(&mut bench, &[entry(other, 0)]).unwrap();
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
    // Trying again does not help: an allocation that is in use is not evicted.
    assert_eq!(submit(&mut bench, small).unwrap_err(), full);
    completed(&mut bench, fence);
    bench.model.state().prompt = false;
    assert_eq!(submit(&mut bench, small).unwrap_err(), full);
    // Engines may still have the old translation.
    assert_eq!(submit(&mut bench, small).unwrap_err(), full);
    bench.pass_tickets();
    let fence = submit(&mut bench, small).unwrap().submission_fence;
    bench.model.state().prompt = true;
    completed(&mut bench, fence);
    // An evicted allocation leaves its place in the aperture, too.
    bench.evict(client, &[small]).unwrap();
    submit(&mut bench, whole).unwrap();
}
