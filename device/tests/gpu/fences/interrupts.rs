// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fence interrupts: raised only for a CPU that waits, once, and never lost.

use crate::support::rig::*;
use bellhop_device::gpu::Nudge;
use bellhop_host_kmd::hardware::{CurrentValues as _, Interrupt, Interrupts as _, Observe as _};
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::packet::fence::{ConditionalInterrupt, SignalFence};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn only_a_value_above_the_monitored_one_interrupts() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    let fence = guest.fence(0);
    let signal = |value| Packets::new().then(SignalFence::new(fence, value));
    assert_eq!(monitor(&gpu, guest.id, fence, 41), 0);
    guest.run(&mut queue, signal(41));
    assert_eq!(gpu.take_interrupts(), []);
    guest.run(&mut queue, signal(42));
    let expected = [fence_signaled(guest.id, fence)];
    assert_eq!(take_interrupts(&gpu), expected);
    assert_eq!(monitor(&gpu, guest.id, fence, NOT_MONITORED), 42);
    guest.run(&mut queue, signal(43));
    assert_eq!(gpu.take_interrupts(), []);
}

#[test]
fn a_conditional_interrupt_is_evaluated_as_the_fence_stands() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    let fence = guest.fence(9);
    let evaluate = || Packets::new().then(ConditionalInterrupt::new(fence));
    assert_eq!(monitor(&gpu, guest.id, fence, 9), 9);
    guest.run(&mut queue, evaluate());
    assert_eq!(gpu.take_interrupts(), []);
    assert_eq!(monitor(&gpu, guest.id, fence, 8), 9);
    guest.run(&mut queue, evaluate());
    let expected = [fence_signaled(guest.id, fence)];
    assert_eq!(take_interrupts(&gpu), expected);
}

#[test]
fn a_guest_cannot_raise_more_than_one_interrupt_at_a_time_for_a_fence() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    let fences: Vec<_> = (0..4).map(|_| guest.fence(0)).collect();
    for fence in &fences {
        monitor(&gpu, guest.id, *fence, 0);
    }
    for value in 1..=500 {
        let signals = fences
            .iter()
            .fold(Packets::new(), |packets, fence| packets.then(SignalFence::new(*fence, value)));
        guest.submit_with_progress(&mut queue, signals);
    }
    guest.wait(queue.progress, 500);
    let signaled = take_interrupts(&gpu).into_iter().map(|interrupt| match interrupt {
        Interrupt::NativeFenceSignaled { signaled, .. } => signaled.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(signaled.sum::<usize>(), fences.len());
    eventually("the count", || gpu.statistics(guest.id).unwrap().interrupts == fences.len() as u64);
}

#[test]
fn a_waiter_that_goes_by_interrupts_alone_is_always_woken() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    let fence = guest.fence(0);
    for value in 1..=2_000 {
        guest.submit(&mut queue, &Packets::new().then(SignalFence::new(fence, value)));
        // Waits as the kernel does: store the least waited value minus 1, then load CurrentValue.
        let mut current = monitor(&gpu, guest.id, fence, value - 1);
        while current < value {
            for interrupt in take_interrupts(&gpu) {
                assert_eq!(interrupt, fence_signaled(guest.id, fence));
            }
            current = gpu.fence_value(guest.id, fence).unwrap();
        }
        monitor(&gpu, guest.id, fence, NOT_MONITORED);
    }
}

/// Counts the nudges of a guest.
#[derive(Debug, Default)]
struct Nudges(AtomicU32);

impl Nudge for Nudges {
    fn nudge(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_guest_is_nudged_with_each_interrupt_for_its_fences_and_at_no_other_time() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let nudges = Arc::new(Nudges::default());
    gpu.set_guest_nudge(guest.id, Arc::clone(&nudges) as Arc<dyn Nudge>);
    let mut queue = guest.queue(COPY);
    let fence = guest.fence(0);
    let signal = |value| Packets::new().then(SignalFence::new(fence, value));
    let count = || nudges.0.load(Ordering::Relaxed);
    monitor(&gpu, guest.id, fence, 1);
    guest.run(&mut queue, signal(1));
    assert_eq!(count(), 0, "nobody waits for this value");
    for value in 2..5 {
        guest.run(&mut queue, signal(value));
    }
    assert_eq!(count(), 1, "the first was not taken yet");
    assert_eq!(take_interrupts(&gpu), [fence_signaled(guest.id, fence)]);
    guest.run(&mut queue, signal(5));
    assert_eq!(count(), 2);
}
