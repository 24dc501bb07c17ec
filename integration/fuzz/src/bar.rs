// SPDX-License-Identifier: MIT OR Apache-2.0

//! The BAR's contents, which change while the device reads them.

use crate::neighbour::{COMPUTE_AND_COPY, Neighbour};
use crate::packets::Packet;
use crate::rig::{Guest, LAYOUT, LOCAL, Queue, create_fence, monitor, quiesce, wait_until_asleep};
use crate::stepped::{self, Beside};
use crate::tenant::Tenant;
use arbitrary::Arbitrary;
use bellhop_host_kmd::hardware::{
    CurrentValues as _, DoorbellPages as _, Doorbells as _, FenceLogBuffer, FenceLogContents as _,
    FenceLogs as _, Fences as _, Interrupts as _, KernelSubmission, Memory as _, PageTables as _,
    QueueLog, Queues as _, SchedulingPriority, SlotValue, fence_log_address,
};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::fence_log::FenceLogType;
use bellhop_protocol::handoff::fence_log::LogReader;
use bellhop_protocol::ring::{READ_POINTER_OFFSET, WRITE_POINTER_OFFSET};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vm_memory::VolatileMemory as _;

/// Queues of the guest, half of them on each node.
const QUEUES: usize = 4;
/// Of these, the first ones have logs: one on each node.
const LOGGED: usize = 2;
/// Fences that the host signals, including those of the queues.
const FENCES: u32 = QUEUES as u32;
const LOGS: [FenceLogType; 2] = [FenceLogType::WAITS, FenceLogType::SIGNALS];
/// A fence that no packet of the guest can name, and its value.
const KEPT: (u32, u64) = (LAYOUT.fence_count - 1, 0x0123_4567_89AB_CDEF);
/// Most stores and most steps of one input.
const MOST: usize = 32;
/// Most rounds of the engines after a step: the stores may give them work without end.
const ROUNDS: usize = 4;
/// Engines without work fall asleep after so many steps.
const AWAKE: usize = 8;

/// A word of the BAR.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Word {
    /// A queue's doorbell, or another word of its line.
    Doorbell(u8),
    Status(u8),
    LastQueued(u8),
    Fence(u8),
    WritePointer(u8),
    ReadPointer(u8),
    Ring(u8, u16),
    Any(u32),
}

impl Word {
    /// Its offset.
    fn get(self, queues: &[Queue; QUEUES]) -> u64 {
        let of = |queue: u8| &queues[usize::from(queue) % QUEUES].binding;
        let local = |va: u64| LAYOUT.local_memory() + va - LOCAL;
        let offset = match self {
            Self::Doorbell(queue) => LAYOUT.doorbell(of(queue).slot) + u64::from(queue >> 5) * 8,
            Self::Status(queue) => LAYOUT.status(of(queue).slot),
            Self::LastQueued(queue) => LAYOUT.last_queued(of(queue).slot),
            Self::Fence(slot) => LAYOUT.fence(u32::from(slot) % LAYOUT.fence_count),
            Self::WritePointer(queue) => local(of(queue).control_va) + WRITE_POINTER_OFFSET,
            Self::ReadPointer(queue) => local(of(queue).control_va) + READ_POINTER_OFFSET,
            Self::Ring(queue, at) => local(of(queue).ring_va) + u64::from(at) % of(queue).ring_size,
            Self::Any(offset) => u64::from(offset) % LAYOUT.bar_size(),
        };
        offset & !7
    }
}

/// A value.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Value {
    /// Units of a ring.
    Units(u8),
    Small(u8),
    /// The status of a doorbell, and a logging level.
    Status(u8, u8),
    Any(u64),
}

impl Value {
    fn get(self) -> u64 {
        match self {
            Self::Units(units) => u64::from(units) * 8,
            Self::Small(value) => value.into(),
            Self::Status(status, level) => u64::from(status % 5) | u64::from(level) << 32,
            Self::Any(value) => value,
        }
    }
}

/// An action of the host meanwhile.
#[derive(Debug, Arbitrary)]
enum Step {
    Put { queue: u8, packets: Vec<Packet> },
    Ring { queue: u8 },
    Kick { queue: u8 },
    Disconnect { queue: u8, aborts: bool },
    Connect { queue: u8, notifies: bool },
    Suspend { queue: u8 },
    Resume { queue: u8 },
    Preempt { queue: u8 },
    Priority { queue: u8, priority: i8 },
    Rebind { queue: u8 },
    LastQueued { queue: u8 },
    KernelMode { queue: u8, size: u8 },
    Monitor { slot: u8, value: u8 },
    Signal { slot: u8, value: u8, always: bool },
    ReadLocal { at: u16 },
    ReadLogs { queue: u8 },
    TakeInterrupts,
    Quiesce,
}

#[derive(Debug, Arbitrary)]
struct Input {
    stores: Vec<(Word, Value)>,
    steps: Vec<Step>,
}

/// A guest's second processor stores into its BAR again and again while the device and the control plane use it. All
/// work ends, the engines come to rest, a fence that the guest may not signal keeps its value, and a neighbour's
/// work completes correctly.
pub fn bar(data: &[u8]) {
    thread_local! {
        static BENCH: RefCell<(Neighbour, Tenant)> = RefCell::new({
            let neighbour = Neighbour::default();
            let tenant = Tenant::new(neighbour.newcomer());
            (neighbour, tenant)
        });
    }
    let Ok(input) = Input::arbitrary_take_rest(arbitrary::Unstructured::new(data)) else {
        return;
    };
    BENCH.with_borrow_mut(|(neighbour, tenant)| play(&input, neighbour, tenant));
}

fn play(Input { stores, steps }: &Input, neighbour: &mut Neighbour, tenant: &mut Tenant) {
    let guest = &mut tenant.guest;
    guest.has_lines = true;
    let [compute, copy] = COMPUTE_AND_COPY;
    let mut queues = [compute, copy, compute, copy].map(|node| guest.queue(node));
    for queue in &queues[..LOGGED] {
        set_logs(guest, queue);
    }
    let other = guest.gpu.create_address_space(guest.id).unwrap();
    create_fence(&guest.gpu, guest.id, KEPT.0, other, KEPT.1);
    let words = stores.iter().take(MOST).map(|(word, value)| (word.get(&queues), value.get()));
    let words: Vec<_> = words.collect();
    let beside = (!words.is_empty()).then(|| {
        let (bar, words, mut next) = (Arc::clone(&guest.bar), words.clone(), 0);
        Beside::begin(move || {
            let (offset, value) = words[next];
            bar.get_atomic_ref::<AtomicU64>(offset as usize)
                .unwrap()
                .store(value, Ordering::Relaxed);
            next = (next + 1) % words.len();
        })
    });
    for (step, number) in steps.iter().take(MOST).zip(1..) {
        // All of them come between two looks of an engine, and then one after the other between its steps.
        for (offset, value) in &words {
            guest.word(*offset).store(*value, Ordering::Relaxed);
        }
        take(guest, &mut queues, step);
        for _ in 0..ROUNDS {
            if !stepped::round() {
                break;
            }
        }
        if number % AWAKE == 0 {
            stepped::rest();
        }
    }
    neighbour.works();
    drop(beside);
    let gpu = guest.gpu.clone();
    for queue in &queues {
        gpu.publish_disconnected(queue.id, ConnectionStatus::DISCONNECTED_ABORT).unwrap();
    }
    let kept = gpu.fence_value(guest.id, KEPT.0).unwrap();
    assert_eq!(kept, KEPT.1, "a fence was signaled through the BAR");
    gpu.close_fence(guest.id, KEPT.0).unwrap();
    let written = words.iter().map(|(offset, _)| *offset);
    tenant.end_with_words(&queues.each_ref(), written);
    gpu.destroy_address_space(other).unwrap();
    neighbour.works();
    wait_until_asleep(&gpu);
    gpu.take_interrupts();
}

/// Gives a queue its two logs.
fn set_logs(guest: &Guest, queue: &Queue) {
    for log_type in LOGS {
        let storage = fence_log_address(LAYOUT.fence_count, queue.progress, log_type);
        guest.gpu.set_fence_log(queue.id, FenceLogBuffer { log_type, storage }).unwrap();
    }
}

fn take(guest: &Guest, queues: &mut [Queue; QUEUES], step: &Step) {
    let gpu = &guest.gpu;
    match step {
        Step::Put { queue, packets } => {
            let queue = &mut queues[usize::from(*queue) % QUEUES];
            let size = queue.binding.ring_size;
            let bytes: Vec<u8> = packets.iter().flat_map(Packet::bytes).collect();
            for unit in bytes.chunks(8).take(size as usize / 8) {
                guest.write(queue.binding.ring_va + queue.written % size, unit);
                queue.written += unit.len() as u64;
            }
            guest.pointers(queue).publish(queue.written);
        }
        Step::Ring { queue } => {
            guest.ring(&queues[usize::from(*queue) % QUEUES]);
        }
        Step::Kick { queue } => gpu.kick(queues[usize::from(*queue) % QUEUES].id).unwrap(),
        Step::Disconnect { queue, aborts } => {
            let queue = &queues[usize::from(*queue) % QUEUES];
            let reason = if *aborts {
                ConnectionStatus::DISCONNECTED_ABORT
            } else {
                ConnectionStatus::DISCONNECTED_RETRY
            };
            gpu.publish_disconnected(queue.id, reason).unwrap();
            gpu.unwatch(guest.physical_doorbell(queue)).unwrap();
        }
        Step::Connect { queue, notifies } => {
            let queue = &queues[usize::from(*queue) % QUEUES];
            gpu.watch(guest.physical_doorbell(queue), queue.id).unwrap();
            gpu.kick(queue.id).unwrap();
            let status = if *notifies {
                ConnectionStatus::CONNECTED_NOTIFY
            } else {
                ConnectionStatus::CONNECTED
            };
            gpu.publish_connected(queue.id, status).unwrap();
        }
        Step::Suspend { queue } => {
            gpu.suspend_hw_queues(&[queues[usize::from(*queue) % QUEUES].id]).unwrap();
        }
        Step::Resume { queue } => {
            gpu.resume_hw_queues(&[queues[usize::from(*queue) % QUEUES].id]).unwrap();
        }
        Step::Preempt { queue } => {
            gpu.preempt_hw_queue(queues[usize::from(*queue) % QUEUES].id, 1).unwrap();
        }
        Step::Priority { queue, priority } => {
            let priority = SchedulingPriority::new((*priority).into()).unwrap_or_default();
            gpu.set_scheduling_priority(&[queues[usize::from(*queue) % QUEUES].id], priority)
                .unwrap();
        }
        Step::Rebind { queue } => {
            let queue = &queues[usize::from(*queue) % QUEUES];
            gpu.publish_disconnected(queue.id, ConnectionStatus::DISCONNECTED_RETRY).unwrap();
            gpu.unwatch(guest.physical_doorbell(queue)).unwrap();
            gpu.unbind_ring(queue.id).unwrap();
            quiesce(gpu);
            gpu.bind_ring(queue.id, queue.binding).unwrap();
            guest.connect(queue);
        }
        Step::LastQueued { queue } => {
            gpu.last_queued_value(queues[usize::from(*queue) % QUEUES].id).unwrap();
        }
        Step::KernelMode { queue, size } => {
            let queue = &mut queues[usize::from(*queue) % QUEUES];
            queue.submitted += 1;
            let submission = KernelSubmission {
                gpu_va: queue.binding.ring_va,
                size: u32::from(*size) * 8,
                progress_fence_value: queue.submitted,
                submission_fence: queue.submitted,
            };
            // The GPU refuses submissions that exceed its room.
            let _ = gpu.submit_kernel_mode(queue.id, submission);
            gpu.kick(queue.id).unwrap();
        }
        Step::Monitor { slot, value } => {
            monitor(gpu, guest.id, u32::from(*slot) % FENCES, (*value).into());
        }
        Step::Signal { slot, value, always } => {
            let value = if *always { u64::MAX } else { (*value).into() };
            let values = [SlotValue { slot: u32::from(*slot) % FENCES, value }];
            gpu.update_current_values(guest.id, &values, *always).unwrap();
        }
        Step::ReadLocal { at } => {
            gpu.read_local_word(guest.id, u64::from(*at) & !7).unwrap();
        }
        Step::ReadLogs { queue } => read_logs(guest, &queues[usize::from(*queue) % LOGGED]),
        Step::TakeInterrupts => {
            gpu.take_interrupts();
        }
        Step::Quiesce => {
            quiesce(gpu);
        }
    }
}

/// Reads what a queue has logged, as the control plane does.
fn read_logs(guest: &Guest, queue: &Queue) {
    for log_type in LOGS {
        guest
            .gpu
            .with_fence_log(QueueLog { queue: queue.id, log_type }, &mut |log| {
                let position = log.position();
                guest.gpu.flush_fence_logs(&[queue.id]);
                LogReader::default().read_entries(&log, position, |_| {});
            })
            .unwrap();
    }
}
