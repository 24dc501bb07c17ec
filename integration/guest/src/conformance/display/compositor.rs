// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ways in which a program's picture comes to a screen without a copy, with a small compositor: full-screen exclusive,
//! DirectFlip and IndependentFlip. Classic windowed is among what `PRESENT` draws.

use super::lab::{Lab, pixels, refusal};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::display::{
    Constraint, DisplayError, Flip, FlipOutcome, Path, Primary, Topology,
};
use bellhop_protocol::control::flip::MAX_FLIPS;

/// A compositor that has the first screen, and a program beside it: two processes of one guest.
struct Desktop {
    program: Lab,
    compositor: Lab,
}

impl Desktop {
    fn new(scene: &Scene) -> Result<Self, Mismatch> {
        Ok(Self { program: Lab::new(scene)?, compositor: Lab::new(scene)? })
    }

    /// Asserts that a process may not flip the screen.
    fn expect_no_flips(lab: &Lab, primary: &Primary) -> Result<(), Mismatch> {
        match lab.display.flip(0, Flip::to(primary)) {
            Err(DisplayError::NotInTopology { .. }) => Ok(()),
            other => Err(Mismatch::Seen(format!("a flip without the right to it: {other:?}"))),
        }
    }
}

pub(super) fn exclusive(scene: &Scene) -> Result<(), Mismatch> {
    let Desktop { program, compositor } = Desktop::new(scene)?;
    let screen = compositor.show()?;
    let desktop = compositor.picture(screen, 0)?;
    compositor.flip_to(&desktop)?;
    let child = compositor.monitors(1)?.first().copied().unwrap_or(0);
    let refused = refusal(program.display.check(&Topology::new().path(Path::new(0, child))))?;
    require!(refused.constraint == Constraint::IN_USE, "{refused}");
    // The compositor gives the screen up, and the program has it to itself, in a mode of its own.
    compositor.display.commit(&Topology::new())?;
    Desktop::expect_no_flips(&compositor, &desktop)?;
    let own = program.show()?;
    let pictures = program.pictures(own, 3)?;
    let mut last = 0;
    for turn in 0..9 {
        let ended = program.flip_to(&pictures[turn % 3])?;
        require!(ended.count > last, "VSYNC {} after VSYNC {last}", ended.count);
        last = ended.count;
        program.expect_picture(&pictures[turn % 3], turn as u64 % 3)?;
    }
    program.display.commit(&Topology::new())?;
    compositor.show()?;
    compositor.flip_to(&desktop)?;
    compositor.expect_picture(&desktop, 0)
}

pub(super) fn direct_flip(scene: &Scene) -> Result<(), Mismatch> {
    let Desktop { program, compositor } = Desktop::new(scene)?;
    let screen = compositor.show()?;
    let desktop = compositor.picture(screen, 0)?;
    compositor.flip_to(&desktop)?;
    // The program's own buffers, which the compositor shows as they are: nothing is copied.
    for number in 1..4 {
        let drawn = program.device.create_shared_primary(screen)?;
        drawn.set_pixels(&pixels(screen, number)?)?;
        let name = drawn.allocation().share()?;
        let opened = compositor.device.open_shared_primary(name, screen)?;
        compositor.flip_to(&opened)?;
        compositor.expect_picture(&opened, number)?;
        Desktop::expect_no_flips(&program, &drawn)?;
        // The program may end its own use of it while it is shown.
        drop(drawn);
        let shown = compositor.pass_vsyncs(2)?;
        require!(shown != 0, "the picture went with the program's handle");
        compositor.expect_picture(&opened, number)?;
        compositor.flip_to(&desktop)?;
    }
    Ok(())
}

pub(super) fn independent_flip(scene: &Scene) -> Result<(), Mismatch> {
    let Desktop { program, compositor } = Desktop::new(scene)?;
    let screen = compositor.show()?;
    let desktop = compositor.picture(screen, 0)?;
    compositor.flip_to(&desktop)?;
    let pictures = program.pictures(screen, 2)?;
    Desktop::expect_no_flips(&program, &pictures[0])?;
    compositor.display.lend(0, Some(&program.process))?;
    // The program flips without the compositor, and learns of it itself.
    for turn in 0..8 {
        program.flip_to(&pictures[turn % 2])?;
    }
    program.expect_picture(&pictures[1], 1)?;
    let theirs = program.display.set_visible(0, false);
    require!(theirs.is_err(), "whoever may flip a source may not blank it");
    compositor.display.lend(0, None)?;
    Desktop::expect_no_flips(&program, &pictures[0])?;
    compositor.flip_to(&desktop)?;
    // A program that ends while it flips leaves the screen to the compositor.
    compositor.display.lend(0, Some(&program.process))?;
    let flip = program.display.flip(0, Flip::to(&pictures[0]))?;
    let ended = program.display.wait_for_flip(0, flip, TIMEOUT)?;
    require!(ended.outcome == FlipOutcome::SHOWN, "it ended {}", ended.outcome);
    compositor.expect_picture(&pictures[0], 0)?;
    drop((pictures, program));
    compositor.flip_to(&desktop)?;
    compositor.expect_picture(&desktop, 0)
}

pub(super) fn taken_back(scene: &Scene) -> Result<(), Mismatch> {
    let Desktop { program, compositor } = Desktop::new(scene)?;
    let screen = compositor.show()?;
    let desktop = compositor.picture(screen, 0)?;
    compositor.flip_to(&desktop)?;
    let picture = program.picture(screen, 1)?;
    // Nobody signals it, and no flip overtakes one that waits.
    let never = program.device.create_fence(0)?;
    let after = [(&never, 1)];
    compositor.display.lend(0, Some(&program.process))?;
    let mut flips = Vec::new();
    for _ in 0..MAX_FLIPS {
        flips.push(program.display.flip(0, Flip::to(&picture).after(&after))?);
    }
    let one_more = compositor.display.flip(0, Flip::to(&desktop));
    require!(matches!(one_more, Err(DisplayError::QueueFull { .. })), "room: {one_more:?}");
    compositor.display.lend(0, None)?;
    for flip in flips {
        program.expect(flip, FlipOutcome::LOST)?;
    }
    compositor.flip_to(&desktop)?;
    compositor.expect_picture(&desktop, 0)
}
