// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels in every model of submission, and fences and interrupts behind them.

use super::lab::{self, INCREMENT};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::desk::Desk;
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use bellhop_guest_umd::{Arguments, BasicContext, CommandBuffer, Error, RenderBuffer};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::packet::dispatch::{DispatchFlags, DispatchKernel};
use bellhop_protocol::packet::fence::WriteFence;
use zerocopy::IntoBytes;

/// A bench whose commands increment its first page, which is 0.
fn incrementing(scene: &Scene) -> Result<Bench, Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(INCREMENT)?;
    bench.write_words(0, [0; 1024])?;
    bench.dispatch_over(&kernel, 16, 0, 4096)?;
    Ok(bench)
}

fn expect(bench: &Bench, expected: u32) -> Result<(), Mismatch> {
    let words = bench.words(0, 1024)?;
    require!(words == [expected; 1024], "words are {:?}, not {expected}", &words[..4]);
    Ok(())
}

pub(super) fn kernel_mode(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = incrementing(scene)?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    for round in 1..=10 {
        let value = queue.submit(&mut bench.commands)?;
        queue.progress_fence().wait(value, TIMEOUT)?;
        expect(&bench, round)?;
    }
    Ok(())
}

pub(super) fn basic_plus_plus(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = incrementing(scene)?;
    let node = scene.node(EngineType::THREE_D)?;
    let mut context = bench.device.create_basic_plus_plus_context(node)?;
    for round in 1..=10 {
        let memory = bench.memory.allocation().clone();
        let value = context.submit(&mut bench.commands, &[&memory])?;
        context.progress_fence().wait(value, TIMEOUT)?;
        expect(&bench, round)?;
    }
    // The host makes a paged allocation resident for as long as it is listed.
    let paged = bench.device.allocation(65_536).create()?;
    let mapping = paged.map(Protection::WRITE)?;
    let kernel = bench.wgsl(INCREMENT)?;
    let mut arguments = Arguments::new();
    arguments.descriptor(mapping.gpu_va(), 65_536);
    let mut commands = CommandBuffer::new(&bench.device, 512)?;
    commands.dispatch_kernel(&kernel, [256, 1, 1], &arguments)?;
    commands.copy(mapping.gpu_va() + 65_536 - 4, bench.va(8192), 4)?;
    for round in 1..=5 {
        let memory = bench.memory.allocation().clone();
        let value = context.submit(&mut commands, &[&paged, &memory])?;
        context.progress_fence().wait(value, TIMEOUT)?;
        let last = bench.words(8192, 1)?[0];
        require!(last == round, "round {round}: the last word of the paged allocation is {last}");
    }
    Ok(())
}

pub(super) fn virtual_addressing(scene: &Scene) -> Result<(), Mismatch> {
    let bench = lab::bench(scene)?;
    let kernel = bench.wgsl(INCREMENT)?;
    bench.write_words(0, [0; 1024])?;
    let mut arguments = Arguments::new();
    arguments.descriptor(bench.va(0), 4096);
    let node = scene.node(EngineType::THREE_D)?;
    let mut context = bench.device.create_virtual_context(node)?;
    for round in 1..=10 {
        context.commands().dispatch_kernel(&kernel, [16, 1, 1], &arguments)?;
        let value = context.submit()?;
        context.progress_fence().wait(value, TIMEOUT)?;
        expect(&bench, round)?;
        if round == 5 {
            context.restart(TIMEOUT)?;
        }
    }
    Ok(())
}

pub(super) fn basic_refuses(scene: &Scene) -> Result<(), Mismatch> {
    lab::caps(scene)?;
    let desk = Desk::new(scene)?;
    let bench = lab::bench(scene)?;
    let kernel = bench.wgsl(INCREMENT)?;
    let node = scene.node(EngineType::THREE_D)?;
    let mut context: BasicContext = desk.device.create_basic_context(node)?;
    let mut commands = RenderBuffer::new();
    // Descriptors are virtual addresses, which the host cannot patch.
    let packet = DispatchKernel::new(kernel.number(), [1; 3], DispatchFlags::empty());
    commands.raw(packet.with_arguments(desk.va(0), 0, 1).as_bytes())?;
    match context.submit(&commands) {
        Err(Error::Refused { .. }) => Ok(()),
        other => Err(Mismatch::Seen(format!("it was not refused, but ended with {other:?}"))),
    }
}

pub(super) fn fences(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = incrementing(scene)?;
    let done = bench.device.create_fence(0)?;
    bench.commands.signal_fence(&done, 1)?;
    let mut reader = bench.queue_on(scene.node(EngineType::COPY)?)?;
    let mut copy = CommandBuffer::new(&bench.device, 512)?;
    copy.wait_fence(&done, 1)?.copy(bench.va(0), bench.va(8192), 4096)?;
    let copied = reader.submit(&mut copy)?;
    let value = bench.submit()?;
    bench.finish(value)?;
    reader.progress_fence().poll(copied, TIMEOUT)?;
    let seen = bench.words(8192, 1024)?;
    require!(seen == [1; 1024], "another engine saw {:?} after the kernel's fence", &seen[..4]);
    Ok(())
}

pub(super) fn interrupts(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = incrementing(scene)?;
    let done = bench.device.create_fence(0)?;
    for round in 1..=10u32 {
        let mut commands = CommandBuffer::new(&bench.device, 512)?;
        let kernel = bench.wgsl(INCREMENT)?;
        let mut arguments = Arguments::new();
        arguments.descriptor(bench.va(0), 4096);
        commands.dispatch_kernel(&kernel, [16, 1, 1], &arguments)?;
        commands.raw(WriteFence::new(done.slot(), round.into()).as_bytes())?;
        commands.conditional_interrupt(&done)?;
        bench.queue.submit(&mut commands)?;
        // Blocked: only the interrupt wakes it.
        done.wait(round.into(), TIMEOUT)?;
        expect(&bench, round)?;
        let last = bench.queue.last_value();
        bench.queue.progress_fence().poll(last, TIMEOUT)?;
    }
    Ok(())
}
