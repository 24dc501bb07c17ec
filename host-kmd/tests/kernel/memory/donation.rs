// SPDX-License-Identifier: MIT OR Apache-2.0

//! Areas of the BAR in the guest's own memory.

use crate::bench::{BAR, Bench, RESOURCES, Refused, USER_MODE, bytes_with_list};
use crate::display::{address, begin_flip, caps, commit, monitor, path, vsync};
use crate::model::{Call, GUEST_MEMORY, Model};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{GuestId, PhysicalAddress, PhysicalPage, Segment};
use bellhop_host_kmd::port::{GuestResources, Input};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::adapter::{DonateArea, QueryBarLayout};
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::flip::{FlipFlags, SetPointerShape, SetVidPnSourceAddress};
use bellhop_protocol::control::hw_queue::CreateHwQueue;
use bellhop_protocol::control::process::DestroyProcess;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::sync::Arc;

const AREAS: [AreaKind; 4] =
    [AreaKind::DOORBELLS, AreaKind::PROGRESS, AreaKind::STATUS, AreaKind::FENCES];

fn length_of(kind: AreaKind) -> u64 {
    BAR.areas().iter().find(|area| area.kind == kind).unwrap().length
}

/// The features that user-mode submission needs, apart from areas in memory.
const WANTED: Features = Features::USER_MODE_SUBMISSION.union(Features::NATIVE_FENCES);

/// A guest of a VMM that maps no BAR.
fn guest_without_bar(bench: &mut Bench) -> GuestId {
    let guest = GuestId(1);
    let features = WANTED | Features::DONATED_AREAS;
    let resources = GuestResources { bar_mapped: false, features, ..RESOURCES };
    bench.input(Input::Attach { guest, resources });
    bench.open_with(guest, features).unwrap();
    guest
}

fn donate(
    bench: &mut Bench,
    guest: GuestId,
    (kind, length, offset): (AreaKind, u64, u64),
    extents: &[Extent],
) -> Refused {
    let request = DonateArea { kind, extent_count: extents.len() as u32, length, offset };
    bench.raw(guest, bytes_with_list(0, &request, extents))
}

fn donate_whole(bench: &mut Bench, guest: GuestId, kind: AreaKind) -> Refused {
    let length = length_of(kind);
    let address = u64::from(kind.0) << 20;
    donate(bench, guest, (kind, length, 0), &[Extent { address, length }])
}

const DONE: Refused = (Status::SUCCESS, 0);

#[test]
fn the_layout_is_told_without_a_bar() {
    let mut bench = Bench::new(2);
    let guest = guest_without_bar(&mut bench);
    let header = bench.ask(guest, 0, &QueryBarLayout { reserved: 0 }).unwrap();
    assert_eq!(header, BAR.header());
}

#[test]
fn without_a_bar_user_mode_submission_takes_donated_areas() {
    let mut bench = Bench::new(2);
    let guest = guest_without_bar(&mut bench);
    let both = WANTED | Features::DONATED_AREAS;
    for (wanted, on) in [
        (both, both),
        (WANTED, Features::NATIVE_FENCES),
        (Features::DONATED_AREAS, Features::DONATED_AREAS),
    ] {
        let info = bench.open_with(guest, wanted).unwrap();
        assert_eq!(info.features, on.bits());
    }
}

#[test]
fn user_mode_queues_need_doorbells_that_the_guest_reaches() {
    let mut bench = Bench::new(2);
    let guest = guest_without_bar(&mut bench);
    let process = bench.process(guest);
    let device = bench.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap();
    let context = bench.ask(guest, process, &CreateContext { device, node: 0, engine_affinity: 0 });
    let flags = USER_MODE.bits();
    let queue = CreateHwQueue { context: context.unwrap(), flags, reserved: 0 };
    assert_eq!(bench.ask(guest, process, &queue).unwrap_err().0, Status::NOT_SUPPORTED);

    // Donating is refused while a process exists.
    let busy = (Status::DEVICE_BUSY, AreaKind::DOORBELLS.0.into());
    assert_eq!(donate_whole(&mut bench, guest, AreaKind::DOORBELLS), busy);
    bench.send(guest, crate::bench::bytes(process, &DestroyProcess { flags: 0 }));
    bench.pass_tickets();
    for area in AREAS {
        assert_eq!(donate_whole(&mut bench, guest, area), DONE);
        assert_eq!(bench.model.state().placed[&(guest, area)], length_of(area));
        assert_eq!(donate_whole(&mut bench, guest, area).0, Status::DEVICE_BUSY);
    }
    bench.client(guest);
}

#[test]
fn an_area_is_in_force_when_all_of_it_is_there() {
    let mut bench = Bench::new(2);
    let guest = guest_without_bar(&mut bench);
    let kind = AreaKind::DOORBELLS;
    let length = length_of(kind);
    let extent = |pages| Extent { address: 0x10_0000, length: pages * PAGE_SIZE };
    let request = |offset: u64| (kind, length, offset * PAGE_SIZE);
    assert_eq!(donate(&mut bench, guest, request(0), &[extent(2), extent(1)]), DONE);
    assert!(bench.model.state().placed.is_empty());
    // It must follow the earlier pieces.
    for offset in [1, 2, 4] {
        let refused = donate(&mut bench, guest, request(offset), &[extent(1)]);
        assert_eq!(refused, (Status::INVALID_PARAMETER, offset * PAGE_SIZE));
    }
    let rest = length / PAGE_SIZE - 3;
    assert_eq!(
        donate(&mut bench, guest, request(3), &[extent(rest + 1)]).0,
        Status::INVALID_PARAMETER
    );
    // A donation may start over.
    assert_eq!(donate(&mut bench, guest, request(0), &[extent(3)]), DONE);
    assert_eq!(donate(&mut bench, guest, request(3), &[extent(rest)]), DONE);
    assert_eq!(bench.model.state().placed[&(guest, kind)], length);
}

#[test]
fn the_last_part_of_a_donation_that_fails_can_be_tried_again() {
    let mut bench = Bench::new(2);
    let guest = guest_without_bar(&mut bench);
    let kind = AreaKind::DOORBELLS;
    let length = length_of(kind);
    let extent = |pages| Extent { address: 0x10_0000, length: pages * PAGE_SIZE };
    let request = |offset: u64| (kind, length, offset * PAGE_SIZE);
    let rest = extent(length / PAGE_SIZE - 2);
    assert_eq!(donate(&mut bench, guest, request(0), &[extent(2)]), DONE);
    bench.model.state().places_nothing = true;
    let refused = donate(&mut bench, guest, request(2), &[rest]);
    assert_eq!(refused.0, Status::INVALID_PARAMETER);
    bench.model.state().places_nothing = false;
    assert_eq!(donate(&mut bench, guest, request(2), &[rest]), DONE);
    assert_eq!(bench.model.state().placed[&(guest, kind)], length);
}

#[test]
fn what_is_no_area_or_no_memory_is_refused() {
    let mut bench = Bench::new(2);
    let guest = guest_without_bar(&mut bench);
    let length = length_of(AreaKind::STATUS);
    let extent = Extent { address: 0, length };
    let all = (AreaKind::STATUS, length, 0);
    for (request, extent) in [
        ((AreaKind::NONE, length, 0), extent),
        ((AreaKind(77), length, 0), extent),
        ((AreaKind::STATUS, length + PAGE_SIZE, 0), extent),
        ((AreaKind::STATUS, 0, 0), extent),
        (all, Extent { address: GUEST_MEMORY, length }),
        (all, Extent { address: 1, length }),
        (all, Extent { address: u64::MAX - PAGE_SIZE + 1, length }),
        (all, Extent { address: 0, length: 0 }),
        (all, Extent { address: 0, length: length + PAGE_SIZE }),
        ((AreaKind::LOCAL_MEMORY, BAR.local_memory + PAGE_SIZE, 0), extent),
    ] {
        let refused = donate(&mut bench, guest, request, &[extent]);
        assert_eq!(refused.0, Status::INVALID_PARAMETER, "{request:?} {extent:?}");
    }
    assert_eq!(donate(&mut bench, guest, all, &[extent]), DONE);

    // A guest that has not negotiated donated areas.
    let guest = bench.guest(2);
    assert_eq!(donate(&mut bench, guest, all, &[extent]).0, Status::NOT_SUPPORTED);
}

#[test]
fn donated_local_memory_is_given_out_zeroed_and_taken_back() {
    let mut bench = Bench::new(2);
    let guest = guest_without_bar(&mut bench);
    for area in AREAS {
        donate_whole(&mut bench, guest, area);
    }
    let (high, low) = (0x30_0000, 0x20_0000);
    let extents = [
        Extent { address: high, length: 2 * PAGE_SIZE },
        Extent { address: low, length: 2 * PAGE_SIZE },
    ];
    let donation = (AreaKind::LOCAL_MEMORY, 4 * PAGE_SIZE, 0);
    assert_eq!(donate(&mut bench, guest, donation, &extents), DONE);
    let client = bench.client(guest);
    bench.model.state().log.clear();
    let own = |address| PhysicalPage { segment: Segment::System, address };
    let first = bench.local(client, 3 * PAGE_SIZE).unwrap();
    assert_eq!(first.bar_offset, BAR.local_memory());
    assert_eq!(
        bench.model.state().log,
        [
            Call::FillPage(guest, own(high), 0),
            Call::FillPage(guest, own(high + PAGE_SIZE), 0),
            Call::FillPage(guest, own(low), 0),
        ]
    );
    let second = bench.local(client, PAGE_SIZE).unwrap();
    assert_eq!(second.bar_offset, BAR.local_memory() + 3 * PAGE_SIZE);
    // Local memory is as large as the donation, not as the BAR's area.
    assert_eq!(bench.local(client, PAGE_SIZE).unwrap_err().0, Status::GRAPHICS_NO_VIDEO_MEMORY);
    bench.input(Input::Detach { guest });
    bench.pass_tickets();
    assert_eq!(bench.detached, [guest]);
}

#[test]
fn a_display_shows_donated_memory_that_is_in_one_piece_and_refuses_what_is_in_two() {
    let model = Arc::new(Model::with_displays(caps()));
    let mut bench = Bench::of(vec![model], Limits::default());
    let guest = guest_without_bar(&mut bench);
    for area in AREAS {
        donate_whole(&mut bench, guest, area);
    }
    // A picture takes two pages.
    let piece = |address| Extent { address, length: 2 * PAGE_SIZE };
    let donation = (AreaKind::LOCAL_MEMORY, 4 * PAGE_SIZE, 0);
    assert_eq!(donate(&mut bench, guest, donation, &[piece(0x30_0000), piece(0x20_0000)]), DONE);
    let client = bench.client(guest);
    bench.model.plug(guest, 0, Some(monitor()));
    bench.interrupt();
    commit(&mut bench, client, &[path(0, 0)]).unwrap();
    let allocation = bench.local(client, 4 * PAGE_SIZE).unwrap().allocation;
    let mut flip = |offset: u64, number| {
        let request = address(allocation, number, FlipFlags::empty());
        let request = SetVidPnSourceAddress { offset, ..request };
        let token = begin_flip(&mut bench, client, request, &[]);
        let (header, _) = bench.reply(guest, token).expect("an answer at once");
        vsync(&mut bench, guest, 0);
        let shown = bench.model.state().displays.source(guest, 0).shown;
        ((header.status, header.detail), shown.map(|shown| shown.base))
    };
    let at = |address| Some(PhysicalAddress { segment: Segment::System, address });
    assert_eq!(flip(0, 1), (DONE, at(0x30_0000)));
    let scattered = (Status::GRAPHICS_ALLOCATION_INVALID, allocation.0);
    assert_eq!(flip(PAGE_SIZE, 2), (scattered, at(0x30_0000)));
    assert_eq!(flip(2 * PAGE_SIZE, 3), (DONE, at(0x20_0000)));
    let shape = SetPointerShape {
        source: 0,
        width: 64,
        height: 32,
        pitch: 256,
        hot_x: 0,
        hot_y: 0,
        allocation,
        offset: PAGE_SIZE,
    };
    assert_eq!(bench.call(client, &shape), Err(scattered));
    bench.call(client, &SetPointerShape { offset: 0, ..shape }).unwrap();
}
