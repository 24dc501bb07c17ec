// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pages that a queue pins beside the engine's TLB: those of its ring, its ring buffer control and its buffers. A
//! flush of the TLB revokes the pins.

use crate::support::rig::*;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    AccessedBits as _, Fault, PageTables as _, PhysicalPage, Pte, Queues as _, Segment,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::{IndirectBuffer, NOP};
use bellhop_protocol::packet::{Opcode, PacketHeader};
use std::sync::Arc;
use vm_memory::GuestMemoryBackend as _;

/// A guest with a queue that has executed a buffer twice, so that its pages are pinned.
fn warm() -> (Guest, Queue, IndirectBuffer) {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = guest.queue(COPY);
    let buffer = guest.buffer(&Packets::new().then(NOP));
    for _ in 0..2 {
        guest.run(&mut queue, Packets::new().then(buffer));
    }
    (guest, queue, buffer)
}

#[test]
fn a_buffer_that_was_executed_and_is_unmapped_faults() {
    let (guest, mut queue, buffer) = warm();
    guest.unmap(buffer.gpu_va, PAGE_SIZE);
    let fault = guest.run_into_fault(&mut queue, &Packets::new().then(buffer));
    assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, buffer.gpu_va));
}

#[test]
fn a_fault_in_a_buffer_of_any_length_tells_where_in_the_ring_the_buffer_stands() {
    const LONG: usize = 16;
    for nops in [0, 1, LONG] {
        let (mut guest, mut queue, _) = warm();
        let bad = PacketHeader::new(Opcode(0x7001), 8, 0);
        let packets = (0..nops).fold(Packets::new(), |packets, _| packets.then(NOP)).then(bad);
        let buffer = guest.buffer(&packets);
        let read_pointer = queue.written + 8;
        let fault = guest.run_into_fault(&mut queue, &Packets::new().then(NOP).then(buffer));
        assert_eq!((fault.reason, fault.read_pointer), (FaultReason::UNKNOWN_PACKET, read_pointer));
    }
}

#[test]
fn a_write_pointer_that_cannot_be_is_no_fault_of_the_packets_before_it() {
    for is_kicked in [false, true] {
        let (guest, mut queue, _) = warm();
        let read_pointer = queue.written;
        queue.written += 12;
        guest.pointers(&queue).publish(queue.written);
        if is_kicked {
            guest.gpu.kick(queue.id).unwrap();
        } else {
            guest.ring(&queue);
        }
        let (reason, opcode) = (FaultReason::RING_POINTER_OUT_OF_RANGE, Opcode::NOP);
        let fault = Fault { reason, opcode, address: queue.written, read_pointer };
        assert_eq!(fault_of(&guest.gpu, queue.id), fault);
    }
}

#[test]
fn a_ring_that_was_read_and_is_unmapped_faults() {
    let (guest, mut queue, _) = warm();
    let at = queue.binding.ring_va + queue.written;
    guest.unmap(queue.binding.ring_va, PAGE_SIZE);
    let fault = guest.run_into_fault(&mut queue, &Packets::new().then(NOP));
    assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, at));
}

#[test]
fn a_ring_buffer_control_that_was_written_and_is_read_only_now_is_not_written() {
    let (guest, mut queue, _) = warm();
    let control = queue.binding.control_va;
    let before = guest.pointers(&queue).consumed();
    guest.map(control, Segment::Local, control - LOCAL, PAGE_SIZE, false);
    quiesce(&guest.gpu);
    let fault = guest.run_into_fault(&mut queue, &Packets::new().then(NOP));
    assert_eq!((fault.reason, fault.address), (FaultReason::WRITE_PROTECTION_FAULT, control));
    assert_eq!(guest.pointers(&queue).consumed(), before);
}

#[test]
fn a_buffer_that_is_mapped_elsewhere_is_executed_from_there() {
    let (mut guest, mut queue, buffer) = warm();
    let fence = guest.fence(0);
    let other = guest.buffer(&Packets::new().then(SignalFence::new(fence, 7)));
    guest.map(buffer.gpu_va, Segment::Local, other.gpu_va - LOCAL, PAGE_SIZE, true);
    quiesce(&guest.gpu);
    let buffer = IndirectBuffer::new(buffer.gpu_va, other.size());
    guest.run(&mut queue, Packets::new().then(buffer));
    assert_eq!(guest.published(fence), 7);
}

#[test]
fn buffers_in_memory_that_is_replaced_are_read_from_the_new_and_nothing_keeps_the_old() {
    let (mut guest, mut queue, _) = warm();
    let fence = guest.fence(0);
    let signal = |value| Packets::new().then(SignalFence::new(fence, value));
    let buffer = guest.buffer_at(SYSTEM, &signal(1));
    guest.run(&mut queue, Packets::new().then(buffer));
    let old = std::mem::replace(&mut guest.memory, guest_memory());
    guest.buffer_at(SYSTEM, &signal(2));
    guest.gpu.update_guest_memory(guest.id, Arc::clone(&guest.memory));
    quiesce(&guest.gpu);
    let region = old.iter().next().unwrap().get_mmap();
    drop(old);
    // What was mapped is left to the thread that unmaps.
    eventually("nothing keeps the old memory", || Arc::strong_count(&region) == 1);
    guest.run(&mut queue, Packets::new().then(buffer));
    assert_eq!(guest.published(fence), 2);
}

#[test]
fn pages_of_every_submission_are_noted_as_accessed_once_their_translations_are_forgotten() {
    let (guest, mut queue, buffer) = warm();
    let pages = [queue.binding.ring_va, queue.binding.control_va, buffer.gpu_va];
    let noted = || pages.map(|va| guest.gpu.take_accessed(guest.space, va, PAGE_SIZE).unwrap());
    assert_eq!(noted(), [true; 3]);
    guest.run(&mut queue, Packets::new().then(buffer));
    assert_eq!(noted(), [false; 3], "they were walked again");
    guest.gpu.forget_translations();
    let mut seen = [false; 3];
    eventually("the engine walks page tables anew", || {
        guest.run(&mut queue, Packets::new().then(buffer));
        let noted = noted();
        seen = std::array::from_fn(|page| seen[page] || noted[page]);
        seen == [true; 3]
    });
}

#[test]
fn small_pages_of_a_large_page_are_executed_from_where_they_are() {
    let (mut guest, mut queue, _) = warm();
    let (fence, large) = (guest.fence(0), PageSize::Large.bytes());
    let at = SYSTEM + 16 * SIZE;
    let page = PhysicalPage { segment: Segment::System, address: PHYSICAL.next_multiple_of(large) };
    let entries = [Pte::new(page, true)];
    guest.gpu.update_page_table(guest.space, at, PageSize::Large, &entries).unwrap();
    for (value, offset) in [(1, 0), (2, 3 * PAGE_SIZE), (3, large - PAGE_SIZE)] {
        let packets = Packets::new().then(SignalFence::new(fence, value));
        guest.buffer_at(SYSTEM + page.address - PHYSICAL + offset, &packets);
        let buffer = IndirectBuffer::new(at + offset, packets.0.len() as u32);
        for _ in 0..2 {
            guest.run(&mut queue, Packets::new().then(buffer));
            assert_eq!(guest.published(fence), value);
        }
    }
}
