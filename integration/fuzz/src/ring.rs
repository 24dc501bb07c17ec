// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rings and packets, with indirect buffers.

use crate::neighbour::{COMPUTE_AND_COPY, Neighbour};
use crate::packets::Packet;
use crate::places::{Address, KEPT_AT};
use crate::rig::{Guest, LOCAL, SYSTEM};
use crate::stepped;
use crate::tenant::Tenant;
use arbitrary::Arbitrary;
use bellhop_host_kmd::hardware::{Interrupts as _, KernelSubmission, Queues as _};
use std::cell::RefCell;

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

/// A guest submits anything to an engine of each kind. The engines finish it or give it up, memory that is not mapped
/// for writing stays unchanged, and a neighbour's work on those engines completes correctly.
pub fn ring(data: &[u8]) {
    thread_local! {
        static BENCH: RefCell<(Neighbour, Tenant)> = RefCell::new({
            let neighbour = Neighbour::default();
            let tenant = Tenant::new(neighbour.newcomer());
            (neighbour, tenant)
        });
    }
    BENCH.with_borrow_mut(|(neighbour, tenant)| play(data, neighbour, tenant));
}

fn play(data: &[u8], neighbour: &mut Neighbour, tenant: &mut Tenant) {
    let guest = &mut tenant.guest;
    let mut queues = COMPUTE_AND_COPY.map(|node| guest.queue(node));
    for _ in 0..4 {
        guest.fence(0);
    }
    let mut submissions = 0;
    for action in crate::actions(data, MOST) {
        match action {
            Action::Write { at, packets } => write(guest, at.aligned(), &bytes(&packets)),
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
        stepped::run();
    }
    neighbour.works();
    let [compute, copy] = &queues;
    tenant.end(&[compute, copy]);
    neighbour.works();
    tenant.guest.gpu.take_interrupts();
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

#[cfg(test)]
mod seeds;
