// SPDX-License-Identifier: MIT OR Apache-2.0

//! `context.*`: contexts on the run list and off it.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scarce_doorbells::take_all_doorbells;
use crate::conformance::scene::{Bench, MEMORY, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error};
use bellhop_protocol::control::context::SuspendContext;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::status::Status;
use std::time::{Duration, Instant};

/// How long nothing must happen before it counts as not happening.
const QUIET: Duration = Duration::from_millis(30);

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("context.suspend", source::UM_SUSPENSION, suspend)
        .shows("nothing of a suspended context executes, and its doorbell stays connected"),
    Behaviour::new("context.suspend.running", source::UM_SUSPENSION, suspend_running)
        .shows("the work that a context was executing stands still once the context is suspended"),
    Behaviour::new("context.suspend.neighbour", source::UM_SUSPENSION, neighbour)
        .shows("other contexts on the engine of a suspended one continue"),
    Behaviour::new("context.suspend.kernel-mode", source::UM_SUSPENSION, kernel_mode)
        .shows("a suspended context takes a kernel-mode submission, and executes it later"),
    Behaviour::new("context.suspend.victim", source::UM_SUSPENSION, victim)
        .shows("a suspended queue that lost its doorbell gets another while it is suspended"),
    Behaviour::new("context.resume", source::UM_SUSPENSION, resume).shows(
        "submissions to a suspended context execute once it is resumed, all of them and in order",
    ),
    Behaviour::new("context.resume.blocked", source::UM_SUSPENSION, resume_blocked).shows(
        "a queue that waited for a fence waits on after its context was suspended and resumed",
    ),
    Behaviour::new("context.suspend.other-process", source::FENCE_HANDLES, other_process)
        .shows("only the process that owns a context can suspend it"),
];

/// Asserts that a submission is not done, now or soon.
fn expect_stands_still(bench: &Bench, value: u64) -> Result<(), Mismatch> {
    match bench.queue.progress_fence().poll(value, QUIET) {
        Err(Error::Timeout { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => Err(Mismatch::Seen(format!("submission {value} was executed"))),
    }
}

/// Repeats a check until the engine has kept its power throughout: an engine that goes to F1 disconnects doorbells
/// too, which can happen whenever this program is not scheduled for the engine's idle time.
fn while_in_f0(
    bench: &mut Bench,
    mut check: impl FnMut(&mut Bench) -> Result<(), Mismatch>,
) -> Result<(), Mismatch> {
    let start = Instant::now();
    loop {
        let transitions = |bench: &Bench| {
            bench.process.power(bench.context.node()).map(|power| power.engine_transitions)
        };
        let before = transitions(bench)?;
        let outcome = check(bench);
        if outcome.is_ok() || transitions(bench)? == before || start.elapsed() > TIMEOUT {
            return outcome;
        }
    }
}

fn suspend(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    while_in_f0(&mut bench, |bench| {
        bench.context.resume()?;
        bench.write(0, &[0; 8])?;
        bench.commands.reset();
        bench.commands.nop()?;
        bench.run()?;
        bench.context.suspend()?;
        let status = bench.queue.status();
        let connected = [ConnectionStatus::CONNECTED, ConnectionStatus::CONNECTED_NOTIFY];
        require!(connected.contains(&status), "the doorbell reads {status}");
        bench.commands.reset();
        bench.commands.write_data(bench.va(0), &[1; 8])?;
        let connects = bench.queue.counters().connects;
        let value = bench.queue.submit(&mut bench.commands)?;
        expect_stands_still(bench, value)?;
        require!(bench.word(0)? == 0, "it wrote");
        let connects = bench.queue.counters().connects - connects;
        require!(connects == 0, "{connects} connects");
        // Suspending twice is suspending once.
        bench.context.suspend()?;
        bench.context.resume()?;
        bench.queue.progress_fence().poll(value, TIMEOUT)?;
        Ok(())
    })?;
    bench.context.resume()?;
    bench.commands.reset();
    bench.commands.nop()?;
    Ok(bench.run()?)
}

fn suspend_running(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut buffers = Vec::new();
    for _ in 0..20 {
        let mut commands = CommandBuffer::new(&bench.device, 4096 - 64)?;
        for _ in 0..60 {
            commands.fill(bench.va(0), MEMORY, 7)?;
        }
        buffers.push(commands);
    }
    let mut last = 0;
    for commands in &mut buffers {
        last = bench.queue.submit(commands)?;
    }
    bench.context.suspend()?;
    let reached = bench.queue.progress_fence().current_value()?;
    std::thread::sleep(QUIET);
    let later = bench.queue.progress_fence().current_value()?;
    require!(reached == later, "it continued from {reached} to {later}");
    bench.context.resume()?;
    Ok(bench.queue.progress_fence().poll(last, TIMEOUT)?)
}

fn neighbour(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    bench.context.suspend()?;
    let value = bench.queue.submit(&mut bench.commands)?;
    let other = bench.device.create_context(bench.context.node())?;
    let mut queue = other.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    for _ in 0..20 {
        commands.reset();
        let value = queue.submit(commands.nop()?)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
    }
    expect_stands_still(&bench, value)?;
    bench.context.resume()?;
    Ok(bench.queue.progress_fence().poll(value, TIMEOUT)?)
}

fn kernel_mode(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    bench.commands.write_data(bench.va(0), &[1; 8])?;
    bench.context.suspend()?;
    let value = queue.submit(&mut bench.commands)?;
    std::thread::sleep(QUIET);
    require!(bench.word(0)? == 0, "it was executed");
    bench.context.resume()?;
    queue.progress_fence().wait(value, TIMEOUT)?;
    require!(bench.word(0)? == u64::from_le_bytes([1; 8]), "it wrote nothing");
    Ok(())
}

fn victim(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    bench.run()?;
    bench.context.suspend()?;
    let mut others = take_all_doorbells(scene, &bench)?;
    let status = bench.queue.status();
    require!(status == ConnectionStatus::DISCONNECTED_RETRY, "the doorbell reads {status}");
    bench.commands.nop()?;
    let value = bench.queue.submit(&mut bench.commands)?;
    let status = bench.queue.status();
    require!(status != ConnectionStatus::DISCONNECTED_RETRY, "it was not connected again");
    expect_stands_still(&bench, value)?;
    others.clear();
    bench.context.resume()?;
    Ok(bench.queue.progress_fence().poll(value, TIMEOUT)?)
}

fn resume(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    for round in 0..10u64 {
        bench.context.suspend()?;
        bench.write(0, &u64::to_le_bytes(0x1234 + round))?;
        let mut buffers = Vec::new();
        for number in 0..32u64 {
            // Each submission advances the number of the one before, so that any other order loses it.
            let mut commands = CommandBuffer::new(&bench.device, 64)?;
            commands.copy(bench.va(8 * number), bench.va(8 * number + 8), 8)?;
            buffers.push(commands);
        }
        let mut last = 0;
        for commands in &mut buffers {
            last = bench.queue.submit(commands)?;
        }
        bench.context.resume()?;
        bench.queue.progress_fence().poll(last, TIMEOUT)?;
        let arrived = bench.word(32 * 8)?;
        require!(arrived == 0x1234 + round, "{arrived:#x} arrived in round {round}");
    }
    Ok(())
}

fn resume_blocked(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    bench.commands.wait_fence(&fence, 1)?;
    let value = bench.queue.submit(&mut bench.commands)?;
    bench.context.suspend()?;
    let other = bench.device.create_context(bench.context.node())?;
    let mut signaler = other.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    let signaled = signaler.submit(commands.signal_fence(&fence, 1)?)?;
    signaler.progress_fence().poll(signaled, TIMEOUT)?;
    expect_stands_still(&bench, value)?;
    bench.context.resume()?;
    Ok(bench.queue.progress_fence().poll(value, TIMEOUT)?)
}

fn other_process(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let stranger = raw::Process::begin(scene.transport())?;
    let request = SuspendContext { context: bench.context.handle() };
    stranger.expect_status(&request, Status::INVALID_HANDLE)
}
