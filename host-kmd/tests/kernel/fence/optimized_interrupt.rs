// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interrupts that name a HW queue. The queue's log names the signaled fences.
//!
//! Source: native GPU fence object, "Optimized Native Fence Signaled Interrupt".

use crate::bench::{Bench, Client, USER_MODE};
use crate::model::{Call, Model};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{GlobalFence, GuestId, HwQueueId, Interrupt};
use bellhop_protocol::control::fence::{
    CreateNativeFence, DestroyNativeFence, FenceFlags, OpenNativeFence, OpenedFence,
    ShareNativeFence,
};
use bellhop_protocol::control::hw_queue::{DestroyHwQueue, HwQueueFlags};
use bellhop_protocol::fence_log::FenceLogOperation;
use bellhop_protocol::status::Status;
use std::sync::Arc;

const SIGNAL: FenceLogOperation = FenceLogOperation::SIGNAL_EXECUTED;

fn bench() -> (Bench, Client) {
    let mut model = Model::new(2);
    model.optimized_fence_interrupt = true;
    let mut bench = Bench::of(vec![Arc::new(model)], Limits::default());
    let guest = bench.guest(1);
    let client = bench.client(guest);
    (bench, client)
}

fn fence(bench: &mut Bench, client: Client, flags: FenceFlags) -> OpenedFence {
    let request =
        CreateNativeFence { flags: flags.bits(), ..CreateNativeFence::new(client.device, 0) };
    bench.call(client, &request).unwrap()
}

fn wait(bench: &mut Bench, client: Client, fence: OpenedFence, value: u64, cookie: u64) {
    let token = bench.wait(client, fence.fence, value, cookie);
    assert_eq!(bench.outcome(client, token), Some(Status::PENDING));
}

/// An engine signals a fence by its name, and logs the signal.
fn signal(bench: &Bench, client: Client, global: u32, name: u32, value: u64) {
    bench.model.write(client.guest, global, value);
    bench.model.log(client.id, SIGNAL, name, value);
}

fn interrupt(bench: &mut Bench, queue: Option<HwQueueId>) {
    bench.raise(Interrupt::NativeFencesLogged { node: 0, engine: 0, queue });
}

fn told(bench: &Bench) -> Vec<u64> {
    bench.events.iter().map(|(_, event)| event.cookie).collect()
}

#[test]
fn every_fence_that_the_queue_has_logged_is_looked_at_for_one_interrupt() {
    let (mut bench, a) = bench();
    let [f1, f2, other] = [0; 3].map(|_| fence(&mut bench, a, FenceFlags::empty()));
    let b = bench.queue(a, USER_MODE);
    for (fence, value, cookie) in
        [(f1, 10, 1), (f1, 20, 2), (f2, 30, 3), (f1, 21, 4), (other, 1, 5)]
    {
        wait(&mut bench, a, fence, value, cookie);
    }
    // E1 to E4 of the reference; only the last interrupts.
    for (fence, value) in [(f1, 10), (f1, 20), (f2, 30), (f2, 30)] {
        signal(&bench, a, fence.slot, fence.slot, value);
    }
    // Another queue has logged a signal, too, but was not named.
    signal(&bench, b, other.slot, other.slot, 1);
    bench.model.take_log();
    interrupt(&mut bench, Some(a.id));
    assert_eq!(told(&bench), [1, 2, 3]);
    let flushed = |call: Call| matches!(call, Call::FlushLogs(queues) if queues == [a.id]);
    assert_eq!(bench.model.take_log().into_iter().filter(|call| flushed(call.clone())).count(), 1);
    // If the queue is not known, the logs of all queues of the engine are read.
    interrupt(&mut bench, None);
    assert_eq!(told(&bench), [1, 2, 3, 5]);
}

#[test]
fn an_entry_of_a_log_satisfies_no_wait_but_the_value_does() {
    let (mut bench, client) = bench();
    let [fence, other] = [0; 2].map(|_| fence(&mut bench, client, FenceFlags::empty()));
    wait(&mut bench, client, fence, 5, 1);
    wait(&mut bench, client, other, 5, 2);
    bench.model.write(client.guest, fence.slot, 4);
    for slot in [fence.slot, other.slot, 63, u32::MAX] {
        bench.model.log(client.id, SIGNAL, slot, u64::MAX);
    }
    interrupt(&mut bench, Some(client.id));
    assert!(bench.events.is_empty());
    // An entry may also tell a lower value.
    bench.model.write(client.guest, fence.slot, 5);
    bench.model.log(client.id, SIGNAL, fence.slot, 0);
    interrupt(&mut bench, Some(client.id));
    assert_eq!(told(&bench), [1]);
}

#[test]
fn all_fences_are_looked_at_when_entries_were_overwritten() {
    let (mut bench, client) = bench();
    let [fence, other] = [0; 2].map(|_| fence(&mut bench, client, FenceFlags::empty()));
    wait(&mut bench, client, fence, 1, 1);
    signal(&bench, client, fence.slot, fence.slot, 1);
    for value in 1..=84 {
        signal(&bench, client, other.slot, other.slot, value);
    }
    interrupt(&mut bench, Some(client.id));
    assert_eq!(told(&bench), [1]);
}

#[test]
fn what_a_queue_logged_that_is_gone_has_the_fences_of_its_guest_looked_at_and_no_others() {
    let (mut bench, client) = bench();
    let own = fence(&mut bench, client, FenceFlags::empty());
    let neighbour = bench.guest(2);
    let neighbour = bench.client(neighbour);
    let theirs = fence(&mut bench, neighbour, FenceFlags::empty());
    let gone = bench.queue(client, HwQueueFlags::empty());
    wait(&mut bench, client, own, 2, 2);
    wait(&mut bench, neighbour, theirs, 2, 3);
    signal(&bench, gone, own.slot, own.slot, 2);
    // No interrupt has reported this yet.
    bench.model.write(neighbour.guest, theirs.slot, 2);
    bench.call(client, &DestroyHwQueue { hw_queue: gone.queue }).unwrap();
    bench.raise(Interrupt::GoneQueueLogged { guest: client.guest });
    assert_eq!(told(&bench), [2]);
    // If the guest is gone, too, no fence is checked.
    bench.raise(Interrupt::GoneQueueLogged { guest: GuestId(9) });
    assert_eq!(told(&bench), [2]);
}

#[test]
fn an_interrupt_that_names_a_fence_takes_no_entry_away_from_one_that_names_the_queue() {
    let (mut bench, client) = bench();
    let [logged, fused] = [0; 2].map(|_| fence(&mut bench, client, FenceFlags::empty()));
    wait(&mut bench, client, logged, 1, 1);
    wait(&mut bench, client, fused, 1, 2);
    signal(&bench, client, logged.slot, logged.slot, 1);
    bench.model.write(client.guest, fused.slot, 1);
    let signaled = vec![GlobalFence { guest: client.guest, slot: fused.slot }];
    bench.raise(Interrupt::NativeFenceSignaled {
        signaled,
        evaluate_legacy_monitored_fences: false,
    });
    assert_eq!(told(&bench), [2]);
    interrupt(&mut bench, Some(client.id));
    assert_eq!(told(&bench), [2, 1]);
}

#[test]
fn a_fence_that_a_process_signaled_by_a_name_that_it_gave_up_is_looked_at_for_the_others() {
    let (mut bench, owner) = bench();
    let shared = fence(&mut bench, owner, FenceFlags::SHARED);
    let nt_handle = bench.call(owner, &ShareNativeFence { fence: shared.fence }).unwrap();
    let other = bench.client(owner.guest);
    let request = OpenNativeFence { device: other.device, nt_handle };
    let opened: OpenedFence = bench.call(other, &request).unwrap();
    assert_ne!(opened.slot, shared.slot);
    wait(&mut bench, owner, shared, 1, 1);
    wait(&mut bench, owner, shared, 2, 2);
    signal(&bench, other, shared.slot, opened.slot, 1);
    interrupt(&mut bench, Some(other.id));
    assert_eq!(told(&bench), [1]);
    // The process gives up the name. An engine that does not know yet signals and logs.
    bench.model.state().prompt = false;
    let token = bench.begin(other, &DestroyNativeFence { fence: opened.fence });
    signal(&bench, other, shared.slot, opened.slot, 2);
    interrupt(&mut bench, Some(other.id));
    assert_eq!(told(&bench), [1]);
    bench.pass_tickets();
    assert_eq!(bench.outcome(other, token), Some(Status::SUCCESS));
    assert_eq!(told(&bench), [1, 2]);
}
