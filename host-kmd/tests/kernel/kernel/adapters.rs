// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two adapters of one host.

use crate::bench::{Bench, DEVICE_IDLE, RESOURCES};
use crate::model::Model;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{GuestId, Interrupt};
use bellhop_host_kmd::port::{AdapterId, Command, CommandToken, Input, ListObjects};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState, QueryPower};
use bellhop_protocol::control::process::DestroyProcess;
use bellhop_protocol::snapshot::{Adapter, Guest};
use bellhop_protocol::status::Status;
use serde::de::DeserializeOwned;

const FIRST: AdapterId = AdapterId(0);
const SECOND: AdapterId = AdapterId(1);

/// A host with two adapters, and a guest on each.
fn new() -> (Bench, [GuestId; 2]) {
    let mut bench = Bench::of(Model::several(2), Limits::default());
    let guests = [(FIRST, 1), (SECOND, 2)].map(|(adapter, guest)| {
        let guest = bench.attach_to(adapter, guest, RESOURCES);
        bench.open(guest).unwrap();
        guest
    });
    (bench, guests)
}

fn command(bench: &mut Bench, adapter: AdapterId, command: Command) -> Option<String> {
    let token = CommandToken(1 << 32 | bench.commands.len() as u64);
    bench.input_on(adapter, Input::Command { token, command });
    bench.commands[&token].clone().err().map(|error| error.to_string())
}

fn list<T: DeserializeOwned>(bench: &Bench, adapter: AdapterId, list: ObjectList) -> Vec<T> {
    let (mut listed, mut after) = (Vec::new(), 0);
    loop {
        let (guest, parent) = (GuestId(0), Handle(0));
        let wanted = ListObjects { list, guest, process: 0, parent, after };
        let page = bench.kernel.list(adapter, wanted, 1 << 16).unwrap();
        listed.extend(serde_json::from_slice::<Vec<T>>(&page.objects).unwrap());
        after = page.next;
        if after == 0 {
            return listed;
        }
    }
}

#[test]
fn a_guest_reaches_the_adapter_that_it_is_attached_to_and_no_other() {
    let (mut bench, [one, two]) = new();
    for (guest, model) in [(one, 0), (two, 1)] {
        bench.client(guest);
        assert_eq!(bench.models[model].state().queues.len(), 1);
        assert!(bench.models[model].state().queues.values().all(|queue| queue.guest == guest));
    }
    // Requests go to the guest's adapter, even if the input names another.
    bench.input_on(FIRST, Input::Detach { guest: two });
    assert_eq!(bench.detached, [two]);
    assert!(bench.models[1].is_empty() && !bench.models[0].is_empty());
}

#[test]
fn an_interrupt_of_either_adapter_is_handled_and_waits_for_no_other() {
    let (mut bench, [one, two]) = new();
    let ends = [one, two].map(|guest| {
        let client = bench.client(guest);
        bench.model_of(guest).state().prompt = false;
        (client, bench.begin(client, &DestroyProcess { flags: 0 }))
    });
    assert!(ends.iter().all(|(client, token)| bench.outcome(*client, *token).is_none()));
    bench.models[1].pass_tickets();
    bench.raise(Interrupt::Quiesced);
    bench.models[1].pass_tickets();
    bench.interrupt();
    assert_eq!(bench.outcome(ends[1].0, ends[1].1), Some(Status::SUCCESS));
    assert_eq!(bench.outcome(ends[0].0, ends[0].1), None);
}

#[test]
fn power_is_each_adapters_own() {
    let (mut bench, [one, two]) = new();
    let f1 = Command::SetEnginePower { node: 1, state: EnginePowerState::F1 };
    assert_eq!(command(&mut bench, SECOND, f1), None);
    let power = |bench: &mut Bench, guest| {
        let power = bench.ask(guest, 0, &QueryPower { node: 1, reserved: 0 }).unwrap();
        (power.device, power.engine)
    };
    let (d0, d3) = (DevicePowerState::D0, DevicePowerState::D3);
    assert_eq!(power(&mut bench, one), (d0, EnginePowerState::F0));
    assert_eq!(power(&mut bench, two), (d0, EnginePowerState::F1));
    let f1 = Command::SetEnginePower { node: 0, state: EnginePowerState::F1 };
    assert_eq!(command(&mut bench, SECOND, f1), None);
    bench.later(DEVICE_IDLE);
    assert_eq!((power(&mut bench, one).0, power(&mut bench, two).0), (d0, d3));
    let refused = command(&mut bench, AdapterId(2), f1).unwrap();
    assert_eq!(refused, "there is no adapter 2");
}

#[test]
fn tools_see_all_adapters_and_each_with_its_guests() {
    let (bench, [one, two]) = new();
    let adapters: Vec<Adapter> = list(&bench, FIRST, ObjectList::ADAPTER);
    let ordinals: Vec<_> = adapters.iter().map(|adapter| adapter.ordinal).collect();
    assert_eq!(ordinals, [0, 1]);
    for (adapter, guest) in [(FIRST, one), (SECOND, two)] {
        let guests: Vec<Guest> = list(&bench, adapter, ObjectList::GUESTS);
        assert_eq!(guests.iter().map(|guest| guest.id).collect::<Vec<_>>(), [guest.0]);
    }
    let wanted = ListObjects {
        list: ObjectList::NODES,
        guest: GuestId(0),
        process: 0,
        parent: Handle(0),
        after: 0,
    };
    assert!(bench.kernel.list(AdapterId(2), wanted, 1 << 16).unwrap_err().gone);
    // A guest's own objects are found on any adapter.
    let wanted = ListObjects { list: ObjectList::PROCESSES, guest: two, ..wanted };
    assert_eq!(bench.kernel.list(FIRST, wanted, 1 << 16).unwrap().objects, b"[]");
}
