// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.fault.*`: a program that loses its queue loses nothing of another's.

use super::events::expect_told_nothing;
use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{Failure, Finish, QueryStatus, Step, Submit};
use crate::conformance::source;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::FaultReason;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.fault.page", source::PROGRAMS, page).shows(
        "a page fault of one program is told to it alone; another's work on the engine is done",
    ),
    Behaviour::new("program.fault.packet", source::PROGRAMS, packet).shows(
        "a packet that no engine knows is told to its program alone; another's work is done",
    ),
    Behaviour::new("program.fault.hang", source::KMD_TDR, hang)
        .shows("a hang of one program is told to it alone; another's work on the engine is done"),
];

/// Submissions of the innocent program.
const SUBMISSIONS: u32 = 32;

fn spares(
    stage: &Stage,
    wrong: impl FnOnce(u64) -> Step,
    reason: FaultReason,
) -> Result<(), Mismatch> {
    let [mut guilty, mut innocent] = stage.pair()?;
    let memory = guilty.introduction()?.memory;
    let own = innocent.introduction()?.memory;
    let fill = Step::Fill { to: own, length: 64 << 10, pattern: 7 };
    let copy = Step::Copy { from: own, to: own + (64 << 10), length: 64 << 10 };
    let steps = vec![fill, copy];
    let last = innocent.ask(Submit { queue: 0, steps, times: SUBMISSIONS })?;
    let value = guilty.submit(&[wrong(memory)])?;
    let seen = guilty.attempt(Finish { queue: 0, value })?;
    let is_it = matches!(&seen, Err(Failure::Lost { reason: seen, .. }) if *seen == reason.0);
    require!(is_it, "instead of {reason}: {seen:?}");
    innocent.finish(last)?;
    let word = innocent.word((128 << 10) - 8)?;
    require!(word == 0x0000_0007_0000_0007, "the other program's work left {word:#x}");
    expect_told_nothing(&mut innocent)?;
    let status = ConnectionStatus(innocent.ask(QueryStatus { queue: 0 })?);
    require!(status != ConnectionStatus::DISCONNECTED_ABORT, "the other's doorbell: {status}");
    innocent.expect_works()
}

fn page(stage: &Stage) -> Result<(), Mismatch> {
    let nowhere = |_| Step::Store { to: 1 << 38, word: 1 };
    spares(stage, nowhere, FaultReason::WRITE_PAGE_FAULT)
}

fn packet(stage: &Stage) -> Result<(), Mismatch> {
    spares(stage, |_| Step::Unknown, FaultReason::UNKNOWN_PACKET)
}

fn hang(stage: &Stage) -> Result<(), Mismatch> {
    spares(stage, |memory| Step::Spin { until: memory }, FaultReason::ENGINE_TIMEOUT)
}
