// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.display.*`: the ways in which a program's picture comes to a monitor that a compositor of another user has.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::apart::{shared_fence, shared_memory};
use crate::conformance::programs::program::Program;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{
    CreatePrimary, DropPrimary, Failure, FlipTo, GiveUp, OpenPrimary, PassVsyncs, PrimaryAt,
    SharePrimary, Show, Size, Step,
};
use crate::conformance::scene::TIMEOUT;
use crate::conformance::source;
use bellhop_protocol::control::flip::SetVidPnSourceOwner;
use bellhop_protocol::status::Status;
use std::time::Instant;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.display.composed", source::KMD_FLIP, composed).shows(
        "a compositor's engine draws a program's picture onto its own, once the program's is done",
    ),
    Behaviour::new("program.display.exclusive", source::KMD_FLIP, exclusive).shows(
        "a program has a monitor to itself when the compositor has given it up, and not before",
    ),
    Behaviour::new("program.display.direct-flip", source::KMD_FLIP, direct_flip).shows(
        "a compositor shows a program's own buffer as it is, even after the program let go of it",
    ),
    Behaviour::new("program.display.independent-flip", source::KMD_FLIP, independent_flip).shows(
        "a program flips a source that the compositor lends to it, until that is taken back",
    ),
    Behaviour::new("program.display.apart", source::KMD_DISPLAY, apart).shows(
        "a program neither flips, lends nor changes what is another's, nor opens its picture",
    ),
    Behaviour::new("program.display.killed", source::KMD_FLIP, killed).shows(
        "a program that is killed while it flips leaves the compositor its monitor, and a \
         compositor leaves it to whoever comes",
    ),
];

/// A compositor that has the first monitor, with a picture on it.
struct Desktop {
    compositor: Program,
    size: Size,
    desktop: PrimaryAt,
}

impl Desktop {
    fn of(stage: &Stage) -> Result<(Self, Program), Mismatch> {
        let [compositor, program] = stage.pair()?;
        Ok((Self::shown_by(compositor)?, program))
    }

    fn shown_by(mut compositor: Program) -> Result<Self, Mismatch> {
        let size = compositor.ask(Show {})?;
        let desktop = drawn(&mut compositor, size, false, 0xDE)?;
        compositor.ask(FlipTo { primary: desktop.primary })?;
        Ok(Self { compositor, size, desktop })
    }

    /// The compositor shows its own picture.
    fn show(&mut self) -> Result<(), Mismatch> {
        self.compositor.ask(FlipTo { primary: self.desktop.primary })?;
        expect_colour(&mut self.compositor, self.desktop, 0xDE)
    }

    /// Lends its source to a process, or takes it back.
    fn lend(&mut self, to: u32) -> Result<(), Mismatch> {
        let own = self.compositor.introduction()?.process;
        self.compositor.call(own, &SetVidPnSourceOwner { source: 0, process: to })?;
        Ok(())
    }
}

/// A primary that is all of one colour, which an engine drew.
fn drawn(
    program: &mut Program,
    size: Size,
    shared: bool,
    colour: u32,
) -> Result<PrimaryAt, Mismatch> {
    let primary = program.ask(CreatePrimary { size, shared })?;
    program.run(&[Step::Fill { to: primary.gpu_va, length: primary.length, pattern: colour }])?;
    Ok(primary)
}

/// Asserts that the last pixels of a primary have this colour.
fn expect_colour(program: &mut Program, primary: PrimaryAt, colour: u32) -> Result<(), Mismatch> {
    let own = program.introduction()?.memory;
    let from = primary.gpu_va + primary.length - 8;
    program.run(&[Step::Copy { from, to: own, length: 8 }])?;
    let seen = program.word(0)?;
    let expected = u64::from(colour) << 32 | u64::from(colour);
    require!(seen == expected, "the picture is {seen:#x}, not {expected:#x}");
    Ok(())
}

/// Asserts that a program may not flip the source.
fn expect_no_flips(program: &mut Program, primary: PrimaryAt) -> Result<(), Mismatch> {
    match program.attempt(FlipTo { primary: primary.primary })? {
        Err(Failure::NotInTopology) => Ok(()),
        seen => Err(Mismatch::Seen(format!("a flip without the right to it: {seen:?}"))),
    }
}

fn composed(stage: &Stage) -> Result<(), Mismatch> {
    let (mut screen, mut program) = Desktop::of(stage)?;
    let [fence, its_fence] = shared_fence(&mut screen.compositor, &mut program)?;
    let [at, its_at] = shared_memory(&mut screen.compositor, &mut program)?;
    for turn in 0..4u32 {
        let (drawn, composed) = (2 * u64::from(turn) + 1, 2 * u64::from(turn) + 2);
        let to = screen.desktop.gpu_va + screen.desktop.length - 4096;
        // The compositor is first, and waits.
        let value = screen.compositor.submit(&[
            Step::Wait { fence, value: drawn },
            Step::Copy { from: at, to, length: 4096 },
            Step::Signal { fence, value: composed },
        ])?;
        program.run(&[
            Step::Fill { to: its_at, length: 4096, pattern: turn },
            Step::Signal { fence: its_fence, value: drawn },
            Step::Wait { fence: its_fence, value: composed },
        ])?;
        screen.compositor.finish(value)?;
        screen.compositor.ask(FlipTo { primary: screen.desktop.primary })?;
        expect_colour(&mut screen.compositor, screen.desktop, turn)?;
    }
    Ok(())
}

fn exclusive(stage: &Stage) -> Result<(), Mismatch> {
    let (mut screen, mut program) = Desktop::of(stage)?;
    let seen = program.attempt(Show {})?;
    require!(matches!(seen, Err(Failure::InUse)), "the compositor has it: {seen:?}");
    screen.compositor.ask(GiveUp {})?;
    expect_no_flips(&mut screen.compositor, screen.desktop)?;
    let size = program.ask(Show {})?;
    let mut buffers = Vec::new();
    for colour in 1..4 {
        buffers.push(drawn(&mut program, size, false, colour)?);
    }
    let mut last = 0;
    for turn in 0..9 {
        let count = program.ask(FlipTo { primary: buffers[turn % 3].primary })?;
        require!(count > last, "VSYNC {count} after VSYNC {last}");
        last = count;
    }
    program.ask(GiveUp {})?;
    screen.compositor.ask(Show {})?;
    screen.show()
}

fn direct_flip(stage: &Stage) -> Result<(), Mismatch> {
    let (mut screen, mut program) = Desktop::of(stage)?;
    for colour in 1..4 {
        let buffer = drawn(&mut program, screen.size, true, colour)?;
        let name = program.ask(SharePrimary { primary: buffer.primary })?;
        let opened = screen.compositor.ask(OpenPrimary { name, size: screen.size })?;
        screen.compositor.ask(FlipTo { primary: opened.primary })?;
        expect_colour(&mut screen.compositor, opened, colour)?;
        expect_no_flips(&mut program, buffer)?;
        program.ask(DropPrimary { primary: buffer.primary })?;
        let shown = screen.compositor.ask(PassVsyncs {})?;
        require!(shown != 0, "the picture went with the program's use of it");
        expect_colour(&mut screen.compositor, opened, colour)?;
        screen.show()?;
    }
    Ok(())
}

fn independent_flip(stage: &Stage) -> Result<(), Mismatch> {
    let (mut screen, mut program) = Desktop::of(stage)?;
    let process = program.introduction()?.process;
    let buffers =
        [drawn(&mut program, screen.size, false, 1)?, drawn(&mut program, screen.size, false, 2)?];
    expect_no_flips(&mut program, buffers[0])?;
    screen.lend(process)?;
    let mut last = 0;
    for turn in 0..8 {
        let count = program.ask(FlipTo { primary: buffers[turn % 2].primary })?;
        require!(count > last, "VSYNC {count} after VSYNC {last}");
        last = count;
    }
    expect_colour(&mut program, buffers[1], 2)?;
    screen.lend(0)?;
    expect_no_flips(&mut program, buffers[0])?;
    screen.show()
}

fn apart(stage: &Stage) -> Result<(), Mismatch> {
    let (mut screen, mut other) = Desktop::of(stage)?;
    let own = other.introduction()?.process;
    let buffer = drawn(&mut other, screen.size, true, 7)?;
    expect_no_flips(&mut other, buffer)?;
    let taken = other.attempt(Show {})?;
    require!(matches!(taken, Err(Failure::InUse)), "it takes the monitor: {taken:?}");
    let lend = SetVidPnSourceOwner { source: 0, process: own };
    let theirs = screen.compositor.introduction()?.process;
    for process in [own, theirs] {
        let seen = other.status(process, &lend)?;
        require!(seen != Status::SUCCESS, "it lends what it does not have");
    }
    // A picture that is not shared has no name to open it by.
    let seen = other.attempt(OpenPrimary { name: screen.desktop.handle, size: screen.size })?;
    require!(seen.is_err(), "it opens the compositor's picture: {seen:?}");
    other.ask(GiveUp {})?;
    let shown = screen.compositor.ask(PassVsyncs {})?;
    require!(shown != 0, "the compositor's picture is gone");
    screen.show()
}

fn killed(stage: &Stage) -> Result<(), Mismatch> {
    let (mut screen, mut program) = Desktop::of(stage)?;
    let process = program.introduction()?.process;
    let buffer = drawn(&mut program, screen.size, false, 1)?;
    screen.lend(process)?;
    program.ask(FlipTo { primary: buffer.primary })?;
    program.kill();
    screen.show()?;
    let size = screen.size;
    screen.compositor.kill();
    // What it had is free when the broker has seen its end.
    let mut heir = stage.program(1)?;
    let start = Instant::now();
    while matches!(heir.attempt(Show {})?, Err(Failure::InUse)) {
        require!(start.elapsed() < TIMEOUT, "who is gone has the monitor");
    }
    let own = drawn(&mut heir, size, false, 2)?;
    heir.ask(FlipTo { primary: own.primary })?;
    expect_colour(&mut heir, own, 2)
}
