// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.bar.*`: each program's BAR is its own.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{FillBar, FillDoorbells, Progress, SumDoorbells};
use crate::conformance::source;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.bar.doorbells", source::PROCESS_BARS, doorbells).shows(
        "stores to all doorbells of one program's BAR ring no queue of another, and change nothing in \
         its BAR",
    ),
    Behaviour::new("program.bar.scribbled", source::PROCESS_BARS, scribbled)
        .shows("a program that overwrites all that it has harms itself alone"),
    Behaviour::new("program.bar.counters", source::PROCESS_BARS, counters)
        .shows("the fence of each program's queue counts its own submissions alone"),
];

fn doorbells(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    for program in [&mut one, &mut other] {
        program.expect_works()?;
    }
    let (own, theirs) = (one.ask(SumDoorbells {})?, other.ask(SumDoorbells {})?);
    let before = other.ask(Progress { queue: 0 })?;
    let count = one.ask(FillDoorbells { word: 0x40 })?;
    require!(one.ask(SumDoorbells {})? != own, "a program's stores to its BAR are not there");
    require!(other.ask(SumDoorbells {})? == theirs, "a program's stores are in another's BAR");
    let after = other.ask(Progress { queue: 0 })?;
    require!(after == before, "another's doorbells moved a queue from {before} to {after}");
    other.expect_works()?;
    let after = other.ask(Progress { queue: 0 })?;
    require!(after == before + 1, "one submission moved the queue from {before} to {after}");
    stage.show(format!("{count} doorbells"));
    Ok(())
}

fn scribbled(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    one.expect_works()?;
    for word in [u64::MAX, 0x0123_4567_89ab_cdef, 0] {
        one.ask(FillBar { word })?;
        other.expect_works()?;
    }
    one.kill();
    other.expect_works()
}

fn counters(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    for _ in 0..20 {
        one.expect_works()?;
        other.expect_works()?;
        other.expect_works()?;
    }
    let counted = (one.ask(Progress { queue: 0 })?, other.ask(Progress { queue: 0 })?);
    require!(counted == (20, 40), "after 20 and 40 submissions the fences are at {counted:?}");
    Ok(())
}
