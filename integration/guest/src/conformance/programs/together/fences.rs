// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.shared-fence.*`: fences that programs have together.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::apart::shared_fence;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{
    DropFence, Failure, FenceKind, OpenFence, ReadFence, ShareFence, Signal, Step, Wait,
};
use crate::conformance::source;
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.shared-fence.cpu", source::FENCE_HANDLES, cpu)
        .shows("a CPU of one program waits for a shared fence that a CPU of another signals"),
    Behaviour::new("program.shared-fence.gpu", source::FENCE_HANDLES, gpu)
        .shows("queues of two programs hand a shared fence to each other, without a CPU"),
    Behaviour::new("program.shared-fence.mixed", source::FENCE_HANDLES, mixed).shows(
        "a queue of one program ends a wait of another's CPU, and a CPU one of another's queue",
    ),
    Behaviour::new("program.shared-fence.monitored", source::FENCE_EXISTING, monitored)
        .shows("a monitored fence is shared as a native one is, and CPUs wait for it"),
    Behaviour::new("program.shared-fence.order", source::FENCE_DESIGN, order)
        .shows("a queue does not pass a wait for another program's fence before it is signaled"),
    Behaviour::new("program.shared-fence.lifetime", source::FENCE_HANDLES, lifetime).shows(
        "a shared fence outlives its program's use of it, and its name goes with the last that has it",
    ),
    Behaviour::new("program.shared-fence.published", source::PROCESS_BARS, published).shows(
        "a fence's value is in the BAR of the program that created it, and not in another's",
    ),
    Behaviour::new("program.shared-fence.three", source::FENCE_HANDLES, three)
        .shows("three programs have one fence, and each is told when it is signaled"),
];

fn cpu(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let [fence, its_fence] = shared_fence(&mut one, &mut other)?;
    for round in 0..10 {
        let (odd, even) = (2 * round + 1, 2 * round + 2);
        let waits = other.begin(Wait { fence: its_fence, value: odd })?;
        one.ask(Signal { fence, value: odd })?;
        waits.answer()?;
        let waits = one.begin(Wait { fence, value: even })?;
        other.ask(Signal { fence: its_fence, value: even })?;
        waits.answer()?;
    }
    Ok(())
}

fn gpu(stage: &Stage) -> Result<(), Mismatch> {
    const ROUNDS: u64 = 16;
    let [mut one, mut other] = stage.pair()?;
    let [fence, its_fence] = shared_fence(&mut one, &mut other)?;
    let (mut first, mut second) = (0, 0);
    for round in 0..ROUNDS {
        let (odd, even) = (2 * round + 1, 2 * round + 2);
        let signal = Step::Signal { fence, value: odd };
        first = one.submit(&[signal, Step::Wait { fence, value: even }])?;
        let wait = Step::Wait { fence: its_fence, value: odd };
        second = other.submit(&[wait, Step::Signal { fence: its_fence, value: even }])?;
    }
    one.finish(first)?;
    other.finish(second)?;
    let value = one.ask(ReadFence { fence })?;
    require!(value == 2 * ROUNDS, "after {ROUNDS} rounds the fence is at {value}");
    Ok(())
}

fn mixed(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let [fence, its_fence] = shared_fence(&mut one, &mut other)?;
    let waits = other.begin(Wait { fence: its_fence, value: 1 })?;
    one.run(&[Step::Signal { fence, value: 1 }])?;
    waits.answer()?;
    let held = one.submit(&[Step::Wait { fence, value: 2 }])?;
    other.ask(Signal { fence: its_fence, value: 2 })?;
    one.finish(held)
}

fn monitored(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let fence = one.fence(FenceKind::Monitored, true)?.fence;
    let name = one.ask(ShareFence { fence })?;
    let its_fence = other.ask(OpenFence { name })?.fence;
    let waits = other.begin(Wait { fence: its_fence, value: 1 })?;
    one.run(&[Step::Signal { fence, value: 1 }])?;
    waits.answer()?;
    let waits = one.begin(Wait { fence, value: 2 })?;
    other.ask(Signal { fence: its_fence, value: 2 })?;
    waits.answer()
}

fn order(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let [fence, its_fence] = shared_fence(&mut one, &mut other)?;
    let own = other.introduction()?.memory;
    other.run(&[Step::Store { to: own, word: 0 }])?;
    let steps = [Step::Wait { fence: its_fence, value: 1 }, Step::Store { to: own, word: 7 }];
    let held = other.submit(&steps)?;
    one.expect_works()?;
    let word = other.word(0)?;
    require!(word == 0, "a queue passed its wait");
    one.run(&[Step::Signal { fence, value: 1 }])?;
    other.finish(held)?;
    let word = other.word(0)?;
    require!(word == 7, "what came after the wait left {word}");
    Ok(())
}

fn lifetime(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let fence = one.fence(FenceKind::Native, true)?.fence;
    let name = one.ask(ShareFence { fence })?;
    let its_fence = other.ask(OpenFence { name })?.fence;
    one.ask(DropFence { fence })?;
    other.run(&[Step::Signal { fence: its_fence, value: 3 }])?;
    let again = one.ask(OpenFence { name })?.fence;
    one.ask(Wait { fence: again, value: 3 })?;
    one.ask(DropFence { fence: again })?;
    other.ask(DropFence { fence: its_fence })?;
    for program in [&mut one, &mut other] {
        let seen = program.attempt(OpenFence { name })?;
        let is_refused = matches!(&seen, Err(Failure::Refused { status, .. })
            if Status(*status) == Status::INVALID_PARAMETER);
        require!(is_refused, "a fence that nobody has: {seen:?}");
    }
    Ok(())
}

fn published(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let [fence, its_fence] = shared_fence(&mut one, &mut other)?;
    other.run(&[Step::Signal { fence: its_fence, value: 4 }])?;
    other.ask(Wait { fence: its_fence, value: 4 })?;
    let value = one.ask(ReadFence { fence })?;
    require!(value == 4, "its own program reads {value}");
    let seen = other.attempt(ReadFence { fence: its_fence })?;
    require!(matches!(seen, Err(Failure::NotOffered(_))), "another program reads {seen:?}");
    Ok(())
}

fn three(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut two] = stage.pair()?;
    let mut three = stage.program(2)?;
    let fence = one.fence(FenceKind::Native, true)?.fence;
    let name = one.ask(ShareFence { fence })?;
    let [second, third] =
        [two.ask(OpenFence { name })?.fence, three.ask(OpenFence { name })?.fence];
    for value in 1..=5 {
        let waits =
            [two.begin(Wait { fence: second, value })?, three.begin(Wait { fence: third, value })?];
        one.run(&[Step::Signal { fence, value }])?;
        for wait in waits {
            wait.answer()?;
        }
    }
    Ok(())
}
