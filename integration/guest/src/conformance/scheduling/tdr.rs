// SPDX-License-Identifier: MIT OR Apache-2.0

//! `tdr.*`: hangs, and the contexts that they lose and spare.
//!
//! A host expels a guest that hangs often, so there are few of these behaviours.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw::{self, Process};
use crate::conformance::scene::{Bench, MEMORY, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error, Fence};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue, HwQueueFlags};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::features::Features;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::status::Status;
use std::thread;
use std::time::Instant;
use zerocopy::IntoBytes;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("tdr.context", source::FENCE_ALWAYS_SIGNALED, context).shows(
        "CPUs and queues that wait for a hung context continue, and signals of its fences do \
         nothing",
    ),
    Behaviour::new("tdr.innocent", source::KMD_TDR, innocent)
        .shows("a context in the middle of its work on the engine of a hung one loses nothing"),
    Behaviour::new("tdr.reset.engine", source::KMD_TDR, reset_engine).shows(
        "a context in the middle of its work loses nothing when the engine must be reset to end a \
         hang",
    ),
    Behaviour::new("tdr.disabled.refused", source::FENCE_PROGRESS, disabled_refused).shows(
        "a queue cannot have its time-out off where the host does not let the guest have such \
         queues",
    ),
    Behaviour::new("tdr.disabled.runs-on", source::FENCE_PROGRESS, disabled_runs_on).shows(
        "a queue whose time-out is off runs past the time-out of others, which have their turns \
         beside it",
    ),
    Behaviour::new("tdr.disabled.ends", source::FENCE_PROGRESS, disabled_ends).shows(
        "a queue whose time-out is off ends when it is destroyed, and executes nothing from then \
         on",
    ),
];

/// Waits until a submission ends because a hang lost its queue.
fn expect_hang(fence: &Fence, submitted: Result<u64, Error>) -> Result<(), Mismatch> {
    match submitted.and_then(|value| fence.poll(value, TIMEOUT)) {
        Err(Error::QueueLost { fault: Some(fault), .. })
            if fault.reason == FaultReason::NOT_SUPPORTED_BY_NODE =>
        {
            Err(Mismatch::NotOffered("the host allows no kernels that hang".into()))
        }
        Err(Error::QueueLost { fault: Some(fault), .. }) => {
            require!(fault.reason == FaultReason::ENGINE_TIMEOUT, "{fault}");
            Ok(())
        }
        other => Err(Mismatch::Seen(format!("instead of a hang: {other:?}"))),
    }
}

fn context(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let other = bench.device.create_context(bench.context.node())?;
    let mut neighbour = other.create_user_mode_queue(4096)?;
    let mut sibling = bench.context.create_kernel_mode_queue()?;
    let lost = bench.queue.progress_fence().slot();
    let mut commands = CommandBuffer::new(&bench.device, 256)?;
    commands.wait_fence(bench.queue.progress_fence(), 1000)?;
    commands.wait_fence(sibling.progress_fence(), 1000)?;
    commands.raw(SignalFence::new(lost, 5).as_bytes())?;
    commands.write_data(bench.va(64), &[1; 8])?;
    let waits = neighbour.submit(&mut commands)?;
    bench.commands.dispatch(Kernel::SPIN_UNTIL, bench.va(0), bench.va(8), 8, 1)?;
    let submitted = bench.queue.submit(&mut bench.commands);
    expect_hang(bench.queue.progress_fence(), submitted)?;
    neighbour.progress_fence().poll(waits, TIMEOUT)?;
    require!(bench.word(64)? == u64::from_le_bytes([1; 8]), "what came after was not executed");
    for fence in [bench.queue.progress_fence(), sibling.progress_fence()] {
        let current = fence.current_value()?;
        require!(current == u64::MAX, "a fence of the lost context is at {current}");
    }
    let mut nothing = CommandBuffer::new(&bench.device, 64)?;
    match sibling.submit(nothing.nop()?) {
        Err(Error::Refused { .. }) => Ok(()),
        other => Err(Mismatch::Seen(format!("the lost context took {other:?}"))),
    }
}

/// An innocent context copies while another, on the same engine, executes a kernel that hangs.
fn beside(scene: &Scene, kernel: Kernel) -> Result<(), Mismatch> {
    const LENGTH: u64 = MEMORY / 4;
    let bench = scene.bench()?;
    let innocent = bench.device.create_context(bench.context.node())?;
    let mut queue = innocent.create_user_mode_queue(4096)?;
    let mut guilty = bench.context.create_user_mode_queue(4096)?;
    let mut hang = CommandBuffer::new(&bench.device, 256)?;
    hang.dispatch(kernel, bench.va(0), bench.va(8), 8, 1)?;
    let pattern: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    bench.write(LENGTH as usize, &pattern)?;
    let mut buffers = Vec::new();
    for round in 0..32u64 {
        // Back and forth: each copy starts from what the one before left.
        let (from, to) = match round % 2 {
            0 => (LENGTH, 2 * LENGTH),
            _ => (2 * LENGTH, LENGTH),
        };
        let mut commands = CommandBuffer::new(&bench.device, 4096 - 64)?;
        commands.copy(bench.va(from), bench.va(to), LENGTH)?;
        commands.fill(bench.va(from), LENGTH, round as u32)?;
        buffers.push(commands);
    }
    let hung = guilty.submit(&mut hang);
    let mut last = 0;
    for commands in &mut buffers {
        last = queue.submit(commands)?;
    }
    expect_hang(guilty.progress_fence(), hung)?;
    queue.progress_fence().poll(last, TIMEOUT)?;
    check_pattern(&bench, LENGTH, &pattern)?;
    // It continues afterwards.
    let mut more = CommandBuffer::new(&bench.device, 64)?;
    let value = queue.submit(more.nop()?)?;
    Ok(queue.progress_fence().poll(value, TIMEOUT)?)
}

fn check_pattern(bench: &Bench, at: u64, pattern: &[u8]) -> Result<(), Mismatch> {
    let read = bench.read(at as usize, pattern.len())?;
    require!(read == pattern, "the copies differ");
    Ok(())
}

fn innocent(scene: &Scene) -> Result<(), Mismatch> {
    beside(scene, Kernel::SPIN_UNTIL)
}

fn reset_engine(scene: &Scene) -> Result<(), Mismatch> {
    beside(scene, Kernel::HANG_UNTIL_ENGINE_RESET)
}

fn disabled_refused(scene: &Scene) -> Result<(), Mismatch> {
    if scene.adapter().features().contains(Features::DISABLE_GPU_TIMEOUT) {
        return Err(Mismatch::NotOffered("the host lets this guest have such queues".into()));
    }
    let process = Process::begin(scene.transport())?;
    let context = process.context(0)?;
    let flags = HwQueueFlags::DISABLE_GPU_TIMEOUT.bits();
    let refused = process.status(&CreateHwQueue { context, flags, reserved: 0 })?;
    require!(refused == (Status::NOT_SUPPORTED, 0), "it ended with {refused:?}");
    process.call(&CreateHwQueue { context, flags: 0, reserved: 0 }).map(drop)
}

/// Commands that execute until the first word of the bench's memory is not 0. They set the second word when
/// they begin, and the fourth when they end.
fn endless(bench: &Bench) -> Result<CommandBuffer, Mismatch> {
    bench.write(0, &[0; 32])?;
    let mut commands = CommandBuffer::new(&bench.device, 256)?;
    commands.write_data(bench.va(8), &[1; 8])?;
    commands.dispatch(Kernel::SPIN_UNTIL, bench.va(0), bench.va(16), 8, 1)?;
    commands.write_data(bench.va(24), &[1; 8])?;
    Ok(commands)
}

fn await_begin(bench: &Bench) -> Result<(), Mismatch> {
    let start = Instant::now();
    while bench.word(8)? == 0 {
        require!(start.elapsed() < TIMEOUT, "the commands never begin");
        thread::yield_now();
    }
    Ok(())
}

fn disabled_runs_on(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs(Features::DISABLE_GPU_TIMEOUT)?;
    let mut bench = scene.bench()?;
    let own = bench.device.create_context(bench.context.node())?;
    let mut queue = own.user_mode_queue(4096).without_timeout().create()?;
    let mut commands = endless(&bench)?;
    let value = queue.submit(&mut commands)?;
    await_begin(&bench)?;
    // Each context gets half of the engine's time, so this queue executes for two time-outs while the two others,
    // one after the other, execute for one each.
    for _ in 0..2 {
        let other = bench.device.create_context(bench.context.node())?;
        let mut guilty = other.create_user_mode_queue(4096)?;
        let mut hang = CommandBuffer::new(&bench.device, 256)?;
        hang.dispatch(Kernel::SPIN_UNTIL, bench.va(0), bench.va(16), 8, 1)?;
        let hung = guilty.submit(&mut hang);
        expect_hang(guilty.progress_fence(), hung)?;
        bench.commands.nop()?;
        bench.run()?;
    }
    let reached = queue.progress_fence().current_value()?;
    require!(reached < value, "its progress fence is at {reached}");
    bench.write(0, &1u64.to_le_bytes())?;
    queue.progress_fence().poll(value, TIMEOUT)?;
    require!(bench.word(24)? != 0, "what came after was not executed");
    // It works as before.
    bench.commands.nop()?;
    Ok(bench.run_on(&mut queue)?)
}

fn disabled_ends(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs(Features::DISABLE_GPU_TIMEOUT)?;
    let mut bench = scene.bench()?;
    let own = bench.device.create_context(bench.context.node())?;
    let mut queue = own.kernel_mode_queue().without_timeout().create()?;
    let mut commands = endless(&bench)?;
    queue.submit(&mut commands)?;
    await_begin(&bench)?;
    let hw_queue = queue.handle();
    let (status, _) =
        raw::status(scene.transport(), bench.process.process(), &DestroyHwQueue { hw_queue })?;
    require!(status.is_success(), "destroying it ended with {status}");
    bench.write(0, &1u64.to_le_bytes())?;
    bench.commands.nop()?;
    bench.run()?;
    require!(bench.word(24)? == 0, "it was executed after it was destroyed");
    Ok(())
}
