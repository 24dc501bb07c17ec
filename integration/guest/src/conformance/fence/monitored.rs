// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fence.monitored` and `fence.progress`: fences for which the host waits in place of a queue, and queues
//! with such a progress fence.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::desk::Desk;
use crate::conformance::raw;
use crate::conformance::scene::{Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error, Fence, KernelModeQueue};
use bellhop_protocol::control::Request;
use bellhop_protocol::control::fence::{FenceValue, NOT_PUBLISHED, SignalFromGpu, WaitFromGpu};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, HwQueueFlags};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::thread;
use std::time::Duration;
use zerocopy::IntoBytes;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("fence.monitored.cpu", source::FENCE_EXISTING, cpu).shows(
        "CPUs wait for a monitored fence and signal it, and each signal of the GPU reaches the \
         host",
    ),
    Behaviour::new("fence.monitored.held", source::FENCE_EXISTING, held).shows(
        "submissions behind a wait for a monitored fence are held, in order, until a CPU signals \
         it",
    ),
    Behaviour::new("fence.monitored.signal", source::FENCE_EXISTING, signal).shows(
        "a signal by request takes effect after all earlier submissions, and before later ones",
    ),
    Behaviour::new("fence.monitored.queues", source::FENCE_EXISTING, queues)
        .shows("queues for kernel-mode submission take turns by monitored fences"),
    Behaviour::new("fence.monitored.native", source::FENCE_EXISTING, native).shows(
        "a queue for kernel-mode submission waits by request for native fences that packets of \
         others signal",
    ),
    Behaviour::new("fence.monitored.models", source::FENCE_EXISTING, models).shows(
        "contexts of each model of kernel-mode submission wait for a monitored fence and signal \
         it",
    ),
    Behaviour::new("fence.monitored.no-gpu-wait", source::FENCE_EXISTING, no_gpu_wait).shows(
        "a packet that waits for a monitored fence loses its queue, and user-mode queues wait \
         only by packets",
    ),
    Behaviour::new("fence.monitored.deadlock", source::UM_TERMINATION, deadlock).shows(
        "queues that wait for each other hold up no other queue, and destroying them ends the \
         deadlock",
    ),
    Behaviour::new("fence.progress.kinds", source::FENCE_PROGRESS, progress_kinds).shows(
        "a progress fence is native if the request asks for that, and a queue for user-mode \
         submission must ask",
    ),
    Behaviour::new("fence.progress.monitored", source::FENCE_PROGRESS, progress_monitored).shows(
        "CPUs, and other queues by request, wait for a progress fence that is a monitored fence",
    ),
];

/// How long an event must stay away before it counts as not happening.
const WHILE: Duration = Duration::from_millis(20);

/// A command buffer that stores a word. It must not change while the GPU may execute it.
fn store(desk: &Desk, offset: u64, value: u64) -> Result<CommandBuffer, Mismatch> {
    let mut commands = CommandBuffer::new(&desk.device, 256)?;
    commands.write_data(desk.va(offset), &value.to_le_bytes())?;
    Ok(commands)
}

/// A queue for kernel-mode submission.
fn queue(desk: &Desk) -> Result<KernelModeQueue, Mismatch> {
    Ok(desk.device.create_context(0)?.create_kernel_mode_queue()?)
}

/// Asserts that a queue has not reached this value, and does not reach it by itself.
fn expect_held(fence: &Fence, value: u64) -> Result<(), Mismatch> {
    match fence.wait(value, WHILE) {
        Err(Error::Timeout { .. }) => Ok(()),
        ended => Err(Mismatch::Seen(format!("what was held is done: {ended:?}"))),
    }
}

fn cpu(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let fence = desk.device.fence(5).monitored().create()?;
    fence.wait(5, TIMEOUT)?;
    thread::scope(|threads| {
        let waiter = threads.spawn(|| fence.wait(7, TIMEOUT));
        fence.signal(6)?;
        fence.signal(7)?;
        waiter.join().map_err(|_| Mismatch::Seen("the waiter panicked".into()))??;
        Ok::<_, Mismatch>(())
    })?;
    // Each signal of the GPU interrupts, whether a CPU waits or not.
    let mut queue = queue(&desk)?;
    let interrupts = || desk.process.statistics().map(|statistics| statistics.interrupts);
    let before = interrupts()?;
    for value in 8..12 {
        let mut commands = CommandBuffer::new(&desk.device, 256)?;
        commands.signal_fence(&fence, value)?;
        let done = queue.submit(&mut commands)?;
        queue.progress_fence().wait(done, TIMEOUT)?;
        fence.wait(value, TIMEOUT)?;
    }
    let raised = interrupts()? - before;
    require!(raised >= 4, "{raised} interrupts for 4 signals");
    let published = fence.mapping().current_value_offset != NOT_PUBLISHED;
    require!(published, "CurrentValue is nowhere where a CPU reads it");
    match fence.current_value() {
        // A driver without shared memory sees the value only by waiting.
        Ok(11) | Err(Error::NotAvailable(_)) => Ok(()),
        seen => Err(Mismatch::Seen(format!("signaled 11, it reads {seen:?}"))),
    }
}

fn held(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let fence = desk.device.fence(0).monitored().create()?;
    let mut queue = queue(&desk)?;
    let mut buffers = [1, 2, 3].map(|value| store(&desk, 0, value));
    for (buffer, value) in buffers.iter_mut().zip(1..) {
        let commands = buffer.as_mut().map_err(|_| Mismatch::Seen("no command buffer".into()))?;
        queue.wait_for_fences(&[(&fence, value)])?;
        queue.submit(commands)?;
    }
    for value in 1..=3 {
        expect_held(queue.progress_fence(), value)?;
        desk.expect_word(0, value - 1)?;
        fence.signal(value)?;
        queue.progress_fence().wait(value, TIMEOUT)?;
        desk.expect_word(0, value)?;
    }
    Ok(())
}

fn signal(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let [gate, done] =
        [desk.device.fence(0).monitored().create()?, desk.device.fence(0).monitored().create()?];
    let mut queue = queue(&desk)?;
    let (mut first, mut second) = (store(&desk, 0, 1)?, store(&desk, 0, 2)?);
    queue.signal_fences(&[(&done, 1)])?;
    done.wait(1, TIMEOUT)?;
    queue.wait_for_fences(&[(&gate, 1)])?;
    queue.submit(&mut first)?;
    queue.signal_fences(&[(&done, 2)])?;
    queue.wait_for_fences(&[(&gate, 2)])?;
    let last = queue.submit(&mut second)?;
    queue.signal_fences(&[(&done, 3)])?;
    expect_held(&done, 2)?;
    gate.signal(1)?;
    done.wait(2, TIMEOUT)?;
    desk.expect_word(0, 1)?;
    expect_held(queue.progress_fence(), last)?;
    gate.signal(2)?;
    done.wait(3, TIMEOUT)?;
    desk.expect_word(0, 2)
}

fn queues(scene: &Scene) -> Result<(), Mismatch> {
    const ROUNDS: u64 = 20;
    let desk = Desk::new(scene)?;
    let [there, back] =
        [desk.device.fence(0).monitored().create()?, desk.device.fence(0).monitored().create()?];
    let (mut one, mut two) = (queue(&desk)?, queue(&desk)?);
    let mut buffers = Vec::new();
    for round in 1..=ROUNDS {
        let (mut mine, mut its) = (store(&desk, 0, 2 * round - 1)?, store(&desk, 0, 2 * round)?);
        two.wait_for_fences(&[(&there, round)])?;
        two.submit(&mut its)?;
        two.signal_fences(&[(&back, round)])?;
        one.submit(&mut mine)?;
        one.signal_fences(&[(&there, round)])?;
        one.wait_for_fences(&[(&back, round)])?;
        buffers.extend([mine, its]);
    }
    back.wait(ROUNDS, TIMEOUT)?;
    desk.expect_word(0, 2 * ROUNDS)
}

fn native(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let back = bench.device.create_fence(0)?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    for round in 1..=10u64 {
        let mut commands = CommandBuffer::new(&bench.device, 64)?;
        commands.write_data(bench.va(0), &round.to_le_bytes())?;
        queue.wait_for_fences(&[(&fence, round)])?;
        let submitted = queue.submit(&mut commands)?;
        queue.signal_fences(&[(&back, round)])?;
        // A user-mode queue signals by a packet, and waits for the answer by a packet.
        bench.commands.signal_fence(&fence, round)?.wait_fence(&back, round)?;
        bench.run()?;
        queue.progress_fence().wait(submitted, TIMEOUT)?;
        let word = bench.word(0)?;
        require!(word == round, "round {round} stored {word}");
    }
    Ok(())
}

fn models(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let [gate, done] =
        [desk.device.fence(0).monitored().create()?, desk.device.fence(0).monitored().create()?];
    let mut commands = store(&desk, 0, 7)?;
    let mut context = desk.device.create_basic_plus_plus_context(0)?;
    context.wait_for_fences(&[(&gate, 1)])?;
    let value = context.submit(&mut commands, &[&desk.memory])?;
    context.signal_fences(&[(&done, 1)])?;
    expect_held(context.progress_fence(), value)?;
    gate.signal(1)?;
    done.wait(1, TIMEOUT)?;
    desk.expect_word(0, 7)?;
    // Where the driver reaches no local memory, this model is not offered.
    let mut context = desk.device.create_virtual_context(0)?;
    context.wait_for_fences(&[(&gate, 2)])?;
    context.commands().write_data(desk.va(0), &8u64.to_le_bytes())?;
    let value = context.submit()?;
    context.signal_fences(&[(&done, 2)])?;
    expect_held(context.progress_fence(), value)?;
    gate.signal(2)?;
    done.wait(2, TIMEOUT)?;
    desk.expect_word(0, 8)
}

fn no_gpu_wait(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.fence(3).monitored().create()?;
    let list = [FenceValue { fence: fence.handle(), value: 9 }];
    let (process, queue) = (bench.process.process(), bench.queue.handle());
    let (count, reserved) = (1, 0);
    let refused = |ended: (Status, u64)| ended.0 == Status::NOT_SUPPORTED;
    let request = WaitFromGpu { queue, count, reserved };
    let ended = raw::status_with_list(scene.transport(), process, &request, list.as_bytes())?;
    require!(refused(ended), "{} on a user-mode queue ended with {}", WaitFromGpu::CODE, ended.0);
    let request = SignalFromGpu { queue, count, reserved };
    let ended = raw::status_with_list(scene.transport(), process, &request, list.as_bytes())?;
    require!(refused(ended), "{} on a user-mode queue ended with {}", SignalFromGpu::CODE, ended.0);
    // Its packets may signal the fence; they cannot wait for it, even for a value that it has.
    bench.commands.signal_fence(&fence, 4)?;
    bench.run()?;
    fence.wait(4, TIMEOUT)?;
    bench.commands.wait_fence(&fence, 1)?;
    bench.expect_fault(FaultReason::FENCE_NOT_NATIVE, u64::from(fence.slot()))?;
    Ok(())
}

fn deadlock(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let fences =
        [desk.device.fence(0).monitored().create()?, desk.device.fence(0).monitored().create()?];
    let mut stuck = [queue(&desk)?, queue(&desk)?];
    let mut buffers = [store(&desk, 0, 1)?, store(&desk, 0, 2)?];
    for ((index, queue), commands) in stuck.iter_mut().enumerate().zip(&mut buffers) {
        let (own, other) = match (index, &fences) {
            (0, [own, other]) | (_, [other, own]) => (own, other),
        };
        queue.wait_for_fences(&[(other, 1)])?;
        queue.submit(commands)?;
        queue.signal_fences(&[(own, 1)])?;
    }
    let mut other = queue(&desk)?;
    for value in 1..=10 {
        let mut commands = store(&desk, 8, value)?;
        let done = other.submit(&mut commands)?;
        other.progress_fence().wait(done, TIMEOUT)?;
        desk.expect_word(8, value)?;
    }
    // A queue holds its work for a while at most: destroying it waits that long, and then drops the work.
    drop(stuck);
    drop(buffers);
    desk.expect_word(0, 0)?;
    let mut commands = store(&desk, 8, 11)?;
    let done = other.submit(&mut commands)?;
    other.progress_fence().wait(done, TIMEOUT)?;
    desk.expect_word(8, 11)
}

fn progress_kinds(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let context = desk.device.create_context(0)?;
    let process = desk.process.process();
    let create = |flags: HwQueueFlags| CreateHwQueue {
        context: context.handle(),
        flags: flags.bits(),
        reserved: 0,
    };
    let native = HwQueueFlags::NATIVE_PROGRESS_FENCE;
    let user_mode = HwQueueFlags::USER_MODE_SUBMISSION;
    let monitored = raw::call(scene.transport(), process, &create(HwQueueFlags::empty()))?;
    let mapping = monitored.progress_fence.mapping;
    require!(mapping.monitored_value_gpu_va == 0, "a monitored fence has a MonitoredValue");
    if !scene.adapter().features().contains(Features::NATIVE_FENCES) {
        for flags in [native, native | user_mode] {
            raw::expect_status(scene.transport(), process, &create(flags), Status::NOT_SUPPORTED)?;
        }
        return Ok(());
    }
    let queue = raw::call(scene.transport(), process, &create(native))?;
    let mapping = queue.progress_fence.mapping;
    require!(mapping.monitored_value_gpu_va != 0, "a native fence has no MonitoredValue");
    if !scene.adapter().features().contains(Features::USER_MODE_SUBMISSION) {
        return Ok(());
    }
    let status = Status::INVALID_PARAMETER;
    raw::expect_status(scene.transport(), process, &create(user_mode), status)?;
    raw::call(scene.transport(), process, &create(user_mode | native)).map(|_| ())
}

fn progress_monitored(scene: &Scene) -> Result<(), Mismatch> {
    let desk = Desk::new(scene)?;
    let context = desk.device.create_context(0)?;
    let mut first = context.kernel_mode_queue().monitored_progress().create()?;
    let mut second = queue(&desk)?;
    let (mut one, mut two) = (store(&desk, 0, 1)?, store(&desk, 0, 2)?);
    let gate = desk.device.fence(0).monitored().create()?;
    first.wait_for_fences(&[(&gate, 1)])?;
    let submitted = first.submit(&mut one)?;
    second.wait_for_fences(&[(first.progress_fence(), submitted)])?;
    let last = second.submit(&mut two)?;
    expect_held(second.progress_fence(), last)?;
    gate.signal(1)?;
    first.progress_fence().wait(submitted, TIMEOUT)?;
    second.progress_fence().wait(last, TIMEOUT)?;
    desk.expect_word(0, 2)
}
