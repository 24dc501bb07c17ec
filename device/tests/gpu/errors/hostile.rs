// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests that write anything anywhere: their queues end or fault, and a neighbour continues.

use crate::support::rig::*;
use bellhop_host_kmd::hardware::{
    DoorbellPages as _, Doorbells as _, Interrupt, Interrupts as _, Queues as _,
};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::fence_log::FenceLogOperation;
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel};
use bellhop_protocol::packet::fence::{
    ConditionalInterrupt, LogFence, SignalFence, WaitFence, WriteFence,
};
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::transfer::{Compare, Copy, Fill, Hash, Timestamp};
use bellhop_protocol::packet::{Opcode, PacketHeader};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::sync::atomic::Ordering;

/// Executes the bytes as the contents of a ring or a buffer. Checks that the engine ends the queue, with a fault or
/// without, and that another guest's queue on it still works.
fn execute(bytes: &[u8], in_ring: bool) {
    let gpu = start();
    let mut other = Guest::attach_with(&gpu, 32);
    let mut neighbour = other.queue(COMPUTE);
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COMPUTE);
    let mut packets = Packets(bytes[..bytes.len() / 8 * 8].to_vec());
    if !in_ring {
        let buffer = guest.buffer(&packets);
        packets = Packets::new().then(buffer);
    }
    guest.submit(&mut queue, &packets);
    other.run(&mut neighbour, Packets::new());
    // The queue ends, faults, waits for a fence or runs practically forever, but never outlives its destruction.
    gpu.destroy_hw_queue(queue.id).unwrap();
    quiesce(&gpu);
    other.run(&mut neighbour, Packets::new());
    wait_until_asleep(&gpu);
}

/// An address that is valid, nearly valid, or arbitrary.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..FREE).prop_map(|offset| LOCAL + offset),
        2 => (0..FREE / 8).prop_map(|offset| SYSTEM + offset * 8),
        1 => Just(LOCAL + SIZE - 8),
        1 => (0u64..64).prop_map(|bit| 1u64 << bit),
        1 => any::<u64>(),
    ]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..0x4000, 1 => (0u64..64).prop_map(|bit| 1u64 << bit), 1 => any::<u64>()]
}

/// Well-formed packets with arguments that may be wrong.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    use zerocopy::IntoBytes;
    let slot = || prop_oneof![3 => 0u32..4, 1 => any::<u32>()];
    let value = || prop_oneof![3 => 0u64..10, 1 => any::<u64>()];
    prop_oneof![
        (address(), any::<u32>())
            .prop_map(|(a, s)| IndirectBuffer::new(a & !7, (s % 4096) & !7).as_bytes().to_vec()),
        (address(), length(), any::<u32>())
            .prop_map(|(a, l, p)| Fill::new(a, l, p).as_bytes().to_vec()),
        (address(), address(), length())
            .prop_map(|(a, b, l)| Copy::new(a, b, l).as_bytes().to_vec()),
        (address(), address(), length(), address()).prop_map(|(a, b, l, r)| Compare::new(
            a,
            b,
            l,
            r & !7
        )
        .as_bytes()
        .to_vec()),
        (address(), length(), address())
            .prop_map(|(a, l, r)| Hash::new(a, l, 0, r & !7).as_bytes().to_vec()),
        address().prop_map(|a| Timestamp::new(a & !7).as_bytes().to_vec()),
        (slot(), value()).prop_map(|(s, v)| SignalFence::new(s, v).as_bytes().to_vec()),
        (slot(), value()).prop_map(|(s, v)| WaitFence::new(s, v).as_bytes().to_vec()),
        slot().prop_map(|s| ConditionalInterrupt::new(s).as_bytes().to_vec()),
        (slot(), value()).prop_map(|(s, v)| WriteFence::new(s, v).as_bytes().to_vec()),
        (slot(), value(), 0u32..3).prop_map(|(s, v, operation)| {
            LogFence::new(s, v, FenceLogOperation(operation)).as_bytes().to_vec()
        }),
        (any::<u32>(), address(), address(), length()).prop_map(|(k, a, b, l)| {
            Dispatch::new(Kernel(k % 2 + 1), a & !7, b & !7, l & !7, 0).as_bytes().to_vec()
        }),
        (0u16..0x50, 0u16..40, any::<u32>()).prop_map(|(opcode, units, argument)| {
            PacketHeader { opcode: Opcode(opcode), units, argument }.as_bytes().to_vec()
        }),
    ]
}

fn check(cases: u32, strategy: impl Strategy<Value = Vec<u8>>) {
    let config = ProptestConfig { cases, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&(strategy, any::<bool>()), |(bytes, in_ring)| {
        execute(&bytes, in_ring);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn any_bytes() {
    check(150, proptest::collection::vec(any::<u8>(), 8..1024));
}

#[test]
fn any_packets() {
    let packets = proptest::collection::vec(packet(), 1..40);
    check(
        150,
        packets.prop_map(|packets| packets.concat()[..].iter().take(4000).copied().collect()),
    );
}

#[test]
fn a_guest_that_scribbles_over_its_whole_bar_hurts_itself_alone() {
    let gpu = start();
    let mut victim = Guest::attach_with(&gpu, 32);
    let mut works = victim.queue(COMPUTE);
    for round in 0..50u64 {
        let mut guest = Guest::attach_with(&gpu, 0);
        let queues: Vec<_> = (0..4).map(|_| guest.queue(COMPUTE)).collect();
        for offset in (0..LAYOUT.bar_size()).step_by(8) {
            let value = bellhop_protocol::packet::dispatch::xor_stream(round, offset) & !7;
            guest.word(offset).store(value, Ordering::Relaxed);
        }
        for queue in &queues {
            gpu.kick(queue.id).unwrap();
        }
        victim.run(&mut works, Packets::new());
        guest.detach(&queues.iter().collect::<Vec<_>>());
        gpu.take_interrupts();
    }
}

#[test]
fn a_status_word_that_keeps_changing_does_not_keep_an_engine_awake_or_busy() {
    let mut guest = Guest::start();
    let mut neighbour = guest.queue(COMPUTE);
    let queue = guest.queue(COMPUTE);
    let status = guest.word(LAYOUT.status(queue.binding.slot));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for word in (0..u64::MAX).take_while(|_| !stop.load(Ordering::Relaxed)) {
                status.store(word << 32 | word & 1, Ordering::Relaxed);
            }
        });
        for _ in 0..100 {
            guest.run(&mut neighbour, Packets::new());
        }
        wait_until_asleep(&guest.gpu);
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn many_queues_that_all_fault_are_all_reported_once() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(0);
    let new = |index| guest.queue_with_progress(index % 3, fence);
    let queues: Vec<_> = (0..3000u32).map(new).collect();
    let submission = bellhop_host_kmd::hardware::KernelSubmission {
        gpu_va: 0,
        size: 8,
        progress_fence_value: 0,
        submission_fence: 1,
    };
    for queue in &queues {
        gpu.submit_kernel_mode(*queue, submission).unwrap();
        gpu.kick(*queue).unwrap();
    }
    // The interrupts of all queues are pending: more than there is room for.
    let mut reported = Vec::new();
    while reported.len() < queues.len() {
        for interrupt in take_interrupts(&gpu) {
            match interrupt {
                Interrupt::PageFault { queue, .. } => reported.push(queue),
                other => panic!("{other:?}"),
            }
        }
    }
    reported.sort();
    assert_eq!(reported, queues);
}

#[test]
fn ringing_a_doorbell_that_was_aborted_does_nothing() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    gpu.publish_disconnected(queue.id, ConnectionStatus::DISCONNECTED_ABORT).unwrap();
    gpu.unwatch(guest.physical_doorbell(&queue)).unwrap();
    quiesce(&gpu);
    guest.submit_with_progress(&mut queue, Packets::new());
    assert_eq!(guest.ring(&queue), ConnectionStatus::DISCONNECTED_ABORT);
    quiesce(&gpu);
    assert_eq!(guest.published(queue.progress), 0);
}
