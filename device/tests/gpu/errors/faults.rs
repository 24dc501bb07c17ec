// SPDX-License-Identifier: MIT OR Apache-2.0

//! Faults of a queue: each is reported, and other queues continue.

use crate::support::data::{noise, write_data};
use crate::support::rig::*;
use bellhop_host_kmd::hardware::{
    CurrentValues as _, Fault, Fences as _, KernelSubmission, PageTables as _, Queues as _, Segment,
};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel};
use bellhop_protocol::packet::fence::{ConditionalInterrupt, SignalFence, WaitFence};
use bellhop_protocol::packet::flow::{IndirectBuffer, MAX_INDIRECT_BUFFER_SIZE, NOP};
use bellhop_protocol::packet::transfer::{Compare, Copy, Fill, Hash, Timestamp};
use bellhop_protocol::packet::{MAX_PACKET_SIZE, Opcode, PacketHeader};
use zerocopy::{Immutable, IntoBytes};

/// Two pages that are mapped read-only, and after them nothing.
const READ_ONLY: u64 = 0x4000_0000;
const UNMAPPED: u64 = READ_ONLY + 0x2000;

/// Runs the packets behind a `NOP` on a separate queue. Checks the reported fault, and that another queue of the
/// process on this node continues.
#[track_caller]
fn check(node: u32, packets: Packets, reason: FaultReason, opcode: Opcode, address: u64) {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    guest.map(READ_ONLY, Segment::Local, 0, 0x2000, false);
    let mut neighbour = guest.queue(node);
    let mut queue = guest.queue(node);
    let mut all = Packets::new().then(NOP);
    all.0.extend(packets.0);
    let fault = guest.run_into_fault(&mut queue, &all);
    assert_eq!(fault, Fault { reason, opcode, address, read_pointer: 8 });
    guest.run(&mut neighbour, Packets::new());
    // The lost queue executes nothing more, even after a ring and a kick.
    guest.submit_with_progress(&mut queue, Packets::new());
    gpu.kick(queue.id).unwrap();
    guest.run(&mut neighbour, Packets::new());
    quiesce(&gpu);
    assert_eq!(gpu.fence_value(guest.id, queue.progress).unwrap(), 0);
}

fn one(packet: impl IntoBytes + Immutable) -> Packets {
    Packets::new().then(packet)
}

#[test]
fn a_read_of_a_page_that_is_not_mapped() {
    let copy = one(Copy::new(UNMAPPED + 5, LOCAL, 8));
    check(COPY, copy, FaultReason::READ_PAGE_FAULT, Opcode::COPY, UNMAPPED + 5);
    let hash = one(Hash::new(UNMAPPED - 4, 8, 0, LOCAL));
    check(COPY, hash, FaultReason::READ_PAGE_FAULT, Opcode::HASH, UNMAPPED);
    let compare = one(Compare::new(READ_ONLY, UNMAPPED - 0x1000, 0x2000, LOCAL));
    check(COPY, compare, FaultReason::READ_PAGE_FAULT, Opcode::COMPARE, UNMAPPED);
}

#[test]
fn a_write_to_a_page_that_is_not_mapped() {
    let copy = one(Copy::new(LOCAL, UNMAPPED + 9, 8));
    check(COPY, copy, FaultReason::WRITE_PAGE_FAULT, Opcode::COPY, UNMAPPED + 9);
    let fill = one(Fill::new(UNMAPPED, 4, 0));
    check(COPY, fill, FaultReason::WRITE_PAGE_FAULT, Opcode::FILL, UNMAPPED);
    let time = one(Timestamp::new(UNMAPPED + 8));
    check(COPY, time, FaultReason::WRITE_PAGE_FAULT, Opcode::TIMESTAMP, UNMAPPED + 8);
    let data = write_data(UNMAPPED, &[1]);
    check(COPY, data, FaultReason::WRITE_PAGE_FAULT, Opcode::WRITE_DATA, UNMAPPED);
    let dispatch = one(Dispatch::new(Kernel::XOR_STREAM, LOCAL, UNMAPPED, 8, 0));
    check(COMPUTE, dispatch, FaultReason::WRITE_PAGE_FAULT, Opcode::DISPATCH, UNMAPPED);
}

#[test]
fn a_write_to_a_read_only_page() {
    let fill = one(Fill::new(READ_ONLY + 4, 4, 0));
    check(COPY, fill, FaultReason::WRITE_PROTECTION_FAULT, Opcode::FILL, READ_ONLY + 4);
    // Also when the engine remembers the translation from a read.
    let copy = one(Copy::new(READ_ONLY, LOCAL, 8)).then(Copy::new(LOCAL, READ_ONLY + 8, 8));
    let mut guest = Guest::start();
    guest.map(READ_ONLY, Segment::Local, 0, 0x2000, false);
    let mut queue = guest.queue(COPY);
    let fault = guest.run_into_fault(&mut queue, &copy);
    assert_eq!(fault.reason, FaultReason::WRITE_PROTECTION_FAULT);
    assert_eq!((fault.address, fault.read_pointer), (READ_ONLY + 8, 32));
}

#[test]
fn a_fault_in_the_middle_leaves_what_came_before_it() {
    let mut guest = Guest::start();
    guest.map(READ_ONLY, Segment::Local, 0, 0x2000, true);
    let data = noise(0x3000);
    guest.write(SYSTEM, &data);
    let mut queue = guest.queue(COPY);
    let fault = guest.run_into_fault(&mut queue, &one(Copy::new(SYSTEM, READ_ONLY, 0x3000)));
    assert_eq!((fault.reason, fault.address), (FaultReason::WRITE_PAGE_FAULT, UNMAPPED));
    assert_eq!(guest.read(LOCAL, 0x2000), data[..0x2000]);
}

#[test]
fn packets_before_a_page_that_is_not_mapped_are_executed() {
    let mut guest = Guest::start();
    guest.map(READ_ONLY, Segment::Local, 0, 0x2000, false);
    let mut queue = guest.queue(COPY);
    let signal = one(SignalFence::new(queue.progress, 7));
    guest.write(LOCAL + 0x2000 - 16, &signal.0);
    let fault = guest.run_into_fault(&mut queue, &one(IndirectBuffer::new(UNMAPPED - 16, 64)));
    let address = UNMAPPED;
    let (reason, opcode) = (FaultReason::READ_PAGE_FAULT, Opcode::NOP);
    assert_eq!(fault, Fault { reason, opcode, address, read_pointer: 0 });
    assert_eq!(guest.published(queue.progress), 7);
}

#[test]
fn a_range_outside_of_the_address_space() {
    let reason = FaultReason::ADDRESS_OUT_OF_RANGE;
    let far = 1 << 48;
    check(COPY, one(Fill::new(far - 8, 16, 0)), reason, Opcode::FILL, far - 8);
    check(COPY, one(Copy::new(u64::MAX - 3, LOCAL, 8)), reason, Opcode::COPY, u64::MAX - 3);
    check(COPY, one(Copy::new(LOCAL, far, 1)), reason, Opcode::COPY, far);
    check(COPY, one(Hash::new(LOCAL, u64::MAX, 0, LOCAL)), reason, Opcode::HASH, LOCAL);
    check(COPY, one(Timestamp::new(far)), reason, Opcode::TIMESTAMP, far);
    let buffer = one(IndirectBuffer::new(far - 8, 16));
    check(COPY, buffer, reason, Opcode::INDIRECT_BUFFER, far - 8);
}

#[test]
fn an_address_or_a_length_that_is_not_the_multiple_asked_for() {
    let reason = FaultReason::MISALIGNED;
    check(COPY, one(Fill::new(LOCAL + 2, 4, 0)), reason, Opcode::FILL, LOCAL + 2);
    check(COPY, one(Fill::new(LOCAL, 6, 0)), reason, Opcode::FILL, 6);
    check(COPY, one(Timestamp::new(LOCAL + 4)), reason, Opcode::TIMESTAMP, LOCAL + 4);
    let compare = one(Compare::new(LOCAL, LOCAL, 0, LOCAL + 1));
    check(COPY, compare, reason, Opcode::COMPARE, LOCAL + 1);
    check(COPY, one(Hash::new(LOCAL, 0, 0, LOCAL + 1)), reason, Opcode::HASH, LOCAL + 1);
    let dispatch = |s, d, l| one(Dispatch::new(Kernel::XOR_STREAM, s, d, l, 0));
    let opcode = Opcode::DISPATCH;
    check(COMPUTE, dispatch(LOCAL + 1, LOCAL, 8), reason, opcode, LOCAL + 1);
    check(COMPUTE, dispatch(LOCAL, LOCAL + 2, 8), reason, opcode, LOCAL + 2);
    check(COMPUTE, dispatch(LOCAL, LOCAL, 12), reason, opcode, 12);
}

#[test]
fn an_unknown_packet() {
    let unknown = one(PacketHeader::new(Opcode(0x7777), 8, 0));
    check(COMPUTE, unknown, FaultReason::UNKNOWN_PACKET, Opcode(0x7777), 0x7777);
}

#[test]
fn a_packet_whose_length_is_not_its_opcodes() {
    let reason = FaultReason::BAD_PACKET_LENGTH;
    let long = one(PacketHeader::new(Opcode::COPY, 40, 0)).then([0u64; 4]);
    check(COPY, long, reason, Opcode::COPY, 40);
    check(COPY, one(PacketHeader::new(Opcode::NOP, 0, 0)), reason, Opcode::NOP, 0);
    let too_long = MAX_PACKET_SIZE as u64 + 8;
    let nop = one(PacketHeader::new(Opcode::NOP, too_long as usize, 0)).then([0u64; 100]);
    check(COPY, nop, reason, Opcode::NOP, too_long);
    let data = one(PacketHeader::new(Opcode::WRITE_DATA, 16, 0)).then(LOCAL);
    check(COPY, data, reason, Opcode::WRITE_DATA, 16);
}

#[test]
fn a_packet_that_ends_behind_the_write_pointer_or_the_buffer() {
    let reason = FaultReason::BAD_PACKET_LENGTH;
    let part = one(PacketHeader::new(Opcode::COPY, 32, 0)).then(LOCAL);
    check(COPY, part.clone(), reason, Opcode::COPY, 32);
    let mut guest = Guest::start();
    let buffer = guest.buffer(&part);
    let mut queue = guest.queue(COPY);
    let fault = guest.run_into_fault(&mut queue, &one(buffer));
    assert_eq!((fault.reason, fault.opcode, fault.address), (reason, Opcode::COPY, 32));
}

#[test]
fn an_invalid_indirect_buffer() {
    let (reason, opcode) = (FaultReason::BAD_INDIRECT_BUFFER, Opcode::INDIRECT_BUFFER);
    check(COPY, one(IndirectBuffer::new(LOCAL + 4, 8)), reason, opcode, 8);
    check(COPY, one(IndirectBuffer::new(LOCAL, 12)), reason, opcode, 12);
    let size = MAX_INDIRECT_BUFFER_SIZE + 8;
    check(COPY, one(IndirectBuffer::new(LOCAL, size)), reason, opcode, u64::from(size));
}

#[test]
fn an_indirect_buffer_that_contains_itself() {
    let mut guest = Guest::start();
    let itself = guest.allocate(4096);
    let buffer = guest.buffer_at(itself, &one(IndirectBuffer::new(itself, 16)));
    let mut queue = guest.queue(COPY);
    let fault = guest.run_into_fault(&mut queue, &one(buffer));
    let (reason, opcode) = (FaultReason::INDIRECT_BUFFER_TOO_DEEP, Opcode::INDIRECT_BUFFER);
    assert_eq!(fault, Fault { reason, opcode, address: itself, read_pointer: 0 });
}

#[test]
fn a_fence_that_is_missing_or_another_process_s() {
    let reason = FaultReason::FENCE_NOT_OWNED;
    for slot in [40, LAYOUT.fence_count, u32::MAX] {
        let address = u64::from(slot);
        check(COPY, one(SignalFence::new(slot, 1)), reason, Opcode::SIGNAL_FENCE, address);
        check(COPY, one(WaitFence::new(slot, 1)), reason, Opcode::WAIT_FENCE, address);
        let opcode = Opcode::CONDITIONAL_INTERRUPT;
        check(COPY, one(ConditionalInterrupt::new(slot)), reason, opcode, address);
    }
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let other = gpu.create_address_space(guest.id).unwrap();
    create_fence(&gpu, guest.id, 33, other, 5);
    let mut queue = guest.queue(COPY);
    let fault = guest.run_into_fault(&mut queue, &one(SignalFence::new(33, 6)));
    assert_eq!((fault.reason, fault.address), (reason, 33));
    assert_eq!(gpu.fence_value(guest.id, 33).unwrap(), 5);
}

#[test]
fn a_fence_that_is_destroyed_while_a_queue_waits_for_it() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(0);
    let mut queue = guest.queue(COPY);
    let reached = one(SignalFence::new(queue.progress, 1)).then(WaitFence::new(fence, 1));
    guest.submit(&mut queue, &reached);
    guest.wait(queue.progress, 1);
    wait_until_asleep(&gpu);
    gpu.close_fence(guest.id, fence).unwrap();
    let fault = fault_of(&gpu, queue.id);
    assert_eq!((fault.reason, fault.opcode), (FaultReason::FENCE_NOT_OWNED, Opcode::WAIT_FENCE));
    assert_eq!((fault.address, fault.read_pointer), (u64::from(fence), 16));
}

#[test]
fn a_fence_that_would_go_backwards() {
    let mut guest = Guest::start();
    let fence = guest.fence(10);
    let mut queue = guest.queue(COPY);
    let packets = one(SignalFence::new(fence, 10)).then(SignalFence::new(fence, 9));
    let fault = guest.run_into_fault(&mut queue, &packets);
    let (reason, opcode) = (FaultReason::FENCE_WENT_BACKWARDS, Opcode::SIGNAL_FENCE);
    assert_eq!(fault, Fault { reason, opcode, address: 9, read_pointer: 16 });
    assert_eq!(guest.published(fence), 10);
    // A guest's store over the published value changes nothing.
    guest.word(LAYOUT.fence(fence)).store(1, std::sync::atomic::Ordering::Release);
    assert_eq!(guest.gpu.fence_value(guest.id, fence).unwrap(), 10);
}

#[test]
fn a_kernel_or_a_packet_that_the_node_does_not_have() {
    let reason = FaultReason::NOT_SUPPORTED_BY_NODE;
    let dispatch = |kernel| one(Dispatch::new(kernel, LOCAL, LOCAL, 8, 0));
    check(COMPUTE, dispatch(Kernel(77)), reason, Opcode::DISPATCH, 77);
    let opcode = Opcode::DISPATCH;
    check(COPY, dispatch(Kernel::XOR_STREAM), reason, opcode, u64::from(opcode.0));
}

#[test]
fn a_write_pointer_that_the_ring_cannot_have() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut neighbour = guest.queue(COPY);
    for bad in [4104, 12, u64::MAX] {
        let queue = guest.queue(COPY);
        if guest.doorbell(&queue).ring(bad) == ConnectionStatus::CONNECTED_NOTIFY {
            // The engine sleeps: the kick has it read the ring's own pointer.
            guest.pointers(&queue).publish(bad);
            gpu.kick(queue.id).unwrap();
        }
        let fault = fault_of(&gpu, queue.id);
        let (reason, opcode) = (FaultReason::RING_POINTER_OUT_OF_RANGE, Opcode::NOP);
        assert_eq!(fault, Fault { reason, opcode, address: bad, read_pointer: 0 });
    }
    for bad in [4104, 12, u64::MAX] {
        let queue = guest.disconnected_queue(COPY);
        guest.pointers(&queue).publish(bad);
        gpu.kick(queue.id).unwrap();
        assert_eq!(fault_of(&gpu, queue.id).address, bad);
    }
    guest.run(&mut neighbour, Packets::new());
}

#[test]
fn a_ring_that_is_not_mapped() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    let mut neighbour = guest.queue(COPY);
    guest.run(&mut queue, Packets::new());
    let (ring, control) = (queue.binding.ring_va, queue.binding.control_va);
    guest.unmap(ring, 4096);
    let fault = guest.run_into_fault(&mut queue, &Packets::new().then(NOP));
    let (reason, opcode) = (FaultReason::READ_PAGE_FAULT, Opcode::NOP);
    assert_eq!(fault, Fault { reason, opcode, address: ring + 16, read_pointer: 16 });
    assert_ne!(control, ring);
    let lost = guest.disconnected_queue(COPY);
    guest.unmap(lost.binding.control_va, 4096);
    gpu.kick(lost.id).unwrap();
    assert_eq!(fault_of(&gpu, lost.id).address, lost.binding.control_va);
    guest.run(&mut neighbour, Packets::new());
}

#[test]
fn a_kernel_mode_submission_that_faults() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    for (gpu_va, size, reason, address) in [
        (LOCAL + 1, 8, FaultReason::BAD_INDIRECT_BUFFER, 8),
        (UNMAPPED, 8, FaultReason::READ_PAGE_FAULT, UNMAPPED),
        (LOCAL, 0, FaultReason::FENCE_WENT_BACKWARDS, 0),
    ] {
        let (queue, progress) = guest.kernel_mode_queue(COMPUTE);
        for progress_fence_value in [1, 0] {
            let (gpu_va, size) = match progress_fence_value {
                0 => (gpu_va, size),
                _ => (LOCAL, 0),
            };
            let submission =
                KernelSubmission { gpu_va, size, progress_fence_value, submission_fence: 1 };
            gpu.submit_kernel_mode(queue, submission).unwrap();
        }
        gpu.kick(queue).unwrap();
        let fault = fault_of(&gpu, queue);
        assert_eq!((fault.reason, fault.address), (reason, address));
        assert_eq!(guest.published(progress), 1);
    }
}
