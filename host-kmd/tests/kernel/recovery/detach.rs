// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests that detach.

use crate::bench::{Bench, map};
use crate::model::Call;
use bellhop_host_kmd::hardware::{GuestId, PhysicalDoorbell, SlotValue};
use bellhop_host_kmd::port::{AdapterId, Effect, Input};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::doorbell::ConnectionStatus;

#[test]
fn a_guest_is_detached_when_no_engine_touches_it_and_leaves_nothing() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let (one, _) = bench.connected(guest);
    let (two, _) = bench.connected(guest);
    let allocation = bench.local(one, 4096).unwrap().allocation;
    bench.call(one, &map(allocation, 0, 4096)).unwrap();
    bench.wait(one, two.fence, 9, 1);
    bench.model.state().prompt = false;
    let unanswered = bench.begin(one, &DestroyDevice { device: one.device });
    bench.model.take_log();

    bench.input(Input::Detach { guest });
    let system = bench.model.state().systems[&guest].hw_queue;
    let always = vec![SlotValue { slot: two.fence_slot, value: u64::MAX }];
    // The guest takes over the end of its device, which engines have not left.
    let always_one = vec![SlotValue { slot: one.fence_slot, value: u64::MAX }];
    let lost = [
        Call::Suspend(vec![one.id]),
        Call::Signal(always_one, true),
        Call::Suspend(vec![two.id]),
        Call::Disconnected(two.id, ConnectionStatus::DISCONNECTED_ABORT),
        Call::Unwatch(PhysicalDoorbell(1)),
        Call::Kick(two.id),
        Call::Signal(always, true),
        Call::Suspend(vec![system]),
        Call::Quiesce,
    ];
    assert_eq!(bench.model.take_log(), lost);
    bench.pass_tickets();
    let log = bench.model.take_log();
    assert!(log.contains(&Call::DestroyQueue(two.id)));
    assert_eq!(log.last(), Some(&Call::Quiesce));
    assert_eq!(bench.detached, []);
    // A request that arrives late and a second detach change nothing.
    let late = bench.begin(two, &CreateDevice { reserved: 0 });
    bench.input(Input::Detach { guest });
    assert_eq!(bench.model.take_log(), []);

    bench.pass_tickets();
    assert_eq!(bench.detached, [guest]);
    assert_eq!(bench.outcome(one, unanswered), None);
    assert_eq!(bench.outcome(two, late), None);
    assert!(bench.model.is_empty());
}

#[test]
fn a_guest_that_never_came_is_detached_at_once() {
    let mut bench = Bench::new(2);
    let mut effects = Vec::new();
    bench.kernel.handle(AdapterId(0), Input::Detach { guest: GuestId(3) }, &mut effects);
    assert_eq!(effects, [Effect::Detached { guest: GuestId(3) }]);
}

#[test]
fn other_guests_carry_on_and_get_the_doorbells() {
    let mut bench = Bench::new(1);
    let (leaving, staying) = (bench.guest(1), bench.guest(2));
    let (client, _) = bench.connected(staying);
    bench.connected(leaving);
    bench.input(Input::Detach { guest: leaving });
    assert_eq!(bench.detached, [leaving]);
    bench.model.take_log();
    bench.connect(client).unwrap();
    let log = bench.model.take_log();
    assert!(!log.iter().any(|call| matches!(call, Call::Disconnected(..))), "{log:?}");
    // In this test the id attaches again; nothing of the first guest is left.
    let again = bench.guest(1);
    bench.connected(again);
}
