// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.shared-memory.*`: allocations that programs have together.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::apart::{shared_fence, shared_memory};
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{
    Allocate, DropAllocation, Failure, OpenAllocation, OpenFence, ShareAllocation, Step,
};
use crate::conformance::source;
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.shared-memory.gpu", source::KMD_ALLOCATIONS, gpu).shows(
        "what one program's engine writes another's reads, in the order that a shared fence gives",
    ),
    Behaviour::new("program.shared-memory.names", source::KMD_ALLOCATIONS, names)
        .shows("only whoever was told an allocation's name opens it, and it names no fence"),
    Behaviour::new("program.shared-memory.lifetime", source::KMD_ALLOCATIONS, lifetime).shows(
        "a shared allocation outlives its program's use of it, and goes with the last that has it",
    ),
    Behaviour::new("program.shared-memory.unshared", source::KMD_ALLOCATIONS, unshared)
        .shows("an allocation that was not created to be shared gets no name"),
];

/// Whether a program was refused with this status.
fn is_refused<T>(seen: &Result<T, Failure>, expected: Status) -> bool {
    matches!(seen, Err(Failure::Refused { status, .. }) if Status(*status) == expected)
}

fn gpu(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let [fence, its_fence] = shared_fence(&mut one, &mut other)?;
    let [at, its_at] = shared_memory(&mut one, &mut other)?;
    let own = one.introduction()?.memory;
    let its_own = other.introduction()?.memory;
    for round in 0..8u32 {
        let (odd, even) = (2 * u64::from(round) + 1, 2 * u64::from(round) + 2);
        let (first, second) = (0x100 + round, 0x200 + round);
        // The other's queue has its work first, and waits.
        let held = other.submit(&[
            Step::Wait { fence: its_fence, value: odd },
            Step::Copy { from: its_at + 4096, to: its_own, length: 8 },
            Step::Fill { to: its_at, length: 8192, pattern: second },
            Step::Signal { fence: its_fence, value: even },
        ])?;
        one.run(&[
            Step::Fill { to: at, length: 8192, pattern: first },
            Step::Signal { fence, value: odd },
            Step::Wait { fence, value: even },
            Step::Copy { from: at, to: own, length: 8 },
        ])?;
        other.finish(held)?;
        let words = (other.word(0)? as u32, one.word(0)? as u32);
        require!(words == (first, second), "the engines read {words:x?}");
    }
    Ok(())
}

fn names(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let placed = one.ask(Allocate { size: 4096, shared: true, gpu: 0 })?;
    let name = one.ask(ShareAllocation { allocation: placed.allocation })?;
    for guess in [0, 1, name ^ 1, name.wrapping_add(1), placed.handle, u64::MAX] {
        let seen = other.attempt(OpenAllocation { name: guess })?;
        require!(is_refused(&seen, Status::INVALID_PARAMETER), "{guess:#x}: {seen:?}");
    }
    let seen = other.attempt(OpenFence { name })?;
    require!(is_refused(&seen, Status::INVALID_PARAMETER), "it opens a fence: {seen:?}");
    other.ask(OpenAllocation { name })?;
    Ok(())
}

fn lifetime(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let created = one.ask(Allocate { size: 4096, shared: true, gpu: 0 })?;
    let name = one.ask(ShareAllocation { allocation: created.allocation })?;
    one.run(&[Step::Fill { to: created.gpu_va, length: 4096, pattern: 6 }])?;
    let opened = other.ask(OpenAllocation { name })?;
    one.ask(DropAllocation { allocation: created.allocation })?;
    let own = other.introduction()?.memory;
    other.run(&[Step::Copy { from: opened.gpu_va + 4088, to: own, length: 8 }])?;
    let word = other.word(0)?;
    require!(word == 0x0000_0006_0000_0006, "after its first program let go it holds {word:#x}");
    other.ask(DropAllocation { allocation: opened.allocation })?;
    let seen = one.attempt(OpenAllocation { name })?;
    require!(is_refused(&seen, Status::INVALID_PARAMETER), "nobody has it: {seen:?}");
    Ok(())
}

fn unshared(stage: &Stage) -> Result<(), Mismatch> {
    for mut program in stage.pair()? {
        let allocation = program.ask(Allocate { size: 4096, shared: false, gpu: 0 })?.allocation;
        let seen = program.attempt(ShareAllocation { allocation })?;
        require!(is_refused(&seen, Status::NOT_SUPPORTED), "it is shared: {seen:?}");
    }
    Ok(())
}
