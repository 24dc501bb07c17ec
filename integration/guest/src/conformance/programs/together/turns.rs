// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.turn.*`: programs that have work for one engine.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{Progress, Step, Write};
use crate::conformance::source;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] =
    &[Behaviour::new("program.turn.engine", source::KMD_ENGINES, engine)
        .shows("a long command of one program does not hold up short ones of another")];

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
