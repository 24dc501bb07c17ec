// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rings and packets, with indirect buffers.

use crate::neighbour::{COMPUTE_AND_COPY, Neighbour};
use crate::packets::Packet;
use crate::places::{Address, KEPT, KEPT_AT};
use crate::rig::{Guest, LAYOUT, LOCAL, PHYSICAL, SYSTEM, quiesce};
use arbitrary::Arbitrary;
use bellhop_host_kmd::ddi::paging::PageSize;
use bellhop_host_kmd::hardware::{
    Doorbells as _, DriverProtection, Interrupts as _, KernelSubmission, PageTables as _,
    PhysicalPage, Pte, Queues as _, Segment,
};
use bellhop_protocol::PAGE_SIZE;
use std::sync::atomic::Ordering;
use std::sync::{LazyLock, Mutex, PoisonError};

/// An action of the guest.
#[derive(Debug, Arbitrary)]
enum Action {
    /// Writes packets anywhere in its memory.
    Write { at: Address, packets: Vec<Packet> },
    /// Puts packets into a ring, whether there is room or not, and rings.
    Submit { queue: bool, packets: Vec<Packet> },
    /// Publishes a false write pointer.
    Lie { queue: bool, write_pointer: u64, rings: bool },
    /// Has a buffer submitted in kernel mode.
    KernelMode { queue: bool, at: Address, size: u16 },
    /// Has the host kick the engine.
    Kick { queue: bool },
}

/// Most actions of one input.
const MOST: usize = 32;

/// First page of local memory that engines keep compressed, and the number of such pages.
const COMPRESSED: (u64, u64) = (64, 16);

/// The contents of memory that the guest cannot write.
const KEPT_BYTE: u8 = 0xA5;

/// A guest submits anything to an engine of each kind. The engines finish it or give it up, memory that is not mapped
/// for writing stays unchanged, and a neighbour's work on those engines completes correctly.
pub fn ring(data: &[u8]) {
    static NEIGHBOUR: LazyLock<Mutex<Neighbour>> = LazyLock::new(Mutex::default);
    let mut neighbour = NEIGHBOUR.lock().unwrap_or_else(PoisonError::into_inner);
    let mut guest = neighbour.newcomer();
    keep(&guest);
    let header = header(&guest);
    let mut queues = COMPUTE_AND_COPY.map(|node| guest.queue(node));
    for _ in 0..4 {
        guest.fence(0);
    }
    let mut submissions = 0;
    for action in crate::actions(data, MOST) {
        match action {
            Action::Write { at, packets } => write(&guest, at.aligned(), &bytes(&packets)),
            Action::Submit { queue, packets } => {
                let queue = &mut queues[usize::from(queue)];
                let size = queue.binding.ring_size;
                for unit in bytes(&packets).chunks(8).take(size as usize / 8) {
                    guest.write(queue.binding.ring_va + queue.written % size, unit);
                    queue.written = queue.written.wrapping_add(unit.len() as u64);
                }
                guest.pointers(queue).publish(queue.written);
                guest.ring(queue);
            }
            Action::Lie { queue, write_pointer, rings } => {
                let queue = &mut queues[usize::from(queue)];
                guest.pointers(queue).publish(write_pointer);
                if rings {
                    queue.written = write_pointer / 8 * 8;
                    guest.ring(queue);
                }
            }
            Action::KernelMode { queue, at, size } => {
                submissions += 1;
                let submission = KernelSubmission {
                    gpu_va: at.get(),
                    size: size.into(),
                    progress_fence_value: submissions,
                    submission_fence: submissions,
                };
                let queue = queues[usize::from(queue)].id;
                // The GPU refuses submissions that exceed its room.
                let _ = guest.gpu.submit_kernel_mode(queue, submission);
                guest.gpu.kick(queue).unwrap();
            }
            Action::Kick { queue } => guest.gpu.kick(queues[usize::from(queue)].id).unwrap(),
        }
    }
    neighbour.works();
    let gpu = guest.gpu.clone();
    for queue in &queues {
        gpu.unwatch(guest.physical_doorbell(queue)).unwrap();
        gpu.destroy_hw_queue(queue.id).unwrap();
    }
    quiesce(&gpu);
    for memory in [LOCAL, SYSTEM] {
        let kept = guest.read(memory + KEPT_AT, KEPT as usize);
        assert!(kept.iter().all(|byte| *byte == KEPT_BYTE), "written past its page tables");
    }
    assert_eq!(header, self::header(&guest), "a packet wrote the BAR's header");
    guest.detach(&[]);
    neighbour.works();
    gpu.take_interrupts();
}

fn bytes(packets: &[Packet]) -> Vec<u8> {
    packets.iter().flat_map(Packet::bytes).collect()
}

/// Writes at a GPU virtual address as the guest's CPU, if the guest has usable memory there.
fn write(guest: &Guest, at: u64, bytes: &[u8]) {
    for memory in [LOCAL, SYSTEM] {
        let left = (memory + KEPT_AT).saturating_sub(at);
        if at >= memory && left > 0 && bytes.len() as u64 <= left {
            guest.write(at, bytes);
        }
    }
}

/// Sets up memory that packets must not write in either mapping, and compressed memory.
fn keep(guest: &Guest) {
    for (memory, segment, start) in
        [(LOCAL, Segment::Local, 0), (SYSTEM, Segment::System, PHYSICAL)]
    {
        let va = memory + KEPT_AT;
        guest.write(va, &[KEPT_BYTE; KEPT as usize]);
        let unmapped = vec![Pte::INVALID; (KEPT / 2 / PAGE_SIZE) as usize];
        guest.gpu.update_page_table(guest.space, va, PageSize::Small, &unmapped).unwrap();
        guest.map(va + KEPT / 2, segment, start + KEPT_AT + KEPT / 2, KEPT / 2, false);
    }
    let (first, count) = COMPRESSED;
    let compressed = (first..first + count).map(|page| {
        let page = PhysicalPage { segment: Segment::Local, address: page * PAGE_SIZE };
        Pte::new(page, true).protected(DriverProtection { compressed: true, protected: false })
    });
    let va = LOCAL + first * PAGE_SIZE;
    let entries: Vec<_> = compressed.collect();
    guest.gpu.update_page_table(guest.space, va, PageSize::Small, &entries).unwrap();
}

/// The header page of a guest's BAR.
fn header(guest: &Guest) -> Vec<u64> {
    let words = (0..LAYOUT.areas()[0].offset).step_by(8);
    words.map(|offset| guest.word(offset).load(Ordering::Relaxed)).collect()
}

#[cfg(test)]
mod seeds;
