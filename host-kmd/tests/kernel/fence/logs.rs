// SPDX-License-Identifier: MIT OR Apache-2.0

//! Logs of HW queues, and what is logged.

use crate::bench::{Bench, Client};
use crate::model::Call;
use bellhop_host_kmd::hardware::{HwQueueId, Segment};
use bellhop_host_kmd::port::{Command, ListObjects};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, CreateHwQueueReply, DestroyHwQueue};
use bellhop_protocol::doorbell::{ConnectionStatus, LoggingLevel};
use bellhop_protocol::fence_log::FenceLogOperation;
use bellhop_protocol::snapshot;
use bellhop_protocol::status::Status;

const SIGNAL: FenceLogOperation = FenceLogOperation::SIGNAL_EXECUTED;
const WAIT: FenceLogOperation = FenceLogOperation::WAIT_UNBLOCKED;

/// A process with a context, and the request that creates queues in it.
fn context(bench: &mut Bench) -> (Client, CreateHwQueue) {
    let guest = bench.guest(1);
    let client = bench.client(guest);
    (client, CreateHwQueue { context: client.context, flags: 0, reserved: 0 })
}

/// An engine signals a queue's progress fence, for which a CPU waits.
fn interrupt(bench: &mut Bench, client: Client, value: u64) {
    let token = bench.wait(client, client.fence, value, value);
    assert_eq!(bench.outcome(client, token), Some(Status::PENDING));
    bench.model.take_log();
    bench.model.signal(client.guest, client.fence_slot, value);
    bench.interrupt();
}

/// The queues with logs that the driver was asked to flush since the model's log was last taken.
fn flushed(bench: &Bench) -> Vec<Vec<HwQueueId>> {
    let calls = bench.model.take_log().into_iter();
    calls
        .filter_map(|call| match call {
            Call::FlushLogs(queues) => Some(queues),
            _ => None,
        })
        .collect()
}

/// Number of entries read and lost, for each queue of the client's context.
fn counted(bench: &Bench, client: Client) -> Vec<(u64, u64)> {
    let wanted = ListObjects {
        list: ObjectList::HW_QUEUES,
        guest: client.guest,
        process: client.process,
        parent: client.context,
        after: 0,
    };
    let page = bench.list(wanted, 1 << 20).unwrap();
    let queues: Vec<snapshot::HwQueue> = serde_json::from_slice(&page.objects).unwrap();
    queues.iter().map(|queue| (queue.logged, queue.log_entries_lost)).collect()
}

#[test]
fn each_queue_has_two_logs_that_its_process_may_read_until_it_is_destroyed() {
    let mut bench = Bench::new(2);
    let (client, request) = context(&mut bench);
    let replies: Vec<CreateHwQueueReply> =
        (0..3).map(|_| bench.call(client, &request).unwrap()).collect();
    let space = bench.model.state().queues[&client.id].address_space;
    let mapped = |bench: &Bench, va| bench.model.state().mapped(space, va);
    let mut places = Vec::new();
    for reply in &replies {
        assert_eq!(reply.log_entries, 84);
        for va in [reply.wait_log_gpu_va, reply.signal_log_gpu_va] {
            let entry = mapped(&bench, va).unwrap();
            assert!(va % PAGE_SIZE == 0 && !entry.is_writable());
            let page = entry.page().unwrap();
            assert_eq!(page.segment, Segment::Fence);
            places.push((va, page.address));
        }
    }
    // No two logs share a place.
    places.sort_unstable();
    let is_apart = |pair: &[(u64, u64)]| pair[0].0 != pair[1].0 && pair[0].1 != pair[1].1;
    assert!(places.windows(2).all(is_apart));
    for reply in &replies {
        bench.call(client, &DestroyHwQueue { hw_queue: reply.hw_queue }).unwrap();
    }
    assert!(places.iter().all(|(va, _)| mapped(&bench, *va).is_none()));
    assert_eq!(bench.model.state().fence_logs.len(), 2);
}

#[test]
fn a_queue_whose_logs_cannot_be_mapped_is_not_made_and_leaves_nothing() {
    let mut bench = Bench::new(2);
    let (client, request) = context(&mut bench);
    bench.model.state().page_table_room = 1;
    let refused = bench.call(client, &request).unwrap_err();
    assert_eq!(refused.0, Status::INSUFFICIENT_RESOURCES);
    assert_eq!(bench.model.state().queues.len(), 1);
    bench.model.state().page_table_room = 100;
    bench.call(client, &request).unwrap();
}

#[test]
fn what_is_new_in_logs_is_read_when_a_fence_is_signaled_behind_the_drivers_barrier() {
    let mut bench = Bench::new(2);
    let (client, request) = context(&mut bench);
    bench.call(client, &request).unwrap();
    let slot = client.fence_slot;
    interrupt(&mut bench, client, 1);
    assert_eq!(flushed(&bench), Vec::<Vec<HwQueueId>>::new());
    for value in 2..5 {
        bench.model.log(client.id, SIGNAL, slot, value);
    }
    bench.model.log(client.id, WAIT, slot, 1);
    // No event told of them.
    assert_eq!(counted(&bench, client), [(0, 0), (0, 0)]);
    interrupt(&mut bench, client, 4);
    // One barrier for both logs, and none for the queue that has logged nothing.
    assert_eq!(flushed(&bench), [[client.id]]);
    assert_eq!(counted(&bench, client), [(4, 0), (0, 0)]);
    interrupt(&mut bench, client, 5);
    assert_eq!(flushed(&bench), Vec::<Vec<HwQueueId>>::new());
}

#[test]
fn entries_that_are_overwritten_before_they_are_read_count_as_lost_and_no_waiter_is() {
    let mut bench = Bench::new(2);
    let (client, _) = context(&mut bench);
    for value in 0..100 {
        bench.model.log(client.id, SIGNAL, client.fence_slot, value);
    }
    interrupt(&mut bench, client, 99);
    assert_eq!(counted(&bench, client), [(83, 17)]);
    assert_eq!(bench.events.len(), 1);
    for value in 0..84 {
        bench.model.log(client.id, SIGNAL, client.fence_slot, value);
    }
    interrupt(&mut bench, client, 200);
    assert_eq!(counted(&bench, client), [(166, 18)]);
}

#[test]
fn a_guest_with_many_queues_has_only_some_read_each_time_and_all_in_turn() {
    let (mut bench, client) = Bench::with_client(2);
    let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    let request = CreateContext { device, node: 0, engine_affinity: 0 };
    let context = bench.call(client, &request).unwrap();
    for _ in 0..40 {
        let request = CreateHwQueue { context, flags: 0, reserved: 0 };
        bench.call(client, &request).unwrap();
    }
    let queues: Vec<_> = bench.model.state().queues.keys().copied().collect();
    let mut read = Vec::new();
    for round in 1..=3 {
        for queue in &queues {
            bench.model.log(*queue, SIGNAL, 0, round);
        }
        interrupt(&mut bench, client, round);
        let flushed: Vec<_> = flushed(&bench).concat();
        assert!(flushed.len() <= 16, "{} at once", flushed.len());
        read.extend(flushed);
    }
    read.sort_unstable();
    read.dedup();
    assert_eq!(read, queues);
}

#[test]
fn another_level_of_logging_is_told_by_disconnecting_all_doorbells() {
    let mut bench = Bench::new(4);
    let [first, second] = [bench.guest(1), bench.guest(2)];
    let [(one, _), (two, _)] = [bench.connected(first), bench.connected(second)];
    let unconnected = bench.client(first);
    bench.doorbell(unconnected);
    bench.model.take_log();
    let set = |bench: &mut Bench, level| bench.command(Command::SetLoggingLevel(level));
    assert_eq!(set(&mut bench, LoggingLevel::VERBOSE), Some(Ok(())));
    let retry = ConnectionStatus::DISCONNECTED_RETRY;
    let told: Vec<_> = bench.model.take_log();
    let place = |call: Call| told.iter().position(|other| *other == call);
    let level = place(Call::LoggingLevel(LoggingLevel::VERBOSE)).unwrap();
    // So the status that drivers read has the new level.
    for client in [one, two] {
        assert!(level < place(Call::Disconnected(client.id, retry)).unwrap());
    }
    assert_eq!(place(Call::Disconnected(unconnected.id, retry)), None);
    for client in [one, two, unconnected] {
        assert_eq!(bench.connect(client).unwrap().status, ConnectionStatus::CONNECTED);
    }
    bench.model.take_log();
    // The level is already set.
    assert_eq!(set(&mut bench, LoggingLevel::VERBOSE), Some(Ok(())));
    let is_disconnect = |call: &Call| matches!(call, Call::Disconnected(..));
    assert!(!bench.model.take_log().iter().any(is_disconnect));
    assert!(set(&mut bench, LoggingLevel(2)).unwrap().is_err());
    assert_eq!(set(&mut bench, LoggingLevel::DEFAULT), Some(Ok(())));
    assert!(bench.model.take_log().iter().any(is_disconnect));
}
