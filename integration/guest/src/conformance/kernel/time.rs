// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that take long or do not end: hangs, suspension, and queues and processes that end meanwhile.

use super::create::await_count;
use super::lab::{self, COUNT, INCREMENT};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use bellhop_guest_umd::{Arguments, CommandBuffer, Error};
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::event::FaultReason;
use std::thread;
use std::time::{Duration, Instant};

/// How long nothing must happen before it counts as not happening.
const QUIET: Duration = Duration::from_millis(30);

/// Commands whose kernel counts in the first word until the second is not 0. They write behind it then.
fn counting(bench: &Bench) -> Result<CommandBuffer, Mismatch> {
    bench.write(0, &[0; 128])?;
    let kernel = bench.wgsl(COUNT)?;
    let mut arguments = Arguments::new();
    arguments.descriptor(bench.va(0), 8);
    let mut commands = CommandBuffer::new(&bench.device, 512)?;
    commands.dispatch_kernel(&kernel, [1; 3], &arguments)?;
    commands.write_data(bench.va(64), &[7; 8])?;
    Ok(commands)
}

pub(super) fn hang(scene: &Scene) -> Result<(), Mismatch> {
    let bench = lab::bench(scene)?;
    // Beside it: another context of the process on the engine, whose kernels may have to wait for the hung one, and
    // another process, which has work throughout.
    let context = bench.device.create_context(bench.context.node())?;
    let mut sibling = context.create_user_mode_queue(4096)?;
    let mut neighbour = lab::bench(scene)?;
    let increment = bench.wgsl(INCREMENT)?;
    let mut beside = CommandBuffer::new(&bench.device, 512)?;
    let mut arguments = Arguments::new();
    arguments.descriptor(bench.va(8192), 4096);
    beside.dispatch_kernel(&increment, [16, 1, 1], &arguments)?;
    let kernel = neighbour.wgsl(INCREMENT)?;
    neighbour.write_words(0, [0; 1024])?;
    neighbour.dispatch_over(&kernel, 16, 0, 4096)?;
    let mut commands = counting(&bench)?;
    bench.write_words(8192, [0; 1024])?;
    let mut guilty = bench.context.create_user_mode_queue(4096)?;
    let hung = guilty.submit(&mut commands)?;
    await_count(&bench, 0)?;
    let own = sibling.submit(&mut beside)?;
    let mut rounds = 0u32;
    let start = Instant::now();
    let fault = loop {
        require!(start.elapsed() < TIMEOUT, "it is not ended after {rounds} rounds");
        let other = neighbour.queue.submit(&mut neighbour.commands)?;
        neighbour.queue.progress_fence().poll(other, TIMEOUT)?;
        rounds += 1;
        match guilty.progress_fence().poll(hung, Duration::ZERO) {
            Err(Error::Timeout { .. }) => {}
            Err(Error::QueueLost { fault: Some(fault), .. }) => break fault,
            other => return Err(Mismatch::Seen(format!("it ended with {other:?}"))),
        }
    };
    require!(fault.reason == FaultReason::ENGINE_TIMEOUT, "{fault}");
    let others = neighbour.words(0, 1024)?;
    require!(others == [rounds; 1024], "something of the {rounds} rounds was lost");
    sibling.progress_fence().poll(own, TIMEOUT)?;
    let own = bench.words(8192, 1024)?;
    require!(own == [1; 1024], "the process's other context lost its dispatch");
    let count = bench.words(0, 1)?;
    thread::sleep(QUIET);
    require!(bench.words(0, 1)? == count, "the kernel counts on");
    require!(bench.read(64, 8)? == [0; 8], "what came after was executed");
    scene.show(format!("{rounds} dispatches of a neighbour meanwhile"));
    neighbour.expect_computes()
}

pub(super) fn suspended(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let mut commands = counting(&bench)?;
    let value = bench.queue.submit(&mut commands)?;
    let mut count = await_count(&bench, 0)?;
    for _ in 0..3 {
        bench.context.suspend()?;
        let before = bench.words(0, 1)?[0];
        thread::sleep(QUIET);
        let after = bench.words(0, 1)?[0];
        require!(before == after, "it counted from {before} to {after} while it was suspended");
        require!(before >= count, "it counted back from {count} to {before}");
        bench.context.resume()?;
        count = await_count(&bench, after)?;
    }
    bench.write_words(4, [1])?;
    bench.queue.progress_fence().poll(value, TIMEOUT)?;
    require!(bench.read(64, 8)? == [7; 8], "what came after was not executed");
    Ok(())
}

pub(super) fn killed_process(scene: &Scene) -> Result<(), Mismatch> {
    let bench = lab::bench(scene)?;
    let mut neighbour = lab::bench(scene)?;
    let mut commands = counting(&bench)?;
    let mut queue = bench.context.create_user_mode_queue(4096)?;
    queue.submit(&mut commands)?;
    await_count(&bench, 0)?;
    let request = DestroyProcess { flags: TERMINATED_ABNORMALLY };
    raw::call(scene.transport(), bench.process.process(), &request)?;
    // The memory is the guest's own, and the driver still has it.
    let count = bench.words(0, 1)?;
    thread::sleep(QUIET);
    require!(bench.words(0, 1)? == count, "the kernel of a process that died counts on");
    bench.write_words(4, [1])?;
    neighbour.expect_computes()?;
    require!(bench.read(64, 8)? == [0; 8], "what came after was executed");
    Ok(())
}

pub(super) fn takes_turns(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let mut commands = counting(&bench)?;
    let value = bench.queue.submit(&mut commands)?;
    await_count(&bench, 0)?;
    // A queue without kernels has its turns beside a kernel that goes on.
    let mut other = scene.bench()?;
    for round in 0..5u64 {
        other.commands.write_data(other.va(0), &round.to_le_bytes())?;
        other.run()?;
        require!(other.word(0)? == round, "round {round} was not executed");
    }
    let count = bench.words(0, 1)?[0];
    await_count(&bench, count)?;
    bench.write_words(4, [1])?;
    bench.queue.progress_fence().poll(value, TIMEOUT)?;
    Ok(())
}
