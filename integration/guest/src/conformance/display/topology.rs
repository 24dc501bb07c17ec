// SPDX-License-Identifier: MIT OR Apache-2.0

//! Topologies: what is offered is accepted, and what is refused says why.

use super::lab::{Lab, refusal};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::Scene;
use bellhop_guest_umd::display::{
    Constraint, Flip, FlipOutcome, Path, PixelFormat, Rotation, Scaling, SourceMode, TargetMode,
    Topology,
};

/// Values of each part that are committed, spread over all that are offered.
const TRIED: usize = 6;

/// Some of the values, the first and the last among them.
fn some<T: Copy>(values: &[T]) -> impl Iterator<Item = T> {
    let step = values.len().div_ceil(TRIED - 1).max(1);
    values.iter().step_by(step).chain(values.last()).copied()
}

fn one(path: Path) -> Topology {
    Topology::new().path(path)
}

pub(super) fn enumerated(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let display = &lab.display;
    let mut commits = 0;
    let mut accept = |topology: &Topology| -> Result<(), Mismatch> {
        display.check(topology)?;
        let complete = display.complete(topology)?;
        display.check(&complete)?;
        display.commit(&complete)?;
        commits += 1;
        Ok(())
    };
    for child in lab.monitors(1)? {
        let open = one(Path::new(child, child));
        let modes = display.target_modes(&open, 0)?;
        require!(!modes.is_empty(), "connector {child} has no mode that works");
        let recommended = display.monitor_modes(child)?;
        for mode in modes.iter() {
            require!(recommended.contains(mode), "{mode:?} is none of the monitor's");
        }
        for mode in some(&modes) {
            let path = Path::new(child, child).target_mode(mode);
            accept(&one(path))?;
            for scaling in display.scalings(&one(path), 0)? {
                accept(&one(path.scaling(scaling)))?;
            }
            for rotation in display.rotations(&one(path), 0)? {
                accept(&one(path.rotation(rotation)))?;
            }
            let sources = display.source_modes(&one(path), 0)?;
            require!(!sources.is_empty(), "no source goes with {mode:?}");
            for SourceMode { width, height, format, .. } in some(&sources) {
                accept(&one(path.source_mode(width, height, format)))?;
            }
        }
    }
    display.commit(&Topology::new())?;
    scene.show(format!("{commits} commits"));
    Ok(())
}

pub(super) fn refused(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let display = &lab.display;
    let child = lab.monitors(1)?.first().copied().unwrap_or(0);
    let small = display.complete(&one(lab.small_path(0, child)?))?;
    let Some(good) = small.paths().first().copied() else {
        return Err(Mismatch::Seen("a topology lost its path".into()));
    };
    let (source, target) = (good.get().source_mode, good.get().target_mode);
    let elsewhere = |from: u32, to: u32| {
        Path::new(from, to)
            .source_mode(source.width, source.height, source.format)
            .target_mode(target)
            .scaling(good.get().scaling)
            .rotation(good.get().rotation)
    };
    let children = display.children().len() as u32;
    let sized = |width, height| good.source_mode(width, height, source.format);
    let other_mode = TargetMode { refresh_numerator: target.refresh_numerator + 7, ..target };
    let wrong = [
        (one(elsewhere(display.sources(), child)), Constraint::NO_SUCH_SOURCE, 0),
        (one(elsewhere(0, children)), Constraint::NO_SUCH_TARGET, 0),
        (one(good).path(good), Constraint::TARGET_TWICE, 1),
        (one(sized(0, 480)), Constraint::SOURCE_SIZE, 0),
        (one(sized(1 << 20, 480)), Constraint::SOURCE_SIZE, 0),
        (one(good.source_mode(640, 480, PixelFormat(9))), Constraint::SOURCE_FORMAT, 0),
        (one(good.target_mode(other_mode)), Constraint::TARGET_MODE, 0),
        (one(good.scaling(Scaling(9))), Constraint::SCALING, 0),
        (one(good.rotation(Rotation(9))), Constraint::ROTATION, 0),
        (
            one(sized(source.width - 8, source.height).scaling(Scaling::IDENTITY)),
            Constraint::SCALING_SIZE,
            0,
        ),
        (
            one(sized(target.width + 8, target.height).scaling(Scaling::CENTERED)),
            Constraint::SCALING_SIZE,
            0,
        ),
    ];
    for (topology, constraint, path) in wrong {
        let checked = refusal(display.check(&topology))?;
        let committed = refusal(display.commit(&topology))?;
        for refusal in [checked, committed] {
            require!(
                (refusal.constraint, refusal.path) == (constraint, path),
                "{refusal}, not {constraint} in path {path}"
            );
        }
    }
    // What is open is no reason against a topology, but a commit needs all of it.
    let open = one(Path::new(0, child));
    display.check(&open)?;
    let committed = refusal(display.commit(&open))?;
    require!(committed.constraint == Constraint::NOT_PINNED, "{committed}");
    Ok(())
}

pub(super) fn all_or_nothing(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let surface = lab.show()?;
    let pictures = lab.pictures(surface, 2)?;
    let before = lab.flip_to(&pictures[0])?;
    let child = lab.monitors(1)?.first().copied().unwrap_or(0);
    let good = lab.display.complete(&one(lab.small_path(0, child)?))?;
    let Some(path) = good.paths().first() else { return Ok(()) };
    let bad = good.clone().path(*path);
    let committed = refusal(lab.display.commit(&bad))?;
    require!(committed.constraint == Constraint::TARGET_TWICE, "{committed}");
    // What is shown is as it was: the VSYNCs are counted on, and the process still has its source.
    let shown = lab.pass_vsyncs(2)?;
    require!(shown == before.flip, "flip {shown} is shown, not {}", before.flip);
    // Committing what is committed changes nothing either.
    lab.display.commit(&good)?;
    let after = lab.flip_to(&pictures[1])?;
    require!(after.count > before.count, "VSYNC {} after {}", after.count, before.count);
    Ok(())
}

pub(super) fn owned(scene: &Scene) -> Result<(), Mismatch> {
    let (owner, other) = (Lab::new(scene)?, Lab::new(scene)?);
    let surface = owner.show()?;
    let child = owner.monitors(1)?.first().copied().unwrap_or(0);
    let topology = one(Path::new(0, child));
    let refused = refusal(other.display.check(&topology))?;
    require!(refused.constraint == Constraint::IN_USE, "{refused}");
    let process = u64::from(owner.process.process());
    require!(refused.limit == process, "{refused}, not {process}");
    let picture = other.picture(surface, 0)?;
    let flipped = other.display.flip(0, Flip::to(&picture));
    require!(flipped.is_err(), "a process flipped another's source");
    let visible = other.display.set_visible(0, false);
    require!(visible.is_err(), "a process blanked another's source");
    owner.display.commit(&Topology::new())?;
    other.show()?;
    other.flip_to(&picture)?;
    let refused = refusal(owner.display.check(&topology))?;
    require!(refused.constraint == Constraint::IN_USE, "{refused}");
    Ok(())
}

pub(super) fn clone(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let monitors = lab.monitors(2)?;
    let paths = monitors.iter().take(2).map(|child| Path::new(0, *child));
    let topology = paths.fold(Topology::new(), Topology::path);
    let surfaces = lab.commit(&topology)?;
    require!(surfaces[0] == surfaces[1], "one source has two modes: {surfaces:?}");
    let picture = lab.picture(surfaces[0], 3)?;
    let both = lab.flip_to(&picture)?;
    // A monitor fewer; the picture stays on the other.
    let complete = lab.display.complete(&topology)?;
    if let Some(first) = complete.paths().first() {
        lab.display.commit(&one(*first))?;
    }
    let shown = lab.pass_vsyncs(2)?;
    require!(shown == both.flip, "flip {shown} is shown, not {}", both.flip);
    Ok(())
}

pub(super) fn extended(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let monitors = lab.monitors(2)?;
    let mut topology = Topology::new();
    for (source, child) in (0..2).zip(&monitors) {
        topology = topology.path(lab.small_path(source, *child)?);
    }
    let surfaces = lab.commit(&topology)?;
    for (source, surface) in (0..2).zip(surfaces) {
        let picture = lab.picture(surface, source.into())?;
        let flip = lab.display.flip(source, Flip::to(&picture))?;
        let ended = lab.display.wait_for_flip(source, flip, crate::conformance::scene::TIMEOUT)?;
        require!(ended.outcome == FlipOutcome::SHOWN, "source {source}: {}", ended.outcome);
        // The primary goes with the end of this turn; its source shows nothing then.
    }
    Ok(())
}
