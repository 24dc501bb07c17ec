// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.limit.*`: what one program uses up, another still has.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::program::Program;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{
    Command, CreateFence, CreateQueue, Failure, FenceKind, TakePages,
};
use crate::conformance::source;
use bellhop_protocol::control::process::CreateProcess;
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.limit.memory", source::PROGRAMS, memory)
        .shows("a program that takes all its memory leaves another's to it"),
    Behaviour::new("program.limit.doorbells", source::PROGRAMS, doorbells)
        .shows("a program that takes all its doorbells leaves another's to it"),
    Behaviour::new("program.limit.fences", source::PROGRAMS, fences)
        .shows("a program that takes all its fences leaves another's to it"),
    Behaviour::new("program.limit.processes", source::PROGRAMS, processes)
        .shows("a program that takes all its processes leaves another's to it"),
    Behaviour::new("program.limit.places", source::PROGRAMS, places).shows(
        "a user's programs take no place of another user's, and a killed one's place is free",
    ),
];

/// More of anything than is tried.
const MOST: usize = 4096;

/// Has a program do something until it is refused; returns how often it was not.
fn use_up<C: Command + Clone>(program: &mut Program, command: &C) -> Result<usize, Mismatch> {
    for done in 0..MOST {
        match program.attempt(command.clone())? {
            Ok(_) => {}
            Err(Failure::OutOfMemory) => return Ok(done),
            Err(Failure::Refused { status, .. })
                if [Status::QUOTA_EXCEEDED, Status::INSUFFICIENT_RESOURCES]
                    .contains(&Status(status)) =>
            {
                return Ok(done);
            }
            Err(failure) => return Err(failure.into()),
        }
    }
    Err(Mismatch::NotOffered(format!("a program may have more than {MOST}")))
}

/// Asserts that after one program has taken all of something, another takes as much.
fn each_has_its_own<C: Command + Clone>(stage: &Stage, command: &C) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let first = use_up(&mut one, command)?;
    let second = use_up(&mut other, command)?;
    require!(first > 0 && second == first, "one program got {first}, another {second}");
    stage.show(format!("{first} each"));
    // What one had is another's now.
    one.kill();
    stage.program(0)?.expect_works()
}

fn memory(stage: &Stage) -> Result<(), Mismatch> {
    each_has_its_own(stage, &TakePages { bytes: 1 << 20 })
}

fn doorbells(stage: &Stage) -> Result<(), Mismatch> {
    each_has_its_own(stage, &CreateQueue { node: 0 })
}

fn fences(stage: &Stage) -> Result<(), Mismatch> {
    each_has_its_own(stage, &CreateFence { kind: FenceKind::Native, shared: false })
}

fn processes(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let mut counts = [0; 2];
    for (program, count) in [&mut one, &mut other].into_iter().zip(&mut counts) {
        loop {
            match program.status(0, &CreateProcess { reserved: 0 })? {
                Status::SUCCESS if *count < MOST => *count += 1,
                Status::QUOTA_EXCEEDED => break,
                status => return Err(Mismatch::Seen(format!("process {count}: {status}"))),
            }
        }
    }
    require!(counts[0] > 0 && counts[0] == counts[1], "the programs got {counts:?} processes");
    stage.show(format!("{} each", counts[0]));
    other.expect_works()
}

fn places(stage: &Stage) -> Result<(), Mismatch> {
    let mut programs = vec![stage.program(0)?];
    while let Some(program) = stage.try_program(0)? {
        programs.push(program);
        if programs.len() > 64 {
            return Err(Mismatch::NotOffered("a user may have more than 64 programs".into()));
        }
    }
    if stage.has_users() {
        stage.program(1)?.expect_works()?;
    }
    stage.show(format!("{} of a user", programs.len()));
    // One of them is killed.
    programs.pop();
    stage.program(0)?.expect_works()
}
