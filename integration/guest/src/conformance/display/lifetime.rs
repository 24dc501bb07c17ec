// SPDX-License-Identifier: MIT OR Apache-2.0

//! What stays on a screen, and what goes: blanking, destroyed primaries, ended processes, power.

use super::lab::{Lab, pixels};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::display::{Flip, FlipOutcome, PointerShape};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::flip::{SetPointerPosition, SetPointerShape};
use bellhop_protocol::control::power::DevicePowerState;
use std::time::Duration;

const SHOWN: FlipOutcome = FlipOutcome::SHOWN;

pub(super) fn visibility(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let pictures = lab.pictures(lab.show()?, 2)?;
    lab.flip_to(&pictures[0])?;
    lab.display.set_vsync_events(0, true)?;
    lab.display.wait_for_vsync(0, TIMEOUT)?;
    lab.display.set_visible(0, false)?;
    lab.display.skip_vsyncs(0)?;
    // A blanked source has no VSYNC, so that flips of it happen at once. They go on for longer than some VSYNCs take.
    let child = lab.monitors(1)?.first().copied().unwrap_or(0);
    let mode = lab.small_path(0, child)?.get().target_mode;
    let (frames, seconds) = (mode.refresh_numerator.max(1), mode.refresh_denominator);
    let (clock, some) = (lab.process.gpu_clock()?, 3 * Duration::from_secs(1) * seconds / frames);
    let first = lab.flip_to(&pictures[0])?;
    let last = loop {
        let last = lab.flip_to(&pictures[1])?;
        if clock.between(first.time, last.time) > some {
            break last.flip;
        }
        lab.flip_to(&pictures[0])?;
    };
    let blanked = lab.display.wait_for_vsync(0, Duration::ZERO);
    require!(blanked.is_err(), "a blanked source has {blanked:?}");
    lab.display.set_visible(0, true)?;
    let vsync = lab.display.wait_for_vsync(0, TIMEOUT)?;
    require!(vsync.flip == last, "flip {} is seen, not the last one, {last}", vsync.flip);
    lab.expect_picture(&pictures[1], 1)
}

pub(super) fn primary_destroyed(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let surface = lab.show()?;
    let (shown, kept) = (lab.picture(surface, 0)?, lab.picture(surface, 1)?);
    let waiting = lab.picture(surface, 2)?;
    lab.flip_to(&shown)?;
    let fence = lab.device.create_fence(0)?;
    let fences = [(&fence, 1)];
    let held = lab.display.flip(0, Flip::to(&waiting).after(&fences))?;
    // A program may free what waits and what is shown; the memory is its own again.
    drop(waiting);
    lab.expect(held, FlipOutcome::LOST)?;
    drop(shown);
    let seen = lab.pass_vsyncs(2)?;
    require!(seen == 0, "flip {seen} is shown, whose primary is destroyed");
    lab.flip_to(&kept)?;
    lab.expect_picture(&kept, 1)?;
    // There is room for the next one.
    lab.picture(surface, 3).map(|_| ())
}

pub(super) fn process_ended(scene: &Scene) -> Result<(), Mismatch> {
    let next = Lab::new(scene)?;
    for is_abnormal in [false, true] {
        let first = Lab::new(scene)?;
        let surface = first.show()?;
        let picture = first.picture(surface, 0)?;
        first.flip_to(&picture)?;
        let fence = first.device.create_fence(0)?;
        first.display.flip(0, Flip::to(&picture).after(&[(&fence, 1)]))?;
        if is_abnormal {
            first.process.terminate_abnormally()?;
        }
        drop((picture, fence, first));
        // The source is free, shows nothing, and works.
        let surface = next.show()?;
        let seen = next.pass_vsyncs(2)?;
        require!(seen == 0, "flip {seen} of a process that ended is shown");
        next.flip_to(&next.picture(surface, 1)?)?;
        next.display.commit(&bellhop_guest_umd::display::Topology::new())?;
    }
    Ok(())
}

pub(super) fn power(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let surface = lab.show()?;
    let pictures = lab.pictures(surface, 2)?;
    let before = lab.flip_to(&pictures[0])?;
    lab.display.set_vsync_events(0, true)?;
    for turn in 0..3u64 {
        lab.process.set_device_power(DevicePowerState::D3)?;
        lab.process.set_device_power(DevicePowerState::D0)?;
        lab.display.skip_vsyncs(0)?;
        let vsync = lab.display.wait_for_vsync(0, TIMEOUT)?;
        require!(vsync.flip == before.flip, "after D3 {turn}, flip {} is shown", vsync.flip);
        require!(vsync.count > before.count, "VSYNC {} after {}", vsync.count, before.count);
        lab.expect_picture(&pictures[0], 0)?;
    }
    // A flip that waits goes on waiting, and a request for another wakes the device.
    let fence = lab.device.create_fence(0)?;
    let fences = [(&fence, 1)];
    let held = lab.display.flip(0, Flip::to(&pictures[1]).after(&fences))?;
    lab.process.set_device_power(DevicePowerState::D3)?;
    fence.signal(1)?;
    let after = lab.expect(held, SHOWN)?;
    require!(after.count > before.count, "VSYNC {} after {}", after.count, before.count);
    require!(pictures[1].pixels()? == pixels(surface, 1)?, "D3 changed a picture");
    lab.expect_picture(&pictures[1], 1)
}

pub(super) fn pointer(scene: &Scene) -> Result<(), Mismatch> {
    let (lab, other) = (Lab::new(scene)?, Lab::new(scene)?);
    let shape = |width, height, hot_spot, pixels| PointerShape { width, height, hot_spot, pixels };
    let pixels = vec![0x80FF_0000; 64 * 64];
    let early = lab.display.set_pointer(0, &lab.device, &shape(1, 1, (0, 0), &pixels[..1]));
    require!(early.is_err(), "a source that is not committed has a pointer");
    lab.show()?;
    for (width, height, hot) in [(1, 1, (0, 0)), (64, 64, (63, 63)), (3, 64, (0, 5))] {
        let pixels = &pixels[..(width * height) as usize];
        lab.display.set_pointer(0, &lab.device, &shape(width, height, hot, pixels))?;
        for at in [(0, 0), (-100, 7), (i32::MAX, i32::MIN)] {
            lab.display.move_pointer(0, at, true)?;
        }
    }
    lab.display.move_pointer(0, (5, 5), false)?;
    let theirs = other.display.move_pointer(0, (1, 1), true);
    require!(theirs.is_err(), "a process moves another's pointer");
    let memory = lab.device.create_allocation(AllocationKind::LOCAL, 4 * 4096)?;
    let right = SetPointerShape {
        source: 0,
        width: 32,
        height: 32,
        pitch: 128,
        hot_x: 0,
        hot_y: 0,
        allocation: memory.handle(),
        offset: 0,
    };
    let wrong = [
        SetPointerShape { width: 65, pitch: 260, ..right },
        SetPointerShape { height: 65, ..right },
        SetPointerShape { width: 0, ..right },
        SetPointerShape { pitch: 124, ..right },
        SetPointerShape { pitch: 130, ..right },
        SetPointerShape { offset: 2, ..right },
        SetPointerShape { offset: 4 * 4096 - 64, ..right },
        SetPointerShape { offset: u64::MAX - 3, ..right },
        SetPointerShape { allocation: Handle(u64::MAX), ..right },
        SetPointerShape { source: 99, ..right },
    ];
    let process = lab.process.process();
    for request in wrong {
        let (status, _) = raw::status(scene.transport(), process, &request)?;
        require!(!status.is_success(), "{request:?} was accepted");
    }
    let flags = SetPointerPosition { source: 0, x: 0, y: 0, flags: 2 };
    let (status, _) = raw::status(scene.transport(), process, &flags)?;
    require!(!status.is_success(), "{flags:?} was accepted");
    raw::call(scene.transport(), process, &right)?;
    Ok(lab.display.remove_pointer(0)?)
}
