// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts of several models side by side, and what all models have in common.

use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::desk::Desk;
use crate::conformance::raw::{self, Process};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::{
    BasicContext, BasicPlusPlusContext, CommandBuffer, RenderBuffer, VirtualContext,
};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::{DestroyAllocation, Evict};
use bellhop_protocol::control::hw_queue::CreateHwQueue;
use bellhop_protocol::control::node_context::{
    CreateNodeContext, Render, SubmissionModel, SubmitCommandVirtual,
};
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

pub(super) fn models_apart(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    // Only where the driver reaches the buffer.
    drop(desk.device.create_virtual_context(node)?);
    let process = Process::begin(scene.transport())?;
    let device = process.device()?;
    let create = |model| process.call(&CreateNodeContext { device, node, model });
    let basic = create(SubmissionModel::BASIC)?.context;
    let plus = create(SubmissionModel::BASIC_PLUS_PLUS)?.context;
    let wddm2 = create(SubmissionModel::VIRTUAL)?;
    let queues = process.context(node)?;
    let unsupported = Status::NOT_SUPPORTED;
    for context in [basic, plus, wddm2.context] {
        for flags in [0, 1] {
            process.expect_status(&CreateHwQueue { context, flags, reserved: 0 }, unsupported)?;
        }
    }
    let gpu_va = wddm2.command_buffer_gpu_va;
    for context in [basic, plus, queues] {
        let request = SubmitCommandVirtual { context, gpu_va, size: 8, reserved: 0 };
        process.expect_status(&request, unsupported)?;
    }
    let render = |context, dma_buffer_size| Render {
        context,
        dma_buffer: if dma_buffer_size == 0 { 0 } else { gpu_va },
        dma_buffer_size,
        command_length: 0,
        allocation_count: 0,
        patch_location_count: 0,
    };
    for context in [wddm2.context, queues] {
        process.expect_status(&render(context, 8), unsupported)?;
    }
    // Each of the two that render takes what the other refuses.
    process.expect_status(&render(basic, 8), Status::INVALID_PARAMETER)?;
    process.expect_status(&render(basic, 0), Status::INVALID_PARAMETER)?;
    process.expect_status(&render(plus, 0), Status::INVALID_PARAMETER)?;
    let unknown = CreateNodeContext { device, node, model: SubmissionModel(0) };
    process.expect_status(&unknown, Status::INVALID_PARAMETER)?;
    // The buffer that the host supplied belongs to one context.
    for bits in 0..64 {
        let allocation = Handle(wddm2.context.0 ^ bits);
        let evict = Evict { device, count: 1, reserved: 0 };
        let list = allocation.as_bytes();
        let (evicted, _) = raw::status_with_list(scene.transport(), process.id, &evict, list)?;
        let (destroyed, _) = process.status(&DestroyAllocation { allocation })?;
        require!(!evicted.is_success() && !destroyed.is_success(), "{allocation} went");
    }
    Ok(())
}

pub(super) fn models_together(scene: &Scene) -> Result<(), Mismatch> {
    for engine in [EngineType::THREE_D, EngineType::COPY] {
        let mut bench = scene.bench_on(engine)?;
        let desk = Desk::new(scene)?;
        let node = scene.node(engine)?;
        let mut contexts: Vec<(BasicContext, BasicPlusPlusContext, VirtualContext)> = Vec::new();
        for _ in 0..2 {
            contexts.push((
                desk.device.create_basic_context(node)?,
                desk.device.create_basic_plus_plus_context(node)?,
                desk.device.create_virtual_context(node)?,
            ));
        }
        let mut commands = CommandBuffer::new(&desk.device, 256)?;
        commands.fill(desk.va(8192), 4096, 2)?;
        bench.commands.fill(bench.va(0), 4096, 4)?;
        for _ in 0..30 {
            let user_mode = bench.queue.submit(&mut bench.commands)?;
            let mut values = Vec::new();
            for (basic, plus, wddm2) in &mut contexts {
                let mut rendered = RenderBuffer::new();
                let value = basic.submit(rendered.fill((&desk.memory, 0), 4096, 1)?)?;
                let list = [&desk.memory];
                let second = plus.submit(&mut commands, &list)?;
                wddm2.commands().fill(desk.va(16384), 4096, 3)?;
                values.push((value, second, wddm2.submit()?));
            }
            bench.queue.progress_fence().poll(user_mode, TIMEOUT)?;
            for ((basic, plus, wddm2), values) in contexts.iter().zip(values) {
                basic.progress_fence().wait(values.0, TIMEOUT)?;
                plus.progress_fence().wait(values.1, TIMEOUT)?;
                wddm2.progress_fence().wait(values.2, TIMEOUT)?;
            }
        }
        for (offset, pattern) in [(4088, 1), (8192, 2), (16384, 3)] {
            desk.expect_word(offset, pattern << 32 | pattern)?;
        }
        let filled = bench.word(0)?;
        require!(filled == 4 << 32 | 4, "the user-mode queue filled with {filled:#x}");
    }
    Ok(())
}

pub(super) fn fence_ids(scene: &Scene) -> Result<(), Mismatch> {
    let [one, other] = [Desk::new(scene)?, Desk::new(scene)?];
    let node = scene.node(EngineType::COPY)?;
    let mut basic = one.device.create_basic_context(node)?;
    let mut plus = other.device.create_basic_plus_plus_context(node)?;
    let mut commands = CommandBuffer::new(&other.device, 64)?;
    commands.nop()?;
    let mut last = 0;
    for count in 1..=10 {
        let mut rendered = RenderBuffer::new();
        basic.submit(rendered.nop()?)?;
        plus.submit(&mut commands, &[])?;
        for reply in [basic.last_submission(), plus.last_submission()].into_iter().flatten() {
            let (fence, value) = (reply.submission_fence, reply.progress_fence_value);
            require!(fence > last, "submission fence {fence} after {last}");
            require!(value == count, "progress value {value} of submission {count}");
            last = fence;
        }
    }
    basic.progress_fence().wait(10, TIMEOUT)?;
    plus.progress_fence().wait(10, TIMEOUT)?;
    Ok(())
}

pub(super) fn suspended(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut held = desk.device.create_basic_context(node)?;
    let mut other = desk.device.create_basic_plus_plus_context(node)?;
    let mut commands = CommandBuffer::new(&desk.device, 64)?;
    commands.nop()?;
    held.suspend()?;
    let mut rendered = RenderBuffer::new();
    let value = held.submit(rendered.fill((&desk.memory, 0), 8, 5)?)?;
    // Meanwhile, work of another context on this engine begins and ends.
    let after = other.submit(&mut commands, &[])?;
    other.progress_fence().wait(after, TIMEOUT)?;
    desk.expect_word(0, 0)?;
    held.resume()?;
    held.progress_fence().wait(value, TIMEOUT)?;
    desk.expect_word(0, 5 << 32 | 5)
}
