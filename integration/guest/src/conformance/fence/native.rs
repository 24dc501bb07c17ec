// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fence.*`: native fences, signaled and waited for by the GPU.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, KernelModeQueue};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::fence::DestroyNativeFence;
use bellhop_protocol::doorbell::ConnectionStatus;
use std::thread;
use std::time::{Duration, Instant};

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("fence.initial-value", source::FENCE_DESIGN, initial_value)
        .shows("a new fence has its initial value"),
    Behaviour::new("fence.signal.poll", source::FENCE_DESIGN, signal_poll)
        .shows("a polling CPU sees a value that the GPU signals"),
    Behaviour::new("fence.gpu-wait.engine-to-engine", source::FENCE_NATIVE, engine_to_engine)
        .shows("a queue is held until another engine signals the fence that it waits for"),
    Behaviour::new("fence.gpu-wait.yields", source::FENCE_NATIVE, yields)
        .shows("a queue that waits leaves its engine to others"),
    Behaviour::new("fence.gpu-wait.deadlock", source::FENCE_NATIVE, deadlock).shows(
        "two queues that wait for each other leave the GPU to others, and continue once a CPU \
         signals",
    ),
    Behaviour::new("fence.gpu-wait.deadlock-destroyed", source::UM_TERMINATION, deadlock_destroyed)
        .shows(
            "destroying one of two queues that wait for each other ends the deadlock, and other \
             queues lose nothing",
        ),
    Behaviour::new("fence.gpu-wait.thousand", source::FENCE_NATIVE, thousand).shows(
        "engines sleep while a thousand queues wait for fences, and signals of other fences do \
         not wake them",
    ),
    Behaviour::new("fence.progress.destroy", source::UM_PROGRESS, progress_destroy)
        .shows("a queue's progress fence cannot be destroyed without the queue"),
];

fn initial_value(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    for value in [0, 1, u64::MAX - 1, u64::MAX] {
        let current = bench.device.create_fence(value)?.current_value()?;
        require!(current == value, "created with {value}, it reads {current}");
    }
    Ok(())
}

fn signal_poll(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    for value in [1, 2, 2, 1000, u64::MAX] {
        bench.commands.signal_fence(&fence, value)?;
        bench.queue.submit(&mut bench.commands)?;
        fence.poll(value, TIMEOUT)?;
        bench.commands.reset();
        let current = fence.current_value()?;
        require!(current == value, "signaled {value}, it reads {current}");
        let last = bench.queue.last_value();
        bench.queue.progress_fence().poll(last, TIMEOUT)?;
    }
    Ok(())
}

fn engine_to_engine(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let copy_node = scene.node(EngineType::COPY)?;
    let mut copies = bench.device.create_context(copy_node)?.create_user_mode_queue(4096)?;
    let mut copy = CommandBuffer::new(&bench.device, 256)?;
    let (there, back) = (bench.device.create_fence(0)?, bench.device.create_fence(0)?);
    // In each round, each of the two engines uses the other's result.
    for round in 1..=50u64 {
        copy.reset();
        copy.wait_fence(&there, round)?
            .copy(bench.va(0), bench.va(8), 8)?
            .signal_fence(&back, round)?;
        let copied = copies.submit(&mut copy)?;
        let (made, taken, back_here) = (bench.va(0), bench.va(8), bench.va(16));
        bench.commands.reset();
        bench
            .commands
            .write_data(made, &u64::to_le_bytes(round))?
            .signal_fence(&there, round)?
            .wait_fence(&back, round)?
            .copy(taken, back_here, 8)?;
        let value = bench.queue.submit(&mut bench.commands)?;
        bench.queue.progress_fence().poll(value, TIMEOUT)?;
        copies.progress_fence().poll(copied, TIMEOUT)?;
        let arrived = bench.word(16)?;
        require!(arrived == round, "round {round} ended with {arrived}");
    }
    Ok(())
}

fn yields(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let gate = bench.device.create_fence(0)?;
    bench.commands.wait_fence(&gate, 1)?;
    let held = bench.queue.submit(&mut bench.commands)?;
    let mut other = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.nop()?;
    for _ in 0..10 {
        let value = other.submit(&mut commands)?;
        other.progress_fence().poll(value, TIMEOUT)?;
    }
    let current = bench.queue.progress_fence().current_value()?;
    require!(current < held, "the queue did not wait");
    commands.reset();
    commands.signal_fence(&gate, 1)?;
    other.submit(&mut commands)?;
    Ok(bench.queue.progress_fence().poll(held, TIMEOUT)?)
}

fn deadlock(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let [one, two] = [bench.device.create_fence(0)?, bench.device.create_fence(0)?];
    let copy_node = scene.node(EngineType::COPY)?;
    let mut other = bench.device.create_context(copy_node)?.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    bench.commands.wait_fence(&one, 1)?.signal_fence(&two, 1)?;
    commands.wait_fence(&two, 1)?.signal_fence(&one, 2)?;
    let held = bench.queue.submit(&mut bench.commands)?;
    let also_held = other.submit(&mut commands)?;
    let mut free = bench.context.create_user_mode_queue(4096)?;
    let mut nothing = CommandBuffer::new(&bench.device, 64)?;
    nothing.nop()?;
    for _ in 0..10 {
        let value = free.submit(&mut nothing)?;
        free.progress_fence().poll(value, TIMEOUT)?;
    }
    let current = (
        bench.queue.progress_fence().current_value()? < held,
        other.progress_fence().current_value()? < also_held,
    );
    require!(current == (true, true), "a queue did not wait");
    one.signal(1)?;
    bench.queue.progress_fence().poll(held, TIMEOUT)?;
    other.progress_fence().poll(also_held, TIMEOUT)?;
    let value = one.current_value()?;
    require!(value == 2, "the first fence ends at {value}");
    Ok(())
}

fn deadlock_destroyed(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let [one, two] = [bench.device.create_fence(0)?, bench.device.create_fence(0)?];
    let context = bench.device.create_context(bench.context.node())?;
    let mut other = context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    bench.commands.wait_fence(&one, 1)?.signal_fence(&two, 1)?;
    commands.wait_fence(&two, 1)?.signal_fence(&one, 1)?;
    bench.queue.submit(&mut bench.commands)?;
    let held = other.submit(&mut commands)?;
    let mut free = bench.context.create_user_mode_queue(4096)?;
    let mut nothing = CommandBuffer::new(&bench.device, 64)?;
    nothing.nop()?;
    let mut run = || {
        let value = free.submit(&mut nothing)?;
        free.progress_fence().poll(value, TIMEOUT)
    };
    run()?;
    // A queue holds its work for a while at most: destroying it waits that long, and then drops the work.
    let Bench { queue, .. } = bench;
    drop(queue);
    run()?;
    let seen = (one.current_value()?, two.current_value()?);
    require!(seen == (0, 0), "what was dropped has signaled: {seen:?}");
    // The other queue still waits, and a CPU may signal in place of the first.
    require!(other.progress_fence().current_value()? < held, "it did not wait");
    two.signal(1)?;
    other.progress_fence().poll(held, TIMEOUT)?;
    Ok(one.poll(1, TIMEOUT)?)
}

/// How long the test watches engines that have nothing to do.
const WHILE: Duration = Duration::from_millis(200);

fn thousand(scene: &Scene) -> Result<(), Mismatch> {
    const QUEUES: usize = 1000;
    const SIGNALS: u64 = 20;
    let room = scene.transport().config().fence_count;
    // Each queue has a fence of its own, and waits for one.
    if (room as usize) < 2 * QUEUES + 8 {
        return Err(Mismatch::NotOffered(format!("{room} fences are too few for {QUEUES} queues")));
    }
    let mut bench = scene.bench()?;
    let node = scene.node(EngineType::COPY)?;
    let context = bench.device.create_context(node)?;
    let mut wait = Vec::new();
    let mut queues = Vec::new();
    // Kernel-mode queues: there may be this many even where doorbells are few.
    for _ in 0..QUEUES {
        let fence = bench.device.create_fence(0)?;
        let mut queue = context.create_kernel_mode_queue()?;
        let mut commands = CommandBuffer::new(&bench.device, 64)?;
        commands.wait_fence(&fence, 1)?;
        let held = queue.submit(&mut commands)?;
        queues.push((queue, held));
        wait.push((fence, commands));
    }
    // The status of this queue's doorbell shows when the engine sleeps.
    let mut doorbell = context.create_user_mode_queue(4096)?;
    bench.commands.nop()?;
    let connected = doorbell.submit(&mut bench.commands)?;
    doorbell.progress_fence().wait(connected, TIMEOUT)?;
    // Engines look at no queue while nothing happens, nor when a fence is signaled that no engine waits
    // for.
    let other = bench.device.create_fence(0)?;
    let (deadline, mut signaled) = (Instant::now() + TIMEOUT, 0);
    loop {
        let before = bench.process.statistics()?;
        let was_asleep = doorbell.status() != ConnectionStatus::CONNECTED;
        thread::sleep(WHILE);
        for _ in 0..SIGNALS {
            signaled += 1;
            other.signal(signaled)?;
        }
        let after = bench.process.statistics()?;
        let woken = after.engine_wakeups - before.engine_wakeups;
        let sleeps = was_asleep && doorbell.status() != ConnectionStatus::CONNECTED;
        if sleeps && woken == 0 && after.engine_time == before.engine_time {
            scene.show(format!(
                "{QUEUES} queues waited, {SIGNALS} signals of another fence: {woken} wake-ups"
            ));
            break;
        }
        require!(Instant::now() < deadline, "the engine slept: {sleeps}; {woken} wake-ups");
    }
    let ((fence, _), (queue, held)) = (&wait[QUEUES / 2], &queues[QUEUES / 2]);
    fence.signal(1)?;
    queue.progress_fence().wait(*held, TIMEOUT)?;
    let released = |(queue, held): &&(KernelModeQueue, u64)| {
        queue.progress_fence().current_value().is_ok_and(|value| value >= *held)
    };
    let released = queues.iter().filter(released).count();
    require!(released == 1, "{released} queues were released by one signal");
    for (fence, _) in &wait {
        fence.signal(1)?;
    }
    for (queue, held) in &queues {
        queue.progress_fence().wait(*held, TIMEOUT)?;
    }
    bench.commands.nop()?;
    Ok(bench.run()?)
}

fn progress_destroy(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.queue.progress_fence().handle();
    let request = DestroyNativeFence { fence };
    let (status, _) = raw::status(scene.transport(), bench.process.process(), &request)?;
    require!(!status.is_success(), "it was destroyed");
    bench.commands.nop()?;
    Ok(bench.run()?)
}
