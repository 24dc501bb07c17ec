// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submissions that list paged allocations.

use crate::bench::{BAR, Bench, Client, bytes_with_list};
use crate::model::Call;
use crate::queue::node_contexts::Node;
use bellhop_host_kmd::ddi::paging::APERTURE_START;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{Fault, HwQueueId, Interrupt, Segment};
use bellhop_host_kmd::port::{Input, RequestToken};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationKind, CreateAllocation, DestroyAllocation, PRIORITY_NORMAL, SegmentSet,
};
use bellhop_protocol::control::context::DestroyContext;
use bellhop_protocol::control::device::DestroyDevice;
use bellhop_protocol::control::node_context::{
    ALLOCATION_WRITE, AllocationListEntry, PatchLocation, Render, SubmissionModel,
};
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::transfer::Fill;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

/// Pages of CPU-visible local memory, and of the aperture.
const PAGES: u64 = BAR.local_memory / PAGE_SIZE;
const RENDERING: [SubmissionModel; 2] = [SubmissionModel::BASIC, SubmissionModel::BASIC_PLUS_PLUS];

fn new() -> (Bench, Client) {
    let mut bench = Bench::with_limits(2, Limits::default());
    let guest = bench.guest(1);
    let client = bench.client(guest);
    (bench, client)
}

/// An allocation that VidMm places and no device wants resident.
fn paged(bench: &mut Bench, client: Client, pages: u64, supported: SegmentSet) -> Handle {
    let request = CreateAllocation {
        supported_segments: supported.bits(),
        priority: PRIORITY_NORMAL,
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, pages * PAGE_SIZE, 0)
    };
    bench.call(client, &request).unwrap().allocation
}

const ANYWHERE: SegmentSet = SegmentSet::LOCAL.union(SegmentSet::SYSTEM);

/// Sends a submission that lists these allocations, without waiting for the reply.
fn submit(bench: &mut Bench, node: &Node, model: SubmissionModel, list: &[Handle]) -> RequestToken {
    let is_basic = model == SubmissionModel::BASIC;
    let request = Render {
        context: node.reply.context,
        dma_buffer: if is_basic { 0 } else { 0x10_0000 },
        dma_buffer_size: if is_basic { 0 } else { 24 },
        command_length: if is_basic { 24 } else { 0 },
        allocation_count: list.len() as u32,
        patch_location_count: u32::from(is_basic),
    };
    let entry = |allocation: &Handle| AllocationListEntry {
        allocation: *allocation,
        flags: ALLOCATION_WRITE,
        reserved: 0,
    };
    let list: Vec<_> = list.iter().map(entry).collect();
    let patch = PatchLocation { allocation_index: 0, patch_offset: 8, allocation_offset: 0 };
    let fill = Fill::new(0, 8, 0);
    let lists = if is_basic {
        [fill.as_bytes(), list.as_bytes(), patch.as_bytes()].concat()
    } else {
        list.as_bytes().to_vec()
    };
    bench.send(node.client.guest, bytes_with_list(node.client.process, &request, &lists))
}

fn submissions(bench: &Bench) -> Vec<HwQueueId> {
    let log = bench.model.take_log().into_iter();
    log.filter_map(|call| match call {
        Call::Submit(queue, _) => Some(queue),
        _ => None,
    })
    .collect()
}

/// Completes all paging.
fn page_in(bench: &mut Bench, client: Client) {
    bench.pass_tickets();
    while !bench.model.state().paging.entry(client.guest).or_default().is_empty() {
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
}

/// The segment that the first page of the aperture shows.
fn aperture(bench: &Bench, client: Client) -> Option<Segment> {
    let state = bench.model.state();
    let space = state.systems[&client.guest].address_space;
    state.page(space, APERTURE_START).map(|page| page.segment)
}

#[test]
fn a_submission_waits_until_what_it_lists_is_resident() {
    for model in RENDERING {
        let (mut bench, client) = new();
        let node = Node::new(&mut bench, client, model);
        let allocation = paged(&mut bench, client, 4, ANYWHERE);
        bench.model.state().prompt_paging = false;
        bench.model.take_log();
        let token = submit(&mut bench, &node, model, &[allocation]);
        assert_eq!(bench.outcome(client, token), None);
        assert_eq!(submissions(&bench), []);
        // A submission that lists nothing stays behind it.
        let later = submit(&mut bench, &node, SubmissionModel::BASIC_PLUS_PLUS, &[]);
        let later = (model == SubmissionModel::BASIC_PLUS_PLUS).then_some(later);
        page_in(&mut bench, client);
        assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
        let count = 1 + usize::from(later.is_some());
        assert_eq!(submissions(&bench), vec![node.client.id; count]);
        if model == SubmissionModel::BASIC {
            assert_eq!(aperture(&bench, client), Some(Segment::Local));
        }
        let busy = (Status::GRAPHICS_ALLOCATION_BUSY, allocation.0);
        assert_eq!(bench.call(client, &DestroyAllocation { allocation }).unwrap_err(), busy);
        // When the submission is done, no device wants the allocation any more.
        for fence in 1..=2 {
            bench.raise(Interrupt::DmaCompleted { node: 0, engine: 0, fence });
        }
        page_in(&mut bench, client);
        assert_eq!(aperture(&bench, client), None);
        // It is resident at its old place, with the same physical address.
        let token = submit(&mut bench, &node, model, &[allocation]);
        page_in(&mut bench, client);
        assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    }
}

#[test]
fn a_physical_address_stays_true_while_what_it_is_of_is_moved() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    let first = paged(&mut bench, client, PAGES, ANYWHERE);
    let token = submit(&mut bench, &node, SubmissionModel::BASIC, &[first]);
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert_eq!(aperture(&bench, client), Some(Segment::Local));
    // Another allocation takes the room while the submission is in flight.
    let second = paged(&mut bench, client, PAGES, ANYWHERE);
    bench.model.state().prompt = false;
    bench.model.state().prompt_paging = false;
    let token = bench.make_resident_later(client, &[second]);
    assert!(bench.model.state().suspended.contains(&node.client.id), "it is held meanwhile");
    page_in(&mut bench, client);
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert!(!bench.model.state().suspended.contains(&node.client.id));
    assert_eq!(aperture(&bench, client), Some(Segment::Backing));
}

#[test]
fn a_list_that_can_never_be_resident_together_is_refused_and_holds_nothing() {
    for model in RENDERING {
        let (mut bench, client) = new();
        let node = Node::new(&mut bench, client, model);
        let local = SegmentSet::LOCAL;
        let list = [(); 3].map(|()| paged(&mut bench, client, PAGES / 2, local));
        bench.model.take_log();
        let token = submit(&mut bench, &node, model, &list);
        let outcome = bench.outcome(client, token).expect("an answer at once");
        assert!(!outcome.is_success(), "{outcome}");
        assert_eq!(submissions(&bench), []);
        for allocation in list {
            bench.call(client, &DestroyAllocation { allocation }).unwrap();
        }
    }
}

#[test]
fn a_submission_whose_paging_fails_is_refused_and_holds_nothing() {
    for model in RENDERING {
        let (mut bench, client) = new();
        let node = Node::new(&mut bench, client, model);
        let allocation = paged(&mut bench, client, 2, ANYWHERE);
        bench.model.state().prompt_paging = false;
        bench.model.take_log();
        let token = submit(&mut bench, &node, model, &[allocation]);
        bench.pass_tickets();
        let fault = Fault::new(FaultReason::WRITE_PAGE_FAULT, Opcode::FILL, 0);
        bench.model.fail_paging(client.guest, fault);
        bench.interrupt();
        page_in(&mut bench, client);
        let outcome = bench.outcome(client, token).expect("an answer");
        assert!(!outcome.is_success(), "{outcome}");
        assert_eq!(submissions(&bench), []);
        bench.model.state().prompt_paging = true;
        bench.begin(client, &DestroyAllocation { allocation });
        page_in(&mut bench, client);
        assert_eq!(bench.model.state().systems.len(), 1);
    }
}

#[test]
fn a_process_or_guest_that_goes_while_a_submission_waits_leaves_nothing() {
    for model in RENDERING {
        for what in 0..4 {
            let (mut bench, client) = new();
            let node = Node::new(&mut bench, client, model);
            let allocation = paged(&mut bench, client, 4, ANYWHERE);
            bench.model.state().prompt_paging = false;
            let token = submit(&mut bench, &node, model, &[allocation]);
            match what {
                0 => {
                    bench.begin(client, &DestroyContext { context: node.reply.context });
                }
                1 => {
                    bench.begin(client, &DestroyDevice { device: client.device });
                }
                2 => {
                    let flags = TERMINATED_ABNORMALLY;
                    bench.begin(client, &DestroyProcess { flags });
                }
                _ => {}
            }
            if what < 3 {
                for _ in 0..4 {
                    page_in(&mut bench, client);
                }
                assert!(bench.outcome(client, token).is_some());
            }
            bench.input(Input::Detach { guest: client.guest });
            for _ in 0..4 {
                bench.pass_tickets();
            }
            assert_eq!(bench.detached, [client.guest]);
            assert!(bench.model.is_empty());
        }
    }
}
