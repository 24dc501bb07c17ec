// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paging in progress: what waits for it, and what ends meanwhile.

use super::{PAGES, create, description, exchange, map, new, segment, space};
use crate::bench::{Bench, Client};
use crate::model::Call;
use bellhop_host_kmd::hardware::{Fault, Segment};
use bellhop_host_kmd::port::{Command, Input};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    CreateAllocation, CreateAllocationReply, DestroyAllocation, Extent, Lock,
};
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::event::{EventKind, FaultReason};
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;
use zerocopy::FromBytes;

#[test]
fn a_context_is_off_the_run_list_while_what_it_uses_is_moved_and_resumes_when_that_is_done() {
    let (mut bench, client) = new();
    let first = create(&mut bench, client, PAGES);
    let va = map(&mut bench, client, first, PAGES * PAGE_SIZE);
    bench.make_resident(client, &[first]).unwrap();
    assert_eq!(segment(&bench, client, va), Some(Segment::Local));
    exchange(&bench, client, va, 7);

    bench.model.state().prompt = false;
    bench.model.state().prompt_paging = false;
    bench.model.take_log();
    let second = create_later(&mut bench, client);
    let token = bench.make_resident_later(client, &[second]);
    assert!(bench.model.state().suspended.contains(&client.id));
    assert!(bench.model.state().paging[&client.guest].is_empty(), "engines have not left it");
    bench.pass_tickets();
    assert!(!bench.model.state().paging[&client.guest].is_empty());
    while !bench.model.state().paging[&client.guest].is_empty() {
        assert!(bench.model.state().suspended.contains(&client.id));
        assert_eq!(bench.outcome(client, token), None);
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
    assert!(!bench.model.state().suspended.contains(&client.id));
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert_eq!(segment(&bench, client, va), Some(Segment::Backing));
    assert_eq!(exchange(&bench, client, va, 8), 7);
}

/// An allocation as large as local memory, created while paging is not prompt.
fn create_later(bench: &mut Bench, client: Client) -> Handle {
    let token = bench.begin(client, &description(client, PAGES));
    bench.pass_tickets();
    let (header, body) = bench.reply(client.guest, token).expect("nothing is moved for it");
    assert_eq!(header.status, Status::SUCCESS);
    CreateAllocationReply::read_from_bytes(body).unwrap().allocation
}

#[test]
fn paging_that_fails_loses_the_contexts_whose_memory_it_was_and_no_others() {
    let (mut bench, client) = new();
    let innocent = bench.client(client.guest);
    let extents = [Extent { address: 3 * PAGE_SIZE, length: PAGE_SIZE }];
    let request = CreateAllocation { extent_count: 1, ..description(client, 1) };
    let allocation = bench.call_with_list(client, &request, &extents).unwrap().allocation;
    bench.model.state().prompt_paging = false;
    let token = bench.make_resident_later(client, &[allocation]);
    let fault = Fault::new(FaultReason::READ_PAGE_FAULT, Opcode::COPY, 0);
    bench.model.fail_paging(client.guest, fault);
    bench.interrupt();
    assert_eq!(bench.outcome(client, token), Some(Status::IO_DEVICE_ERROR));
    let lost: Vec<_> = bench
        .events
        .iter()
        .filter(|(_, event)| event.kind == EventKind::HW_QUEUE_ERROR)
        .map(|(_, event)| (event.process, event.object))
        .collect();
    assert_eq!(lost, [(client.process, client.queue.0)]);
    assert!(!bench.model.state().suspended.contains(&innocent.id));
}

#[test]
fn a_process_that_goes_in_the_middle_of_paging_leaves_its_addresses_until_that_is_done() {
    let (mut bench, client) = new();
    let allocation = create(&mut bench, client, PAGES);
    map(&mut bench, client, allocation, PAGES * PAGE_SIZE);
    let space = space(&bench, client);
    bench.model.state().prompt_paging = false;
    bench.make_resident_later(client, &[allocation]);
    let token = bench.begin(client, &DestroyProcess { flags: TERMINATED_ABNORMALLY });
    assert!(bench.model.state().spaces.contains_key(&space), "packets may still write there");
    while !bench.model.state().paging[&client.guest].is_empty() {
        assert_eq!(bench.outcome(client, token), None);
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert!(!bench.model.state().spaces.contains_key(&space));
}

#[test]
fn a_guest_that_goes_in_the_middle_of_paging_leaves_nothing() {
    let (mut bench, client) = new();
    let list: Vec<_> = (0..4).map(|_| create(&mut bench, client, PAGES / 2)).collect();
    for allocation in &list {
        map(&mut bench, client, *allocation, PAGE_SIZE);
    }
    bench.model.state().prompt_paging = false;
    bench.make_resident_later(client, &list);
    bench.begin(client, &DestroyAllocation { allocation: list[0] });
    bench.input(Input::Detach { guest: client.guest });
    bench.pass_tickets();
    assert_eq!(bench.detached, [client.guest]);
    assert!(bench.model.is_empty());
}

#[test]
fn paging_gives_the_device_its_power_first_and_d3_waits_for_it() {
    let (mut bench, client) = new();
    let allocation = create(&mut bench, client, 1);
    let d3 = Command::SetDevicePower(DevicePowerState::D3);
    assert_eq!(bench.command(d3), Some(Ok(())));
    bench.model.take_log();
    // The model panics if its engine has no power.
    bench.call(client, &Lock { allocation }).unwrap();
    assert!(bench.model.take_log().contains(&Call::EnginePower(1, EnginePowerState::F0)));

    bench.model.state().prompt_paging = false;
    bench.make_resident_later(client, &[allocation]);
    let other = {
        let token = bench.begin(client, &description(client, 1));
        let (_, body) = bench.reply(client.guest, token).unwrap();
        CreateAllocationReply::read_from_bytes(body).unwrap().allocation
    };
    bench.make_resident_later(client, &[other]);
    assert_eq!(bench.command(d3), None);
    while !bench.model.state().paging[&client.guest].is_empty() {
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
    assert!(bench.commands.values().all(Result::is_ok), "it is in D3 now");
}
