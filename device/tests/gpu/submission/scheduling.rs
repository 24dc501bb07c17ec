// SPDX-License-Identifier: MIT OR Apache-2.0

//! When engines sleep, wake, wait, take turns and release queues.

use crate::support::data::{noise, write_data};
use crate::support::rig::*;
use bellhop_device::gpu::GpuConfig;
use bellhop_host_kmd::hardware::{
    DoorbellPages as _, Doorbells as _, Interrupt, KernelSubmission, Observe as _, Queues as _,
    Quiescence as _,
};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::packet::fence::{SignalFence, WaitFence};
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::transfer::{Copy, Fill};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn an_idle_engine_sleeps_and_wakes_when_it_is_notified() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COMPUTE);
    for _ in 0..20 {
        wait_until_asleep(&gpu);
        assert_eq!(guest.doorbell(&queue).status(), ConnectionStatus::CONNECTED_NOTIFY);
        let before = gpu.statistics(guest.id).unwrap().engine_wakeups;
        guest.run(&mut queue, Packets::new());
        assert_eq!(gpu.statistics(guest.id).unwrap().engine_wakeups, before + 1);
    }
}

#[test]
fn no_ring_is_lost_however_it_meets_falling_asleep() {
    // Without a spin the engine arms and sleeps all the time.
    let gpu = start_with(GpuConfig { spin: Duration::ZERO, ..GpuConfig::default() });
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COMPUTE);
    for _ in 0..20_000 {
        guest.run(&mut queue, Packets::new());
    }
}

#[test]
fn no_ring_is_lost_however_it_meets_disconnecting_and_connecting() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.disconnected_queue(COMPUTE);
    let (id, doorbell) = (queue.id, guest.physical_doorbell(&queue));
    for round in 1..=2_000 {
        std::thread::scope(|scope| {
            // Disconnects as the kernel does: the status first, then the watch, then one last look.
            scope.spawn(|| {
                gpu.publish_disconnected(id, ConnectionStatus::DISCONNECTED_RETRY).unwrap();
                gpu.unwatch(doorbell).unwrap();
                gpu.kick(id).unwrap();
            });
            queue.submitted = round;
            let signal = SignalFence::new(queue.progress, round);
            guest.put(&mut queue, &Packets::new().then(signal));
            while guest.ring(&queue) == ConnectionStatus::DISCONNECTED_RETRY {
                guest.connect(&queue);
            }
            guest.wait(queue.progress, round);
        });
        guest.connect(&queue);
    }
}

#[test]
fn work_that_a_ring_holds_runs_when_its_doorbell_is_connected() {
    let mut guest = Guest::start();
    let mut queue = guest.disconnected_queue(COPY);
    assert_eq!(guest.doorbell(&queue).status(), ConnectionStatus::DISCONNECTED_RETRY);
    guest.submit_with_progress(&mut queue, Packets::new());
    quiesce(&guest.gpu);
    assert_eq!(guest.published(queue.progress), 0);
    guest.connect(&queue);
    guest.wait(queue.progress, 1);
}

#[test]
fn a_connection_that_is_published_to_a_sleeping_engine_is_armed() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let queue = guest.disconnected_queue(COPY);
    gpu.watch(guest.physical_doorbell(&queue), queue.id).unwrap();
    gpu.kick(queue.id).unwrap();
    wait_until_asleep(&gpu);
    gpu.publish_connected(queue.id, ConnectionStatus::CONNECTED).unwrap();
    eventually("the doorbell is armed", || {
        guest.doorbell(&queue).status() == ConnectionStatus::CONNECTED_NOTIFY
    });
}

#[test]
fn a_queue_that_waits_delays_no_other_and_continues_when_it_is_signaled() {
    let mut guest = Guest::start();
    let fence = guest.fence(0);
    let (mut waiter, mut neighbour) = (guest.queue(COPY), guest.queue(COPY));
    let mut signaler = guest.queue(COMPUTE);
    for value in 1..=200 {
        guest.submit_with_progress(&mut waiter, Packets::new().then(WaitFence::new(fence, value)));
        guest.run(&mut neighbour, Packets::new());
        assert_eq!(guest.published(waiter.progress), value - 1);
        if value % 10 == 0 {
            wait_until_asleep(&guest.gpu);
        }
        guest.run(&mut signaler, Packets::new().then(SignalFence::new(fence, value)));
        guest.wait(waiter.progress, value);
    }
}

#[test]
fn two_engines_hand_a_token_to_each_other() {
    let mut guest = Guest::start();
    let (ping, pong) = (guest.fence(0), guest.fence(0));
    let (mut left, mut right) = (guest.queue(COMPUTE), guest.queue(COPY));
    for value in 1..=1000 {
        let go = Packets::new().then(SignalFence::new(ping, value));
        guest.submit_with_progress(&mut left, go.then(WaitFence::new(pong, value)));
        let come = Packets::new().then(WaitFence::new(ping, value));
        guest.submit_with_progress(&mut right, come.then(SignalFence::new(pong, value)));
    }
    guest.wait(left.progress, 1000);
    guest.wait(right.progress, 1000);
}

#[test]
fn a_queue_can_wait_for_another_of_its_own_engine() {
    let mut guest = Guest::start();
    let fence = guest.fence(0);
    let (mut waiter, mut signaler) = (guest.queue(COPY), guest.queue(COPY));
    guest.submit_with_progress(&mut waiter, Packets::new().then(WaitFence::new(fence, 5)));
    guest.run(&mut signaler, Packets::new().then(SignalFence::new(fence, 4)));
    assert_eq!(guest.published(waiter.progress), 0);
    guest.run(&mut signaler, Packets::new().then(SignalFence::new(fence, 5)));
    guest.wait(waiter.progress, 1);
}

/// Packets that keep an engine busy practically forever: nested buffers full of buffers.
fn endless(guest: &mut Guest) -> IndirectBuffer {
    let mut buffer = guest.buffer(&Packets::new().then(Fill::new(LOCAL, FREE, 0)));
    for _ in 0..3 {
        let many = (0..10_000).fold(Packets::new(), |packets, _| packets.then(buffer));
        buffer = guest.buffer(&many);
    }
    buffer
}

#[test]
fn queues_of_an_engine_take_turns() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let buffer = endless(&mut guest);
    let (mut hog, mut neighbour) = (guest.queue(COPY), guest.queue(COPY));
    guest.submit(&mut hog, &Packets::new().then(buffer));
    for _ in 0..50 {
        guest.run(&mut neighbour, Packets::new());
    }
    gpu.destroy_hw_queue(hog.id).unwrap();
    quiesce(&gpu);
    wait_until_asleep(&gpu);
}

#[test]
fn a_destroyed_queue_writes_nothing_after_a_quiesce() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let buffer = endless(&mut guest);
    let mut queue = guest.queue(COPY);
    guest.write(LOCAL, &[1; 8]);
    guest.submit(&mut queue, &Packets::new().then(buffer));
    eventually("the queue writes", || guest.read_word(LOCAL) == 0);
    gpu.destroy_hw_queue(queue.id).unwrap();
    quiesce(&gpu);
    let data = noise(FREE as usize);
    guest.write(LOCAL, &data);
    wait_until_asleep(&gpu);
    assert!(guest.read(LOCAL, FREE as usize) == data);
}

#[test]
fn a_ring_that_is_taken_away_is_no_longer_read_and_another_starts_at_zero() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let buffer = endless(&mut guest);
    let mut queue = guest.queue(COPY);
    guest.submit(&mut queue, &Packets::new().then(buffer));
    gpu.publish_disconnected(queue.id, ConnectionStatus::DISCONNECTED_RETRY).unwrap();
    gpu.unwatch(guest.physical_doorbell(&queue)).unwrap();
    gpu.unbind_ring(queue.id).unwrap();
    quiesce(&gpu);
    wait_until_asleep(&gpu);
    guest.word(LAYOUT.last_queued(queue.binding.slot)).store(77, Ordering::Release);
    queue.binding.ring_va = guest.allocate(4096);
    queue.binding.control_va = guest.allocate(4096);
    queue.written = 0;
    gpu.bind_ring(queue.id, queue.binding).unwrap();
    assert_eq!(gpu.last_queued_value(queue.id).unwrap(), 0);
    guest.connect(&queue);
    guest.run(&mut queue, write_data(SYSTEM, b"again"));
    assert_eq!(guest.read(SYSTEM, 5), b"again");
}

#[test]
fn unmapping_takes_effect_with_the_next_quiesce_and_mapping_at_once() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    guest.write(SYSTEM, &[7; 16]);
    guest.run(&mut queue, Packets::new().then(Copy::new(SYSTEM, LOCAL, 8)));
    // Another page at this address.
    use bellhop_host_kmd::hardware::Segment;
    guest.map(SYSTEM, Segment::System, PHYSICAL + 0x1000, 0x1000, true);
    quiesce(&guest.gpu);
    guest.run(&mut queue, Packets::new().then(Copy::new(SYSTEM, LOCAL + 8, 8)));
    assert_eq!(guest.read(LOCAL, 16), [[7; 8], [0; 8]].concat());
    guest.map(0x6000_0000, Segment::Local, 0, 0x1000, false);
    guest.run(&mut queue, Packets::new().then(Copy::new(0x6000_0000, LOCAL + 8, 8)));
    assert_eq!(guest.read(LOCAL, 16), [7; 16]);
}

#[test]
fn every_ticket_passes_and_an_interrupt_tells() {
    let gpu = start();
    for _ in 0..100 {
        let ticket = gpu.quiesce(None);
        while gpu.quiesced() < ticket {
            let interrupts = take_interrupts(&gpu);
            assert!(interrupts.iter().all(|interrupt| *interrupt == Interrupt::Quiesced));
        }
    }
}

#[test]
fn engines_end_with_the_gpu() {
    let mut guest = Guest::start();
    let buffer = endless(&mut guest);
    let mut queue = guest.queue(COPY);
    guest.submit(&mut queue, &Packets::new().then(buffer));
    let file = std::sync::Arc::downgrade(&guest.gpu.bar_file(guest.id).unwrap());
    drop(guest);
    // Nothing keeps the BAR alive: all threads have been joined, except the one that unmaps it.
    eventually("the BAR goes", || file.strong_count() == 0);
}

#[test]
fn a_preempted_queue_stops_is_reported_and_continues_where_it_was() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    guest.write(LOCAL, &noise(FREE as usize / 2));
    let copies = (0..200).fold(Packets::new(), |packets, _| {
        packets.then(Copy::new(LOCAL, LOCAL + FREE / 2, FREE / 2))
    });
    let buffer = guest.buffer(&copies);
    guest.submit_with_progress(&mut queue, Packets::new().then(buffer));
    eventually("the copies begin", || gpu.statistics(guest.id).unwrap().bytes > 0);
    for round in 1..=20 {
        gpu.preempt_hw_queue(queue.id, round).unwrap();
        let preempted = Interrupt::DmaPreempted {
            node: COPY,
            engine: 0,
            preemption_fence: round,
            last_completed_fence: 0,
        };
        while !take_interrupts(&gpu).contains(&preempted) {}
        let bytes = gpu.statistics(guest.id).unwrap().bytes;
        quiesce(&gpu);
        assert_eq!(gpu.statistics(guest.id).unwrap().bytes, bytes);
        gpu.resume_hw_queues(&[queue.id]).unwrap();
    }
    guest.wait(queue.progress, 1);
    eventually("the count", || gpu.statistics(guest.id).unwrap().bytes == 200 * FREE / 2);
    assert!(guest.read(LOCAL + FREE / 2, FREE as usize / 2) == noise(FREE as usize / 2));
}

#[test]
fn a_preempted_queue_tells_which_kernel_mode_submission_it_completed_last() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let (queue, progress) = guest.kernel_mode_queue(COPY);
    let buffer = guest.buffer(&Packets::new().then(Fill::new(LOCAL, 64, 1)));
    for submission_fence in [7, 9] {
        let (gpu_va, size) = (buffer.gpu_va, buffer.size());
        let progress_fence_value = submission_fence;
        gpu.submit_kernel_mode(
            queue,
            KernelSubmission { gpu_va, size, progress_fence_value, submission_fence },
        )
        .unwrap();
        gpu.kick(queue).unwrap();
        guest.wait(progress, submission_fence);
    }
    gpu.preempt_hw_queue(queue, 3).unwrap();
    let mut interrupts = Vec::new();
    while !matches!(interrupts.last(), Some(Interrupt::DmaPreempted { .. })) {
        interrupts.extend(take_interrupts(&gpu));
    }
    let (node, engine) = (COPY, 0);
    let preempted =
        Interrupt::DmaPreempted { node, engine, preemption_fence: 3, last_completed_fence: 9 };
    assert!(interrupts.contains(&Interrupt::DmaCompleted { node, engine, fence: 9 }));
    assert_eq!(interrupts.last(), Some(&preempted));
}
