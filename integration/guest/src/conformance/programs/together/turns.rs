// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.turn.*`: programs that have work for one engine.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::apart::shared_memory;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{Progress, SetPriority, Step, Submit, Suspend, Write};
use crate::conformance::source;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.turn.engine", source::KMD_ENGINES, engine)
        .shows("a long command of one program does not hold up short ones of another"),
    Behaviour::new("program.turn.both", source::KMD_ENGINES, both)
        .shows("two programs that have much work for one engine are done side by side"),
    Behaviour::new("program.turn.priority", source::KMD_ENGINES, priority)
        .shows("the program whose context has the higher priority gets most of the engine's time"),
];

fn engine(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    for program in [&mut one, &mut other] {
        program.expect_works()?;
    }
    let own = one.introduction()?.memory;
    let steps = [Step::Store { to: own + 8, word: 1 }, Step::Spin { until: own }];
    let value = one.submit(&steps)?;
    one.await_word(8)?;
    // Few, so that the long command does not count as a hang before.
    for _ in 0..3 {
        other.expect_works()?;
    }
    let reached = one.ask(Progress { queue: 0 })?;
    require!(reached < value, "the long command ended");
    one.ask(Write { offset: 0, bytes: vec![1; 8] })?;
    one.finish(value)
}

/// Submissions of each program.
const SUBMISSIONS: u64 = 16;

/// Two programs that work for one engine, both suspended: the first counts its submissions in memory that the second copies
/// after each of its own. Returns the first's count at the second's end.
fn compete(stage: &Stage, priorities: [i32; 2]) -> Result<u64, Mismatch> {
    let [mut counted, mut counts] = stage.pair()?;
    let [at, its_at] = shared_memory(&mut counted, &mut counts)?;
    for (program, priority) in [&mut counted, &mut counts].into_iter().zip(priorities) {
        program.ask(SetPriority { queue: 0, priority })?;
        program.ask(Suspend { queue: 0, suspended: true })?;
    }
    let own = counted.introduction()?.memory + 4096;
    let its_own = counts.introduction()?.memory;
    let fills = |to| vec![Step::Fill { to, length: 200 << 10, pattern: 7 }; 30];
    let mut last = [0; 2];
    for number in 1..=SUBMISSIONS {
        let mut steps = fills(own);
        steps.push(Step::Store { to: at, word: number });
        last[0] = counted.ask(Submit { queue: 0, steps, times: 1 })?;
        let mut steps = fills(its_own + 4096);
        steps.push(Step::Copy { from: its_at, to: its_own, length: 8 });
        last[1] = counts.ask(Submit { queue: 0, steps, times: 1 })?;
    }
    // The second starts first, so that the first never runs alone before.
    counts.ask(Suspend { queue: 0, suspended: false })?;
    counted.ask(Suspend { queue: 0, suspended: false })?;
    counts.finish(last[1])?;
    let beside = counts.word(0)?;
    counted.finish(last[0])?;
    stage.show(format!("{beside} of {SUBMISSIONS} submissions beside the other's"));
    Ok(beside)
}

fn both(stage: &Stage) -> Result<(), Mismatch> {
    let beside = compete(stage, [0, 0])?;
    require!(beside >= SUBMISSIONS / 4, "{beside} of {SUBMISSIONS} were done beside the other's");
    Ok(())
}

fn priority(stage: &Stage) -> Result<(), Mismatch> {
    let beside = compete(stage, [-7, 7])?;
    require!(beside < SUBMISSIONS / 2, "{beside} of {SUBMISSIONS} of the lower were done by then");
    Ok(())
}
