// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two GPUs and a fence that a guest of each shares.

use crate::support::data::write_data;
use crate::support::rig::*;
use bellhop_device::gpu::{CrossAdapterMemory, Gpu, GpuConfig};
use bellhop_host_kmd::hardware::{
    CurrentValues as _, FenceStorage, Fences as _, GuestId, Interrupt, Memory as _,
    PhysicalAddress, Segment,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::packet::fence::{ConditionalInterrupt, SignalFence, WaitFence};
use bellhop_protocol::packet::transfer::Copy;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The slot of the fence in each guest.
const FENCE: u32 = 40;
/// The fence's page of cross-adapter memory.
const PAGE: u64 = PAGE_SIZE;
/// The GPU virtual address of CurrentValue in each guest.
const CURRENT_VALUE: u64 = 0x3000_0000;

/// A GPU with a guest that has the fence.
fn gpu(memory: &Arc<CrossAdapterMemory>, initial: Option<u64>) -> (Arc<Gpu>, Guest) {
    let gpu = Gpu::start_beside(GpuConfig::default(), Arc::clone(memory)).unwrap();
    let guest = Guest::attach(&gpu);
    have_fence(&guest, initial);
    (gpu, guest)
}

/// Gives a guest the fence, as the kernel does.
fn have_fence(guest: &Guest, initial: Option<u64>) {
    let current = PhysicalAddress { segment: Segment::CrossAdapter, address: PAGE };
    let storage = FenceStorage { current, ..fence_storage(FENCE) };
    guest.gpu.create_fence(guest.id, FENCE, storage, initial).unwrap();
    monitor(&guest.gpu, guest.id, FENCE, 0);
    guest.gpu.open_fence(guest.id, FENCE, FENCE, guest.space).unwrap();
    guest.map(CURRENT_VALUE, Segment::CrossAdapter, PAGE, PAGE_SIZE, true);
}

fn two() -> ((Arc<Gpu>, Guest), (Arc<Gpu>, Guest)) {
    let memory = Arc::new(CrossAdapterMemory::new(2).unwrap());
    (gpu(&memory, Some(3)), gpu(&memory, None))
}

/// Takes a guest's interrupt and tells the other guest, as the kernel does.
fn propagate(from: &Gpu, signaler: GuestId, to: &Guest) {
    loop {
        let expected = fence_signaled(signaler, FENCE);
        let taken = take_interrupts(from);
        assert!(taken.iter().all(|i| *i == expected || *i == Interrupt::Quiesced), "{taken:?}");
        if taken.contains(&expected) {
            return to.gpu.notify_current_values(to.id, &[FENCE], false).unwrap();
        }
    }
}

#[test]
fn an_engine_of_either_gpu_continues_when_the_others_signals() {
    let ((first, mut one), (second, mut two)) = two();
    let (mut here, mut there) = (one.queue(COPY), two.queue(COMPUTE));
    assert_eq!(two.published(FENCE), 3);
    for value in [10, 20, 30] {
        one.submit_with_progress(&mut here, Packets::new().then(WaitFence::new(FENCE, value)));
        two.run(&mut there, Packets::new().then(SignalFence::new(FENCE, value)));
        propagate(&second, two.id, &one);
        one.wait(here.progress, here.submitted);
        assert_eq!((one.published(FENCE), two.published(FENCE)), (value, value));
        // And the other way round.
        let wait = Packets::new().then(WaitFence::new(FENCE, value + 1));
        two.submit_with_progress(&mut there, wait);
        one.run(&mut here, Packets::new().then(SignalFence::new(FENCE, value + 1)));
        propagate(&first, one.id, &two);
        two.wait(there.progress, there.submitted);
    }
}

#[test]
fn packets_of_both_write_one_current_value() {
    let ((_first, mut one), (second, mut two)) = two();
    let (mut here, mut there) = (one.queue(COPY), two.queue(COPY));
    two.run(&mut there, write_data(CURRENT_VALUE, &7u64.to_le_bytes()));
    one.run(&mut here, Packets::new().then(Copy::new(CURRENT_VALUE, LOCAL, 8)));
    assert_eq!(one.read_word(LOCAL), 7);
    // The value counts, in both guests, once `CONDITIONAL_INTERRUPT` evaluates it.
    assert_eq!((one.published(FENCE), two.published(FENCE)), (3, 3));
    two.run(&mut there, Packets::new().then(ConditionalInterrupt::new(FENCE)));
    propagate(&second, two.id, &one);
    assert_eq!((one.published(FENCE), two.published(FENCE)), (7, 7));
}

#[test]
fn a_signal_that_another_guest_was_faster_than_does_nothing_and_loses_no_queue() {
    let ((_first, mut one), (_second, mut two)) = two();
    let (mut here, mut there) = (one.queue(COPY), two.queue(COPY));
    two.run(&mut there, Packets::new().then(SignalFence::new(FENCE, u64::MAX)));
    one.run(&mut here, Packets::new().then(SignalFence::new(FENCE, 4)));
    one.run(&mut here, Packets::new().then(WaitFence::new(FENCE, u64::MAX)));
}

#[test]
fn what_a_guest_writes_over_its_publication_misleads_itself_alone() {
    let ((_first, mut one), (second, mut two)) = two();
    let (mut here, mut there) = (one.queue(COPY), two.queue(COPY));
    one.word(LAYOUT.fence(FENCE)).store(1 << 40, Ordering::Relaxed);
    two.run(&mut there, Packets::new().then(SignalFence::new(FENCE, 5)));
    propagate(&second, two.id, &one);
    assert_eq!((one.published(FENCE), two.published(FENCE)), (5, 5));
    one.word(LAYOUT.fence(FENCE)).store(1 << 40, Ordering::Relaxed);
    assert_eq!(two.published(FENCE), 5);
    one.run(&mut here, Packets::new().then(SignalFence::new(FENCE, 6)));
    assert_eq!(second.fence_value(two.id, FENCE).unwrap(), 6);
}

#[test]
fn a_released_guest_continues_and_the_other_waits_for_its_signal() {
    let ((first, mut one), (second, mut two)) = two();
    let (mut here, mut there) = (one.queue(COPY), two.queue(COPY));
    one.submit_with_progress(&mut here, Packets::new().then(WaitFence::new(FENCE, 5)));
    two.submit_with_progress(&mut there, Packets::new().then(WaitFence::new(FENCE, 5)));
    first.notify_current_values(one.id, &[FENCE], true).unwrap();
    one.wait(here.progress, here.submitted);
    assert_eq!((one.published(FENCE), second.fence_value(two.id, FENCE).unwrap()), (u64::MAX, 3));
    // Signals of the abandoned fence do nothing.
    one.run(&mut here, Packets::new().then(SignalFence::new(FENCE, 5)));
    one.run(&mut here, Packets::new().then(ConditionalInterrupt::new(FENCE)));
    assert_eq!((one.published(FENCE), second.fence_value(two.id, FENCE).unwrap()), (u64::MAX, 3));
    assert_eq!(two.published(there.progress), 0);
    let mut signaler = two.queue(COMPUTE);
    two.run(&mut signaler, Packets::new().then(SignalFence::new(FENCE, 5)));
    two.wait(there.progress, there.submitted);
}

#[test]
fn memory_that_a_guest_gave_up_holds_nothing_for_the_next() {
    let ((first, mut one), (_second, mut two)) = two();
    let mut there = two.queue(COPY);
    two.run(&mut there, write_data(CURRENT_VALUE + 64, &[0xAB; 8]));
    first.zero_memory(one.id, Segment::CrossAdapter, PAGE, PAGE_SIZE).unwrap();
    let mut here = one.queue(COPY);
    one.run(&mut here, Packets::new().then(Copy::new(CURRENT_VALUE + 64, LOCAL, 8)));
    assert_eq!(one.read_word(LOCAL), 0);
}

#[test]
fn memory_that_gpus_share_ends_where_it_does() {
    let memory = Arc::new(CrossAdapterMemory::new(2).unwrap());
    let (_gpu, mut guest) = gpu(&memory, Some(0));
    guest.map(CURRENT_VALUE + PAGE_SIZE, Segment::CrossAdapter, 2 * PAGE_SIZE, PAGE_SIZE, true);
    let mut queue = guest.queue(COPY);
    let fault = guest.run_into_fault(&mut queue, &write_data(CURRENT_VALUE + PAGE_SIZE, &[1; 8]));
    assert!(fault.reason.is_page_fault());
}
