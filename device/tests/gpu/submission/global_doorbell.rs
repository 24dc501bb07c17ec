// SPDX-License-Identifier: MIT OR Apache-2.0

//! The global doorbell: one word that all queues of a guest ring.

use crate::support::rig::*;
use bellhop_device::gpu::{Gpu, GpuConfig};
use bellhop_host_kmd::hardware::{
    DoorbellModel, DoorbellPages as _, Doorbells as _, Observe as _, Queues as _,
};
use bellhop_protocol::doorbell::{ConnectionStatus, RingTag};
use bellhop_protocol::handoff::hint::HintWord;
use bellhop_protocol::packet::fence::SignalFence;
use std::sync::Arc;
use std::time::Duration;

fn start_global(spin: Duration) -> Arc<Gpu> {
    start_with(GpuConfig { doorbell_model: DoorbellModel::Global, spin, ..GpuConfig::default() })
}

/// A queue that is connected to its guest's global doorbell.
fn connected(guest: &mut Guest, node: u32) -> Queue {
    let queue = guest.disconnected_queue(node);
    guest.gpu.watch_global(queue.id).unwrap();
    guest.gpu.publish_connected(queue.id, ConnectionStatus::CONNECTED).unwrap();
    queue
}

/// Puts a signal into the ring and rings; another value each time.
fn ring(guest: &Guest, queue: &mut Queue) {
    queue.submitted += 1;
    guest.put(queue, &Packets::new().then(SignalFence::new(queue.progress, queue.submitted)));
    let tag = RingTag::new(queue.binding.slot as u16, 1);
    let value = tag.value(queue.submitted as u32);
    let word = guest.word(LAYOUT.doorbell(0));
    if HintWord::new(word).ring(value, &guest.doorbell(queue)) == ConnectionStatus::CONNECTED_NOTIFY
    {
        guest.gpu.kick(queue.id).unwrap();
    }
}

#[test]
fn every_queue_of_every_engine_is_rung_through_one_word() {
    for spin in [Duration::ZERO, Duration::from_micros(50), Duration::from_secs(3)] {
        let gpu = start_global(spin);
        let mut guest = Guest::attach(&gpu);
        let mut queues: Vec<_> =
            [COMPUTE, COPY, COPY + 1, COMPUTE].map(|node| connected(&mut guest, node)).into();
        for _ in 0..200 {
            // All queues ring before any wait: most rings overwrite another.
            for queue in &mut queues {
                ring(&guest, queue);
            }
            for queue in &queues {
                guest.wait(queue.progress, queue.submitted);
            }
        }
        let doorbells = gpu.statistics(guest.id).unwrap().doorbells;
        assert!(doorbells > 0, "no ring was ever seen");
        guest.detach_global(&queues);
    }
}

#[test]
fn threads_that_ring_at_the_same_time_lose_nothing() {
    let gpu = start_global(Duration::from_micros(5));
    let mut guest = Guest::attach(&gpu);
    let mut queues: Vec<_> = (0..8).map(|_| connected(&mut guest, COMPUTE)).collect();
    let shared = &guest;
    std::thread::scope(|threads| {
        for queue in &mut queues {
            threads.spawn(move || {
                for _ in 0..500 {
                    ring(shared, queue);
                    shared.wait(queue.progress, queue.submitted);
                }
            });
        }
    });
    assert!(queues.iter().all(|queue| guest.published(queue.progress) == 500));
    guest.detach_global(&queues);
}

#[test]
fn an_idle_engine_sleeps_and_each_queue_wakes_it() {
    let gpu = start_global(Duration::from_micros(50));
    let mut guest = Guest::attach(&gpu);
    let mut queues = [connected(&mut guest, COMPUTE), connected(&mut guest, COMPUTE)];
    for round in 0..20 {
        wait_until_asleep(&gpu);
        for queue in &queues {
            let status = guest.doorbell(queue).status();
            assert_eq!(status, ConnectionStatus::CONNECTED_NOTIFY);
        }
        let before = gpu.statistics(guest.id).unwrap().engine_wakeups;
        let queue = &mut queues[round % 2];
        ring(&guest, queue);
        guest.wait(queue.progress, queue.submitted);
        assert_eq!(gpu.statistics(guest.id).unwrap().engine_wakeups, before + 1);
    }
    guest.detach_global(&queues);
}

#[test]
fn what_a_guest_stores_to_its_word_reaches_only_its_own_queues() {
    let gpu = start_global(Duration::from_micros(50));
    let (mut hostile, mut guest) = (Guest::attach(&gpu), Guest::attach(&gpu));
    let mut theirs = connected(&mut hostile, COMPUTE);
    let mut queue = connected(&mut guest, COMPUTE);
    for round in 0..500u64 {
        let nonsense = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hostile.word(LAYOUT.doorbell(0)).store(nonsense, std::sync::atomic::Ordering::Relaxed);
        ring(&guest, &mut queue);
        guest.wait(queue.progress, queue.submitted);
    }
    ring(&hostile, &mut theirs);
    hostile.wait(theirs.progress, theirs.submitted);
    hostile.detach_global(&[theirs]);
    guest.detach_global(&[queue]);
}

#[test]
fn a_disconnected_queue_is_not_watched_until_it_is_connected_again() {
    let gpu = start_global(Duration::from_secs(3));
    let mut guest = Guest::attach(&gpu);
    let (mut queue, mut other) = (connected(&mut guest, COMPUTE), connected(&mut guest, COMPUTE));
    ring(&guest, &mut queue);
    guest.wait(queue.progress, queue.submitted);
    gpu.publish_disconnected(queue.id, ConnectionStatus::DISCONNECTED_RETRY).unwrap();
    gpu.unwatch_global(queue.id).unwrap();
    quiesce(&gpu);
    ring(&guest, &mut queue);
    for _ in 0..100 {
        ring(&guest, &mut other);
        guest.wait(other.progress, other.submitted);
    }
    assert_eq!(guest.published(queue.progress), 1);
    gpu.watch_global(queue.id).unwrap();
    gpu.publish_connected(queue.id, ConnectionStatus::CONNECTED).unwrap();
    guest.wait(queue.progress, 2);
    guest.detach_global(&[queue, other]);
}
