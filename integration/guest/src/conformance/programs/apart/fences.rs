// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.fence.*`: a fence that its program does not share is its own.

use super::handles::use_up_handles;
use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{
    Failure, FenceKind, Finish, OpenAllocation, OpenFence, ReadFence, ShareFence, Step,
};
use crate::conformance::source;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.fence.slots", source::PROGRAMS, slots).shows(
        "a packet that signals another program's fence by its slot loses its own queue alone",
    ),
    Behaviour::new("program.fence.names", source::PROGRAMS, names)
        .shows("only whoever was told a fence's name opens it, and it names no allocation"),
    Behaviour::new("program.fence.unshared", source::PROGRAMS, unshared)
        .shows("a fence that was not created to be shared gets no name"),
];

fn slots(stage: &Stage) -> Result<(), Mismatch> {
    let [mut victim, mut other] = stage.pair()?;
    use_up_handles(&mut victim)?;
    let theirs = victim.fence(FenceKind::Native, true)?;
    let value = other.submit(&[Step::SignalSlot { slot: theirs.slot, value: 5 }])?;
    let seen = other.attempt(Finish { queue: 0, value })?;
    let lost =
        Failure::Lost { reason: FaultReason::FENCE_NOT_OWNED.0, address: theirs.slot.into() };
    require!(seen.as_ref() == Err(&lost), "instead of a fault: {seen:?}");
    let value = victim.ask(ReadFence { fence: theirs.fence })?;
    require!(value == 0, "another program's packet signaled the fence to {value}");
    victim.run(&[Step::Signal { fence: theirs.fence, value: 1 }])
}

fn names(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let fence = one.fence(FenceKind::Native, true)?;
    let name = one.ask(ShareFence { fence: fence.fence })?;
    let is_refused = |seen: &Result<_, Failure>| matches!(seen, Err(Failure::Refused { status, .. }) if Status(*status) == Status::INVALID_PARAMETER);
    let guesses = [0, 1, name ^ 1, name.wrapping_add(1), fence.handle, fence.slot.into(), u64::MAX];
    for name in guesses {
        let seen = other.attempt(OpenFence { name })?.map(drop);
        require!(is_refused(&seen), "a guessed name, {name:#x}: {seen:?}");
    }
    let seen = other.attempt(OpenAllocation { name })?.map(drop);
    require!(is_refused(&seen), "a fence's name opens an allocation: {seen:?}");
    other.ask(OpenFence { name })?;
    Ok(())
}

fn unshared(stage: &Stage) -> Result<(), Mismatch> {
    for mut program in stage.pair()? {
        for kind in [FenceKind::Native, FenceKind::Monitored] {
            let fence = program.fence(kind, false)?.fence;
            let seen = program.attempt(ShareFence { fence })?;
            let is_refused = matches!(&seen, Err(Failure::Refused { status, .. })
                if Status(*status) == Status::NOT_SUPPORTED);
            require!(is_refused, "a {kind:?} fence that is not shared: {seen:?}");
        }
    }
    Ok(())
}
