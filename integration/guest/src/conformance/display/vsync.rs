// SPDX-License-Identifier: MIT OR Apache-2.0

//! VSYNCs and the scan line.

use super::lab::Lab;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::display::{Display, ScanLine, Topology};
use std::time::{Duration, Instant};

pub(super) fn only_while_wanted(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let pictures = lab.pictures(lab.show()?, 2)?;
    lab.pass_vsyncs(3)?;
    // What was on its way is here once a later flip has ended.
    lab.flip_to(&pictures[0])?;
    lab.display.skip_vsyncs(0)?;
    let from = lab.flip_to(&pictures[1])?;
    let to = lab.flip_to(&pictures[0])?;
    let vsyncs = to.count - from.count;
    let unwanted = lab.display.wait_for_vsync(0, Duration::ZERO);
    require!(unwanted.is_err(), "{unwanted:?} came, which nobody wants");
    let shown = lab.pass_vsyncs(2)?;
    require!(shown == to.flip, "flip {shown} is shown after {vsyncs} VSYNCs");
    Ok(())
}

pub(super) fn rate(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let child = lab.monitors(1)?.first().copied().unwrap_or(0);
    let clock = lab.process.gpu_clock()?;
    let mut shown = Vec::new();
    let mut modes =
        lab.display.target_modes(&Topology::new().path(lab.small_path(0, child)?), 0)?;
    modes.sort_by_key(|mode| {
        1_000_000 * u64::from(mode.refresh_numerator) / u64::from(mode.refresh_denominator)
    });
    // The slowest and the fastest.
    for mode in modes.first().into_iter().chain(modes.last()) {
        let path = bellhop_guest_umd::display::Path::new(0, child).target_mode(*mode);
        lab.commit(&Topology::new().path(path))?;
        lab.display.set_vsync_events(0, true)?;
        lab.display.skip_vsyncs(0)?;
        let first = lab.display.wait_for_vsync(0, TIMEOUT)?;
        let mut last = first;
        for _ in 0..40 {
            let next = lab.display.wait_for_vsync(0, TIMEOUT)?;
            require!(next.count > last.count, "VSYNC {} after {}", next.count, last.count);
            last = next;
        }
        let elapsed = clock.between(first.time, last.time).as_nanos();
        let (frames, seconds) = (mode.refresh_numerator, mode.refresh_denominator);
        let expected = elapsed * u128::from(frames) / (u128::from(seconds) * 1_000_000_000);
        let counted = u128::from(last.count - first.count);
        require!(
            counted.abs_diff(expected) <= 1,
            "{counted} VSYNCs in the time of {expected}, at {frames}/{seconds} Hz"
        );
        shown.push(format!("{:.2} Hz", f64::from(frames) / f64::from(seconds)));
    }
    scene.show(shown.join(", "));
    Ok(())
}

pub(super) fn scan_line(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let uncommitted = lab.display.scan_line(0);
    require!(uncommitted.is_err(), "a source that is not committed scans {uncommitted:?}");
    lab.show()?;
    let child = lab.monitors(1)?.first().copied().unwrap_or(0);
    let path = lab.small_path(0, child)?;
    let mode = path.get().target_mode;
    let read = |display: &Display| -> Result<ScanLine, Mismatch> {
        let ScanLine { line, in_vertical_blank } = display.scan_line(0)?;
        require!(line < mode.total_height, "line {line} of {}", mode.total_height);
        require!(in_vertical_blank <= 1, "a flag of {in_vertical_blank}");
        Ok(ScanLine { line, in_vertical_blank })
    };
    let first = read(&lab.display)?;
    let start = Instant::now();
    // The lines of at least one frame are seen to move, and both kinds of them.
    let (mut blank, mut visible, mut moved) = (false, false, false);
    while !(blank && visible && moved) {
        let now = read(&lab.display)?;
        blank |= now.in_vertical_blank == 1;
        visible |= now.in_vertical_blank == 0;
        moved |= now.line != first.line;
        require!(
            start.elapsed() < TIMEOUT,
            "blank {blank}, visible {visible}, moved {moved} in {TIMEOUT:?}"
        );
    }
    Ok(())
}
