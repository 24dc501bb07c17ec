// SPDX-License-Identifier: MIT OR Apache-2.0

//! The end of processes, in the order that the reference gives.

use crate::bench::{Bench, Client, TIMEOUT, submission};
use crate::model::Call;
use bellhop_host_kmd::hardware::{EngineProgress, Interrupt, PhysicalDoorbell, SlotValue};
use bellhop_host_kmd::port::Command;
use bellhop_protocol::control::hw_queue::{DestroyHwQueue, HwQueueFlags};
use bellhop_protocol::control::power::DevicePowerState;
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::{EventKind, FaultReason};
use bellhop_protocol::status::Status;

const ABORT: ConnectionStatus = ConnectionStatus::DISCONNECTED_ABORT;
const NORMAL: DestroyProcess = DestroyProcess { flags: 0 };
const ABNORMAL: DestroyProcess = DestroyProcess { flags: TERMINATED_ABNORMALLY };

/// Makes a client whose doorbell is connected and whose last-queued value is `value`.
fn busy(bench: &mut Bench, value: u64) -> Client {
    let guest = bench.guest(1);
    let (client, _) = bench.connected(guest);
    bench.model.state().last_queued.insert(client.id, value);
    bench.model.take_log();
    client
}

#[test]
fn normally_doorbells_go_then_what_was_queued_is_waited_for_and_then_the_rest_goes() {
    let mut bench = Bench::new(2);
    let client = busy(&mut bench, 5);
    let request = bench.begin(client, &NORMAL);
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Disconnected(client.id, ABORT),
            Call::Unwatch(PhysicalDoorbell(0)),
            Call::Kick(client.id),
            Call::Monitor(vec![SlotValue { slot: client.fence_slot, value: 4 }]),
            // Its engine is kicked, whatever the state of the doorbell.
            Call::Kick(client.id),
        ]
    );
    bench.model.signal(client.guest, client.fence_slot, 4);
    bench.interrupt();
    assert_eq!(bench.outcome(client, request), None);
    assert!(bench.model.state().rings.contains_key(&client.id));
    // No more requests are accepted in the meantime.
    assert_eq!(bench.connect(client).unwrap_err().0, Status::DEVICE_REMOVED);
    assert_eq!(bench.call(client, &NORMAL).unwrap_err().0, Status::INVALID_HANDLE);

    bench.model.take_log();
    bench.model.signal(client.guest, client.fence_slot, 5);
    bench.interrupt();
    let log = bench.model.take_log();
    let at = |call| log.iter().position(|other| *other == call).unwrap();
    assert!(at(Call::Unbind(client.id)) < at(Call::DestroyQueue(client.id)), "{log:?}");
    assert_eq!(bench.outcome(client, request), Some(Status::SUCCESS));
    assert!(bench.model.is_empty());
}

#[test]
fn what_is_done_already_is_not_waited_for() {
    let mut bench = Bench::new(2);
    let client = busy(&mut bench, 5);
    bench.model.signal(client.guest, client.fence_slot, 5);
    bench.call(client, &NORMAL).unwrap();
    assert!(bench.model.is_empty());
}

#[test]
fn kernel_mode_submissions_are_waited_for_too() {
    let (mut bench, client) = Bench::with_client(2);
    let queue = bench.queue(client, HwQueueFlags::empty());
    let submit = submission(queue, 3);
    bench.call(queue, &submit).unwrap();
    let request = bench.begin(queue, &DestroyHwQueue { hw_queue: queue.queue });
    assert_eq!(bench.call(queue, &submit).unwrap_err().0, Status::DEVICE_REMOVED);
    assert_eq!(bench.outcome(queue, request), None);
    // A submission is work until the hardware has done it, whatever value its progress fence has.
    bench.model.signal(client.guest, queue.fence_slot, 3);
    bench.interrupt();
    assert_eq!(bench.outcome(queue, request), None);
    bench.raise(Interrupt::DmaCompleted { node: 0, engine: 0, fence: 1 });
    assert_eq!(bench.outcome(queue, request), Some(Status::SUCCESS));
}

/// Its engine waits in a page fault of memory that somebody's VMM keeps from it. Only that guest's own time runs.
#[test]
fn the_time_in_which_an_engine_stands_for_another_guest_does_not_count() {
    for is_own in [false, true] {
        let mut bench = Bench::new(2);
        let client = busy(&mut bench, 5);
        let guest = bench.guest(2);
        let (other, _) = bench.connected(guest);
        let request = bench.begin(client, &NORMAL);
        let executing = Some(if is_own { client.id } else { other.id });
        for turns in 1..9 {
            // Other turns, so that none of them is a hang.
            let progress = EngineProgress { is_asleep: false, turns, executing, stands: true };
            bench.model.state().progress.insert(0, progress);
            bench.later(TIMEOUT / 2);
        }
        let is_lost = bench.events.iter().any(|(_, event)| event.kind == EventKind::HW_QUEUE_ERROR);
        assert_eq!(is_lost, is_own);
        if !is_own {
            bench.model.state().progress.clear();
            bench.model.signal(client.guest, client.fence_slot, 5);
            bench.interrupt();
            assert!(bench.events.is_empty());
        }
        assert_eq!(bench.outcome(client, request), Some(Status::SUCCESS));
    }
}

#[test]
fn what_does_not_end_in_time_ends_abnormally() {
    let mut bench = Bench::new(2);
    let client = busy(&mut bench, 5);
    let request = bench.begin(client, &NORMAL);
    // The kernel sees that engines are asleep.
    bench.later(TIMEOUT / 2);
    assert_eq!(bench.kernel.deadline(), Some(TIMEOUT));
    bench.model.state().prompt = false;
    bench.model.take_log();
    bench.later(TIMEOUT / 2);
    let slot = client.fence_slot;
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Suspend(vec![client.id]),
            Call::Signal(vec![SlotValue { slot, value: u64::MAX }], true),
            Call::Monitor(vec![SlotValue { slot, value: u64::MAX }]),
            Call::Quiesce,
        ]
    );
    // The loss of accepted work is reported.
    let (_, event) = bench.events[0];
    assert_eq!((event.kind, event.object), (EventKind::HW_QUEUE_ERROR, client.queue.0));
    assert_eq!(event.reason, FaultReason::ENGINE_TIMEOUT);
    assert_eq!(u128::from(event.value), TIMEOUT.as_millis());
    bench.pass_tickets();
    assert!(bench.model.take_log().contains(&Call::DestroyQueue(client.id)));
    assert_eq!(bench.outcome(client, request), None);
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, request), Some(Status::SUCCESS));
    assert!(bench.model.is_empty());
}

#[test]
fn abnormally_devices_are_in_error_and_contexts_left_before_rings_and_queues_go() {
    let mut bench = Bench::new(2);
    let client = busy(&mut bench, 5);
    bench.model.state().prompt = false;
    let request = bench.begin(client, &ABNORMAL);
    let always = vec![SlotValue { slot: client.fence_slot, value: u64::MAX }];
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Suspend(vec![client.id]),
            Call::Disconnected(client.id, ABORT),
            Call::Unwatch(PhysicalDoorbell(0)),
            Call::Kick(client.id),
            Call::Signal(always, true),
            Call::Quiesce,
        ]
    );
    assert!(bench.model.state().rings.contains_key(&client.id), "the ring stays until then");
    bench.pass_tickets();
    assert_eq!(
        bench.model.take_log()[..2],
        [Call::Unbind(client.id), Call::DestroyQueue(client.id)]
    );
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, request), Some(Status::SUCCESS));
    assert!(bench.model.is_empty());
}

#[test]
fn what_is_lost_already_is_not_waited_for() {
    let mut bench = Bench::new(2);
    let client = busy(&mut bench, 5);
    assert_eq!(bench.command(Command::FailGuest(client.guest)), Some(Ok(())));
    bench.call(client, &NORMAL).unwrap();
    assert!(bench.model.is_empty());
}

#[test]
fn without_power_it_comes_back_for_what_was_queued() {
    let mut bench = Bench::new(2);
    let client = busy(&mut bench, 5);
    assert_eq!(bench.command(Command::SetDevicePower(DevicePowerState::D3)), Some(Ok(())));
    let request = bench.begin(client, &NORMAL);
    assert!(bench.model.state().suspended.is_empty(), "what was queued must execute");
    bench.model.signal(client.guest, client.fence_slot, 5);
    bench.interrupt();
    assert_eq!(bench.outcome(client, request), Some(Status::SUCCESS));
}
