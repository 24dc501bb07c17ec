//! `km.*`: kernel-mode submission, beside user-mode submission.

mod basic;
mod own_buffers;
mod together;

use super::scene::{MEMORY, Scene, TIMEOUT};
use super::{Behaviour, Mismatch, require, source};
use basic::{
    basic_bounded, basic_contained, basic_copied, basic_every_packet, basic_fences, basic_lists,
    basic_paged, basic_residency, basic_submit,
};
use bellhop_guest_umd::{
    Adapter, Allocation, CommandBuffer, Device, Error, GpuMapping, QueueFault,
};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::status::Status;
use own_buffers::{
    plus_paged, plus_residency, plus_submit, virtual_contained, virtual_residency, virtual_submit,
};
use std::sync::Arc;
use together::{fence_ids, models_apart, models_together, suspended};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        id: "km.submit",
        shows: "a command buffer submitted through the control queue executes, and its fence is signaled",
        section: source::KMD_DMA,
        check: submit,
    },
    Behaviour {
        id: "km.wait.blocked",
        shows: "its completion wakes a blocked waiter",
        section: source::KMD_INTERRUPT,
        check: wait_blocked,
    },
    Behaviour {
        id: "km.beside-um",
        shows: "both kinds of queue work on one engine at the same time",
        section: source::UM_INTRODUCTION,
        check: beside_um,
    },
    Behaviour {
        id: "km.basic.submit",
        shows: "basic model: packets that name allocations are patched with their addresses and execute",
        section: source::KMD_VIRTUAL,
        check: basic_submit,
    },
    Behaviour {
        id: "km.basic.every-packet",
        shows: "basic model: every packet with addresses does what it does with virtual ones",
        section: source::KMD_VIRTUAL,
        check: basic_every_packet,
    },
    Behaviour {
        id: "km.basic.copied",
        shows: "basic model: the command buffer is the driver's again at once, and what stood in its addresses is dropped",
        section: source::KMD_DMA,
        check: basic_copied,
    },
    Behaviour {
        id: "km.basic.contained",
        shows: "basic model: a packet that would reach what it was not given is refused, and nothing of its buffer executes",
        section: source::KMD_DMA,
        check: basic_contained,
    },
    Behaviour {
        id: "km.basic.lists",
        shows: "basic model: a patch location that is not at an address, or leads out of its allocation, is refused",
        section: source::KMD_VIRTUAL,
        check: basic_lists,
    },
    Behaviour {
        id: "km.basic.residency",
        shows: "basic model: what is listed is made resident, and stays until the submission is done",
        section: source::KMD_PAGING,
        check: basic_residency,
    },
    Behaviour {
        id: "km.basic.paged",
        shows: "basic model: paged allocations are brought in by being listed, and keep their bytes when nobody lists them",
        section: source::KMD_PAGING,
        check: basic_paged,
    },
    Behaviour {
        id: "km.basic.fences",
        shows: "basic model: fences of the process order submissions with other queues; another process's are not reached",
        section: source::KMD_DMA,
        check: basic_fences,
    },
    Behaviour {
        id: "km.basic.bounded",
        shows: "basic model: what is queued is bounded, and goes on when some of it is done",
        section: source::KMD_DMA,
        check: basic_bounded,
    },
    Behaviour {
        id: "km.basic-plus-plus.submit",
        shows: "basic++ model: the driver's own DMA buffer executes where it is",
        section: source::KMD_DMA,
        check: plus_submit,
    },
    Behaviour {
        id: "km.basic-plus-plus.residency",
        shows: "basic++ model: what is listed is made resident",
        section: source::KMD_PAGING,
        check: plus_residency,
    },
    Behaviour {
        id: "km.basic-plus-plus.paged",
        shows: "basic++ model: a paged allocation is reached while it is listed, and not afterwards",
        section: source::KMD_PAGING,
        check: plus_paged,
    },
    Behaviour {
        id: "km.virtual.submit",
        shows: "WDDM 2.0 model: parts of the buffer that the host supplied execute, in order",
        section: source::KMD_DMA,
        check: virtual_submit,
    },
    Behaviour {
        id: "km.virtual.contained",
        shows: "WDDM 2.0 model: an address outside of that buffer is refused",
        section: source::KMD_DMA,
        check: virtual_contained,
    },
    Behaviour {
        id: "km.virtual.residency",
        shows: "WDDM 2.0 model: what is not resident faults that context alone",
        section: source::KMD_PAGING,
        check: virtual_residency,
    },
    Behaviour {
        id: "km.models.apart",
        shows: "each kind of context refuses what is another kind's",
        section: source::KMD_DMA,
        check: models_apart,
    },
    Behaviour {
        id: "km.models.together",
        shows: "contexts of all models and a user-mode queue work on each node at the same time",
        section: source::KMD_RINGS,
        check: models_together,
    },
    Behaviour {
        id: "km.fence-ids",
        shows: "submission fence ids grow, whoever submits, and each context's progress values count its own",
        section: source::KMD_DMA,
        check: fence_ids,
    },
    Behaviour {
        id: "km.suspended",
        shows: "a suspended context executes nothing of what is submitted to it until it is resumed",
        section: source::UM_SUSPENSION,
        check: suspended,
    },
];

/// A process with a device and some memory, without a queue.
pub(super) struct Desk {
    // Dropped in this order.
    mapping: GpuMapping,
    pub(super) memory: Arc<Allocation>,
    pub(super) device: Device,
    pub(super) process: Adapter,
}

impl Desk {
    pub(super) fn new(scene: &Scene) -> Result<Self, Mismatch> {
        let process = scene.adapter().open_process()?;
        let device = process.create_device()?;
        let memory = device.create_allocation(AllocationKind::SYSTEM, MEMORY)?;
        let mapping = memory.map(Protection::WRITE)?;
        Ok(Self { mapping, memory, device, process })
    }

    pub(super) fn word(&self, offset: usize) -> Result<u64, Mismatch> {
        let mut bytes = [0; 8];
        self.memory.read(offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn va(&self, offset: u64) -> u64 {
        self.mapping.gpu_va() + offset
    }

    pub(super) fn expect_word(&self, offset: usize, expected: u64) -> Result<(), Mismatch> {
        let word = self.word(offset)?;
        require!(word == expected, "{word:#x} at {offset:#x}, not {expected:#x}");
        Ok(())
    }
}

/// Asserts how something was refused.
fn expect_refused<T>(
    result: Result<T, Error>,
    expected: Status,
    about: u64,
) -> Result<(), Mismatch> {
    match result {
        Err(Error::Refused { status, detail, .. }) => {
            require!(
                (status, detail) == (expected, about),
                "ended with {status} about {detail:#x}, not with {expected} about {about:#x}"
            );
            Ok(())
        }
        Err(error) => Err(Mismatch::Seen(format!("instead of {expected}: {error}"))),
        Ok(_) => Err(Mismatch::Seen(format!("no {expected}, but success"))),
    }
}

/// Asserts that waiting for a submission ends with the loss of its context.
fn expect_lost(waited: Result<(), Error>) -> Result<QueueFault, Mismatch> {
    match waited {
        Err(Error::QueueLost { fault: Some(fault), .. }) => Ok(fault),
        Err(error) => Err(Mismatch::Seen(format!("instead of a fault: {error}"))),
        Ok(()) => Err(Mismatch::Seen("no fault, but success".into())),
    }
}

fn submit(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    for expected in 1..=20 {
        bench.commands.reset();
        bench.commands.write_data(bench.va(0), &u64::to_le_bytes(expected))?;
        let value = queue.submit(&mut bench.commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
        let written = bench.word(0)?;
        require!(written == expected, "submission {expected} wrote {written}");
    }
    Ok(())
}

fn wait_blocked(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    bench.commands.nop()?;
    for _ in 0..20 {
        let value = queue.submit(&mut bench.commands)?;
        queue.progress_fence().wait(value, TIMEOUT)?;
    }
    Ok(())
}

fn beside_um(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.fill(bench.va(8192), 4096, 2)?;
    bench.commands.fill(bench.va(0), 4096, 1)?;
    for _ in 0..50 {
        let user_mode = bench.queue.submit(&mut bench.commands)?;
        let kernel_mode = queue.submit(&mut commands)?;
        bench.queue.progress_fence().poll(user_mode, TIMEOUT)?;
        queue.progress_fence().poll(kernel_mode, TIMEOUT)?;
    }
    let (user_mode, kernel_mode) = (bench.word(0)? as u32, bench.word(8192)? as u32);
    require!((user_mode, kernel_mode) == (1, 2), "filled with {user_mode} and {kernel_mode}");
    Ok(())
}
