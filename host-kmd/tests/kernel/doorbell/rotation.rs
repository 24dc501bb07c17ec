// SPDX-License-Identifier: MIT OR Apache-2.0

//! Doorbells with pages that the VMM moves: which request is answered when, and what may happen in between.

use crate::bench::{Bench, Client};
use crate::model::Call;
use bellhop_host_kmd::hardware::{Fault, Interrupt, PhysicalDoorbell, RotationOutcome};
use bellhop_host_kmd::port::{Input, RequestToken};
use bellhop_protocol::control::adapter::QueryStatistics;
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, ConnectDoorbellReply, DestroyDoorbell, NotifyWorkSubmission,
};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;
use zerocopy::FromBytes;

const RETRY: ConnectionStatus = ConnectionStatus::DISCONNECTED_RETRY;
const ABORT: ConnectionStatus = ConnectionStatus::DISCONNECTED_ABORT;
const NOTIFY: ConnectionStatus = ConnectionStatus::CONNECTED_NOTIFY;
const CONNECTED: ConnectionStatus = ConnectionStatus::CONNECTED;

fn new(physical_doorbells: u32) -> Bench {
    let bench = Bench::new(physical_doorbells);
    bench.model.state().rotates = true;
    bench
}

/// Clients of one guest, with doorbells that are not connected.
fn clients<const N: usize>(bench: &mut Bench) -> [Client; N] {
    let guest = bench.guest(1);
    let clients = [(); N].map(|()| bench.client(guest));
    for client in clients {
        bench.doorbell(client);
    }
    bench.model.take_log();
    clients
}

fn begin(bench: &mut Bench, client: Client) -> RequestToken {
    bench.begin(client, &ConnectDoorbell { hw_queue: client.queue })
}

fn rotated(bench: &mut Bench, client: Client, outcome: RotationOutcome) {
    bench.model.raise(Interrupt::DoorbellRotated { queue: client.id, outcome });
    bench.interrupt();
}

/// The status in the reply to a connect request, if it has come; it must be a success.
fn answer(bench: &Bench, client: Client, token: RequestToken) -> Option<ConnectionStatus> {
    let (header, body) = bench.reply(client.guest, token)?;
    assert_eq!(header.status, Status::SUCCESS);
    Some(ConnectDoorbellReply::read_from_bytes(body).unwrap().status)
}

fn status(bench: &Bench, client: Client) -> ConnectionStatus {
    bench.model.state().status[&client.id]
}

#[test]
fn a_connect_is_answered_when_the_page_is_there_and_the_status_settles_later() {
    let mut bench = new(2);
    let [client] = clients(&mut bench);
    let token = begin(&mut bench, client);
    let doorbell = PhysicalDoorbell(0);
    let expected = [Call::Watch(doorbell, client.id), Call::RotateToPhysical(client.id)];
    assert_eq!(bench.model.take_log(), expected);
    assert_eq!(answer(&bench, client, token), None);
    assert_eq!(status(&bench, client), RETRY);

    rotated(&mut bench, client, RotationOutcome::Shown);
    let expected = [Call::Connected(client.id, NOTIFY), Call::Kick(client.id)];
    assert_eq!(bench.model.take_log(), expected);
    assert_eq!(answer(&bench, client, token), Some(NOTIFY));
    // Connecting it again only makes the engine look.
    let again = begin(&mut bench, client);
    assert_eq!(answer(&bench, client, again), Some(NOTIFY));
    assert_eq!(bench.model.take_log(), [Call::Kick(client.id)]);

    rotated(&mut bench, client, RotationOutcome::Settled);
    assert_eq!(bench.model.take_log(), [Call::Connected(client.id, CONNECTED)]);
    let again = begin(&mut bench, client);
    assert_eq!(answer(&bench, client, again), Some(CONNECTED));
}

#[test]
fn several_connects_of_one_doorbell_and_of_several_are_answered_each_once() {
    let mut bench = new(2);
    let [one, two] = clients(&mut bench);
    let tokens = [(); 3].map(|()| begin(&mut bench, one));
    let other = begin(&mut bench, two);
    rotated(&mut bench, two, RotationOutcome::Shown);
    assert_eq!(answer(&bench, two, other), Some(NOTIFY));
    assert!(tokens.iter().all(|token| answer(&bench, one, *token).is_none()));
    rotated(&mut bench, one, RotationOutcome::Shown);
    assert!(tokens.iter().all(|token| answer(&bench, one, *token) == Some(NOTIFY)));
    // A second interrupt changes nothing.
    bench.model.take_log();
    rotated(&mut bench, one, RotationOutcome::Shown);
    assert_eq!(bench.model.take_log(), []);
}

#[test]
fn a_victims_status_comes_before_its_page_goes_and_the_last_look_after() {
    let mut bench = new(1);
    let [victim, client] = clients(&mut bench);
    begin(&mut bench, victim);
    rotated(&mut bench, victim, RotationOutcome::Shown);
    bench.model.take_log();
    begin(&mut bench, client);
    let doorbell = PhysicalDoorbell(0);
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Disconnected(victim.id, RETRY),
            Call::RotateToDummy(victim.id),
            Call::Unwatch(doorbell),
            Call::Kick(victim.id),
            Call::Watch(doorbell, client.id),
            Call::RotateToPhysical(client.id),
        ]
    );
    let query = QueryStatistics { reserved: 0 };
    assert_eq!(bench.ask(victim.guest, 0, &query).unwrap().victims, 1);
    // It does not settle after that.
    rotated(&mut bench, victim, RotationOutcome::Settled);
    assert_eq!(status(&bench, victim), RETRY);
}

#[test]
fn a_doorbell_that_loses_its_physical_one_before_its_page_comes_is_answered_and_looked_at() {
    let mut bench = new(1);
    let [victim, client] = clients(&mut bench);
    let token = begin(&mut bench, victim);
    bench.model.take_log();
    let other = begin(&mut bench, client);
    assert!(bench.model.take_log().contains(&Call::Kick(victim.id)));
    assert_eq!(answer(&bench, victim, token), Some(NOTIFY));
    assert_eq!(status(&bench, victim), RETRY);
    rotated(&mut bench, client, RotationOutcome::Shown);
    assert_eq!(answer(&bench, client, other), Some(NOTIFY));
}

#[test]
fn a_page_that_the_vmm_does_not_map_is_an_error_and_the_doorbell_can_be_tried_again() {
    let mut bench = new(1);
    let [client, next] = clients(&mut bench);
    let token = begin(&mut bench, client);
    bench.model.take_log();
    rotated(&mut bench, client, RotationOutcome::Refused);
    let (header, body) = bench.reply(client.guest, token).unwrap();
    assert_eq!((header.status, header.detail), (Status::IO_DEVICE_ERROR, client.queue.0));
    assert!(body.is_empty());
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Disconnected(client.id, RETRY),
            Call::RotateToDummy(client.id),
            Call::Unwatch(PhysicalDoorbell(0)),
            Call::Kick(client.id),
        ]
    );
    // Another queue may take its physical doorbell.
    let query = QueryStatistics { reserved: 0 };
    for connected in [next, client] {
        let token = begin(&mut bench, connected);
        rotated(&mut bench, connected, RotationOutcome::Shown);
        assert_eq!(answer(&bench, connected, token), Some(NOTIFY));
    }
    assert_eq!(bench.ask(client.guest, 0, &query).unwrap().victims, 1);
}

#[test]
fn a_doorbell_that_is_destroyed_or_lost_before_its_page_comes_is_answered_with_that() {
    for is_fault in [false, true] {
        let mut bench = new(1);
        let guest = bench.guest(1);
        let client = bench.client(guest);
        let doorbell = bench.doorbell(client);
        let token = begin(&mut bench, client);
        if is_fault {
            let (reason, opcode) = (FaultReason::UNKNOWN_PACKET, Opcode::NOP);
            let fault = Fault { reason, opcode, address: 0, read_pointer: 0 };
            bench.model.raise(Interrupt::HwQueueFault { queue: client.id, fault });
            bench.interrupt();
        } else {
            bench.call(client, &DestroyDoorbell { doorbell }).unwrap();
        }
        let (header, _) = bench.reply(guest, token).unwrap();
        assert_eq!((header.status, header.detail), (Status::DEVICE_REMOVED, client.queue.0));
        assert_eq!(status(&bench, client), ABORT);
        // The pending rotation has no effect.
        bench.model.take_log();
        for outcome in [RotationOutcome::Shown, RotationOutcome::Settled, RotationOutcome::Refused]
        {
            rotated(&mut bench, client, outcome);
        }
        assert_eq!(status(&bench, client), ABORT);
    }
}

#[test]
fn a_guest_that_goes_while_pages_move_leaves_nothing() {
    let mut bench = new(2);
    let [one, two, three] = clients(&mut bench);
    let tokens = [one, two, three].map(|client| (client, begin(&mut bench, client)));
    rotated(&mut bench, two, RotationOutcome::Shown);
    let answered: Vec<_> =
        tokens.iter().filter(|(client, token)| bench.outcome(*client, *token).is_some()).collect();
    let answered = answered.len();
    bench.input(Input::Detach { guest: one.guest });
    bench.pass_tickets();
    assert_eq!(bench.detached, [one.guest]);
    for (client, _) in tokens {
        rotated(&mut bench, client, RotationOutcome::Shown);
    }
    let now = tokens.iter().filter(|(client, token)| bench.outcome(*client, *token).is_some());
    assert_eq!(now.count(), answered);
    assert!(bench.model.is_empty());
}

#[test]
fn a_notify_while_the_page_is_on_its_way_makes_the_engine_look() {
    let mut bench = new(1);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let doorbell = bench.doorbell(client);
    begin(&mut bench, client);
    bench.model.take_log();
    bench.call(client, &NotifyWorkSubmission { doorbell }).unwrap();
    assert_eq!(bench.model.take_log(), [Call::Kick(client.id)]);
}
