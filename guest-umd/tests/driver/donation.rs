// SPDX-License-Identifier: MIT OR Apache-2.0

//! Areas of the BAR in memory of the driver's own.

use crate::device::{Answer, LAYOUT, ScriptedDevice, Shape, reply, success};
use crate::rig::error_of;
use bellhop_guest_umd::{Adapter, Error, Placement, PlacementPolicy, Placements};
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::adapter::DonateArea;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::sync::Arc;

const ALL: [AreaKind; 5] = [
    AreaKind::DOORBELLS,
    AreaKind::PROGRESS,
    AreaKind::STATUS,
    AreaKind::FENCES,
    AreaKind::LOCAL_MEMORY,
];

/// A device that takes memory for areas, with a BAR or without.
fn device(has_bar: bool) -> Arc<ScriptedDevice> {
    let features = Features::all();
    let usual = Shape::default();
    let bar = usual.bar.filter(|_| has_bar);
    let device = ScriptedDevice::with(Shape { features, opened: features, bar, ..usual });
    device.script(|_, sent| match sent.code {
        RequestCode::QUERY_BAR_LAYOUT => Answer::Reply(success(&LAYOUT.header())),
        RequestCode::DONATE_AREA => Answer::Reply(success(&())),
        _ => Answer::AsUsual,
    });
    device
}

fn open_with(device: &Arc<ScriptedDevice>, policy: PlacementPolicy) -> Result<Adapter, Error> {
    Adapter::open_with(Arc::clone(device) as _, policy)
}

/// The donated areas, after checking that each donation is as long as its area.
fn donated(device: &ScriptedDevice) -> Vec<AreaKind> {
    let is_donation = |code| code == RequestCode::DONATE_AREA;
    let sent = device.take_sent().into_iter().filter(|sent| is_donation(sent.code));
    let kind = |request: DonateArea| {
        let area = LAYOUT.areas().into_iter().find(|area| area.kind == request.kind).unwrap();
        assert_eq!((request.length, request.offset), (area.length, 0));
        request.kind
    };
    sent.map(|sent| kind(sent.read())).collect()
}

#[test]
fn without_a_bar_every_area_is_in_memory_of_the_drivers_before_there_is_a_process() {
    let device = device(false);
    let adapter = open_with(&device, PlacementPolicy::Measured).unwrap();
    assert_eq!(adapter.placements(), Placements::GUEST_MEMORY);
    assert_eq!(adapter.local_memory(), LAYOUT.local_memory);
    assert_eq!(adapter.costs(), None);
    let codes = device.take_codes();
    let expected = [RequestCode::OPEN_ADAPTER, RequestCode::QUERY_BAR_LAYOUT];
    assert_eq!(codes[..2], expected);
    assert_eq!(codes[2..7], [RequestCode::DONATE_AREA; 5]);
    let rest = [RequestCode::QUERY_USER_MODE_SUBMISSION_CAPS, RequestCode::CREATE_PROCESS];
    assert_eq!(codes[7..], rest);
}

#[test]
fn what_is_placed_in_guest_memory_is_donated_and_nothing_else() {
    let fences = Placements { fences: Placement::GuestMemory, ..Placements::BAR };
    for (placements, expected) in [
        (Placements::BAR, &ALL[..0]),
        (fences, &ALL[2..4]),
        (Placements::AROUND_SLOW_BAR, &ALL[..4]),
        (Placements::GUEST_MEMORY, &ALL[..]),
    ] {
        let device = device(true);
        let adapter = open_with(&device, PlacementPolicy::Fixed(placements)).unwrap();
        assert_eq!(adapter.placements(), placements);
        assert_eq!(donated(&device), expected);
    }
}

#[test]
fn a_second_driver_on_the_same_device_finds_what_the_first_has_donated() {
    let device = device(false);
    drop(open_with(&device, PlacementPolicy::Measured).unwrap());
    assert_eq!(donated(&device), ALL);
    let in_use = device.system_memory_in_use();
    drop(open_with(&device, PlacementPolicy::Measured).unwrap());
    assert_eq!(donated(&device), []);
    assert_eq!(device.system_memory_in_use(), in_use);
}

#[test]
fn a_device_that_takes_no_memory_is_asked_for_nothing_that_it_cannot_do() {
    let device = ScriptedDevice::new();
    let policy = PlacementPolicy::Fixed(Placements::GUEST_MEMORY);
    let error = error_of(open_with(&device, policy));
    assert!(matches!(error, Error::NotAvailable(_)), "{error}");
    assert_eq!(device.take_codes(), [RequestCode::OPEN_ADAPTER]);
}

#[test]
fn a_device_that_refuses_a_donation_is_an_error() {
    let device = device(false);
    device.script(|_, sent| match sent.code {
        RequestCode::QUERY_BAR_LAYOUT => Answer::Reply(success(&LAYOUT.header())),
        RequestCode::DONATE_AREA => Answer::Reply(reply(Status::DEVICE_BUSY, 1, &[])),
        _ => Answer::AsUsual,
    });
    let error = error_of(open_with(&device, PlacementPolicy::Measured));
    assert!(matches!(error, Error::Refused { status: Status::DEVICE_BUSY, .. }), "{error}");
    assert_eq!(device.system_memory_in_use(), 0);
}
