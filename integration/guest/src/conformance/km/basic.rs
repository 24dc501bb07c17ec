// SPDX-License-Identifier: MIT OR Apache-2.0

//! The basic model.

use super::expect::{expect_lost, expect_refused};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::desk::Desk;
use crate::conformance::scene::{MEMORY, Scene, TIMEOUT};
use bellhop_guest_umd::{CommandBuffer, Error, RenderBuffer};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::node_context::PatchLocation;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::{Kernel, xor_stream};
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::{IndirectBuffer, NOP};
use bellhop_protocol::packet::paging::{FlushTlb, WritePageTable};
use bellhop_protocol::packet::transfer::Fill;
use bellhop_protocol::packet::{Opcode, PacketHeader};
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

pub(super) fn basic_submit(scene: &Scene) -> Result<(), Mismatch> {
    for engine in [EngineType::THREE_D, EngineType::COPY] {
        let desk = Desk::new(scene)?;
        let mut context = desk.device.create_basic_context(scene.node(engine)?)?;
        let mut commands = RenderBuffer::new();
        for expected in 1..=20 {
            commands.reset();
            commands.write_data((&desk.memory, 8), &u64::to_le_bytes(expected))?;
            commands.copy((&desk.memory, 8), (&desk.memory, 3 * PAGE_SIZE + 16), 8)?;
            let value = context.submit(&commands)?;
            require!(value == expected, "submission {expected} has value {value}");
            context.progress_fence().wait(value, TIMEOUT)?;
            desk.expect_word(3 * PAGE_SIZE as usize + 16, expected)?;
        }
    }
    Ok(())
}

pub(super) fn basic_every_packet(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let node = scene.node(EngineType::THREE_D)?;
    let mut context = desk.device.create_basic_context(node)?;
    let mut virtually = desk.device.create_basic_plus_plus_context(node)?;
    let other = desk.device.create_allocation(AllocationKind::SYSTEM, 2 * PAGE_SIZE)?;
    let noise: Vec<u8> = (0..PAGE_SIZE).map(|index| xor_stream(5, index) as u8).collect();
    other.write(0, &noise)?;
    // The range crosses pages, which may be anywhere in the guest's memory.
    let from = |offset| (&other, offset);
    let to = |offset| (&desk.memory, offset);
    let mut commands = RenderBuffer::new();
    commands
        .nop()?
        .fill(to(4092), 16, 0xABCD_EF01)?
        .copy(from(100), to(8000), 3000)?
        .compare(from(100), to(8000), 3000, to(0))?
        .compare(from(101), to(8000), 3000, to(8))?
        .hash(from(100), 3000, 7, to(16))?
        .timestamp(to(24))?
        .dispatch(Kernel::XOR_STREAM, from(0), to(20480), 4096, 99)?;
    let value = context.submit(&commands)?;
    context.progress_fence().wait(value, TIMEOUT)?;
    let mapped = other.map(Protection::empty())?;
    let mut buffer = CommandBuffer::new(&desk.device, 64)?;
    buffer.hash(mapped.gpu_va() + 100, 3000, 7, desk.va(32))?;
    let value = virtually.submit(&mut buffer, &[])?;
    virtually.progress_fence().wait(value, TIMEOUT)?;

    desk.expect_word(4096, 0xABCD_EF01_ABCD_EF01)?;
    let mut copied = vec![0; 3000];
    desk.memory.read(8000, &mut copied)?;
    require!(copied == noise[100..3100], "other bytes were copied");
    desk.expect_word(0, u64::MAX)?;
    let differs = noise[101..].iter().zip(&copied).position(|(left, right)| left != right);
    desk.expect_word(8, differs.map_or(u64::MAX, |offset| offset as u64))?;
    desk.expect_word(16, desk.word(32)?)?;
    require!(desk.word(24)? != 0, "the time is 0");
    let mut mixed = vec![0; 8];
    desk.memory.read(20480, &mut mixed)?;
    let plain = noise.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let expected = (plain ^ xor_stream(99, 0)).to_le_bytes();
    require!(mixed == expected, "the stream begins with {mixed:x?}, not {expected:x?}");
    Ok(())
}

pub(super) fn basic_copied(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    context.suspend()?;
    // Any address may stand there: of this process, of the aperture, of nothing.
    for (index, address) in [0, desk.va(0), 3 << 44, 1 << 24, u64::MAX].into_iter().enumerate() {
        let mut commands = RenderBuffer::new();
        commands.raw(Fill::new(address, 8, index as u32 + 1).as_bytes())?;
        let allocation_index = commands.list(&desk.memory, true)?;
        let allocation_offset = 512 + 8 * index as u64;
        commands.patch(PatchLocation { allocation_index, patch_offset: 8, allocation_offset })?;
        context.submit(&commands)?;
        // The buffer is overwritten before any of it executes.
    }
    context.resume()?;
    context.progress_fence().wait(5, TIMEOUT)?;
    for index in 0..5 {
        let pattern = index as u64 + 1;
        desk.expect_word(512 + 8 * index, pattern << 32 | pattern)?;
    }
    desk.expect_word(0, 0)
}

pub(super) fn basic_contained(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    let mut refuse = |status, about, build: &dyn Fn(&mut RenderBuffer) -> Result<(), Error>| {
        let mut commands = RenderBuffer::new();
        // This packet would leave a trace if anything of the buffer executed.
        commands.fill((&desk.memory, 0), 8, 1)?;
        build(&mut commands)?;
        expect_refused(context.submit(&commands), status, about)
    };
    let size = MEMORY;
    let (privileged, illegal) = (Status::PRIVILEGED_INSTRUCTION, Status::ILLEGAL_INSTRUCTION);
    refuse(privileged, 24, &|commands| {
        commands.raw(Fill::new(desk.va(0), 8, 2).as_bytes()).map(|_| ())
    })?;
    let readable = desk.device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    refuse(privileged, 24, &|commands| {
        commands.raw(Fill::new(0, 8, 2).as_bytes())?;
        let allocation_index = commands.list(&readable, false)?;
        let (patch_offset, allocation_offset) = (24 + 8, 0);
        commands.patch(PatchLocation { allocation_index, patch_offset, allocation_offset })?;
        Ok(())
    })?;
    for (offset, length) in [
        (size, 1),
        (0, size + 1),
        (size - 8, 9),
        (u64::MAX, 1),
        (8, u64::MAX),
        (u64::MAX, u64::MAX),
    ] {
        refuse(Status::INVALID_PARAMETER, 1, &|commands| {
            commands.copy((&desk.memory, offset), (&desk.memory, 0), length).map(|_| ())
        })?;
    }
    refuse(illegal, 24, &|commands| {
        commands.raw(IndirectBuffer::new(desk.va(0), 8).as_bytes()).map(|_| ())
    })?;
    refuse(illegal, 24, &|commands| {
        let to = (&desk.memory, 0);
        commands.dispatch(Kernel::XOR_STREAM, to, to, 8, 0).map(|_| ())
    })?;
    refuse(illegal, 24, &|commands| {
        commands.raw(PacketHeader::new(Opcode(0x7777), 8, 0).as_bytes()).map(|_| ())
    })?;
    for packet in [FlushTlb::new(0).as_bytes(), WritePageTable::new(0, 1, 1, 0).as_bytes()] {
        refuse(privileged, 24, &|commands| commands.raw(packet).map(|_| ()))?;
    }
    refuse(Status::INVALID_USER_BUFFER, 24, &|commands| {
        commands.raw(&Fill::new(0, 8, 0).as_bytes()[..16]).map(|_| ())
    })?;
    refuse(Status::INVALID_USER_BUFFER, 24, &|commands| commands.raw(&[0; 4]).map(|_| ()))?;
    // The context takes a valid buffer, and executed nothing of the others.
    let mut commands = RenderBuffer::new();
    let value = context.submit(commands.nop()?)?;
    require!(value == 1, "refused command buffers were counted: {value}");
    context.progress_fence().wait(value, TIMEOUT)?;
    desk.expect_word(0, 0)
}

pub(super) fn basic_lists(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let stranger = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    let location = |allocation_index, patch_offset, allocation_offset| PatchLocation {
        allocation_index,
        patch_offset,
        allocation_offset,
    };
    let good = location(0, 8, 0);
    let fill = Fill::new(0, 8, 1);
    let parameter = Status::INVALID_PARAMETER;
    for (locations, index) in [
        // Over the header, across the address's start or end, over the length, behind the packet.
        (vec![location(0, 0, 0), good], 0),
        (vec![location(0, 4, 0)], 0),
        (vec![good, location(0, 12, 0)], 1),
        (vec![good, location(0, 16, 0)], 1),
        (vec![good, location(0, 24, 0)], 1),
        (vec![good, location(0, u32::MAX, 0)], 1),
        // Twice, of no allocation, past its end.
        (vec![good, good], 1),
        (vec![location(1, 8, 0)], 0),
        (vec![location(u32::MAX, 8, 0)], 0),
        (vec![location(0, 8, MEMORY - 7)], 0),
        (vec![location(0, 8, u64::MAX - 7)], 0),
    ] {
        let mut commands = RenderBuffer::new();
        commands.raw(fill.as_bytes())?;
        commands.list(&desk.memory, true)?;
        for location in locations {
            commands.patch(location)?;
        }
        expect_refused(context.submit(&commands), parameter, index)?;
    }
    // An allocation of another process does not exist here.
    let mut commands = RenderBuffer::new();
    commands.fill((&stranger.memory, 0), 8, 1)?;
    let handle = stranger.memory.handle();
    expect_refused(context.submit(&commands), Status::INVALID_HANDLE, handle.0)?;
    // An allocation of another device may go at any time.
    let device = desk.process.create_device()?;
    let foreign = device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    let mut commands = RenderBuffer::new();
    commands.fill((&foreign, 0), 8, 1)?;
    expect_refused(context.submit(&commands), parameter, foreign.handle().0)?;
    desk.expect_word(0, 0)
}

pub(super) fn basic_residency(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    let mut commands = RenderBuffer::new();
    for round in 1..=5u32 {
        desk.memory.evict()?;
        commands.reset();
        context.suspend()?;
        let value = context.submit(commands.fill((&desk.memory, 64), 8, round)?)?;
        let busy = Status::GRAPHICS_ALLOCATION_BUSY;
        let handle = desk.memory.handle();
        expect_refused(desk.memory.evict(), busy, handle.0)?;
        context.resume()?;
        context.progress_fence().wait(value, TIMEOUT)?;
        desk.expect_word(64, u64::from(round) << 32 | u64::from(round))?;
    }
    Ok(())
}

pub(super) fn basic_paged(scene: &Scene) -> Result<(), Mismatch> {
    const SIZE: u64 = 1 << 20;
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    // No device makes any of them resident.
    let paged: Result<Vec<_>, _> = (0..12).map(|_| desk.device.allocation(SIZE).create()).collect();
    let paged = paged?;
    let mut commands = RenderBuffer::new();
    for (index, allocation) in paged.iter().enumerate() {
        commands.reset();
        commands.fill((allocation, 0), SIZE, index as u32 + 1)?;
        context.submit(&commands)?;
    }
    // Each copies the last page of the one before it.
    for pair in paged.windows(2) {
        commands.reset();
        let last = SIZE - PAGE_SIZE;
        commands.copy((&pair[0], last), (&pair[1], last), PAGE_SIZE)?;
        context.submit(&commands)?;
    }
    let mut value = 0;
    for (index, allocation) in paged.iter().enumerate() {
        commands.reset();
        commands.copy((allocation, 8), (&desk.memory, 16 * index as u64), 8)?;
        commands.copy((allocation, SIZE - 8), (&desk.memory, 16 * index as u64 + 8), 8)?;
        value = context.submit(&commands)?;
    }
    context.progress_fence().wait(value, TIMEOUT)?;
    for index in 0..paged.len() {
        let pattern = index as u64 + 1;
        desk.expect_word(16 * index, pattern << 32 | pattern)?;
        desk.expect_word(16 * index + 8, 1 << 32 | 1)?;
    }
    Ok(())
}

pub(super) fn basic_fences(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let stranger = Desk::new(scene)?;
    let node = scene.node(EngineType::COPY)?;
    let mut first = desk.device.create_basic_context(node)?;
    let mut second = desk.device.create_basic_context(scene.node(EngineType::THREE_D)?)?;
    let fence = desk.device.create_fence(0)?;
    let mut commands = RenderBuffer::new();
    commands.wait_fence(&fence, 1)?.copy((&desk.memory, 0), (&desk.memory, 8), 8)?;
    let held = first.submit(&commands)?;
    commands.reset();
    commands.write_data((&desk.memory, 0), &7u64.to_le_bytes())?.signal_fence(&fence, 1)?;
    second.submit(&commands)?;
    first.progress_fence().wait(held, TIMEOUT)?;
    desk.expect_word(8, 7)?;
    // Not an allocation of another process, although all physical addresses are of one address space.
    let secret = stranger.device.create_basic_context(node)?;
    for slot in [stranger.device.create_fence(0)?.slot(), secret.progress_fence().slot()] {
        let mut context = desk.device.create_basic_context(node)?;
        commands.reset();
        let packet = SignalFence::new(slot, 1);
        let value = context.submit(commands.raw(packet.as_bytes())?)?;
        let fault = expect_lost(context.progress_fence().wait(value, TIMEOUT))?;
        require!(fault.reason == FaultReason::FENCE_NOT_OWNED, "{fault}");
        expect_refused(context.submit(&commands), Status::DEVICE_REMOVED, context.handle().0)?;
    }
    let value = first.submit(commands_of_nothing(&mut commands)?)?;
    first.progress_fence().wait(value, TIMEOUT)?;
    Ok(())
}

/// The buffer with one packet that does nothing.
fn commands_of_nothing(commands: &mut RenderBuffer) -> Result<&RenderBuffer, Error> {
    commands.reset();
    commands.nop().map(|commands| &*commands)
}

pub(super) fn basic_bounded(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let mut context = desk.device.create_basic_context(scene.node(EngineType::COPY)?)?;
    let mut commands = RenderBuffer::new();
    // The buffer is as large as possible, and then takes nothing more.
    commands.fill((&desk.memory, 0), 8, 1)?;
    commands.raw(&NOP.as_bytes().repeat((32 << 10) / 8 - 3))?;
    require!(commands.nop().is_err(), "the buffer is larger than it may be");
    context.suspend()?;
    let mut taken = 0;
    let refused = loop {
        match context.submit(&commands) {
            Ok(value) => taken = value,
            Err(error) => break error,
        }
        require!(taken < 100_000, "{taken} submissions are queued");
    };
    let Error::Refused { status, .. } = refused else { return Err(refused.into()) };
    require!(
        status == Status::INSUFFICIENT_RESOURCES || status == Status::QUOTA_EXCEEDED,
        "the last ended with {status}"
    );
    context.resume()?;
    // The driver waits for room if it may.
    let value = context.submit_within(&commands, TIMEOUT)?;
    require!(value == taken + 1, "submission {value} after {taken}");
    context.progress_fence().wait(value, TIMEOUT)?;
    // A submission that is done makes room at once.
    let value = context.submit(&commands)?;
    require!(value == taken + 2, "submission {value} after {taken}");
    context.progress_fence().wait(value, TIMEOUT)?;
    Ok(())
}
