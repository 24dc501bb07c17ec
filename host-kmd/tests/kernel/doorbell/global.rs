// SPDX-License-Identifier: MIT OR Apache-2.0

//! The global doorbell model: one doorbell, no victims.

use crate::bench::{BAR, Bench};
use crate::model::Call;
use bellhop_host_kmd::hardware::DoorbellModel;
use bellhop_protocol::control::adapter::{
    CAPS_GLOBAL_DOORBELL, QueryStatistics, QueryUserModeSubmissionCaps,
};
use bellhop_protocol::control::doorbell::DestroyDoorbell;
use bellhop_protocol::doorbell::{ConnectionStatus, RingTag};
use std::collections::BTreeSet;

fn new() -> Bench {
    // Physical doorbells do not matter: there may be none.
    let bench = Bench::new(0);
    bench.model.state().model = DoorbellModel::Global;
    bench
}

#[test]
fn the_caps_say_that_all_queues_have_one_doorbell() {
    let mut bench = new();
    let guest = bench.guest(1);
    let caps = bench.ask(guest, 0, &QueryUserModeSubmissionCaps { reserved: 0 }).unwrap();
    assert_eq!((caps.flags, caps.physical_doorbells), (CAPS_GLOBAL_DOORBELL, 1));
}

#[test]
fn all_doorbells_have_one_word_and_each_its_status_and_its_tag() {
    let mut bench = new();
    let guest = bench.guest(1);
    let mut tags = BTreeSet::new();
    for slot in 0..BAR.doorbell_count {
        let client = bench.client(guest);
        let ring = bench.ring(client);
        let reply = bench.doorbell_on(client, ring).unwrap();
        assert_eq!(reply.doorbell_offset, BAR.doorbell(0));
        assert_eq!(reply.status_offset, BAR.status(slot));
        assert_eq!(reply.last_queued_offset, BAR.last_queued(slot));
        assert_eq!(RingTag::slot_of(reply.ring_tag.value(9)), slot);
        assert!(tags.insert(reply.ring_tag.0));
    }
}

#[test]
fn a_slots_next_doorbell_has_another_tag() {
    let mut bench = new();
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let mut tags = BTreeSet::new();
    for _ in 0..5 {
        let ring = bench.ring(client);
        let reply = bench.doorbell_on(client, ring).unwrap();
        assert_eq!(reply.status_offset, BAR.status(0));
        assert!(tags.insert(reply.ring_tag.0));
        bench.call(client, &DestroyDoorbell { doorbell: reply.doorbell }).unwrap();
    }
}

#[test]
fn every_queue_is_connected_at_once_and_none_is_a_victim() {
    let mut bench = new();
    let guests = [bench.guest(1), bench.guest(2)];
    let clients: Vec<_> = (0..8).map(|number| bench.connected(guests[number % 2])).collect();
    for (client, _) in &clients {
        assert_eq!(bench.model.state().status[&client.id], ConnectionStatus::CONNECTED);
    }
    for guest in guests {
        let statistics = bench.ask(guest, 0, &QueryStatistics { reserved: 0 }).unwrap();
        assert_eq!(statistics.victims, 0);
    }
}

#[test]
fn connecting_and_disconnecting_keep_their_order() {
    let mut bench = new();
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let doorbell = bench.doorbell(client);
    bench.model.take_log();
    bench.connect(client).unwrap();
    assert_eq!(
        bench.model.take_log(),
        [
            Call::WatchGlobal(client.id),
            Call::Connected(client.id, ConnectionStatus::CONNECTED),
            Call::Kick(client.id),
        ]
    );
    bench.connect(client).unwrap();
    assert_eq!(bench.model.take_log(), [Call::Kick(client.id)]);
    bench.call(client, &DestroyDoorbell { doorbell }).unwrap();
    assert_eq!(
        bench.model.take_log()[..4],
        [
            Call::Disconnected(client.id, ConnectionStatus::DISCONNECTED_ABORT),
            Call::UnwatchGlobal(client.id),
            Call::Kick(client.id),
            Call::Unbind(client.id),
        ]
    );
}
