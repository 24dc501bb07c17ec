// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences that guests of two adapters, or of one adapter, share.
//!
//! Source: native GPU fence object, "Cross-adapter native fences".

use crate::bench::{Bench, CROSS_ADAPTER_FENCES, Client, RESOURCES, Refused, fence_values};
use crate::model::{Call, Model, Work};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{GuestId, Interrupt, Segment, SlotValue};
use bellhop_host_kmd::port::{AdapterId, Command, GuestResources, Input, SharingGroups};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::fence::{
    CreateNativeFence, DestroyNativeFence, FenceFlags, NativeFenceType, NtHandle, OpenNativeFence,
    OpenedFence, ShareNativeFence, SignalFromGpu,
};
use bellhop_protocol::control::hw_queue::HwQueueFlags;
use bellhop_protocol::control::power::{DevicePowerState, SetDevicePower};
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::status::Status;

const FLAGS: u32 = FenceFlags::SHARED.bits() | FenceFlags::CROSS_ADAPTER.bits();
/// The iGPU and the dGPU of the reference's tables.
const ADAPTERS: [AdapterId; 2] = [AdapterId(0), AdapterId(1)];

/// A host with two adapters.
fn host(limits: Limits) -> Bench {
    Bench::of(Model::several(2), limits)
}

/// A client of a guest that these groups name.
fn client(bench: &mut Bench, adapter: AdapterId, guest: u64, groups: &[u32]) -> Client {
    let sharing = groups.iter().copied().fold(SharingGroups::NONE, SharingGroups::with);
    let guest = bench.attach_to(adapter, guest, GuestResources { sharing, ..RESOURCES });
    bench.open(guest).unwrap();
    bench.client(guest)
}

/// Two guests of one group, each on its own adapter.
fn two() -> (Bench, Client, Client) {
    let mut bench = host(Limits::default());
    let [one, two] = ADAPTERS;
    let a = client(&mut bench, one, 1, &[0]);
    let b = client(&mut bench, two, 2, &[0]);
    (bench, a, b)
}

fn create(bench: &mut Bench, client: Client, initial: u64) -> Result<OpenedFence, Refused> {
    let request = CreateNativeFence::new(client.device, initial);
    bench.call(client, &CreateNativeFence { flags: FLAGS, ..request })
}

fn share(bench: &mut Bench, client: Client, fence: OpenedFence) -> NtHandle {
    bench.call(client, &ShareNativeFence { fence: fence.fence }).unwrap()
}

fn open(bench: &mut Bench, client: Client, nt_handle: NtHandle) -> Result<OpenedFence, Refused> {
    bench.call(client, &OpenNativeFence { device: client.device, nt_handle })
}

fn destroy(bench: &mut Bench, client: Client, fence: OpenedFence) {
    bench.call(client, &DestroyNativeFence { fence: fence.fence }).unwrap();
}

/// A fence of the first client that the second has opened.
fn shared(bench: &mut Bench, a: Client, b: Client) -> (OpenedFence, OpenedFence) {
    let fence = create(bench, a, 5).unwrap();
    let name = share(bench, a, fence);
    let opened = open(bench, b, name).unwrap();
    for model in &bench.models {
        model.take_log();
    }
    (fence, opened)
}

fn wait(bench: &mut Bench, client: Client, fence: OpenedFence, value: u64) -> Option<Status> {
    let token = bench.wait(client, fence.fence, value, value);
    bench.outcome(client, token)
}

/// Guest, value and cookie of each event so far.
fn told(bench: &Bench) -> Vec<(GuestId, u64, u64)> {
    bench.events.iter().map(|(guest, event)| (*guest, event.value, event.cookie)).collect()
}

fn monitored(bench: &Bench, client: Client, fence: OpenedFence) -> u64 {
    bench.model_of(client.guest).state().fences[&(client.guest, fence.slot)].monitored
}

/// An engine signals the fence through the guest's view, and the interrupt is handled.
fn gpu_signal(bench: &mut Bench, client: Client, fence: OpenedFence, value: u64) {
    bench.model_of(client.guest).signal(client.guest, fence.slot, value);
    bench.interrupt();
}

fn notified(bench: &Bench, client: Client) -> Vec<u32> {
    let log = bench.model_of(client.guest).take_log();
    let slots = log.into_iter().filter_map(|call| match call {
        Call::Notify(slots, false) => Some(slots),
        _ => None,
    });
    slots.flatten().collect()
}

#[test]
fn all_views_have_one_current_value_and_each_a_monitored_value_that_is_0_for_life() {
    let (mut bench, a, b) = two();
    let (first, second) = shared(&mut bench, a, b);
    for value in [6, 9] {
        for (client, fence) in [(a, first), (b, second)] {
            assert_eq!(monitored(&bench, client, fence), 0);
            assert_eq!(wait(&mut bench, client, fence, value), Some(Status::PENDING));
            assert_eq!(monitored(&bench, client, fence), 0);
        }
        gpu_signal(&mut bench, b, second, value);
    }
    let ended: Vec<_> =
        [6, 9].iter().flat_map(|value| [b, a].map(|c| (c.guest, *value, *value))).collect();
    assert_eq!(told(&bench), ended);
    // One page of memory, for each process and for its GPU's context management processor.
    let page = bench.models.iter().map(|model| {
        let mappings = model.state().mappings_of(Segment::CrossAdapter, 0);
        mappings.iter().map(|(_, va)| *va).collect::<Vec<_>>()
    });
    let vas = [first, second].map(|fence| vec![fence.mapping.current_value_gpu_va; 2]);
    assert!(page.eq(vas));
    // Packets may write it, but not MonitoredValue.
    for (client, fence) in [(a, first), (b, second)] {
        let model = bench.model_of(client.guest);
        let space = model.state().opened[&(client.guest, fence.slot)].1;
        let mapping = fence.mapping;
        assert!(model.state().mapped(space, mapping.current_value_gpu_va).unwrap().is_writable());
        let monitored = model.state().mapped(space, mapping.monitored_value_gpu_va).unwrap();
        assert!(!monitored.is_writable());
        assert_ne!(monitored.page().unwrap().segment, Segment::CrossAdapter);
    }
}

#[test]
fn an_interrupt_that_names_no_fence_is_passed_on_too() {
    let (mut bench, a, b) = two();
    let (_, opened) = shared(&mut bench, a, b);
    assert_eq!(wait(&mut bench, b, opened, 6), Some(Status::PENDING));
    // As if the first GPU did not know which fence it signaled.
    bench.models[0].signal(a.guest, 64, 6);
    bench.models[0].forget_interrupts();
    let (signaled, evaluate_legacy_monitored_fences) = (Vec::new(), true);
    bench.raise(Interrupt::NativeFenceSignaled { signaled, evaluate_legacy_monitored_fences });
    assert_eq!(told(&bench), [(b.guest, 6, 6)]);
}

#[test]
fn guests_of_one_adapter_have_fences_together_as_those_of_two_do() {
    let mut bench = host(Limits::default());
    let [a, b] = [1, 2].map(|guest| client(&mut bench, ADAPTERS[0], guest, &[3]));
    let (first, second) = shared(&mut bench, a, b);
    assert_eq!(wait(&mut bench, a, first, 7), Some(Status::PENDING));
    bench.signal(b, &[(second.fence, 7)]).unwrap();
    assert_eq!(told(&bench), [(a.guest, 7, 7)]);
    assert_eq!(notified(&bench, a), [first.slot]);
}

#[test]
fn processes_of_a_guest_have_one_view_and_it_goes_with_the_last() {
    let (mut bench, a, b) = two();
    let (first, second) = shared(&mut bench, a, b);
    let other = bench.client(b.guest);
    let name = share(&mut bench, b, second);
    assert_eq!(name, share(&mut bench, a, first));
    let third = open(&mut bench, other, name).unwrap();
    assert_ne!(third.slot, second.slot);
    assert_eq!(third.mapping.current_value_offset, second.mapping.current_value_offset);
    let global = |bench: &Bench, slot| bench.models[1].state().opened[&(b.guest, slot)].0;
    assert_eq!(global(&bench, third.slot), global(&bench, second.slot));
    destroy(&mut bench, b, second);
    assert_eq!(wait(&mut bench, other, third, 6), Some(Status::PENDING));
    gpu_signal(&mut bench, a, first, 6);
    assert_eq!(told(&bench), [(b.guest, 6, 6)]);
    destroy(&mut bench, other, third);
    gpu_signal(&mut bench, a, first, 7);
    assert_eq!(notified(&bench, b), [second.slot]);
}

#[test]
fn the_fence_of_a_process_that_ended_stays_with_the_other_guest_and_its_page_is_zeroed_after_both()
{
    let (mut bench, a, b) = two();
    let (first, second) = shared(&mut bench, a, b);
    assert_eq!(wait(&mut bench, a, first, 8), Some(Status::PENDING));
    assert_eq!(wait(&mut bench, b, second, 8), Some(Status::PENDING));
    bench.call(a, &DestroyProcess { flags: 0 }).unwrap();
    bench.input(Input::Detach { guest: a.guest });
    assert_eq!(bench.detached, [a.guest]);
    let name = share(&mut bench, b, second);
    gpu_signal(&mut bench, b, second, 8);
    assert_eq!(told(&bench), [(b.guest, 8, 8)]);
    // It can still be opened, and keeps its value.
    let c = client(&mut bench, ADAPTERS[0], 3, &[0]);
    let third = open(&mut bench, c, name).unwrap();
    assert_eq!(wait(&mut bench, c, third, 8), Some(Status::SUCCESS));
    destroy(&mut bench, c, third);
    // An engine of the second adapter may still know it.
    bench.models[1].state().prompt = false;
    let end = bench.begin(b, &DestroyNativeFence { fence: second.fence });
    assert_eq!(open(&mut bench, c, name).unwrap_err(), (Status::INVALID_PARAMETER, name.0));
    let zeroed = |bench: &Bench| {
        let log = bench.models[1].take_log();
        log.contains(&Call::Zero(b.guest, 0, PAGE_SIZE))
    };
    assert!(!zeroed(&bench));
    bench.models[1].pass_tickets();
    bench.interrupt();
    assert_eq!(bench.outcome(b, end), Some(Status::SUCCESS));
    assert!(zeroed(&bench));
}

#[test]
fn a_guest_that_waits_for_a_fence_is_told_when_its_creator_dies_or_detaches() {
    for dies in [false, true] {
        let (mut bench, a, b) = two();
        let (_, second) = shared(&mut bench, a, b);
        assert_eq!(wait(&mut bench, b, second, 8), Some(Status::PENDING));
        if dies {
            bench.call(a, &DestroyProcess { flags: TERMINATED_ABNORMALLY }).unwrap();
        } else {
            bench.input(Input::Detach { guest: a.guest });
        }
        let to_b: Vec<_> = told(&bench).into_iter().filter(|(to, ..)| *to == b.guest).collect();
        assert_eq!(to_b, [(b.guest, u64::MAX, 8)]);
        assert_eq!(wait(&mut bench, b, second, 9), Some(Status::SUCCESS));
    }
}

#[test]
fn a_process_that_dies_takes_no_fence_of_another_guests_with_it() {
    let (mut bench, a, b) = two();
    let (first, second) = shared(&mut bench, a, b);
    let name = share(&mut bench, b, second);
    // Another process of that guest has opened it, too, and carries on.
    let sibling = bench.client(b.guest);
    let opened = open(&mut bench, sibling, name).unwrap();
    assert_eq!(wait(&mut bench, sibling, opened, 8), Some(Status::PENDING));
    bench.call(b, &DestroyProcess { flags: TERMINATED_ABNORMALLY }).unwrap();
    assert_eq!(told(&bench).iter().filter(|(.., cookie)| *cookie == 8).count(), 0);
    gpu_signal(&mut bench, a, first, 8);
    assert_eq!(told(&bench).last(), Some(&(b.guest, 8, 8)));
}

#[test]
fn a_queue_that_waits_in_d3_continues_when_another_guest_signals_its_fence() {
    let (mut bench, a, b) = two();
    let (first, second) = shared(&mut bench, a, b);
    bench.doorbell(b);
    bench.models[1].state().engines.on = true;
    bench.connect(b).unwrap();
    // Its last-queued value does not show this work, so the device goes to D3 with it.
    let waits_for = Some((b.guest, second.slot, 8));
    bench.models[1].state().engines.give(b.id, Work { value: 1, waits_for, submission: None });
    bench.models[1].ring(b.id);
    bench.interrupt();
    let set = SetDevicePower { state: DevicePowerState::D3, reserved: 0 };
    bench.ask(b.guest, 0, &set).unwrap();
    gpu_signal(&mut bench, a, first, 8);
    assert!(bench.models[1].state().engines.has_executed(b.id, 1));
}

#[test]
fn only_guests_that_one_group_names_have_a_fence_and_others_are_told_that_there_is_none() {
    let mut bench = host(Limits::default());
    let [a, b, c] = [(1, &[0, 1][..]), (2, &[1, 2]), (3, &[0])]
        .map(|(guest, groups)| client(&mut bench, ADAPTERS[guest as usize % 2], guest, groups));
    let stranger = client(&mut bench, ADAPTERS[0], 4, &[]);
    let fence = create(&mut bench, a, 5).unwrap();
    let name = share(&mut bench, a, fence);
    let unknown = |name: NtHandle| (Status::INVALID_PARAMETER, name.0);
    assert_eq!(open(&mut bench, stranger, name).unwrap_err(), unknown(name));
    let never = NtHandle(name.0 ^ 1);
    assert_eq!(open(&mut bench, stranger, never).unwrap_err(), unknown(never));
    assert_eq!(open(&mut bench, b, never).unwrap_err(), unknown(never));
    open(&mut bench, b, name).unwrap();
    // One group names it with the fence's creator; none names it with the other guest that has the fence.
    assert_eq!(open(&mut bench, c, name).unwrap_err(), unknown(name));
    // A guest that no sharing group names cannot create one.
    assert_eq!(create(&mut bench, stranger, 5).unwrap_err(), (Status::NOT_SUPPORTED, 0));
    // A fence shared within a guest is not shared with other guests.
    let request = CreateNativeFence::new(a.device, 0);
    let request = CreateNativeFence { flags: FenceFlags::SHARED.bits(), ..request };
    let own = bench.call(a, &request).unwrap();
    let name = share(&mut bench, a, own);
    assert_eq!(open(&mut bench, b, name).unwrap_err(), unknown(name));
}

#[test]
fn a_cross_adapter_fence_is_of_the_default_type_and_shared() {
    let (mut bench, a, _) = two();
    let request = CreateNativeFence { flags: FLAGS, ..CreateNativeFence::new(a.device, 0) };
    let fence_type = NativeFenceType::INTRA_GPU;
    let intra = bench.call(a, &CreateNativeFence { fence_type, ..request }).unwrap_err();
    assert_eq!(intra, (Status::INVALID_PARAMETER, fence_type.0.into()));
    let flags = FenceFlags::CROSS_ADAPTER.bits();
    let alone = bench.call(a, &CreateNativeFence { flags, ..request }).unwrap_err();
    assert_eq!(alone, (Status::INVALID_PARAMETER, flags.into()));
}

#[test]
fn views_are_counted_and_come_back() {
    let mut bench = host(Limits { cross_adapter_fences: 2, ..Limits::default() });
    let [a, b] = [(0, 1), (1, 2)]
        .map(|(adapter, guest): (usize, u64)| client(&mut bench, ADAPTERS[adapter], guest, &[0]));
    let quota = (Status::QUOTA_EXCEEDED, 2);
    let fences: Vec<_> = (0..2).map(|_| create(&mut bench, a, 0).unwrap()).collect();
    assert_eq!(create(&mut bench, a, 0).unwrap_err(), quota);
    let names: Vec<_> = fences.iter().map(|fence| share(&mut bench, a, *fence)).collect();
    let opened: Vec<_> = names.iter().map(|name| open(&mut bench, b, *name).unwrap()).collect();
    assert_eq!(create(&mut bench, b, 0).unwrap_err(), quota);
    // The guest that still has a fence pays for it: the other may create more.
    fences.iter().for_each(|fence| destroy(&mut bench, a, *fence));
    let more: Vec<_> = (0..2).map(|_| create(&mut bench, a, 0).unwrap()).collect();
    const { assert!(CROSS_ADAPTER_FENCES == 4) };
    let c = client(&mut bench, ADAPTERS[0], 3, &[0]);
    assert_eq!(create(&mut bench, c, 0).unwrap_err(), (Status::INSUFFICIENT_RESOURCES, 0));
    destroy(&mut bench, b, opened[0]);
    create(&mut bench, c, 0).unwrap();
    destroy(&mut bench, a, more[0]);
    for guest in [a, b, c].map(|client| client.guest) {
        bench.input(Input::Detach { guest });
    }
    assert_eq!(bench.detached, [a.guest, b.guest, c.guest]);
    // All pages are back.
    let d = client(&mut bench, ADAPTERS[0], 4, &[0]);
    let e = client(&mut bench, ADAPTERS[1], 5, &[0]);
    for client in [d, d, e, e] {
        create(&mut bench, client, 0).unwrap();
    }
}

#[test]
fn a_fence_that_page_tables_have_no_room_for_is_neither_created_nor_opened() {
    let (mut bench, a, b) = two();
    let fence = create(&mut bench, a, 5).unwrap();
    let name = share(&mut bench, a, fence);
    for left in 0..2 {
        let room = std::mem::replace(&mut bench.models[1].state().page_table_room, left);
        let full = (Status::INSUFFICIENT_RESOURCES, 0);
        assert_eq!(open(&mut bench, b, name).unwrap_err(), full);
        assert_eq!(create(&mut bench, b, 1).unwrap_err(), full);
        bench.models[1].state().page_table_room = room;
    }
    // There is room for it and for three more, as before.
    open(&mut bench, b, name).unwrap();
    for _ in 1..CROSS_ADAPTER_FENCES {
        create(&mut bench, b, 1).unwrap();
    }
}

#[test]
fn the_fence_of_a_creator_in_error_is_signaled_for_all_and_holds_no_queue() {
    let (mut bench, a, b) = two();
    let (first, second) = shared(&mut bench, a, b);
    assert_eq!(wait(&mut bench, b, second, 10), Some(Status::PENDING));
    bench.command(Command::FailGuest(a.guest));
    assert_eq!(told(&bench).last(), Some(&(b.guest, u64::MAX, 10)));
    let always = Call::Notify(vec![second.slot], true);
    assert!(bench.models[1].take_log().contains(&always));
    assert_eq!(wait(&mut bench, b, second, 11), Some(Status::SUCCESS));
    // Signals of either guest have no effect.
    bench.models.iter().for_each(|model| drop(model.take_log()));
    bench.signal(b, &[(second.fence, 12)]).unwrap();
    bench.signal(a, &[(first.fence, 12)]).unwrap();
    assert_eq!(bench.models.iter().map(|model| model.take_log().len()).sum::<usize>(), 0);
}

#[test]
fn a_queue_whose_signal_comes_after_a_greater_one_of_another_guest_is_not_lost() {
    let (mut bench, a, b) = two();
    let (first, second) = shared(&mut bench, a, b);
    let queue = bench.queue(a, HwQueueFlags::NATIVE_PROGRESS_FENCE);
    bench.signal(b, &[(second.fence, u64::MAX)]).unwrap();
    bench.models.iter().for_each(|model| drop(model.take_log()));
    let list = fence_values(&[(first.fence, 9)]);
    let request = SignalFromGpu { queue: queue.queue, count: 1, reserved: 0 };
    bench.call_with_list(a, &request, &list).unwrap();
    assert_eq!(told(&bench), []);
    assert!(bench.models.iter().all(|model| model.take_log().is_empty()));
    // A signal from the CPU is refused, as always.
    let refused = bench.signal(a, &[(first.fence, 9)]).unwrap_err();
    assert_eq!(refused, (Status::INVALID_PARAMETER, 9));
}

#[test]
fn a_guest_in_error_that_opened_a_fence_is_held_by_it_no_more_and_the_others_carry_on() {
    let (mut bench, a, b) = two();
    let (first, second) = shared(&mut bench, a, b);
    assert_eq!(wait(&mut bench, a, first, 10), Some(Status::PENDING));
    assert_eq!(wait(&mut bench, b, second, 10), Some(Status::PENDING));
    bench.command(Command::FailGuest(b.guest));
    let fences: Vec<_> = told(&bench).into_iter().filter(|(_, _, cookie)| *cookie == 10).collect();
    assert_eq!(fences, [(b.guest, u64::MAX, 10)]);
    bench.models.iter().for_each(|model| drop(model.take_log()));
    // It can no longer signal, and signals of other guests do not reach it.
    bench.signal(b, &[(second.fence, 20)]).unwrap();
    assert_eq!(wait(&mut bench, a, first, 11), Some(Status::PENDING));
    gpu_signal(&mut bench, a, first, 10);
    assert_eq!(told(&bench).last(), Some(&(a.guest, 10, 10)));
    assert!(notified(&bench, b).is_empty());
    let value = SlotValue { slot: first.slot, value: 11 };
    bench.signal(a, &[(first.fence, 11)]).unwrap();
    assert!(bench.models[0].take_log().contains(&Call::Signal(vec![value], false)));
}
