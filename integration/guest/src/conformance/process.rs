// SPDX-License-Identifier: MIT OR Apache-2.0

//! `process.*`: how processes end, and their objects with them.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scarce_doorbells::take_all_doorbells;
use crate::conformance::scene::{Bench, MEMORY, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, UserModeQueue};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::hw_queue::DestroyHwQueue;
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::status::Status;
use std::time::Instant;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("process.termination.normal", source::UM_TERMINATION, normal)
        .shows("a queue that is destroyed finishes its submissions first"),
    Behaviour::new(
        "process.termination.normal-kernel-mode",
        source::UM_TERMINATION,
        normal_kernel_mode,
    )
    .shows("a queue for kernel-mode submission that is destroyed finishes its submissions first"),
    Behaviour::new("process.termination.never-connected", source::UM_TERMINATION, never_connected)
        .shows(
            "a queue whose doorbell was never connected finishes its submissions when it is \
             destroyed",
        ),
    Behaviour::new("process.termination.victim", source::UM_TERMINATION, victim).shows(
        "a queue whose doorbell another queue took finishes its submissions when it is destroyed",
    ),
    Behaviour::new("process.termination.suspended", source::UM_TERMINATION, suspended).shows(
        "a queue of a suspended context is destroyed once the context is resumed and its \
         submissions are executed",
    ),
    Behaviour::new("process.termination.stuck", source::UM_TERMINATION, stuck).shows(
        "destroying a queue ends work that never finishes, in time, and other queues continue \
         meanwhile",
    ),
    Behaviour::new("process.termination.abnormal", source::UM_TERMINATION, abnormal)
        .shows("a process that dies executes nothing more, and all its objects are gone"),
    Behaviour::new(
        "process.termination.abnormal-fence",
        source::FENCE_ALWAYS_SIGNALED,
        abnormal_fence,
    )
    .shows("CPUs and queues that wait for a shared fence of a process that dies continue"),
    Behaviour::new("process.termination.twice", source::UM_TERMINATION, twice)
        .shows("a queue that is being destroyed cannot be destroyed again"),
];

fn normal(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    for round in 0..5u64 {
        let mut queue = bench.context.create_user_mode_queue(4096)?;
        let mut commands = CommandBuffer::new(&bench.device, 4096 - 64)?;
        for _ in 0..50 {
            commands.fill(bench.va(4096), MEMORY - 4096, round as u32)?;
        }
        commands.write_data(bench.va(0), &u64::to_le_bytes(round + 1))?;
        queue.submit(&mut commands)?;
        drop(queue);
        let written = bench.word(0)?;
        require!(written == round + 1, "the last packet had not been executed: {written}");
    }
    bench.commands.nop()?;
    Ok(bench.run()?)
}

fn normal_kernel_mode(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    let mut commands = CommandBuffer::new(&bench.device, 4096 - 64)?;
    for _ in 0..50 {
        commands.fill(bench.va(4096), MEMORY - 4096, 1)?;
    }
    commands.write_data(bench.va(0), &[1; 8])?;
    queue.submit(&mut commands)?;
    drop(queue);
    require!(bench.word(0)? == u64::from_le_bytes([1; 8]), "it had not been executed");
    Ok(())
}

/// Puts a packet into a queue's ring without ringing, destroys the queue, and asserts that the engine
/// executed the packet.
fn expect_executed(bench: &Bench, mut queue: UserModeQueue) -> Result<(), Mismatch> {
    let mut commands = CommandBuffer::new(&bench.device, 128)?;
    queue.queue(commands.write_data(bench.va(0), &7u64.to_le_bytes())?)?;
    queue.publish_unrung();
    drop(queue);
    require!(bench.word(0)? == 7, "what it was given had not been executed");
    Ok(())
}

fn never_connected(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let queue = bench.context.create_user_mode_queue(4096)?;
    expect_executed(&bench, queue)
}

fn victim(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let mut queue = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    let value = queue.submit(commands.nop()?)?;
    queue.progress_fence().poll(value, TIMEOUT)?;
    let _others = take_all_doorbells(scene, &bench)?;
    let status = queue.status();
    require!(status == ConnectionStatus::DISCONNECTED_RETRY, "the doorbell reads {status}");
    expect_executed(&bench, queue)
}

fn suspended(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let mut queue = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 128)?;
    bench.context.suspend()?;
    queue.submit(commands.write_data(bench.va(0), &7u64.to_le_bytes())?)?;
    let (process, request) = (bench.process.process(), DestroyHwQueue { hw_queue: queue.handle() });
    std::thread::scope(|threads| {
        let ending = threads.spawn(|| raw::call(scene.transport(), process, &request));
        let start = Instant::now();
        while queue.status() != ConnectionStatus::DISCONNECTED_ABORT {
            require!(start.elapsed() < TIMEOUT, "the queue's end does not begin");
            std::thread::yield_now();
        }
        require!(bench.word(0)? == 0, "a suspended context was executed");
        bench.context.resume()?;
        ending.join().map_err(|_| Mismatch::Seen("the thread panicked".into()))?
    })?;
    require!(bench.word(0)? == 7, "what it was given had not been executed");
    Ok(())
}

fn stuck(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let mut queue = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    queue.submit(commands.wait_fence(&fence, 1)?)?;
    bench.commands.nop()?;
    let start = Instant::now();
    std::thread::scope(|threads| {
        let ending = threads.spawn(move || drop(queue));
        while !ending.is_finished() {
            let value = bench.queue.submit(&mut bench.commands)?;
            bench.queue.progress_fence().poll(value, TIMEOUT)?;
            require!(start.elapsed() < TIMEOUT, "the queue is never destroyed");
        }
        Ok(())
    })
}

fn abnormal(scene: &Scene) -> Result<(), Mismatch> {
    let survivor = scene.bench()?;
    let mut dying = scene.bench()?;
    // The dying process's work would show in its memory, which this program still reads.
    let fence = dying.device.create_fence(0)?;
    dying.commands.wait_fence(&fence, 1)?;
    dying.queue.submit(&mut dying.commands)?;
    let mut busy = dying.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&dying.device, 4096 - 64)?;
    for _ in 0..60 {
        commands.fill(dying.va(0), MEMORY, 1)?;
    }
    for _ in 0..100 {
        busy.submit(&mut commands)?;
    }
    dying.process.terminate_abnormally()?;
    // No engine writes its memory now.
    dying.write(0, &[0; 64])?;
    std::thread::sleep(std::time::Duration::from_millis(20));
    require!(dying.read(0, 64)? == [0; 64], "its work continues");
    let process = dying.process.process();
    let request = CreateDevice { reserved: 0 };
    raw::expect_status(scene.transport(), process, &request, Status::INVALID_HANDLE)?;
    let mut survivor = survivor;
    survivor.commands.nop()?;
    Ok(survivor.run()?)
}

fn abnormal_fence(scene: &Scene) -> Result<(), Mismatch> {
    let (dying, mut survivor) = (scene.bench()?, scene.bench()?);
    let fence = dying.device.fence(0).shared().create()?;
    let opened = survivor.device.open_fence(fence.share()?)?;
    survivor.commands.wait_fence(&opened, 5)?;
    let value = survivor.queue.submit(&mut survivor.commands)?;
    std::thread::scope(|threads| {
        let waiter = threads.spawn(|| opened.wait(5, TIMEOUT));
        dying.process.terminate_abnormally()?;
        waiter.join().map_err(|_| Mismatch::Seen("the waiter panicked".into()))??;
        Ok::<_, Mismatch>(())
    })?;
    survivor.queue.progress_fence().poll(value, TIMEOUT)?;
    // "Unblocked immediately without actually queuing a wait."
    Ok(opened.wait(6, TIMEOUT)?)
}

fn twice(scene: &Scene) -> Result<(), Mismatch> {
    let bench = scene.bench()?;
    let process = raw::Process::begin(scene.transport())?;
    let bad = DestroyProcess { flags: TERMINATED_ABNORMALLY << 1 };
    process.expect_status(&bad, Status::INVALID_PARAMETER)?;
    process.call(&DestroyProcess { flags: TERMINATED_ABNORMALLY })?;
    process.expect_status(&DestroyProcess { flags: 0 }, Status::INVALID_HANDLE)?;
    let queue = bench.context.create_kernel_mode_queue()?;
    let request = DestroyHwQueue { hw_queue: queue.handle() };
    raw::call(scene.transport(), bench.process.process(), &request)?;
    let id = bench.process.process();
    raw::expect_status(scene.transport(), id, &request, Status::INVALID_HANDLE)
}
