// SPDX-License-Identifier: MIT OR Apache-2.0

//! Native fences as packets reach them.

use crate::support::data::write_data;
use crate::support::rig::*;
use bellhop_host_kmd::hardware::{
    CurrentValues as _, FenceStorage, Fences as _, GlobalFence, Interrupt, Interrupts as _,
    PageTables as _, Segment, fence_storage_size,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::FENCE_STRIDE;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::fence::SignalRule;
use bellhop_protocol::packet::fence::{ConditionalInterrupt, SignalFence, WaitFence};
use bellhop_protocol::packet::transfer::Copy;

/// The GPU virtual addresses of the values of a guest's fences.
const CURRENT_VALUES: u64 = 0x3000_0000;
const MONITORED_VALUES: u64 = CURRENT_VALUES + PAGE_SIZE;

/// Maps the values of fences as the kernel does.
fn map_values(guest: &Guest) {
    let monitored = fence_storage_size(LAYOUT.fence_count) / 2;
    guest.map(CURRENT_VALUES, Segment::Fence, 0, PAGE_SIZE, true);
    guest.map(MONITORED_VALUES, Segment::Fence, monitored, PAGE_SIZE, false);
}

fn current_value(slot: u32) -> u64 {
    CURRENT_VALUES + u64::from(slot) * FENCE_STRIDE
}

fn monitored_value(slot: u32) -> u64 {
    MONITORED_VALUES + u64::from(slot) * FENCE_STRIDE
}

#[test]
fn packets_read_both_values_and_write_neither_the_monitored_one() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    map_values(&guest);
    let fence = guest.fence(7);
    monitor(&gpu, guest.id, fence, 41);
    let mut queue = guest.queue(COPY);
    let read = Packets::new().then(Copy::new(current_value(fence), LOCAL, 8)).then(Copy::new(
        monitored_value(fence),
        LOCAL + 8,
        8,
    ));
    guest.run(&mut queue, read);
    assert_eq!((guest.read_word(LOCAL), guest.read_word(LOCAL + 8)), (7, 41));
    let write = write_data(monitored_value(fence), &u64::MAX.to_le_bytes());
    let fault = guest.run_into_fault(&mut queue, &write);
    assert_eq!(fault.reason, FaultReason::WRITE_PROTECTION_FAULT);
    assert_eq!(fault.address, monitored_value(fence));
}

#[test]
fn a_current_value_that_a_packet_stores_counts_once_it_is_evaluated() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    map_values(&guest);
    let fence = guest.fence(0);
    monitor(&gpu, guest.id, fence, 4);
    let (mut waiter, mut signaler) = (guest.queue(COPY), guest.queue(COMPUTE));
    guest.submit_with_progress(&mut waiter, Packets::new().then(WaitFence::new(fence, 5)));
    guest.run(&mut signaler, write_data(current_value(fence), &5u64.to_le_bytes()));
    assert_eq!(guest.published(fence), 0);
    assert_eq!(gpu.take_interrupts(), []);
    guest.run(&mut signaler, Packets::new().then(ConditionalInterrupt::new(fence)));
    assert_eq!(guest.published(fence), 5);
    assert_eq!(take_interrupts(&gpu), [fence_signaled(guest.id, fence)]);
    guest.wait(waiter.progress, waiter.submitted);
}

#[test]
fn packets_name_the_global_fence_that_their_process_opened() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let shared = 40;
    let other = gpu.create_address_space(guest.id).unwrap();
    create_fence(&gpu, guest.id, shared, other, 3);
    let local = 41;
    gpu.open_fence(guest.id, local, shared, guest.space).unwrap();
    monitor(&gpu, guest.id, shared, 3);
    let mut queue = guest.queue(COPY);
    guest.run(&mut queue, Packets::new().then(SignalFence::new(local, 9)));
    assert_eq!(gpu.fence_value(guest.id, shared).unwrap(), 9);
    assert_eq!(guest.published(shared), 9);
    assert_eq!(take_interrupts(&gpu), [fence_signaled(guest.id, shared)]);
    // A process may use only its own slot for a shared fence.
    let fault =
        guest.run_into_fault(&mut queue, &Packets::new().then(SignalFence::new(shared, 10)));
    assert_eq!((fault.reason, fault.address), (FaultReason::FENCE_NOT_OWNED, u64::from(shared)));
}

#[test]
fn a_fence_that_one_process_closes_stays_for_the_others() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(0);
    let local = 41;
    let other = gpu.create_address_space(guest.id).unwrap();
    gpu.open_fence(guest.id, local, fence, other).unwrap();
    let mut queue = guest.queue(COPY);
    guest.submit_with_progress(&mut queue, Packets::new().then(WaitFence::new(fence, 1)));
    // The other process closes its slot, which leaves this process's open.
    gpu.close_fence(guest.id, local).unwrap();
    let mut signaler = guest.queue(COMPUTE);
    guest.run(&mut signaler, Packets::new().then(SignalFence::new(fence, 1)));
    guest.wait(queue.progress, queue.submitted);
}

#[test]
fn a_packet_may_rewind_a_rewindable_fence_and_its_waiters_are_held_until_it_is_reached_again() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = 20;
    let storage = FenceStorage { rule: SignalRule::Rewindable, ..fence_storage(fence) };
    gpu.create_fence(guest.id, fence, storage, Some(9)).unwrap();
    gpu.open_fence(guest.id, fence, fence, guest.space).unwrap();
    let (mut waiter, mut signaler) = (guest.queue(COPY), guest.queue(COMPUTE));
    let signal = |value| Packets::new().then(SignalFence::new(fence, value));
    guest.run(&mut signaler, signal(2));
    assert_eq!((gpu.fence_value(guest.id, fence).unwrap(), guest.published(fence)), (2, 2));
    // The greater value of before is gone, for a CPU that waits as for an engine.
    monitor(&gpu, guest.id, fence, 8);
    guest.submit_with_progress(&mut waiter, Packets::new().then(WaitFence::new(fence, 9)));
    guest.run(&mut signaler, signal(8));
    assert_eq!(gpu.take_interrupts(), []);
    assert!(guest.published(waiter.progress) < waiter.submitted, "the queue went on too early");
    guest.run(&mut signaler, signal(9));
    guest.wait(waiter.progress, waiter.submitted);
    assert_eq!(take_interrupts(&gpu), [fence_signaled(guest.id, fence)]);
    // A fence that is not rewindable stays monotonic.
    let monotonic = guest.fence(9);
    let backwards = Packets::new().then(SignalFence::new(monotonic, 2));
    let fault = guest.run_into_fault(&mut signaler, &backwards);
    assert_eq!(fault.reason, FaultReason::FENCE_WENT_BACKWARDS);
}

#[test]
fn each_signal_of_a_monitored_fence_interrupts_and_a_packet_that_waits_for_it_faults() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = 20;
    let storage = FenceStorage { native: false, ..fence_storage(fence) };
    gpu.create_fence(guest.id, fence, storage, Some(3)).unwrap();
    gpu.open_fence(guest.id, fence, fence, guest.space).unwrap();
    let mut queue = guest.queue(COPY);
    let signaled = || GlobalFence { guest: guest.id, slot: fence };
    for value in 4..7 {
        guest.run(&mut queue, Packets::new().then(SignalFence::new(fence, value)));
        let interrupt = Interrupt::MonitoredFenceSignaled { signaled: vec![signaled()] };
        assert_eq!(take_interrupts(&gpu), [interrupt]);
        assert_eq!(guest.published(fence), value);
    }
    // Even though the value is reached already.
    let fault = guest.run_into_fault(&mut queue, &Packets::new().then(WaitFence::new(fence, 1)));
    assert_eq!((fault.reason, fault.address), (FaultReason::FENCE_NOT_NATIVE, u64::from(fence)));
    let mut other = guest.queue(COPY);
    guest.run(&mut other, Packets::new().then(SignalFence::new(fence, 7)));
}

#[test]
fn signals_of_one_fence_are_all_made_before_a_packet_reads_it_and_before_the_queue_faults() {
    let gpu = start();
    for count in [1, 2, 15, 16, 17, 18, 33, 100] {
        let mut guest = Guest::attach(&gpu);
        map_values(&guest);
        let (fence, other) = (guest.fence(0), guest.fence(0));
        let mut queue = guest.queue(COPY);
        let signals = |fence, packets: Packets| {
            (1..=count).fold(packets, |packets, value| packets.then(SignalFence::new(fence, value)))
        };
        let read = signals(fence, Packets::new()).then(Copy::new(current_value(fence), LOCAL, 8));
        guest.run(&mut queue, read);
        assert_eq!((guest.read_word(LOCAL), guest.published(fence)), (count, count));
        // The last signal goes back; earlier ones count.
        let back = signals(other, Packets::new()).then(SignalFence::new(other, count - 1));
        let fault = guest.run_into_fault(&mut queue, &back);
        assert_eq!(fault.reason, FaultReason::FENCE_WENT_BACKWARDS);
        assert_eq!((fault.address, guest.published(other)), (count - 1, count));
    }
}

#[test]
fn signals_of_several_fences_in_turn_are_all_made() {
    let mut guest = Guest::start();
    let fences: Vec<_> = (0..3).map(|_| guest.fence(0)).collect();
    let mut queue = guest.queue(COPY);
    let signals = (1..=90).fold(Packets::new(), |packets, value: u64| {
        // Twenty signals of the first fence, then of each in turn.
        let fence = if value <= 20 { fences[0] } else { fences[value as usize % 3] };
        packets.then(SignalFence::new(fence, value))
    });
    guest.run(&mut queue, signals);
    let values: Vec<_> = fences.iter().map(|fence| guest.published(*fence)).collect();
    assert_eq!(values, [90, 88, 89]);
}

#[test]
fn a_fence_that_a_queue_signaled_is_not_signaled_once_it_is_closed() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(0);
    let mut queue = guest.queue(COPY);
    let signal = |value| Packets::new().then(SignalFence::new(fence, value));
    for value in [1, 2] {
        guest.submit(&mut queue, &signal(value));
        guest.wait(fence, value);
    }
    gpu.close_fence(guest.id, fence).unwrap();
    let fault = guest.run_into_fault(&mut queue, &signal(3));
    assert_eq!((fault.reason, fault.address), (FaultReason::FENCE_NOT_OWNED, fence.into()));
    assert_eq!((guest.published(fence), gpu.fence_value(guest.id, fence)), (2, Ok(2)));
}

#[test]
fn a_slot_that_is_opened_for_another_fence_signals_that_one() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let (first, second, local) = (guest.fence(0), guest.fence(0), 40);
    let mut queue = guest.queue(COPY);
    let signal = |value| Packets::new().then(SignalFence::new(local, value));
    gpu.open_fence(guest.id, local, first, guest.space).unwrap();
    for value in [1, 2] {
        guest.submit(&mut queue, &signal(value));
        guest.wait(first, value);
    }
    gpu.close_fence(guest.id, local).unwrap();
    gpu.open_fence(guest.id, local, second, guest.space).unwrap();
    guest.submit(&mut queue, &signal(3));
    guest.wait(second, 3);
    assert_eq!(guest.published(first), 2);
}

#[test]
fn two_engines_that_wait_for_each_other_go_on_whether_they_poll_or_are_called() {
    const EXCHANGES: u64 = 2000;
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let (there, back) = (guest.fence(0), guest.fence(0));
    let (mut first, mut second) = (guest.queue(COMPUTE), guest.queue(COPY));
    for values in (1..=EXCHANGES).collect::<Vec<_>>().chunks(20) {
        let exchange = |first: bool| {
            values.iter().fold(Packets::new(), |packets, &value| match first {
                true => {
                    packets.then(SignalFence::new(there, value)).then(WaitFence::new(back, value))
                }
                false => {
                    packets.then(WaitFence::new(there, value)).then(SignalFence::new(back, value))
                }
            })
        };
        guest.submit_with_progress(&mut second, exchange(false));
        if values[0] % 3 == 0 {
            // A sleeping engine has asked to be called.
            wait_until_asleep(&gpu);
        }
        guest.submit_with_progress(&mut first, exchange(true));
    }
    guest.wait(first.progress, first.submitted);
    guest.wait(second.progress, second.submitted);
    assert_eq!((guest.published(there), guest.published(back)), (EXCHANGES, EXCHANGES));
}
