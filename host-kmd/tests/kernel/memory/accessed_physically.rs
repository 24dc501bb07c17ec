// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations that engines access by physical address: their places, and what the driver is told.
//!
//! Source: "Allocations" and "BuildPagingBuffer" of the Windows KMD overview.

use crate::bench::{BAR, Bench, Client};
use crate::ddi::{Built, Log, with_log};
use bellhop_host_kmd::ddi::paging::{APERTURE_START, LOCAL_START};
use bellhop_host_kmd::hardware::{PhysicalPage, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CreateAllocation, DestroyAllocation, OpenAllocation,
    PRIORITY_NORMAL, SegmentSet,
};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::status::Status;

/// Pages of CPU-visible local memory, and of the aperture.
const PAGES: u64 = BAR.local_memory / PAGE_SIZE;
const ANYWHERE: SegmentSet = SegmentSet::LOCAL.union(SegmentSet::SYSTEM);
const PHYSICAL: AllocationFlags = AllocationFlags::ACCESSED_PHYSICALLY;
const PLAIN: AllocationFlags = AllocationFlags::empty();

fn new() -> (Bench, Client, Log) {
    let (mut bench, log) = with_log();
    let guest = bench.guest(1);
    let client = bench.client(guest);
    take(&log);
    (bench, client, log)
}

fn paged(
    bench: &mut Bench,
    client: Client,
    pages: u64,
    supported: SegmentSet,
    flags: AllocationFlags,
) -> Handle {
    let request = CreateAllocation {
        supported_segments: supported.bits(),
        priority: PRIORITY_NORMAL,
        flags: flags.bits(),
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, pages * PAGE_SIZE, 0)
    };
    bench.call(client, &request).unwrap().allocation
}

/// The operations built since the last call.
fn take(log: &Log) -> Vec<Built> {
    std::mem::take(&mut log.lock().unwrap())
}

/// The address that the driver was told, once and after the last operation that `behind` selects.
fn told(log: &Log, behind: impl Fn(&Built) -> bool) -> Option<u64> {
    let built = take(log);
    let is_notice = |built: &Built| matches!(built, Built::NotifyResidency(..));
    assert_eq!(built.iter().filter(|built| is_notice(built)).count(), 1, "{built:?}");
    let (notice, last) = (built.iter().position(is_notice), built.iter().rposition(behind));
    assert!(last.is_some() && notice > last, "{built:?}");
    let Built::NotifyResidency(_, address) = built[notice.unwrap()] else { unreachable!() };
    address
}

/// The memory that pages of the aperture show.
fn aperture(bench: &Bench, client: Client, pages: u64) -> Vec<Option<PhysicalPage>> {
    let state = bench.model.state();
    let space = state.systems[&client.guest].address_space;
    (0..pages).map(|page| state.page(space, APERTURE_START + page * PAGE_SIZE)).collect()
}

#[test]
fn the_driver_is_told_where_it_is_after_each_fill_and_transfer_and_when_it_is_evicted() {
    let (mut bench, client, log) = new();
    let allocation = paged(&mut bench, client, PAGES, ANYWHERE, PHYSICAL);
    assert_eq!(take(&log), []);
    bench.make_resident(client, &[allocation]).unwrap();
    assert_eq!(told(&log, |built| *built == Built::Fill), Some(LOCAL_START));
    // Making it resident again changes nothing.
    bench.make_resident(client, &[allocation]).unwrap();
    assert_eq!(take(&log), []);
    // Another needs the room: it is now in system memory, contiguous through the aperture.
    let other = paged(&mut bench, client, PAGES, SegmentSet::LOCAL, PLAIN);
    bench.make_resident(client, &[other]).unwrap();
    assert_eq!(told(&log, |built| *built == Built::Transfer), Some(APERTURE_START));
    let pages = aperture(&bench, client, PAGES);
    let is_home =
        |page: &Option<PhysicalPage>| page.is_some_and(|page| page.segment == Segment::Backing);
    assert!(pages.iter().all(is_home), "{pages:?}");
    bench.evict(client, &[allocation]).unwrap();
    assert_eq!(take(&log), [], "it is wanted once more");
    bench.evict(client, &[allocation]).unwrap();
    assert_eq!(told(&log, |built| *built == Built::Entries(None)), None);
    assert_eq!(aperture(&bench, client, 1), [None]);
    // It returns from system memory.
    bench.evict(client, &[other]).unwrap();
    bench.make_resident(client, &[allocation]).unwrap();
    assert_eq!(told(&log, |built| *built == Built::Transfer), Some(LOCAL_START));
    bench.call(client, &DestroyAllocation { allocation }).unwrap();
    assert_eq!(told(&log, |built| *built == Built::Entries(None)), None);
}

#[test]
fn what_is_taken_away_is_nowhere_until_it_comes_back() {
    let (mut bench, greedy, log) = new();
    let allocation = paged(&mut bench, greedy, PAGES, SegmentSet::LOCAL, PHYSICAL);
    bench.make_resident(greedy, &[allocation]).unwrap();
    assert_eq!(told(&log, |built| *built == Built::Fill), Some(LOCAL_START));
    assert_eq!(aperture(&bench, greedy, 1), [None], "it is never in system memory");
    let modest = bench.client(greedy.guest);
    take(&log);
    let other = paged(&mut bench, modest, PAGES / 2, SegmentSet::LOCAL, PLAIN);
    bench.make_resident(modest, &[other]).unwrap();
    let built = take(&log);
    let notices = built.iter().filter_map(|built| match built {
        Built::NotifyResidency(_, address) => Some(*address),
        _ => None,
    });
    assert_eq!(notices.collect::<Vec<_>>(), [None], "{built:?}");
    bench.evict(modest, &[other]).unwrap();
    assert_eq!(told(&log, |built| *built == Built::Transfer), Some(LOCAL_START));
}

#[test]
fn the_driver_is_told_nothing_of_what_is_not_accessed_physically() {
    let (mut bench, client, log) = new();
    let allocation = paged(&mut bench, client, PAGES, ANYWHERE, PLAIN);
    let other = paged(&mut bench, client, PAGES, SegmentSet::LOCAL, PLAIN);
    bench.make_resident(client, &[allocation]).unwrap();
    bench.make_resident(client, &[other]).unwrap();
    bench.evict(client, &[allocation, other]).unwrap();
    bench.call(client, &DestroyAllocation { allocation }).unwrap();
    let built = take(&log);
    assert!(built.contains(&Built::Fill) && built.contains(&Built::Transfer), "{built:?}");
    let is_notice = |built: &Built| matches!(built, Built::NotifyResidency(..));
    assert!(!built.iter().any(is_notice), "{built:?}");
}

#[test]
fn local_memory_is_discarded_when_its_content_goes_before_another_has_it_and_never_else() {
    let (mut bench, client, log) = new();
    let is_discard = |built: &Built| matches!(built, Built::Discard(..));
    let allocation = paged(&mut bench, client, PAGES, ANYWHERE, PLAIN);
    let other = paged(&mut bench, client, PAGES, SegmentSet::LOCAL, PLAIN);
    bench.make_resident(client, &[allocation]).unwrap();
    bench.make_resident(client, &[other]).unwrap();
    bench.evict(client, &[allocation]).unwrap();
    bench.call(client, &DestroyAllocation { allocation }).unwrap();
    // It was moved, evicted, and destroyed at home.
    assert!(!take(&log).iter().any(is_discard));
    bench.call(client, &DestroyAllocation { allocation: other }).unwrap();
    let fixed = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let built = take(&log);
    let discard = Built::Discard(LOCAL_START, PAGES * PAGE_SIZE);
    let place = |what: Built| built.iter().position(|built| *built == what);
    assert!(place(discard).is_some() && place(discard) < place(Built::Fill), "{built:?}");
    bench.call(client, &DestroyAllocation { allocation: fixed }).unwrap();
    assert!(take(&log).contains(&Built::Discard(LOCAL_START, PAGE_SIZE)));
}

#[test]
fn its_place_in_the_aperture_is_its_own_as_long_as_a_device_wants_it_resident() {
    let (mut bench, client, log) = new();
    let allocation = paged(&mut bench, client, PAGES, SegmentSet::SYSTEM, PHYSICAL);
    let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    bench.call(client, &OpenAllocation { device, allocation }).unwrap();
    bench.make_resident(client, &[allocation]).unwrap();
    bench.make_resident(Client { device, ..client }, &[allocation]).unwrap();
    let one = paged(&mut bench, client, 1, ANYWHERE, PHYSICAL);
    let full = |bench: &mut Bench| bench.make_resident(client, &[one]).unwrap_err().0;
    assert_eq!(full(&mut bench), Status::INSUFFICIENT_RESOURCES);
    bench.evict(client, &[allocation]).unwrap();
    assert_eq!(full(&mut bench), Status::INSUFFICIENT_RESOURCES);
    assert!(aperture(&bench, client, PAGES).iter().all(Option::is_some));
    take(&log);
    bench.evict(Client { device, ..client }, &[allocation]).unwrap();
    assert_eq!(told(&log, |built| *built == Built::Entries(None)), None);
    bench.make_resident(client, &[one]).unwrap();
}

#[test]
fn what_the_aperture_cannot_hold_is_refused_and_takes_nothing_of_it() {
    let (mut bench, client, log) = new();
    let one = paged(&mut bench, client, 1, ANYWHERE, PHYSICAL);
    let large = paged(&mut bench, client, PAGES + 1, ANYWHERE, PHYSICAL);
    let never = (Status::GRAPHICS_NO_VIDEO_MEMORY, (PAGES + 1) * PAGE_SIZE);
    assert_eq!(bench.make_resident(client, &[one, large]).unwrap_err(), never);
    let is_moved = |built: &Built| matches!(built, Built::Fill | Built::NotifyResidency(..));
    assert!(!take(&log).iter().any(is_moved));
    let whole = paged(&mut bench, client, PAGES, SegmentSet::SYSTEM, PHYSICAL);
    bench.make_resident(client, &[whole]).unwrap();
}
