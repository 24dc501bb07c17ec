// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations that processes of a guest share.

use super::*;
use crate::bench::Refused;
use bellhop_protocol::control::allocation::{
    CloseAllocation, DestroyAllocation, Evict, Lock, OpenSharedAllocation, OpenedAllocation,
    QueryVideoMemoryInfo, ShareAllocation, Unlock,
};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::doorbell::CreateDoorbell;
use bellhop_protocol::control::fence::NtHandle;
use bellhop_protocol::control::process::DestroyProcess;
use bellhop_protocol::status::Status;

fn shared(bench: &mut Bench, client: Client, pages: u64) -> (Handle, NtHandle) {
    let flags = AllocationFlags::CPU_VISIBLE | AllocationFlags::SHARED;
    let request = CreateAllocation { flags: flags.bits(), ..description(client, pages) };
    let allocation = bench.call(client, &request).unwrap().allocation;
    (allocation, bench.call(client, &ShareAllocation { allocation }).unwrap())
}

fn open(
    bench: &mut Bench,
    client: Client,
    nt_handle: NtHandle,
) -> Result<OpenedAllocation, Refused> {
    bench.call(client, &OpenSharedAllocation { device: client.device, nt_handle })
}

/// Bytes that a process has resident or locked in local memory, and bytes of host memory reserved for it.
fn usage(bench: &mut Bench, client: Client) -> [u64; 2] {
    [SegmentSet::LOCAL, SegmentSet::SYSTEM].map(|segment| {
        let request = QueryVideoMemoryInfo { segment: segment.bits(), gpu: 0 };
        bench.call(client, &request).unwrap().usage
    })
}

/// Two processes of a guest that share an allocation, and where each has it mapped.
fn two(pages: u64) -> (Bench, [Client; 2], [Handle; 2], [u64; 2]) {
    let (mut bench, a) = new();
    let b = bench.client(a.guest);
    let (created, name) = shared(&mut bench, a, pages);
    let opened = open(&mut bench, b, name).unwrap();
    assert_eq!(opened.size, pages * PAGE_SIZE);
    let handles = [created, opened.allocation];
    let vas = [(a, created), (b, opened.allocation)]
        .map(|(client, allocation)| map(&mut bench, client, allocation, pages * PAGE_SIZE));
    (bench, [a, b], handles, vas)
}

/// The guest detaches, and nothing of it is left.
fn leave(mut bench: Bench, guest: GuestId) {
    bench.input(Input::Detach { guest });
    for _ in 0..3 {
        bench.pass_tickets();
    }
    assert_eq!(bench.detached, [guest]);
    assert!(bench.model.is_empty());
}

#[test]
fn what_two_processes_have_together_is_one_allocation_wherever_it_is_moved() {
    let (mut bench, [a, b], [created, opened], [at_a, at_b]) = two(PAGES / 2);
    assert_ne!(created, opened, "a handle is one process's");
    let invalid = (Status::INVALID_HANDLE, opened.0);
    assert_eq!(bench.call(a, &Lock { allocation: opened }).unwrap_err(), invalid);
    bench.make_resident(b, &[opened]).unwrap();
    let both = |bench: &Bench| [page(bench, a, at_a), page(bench, b, at_b)];
    let first = both(&bench)[0].unwrap();
    assert_eq!((first.segment, both(&bench)[1]), (Segment::Local, Some(first)));
    exchange(&bench, a, at_a, 7);
    // It makes room for others, and both processes find its bytes at the new place.
    for _ in 0..2 {
        let other = create(&mut bench, b, PAGES / 2);
        bench.make_resident(b, &[other]).unwrap();
    }
    let moved = both(&bench)[0].unwrap();
    assert_eq!((moved.segment, both(&bench)[1]), (Segment::Backing, Some(moved)));
    assert_eq!(exchange(&bench, b, at_b, 8), 7);
    assert_eq!(exchange(&bench, a, at_a, 9), 8);
    leave(bench, a.guest);
}

#[test]
fn it_is_resident_as_long_as_one_process_wants_it() {
    let (mut bench, [a, b], [created, opened], [at_a, at_b]) = two(1);
    bench.make_resident(a, &[created]).unwrap();
    let unbalanced = (Status::INVALID_PARAMETER, 0);
    assert_eq!(bench.evict(b, &[opened]).unwrap_err(), unbalanced, "it wants nothing");
    bench.make_resident(b, &[opened]).unwrap();
    bench.evict(a, &[created]).unwrap();
    assert!(page(&bench, a, at_a).is_some() && page(&bench, b, at_b).is_some());
    bench.evict(b, &[opened]).unwrap();
    assert!(page(&bench, a, at_a).is_none() && page(&bench, b, at_b).is_none());
    leave(bench, a.guest);
}

/// A shared allocation counts once: of the processes that want it resident, against the first that opened it.
#[test]
fn it_counts_against_one_of_those_that_want_it() {
    let (mut bench, [a, b], [created, opened], _) = two(2);
    let (none, all) = ([0, 0], [2 * PAGE_SIZE, 2 * PAGE_SIZE]);
    bench.make_resident(b, &[opened]).unwrap();
    assert_eq!(usage(&mut bench, a), [0, 2 * PAGE_SIZE], "its backing is for who created it");
    assert_eq!(usage(&mut bench, b), [2 * PAGE_SIZE, 0]);
    bench.make_resident(a, &[created]).unwrap();
    assert_eq!([usage(&mut bench, a), usage(&mut bench, b)], [all, none]);
    bench.evict(a, &[created]).unwrap();
    assert_eq!(usage(&mut bench, b), [2 * PAGE_SIZE, 0]);
    bench.call(a, &DestroyAllocation { allocation: created }).unwrap();
    assert_eq!([usage(&mut bench, a), usage(&mut bench, b)], [none, all]);
    leave(bench, a.guest);
}

#[test]
fn each_process_has_locks_of_its_own() {
    let (mut bench, [a, b], [created, opened], [at_a, _]) = two(1);
    let bar_offset = bench.call(a, &Lock { allocation: created }).unwrap().bar_offset;
    let not_locked = (Status::INVALID_PARAMETER, 0);
    assert_eq!(bench.call(b, &Unlock { allocation: opened }).unwrap_err(), not_locked);
    assert_eq!(bench.call(b, &Lock { allocation: opened }).unwrap().bar_offset, bar_offset);
    bench.call(a, &Unlock { allocation: created }).unwrap();
    assert_eq!(bench.call(a, &Unlock { allocation: created }).unwrap_err(), not_locked);
    // The other process's lock keeps it in place; that lock goes with its process.
    bench.make_resident(a, &[created]).unwrap();
    let all = create(&mut bench, a, PAGES);
    let local = SegmentSet::LOCAL.bits();
    let must = CreateAllocation { supported_segments: local, ..description(a, PAGES) };
    let must = bench.call(a, &must).unwrap().allocation;
    assert!(bench.make_resident(a, &[must]).is_err());
    assert_eq!(segment(&bench, a, at_a), Some(Segment::Local));
    bench.call(b, &DestroyProcess { flags: 0 }).unwrap();
    bench.evict(a, &[created]).unwrap();
    bench.make_resident(a, &[must]).unwrap();
    assert_ne!(must, all);
    leave(bench, a.guest);
}

/// For each way in which a process can give it up.
#[test]
fn other_processes_keep_it_until_the_last_closes_it_and_no_page_table_of_one_that_left_leads_there()
{
    for way in 0..4 {
        let (mut bench, [a, b], [created, opened], [at_a, at_b]) = two(2);
        bench.make_resident(a, &[created]).unwrap();
        bench.make_resident(b, &[opened]).unwrap();
        exchange(&bench, a, at_a, 5);
        let of_a = space(&bench, a);
        let device = a.device;
        match way {
            0 => bench.call(a, &DestroyAllocation { allocation: created }).unwrap(),
            1 => bench.call(a, &CloseAllocation { device, allocation: created }).unwrap(),
            2 => bench.call(a, &DestroyDevice { device }).unwrap(),
            _ => bench.call(a, &DestroyProcess { flags: 1 }).unwrap(),
        }
        let left = bench.model.state().spaces.get(&of_a).and_then(|s| s.get(&at_a).copied());
        assert!(left.is_none_or(|entry| entry.page().is_none()), "way {way}: {left:?}");
        assert_eq!(exchange(&bench, b, at_b, 6), 5);
        // The room is free once the last process has closed it.
        let page_of_b = page(&bench, b, at_b).unwrap();
        let other = create(&mut bench, b, 2);
        bench.make_resident(b, &[other]).unwrap();
        let at_other = map(&mut bench, b, other, 2 * PAGE_SIZE);
        assert_ne!(page(&bench, b, at_other), Some(page_of_b));
        bench.call(b, &DestroyAllocation { allocation: opened }).unwrap();
        leave(bench, a.guest);
    }
}

#[test]
fn a_process_has_it_once_and_each_of_its_devices_opens_it() {
    let (mut bench, a) = new();
    let (created, name) = shared(&mut bench, a, 1);
    let refused = (Status::INVALID_PARAMETER, a.device.0);
    assert_eq!(open(&mut bench, a, name).unwrap_err(), refused, "it is open there");
    let device = bench.call(a, &CreateDevice { reserved: 0 }).unwrap();
    let again = Client { device, ..a };
    let opened = open(&mut bench, again, name).unwrap();
    assert_eq!(opened, OpenedAllocation { allocation: created, size: PAGE_SIZE });
    let close = CloseAllocation { device: a.device, allocation: created };
    bench.call(a, &close).unwrap();
    bench.make_resident(again, &[created]).unwrap();
    bench.call(again, &DestroyAllocation { allocation: created }).unwrap();
    assert_eq!(open(&mut bench, a, name).unwrap_err(), (Status::INVALID_PARAMETER, name.0));
    leave(bench, a.guest);
}

/// Another guest cannot use the name.
#[test]
fn names_cannot_be_guessed_and_name_nothing_to_another_guest() {
    let (mut bench, a) = new();
    let (created, name) = shared(&mut bench, a, 1);
    let same = bench.call(a, &ShareAllocation { allocation: created }).unwrap();
    assert_eq!(same, name, "the name never changes");
    let stranger = bench.guest(2);
    let stranger = bench.client(stranger);
    for (client, wrong) in [(a, 0), (a, created.0), (a, name.0 ^ 1), (stranger, name.0)] {
        let refused = open(&mut bench, client, NtHandle(wrong)).unwrap_err();
        assert_eq!(refused, (Status::INVALID_PARAMETER, wrong));
    }
    let alone = create(&mut bench, a, 1);
    let fixed = bench.local(a, PAGE_SIZE).unwrap().allocation;
    for allocation in [alone, fixed] {
        let refused = bench.call(a, &ShareAllocation { allocation }).unwrap_err();
        assert_eq!(refused.0, Status::NOT_SUPPORTED);
    }
    let flags = (AllocationFlags::SHARED | AllocationFlags::ACCESSED_PHYSICALLY).bits();
    let request = CreateAllocation { flags, ..description(a, 1) };
    let refused = (Status::INVALID_PARAMETER, flags.into());
    assert_eq!(bench.call(a, &request).unwrap_err(), refused);
    bench.input(Input::Detach { guest: stranger.guest });
    bench.pass_tickets();
    bench.detached.clear();
    leave(bench, a.guest);
}

/// Another process that has a ring may neither move nor unmap it.
#[test]
fn a_ring_that_others_have_stays_where_its_doorbell_has_it() {
    let (mut bench, [a, b], [created, opened], [at_a, _]) = two(1);
    let ring_control = bench.local(a, PAGE_SIZE).unwrap().allocation;
    let hw_queue = bench.queue(a, crate::bench::USER_MODE).queue;
    let request = CreateDoorbell::new(hw_queue, created, ring_control);
    // It is not enough that the other process wants it and has it locked.
    bench.make_resident(b, &[opened]).unwrap();
    bench.call(b, &Lock { allocation: opened }).unwrap();
    let refused = (Status::GRAPHICS_ALLOCATION_INVALID, created.0);
    assert_eq!(bench.call(a, &request).unwrap_err(), refused);
    bench.make_resident(a, &[created]).unwrap();
    bench.call(a, &Lock { allocation: created }).unwrap();
    bench.call(a, &request).unwrap();
    bench.call(b, &Unlock { allocation: opened }).unwrap();
    let evict = Evict { device: b.device, count: 1, reserved: 0 };
    bench.call_with_list(b, &evict, &[opened]).unwrap();
    bench.call(b, &DestroyAllocation { allocation: opened }).unwrap();
    for _ in 0..2 {
        let other = create(&mut bench, b, PAGES / 2);
        bench.make_resident(b, &[other]).unwrap();
    }
    assert_eq!(segment(&bench, a, at_a), Some(Segment::Local));
    leave(bench, a.guest);
}

/// Taking it away suspends all processes that want it, and giving it back resumes all of them.
#[test]
fn all_processes_that_want_it_wait_for_what_was_taken_away() {
    let (mut bench, a) = new();
    let (b, c) = (bench.client(a.guest), bench.client(a.guest));
    let flags = (AllocationFlags::CPU_VISIBLE | AllocationFlags::SHARED).bits();
    let supported_segments = SegmentSet::LOCAL.bits();
    let request = CreateAllocation { flags, supported_segments, ..description(a, PAGES) };
    let created = bench.call(a, &request).unwrap().allocation;
    let name = bench.call(a, &ShareAllocation { allocation: created }).unwrap();
    let opened = open(&mut bench, b, name).unwrap().allocation;
    bench.make_resident(a, &[created]).unwrap();
    bench.make_resident(b, &[opened]).unwrap();
    let modest = CreateAllocation { supported_segments, ..description(c, 1) };
    let modest = bench.call(c, &modest).unwrap().allocation;
    bench.make_resident(c, &[modest]).unwrap();
    let suspended =
        |bench: &Bench| [a, b, c].map(|client| bench.model.state().suspended.contains(&client.id));
    assert_eq!(suspended(&bench), [true, true, false]);
    bench.evict(c, &[modest]).unwrap();
    assert_eq!(suspended(&bench), [false; 3]);
    leave(bench, a.guest);
}
