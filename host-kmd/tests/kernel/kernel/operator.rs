// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host's operator does to a guest, and what tools see of that.

use crate::bench::{Bench, Client, USER_MODE};
use bellhop_host_kmd::hardware::{GpuOrdinal, GuestId};
use bellhop_host_kmd::port::{Command, GuestLimit, Input, ListObjects};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::context::{CreateContext, ResumeContext};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::control::hw_queue::CreateHwQueue;
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::{EventKind, FaultReason};
use bellhop_protocol::snapshot::{Change, Guest};
use bellhop_protocol::status::Status;

fn done(bench: &mut Bench, command: Command) {
    assert_eq!(bench.command(command), Some(Ok(())));
}

/// What a tool of the host sees of a guest.
fn seen(bench: &Bench, guest: GuestId) -> Guest {
    let wanted = ListObjects {
        list: ObjectList::GUESTS,
        guest: GuestId(0),
        process: 0,
        parent: Handle(0),
        after: 0,
    };
    let page = bench.list(wanted, 1 << 16).unwrap();
    let guests: Vec<Guest> = serde_json::from_slice(&page.objects).unwrap();
    guests.into_iter().find(|seen| seen.id == guest.0).unwrap()
}

fn reasons(bench: &mut Bench, guest: GuestId) -> Vec<FaultReason> {
    let events = std::mem::take(&mut bench.events).into_iter();
    let faults =
        events.filter(|(of, event)| *of == guest && event.kind == EventKind::HW_QUEUE_ERROR);
    faults.map(|(_, event)| event.reason).collect()
}

#[test]
fn a_suspended_guest_cannot_create_a_context_that_runs() {
    let (mut bench, client, _) = Bench::with_connected(4);
    let (neighbour, _) = {
        let guest = bench.guest(2);
        bench.connected(guest)
    };
    done(&mut bench, Command::SuspendGuest(client.guest));
    let later = bench.client_with(client.guest, USER_MODE);
    bench.call(later, &ResumeContext { context: later.context }).unwrap();
    let suspended = bench.model.state().suspended.clone();
    assert!(suspended.contains(&client.id) && suspended.contains(&later.id));
    assert!(!suspended.contains(&neighbour.id));
    assert!(seen(&bench, client.guest).suspended && !seen(&bench, neighbour.guest).suspended);
    done(&mut bench, Command::ResumeGuest(client.guest));
    assert!(bench.model.state().suspended.is_empty());
    assert!(!seen(&bench, client.guest).suspended);
    // And no later context is suspended either.
    bench.client_with(client.guest, USER_MODE);
    assert!(bench.model.state().suspended.is_empty());
}

#[test]
fn a_guest_that_fails_by_the_operator_is_told_so_and_can_begin_anew() {
    let (mut bench, client, _) = Bench::with_connected(4);
    let neighbour = bench.guest(2);
    let (neighbour, _) = bench.connected(neighbour);
    done(&mut bench, Command::FailGuest(client.guest));
    assert_eq!(reasons(&mut bench, client.guest), [FaultReason::FAILED_BY_OPERATOR]);
    assert_eq!(bench.model.state().status[&client.id], ConnectionStatus::DISCONNECTED_ABORT);
    assert_eq!(bench.model.state().status[&neighbour.id], ConnectionStatus::CONNECTED);
    bench.client(client.guest);
}

/// The answers to requests for new work.
fn new_work(bench: &mut Bench, client: Client) -> Vec<Result<(), (Status, u64)>> {
    let Client { guest, process, device, context, .. } = client;
    vec![
        bench.ask(guest, 0, &CreateProcess { reserved: 0 }).map(|_| ()),
        bench.ask(guest, process, &CreateDevice { reserved: 0 }).map(|_| ()),
        bench
            .ask(guest, process, &CreateContext { device, node: 0, engine_affinity: 0 })
            .map(|_| ()),
        bench.ask(guest, process, &CreateHwQueue { context, flags: 0, reserved: 0 }).map(|_| ()),
    ]
}

#[test]
fn a_guest_without_its_gpu_gets_nothing_new_until_it_is_back() {
    let (mut bench, client, _) = Bench::with_connected(4);
    done(&mut bench, Command::TakeGpu(client.guest, GpuOrdinal::MASTER));
    assert_eq!(reasons(&mut bench, client.guest), [FaultReason::GPU_REMOVED]);
    assert_eq!(seen(&bench, client.guest).gpu, "removed");
    for answer in new_work(&mut bench, client) {
        assert_eq!(answer, Err((Status::DEVICE_REMOVED, 0)));
    }
    // It is told once.
    done(&mut bench, Command::TakeGpu(client.guest, GpuOrdinal::MASTER));
    assert_eq!(reasons(&mut bench, client.guest), []);
    // What it has can go.
    let other = bench.guest(2);
    bench.client(other);
    bench.ask(client.guest, client.process, &DestroyProcess { flags: 0 }).unwrap();
    done(&mut bench, Command::GiveGpu(client.guest, GpuOrdinal::MASTER));
    assert_eq!(seen(&bench, client.guest).gpu, "started");
    bench.client(client.guest);
}

#[test]
fn a_limit_that_shrinks_takes_nothing_away() {
    let (mut bench, client) = Bench::with_client(4);
    let first = bench.local(client, 4096).unwrap();
    let guest = client.guest;
    let limit = |most| Command::SetLimit { guest, limit: GuestLimit::Allocations, most };
    done(&mut bench, limit(1));
    assert_eq!(bench.local(client, 4096).unwrap_err(), (Status::QUOTA_EXCEEDED, 1));
    let kind = bench.system(client, 0, &[]);
    assert!(kind.is_err(), "{:?} {}", kind, AllocationKind::SYSTEM);
    done(&mut bench, limit(2));
    bench.local(client, 4096).unwrap();
    assert_ne!(first.allocation, Handle(0));
    let quotas = seen(&bench, guest).quotas;
    assert!(quotas.iter().any(|quota| quota.what == "allocations" && quota.limit == 2));
}

#[test]
fn commands_about_a_guest_that_there_is_not_are_refused() {
    let (mut bench, client) = Bench::with_client(2);
    let guest = GuestId(77);
    for command in [
        Command::TakeGpu(guest, GpuOrdinal::MASTER),
        Command::GiveGpu(guest, GpuOrdinal::MASTER),
        Command::SetLimit { guest, limit: GuestLimit::Waits, most: 1 },
    ] {
        let refused = bench.command(command).unwrap().unwrap_err();
        assert_eq!(refused.0, "there is no such guest");
    }
    let change = Change { what: "weight".into(), ..Change::default() };
    bench.input(Input::Note { guest: Some(guest), change });
    assert_eq!(seen(&bench, client.guest).changes, []);
}

#[test]
fn tools_of_the_host_see_what_was_changed_and_the_guest_does_not() {
    let (mut bench, client) = Bench::with_client(2);
    let change = |now: &str, uid| Change {
        what: "weight".into(),
        now: now.into(),
        uid,
        ..Change::default()
    };
    for (now, uid) in [("400", 0), ("300", 1000)] {
        bench.input(Input::Note { guest: Some(client.guest), change: change(now, uid) });
    }
    assert_eq!(seen(&bench, client.guest).changes, [change("300", 1000)]);
    use bellhop_protocol::control::escape::Escape;
    let escape = Escape { list: ObjectList::GUESTS, process: 0, parent: Handle(0), after: 0 };
    let reply = bench.ask(client.guest, 0, &escape).unwrap();
    let own: Vec<Guest> = serde_json::from_slice(&reply.data[..reply.length as usize]).unwrap();
    assert_eq!(own[0].changes, []);
}
