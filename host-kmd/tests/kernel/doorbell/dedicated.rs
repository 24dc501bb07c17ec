// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells: create, connect, victimise, destroy, and the order of the steps.

use crate::bench::{BAR, Bench, Client, USER_MODE};
use crate::model::Call;
use bellhop_host_kmd::hardware::PhysicalDoorbell;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::QueryStatistics;
use bellhop_protocol::control::allocation::{DestroyAllocation, Extent};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::doorbell::{CreateDoorbell, DestroyDoorbell, NotifyWorkSubmission};
use bellhop_protocol::control::gpu_va::{FreeGpuVirtualAddress, GPU_VA_END, MapGpuVirtualAddress};
use bellhop_protocol::control::hw_queue::HwQueueFlags;
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellPrivateData};
use bellhop_protocol::status::Status;

const RETRY: ConnectionStatus = ConnectionStatus::DISCONNECTED_RETRY;
const ABORT: ConnectionStatus = ConnectionStatus::DISCONNECTED_ABORT;
const CONNECTED: ConnectionStatus = ConnectionStatus::CONNECTED;

fn new(physical_doorbells: u32) -> (Bench, Client) {
    let mut bench = Bench::new(physical_doorbells);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    (bench, client)
}

#[test]
fn a_new_doorbell_has_its_ring_but_no_physical_doorbell() {
    let (mut bench, client) = new(2);
    let ring = bench.ring(client);
    let reply = bench.doorbell_on(client, ring).unwrap();
    assert_eq!(reply.doorbell_offset, BAR.doorbell(0));
    assert_eq!(reply.status_offset, BAR.status(0));
    assert_eq!(reply.last_queued_offset, BAR.last_queued(0));
    let state = bench.model.state();
    let binding = state.rings[&client.id];
    assert_eq!((binding.slot, binding.ring_size), (0, 2 * PAGE_SIZE));
    assert!(binding.ring_va >= GPU_VA_END && binding.control_va >= GPU_VA_END);
    assert_eq!(state.status[&client.id], RETRY);
    assert!(state.watches.is_empty());
}

#[test]
fn the_guest_cannot_touch_where_the_host_maps_rings() {
    let (mut bench, client) = new(2);
    let ring = bench.ring(client);
    bench.doorbell_on(client, ring).unwrap();
    let gpu_va = bench.model.state().rings[&client.id].ring_va;
    let free = FreeGpuVirtualAddress { gpu_va, size: 2 * PAGE_SIZE };
    let refused = (Status::CONFLICTING_ADDRESSES, gpu_va);
    assert_eq!(bench.call(client, &free).unwrap_err(), refused);
    let request = MapGpuVirtualAddress {
        allocation: ring.0,
        base: gpu_va,
        offset: 0,
        size: PAGE_SIZE,
        protection: 0,
        reserved: 0,
    };
    assert_eq!(bench.call(client, &request).unwrap_err().0, Status::INVALID_PARAMETER);
}

#[test]
fn connecting_watches_then_publishes_then_looks() {
    let (mut bench, client) = new(2);
    bench.doorbell(client);
    bench.model.take_log();
    assert_eq!(bench.connect(client).unwrap().status, CONNECTED);
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Watch(PhysicalDoorbell(0), client.id),
            Call::Connected(client.id, CONNECTED),
            Call::Kick(client.id),
        ]
    );
    // Connecting it again only makes the engine look: it may have armed the doorbell meanwhile.
    assert_eq!(bench.connect(client).unwrap().status, CONNECTED);
    assert_eq!(bench.model.take_log(), [Call::Kick(client.id)]);
}

#[test]
fn a_victims_status_is_published_before_its_doorbell_is_taken_and_looked_at_after() {
    let (mut bench, victim) = new(1);
    bench.doorbell(victim);
    bench.connect(victim).unwrap();
    let other = bench.guest(2);
    let client = bench.client(other);
    bench.doorbell(client);
    bench.model.take_log();
    bench.connect(client).unwrap();
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Disconnected(victim.id, RETRY),
            Call::Unwatch(PhysicalDoorbell(0)),
            Call::Kick(victim.id),
            Call::Watch(PhysicalDoorbell(0), client.id),
            Call::Connected(client.id, CONNECTED),
            Call::Kick(client.id),
        ]
    );
    // The guest that lost its doorbell is charged with a victim; it then takes the doorbell back.
    let query = QueryStatistics { reserved: 0 };
    assert_eq!(bench.ask(victim.guest, 0, &query).unwrap().victims, 1);
    assert_eq!(bench.ask(other, 0, &query).unwrap().victims, 0);
    bench.connect(victim).unwrap();
    assert_eq!(bench.model.state().status[&client.id], RETRY);
    assert_eq!(bench.model.state().status[&victim.id], CONNECTED);
}

#[test]
fn the_victim_is_the_queue_that_connected_or_notified_least_recently() {
    let (mut bench, first) = new(2);
    let doorbell = bench.doorbell(first);
    bench.connect(first).unwrap();
    let (second, _) = bench.connected(first.guest);
    bench.call(first, &NotifyWorkSubmission { doorbell }).unwrap();
    let (third, _) = bench.connected(first.guest);
    let status = |client: Client| bench.model.state().status[&client.id];
    assert_eq!(status(first), CONNECTED);
    assert_eq!(status(second), RETRY);
    assert_eq!(status(third), CONNECTED);
}

#[test]
fn a_queue_that_rings_is_no_victim_though_the_host_is_told_nothing_of_it() {
    let (mut bench, first) = new(2);
    bench.doorbell(first);
    bench.connect(first).unwrap();
    let (second, _) = bench.connected(first.guest);
    bench.model.state().use_doorbell(first.id);
    let (third, _) = bench.connected(first.guest);
    let status = |client: Client| bench.model.state().status[&client.id];
    assert_eq!([first, second, third].map(status), [CONNECTED, RETRY, CONNECTED]);
}

#[test]
fn a_guest_that_connects_without_end_takes_no_doorbell_of_another_guest_s_share() {
    let (mut bench, first) = new(4);
    bench.doorbell(first);
    bench.connect(first).unwrap();
    let (second, _) = bench.connected(first.guest);
    let greedy = bench.guest(2);
    bench.model.state().doorbell_shares = [(first.guest, 2), (greedy, 2)].into();
    let theirs: Vec<_> = (0..6).map(|_| bench.connected(greedy).0).collect();
    let query = QueryStatistics { reserved: 0 };
    assert_eq!(bench.ask(first.guest, 0, &query).unwrap().victims, 0);
    assert_eq!(bench.ask(greedy, 0, &query).unwrap().victims, 4);
    let status = |client: &Client| bench.model.state().status[&client.id];
    assert_eq!([first, second].each_ref().map(status), [CONNECTED; 2]);
    assert_eq!(theirs[4..].iter().map(status).collect::<Vec<_>>(), [CONNECTED; 2]);
}

#[test]
fn without_any_physical_doorbell_no_queue_connects() {
    let (mut bench, client) = new(0);
    bench.doorbell(client);
    assert_eq!(bench.connect(client).unwrap_err(), (Status::INSUFFICIENT_RESOURCES, 0));
    assert_eq!(bench.model.state().status[&client.id], RETRY);
}

#[test]
fn a_queue_without_a_doorbell_cannot_be_connected() {
    let (mut bench, client) = new(2);
    let refused = (Status::INVALID_PARAMETER, client.queue.0);
    assert_eq!(bench.connect(client).unwrap_err(), refused);
    let doorbell = bench.doorbell(client);
    bench.call(client, &DestroyDoorbell { doorbell }).unwrap();
    assert_eq!(bench.connect(client).unwrap_err(), refused);
}

#[test]
fn a_queue_for_kernel_mode_submission_has_no_doorbell() {
    let (mut bench, client) = new(2);
    let ring = bench.ring(client);
    let client = bench.queue(client, HwQueueFlags::empty());
    assert_eq!(bench.doorbell_on(client, ring).unwrap_err().0, Status::NOT_SUPPORTED);
    assert_eq!(bench.connect(client).unwrap_err().0, Status::NOT_SUPPORTED);
}

#[test]
fn a_queue_has_one_doorbell() {
    let (mut bench, client) = new(2);
    bench.doorbell(client);
    let ring = bench.ring(client);
    let refused = (Status::INVALID_PARAMETER, client.queue.0);
    assert_eq!(bench.doorbell_on(client, ring).unwrap_err(), refused);
}

#[test]
fn a_ring_must_be_one() {
    let (mut bench, client) = new(2);
    let (ring, control) = bench.ring(client);
    let odd = bench.local(client, 3 * PAGE_SIZE).unwrap().allocation;
    let refused = (Status::INVALID_PARAMETER, 3 * PAGE_SIZE);
    assert_eq!(bench.doorbell_on(client, (odd, control)).unwrap_err(), refused);
    let refused = (Status::INVALID_PARAMETER, ring.0);
    assert_eq!(bench.doorbell_on(client, (ring, ring)).unwrap_err(), refused);

    // Pointers that are not 0: the guest wrote to the first page of local memory after the ring.
    let offset = 2 * PAGE_SIZE;
    for field in [0, 64] {
        bench.model.state().local_words.insert((client.guest, offset + field), 24);
        let refused = (Status::INVALID_PARAMETER, 24);
        assert_eq!(bench.doorbell_on(client, (ring, control)).unwrap_err(), refused);
        bench.model.state().local_words.clear();
    }

    let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    let other = bench.local(Client { device, ..client }, PAGE_SIZE).unwrap().allocation;
    let refused = (Status::INVALID_PARAMETER, other.0);
    assert_eq!(bench.doorbell_on(client, (ring, other)).unwrap_err(), refused);
    let request = CreateDoorbell { flags: 1, ..CreateDoorbell::new(client.queue, ring, control) };
    assert_eq!(bench.call(client, &request).unwrap_err(), (Status::INVALID_PARAMETER, 1));
    bench.doorbell_on(client, (ring, control)).unwrap();
}

#[test]
fn a_ring_may_be_in_scattered_system_memory() {
    let (mut bench, client) = new(2);
    let scattered = [9, 4].map(|page| Extent { address: page * PAGE_SIZE, length: PAGE_SIZE });
    let ring = bench.system(client, 2 * PAGE_SIZE, &scattered).unwrap().allocation;
    let control = bench.system(client, PAGE_SIZE, &scattered[..1]).unwrap().allocation;
    bench.doorbell_on(client, (ring, control)).unwrap();
    bench.connect(client).unwrap();
}

#[test]
fn ring_allocations_are_busy_for_the_doorbells_life() {
    let (mut bench, client) = new(2);
    let ring = bench.ring(client);
    let doorbell = bench.doorbell_on(client, ring).unwrap().doorbell;
    let busy =
        |handle: bellhop_protocol::control::Handle| (Status::GRAPHICS_ALLOCATION_BUSY, handle.0);
    for allocation in [ring.0, ring.1] {
        let request = DestroyAllocation { allocation };
        assert_eq!(bench.call(client, &request).unwrap_err(), busy(allocation));
    }
    bench.model.state().prompt = false;
    let token = bench.begin(client, &DestroyDoorbell { doorbell });
    let request = DestroyAllocation { allocation: ring.0 };
    assert_eq!(bench.call(client, &request).unwrap_err(), busy(ring.0));
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    bench.model.state().prompt = true;
    bench.call(client, &request).unwrap();
}

#[test]
fn destroying_a_doorbell_disconnects_it_and_then_takes_the_ring_away() {
    let (mut bench, client) = new(2);
    let doorbell = bench.doorbell(client);
    bench.connect(client).unwrap();
    let ring_va = bench.model.state().rings[&client.id].ring_va;
    bench.model.state().prompt = false;
    bench.model.take_log();
    let token = bench.begin(client, &DestroyDoorbell { doorbell });
    let log = bench.model.take_log();
    assert_eq!(
        log[..4],
        [
            Call::Disconnected(client.id, ABORT),
            Call::Unwatch(PhysicalDoorbell(0)),
            Call::Kick(client.id),
            Call::Unbind(client.id),
        ]
    );
    assert!(log.contains(&Call::Invalidate(ring_va)));
    assert_eq!(log.last(), Some(&Call::Quiesce));

    // Until engines have forgotten it, the queue cannot have another, and the slot is not free.
    let ring = bench.ring(client);
    assert!(bench.doorbell_on(client, ring).is_err());
    let second = bench.queue(client, USER_MODE);
    let reply = bench.doorbell_on(second, ring).unwrap();
    assert_eq!(reply.status_offset, BAR.status(1));
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    let ring = bench.ring(client);
    assert_eq!(bench.doorbell_on(client, ring).unwrap().status_offset, BAR.status(0));
    bench.connect(client).unwrap();
}

#[test]
fn doorbell_slots_run_out_and_what_was_taken_before_comes_back() {
    let (mut bench, client) = new(2);
    let mut last = client;
    for _ in 0..BAR.doorbell_count {
        bench.doorbell(last);
        last = bench.queue(client, USER_MODE);
    }
    let ring = bench.ring(last);
    let refused = (Status::QUOTA_EXCEEDED, BAR.doorbell_count.into());
    assert_eq!(bench.doorbell_on(last, ring).unwrap_err(), refused);
    bench.call(last, &DestroyAllocation { allocation: ring.0 }).unwrap();
}

#[test]
fn a_doorbell_that_page_tables_have_no_room_for_leaves_nothing_behind() {
    let (mut bench, client) = new(2);
    let ring = bench.ring(client);
    bench.model.state().page_table_room = 2;
    let refused = bench.doorbell_on(client, ring).unwrap_err();
    assert_eq!(refused.0, Status::INSUFFICIENT_RESOURCES);
    bench.call(client, &DestroyAllocation { allocation: ring.0 }).unwrap();
    bench.model.state().page_table_room = 64;
    let ring = (bench.local(client, PAGE_SIZE).unwrap().allocation, ring.1);
    assert_eq!(bench.doorbell_on(client, ring).unwrap().status_offset, BAR.status(0));
}

#[test]
fn a_notify_is_a_look_and_is_counted() {
    let (mut bench, client) = new(2);
    let doorbell = bench.doorbell(client);
    bench.model.take_log();
    // A notify of a disconnected doorbell is harmless: late ones happen.
    bench.call(client, &NotifyWorkSubmission { doorbell }).unwrap();
    bench.connect(client).unwrap();
    bench.model.take_log();
    bench.call(client, &NotifyWorkSubmission { doorbell }).unwrap();
    assert_eq!(bench.model.take_log(), [Call::Kick(client.id)]);
    let query = QueryStatistics { reserved: 0 };
    assert_eq!(bench.ask(client.guest, 0, &query).unwrap().notifies, 2);
}

#[test]
fn a_doorbell_that_is_refused_over_its_private_data_leaves_the_next_one_alone() {
    let (mut bench, client) = new(2);
    let (ring_buffer, ring_control) = bench.ring(client);
    bench.model.state().prompt = false;
    let bad = CreateDoorbell {
        private_data: DoorbellPrivateData { flags: 2, ..DoorbellPrivateData::default() },
        ..CreateDoorbell::new(client.queue, ring_buffer, ring_control)
    };
    assert_eq!(bench.call(client, &bad).unwrap_err(), (Status::INVALID_PARAMETER, 2));
    bench.doorbell_on(client, (ring_buffer, ring_control)).unwrap();
    bench.pass_tickets();
    let destroy = DestroyAllocation { allocation: ring_buffer };
    assert_eq!(bench.call(client, &destroy).unwrap_err().0, Status::GRAPHICS_ALLOCATION_BUSY);
    bench.model.state().prompt = true;
    bench.input(bellhop_host_kmd::port::Input::Detach { guest: client.guest });
    assert!(bench.model.is_empty());
}

#[test]
fn a_ring_that_could_not_be_mapped_can_be_evicted_and_come_back() {
    let (mut bench, client) = new(2);
    let (ring_buffer, ring_control) = bench.ring(client);
    // Room for the ring's two pages but not for its control.
    bench.model.state().page_table_room = 2;
    assert!(bench.doorbell_on(client, (ring_buffer, ring_control)).is_err());
    bench.model.state().page_table_room = 100;
    for allocation in [ring_buffer, ring_control] {
        bench.evict(client, &[allocation]).unwrap();
        bench.make_resident(client, &[allocation]).unwrap();
    }
    // The model asserts that nothing is mapped where something is mapped already.
    bench.doorbell_on(client, (ring_buffer, ring_control)).unwrap();
}
