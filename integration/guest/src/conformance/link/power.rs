// SPDX-License-Identifier: MIT OR Apache-2.0

//! PowerXpress: a GPU has power while something needs it.

use super::displays::Screens;
use super::pair::{Pair, nodes};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::display::{Flip, FlipOutcome};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::power::{DevicePowerState, GPU_POWER_WHEN_NEEDED, GpuPowerInfo};
use bellhop_protocol::status::Status;
use std::time::{Duration, Instant};

const SIZE: u64 = 40 * PAGE_SIZE;
const SLAVE: u8 = 1;
/// No event tells of a GPU's power: it is asked for as often.
const PAUSE: Duration = Duration::from_millis(2);

/// The first slave's power, if that depends on what needs it.
fn managed(scene: &Scene) -> Result<GpuPowerInfo, Mismatch> {
    nodes(scene)?;
    let info = scene.adapter().gpu_power(SLAVE)?;
    if info.flags & GPU_POWER_WHEN_NEEDED == 0 {
        return Err(Mismatch::NotOffered("slaves have power when the master has".to_owned()));
    }
    Ok(info)
}

fn expect_on(adapter: &Adapter, why: &str) -> Result<GpuPowerInfo, Mismatch> {
    let info = adapter.gpu_power(SLAVE)?;
    require!(info.state == DevicePowerState::D0, "{why}, and the slave is in {}", info.state);
    Ok(info)
}

/// Waits until the slave is in D3: its engines may have something to forget.
fn await_off(adapter: &Adapter) -> Result<GpuPowerInfo, Mismatch> {
    let begin = Instant::now();
    loop {
        let info = adapter.gpu_power(SLAVE)?;
        if info.state == DevicePowerState::D3 {
            return Ok(info);
        }
        require!(begin.elapsed() < TIMEOUT, "nothing needs the slave, which stays in D0: {info:?}");
        std::thread::sleep(PAUSE);
    }
}

pub(super) fn told(scene: &Scene) -> Result<(), Mismatch> {
    managed(scene)?;
    let adapter = scene.adapter();
    let before = await_off(adapter)?;
    let master = adapter.gpu_power(0)?;
    require!(
        (master.state, master.flags) == (DevicePowerState::D0, 0),
        "the master's power is {master:?}"
    );
    require!(before.d3_entries > before.d0_entries, "it is in D3, and {before:?}");
    std::thread::sleep(PAUSE);
    let after = adapter.gpu_power(SLAVE)?;
    require!(after.d0_time == before.d0_time, "in D3 the time in D0 grew: {before:?}, {after:?}");
    require!(after.state_time > before.state_time, "time stands still: {before:?}, {after:?}");
    let gpus = nodes(scene)?.iter().map(|node| node.gpu()).max().unwrap_or(0);
    match adapter.gpu_power(gpus + 1) {
        Err(bellhop_guest_umd::Error::Refused { status: Status::INVALID_PARAMETER, .. }) => Ok(()),
        other => Err(Mismatch::Seen(format!("the power of GPU {}: {other:?}", gpus + 1))),
    }
}

pub(super) fn work(scene: &Scene) -> Result<(), Mismatch> {
    managed(scene)?;
    let adapter = scene.adapter();
    for engine_type in [EngineType::THREE_D, EngineType::COPY] {
        let before = await_off(adapter)?;
        let mut pair = Pair::new(scene, engine_type)?;
        expect_on(adapter, "a queue is on the slave")?;
        for turn in 0..4u64 {
            pair.slave.write(0, &[0; 8])?;
            let at = pair.slave.va(0);
            pair.slave.commands.fill(at, 8, turn as u32)?;
            pair.slave.run()?;
            let word = pair.slave.word(0)?;
            require!(word == turn << 32 | turn, "the slave stored {word:#x}");
        }
        drop(pair);
        let after = await_off(adapter)?;
        require!(after.d0_entries == before.d0_entries + 1, "{before:?} became {after:?}");
        require!(after.d0_time > before.d0_time, "its time in D0 did not grow: {after:?}");
    }
    Ok(())
}

pub(super) fn memory(scene: &Scene) -> Result<(), Mismatch> {
    managed(scene)?;
    let adapter = scene.adapter();
    await_off(adapter)?;
    let mut bench = scene.bench_on(EngineType::COPY)?;
    let supported = SegmentSet::PRIVATE | SegmentSet::SYSTEM;
    let builder = bench.device.allocation(SIZE).segments(supported).on_gpu(SLAVE);
    let allocation = builder.preferred(SegmentSet::PRIVATE).create()?;
    let adapter = scene.adapter();
    require!(
        adapter.gpu_power(SLAVE)?.state == DevicePowerState::D3,
        "an allocation that is not resident needs the slave"
    );
    allocation.make_resident()?;
    expect_on(adapter, "an allocation is resident in its memory")?;
    let map = allocation.map(Protection::WRITE)?;
    bench.commands.fill(map.gpu_va(), SIZE, 0x0102_0304)?;
    bench.run()?;
    expect_on(adapter, "its memory has been written by the master")?;
    for turn in 0..2 {
        // What no process wants is evicted, and then the GPU has nothing to keep.
        allocation.evict()?;
        await_off(adapter)?;
        allocation.make_resident()?;
        expect_on(adapter, "the allocation is back in its memory")?;
        let used = bench.device.video_memory_info_on(SLAVE)?.usage;
        require!(used == SIZE, "{used} bytes are in the slave's memory");
        bench.write(0, &[0; 8])?;
        bench.commands.copy(map.gpu_va() + SIZE - 8, bench.va(0), 8)?;
        bench.run()?;
        let word = bench.word(0)?;
        require!(word == 0x0102_0304_0102_0304, "after D3 {turn}, it holds {word:#x}");
    }
    drop(map);
    drop(allocation);
    await_off(adapter).map(drop)
}

pub(super) fn display(scene: &Scene) -> Result<(), Mismatch> {
    managed(scene)?;
    let screens = Screens::new(scene)?;
    let (adapter, [_, source]) = (scene.adapter(), screens.sources);
    await_off(adapter)?;
    let surfaces = screens.show()?;
    expect_on(adapter, "its monitor is lit")?;
    let pictures = screens.lab.pictures(surfaces[1], 2)?;
    let before = screens.lab.flip_on(source, &pictures[0])?;
    screens.lab.display.set_visible(source, false)?;
    await_off(adapter)?;
    // A flip of a blanked source wakes the GPU, and is shown when it is not blanked any more.
    let flip = screens.lab.display.flip(source, Flip::to(&pictures[1]))?;
    screens.lab.expect_on(source, flip, FlipOutcome::SHOWN)?;
    await_off(adapter)?;
    screens.lab.display.set_visible(source, true)?;
    expect_on(adapter, "its monitor is lit again")?;
    let seen = screens.lab.pass_vsyncs_of(source, 2)?;
    require!(seen == flip, "flip {seen} is seen, not {flip}, which followed {}", before.flip);
    // Its picture goes, and with it the need.
    drop((pictures, screens));
    await_off(adapter).map(drop)
}

pub(super) fn device(scene: &Scene) -> Result<(), Mismatch> {
    managed(scene)?;
    let adapter = scene.adapter();
    await_off(adapter)?;
    let process = adapter.open_process()?;
    for is_needed in [false, true] {
        let mut pair = is_needed.then(|| Pair::new(scene, EngineType::THREE_D)).transpose()?;
        let before = adapter.gpu_power(SLAVE)?;
        process.set_device_power(DevicePowerState::D3)?;
        process.set_device_power(DevicePowerState::D0)?;
        let after = adapter.gpu_power(SLAVE)?;
        require!(after.state == before.state, "after the device's D3, {before:?} is {after:?}");
        let entries = after.d0_entries - before.d0_entries;
        require!(entries == u64::from(is_needed), "it went to D0 {entries} times");
        if let Some(pair) = &mut pair {
            pair.slave.write(0, &[0; 8])?;
            let at = pair.slave.va(0);
            pair.slave.commands.fill(at, 8, 9)?;
            pair.slave.run()?;
            let word = pair.slave.word(0)?;
            require!(word == 9 << 32 | 9, "after the device's D3 the slave stored {word:#x}");
        }
    }
    await_off(adapter).map(drop)
}
