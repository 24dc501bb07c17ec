// SPDX-License-Identifier: MIT OR Apache-2.0

//! BARs of processes' own, in the guest's memory.

use crate::bench::{BAR, Bench, Client, FEATURES, Refused, USER_MODE, bytes_with_list};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CreateAllocation, CreateAllocationReply, Extent, Lock,
    OpenSharedAllocation, PRIORITY_NORMAL, SegmentSet, ShareAllocation,
};
use bellhop_protocol::control::doorbell::CreateDoorbellReply;
use bellhop_protocol::control::fence::{
    CreateNativeFence, DestroyNativeFence, FenceFlags, NOT_PUBLISHED, OpenNativeFence, OpenedFence,
    ShareNativeFence,
};
use bellhop_protocol::control::node_context::{CreateNodeContext, SubmissionModel};
use bellhop_protocol::control::process::{
    CreateProcessWithBar, DestroyProcess, TERMINATED_ABNORMALLY,
};
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;

/// Two doorbells and four fences.
const OWN: BarLayout = BarLayout { doorbell_count: 2, fence_count: 4, local_memory: 0 };
/// Where the memory of the first BAR is.
const HERE: u64 = 0x10_0000;

const fn request(beside: u32, extent_count: u32, layout: BarLayout) -> CreateProcessWithBar {
    let BarLayout { doorbell_count, fence_count, .. } = layout;
    CreateProcessWithBar { beside, extent_count, doorbell_count, fence_count }
}

fn create(
    bench: &mut Bench,
    guest: GuestId,
    layout: BarLayout,
    extents: &[Extent],
) -> Result<u32, Refused> {
    let request = request(0, extents.len() as u32, layout);
    let token = bench.send(guest, bytes_with_list(0, &request, extents));
    bench.decode::<CreateProcessWithBar>(guest, token).map(|reply| reply.process)
}

fn create_at(bench: &mut Bench, guest: GuestId, address: u64) -> u32 {
    create(bench, guest, OWN, &[Extent { address, length: OWN.end() }]).unwrap()
}

fn beside(bench: &mut Bench, guest: GuestId, process: u32) -> Result<u32, Refused> {
    let none = BarLayout { doorbell_count: 0, fence_count: 0, local_memory: 0 };
    bench.ask(guest, 0, &request(process, 0, none)).map(|reply| reply.process)
}

/// Memory of the guest's, behind that of BARs.
fn pages(number: u64, count: u64) -> [Extent; 1] {
    [Extent { address: 0x80_0000 + number * 0x10_0000, length: count * PAGE_SIZE }]
}

/// A doorbell of a client's queue, with a ring in the guest's memory.
fn doorbell(bench: &mut Bench, client: Client) -> Result<CreateDoorbellReply, Refused> {
    let ring = bench.system(client, 2 * PAGE_SIZE, &pages(0, 2))?.allocation;
    let control = bench.system(client, PAGE_SIZE, &pages(1, 1))?.allocation;
    bench.doorbell_on(client, (ring, control))
}

fn fence(bench: &mut Bench, client: Client, flags: FenceFlags) -> Result<OpenedFence, Refused> {
    let request =
        CreateNativeFence { flags: flags.bits(), ..CreateNativeFence::new(client.device, 7) };
    bench.call(client, &request)
}

fn end(bench: &mut Bench, guest: GuestId, process: u32) {
    bench.ask(guest, process, &DestroyProcess { flags: TERMINATED_ABNORMALLY }).unwrap();
}

#[test]
fn each_process_has_the_first_places_of_its_own_bar_whatever_others_have() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let plain = bench.client(guest);
    bench.doorbell(plain);
    for address in [HERE, 2 * HERE] {
        let process = create_at(&mut bench, guest, address);
        let client = bench.client_in(guest, process, USER_MODE);
        let reply = doorbell(&mut bench, client).unwrap();
        let offsets = [reply.doorbell_offset, reply.status_offset, reply.last_queued_offset];
        assert_eq!(offsets, [OWN.doorbell(0), OWN.status(0), OWN.last_queued(0)]);
        // The progress fence of its queue came first.
        let fence = fence(&mut bench, client, FenceFlags::empty()).unwrap();
        assert_eq!(fence.mapping.current_value_offset, OWN.fence(1));
    }
    let state = bench.model.state();
    assert_eq!((state.process_bars.len(), state.own_doorbells.len()), (2, 2));
    assert_eq!(state.own_fences.len(), 4);
    // A slot has no more than one place, and no two slots have the same.
    let mut places: Vec<_> =
        state.own_fences.values().map(|place| (place.bar, place.index)).collect();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), 4);
}

#[test]
fn a_bar_that_is_full_refuses_and_has_room_again_when_engines_have_forgotten() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let process = create_at(&mut bench, guest, HERE);
    let client = bench.client_in(guest, process, USER_MODE);
    let fences: Vec<_> =
        (0..3).map(|_| fence(&mut bench, client, FenceFlags::empty()).unwrap()).collect();
    let full = fence(&mut bench, client, FenceFlags::empty());
    assert_eq!(full.unwrap_err(), (Status::QUOTA_EXCEEDED, 4));
    // The guest's own fences are many more, and are not the process's.
    let plain = bench.client(guest);
    fence(&mut bench, plain, FenceFlags::empty()).unwrap();
    bench.call(client, &DestroyNativeFence { fence: fences[1].fence }).unwrap();
    let again = fence(&mut bench, client, FenceFlags::empty()).unwrap();
    assert_eq!(again.mapping.current_value_offset, fences[1].mapping.current_value_offset);
}

#[test]
fn a_bar_ends_with_the_last_process_that_has_it() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let first = create_at(&mut bench, guest, HERE);
    let client = bench.client_in(guest, first, USER_MODE);
    doorbell(&mut bench, client).unwrap();
    let second = beside(&mut bench, guest, first).unwrap();
    let other = bench.client_in(guest, second, USER_MODE);
    assert_eq!(doorbell(&mut bench, other).unwrap().doorbell_offset, OWN.doorbell(1));
    end(&mut bench, guest, first);
    assert_eq!(bench.model.state().process_bars.len(), 1);
    assert_eq!(bench.model.state().own_doorbells.len(), 1);
    end(&mut bench, guest, second);
    assert!(bench.model.is_empty());
    let gone = (Status::INVALID_PARAMETER, first.into());
    assert_eq!(beside(&mut bench, guest, first).unwrap_err(), gone);
}

#[test]
fn a_process_without_a_bar_of_its_own_lends_none() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let plain = bench.process(guest);
    let refused = (Status::INVALID_PARAMETER, plain.into());
    assert_eq!(beside(&mut bench, guest, plain).unwrap_err(), refused);
}

#[test]
fn memory_that_is_not_as_long_as_the_bar_or_not_the_guests_is_refused() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let whole = OWN.end();
    for (length, detail) in
        [(whole - PAGE_SIZE, whole - PAGE_SIZE), (whole + PAGE_SIZE, whole + PAGE_SIZE)]
    {
        let refused = create(&mut bench, guest, OWN, &[Extent { address: HERE, length }]);
        assert_eq!(refused.unwrap_err(), (Status::INVALID_PARAMETER, detail));
    }
    let outside = Extent { address: 1 << 40, length: whole };
    assert_eq!(
        create(&mut bench, guest, OWN, &[outside]).unwrap_err(),
        (Status::INVALID_PARAMETER, 1 << 40)
    );
    let greedy = BarLayout { doorbell_count: BAR.doorbell_count + 1, ..OWN };
    let all = Extent { address: HERE, length: greedy.end() };
    assert_eq!(
        create(&mut bench, guest, greedy, &[all]).unwrap_err(),
        (Status::INVALID_PARAMETER, greedy.doorbell_count.into())
    );
    // In pieces it is as good.
    let pieces = [(0x30_0000, 3), (0x20_0000, whole / PAGE_SIZE - 3)];
    let pieces = pieces.map(|(address, pages)| Extent { address, length: pages * PAGE_SIZE });
    create(&mut bench, guest, OWN, &pieces).unwrap();
    assert_eq!(bench.model.state().process_bars.len(), 1);
}

#[test]
fn a_fence_of_another_process_is_opened_and_not_published() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let clients = [HERE, 2 * HERE].map(|address| {
        let process = create_at(&mut bench, guest, address);
        bench.client_in(guest, process, USER_MODE)
    });
    let plain = bench.client(guest);
    let shared = fence(&mut bench, clients[0], FenceFlags::SHARED).unwrap();
    assert_eq!(shared.mapping.current_value_offset, OWN.fence(1));
    let nt_handle = bench.call(clients[0], &ShareNativeFence { fence: shared.fence }).unwrap();
    for other in [clients[1], plain] {
        let request = OpenNativeFence { device: other.device, nt_handle };
        let opened = bench.call(other, &request).unwrap();
        assert_eq!(opened.mapping.current_value_offset, NOT_PUBLISHED);
    }
    // A process that has the BAR, too, finds it there.
    let process = beside(&mut bench, guest, clients[0].process).unwrap();
    let companion = bench.client_in(guest, process, USER_MODE);
    let request = OpenNativeFence { device: companion.device, nt_handle };
    let opened = bench.call(companion, &request).unwrap();
    assert_eq!(opened.mapping.current_value_offset, OWN.fence(1));
    // And a plain process's fence is published in the guest's BAR, which such a process does not have.
    let shared = fence(&mut bench, plain, FenceFlags::SHARED).unwrap();
    assert_eq!(shared.mapping.current_value_offset, BAR.fence(shared.slot));
    let nt_handle = bench.call(plain, &ShareNativeFence { fence: shared.fence }).unwrap();
    let request = OpenNativeFence { device: clients[1].device, nt_handle };
    let opened = bench.call(clients[1], &request).unwrap();
    assert_eq!(opened.mapping.current_value_offset, NOT_PUBLISHED);
}

fn paged(
    bench: &mut Bench,
    client: Client,
    flags: AllocationFlags,
    segments: SegmentSet,
    extents: &[Extent],
) -> Result<CreateAllocationReply, Refused> {
    let fixed = CreateAllocation::fixed(client.device, AllocationKind::PAGED, PAGE_SIZE, 0);
    let request = CreateAllocation {
        extent_count: extents.len() as u32,
        supported_segments: segments.bits(),
        flags: (flags | AllocationFlags::CACHED).bits(),
        priority: PRIORITY_NORMAL,
        ..fixed
    };
    let token = bench.send(client.guest, bytes_with_list(client.process, &request, extents));
    bench.decode::<CreateAllocation>(client.guest, token)
}

#[test]
fn cpus_of_such_a_process_reach_its_own_pages_and_no_local_memory() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let process = create_at(&mut bench, guest, HERE);
    let client = bench.client_in(guest, process, USER_MODE);
    let refused = (Status::NOT_SUPPORTED, 0);
    assert_eq!(bench.local(client, PAGE_SIZE).unwrap_err(), refused);
    let (visible, local, system) =
        (AllocationFlags::CPU_VISIBLE, SegmentSet::LOCAL, SegmentSet::SYSTEM);
    let own = pages(2, 1);
    for (segments, extents) in [(local, &[][..]), (local | system, &own[..])] {
        let made = paged(&mut bench, client, visible, segments, extents);
        assert_eq!(made.unwrap_err(), refused);
    }
    let made = paged(&mut bench, client, visible, system, &own).unwrap();
    bench.call(client, &Lock { allocation: made.allocation }).unwrap();
    // Its GPU reaches local memory.
    paged(&mut bench, client, AllocationFlags::empty(), local, &[]).unwrap();

    // Another process shares local memory that CPUs access, with the GPU of this one.
    let plain = bench.client(guest);
    let flags = visible | AllocationFlags::SHARED;
    let shared = paged(&mut bench, plain, flags, local, &[]).unwrap().allocation;
    let nt_handle = bench.call(plain, &ShareAllocation { allocation: shared }).unwrap();
    let request = OpenSharedAllocation { device: client.device, nt_handle };
    let opened = bench.call(client, &request).unwrap().allocation;
    assert_eq!(bench.call(client, &Lock { allocation: opened }).unwrap_err(), refused);
    bench.call(plain, &Lock { allocation: shared }).unwrap();
}

#[test]
fn such_a_process_submits_through_hw_queues_alone() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let process = create_at(&mut bench, guest, HERE);
    let client = bench.client_in(guest, process, USER_MODE);
    for model in [SubmissionModel::BASIC, SubmissionModel::VIRTUAL] {
        let request = CreateNodeContext { device: client.device, node: 0, model };
        let refused = bench.call(client, &request).unwrap_err();
        assert_eq!(refused.0, Status::NOT_SUPPORTED);
    }
}

#[test]
fn a_guest_that_did_not_take_the_feature_has_no_such_processes() {
    let mut bench = Bench::new(4);
    let guest = bench.attach(1);
    bench.open_with(guest, FEATURES - Features::PROCESS_BARS).unwrap();
    let refused = create(&mut bench, guest, OWN, &[Extent { address: HERE, length: OWN.end() }]);
    assert_eq!(refused.unwrap_err(), (Status::NOT_SUPPORTED, 0));
}

#[test]
fn a_device_that_finds_no_such_memory_leaves_nothing_behind() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    bench.model.state().places_nothing = true;
    let refused = create(&mut bench, guest, OWN, &[Extent { address: HERE, length: OWN.end() }]);
    assert_eq!(refused.unwrap_err(), (Status::INVALID_PARAMETER, HERE));
    bench.model.state().places_nothing = false;
    let process = create_at(&mut bench, guest, HERE);
    end(&mut bench, guest, process);
    assert!(bench.model.is_empty());
}
