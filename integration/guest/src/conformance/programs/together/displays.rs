// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.display.*`: programs that share the guest's display.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::apart::kill_and_await_end;
use crate::conformance::programs::program::Program;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{CreatePicture, Failure, Flip, Show, ShowNothing};
use crate::conformance::source;
use bellhop_protocol::control::flip::SetVidPnSourceOwner;
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.display.owner", source::KMD_DISPLAY, owner)
        .shows("a source that one program shows is not shown and not flipped by another"),
    Behaviour::new("program.display.handed-over", source::KMD_DISPLAY, handed_over)
        .shows("a program that gives a source up leaves it to another"),
    Behaviour::new("program.display.lent", source::KMD_FLIP, lent).shows(
        "a compositor lends its source to a program of another user, and has it back when that ends",
    ),
    Behaviour::new("program.display.ended", source::KMD_DISPLAY, ended)
        .shows("the source of a program that is killed is free"),
];

/// Shows a picture of a program's own.
fn show(program: &mut Program) -> Result<(), Mismatch> {
    program.ask(Show {})?;
    program.ask(CreatePicture {})?;
    program.ask(Flip {})
}

/// Asserts that a program may neither show nor flip the source.
fn expect_refused(program: &mut Program) -> Result<(), Mismatch> {
    let shown = program.attempt(Show {})?;
    require!(matches!(shown, Err(Failure::Other(_))), "a program shows another's source");
    expect_no_flip(program)
}

fn expect_no_flip(program: &mut Program) -> Result<(), Mismatch> {
    program.ask(CreatePicture {})?;
    let flipped = program.attempt(Flip {})?;
    let is_refused = matches!(flipped, Err(Failure::Other(_)));
    require!(is_refused, "a program flips another's source: {flipped:?}");
    Ok(())
}

fn owner(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    show(&mut one)?;
    expect_refused(&mut other)?;
    // Nor does it lend what it does not have.
    let own = other.introduction()?.process;
    let lend = SetVidPnSourceOwner { source: 0, process: own };
    let status = other.status(own, &lend)?;
    require!(!status.is_success(), "a program lends itself another's source");
    one.ask(Flip {})
}

fn handed_over(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    for _ in 0..2 {
        show(&mut one)?;
        expect_refused(&mut other)?;
        one.ask(ShowNothing {})?;
        show(&mut other)?;
        expect_refused(&mut one)?;
        other.ask(ShowNothing {})?;
    }
    Ok(())
}

fn lent(stage: &Stage) -> Result<(), Mismatch> {
    let [mut compositor, mut program] = stage.pair()?;
    show(&mut compositor)?;
    expect_no_flip(&mut program)?;
    let (own, process) = (compositor.introduction()?.process, program.introduction()?.process);
    let lend = |process| SetVidPnSourceOwner { source: 0, process };
    compositor.expect_status(own, &lend(process), Status::SUCCESS)?;
    program.ask(Flip {})?;
    compositor.expect_status(own, &lend(0), Status::SUCCESS)?;
    expect_no_flip(&mut program)?;
    compositor.ask(Flip {})?;
    compositor.expect_status(own, &lend(process), Status::SUCCESS)?;
    program.ask(Flip {})?;
    kill_and_await_end(program, &mut compositor)?;
    compositor.ask(Flip {})
}

fn ended(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    show(&mut one)?;
    expect_refused(&mut other)?;
    kill_and_await_end(one, &mut other)?;
    show(&mut other)
}
