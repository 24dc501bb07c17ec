// SPDX-License-Identifier: MIT OR Apache-2.0

//! What goes wrong on one GPU of a chain.

use super::pair::Pair;
use crate::client::Client;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::{CommandBuffer, Error, Fence};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::Kernel;

/// Waits until a queue is lost, for one of these reasons.
fn expect_lost(fence: &Fence, value: u64, reasons: &[FaultReason]) -> Result<(), Mismatch> {
    match fence.poll(value, TIMEOUT) {
        Err(Error::QueueLost { fault: Some(fault), .. })
            if fault.reason == FaultReason::NOT_SUPPORTED_BY_NODE =>
        {
            Err(Mismatch::NotOffered("the host allows no kernels that hang".into()))
        }
        Err(Error::QueueLost { fault: Some(fault), .. }) => {
            require!(reasons.contains(&fault.reason), "{fault}");
            Ok(())
        }
        other => Err(Mismatch::Seen(format!("instead of a loss: {other:?}"))),
    }
}

/// A client's context works.
fn works(client: &mut Client, word: u64) -> Result<(), Mismatch> {
    client.commands.reset();
    client.commands.write_data(client.va(128), &word.to_le_bytes())?;
    client.run()?;
    let seen = client.word(128)?;
    require!(seen == word, "it stored {seen:#x}");
    Ok(())
}

pub(super) fn fault(scene: &Scene) -> Result<(), Mismatch> {
    let mut pair = Pair::new(scene, EngineType::THREE_D)?;
    let nowhere = {
        let gone = pair.device().create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
        gone.map(Protection::WRITE)?.gpu_va()
    };
    pair.slave.commands.fill(nowhere, 8, 1)?;
    pair.slave.expect_fault(FaultReason::WRITE_PAGE_FAULT, nowhere)?;
    works(&mut pair.master, 3)
}

/// Hangs an engine of the slave in `kernel` until the queue is lost, while the master works.
fn hangs(pair: &mut Pair, kernel: Kernel) -> Result<(), Mismatch> {
    let at = [pair.slave.va(0), pair.slave.va(8)];
    let context = pair.device().create_context(pair.slave.context.node())?;
    let mut queue = context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(pair.device(), 256)?;
    commands.dispatch(kernel, at[0], at[1], 8, 1)?;
    let value = queue.submit(&mut commands)?;
    // The master's queue waits for the lost one, which then counts as done.
    pair.master.commands.wait_fence(queue.progress_fence(), value)?;
    let waits = pair.master.submit()?;
    let mut beside = pair.master.context.create_user_mode_queue(4096)?;
    for round in 0..64u64 {
        let mut commands = CommandBuffer::new(pair.device(), 64)?;
        commands.write_data(pair.master.va(256), &round.to_le_bytes())?;
        let value = beside.submit(&mut commands)?;
        beside.progress_fence().poll(value, TIMEOUT)?;
    }
    expect_lost(queue.progress_fence(), value, &[FaultReason::ENGINE_TIMEOUT])?;
    pair.master.finish(waits)?;
    works(&mut pair.master, 5)
}

pub(super) fn hang(scene: &Scene) -> Result<(), Mismatch> {
    let mut pair = Pair::new(scene, EngineType::THREE_D)?;
    hangs(&mut pair, Kernel::SPIN_UNTIL)?;
    // The other context of the slave lost nothing.
    works(&mut pair.slave, 7)
}

pub(super) fn reset(scene: &Scene) -> Result<(), Mismatch> {
    let mut pair = Pair::new(scene, EngineType::THREE_D)?;
    // What the reset takes along: a queue that has no part in the hang.
    let mut innocent = CommandBuffer::new(pair.device(), 64)?;
    let fence = pair.device().create_fence(0)?;
    innocent.wait_fence(&fence, 1)?;
    let waiting = pair.slave.queue.submit(&mut innocent)?;
    hangs(&mut pair, Kernel::HANG_UNTIL_ADAPTER_RESET)?;
    let reset = [FaultReason::ADAPTER_RESET];
    expect_lost(pair.slave.queue.progress_fence(), waiting, &reset)?;
    // Neither the device nor the process is in error: another context on the GPU works, in the same memory.
    let context = pair.device().create_context(pair.slave.context.node())?;
    let mut queue = context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(pair.device(), 64)?;
    commands.write_data(pair.slave.va(64), &9u64.to_le_bytes())?;
    let value = queue.submit(&mut commands)?;
    queue.progress_fence().poll(value, TIMEOUT)?;
    let word = pair.slave.word(64)?;
    require!(word == 9, "it stored {word:#x}");
    Ok(())
}
