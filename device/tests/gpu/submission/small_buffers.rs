// SPDX-License-Identifier: MIT OR Apache-2.0

//! A buffer that fits into a cache line is executed without a window. The tests compare it with the general path,
//! which a buffer takes that crosses a page: effects and faults must be equal.

use crate::support::rig::*;
use bellhop_device::gpu::Gpu;
use bellhop_host_kmd::hardware::{Fault, Observe as _};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::fence::{SignalFence, WriteFence};
use bellhop_protocol::packet::flow::{IndirectBuffer, NOP};
use bellhop_protocol::packet::transfer::Fill;
use bellhop_protocol::packet::{Opcode, PacketHeader};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;

/// Bytes of the longest of these buffers.
const SMALL: usize = 64;
/// Fences that the packets name; one more slot has no owner.
const FENCES: u32 = 2;
const NOBODYS: u32 = FENCES;

#[derive(Debug, Clone)]
enum Step {
    Nop,
    /// A NOP of several units.
    LongNop(u16),
    Signal(u32, u64),
    Write(u32, u64),
    FillResult(u32),
    /// A buffer of one NOP.
    Nested,
    Unknown,
    /// A header with a length that does not match its opcode.
    BadLength(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fence = 0..=NOBODYS;
    let step = prop_oneof![
        4 => Just(Step::Nop),
        1 => (1u16..4).prop_map(Step::LongNop),
        8 => (0..FENCES, 0u64..6).prop_map(|(fence, value)| Step::Signal(fence, value)),
        1 => (fence.clone(), 0u64..6).prop_map(|(fence, value)| Step::Signal(fence, value)),
        2 => (fence, 0u64..6).prop_map(|(fence, value)| Step::Write(fence, value)),
        2 => any::<u32>().prop_map(Step::FillResult),
        2 => Just(Step::Nested),
        1 => Just(Step::Unknown),
        1 => (0u16..5).prop_map(Step::BadLength),
    ];
    proptest::collection::vec(step, 0..7)
}

/// The effects of the packets.
#[derive(Debug, PartialEq)]
struct Effects {
    fences: [u64; FENCES as usize],
    filled: u64,
    packets: u64,
    fault: Fault,
}

/// Executes the steps in a buffer, which begins `before_page_end` bytes before a page's end, and then an unknown
/// packet: so each run ends with a fault, of the buffer or of that packet.
fn effects(gpu: &Arc<Gpu>, steps: &[Step], before_page_end: u64) -> Effects {
    let mut guest = Guest::attach(gpu);
    let fences: Vec<_> = (0..FENCES).map(|_| guest.fence(0)).collect();
    let mut queue = guest.queue(COPY);
    let nested = guest.buffer(&Packets::new().then(NOP));
    let result = guest.allocate(8);
    let slot = |fence: u32| fences.get(fence as usize).copied().unwrap_or(LAYOUT.fence_count - 1);
    let mut packets = Packets::new();
    for step in steps {
        let next = packets.clone();
        let next = match *step {
            Step::Nop => next.then(NOP),
            Step::LongNop(units) => {
                let nop = next.then(PacketHeader::new(Opcode::NOP, 8 * usize::from(units), 0));
                (1..units).fold(nop, |packets, _| packets.then(u64::MAX))
            }
            Step::Signal(fence, value) => next.then(SignalFence::new(slot(fence), value)),
            Step::Write(fence, value) => next.then(WriteFence::new(slot(fence), value)),
            Step::FillResult(pattern) => next.then(Fill::new(result, 8, pattern)),
            Step::Nested => next.then(IndirectBuffer::new(nested.gpu_va, nested.size())),
            Step::Unknown => next.then(PacketHeader::new(Opcode(0x7777), 8, 0)),
            Step::BadLength(units) => {
                next.then(PacketHeader { opcode: Opcode::SIGNAL_FENCE, units, argument: 0 })
            }
        };
        if next.0.len() > SMALL {
            break;
        }
        packets = next;
    }
    let page = guest.allocate(2 * PAGE_SIZE);
    let buffer = guest.buffer_at(page + PAGE_SIZE - before_page_end, &packets);
    let end = PacketHeader::new(Opcode(0x7001), 8, 0);
    let fault = guest.run_into_fault(&mut queue, &Packets::new().then(buffer).then(end));
    let filled = guest.read_word(result);
    let effects = Effects {
        fences: [0, 1].map(|fence| guest.published(fences[fence])),
        filled,
        packets: gpu.statistics(guest.id).unwrap().packets,
        fault,
    };
    guest.detach(&[&queue]);
    effects
}

#[test]
fn a_small_buffer_does_what_it_does_where_it_crosses_a_page() {
    let gpu = start();
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let (mut ended, mut faulted) = (0, 0);
    runner
        .run(&(steps(), 1u64..8), |(steps, units)| {
            let whole = effects(&gpu, &steps, PAGE_SIZE);
            let crossing = effects(&gpu, &steps, 8 * units);
            prop_assert_eq!(&whole, &crossing);
            Ok(())
        })
        .unwrap();
    // The comparison covers both: buffers that end, and buffers that fault.
    for (steps, reason) in [
        (vec![Step::Nop, Step::Signal(0, 3), Step::Signal(0, 5)], FaultReason::UNKNOWN_PACKET),
        (vec![Step::Signal(1, 3), Step::Signal(1, 2)], FaultReason::FENCE_WENT_BACKWARDS),
        (vec![Step::Nop, Step::BadLength(4)], FaultReason::BAD_PACKET_LENGTH),
        (vec![Step::Signal(0, 1), Step::Signal(NOBODYS, 1)], FaultReason::FENCE_NOT_OWNED),
    ] {
        let effects = effects(&gpu, &steps, PAGE_SIZE);
        assert_eq!(effects.fault.reason, reason);
        ended += u32::from(effects.fault.address == 0x7001);
        faulted += u32::from(effects.fault.address != 0x7001);
    }
    assert_eq!((ended, faulted), (1, 3));
}
