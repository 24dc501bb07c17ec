// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes of several GPUs, and queues on them that wait for each other.

use super::pair::{Pair, node_of, nodes};
use crate::client::Client;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::CommandBuffer;
use bellhop_protocol::control::adapter::EngineType;
use std::collections::BTreeSet;
use std::time::Instant;

pub(super) fn numbered(scene: &Scene) -> Result<(), Mismatch> {
    let nodes = nodes(scene)?;
    let gpus: BTreeSet<u8> = nodes.iter().map(|node| node.gpu()).collect();
    let expected: BTreeSet<u8> = (0..gpus.len() as u8).collect();
    require!(gpus == expected, "the GPUs are {gpus:?}");
    let order: Vec<_> = nodes.iter().map(|node| node.gpu()).collect();
    require!(order.is_sorted(), "the nodes are of {order:?}, not in the order of the chain");
    for gpu in gpus {
        node_of(&nodes, gpu, EngineType::THREE_D)?;
        node_of(&nodes, gpu, EngineType::COPY)?;
    }
    Ok(())
}

pub(super) fn on_each(scene: &Scene) -> Result<(), Mismatch> {
    for engine_type in [EngineType::THREE_D, EngineType::COPY] {
        let mut pair = Pair::new(scene, engine_type)?;
        let at = pair.master.va(0);
        // One command buffer, in memory that both reach at one address.
        let mut commands = CommandBuffer::new(pair.device(), 256)?;
        commands.fill(at, 64, 0x0102_0304)?;
        for client in pair.both() {
            client.write(0, &[0; 64])?;
        }
        for turn in 0..2 {
            pair.master.write(0, &[0; 64])?;
            let client = pair.both().into_iter().nth(turn).expect("two");
            let value = client.queue.submit(&mut commands)?;
            client.finish(value)?;
            let word = pair.master.word(56)?;
            require!(word == 0x0102_0304_0102_0304, "GPU {turn} stored {word:#x}");
        }
        pair.master.write(0, &[0; 64])?;
        let mut queue = pair.slave.context.create_kernel_mode_queue()?;
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().wait(value, TIMEOUT)?;
        let word = pair.master.word(56)?;
        require!(word == 0x0102_0304_0102_0304, "in kernel mode the slave stored {word:#x}");
    }
    Ok(())
}

/// Waits until a client's engine is where the last submission waits for a fence: it has stored this word, which precedes
/// the wait, and has executed another queue since. An engine serves another queue when the one before waits or has
/// nothing left, so a wait that does not hold has let its whole submission through by then.
fn reach_the_wait(client: &mut Client, word: u64) -> Result<(), Mismatch> {
    let begin = Instant::now();
    while client.word(8)? != word {
        require!(begin.elapsed() < TIMEOUT, "the engine does not begin the submission");
        std::thread::yield_now();
    }
    let mut beside = client.context.create_user_mode_queue(4096)?;
    let mut nothing = CommandBuffer::new(&client.device, 64)?;
    let value = beside.submit(nothing.nop()?)?;
    Ok(beside.progress_fence().poll(value, TIMEOUT)?)
}

pub(super) fn fence(scene: &Scene) -> Result<(), Mismatch> {
    let mut pair = Pair::new(scene, EngineType::THREE_D)?;
    let fence = pair.device().create_fence(0)?;
    for round in 1..=8u64 {
        let [one, other] = pair.both();
        let (waits, signals) = if round % 2 == 0 { (one, other) } else { (other, one) };
        waits.write(0, &[0; 8])?;
        waits.commands.write_data(waits.va(8), &round.to_le_bytes())?;
        waits.commands.wait_fence(&fence, round)?;
        waits.commands.write_data(waits.va(0), &round.to_le_bytes())?;
        let waiting = waits.submit()?;
        reach_the_wait(waits, round)?;
        let early = waits.word(0)?;
        require!(early == 0, "it did not wait for {round}");
        signals.commands.signal_fence(&fence, round)?;
        signals.run()?;
        waits.finish(waiting)?;
        waits.commands.reset();
        let word = waits.word(0)?;
        require!(word == round, "{word} in round {round}");
    }
    Ok(())
}

/// Frames that two GPUs draw in turns: each draws on what the other has drawn.
pub(super) fn order(scene: &Scene) -> Result<(), Mismatch> {
    const FRAMES: u64 = 64;
    let mut pair = Pair::new(scene, EngineType::COPY)?;
    let fence = pair.device().create_fence(0)?;
    let (log, source) = (pair.master.va(0), pair.master.va(8192));
    for frame in 0..FRAMES {
        pair.master.write(8192 + frame as usize * 8, &(frame + 1).to_le_bytes())?;
    }
    let mut buffers = Vec::new();
    for frame in 0..FRAMES {
        let mut commands = CommandBuffer::new(pair.device(), 512)?;
        commands.wait_fence(&fence, frame)?;
        // Each frame stores its number over that of the frame before, and logs what it found.
        commands.copy(log, log + 8 + frame * 8, 8)?;
        commands.copy(source + frame * 8, log, 8)?;
        commands.signal_fence(&fence, frame + 1)?;
        buffers.push(commands);
    }
    let mut values = [0; 2];
    for (frame, commands) in buffers.iter_mut().enumerate() {
        let client = pair.both().into_iter().nth(frame % 2).expect("two");
        values[frame % 2] = client.queue.submit(commands)?;
    }
    for (client, value) in pair.both().into_iter().zip(values) {
        client.finish(value)?;
    }
    for frame in 0..FRAMES {
        let found = pair.master.word(8 + frame as usize * 8)?;
        require!(found == frame, "frame {frame} came after {found}");
    }
    Ok(())
}
