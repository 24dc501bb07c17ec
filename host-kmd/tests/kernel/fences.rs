//! Native fences and CPU waits.

use crate::bench::{BAR, Bench, Client};
use crate::model::Call;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::Interrupt;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{
    CancelWait, CreateNativeFence, CreateNativeFenceReply, DestroyNativeFence, WaitForFence,
};
use bellhop_protocol::control::hw_queue::DestroyHwQueue;
use bellhop_protocol::event::EventKind;
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::status::Status;

fn new(limits: Limits) -> (Bench, Client, CreateNativeFenceReply) {
    let mut bench = Bench::with_limits(2, limits);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let request = CreateNativeFence { device: client.device, initial_value: 40 };
    let fence = bench.call(client, &request).unwrap();
    bench.model.take_log();
    (bench, client, fence)
}

fn wait(bench: &mut Bench, client: Client, fence: Handle, value: u64, cookie: u64) -> Status {
    let token = bench.begin(client, &WaitForFence { fence, value, cookie });
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
    assert_eq!(fence.current_value_offset, BAR.fence(fence.slot));
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
    // A greater value changes nothing, and nothing is told to the GPU.
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
    // The new waiter gets the reply and no event; nobody is monitored any more.
    assert_eq!(wait(&mut bench, client, fence.fence, 42, 1), Status::SUCCESS);
    assert_eq!(bench.events, []);
    assert_eq!(monitored(&bench, client, fence.slot), NOT_MONITORED);

    // A signal while another waiter's value is told to the GPU.
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 5), Status::PENDING);
    bench.model.state().signal_during_update = Some(51);
    assert_eq!(wait(&mut bench, client, fence.fence, 46, 6), Status::SUCCESS);
    assert_eq!(told(&bench, fence.fence), [(51, 5)]);

    // A signal while the value is told after an interrupt.
    assert_eq!(wait(&mut bench, client, fence.fence, 60, 7), Status::PENDING);
    assert_eq!(wait(&mut bench, client, fence.fence, 61, 8), Status::PENDING);
    bench.model.signal(client.guest, fence.slot, 60);
    bench.model.state().signal_during_update = Some(61);
    bench.interrupt();
    assert_eq!(told(&bench, fence.fence), [(51, 5), (60, 7), (61, 8)]);
    assert_eq!(monitored(&bench, client, fence.slot), NOT_MONITORED);
}

#[test]
fn spurious_interrupts_tell_nobody_anything() {
    let (mut bench, client, fence) = new(Limits::default());
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 5), Status::PENDING);
    for slot in [fence.slot, client.fence_slot, 11, u32::MAX] {
        bench.model.raise(Interrupt::NativeFenceSignaled { guest: client.guest, slot });
    }
    bench.model.raise(Interrupt::NativeFencesSignaled);
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
    // As if the GPU had forgotten which fences they were.
    forget_interrupts(&bench);
    bench.model.raise(Interrupt::NativeFencesSignaled);
    bench.interrupt();
    let objects: Vec<_> =
        bench.events.iter().map(|(guest, event)| (*guest, event.object)).collect();
    assert_eq!(objects, [(one.guest, one.fence.0), (two.guest, two.fence.0)]);
}

fn forget_interrupts(bench: &Bench) {
    use bellhop_host_kmd::hardware::Hardware;
    assert_eq!(bench.model.take_interrupts().len(), 2);
}

#[test]
fn a_wait_can_be_taken_back_once() {
    let (mut bench, client, fence) = new(Limits::default());
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 5), Status::PENDING);
    assert_eq!(wait(&mut bench, client, fence.fence, 45, 6), Status::PENDING);
    let cancel = CancelWait { fence: fence.fence, cookie: 6 };
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
fn a_destroyed_fence_tells_nobody_and_its_slot_comes_back_after_the_quiesce() {
    let (mut bench, client, fence) = new(Limits::default());
    assert_eq!(wait(&mut bench, client, fence.fence, 50, 5), Status::PENDING);
    bench.model.signal(client.guest, fence.slot, 60);
    bench.model.state().prompt = false;
    let token = bench.begin(client, &DestroyNativeFence { fence: fence.fence });
    assert_eq!(bench.model.take_log().last(), Some(&Call::Quiesce));
    bench.interrupt();
    assert_eq!(bench.events, []);
    let create = CreateNativeFence { device: client.device, initial_value: 0 };
    let second = bench.call(client, &create).unwrap();
    assert_ne!(second.slot, fence.slot);
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
    assert_eq!(bench.call(client, &create).unwrap().slot, fence.slot);
}
