// SPDX-License-Identifier: MIT OR Apache-2.0

//! The models in which the GPU fetches packets where the driver put them: basic++ and WDDM 2.0.

use super::expect::{expect_lost, expect_refused};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::desk::Desk;
use crate::conformance::raw::Process;
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::CommandBuffer;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::node_context::{
    CreateNodeContext, SubmissionModel, SubmitCommandVirtual,
};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::status::Status;

pub(super) fn plus_submit(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut context = desk.device.create_basic_plus_plus_context(node)?;
    let mut commands = CommandBuffer::new(&desk.device, 256)?;
    for expected in 1..=20 {
        commands.reset();
        commands.write_data(desk.va(0), &u64::to_le_bytes(expected))?;
        let value = context.submit(&mut commands, &[&desk.memory])?;
        require!(value == expected, "submission {expected} has value {value}");
        context.progress_fence().wait(value, TIMEOUT)?;
        desk.expect_word(0, expected)?;
    }
    Ok(())
}

pub(super) fn plus_residency(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut context = desk.device.create_basic_plus_plus_context(node)?;
    let mut commands = CommandBuffer::new(&desk.device, 256)?;
    commands.write_data(desk.va(0), &7u64.to_le_bytes())?;
    desk.memory.evict()?;
    let value = context.submit(&mut commands, &[&desk.memory])?;
    context.progress_fence().wait(value, TIMEOUT)?;
    desk.expect_word(0, 7)?;
    // The host ignores what is not listed.
    desk.memory.evict()?;
    let value = context.submit(&mut commands, &[])?;
    let fault = expect_lost(context.progress_fence().wait(value, TIMEOUT))?;
    require!(fault.reason == FaultReason::WRITE_PAGE_FAULT, "{fault}");
    Ok(())
}

pub(super) fn plus_paged(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut context = desk.device.create_basic_plus_plus_context(node)?;
    let paged = desk.device.allocation(1 << 20).create()?;
    let mapping = paged.map(Protection::WRITE)?;
    let mut commands = CommandBuffer::new(&desk.device, 256)?;
    for pattern in 1..=5u32 {
        commands.reset();
        commands.copy(mapping.gpu_va(), desk.va(0), 8)?;
        commands.fill(mapping.gpu_va(), 1 << 20, pattern)?;
        let value = context.submit(&mut commands, &[&paged])?;
        context.progress_fence().wait(value, TIMEOUT)?;
        let before = u64::from(pattern - 1);
        desk.expect_word(0, before << 32 | before)?;
    }
    let value = context.submit(&mut commands, &[])?;
    let fault = expect_lost(context.progress_fence().wait(value, TIMEOUT))?;
    require!(fault.reason == FaultReason::READ_PAGE_FAULT, "{fault}");
    require!(fault.address == mapping.gpu_va(), "{fault}, not at {:#x}", mapping.gpu_va());
    Ok(())
}

pub(super) fn virtual_submit(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_virtual_context(scene.node(EngineType::COPY)?)?;
    for round in 0..3u64 {
        for expected in 1..=20 {
            let to = desk.va(8 * (expected % 3));
            context.commands().write_data(to, &(round * 100 + expected).to_le_bytes())?;
            context.submit()?;
        }
        context.restart(TIMEOUT)?;
        for (offset, expected) in [(0, 18), (8, 19), (16, 20)] {
            desk.expect_word(offset, round * 100 + expected)?;
        }
    }
    Ok(())
}

pub(super) fn virtual_contained(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    // Checks that the driver reaches the buffer at all.
    drop(desk.device.create_virtual_context(node)?);
    let process = Process::begin(scene.transport())?;
    let request =
        CreateNodeContext { device: process.device()?, node, model: SubmissionModel::VIRTUAL };
    let reply = process.call(&request)?;
    let (start, size) = (reply.command_buffer_gpu_va, reply.command_buffer_size);
    let end = start + u64::from(size);
    for (gpu_va, size) in [
        (start - 8, 8),
        (start - 8, 16),
        (end, 8),
        (end - 8, 16),
        (start + 8, size),
        (0, 8),
        (u64::MAX - 7, 8),
        (start + 4, 8),
        (start, 0),
        (start, 4),
        (start, u32::MAX - 7),
    ] {
        let request = SubmitCommandVirtual { context: reply.context, gpu_va, size, reserved: 0 };
        process.expect_status(&request, Status::INVALID_PARAMETER)?;
    }
    Ok(())
}

pub(super) fn virtual_residency(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut lost = desk.device.create_virtual_context(node)?;
    let mut kept = desk.device.create_virtual_context(node)?;
    desk.memory.evict()?;
    let target = desk.va(8);
    lost.commands().write_data(target, &1u64.to_le_bytes())?;
    let value = lost.submit()?;
    let fault = expect_lost(lost.progress_fence().wait(value, TIMEOUT))?;
    require!(fault.reason == FaultReason::WRITE_PAGE_FAULT, "{fault}");
    require!(fault.address == target, "{fault}, not at {target:#x}");
    let handle = lost.handle();
    lost.commands().nop()?;
    expect_refused(lost.submit(), Status::DEVICE_REMOVED, handle.0)?;
    desk.memory.make_resident()?;
    kept.commands().write_data(target, &2u64.to_le_bytes())?;
    let value = kept.submit()?;
    kept.progress_fence().wait(value, TIMEOUT)?;
    desk.expect_word(8, 2)
}
