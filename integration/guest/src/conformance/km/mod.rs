// SPDX-License-Identifier: MIT OR Apache-2.0

//! `km.*`: kernel-mode submission, beside user-mode submission.

mod basic;
mod expect;
mod own_buffers;
mod together;

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use crate::conformance::source;
use basic::{
    basic_bounded, basic_contained, basic_copied, basic_every_packet, basic_fences, basic_lists,
    basic_paged, basic_residency, basic_submit,
};
use bellhop_guest_umd::CommandBuffer;
use own_buffers::{
    plus_paged, plus_residency, plus_submit, virtual_contained, virtual_residency, virtual_submit,
};
use together::{fence_ids, models_apart, models_together, suspended};

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("km.submit", source::KMD_DMA, submit).shows(
        "a command buffer that is submitted through the control queue executes and signals its \
         fence",
    ),
    Behaviour::new("km.wait.blocked", source::KMD_INTERRUPT, wait_blocked)
        .shows("the completion of a kernel-mode submission wakes a blocked waiter"),
    Behaviour::new("km.beside-um", source::UM_INTRODUCTION, beside_um)
        .shows("user-mode and kernel-mode queues work on one engine at the same time"),
    Behaviour::new("km.basic.submit", source::KMD_VIRTUAL, basic_submit).shows(
        "basic model: the host patches addresses into packets that name allocations, and they \
         execute",
    ),
    Behaviour::new("km.basic.every-packet", source::KMD_VIRTUAL, basic_every_packet)
        .shows("basic model: every packet with addresses works as with virtual addresses"),
    Behaviour::new("km.basic.copied", source::KMD_DMA, basic_copied).shows(
        "basic model: the driver may reuse the command buffer at once, and the host ignores what \
         stood in its addresses",
    ),
    Behaviour::new("km.basic.contained", source::KMD_DMA, basic_contained).shows(
        "basic model: a packet that would reach memory outside its allocations is refused, and \
         nothing of its buffer executes",
    ),
    Behaviour::new("km.basic.lists", source::KMD_VIRTUAL, basic_lists).shows(
        "basic model: a patch location that is not at an address, or leads out of its allocation, \
         is refused",
    ),
    Behaviour::new("km.basic.residency", source::KMD_PAGING, basic_residency).shows(
        "basic model: the host makes listed allocations resident until the submission is done",
    ),
    Behaviour::new("km.basic.paged", source::KMD_PAGING, basic_paged).shows(
        "basic model: listing brings paged allocations in, and they keep their bytes while they \
         are not listed",
    ),
    Behaviour::new("km.basic.fences", source::KMD_DMA, basic_fences).shows(
        "basic model: fences of the process order submissions with other queues; fences of other \
         processes cannot be reached",
    ),
    Behaviour::new("km.basic.bounded", source::KMD_DMA, basic_bounded).shows(
        "basic model: a context may queue a bounded amount, and more once some of it is done",
    ),
    Behaviour::new("km.basic-plus-plus.submit", source::KMD_DMA, plus_submit)
        .shows("basic++ model: the driver's own DMA buffer executes where it is"),
    Behaviour::new("km.basic-plus-plus.residency", source::KMD_PAGING, plus_residency)
        .shows("basic++ model: the host makes listed allocations resident"),
    Behaviour::new("km.basic-plus-plus.paged", source::KMD_PAGING, plus_paged).shows(
        "basic++ model: the GPU reaches a paged allocation while it is listed, and not \
         afterwards",
    ),
    Behaviour::new("km.virtual.submit", source::KMD_DMA, virtual_submit)
        .shows("WDDM 2.0 model: parts of the buffer that the host supplied execute, in order"),
    Behaviour::new("km.virtual.contained", source::KMD_DMA, virtual_contained)
        .shows("WDDM 2.0 model: an address outside that buffer is refused"),
    Behaviour::new("km.virtual.residency", source::KMD_PAGING, virtual_residency)
        .shows("WDDM 2.0 model: an access to memory that is not resident loses that context alone"),
    Behaviour::new("km.models.apart", source::KMD_DMA, models_apart)
        .shows("each kind of context refuses submissions of the other kinds"),
    Behaviour::new("km.models.together", source::KMD_RINGS, models_together)
        .shows("contexts of all models and a user-mode queue work on each node at the same time"),
    Behaviour::new("km.fence-ids", source::KMD_DMA, fence_ids).shows(
        "submission fence ids grow across all contexts, and each context's progress values count \
         its own",
    ),
    Behaviour::new("km.suspended", source::UM_SUSPENSION, suspended)
        .shows("a suspended context executes nothing that is submitted to it until it is resumed"),
];

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
