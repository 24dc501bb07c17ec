// SPDX-License-Identifier: MIT OR Apache-2.0

//! `power.*`: F-states of engines and D-states of the device.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Error};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::Kernel;
use std::time::{Duration, Instant};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("power.query", source::UM_F_STATES, query)
        .shows("every engine reports its power state, and one that works is in F0"),
    Behaviour::new("power.engine.f1", source::UM_F_STATES, engine_f1).shows(
        "an engine that goes to F1 leaves its doorbells DISCONNECTED_RETRY, and the next \
         submission brings it back",
    ),
    Behaviour::new("power.engine.f1-idle", source::UM_F_STATES, engine_f1_idle)
        .shows("an idle engine goes to F1 by itself"),
    Behaviour::new("power.engine.f1-kernel-mode", source::UM_F_STATES, engine_f1_kernel_mode)
        .shows("a kernel-mode submission brings an engine back from F1"),
    Behaviour::new("power.engine.busy", source::UM_F_STATES, engine_busy)
        .shows("an engine that has work stays in F0 and finishes it, even if the work only waits"),
    Behaviour::new("power.engine.hung", source::UM_F_STATES, engine_hung)
        .shows("a packet that never ends loses its context, and contexts beside it continue"),
    Behaviour::new("power.device.d3", source::UM_D_STATES, device_d3).shows(
        "in D3 every doorbell reads DISCONNECTED_RETRY and the ring's memory is still there; what \
         is queued then executes after a connect has woken the device",
    ),
    Behaviour::new("power.device.d3-contents", source::UM_D_STATES, device_d3_contents)
        .shows("memory keeps its contents through D3, and so do GPU virtual addresses"),
    Behaviour::new("power.device.d3-suspended", source::UM_D_STATES, device_d3_suspended)
        .shows("a context that its owner suspended is still suspended after D3"),
    Behaviour::new("power.device.d3-in-flight", source::UM_D_STATES, device_d3_in_flight).shows(
        "work that was in progress when D3 was requested continues by itself, and none of it is \
         lost or done twice",
    ),
    Behaviour::new("power.device.d3-waiting", source::UM_D_STATES, device_d3_waiting).shows(
        "a queue that waits for a fence when D3 is requested continues once a CPU or another \
         queue signals the fence",
    ),
];

const RETRY: ConnectionStatus = ConnectionStatus::DISCONNECTED_RETRY;
const F0: EnginePowerState = EnginePowerState::F0;
const F1: EnginePowerState = EnginePowerState::F1;

/// A bench whose queue has executed something.
fn warm_bench(scene: &Scene) -> Result<Bench, Mismatch> {
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    bench.run()?;
    Ok(bench)
}

fn expect_status(bench: &Bench, expected: ConnectionStatus) -> Result<(), Mismatch> {
    let status = bench.queue.status();
    require!(status == expected, "the doorbell reads {status}");
    Ok(())
}

/// Asks for F1 and waits until the engine is there: it may have work to finish first.
fn take_power(bench: &Bench) -> Result<(), Mismatch> {
    let node = bench.context.node();
    let start = Instant::now();
    loop {
        bench.process.set_engine_power(node, F1)?;
        if bench.process.power(node)?.engine == F1 && bench.queue.status() == RETRY {
            return Ok(());
        }
        require!(start.elapsed() < TIMEOUT, "the engine stays in F0");
    }
}

fn query(scene: &Scene) -> Result<(), Mismatch> {
    let bench = warm_bench(scene)?;
    for node in 0..bench.process.nodes()?.len() as u32 {
        bench.process.power(node)?;
    }
    let power = bench.process.power(bench.context.node())?;
    require!(power.device == DevicePowerState::D0, "the device is in {}", power.device);
    require!(power.engine == F0, "the engine is in {}", power.engine);
    let past = bench.process.nodes()?.len() as u32;
    require!(bench.process.power(past).is_err(), "node {past} has a power state");
    Ok(())
}

fn engine_f1(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = warm_bench(scene)?;
    for round in 0..10 {
        take_power(&bench)?;
        let before = bench.queue.counters().connects;
        bench.commands.nop()?;
        bench.run()?;
        let connects = bench.queue.counters().connects - before;
        require!(connects > 0, "it was not connected again in round {round}");
        let engine = bench.process.power(bench.context.node())?.engine;
        require!(engine == F0, "the engine works in {engine}");
    }
    Ok(())
}

fn engine_f1_idle(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = warm_bench(scene)?;
    let power = bench.process.power(bench.context.node())?;
    // Where engines never ask for F1, the host finds idle ones when it checks for time-outs.
    let idle = Duration::from_millis(power.engine_idle_ms.into());
    let idle = if idle.is_zero() { TIMEOUT / 8 } else { idle };
    if idle > TIMEOUT / 4 {
        return Err(Mismatch::NotOffered("engines keep their power for longer than this".into()));
    }
    let start = Instant::now();
    while bench.queue.status() != RETRY {
        require!(start.elapsed() < TIMEOUT, "the doorbell stays connected");
        std::thread::sleep(idle / 20);
    }
    bench.commands.nop()?;
    Ok(bench.run()?)
}

fn engine_f1_kernel_mode(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = warm_bench(scene)?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    bench.commands.nop()?;
    for _ in 0..5 {
        take_power(&bench)?;
        let value = queue.submit(&mut bench.commands)?;
        queue.progress_fence().wait(value, TIMEOUT)?;
    }
    Ok(())
}

fn engine_busy(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = warm_bench(scene)?;
    let fence = bench.device.create_fence(0)?;
    bench.commands.wait_fence(&fence, 1)?;
    let value = bench.queue.submit(&mut bench.commands)?;
    let node = bench.context.node();
    bench.process.set_engine_power(node, F1)?;
    // Signaled from a node that keeps its power, so that only the wait keeps the other node's.
    let copy = bench.device.create_context(scene.node(EngineType::COPY)?)?;
    let mut signaler = copy.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    signaler.submit(commands.signal_fence(&fence, 1)?)?;
    Ok(bench.queue.progress_fence().poll(value, TIMEOUT)?)
}

fn engine_hung(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = warm_bench(scene)?;
    let mut innocent =
        bench.device.create_context(bench.context.node())?.create_user_mode_queue(4096)?;
    let mut sibling = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.nop()?;
    let value = sibling.submit(&mut commands)?;
    sibling.progress_fence().poll(value, TIMEOUT)?;
    // A packet that ends is not a hang.
    bench.write(0, &1u64.to_le_bytes())?;
    bench.commands.dispatch(Kernel::SPIN_UNTIL, bench.va(0), bench.va(8), 8, 1)?;
    bench.run()?;
    require!(bench.word(8)? == 1, "the kernel stored {}", bench.word(8)?);

    bench.commands.dispatch(Kernel::SPIN_UNTIL, bench.va(0), bench.va(8), 8, 2)?;
    let value = bench.queue.submit(&mut bench.commands)?;
    let error = loop {
        // Meanwhile, the engine gives others their turns.
        let beside = innocent.submit(&mut commands)?;
        innocent.progress_fence().poll(beside, TIMEOUT)?;
        match bench.queue.progress_fence().poll(value, Duration::from_millis(1)) {
            Err(Error::Timeout { .. }) => {}
            Err(error) => break error,
            Ok(()) => return Err(Mismatch::Seen("it ended".into())),
        }
    };
    let Error::QueueLost { fault: Some(fault), .. } = error else {
        return Err(Mismatch::Seen(format!("instead of a hang: {error}")));
    };
    require!(fault.reason == FaultReason::ENGINE_TIMEOUT, "{fault}");
    for status in [bench.queue.status(), sibling.status()] {
        require!(status == ConnectionStatus::DISCONNECTED_ABORT, "a doorbell reads {status}");
    }
    let beside = innocent.submit(&mut commands)?;
    Ok(innocent.progress_fence().poll(beside, TIMEOUT)?)
}

fn device_d3(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = warm_bench(scene)?;
    for round in 0..5u64 {
        bench.process.set_device_power(DevicePowerState::D3)?;
        let power = bench.process.power(bench.context.node())?;
        require!(power.device == DevicePowerState::D3, "the device is in {}", power.device);
        expect_status(&bench, RETRY)?;
        bench.commands.write_data(bench.va(0), &u64::to_le_bytes(round + 1))?;
        // The driver can write the ring in any state of the doorbell.
        let value = bench.queue.queue(&mut bench.commands)?;
        bench.queue.publish_unrung();
        require!(bench.word(0)? == round, "it executed without power");
        bench.queue.ring()?;
        bench.queue.progress_fence().poll(value, TIMEOUT)?;
        require!(bench.word(0)? == round + 1, "it wrote {}", bench.word(0)?);
        let power = bench.process.power(bench.context.node())?;
        require!(power.device == DevicePowerState::D0, "the device is in {}", power.device);
        bench.commands.reset();
    }
    Ok(())
}

fn device_d3_contents(scene: &Scene) -> Result<(), Mismatch> {
    use bellhop_protocol::control::allocation::AllocationKind;
    use bellhop_protocol::control::gpu_va::Protection;
    let mut bench = warm_bench(scene)?;
    let local = bench.device.create_allocation(AllocationKind::LOCAL, 8192)?;
    let local = local.map(Protection::WRITE)?;
    local.allocation().write(0, &[0xA5; 8192])?;
    bench.process.set_device_power(DevicePowerState::D3)?;
    bench.commands.copy(local.gpu_va(), bench.va(0), 8192)?;
    bench.run()?;
    require!(bench.read(0, 8192)? == [0xA5; 8192], "the copy differs");
    Ok(())
}

fn device_d3_suspended(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = warm_bench(scene)?;
    bench.context.suspend()?;
    bench.process.set_device_power(DevicePowerState::D3)?;
    bench.commands.nop()?;
    let value = bench.queue.submit(&mut bench.commands)?;
    let polled = bench.queue.progress_fence().poll(value, Duration::from_millis(30));
    require!(polled.is_err(), "a suspended context was executed");
    bench.context.resume()?;
    Ok(bench.queue.progress_fence().poll(value, TIMEOUT)?)
}

fn device_d3_in_flight(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = warm_bench(scene)?;
    for round in 0..5u64 {
        bench.write(0, &u64::to_le_bytes(round))?;
        let mut buffers = Vec::new();
        for number in 0..64u64 {
            let mut commands = CommandBuffer::new(&bench.device, 128)?;
            commands.fill(bench.va(64 << 10), 128 << 10, number as u32)?;
            // Each submission advances the number of the one before, so that another order or a loss shows.
            commands.copy(bench.va(8 * number), bench.va(8 * number + 8), 8)?;
            buffers.push(commands);
        }
        let mut last = 0;
        for commands in &mut buffers {
            last = bench.queue.submit(commands)?;
        }
        bench.process.set_device_power(DevicePowerState::D3)?;
        // The driver only polls the fence.
        bench.queue.progress_fence().poll(last, TIMEOUT)?;
        let arrived = bench.word(64 * 8)?;
        require!(arrived == round, "{arrived} arrived in round {round}");
    }
    Ok(())
}

fn device_d3_waiting(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = warm_bench(scene)?;
    // Fails here where the guest may not change power, before a queue waits in vain.
    bench.process.set_device_power(DevicePowerState::D0)?;
    let copy = bench.device.create_context(scene.node(EngineType::COPY)?)?;
    let mut signal = CommandBuffer::new(&bench.device, 64)?;
    let mut signaler = copy.create_user_mode_queue(4096)?;
    for by_cpu in [true, false] {
        let fence = bench.device.create_fence(0)?;
        bench.commands.wait_fence(&fence, 1)?;
        let value = bench.queue.submit(&mut bench.commands)?;
        bench.process.set_device_power(DevicePowerState::D3)?;
        if by_cpu {
            fence.signal(1)?;
        } else {
            signaler.submit(signal.signal_fence(&fence, 1)?)?;
        }
        bench.queue.progress_fence().poll(value, TIMEOUT)?;
        bench.commands.reset();
    }
    Ok(())
}
