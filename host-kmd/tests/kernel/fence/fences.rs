// SPDX-License-Identifier: MIT OR Apache-2.0

//! Native fences and CPU waits.

use crate::bench::{BAR, Bench, Client};
use crate::model::{Call, Work};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{GlobalFence, Interrupt, Segment, SlotValue};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{
    CancelWait, CreateNativeFence, DestroyNativeFence, FenceFlags, NOT_PUBLISHED, NativeFenceType,
    NtHandle, OpenNativeFence, OpenedFence, ShareNativeFence, WaitFlags, WaitForFences,
};
use bellhop_protocol::control::hw_queue::DestroyHwQueue;
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::event::EventKind;
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::status::Status;

fn new(limits: Limits) -> (Bench, Client, OpenedFence) {
    let mut bench = Bench::with_limits(2, limits);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let request = CreateNativeFence::new(client.device, 40);
    let fence = bench.call(client, &request).unwrap();
    bench.model.take_log();
    (bench, client, fence)
}

fn wait(bench: &mut Bench, client: Client, fence: Handle, value: u64, cookie: u64) -> Status {
    let token = bench.wait(client, fence, value, cookie);
    bench.outcome(client, token).expect("waits are answered at once")
}

/// Value and cookie of each event so far.
fn told(bench: &Bench, fence: Handle) -> Vec<(u64, u64)> {
    bench
        .events
        .iter()
        .map(|(_, event)| {
            assert_eq!((event.kind, event.object), (EventKind::FENCE_SIGNALED, fence.0));
            (event.value, event.cookie)
        })
        .collect()
}

fn monitored(bench: &Bench, client: Client, slot: u32) -> u64 {
    bench.model.state().fences[&(client.guest, slot)].monitored
}

#[test]
fn a_fence_is_where_its_slot_says() {
    let (bench, client, fence) = new(Limits::default());
    assert_eq!(fence.mapping.current_value_offset, BAR.fence(fence.slot));
    assert_eq!(bench.model.state().fences[&(client.guest, fence.slot)].current, 40);
}

#[test]
fn a_value_that_is_reached_is_not_waited_for() {
    let (mut bench, client, fence) = new(Limits::default());
    for value in [0, 39, 40] {
        assert_eq!(wait(&mut bench, client, fence.fence, value, 1), Status::SUCCESS);
    }
    assert_eq!(wait(&mut bench, client, client.fence, 0, 1), Status::SUCCESS);
    assert_eq!(bench.model.take_log(), []);
    assert_eq!(bench.events, []);
}

#[test]
fn the_monitored_value_follows_the_least_waited_value() {
    let (mut bench, client, fence) = new(Limits::default());
    let slot = fence.slot;
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 5), Status::PENDING);
    assert_eq!(monitored(&bench, client, slot), 49);
    assert_eq!(wait(&mut bench, client, fence.fence, 42, 2), Status::PENDING);
    assert_eq!(monitored(&bench, client, slot), 41);
    // A greater value changes nothing, and the GPU is not told.
    bench.model.take_log();
    assert_eq!(wait(&mut bench, client, fence.fence, 60, 6), Status::PENDING);
    assert_eq!(bench.model.take_log(), []);

    bench.model.signal(client.guest, slot, 43);
    bench.interrupt();
    assert_eq!(told(&bench, fence.fence), [(43, 2)]);
    assert_eq!(monitored(&bench, client, slot), 49);
    bench.model.signal(client.guest, slot, 70);
    bench.interrupt();
    assert_eq!(told(&bench, fence.fence), [(43, 2), (70, 5), (70, 6)]);
    assert_eq!(monitored(&bench, client, slot), NOT_MONITORED);
    assert!(
        bench
            .events
            .iter()
            .all(|(guest, event)| { *guest == client.guest && event.process == client.process })
    );
}

#[test]
fn a_signal_between_the_look_and_the_monitored_value_is_not_missed() {
    let (mut bench, client, fence) = new(Limits::default());
    bench.model.state().signal_during_update = Some(45);
    // The new waiter gets the reply and no event; no value is monitored any more.
    assert_eq!(wait(&mut bench, client, fence.fence, 42, 1), Status::SUCCESS);
    assert_eq!(bench.events, []);
    assert_eq!(monitored(&bench, client, fence.slot), NOT_MONITORED);

    // A signal while the GPU is told another waiter's value.
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 5), Status::PENDING);
    bench.model.state().signal_during_update = Some(51);
    assert_eq!(wait(&mut bench, client, fence.fence, 46, 6), Status::SUCCESS);
    assert_eq!(told(&bench, fence.fence), [(51, 5)]);

    // A signal while the GPU is told a value after an interrupt.
    assert_eq!(wait(&mut bench, client, fence.fence, 60, 7), Status::PENDING);
    assert_eq!(wait(&mut bench, client, fence.fence, 61, 8), Status::PENDING);
    bench.model.signal(client.guest, fence.slot, 60);
    bench.model.state().signal_during_update = Some(61);
    bench.interrupt();
    assert_eq!(told(&bench, fence.fence), [(51, 5), (60, 7), (61, 8)]);
    assert_eq!(monitored(&bench, client, fence.slot), NOT_MONITORED);
}

fn native(signaled: Vec<GlobalFence>) -> Interrupt {
    Interrupt::NativeFenceSignaled { signaled, evaluate_legacy_monitored_fences: false }
}

#[test]
fn spurious_interrupts_end_no_wait() {
    let (mut bench, client, fence) = new(Limits::default());
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 5), Status::PENDING);
    for slot in [fence.slot, client.fence_slot, 11, u32::MAX] {
        let signaled = vec![GlobalFence { guest: client.guest, slot }];
        bench.model.raise(native(signaled));
    }
    bench.model.raise(native(Vec::new()));
    bench.model.take_log();
    bench.interrupt();
    assert_eq!(bench.events, []);
    assert_eq!(bench.model.take_log(), []);
}

#[test]
fn an_interrupt_without_a_fence_scans_all_of_all_guests() {
    let (mut bench, one, _) = new(Limits::default());
    let guest = bench.guest(2);
    let two = bench.client(guest);
    for client in [one, two] {
        assert_eq!(wait(&mut bench, client, client.fence, 1, 9), Status::PENDING);
        bench.model.signal(client.guest, client.fence_slot, 3);
    }
    // As if the GPU did not know which fences it signaled.
    forget_interrupts(&bench);
    bench.model.raise(native(Vec::new()));
    bench.interrupt();
    let objects: Vec<_> =
        bench.events.iter().map(|(guest, event)| (*guest, event.object)).collect();
    assert_eq!(objects, [(one.guest, one.fence.0), (two.guest, two.fence.0)]);
}

fn forget_interrupts(bench: &Bench) {
    use bellhop_host_kmd::hardware::Interrupts as _;
    assert_eq!(bench.model.take_interrupts().len(), 2);
}

#[test]
fn a_wait_can_be_taken_back_once() {
    let (mut bench, client, fence) = new(Limits::default());
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 5), Status::PENDING);
    assert_eq!(wait(&mut bench, client, fence.fence, 45, 6), Status::PENDING);
    let cancel = CancelWait { cookie: 6 };
    bench.call(client, &cancel).unwrap();
    assert_eq!(monitored(&bench, client, fence.slot), 49);
    assert_eq!(bench.call(client, &cancel).unwrap_err(), (Status::INVALID_PARAMETER, 6));
    bench.model.signal(client.guest, fence.slot, 80);
    bench.interrupt();
    assert_eq!(told(&bench, fence.fence), [(80, 5)]);
}

#[test]
fn waits_are_counted_and_come_back() {
    let (mut bench, client, fence) = new(Limits { waits: 2, ..Limits::default() });
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 1), Status::PENDING);
    assert_eq!(wait(&mut bench, client, client.fence, 50, 2), Status::PENDING);
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 3), Status::QUOTA_EXCEEDED);
    bench.model.signal(client.guest, fence.slot, 50);
    bench.interrupt();
    assert_eq!(wait(&mut bench, client, fence.fence, 51, 4), Status::PENDING);
    bench.call(client, &DestroyNativeFence { fence: fence.fence }).unwrap();
    assert_eq!(wait(&mut bench, client, client.fence, 51, 5), Status::PENDING);
    bench.call(client, &DestroyHwQueue { hw_queue: client.queue }).unwrap();
}

#[test]
fn thousands_may_wait_for_one_fence() {
    let (mut bench, client, fence) = new(Limits::default());
    for cookie in 0..10_000 {
        let value = 41 + cookie % 100;
        assert_eq!(wait(&mut bench, client, fence.fence, value, cookie), Status::PENDING);
    }
    bench.model.signal(client.guest, fence.slot, 90);
    bench.interrupt();
    assert_eq!(bench.events.len(), 5_000);
    bench.model.signal(client.guest, fence.slot, 140);
    bench.interrupt();
    assert_eq!(bench.events.len(), 10_000);
}

#[test]
fn a_progress_fence_goes_with_its_queue_only() {
    let (mut bench, client, _) = new(Limits::default());
    let busy = (Status::DEVICE_BUSY, client.fence.0);
    let request = DestroyNativeFence { fence: client.fence };
    assert_eq!(bench.call(client, &request).unwrap_err(), busy);
    bench.call(client, &DestroyHwQueue { hw_queue: client.queue }).unwrap();
    let gone = (Status::INVALID_HANDLE, client.fence.0);
    assert_eq!(bench.call(client, &request).unwrap_err(), gone);
}

#[test]
fn a_destroyed_fence_ends_no_wait_and_its_slot_is_free_after_the_quiesce() {
    let (mut bench, client, fence) = new(Limits::default());
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 5), Status::PENDING);
    bench.model.signal(client.guest, fence.slot, 60);
    bench.model.state().prompt = false;
    let token = bench.begin(client, &DestroyNativeFence { fence: fence.fence });
    assert_eq!(bench.model.take_log().last(), Some(&Call::Quiesce));
    bench.interrupt();
    assert_eq!(bench.events, []);
    let create = CreateNativeFence::new(client.device, 0);
    let second = bench.call(client, &create).unwrap();
    assert_ne!(second.slot, fence.slot);
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert_eq!(bench.call(client, &create).unwrap().slot, fence.slot);
}

fn fence(bench: &mut Bench, client: Client, initial: u64) -> OpenedFence {
    bench.call(client, &CreateNativeFence::new(client.device, initial)).unwrap()
}

/// The outcome of a wait for several fences.
fn wait_for(
    bench: &mut Bench,
    client: Client,
    flags: WaitFlags,
    fences: &[(&OpenedFence, u64)],
    cookie: u64,
) -> Status {
    let fences: Vec<_> = fences.iter().map(|(fence, value)| (fence.fence, *value)).collect();
    let token = bench.wait_for(client, flags, &fences, cookie);
    bench.outcome(client, token).expect("waits are answered at once")
}

const ALL: WaitFlags = WaitFlags::empty();
const ANY: WaitFlags = WaitFlags::WAIT_ANY;

#[test]
fn a_wait_for_all_ends_once_with_the_last_fence() {
    let (mut bench, client, one) = new(Limits::default());
    let two = fence(&mut bench, client, 0);
    let fences = [(&one, 42), (&two, 1)];
    assert_eq!(wait_for(&mut bench, client, ALL, &fences, 7), Status::PENDING);
    let monitored_values =
        [SlotValue { slot: one.slot, value: 41 }, SlotValue { slot: two.slot, value: 0 }];
    // The driver is told both in one call.
    assert_eq!(bench.model.take_log(), [Call::Monitor(monitored_values.to_vec())]);
    bench.model.signal(client.guest, two.slot, 5);
    bench.interrupt();
    assert_eq!(bench.events, []);
    bench.model.signal(client.guest, one.slot, 43);
    bench.interrupt();
    assert_eq!(told(&bench, one.fence), [(43, 7)]);
    assert_eq!(monitored(&bench, client, one.slot), NOT_MONITORED);
    // A value that is already reached needs no wait.
    let fences = [(&one, 43), (&two, 6), (&two, 5)];
    assert_eq!(wait_for(&mut bench, client, ALL, &fences, 8), Status::PENDING);
    assert_eq!(monitored(&bench, client, one.slot), NOT_MONITORED);
}

#[test]
fn a_wait_for_any_ends_once_with_the_first_fence_and_then_monitors_none() {
    let (mut bench, client, one) = new(Limits::default());
    let two = fence(&mut bench, client, 0);
    let fences = [(&one, 42), (&two, 1), (&one, 41)];
    assert_eq!(wait_for(&mut bench, client, ANY, &fences, 7), Status::PENDING);
    assert_eq!(monitored(&bench, client, one.slot), 40);
    bench.model.signal(client.guest, two.slot, 5);
    bench.interrupt();
    assert_eq!(told(&bench, two.fence), [(5, 7)]);
    assert_eq!(monitored(&bench, client, one.slot), NOT_MONITORED);
    assert_eq!(monitored(&bench, client, two.slot), NOT_MONITORED);
    bench.model.signal(client.guest, one.slot, 50);
    bench.interrupt();
    assert_eq!(bench.events.len(), 1);
    assert_eq!(wait_for(&mut bench, client, ANY, &[(&one, 99), (&two, 5)], 8), Status::SUCCESS);
    let cancel = CancelWait { cookie: 8 };
    assert_eq!(bench.call(client, &cancel).unwrap_err(), (Status::INVALID_PARAMETER, 8));
}

#[test]
fn a_list_that_is_too_short_too_long_or_names_what_is_no_fence_is_refused_whole() {
    let (mut bench, client, one) = new(Limits::default());
    let entry = (one.fence, 90);
    for count in [0, 65] {
        let token = bench.wait_for(client, ALL, &vec![entry; count], 1);
        assert_eq!(bench.outcome(client, token), Some(Status::INVALID_PARAMETER));
        let refused = (Status::INVALID_PARAMETER, count as u64);
        assert_eq!(bench.signal(client, &vec![entry; count]).unwrap_err(), refused);
    }
    let token = bench.wait_for(client, ALL, &[entry, (client.device, 1)], 1);
    assert_eq!(bench.outcome(client, token), Some(Status::OBJECT_TYPE_MISMATCH));
    let request = WaitForFences { cookie: 1, flags: 2, count: 1 };
    let list = crate::bench::fence_values(&[entry]);
    let refused = bench.call_with_list(client, &request, &list).unwrap_err();
    assert_eq!(refused, (Status::INVALID_PARAMETER, 2));
    let refused = bench.signal(client, &[entry, (client.device, 1)]).unwrap_err();
    assert_eq!(refused, (Status::OBJECT_TYPE_MISMATCH, client.device.0));
    assert_eq!(bench.model.take_log(), []);
    assert_eq!(bench.model.state().fences[&(client.guest, one.slot)].current, 40);
}

#[test]
fn a_cpu_signals_several_fences_at_once_and_ends_their_waits() {
    let (mut bench, client, one) = new(Limits::default());
    let two = fence(&mut bench, client, 0);
    let fences = [(&one, 50), (&two, 2)];
    assert_eq!(wait_for(&mut bench, client, ALL, &fences, 7), Status::PENDING);
    bench.model.take_log();
    bench.signal(client, &[(one.fence, 50), (two.fence, 1), (two.fence, 2)]).unwrap();
    let values =
        vec![SlotValue { slot: one.slot, value: 50 }, SlotValue { slot: two.slot, value: 2 }];
    assert_eq!(bench.model.take_log()[0], Call::Signal(values, false));
    assert_eq!(bench.events.len(), 1);
    // All or none: no value changes.
    let refused = (Status::INVALID_PARAMETER, 49);
    let request = [(two.fence, 3), (one.fence, 49)];
    assert_eq!(bench.signal(client, &request).unwrap_err(), refused);
    assert_eq!(bench.model.state().fences[&(client.guest, two.slot)].current, 2);
    let request = [(two.fence, 5), (two.fence, 4)];
    assert_eq!(bench.signal(client, &request).unwrap_err(), (Status::INVALID_PARAMETER, 4));
    let refused = bench.signal(client, &[(client.fence, 9)]).unwrap_err();
    assert_eq!(refused.0, Status::NOT_SUPPORTED);
}

#[test]
fn a_wait_for_any_outlives_one_of_its_fences_and_one_for_all_does_not() {
    let (mut bench, client, one) = new(Limits { waits: 4, ..Limits::default() });
    let two = fence(&mut bench, client, 0);
    let fences = [(&one, 50), (&two, 2)];
    assert_eq!(wait_for(&mut bench, client, ANY, &fences, 1), Status::PENDING);
    assert_eq!(wait_for(&mut bench, client, ALL, &fences, 2), Status::PENDING);
    assert_eq!(wait_for(&mut bench, client, ALL, &fences, 3), Status::QUOTA_EXCEEDED);
    bench.call(client, &DestroyNativeFence { fence: one.fence }).unwrap();
    let cancel = CancelWait { cookie: 2 };
    assert_eq!(bench.call(client, &cancel).unwrap_err(), (Status::INVALID_PARAMETER, 2));
    bench.model.signal(client.guest, two.slot, 2);
    bench.interrupt();
    assert_eq!(told(&bench, two.fence), [(2, 1)]);
    // All four wait slots are free again.
    let three = fence(&mut bench, client, 0);
    for cookie in 0..4 {
        assert_eq!(wait(&mut bench, client, three.fence, 9, cookie), Status::PENDING);
    }
}

fn shared(bench: &mut Bench, client: Client, initial: u64) -> (OpenedFence, NtHandle) {
    let flags = FenceFlags::SHARED.bits();
    let request = CreateNativeFence { flags, ..CreateNativeFence::new(client.device, initial) };
    let fence = bench.call(client, &request).unwrap();
    let name = bench.call(client, &ShareNativeFence { fence: fence.fence }).unwrap();
    (fence, name)
}

fn open(bench: &mut Bench, client: Client, nt_handle: NtHandle) -> OpenedFence {
    bench.call(client, &OpenNativeFence { device: client.device, nt_handle }).unwrap()
}

#[test]
fn the_reference_s_example_of_a_fence_shared_by_processes_a_and_b() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let (a, b) = (bench.client(guest), bench.client(guest));
    let space =
        |bench: &Bench, client: Client| bench.model.state().opened[&(guest, client.fence_slot)].1;
    let (space_a, space_b) = (space(&bench, a), space(&bench, b));
    let (local_a, name) = shared(&mut bench, a, 5);
    let global = local_a.slot;
    assert_eq!(bench.model.state().opened[&(guest, local_a.slot)], (global, space_a));
    let local_b = open(&mut bench, b, name);
    assert_eq!(bench.model.state().opened[&(guest, local_b.slot)], (global, space_b));
    assert_ne!(local_b.slot, global);
    assert_eq!(local_b.mapping.current_value_offset, local_a.mapping.current_value_offset);

    // A's waits end when A closes the fence; B's do not.
    assert_eq!(wait(&mut bench, a, local_a.fence, 6, 1), Status::PENDING);
    assert_eq!(wait(&mut bench, b, local_b.fence, 7, 2), Status::PENDING);
    assert_eq!(monitored(&bench, a, global), 5);
    bench.call(a, &DestroyNativeFence { fence: local_a.fence }).unwrap();
    assert!(!bench.model.state().opened.contains_key(&(guest, local_a.slot)));
    assert_eq!(monitored(&bench, a, global), 6);
    let refused = bench.call(a, &DestroyNativeFence { fence: local_a.fence }).unwrap_err();
    assert_eq!(refused, (Status::INVALID_HANDLE, local_a.fence.0));
    bench.model.signal(guest, global, 7);
    bench.interrupt();
    assert_eq!(bench.events.len(), 1);
    let event = bench.events[0].1;
    assert_eq!((event.process, event.object, event.cookie), (b.process, local_b.fence.0, 2));

    bench.call(b, &DestroyNativeFence { fence: local_b.fence }).unwrap();
    assert!(!bench.model.state().opened.contains_key(&(guest, local_b.slot)));
    let request = OpenNativeFence { device: b.device, nt_handle: name };
    assert_eq!(bench.call(b, &request).unwrap_err(), (Status::INVALID_PARAMETER, name.0));
}

#[test]
fn a_wait_for_a_shared_fence_ends_when_the_process_that_created_it_dies() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    bench.model.state().engines.on = true;
    let (a, (b, _)) = (bench.client(guest), bench.connected(guest));
    let (fence_a, name) = shared(&mut bench, a, 5);
    let fence_b = open(&mut bench, b, name);
    let (own, own_name) = shared(&mut bench, b, 1);
    open(&mut bench, a, own_name);
    open(&mut bench, a, own_name);
    assert_eq!(wait(&mut bench, b, fence_b.fence, 7, 2), Status::PENDING);
    let waits_for = Some((guest, fence_a.slot, 7));
    bench.model.queue_work(b.id, Work { value: 1, waits_for, submission: None });
    bench.model.ring(b.id);
    bench.call(a, &DestroyProcess { flags: TERMINATED_ABNORMALLY }).unwrap();
    let told = |bench: &Bench, cookie| {
        let mut events = bench.events.iter().map(|(_, event)| event);
        events.find(|event| event.cookie == cookie).map(|event| (event.object, event.value))
    };
    // "Device [...] in error": for the CPU wait, for the GPU wait, and for later waits.
    assert_eq!(told(&bench, 2), Some((fence_b.fence.0, u64::MAX)));
    assert!(bench.model.state().engines.has_executed(b.id, 1));
    assert_eq!(wait(&mut bench, b, fence_b.fence, 9, 3), Status::SUCCESS);
    // B still has its own fence, which A had only opened.
    assert_eq!(wait(&mut bench, b, own.fence, 2, 4), Status::PENDING);
    bench.signal(b, &[(own.fence, 2)]).unwrap();
    assert_eq!(told(&bench, 4), Some((own.fence.0, 2)));
}

#[test]
fn a_fence_that_page_tables_have_no_room_for_is_neither_created_nor_opened() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let (a, b) = (bench.client(guest), bench.client(guest));
    let (_, name) = shared(&mut bench, a, 5);
    let opened = bench.model.state().opened.clone();
    let mapped =
        |bench: &Bench| bench.model.state().spaces.values().map(|s| s.len()).sum::<usize>();
    let before = mapped(&bench);
    // No room for the pages of both values.
    let room = std::mem::replace(&mut bench.model.state().page_table_room, 1);
    let request = OpenNativeFence { device: b.device, nt_handle: name };
    let full = (Status::INSUFFICIENT_RESOURCES, 0);
    assert_eq!(bench.call(b, &request).unwrap_err(), full);
    let flags = FenceFlags::SHARED.bits();
    let request = CreateNativeFence { flags, ..CreateNativeFence::new(b.device, 0) };
    assert_eq!(bench.call(b, &request).unwrap_err(), full);
    assert_eq!(bench.model.state().opened, opened);
    assert_eq!(mapped(&bench), before);
    bench.model.state().page_table_room = room;
    open(&mut bench, b, name);
    bench.call(b, &request).unwrap();
}

#[test]
fn a_fence_opened_again_in_its_process_keeps_its_slot_and_is_counted() {
    let (mut bench, client, _) = new(Limits::default());
    let (first, name) = shared(&mut bench, client, 5);
    let second = open(&mut bench, client, name);
    assert_ne!(first.fence, second.fence);
    assert_eq!((first.slot, first.mapping), (second.slot, second.mapping));
    bench.call(client, &DestroyNativeFence { fence: first.fence }).unwrap();
    assert_eq!(wait(&mut bench, client, second.fence, 9, 1), Status::PENDING);
    bench.signal(client, &[(second.fence, 9)]).unwrap();
    assert_eq!(told(&bench, second.fence), [(9, 1)]);
    assert_eq!(open(&mut bench, client, name).slot, first.slot);
}

#[test]
fn only_a_fence_that_was_created_for_it_is_shared_and_only_by_its_name() {
    let (mut bench, client, own) = new(Limits::default());
    let request = ShareNativeFence { fence: own.fence };
    assert_eq!(bench.call(client, &request).unwrap_err().0, Status::NOT_SUPPORTED);
    let (fence, name) = shared(&mut bench, client, 0);
    let again = bench.call(client, &ShareNativeFence { fence: fence.fence }).unwrap();
    assert_eq!(again, name);
    let (_, other) = shared(&mut bench, client, 0);
    assert_ne!(other, name);
    for wrong in [0, 1, fence.fence.0, name.0 ^ 1] {
        let request = OpenNativeFence { device: client.device, nt_handle: NtHandle(wrong) };
        assert_eq!(bench.call(client, &request).unwrap_err(), (Status::INVALID_PARAMETER, wrong));
    }
    // Another guest's names are unknown here.
    let guest = bench.guest(2);
    let stranger = bench.client(guest);
    let request = OpenNativeFence { device: stranger.device, nt_handle: name };
    assert_eq!(bench.call(stranger, &request).unwrap_err(), (Status::INVALID_PARAMETER, name.0));
    let unknown = CreateNativeFence { flags: 2, ..CreateNativeFence::new(client.device, 0) };
    assert_eq!(bench.call(client, &unknown).unwrap_err(), (Status::INVALID_PARAMETER, 2));
}

#[test]
fn fences_of_a_process_share_pages_and_those_of_two_do_not() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let (one, two) = (bench.client(guest), bench.client(guest));
    let page = |slot: u32| slot / 64;
    let first = fence(&mut bench, one, 0);
    assert_eq!(page(first.slot), page(one.fence_slot));
    assert_ne!(page(first.slot), page(fence(&mut bench, two, 0).slot));
    let (alone, _) = shared(&mut bench, one, 0);
    let (other, _) = shared(&mut bench, one, 0);
    let pages = [first, alone, other].map(|fence| page(fence.slot));
    assert!(pages[0] != pages[1] && pages[1] != pages[2] && pages[0] != pages[2]);
    // The values are where packets of the process reach them.
    let va = alone.mapping.current_value_gpu_va;
    let space = bench.model.state().opened[&(guest, alone.slot)].1;
    let entry = |bench: &Bench, va: u64| {
        bench.model.state().mapped(space, va - va % PAGE_SIZE).unwrap_or_default()
    };
    let current = entry(&bench, va);
    assert_eq!(current.page().map(|page| page.segment), Some(Segment::Fence));
    assert!(current.is_writable());
    let monitored = entry(&bench, alone.mapping.monitored_value_gpu_va);
    assert_eq!(monitored.page().map(|page| page.segment), Some(Segment::Fence));
    assert!(!monitored.is_writable());
    assert_ne!(monitored.page(), current.page());
    bench.call(one, &DestroyNativeFence { fence: alone.fence }).unwrap();
    assert_eq!(entry(&bench, va).page(), None);
    assert!(entry(&bench, first.mapping.current_value_gpu_va).page().is_some());
}

fn intra_gpu(bench: &mut Bench, client: Client, initial: u64) -> OpenedFence {
    let fence_type = NativeFenceType::INTRA_GPU;
    let request =
        CreateNativeFence { fence_type, ..CreateNativeFence::new(client.device, initial) };
    bench.call(client, &request).unwrap()
}

#[test]
fn no_cpu_reaches_an_intra_gpu_fence() {
    let (mut bench, client, default) = new(Limits::default());
    let fence = intra_gpu(&mut bench, client, 3);
    assert_eq!(fence.mapping.current_value_offset, NOT_PUBLISHED);
    let token = bench.wait(client, fence.fence, 1, 1);
    assert_eq!(bench.outcome(client, token), Some(Status::NOT_SUPPORTED));
    let token = bench.wait_for(client, ANY, &[(default.fence, 1), (fence.fence, 1)], 1);
    assert_eq!(bench.outcome(client, token), Some(Status::NOT_SUPPORTED));
    let refused = bench.signal(client, &[(default.fence, 99), (fence.fence, 9)]).unwrap_err();
    assert_eq!(refused.0, Status::NOT_SUPPORTED);
    assert_eq!(bench.model.state().fences[&(client.guest, default.slot)].current, 40);
    let unknown = CreateNativeFence {
        fence_type: NativeFenceType(2),
        ..CreateNativeFence::new(client.device, 0)
    };
    assert_eq!(bench.call(client, &unknown).unwrap_err(), (Status::INVALID_PARAMETER, 2));
}

/// Rewindability is a property of the fence.
#[test]
fn a_cpu_rewinds_a_fence_that_may_be_rewound_and_waits_for_more_stay() {
    let (mut bench, client, monotonic) = new(Limits::default());
    let request = CreateNativeFence {
        flags: FenceFlags::REWINDABLE.bits(),
        ..CreateNativeFence::new(client.device, 40)
    };
    let fence = bench.call(client, &request).unwrap();
    assert_eq!(wait(&mut bench, client, fence.fence, 40, 1), Status::SUCCESS);
    bench.signal(client, &[(fence.fence, 7)]).unwrap();
    assert_eq!(wait(&mut bench, client, fence.fence, 40, 2), Status::PENDING);
    assert_eq!(monitored(&bench, client, fence.slot), 39);
    bench.signal(client, &[(fence.fence, 39)]).unwrap();
    bench.signal(client, &[(fence.fence, 0)]).unwrap();
    assert_eq!(told(&bench, fence.fence), []);
    assert_eq!(monitored(&bench, client, fence.slot), 39);
    bench.model.signal(client.guest, fence.slot, 40);
    bench.interrupt();
    assert_eq!(told(&bench, fence.fence), [(40, 2)]);
    assert_eq!(monitored(&bench, client, fence.slot), NOT_MONITORED);
    let refused = (Status::INVALID_PARAMETER, 7);
    assert_eq!(bench.signal(client, &[(monotonic.fence, 7)]).unwrap_err(), refused);
    // A permanently signaled fence stays so.
    bench.signal(client, &[(fence.fence, u64::MAX)]).unwrap();
    assert_eq!(bench.signal(client, &[(fence.fence, 7)]).unwrap_err(), refused);
}
