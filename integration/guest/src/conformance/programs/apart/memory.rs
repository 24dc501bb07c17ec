// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.memory.*`: each program's memory is its own.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::program::Program;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{
    Allocate, CreateQueue, Failure, FillBar, FindBytes, Finish, Read, Step, Submit, TakePages,
};
use crate::conformance::source;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation, Extent};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.memory.own-file", source::PROGRAMS, own_file)
        .shows("each program has its BAR and its memory in a file that no other program has"),
    Behaviour::new("program.memory.extents", source::PROGRAMS, extents)
        .shows("no program has an allocation over pages that are another's, or nobody's"),
    Behaviour::new("program.memory.addresses", source::PROGRAMS, addresses)
        .shows("a GPU virtual address of one program names nothing in another, which faults there"),
    Behaviour::new("program.memory.zeroed", source::PROGRAMS, zeroed)
        .shows("a program's file holds nothing of the programs that were there before"),
    Behaviour::new("program.memory.local-zeroed", source::PROGRAMS, local_zeroed)
        .shows("local memory holds nothing of the program that had it before"),
];

fn own_file(stage: &Stage) -> Result<(), Mismatch> {
    let mut programs = [stage.program(0)?, stage.program(1)?, stage.program(0)?];
    let mut files = Vec::new();
    for program in &mut programs {
        files.push(program.introduction()?.file);
    }
    files.sort_unstable();
    files.dedup();
    require!(files.len() == programs.len(), "{} programs have files {files:?}", programs.len());
    Ok(())
}

fn extents(stage: &Stage) -> Result<(), Mismatch> {
    let [mut victim, mut other] = stage.pair()?;
    let introduction = other.introduction()?;
    let first = |pages: Vec<(u64, u64)>| {
        let (address, length) = pages.first().copied().unwrap_or_default();
        Extent { address, length }
    };
    let theirs = first(victim.ask(TakePages { bytes: PAGE_SIZE })?);
    let own = first(other.ask(TakePages { bytes: PAGE_SIZE })?);
    let mut create = |extent: Extent| {
        let device = Handle(introduction.device());
        let request = CreateAllocation::fixed(device, AllocationKind::SYSTEM, extent.length, 1);
        other.status_with_list(introduction.process, &request, extent.as_bytes())
    };
    let beyond = Extent { length: 1 << 40, ..own };
    let around = Extent { address: u64::MAX - PAGE_SIZE + 1, length: 2 * PAGE_SIZE };
    for extent in [theirs, beyond, around] {
        let status = create(extent)?;
        require!(status == Status::INVALID_PARAMETER, "{extent:x?} ended with {status}");
    }
    let status = create(own)?;
    require!(status.is_success(), "a program's own page ended with {status}");
    Ok(())
}

/// Bytes of an allocation that reaches further than all that another program has.
const FAR: u64 = 4 << 20;

fn addresses(stage: &Stage) -> Result<(), Mismatch> {
    let [mut victim, mut other] = stage.pair()?;
    let placed = victim.ask(Allocate { size: FAR, shared: false, gpu: 0 })?;
    victim.run(&[Step::Fill { to: placed.gpu_va, length: FAR, pattern: 0x0101_0101 }])?;
    let last = placed.gpu_va + FAR - 8;
    let own = other.introduction()?.memory;
    for (reason, step) in [
        (FaultReason::WRITE_PAGE_FAULT, Step::Store { to: last, word: 7 }),
        (FaultReason::READ_PAGE_FAULT, Step::Copy { from: last, to: own, length: 8 }),
    ] {
        // A queue of its own, since the fault takes it.
        let queue = other.ask(CreateQueue { node: 0 })?.queue;
        let value = other.ask(Submit { queue, steps: vec![step], times: 1 })?;
        let lost = Failure::Lost { reason: reason.0, address: last };
        let seen = other.attempt(Finish { queue, value })?;
        require!(seen.as_ref() == Err(&lost), "instead of a fault: {seen:?}");
    }
    let at = victim.introduction()?.memory;
    victim.run(&[Step::Copy { from: last, to: at, length: 8 }])?;
    let word = victim.word(0)?;
    require!(word == 0x0101_0101_0101_0101, "another program's packet left {word:#x}");
    Ok(())
}

fn zeroed(stage: &Stage) -> Result<(), Mismatch> {
    for user in [0, 1, 0] {
        let mut program = stage.program(user)?;
        if let Some(at) = program.ask(FindBytes {})? {
            return Err(Mismatch::Seen(format!("byte {at} is not zero")));
        }
        program.ask(FillBar { word: u64::MAX })?;
        let found = program.ask(FindBytes {})?;
        require!(found.is_some(), "a program does not find its own bytes");
        program.kill();
    }
    Ok(())
}

/// Asserts that the first, the middle and the last bytes of an allocation in local memory are zero.
fn expect_zeroes(program: &mut Program, gpu_va: u64) -> Result<(), Mismatch> {
    const LENGTH: u64 = 4 * PAGE_SIZE;
    let own = program.introduction()?.memory;
    for at in [0, FAR / 2, FAR - LENGTH] {
        let copy = Step::Copy { from: gpu_va + at, to: own, length: LENGTH };
        program.run(&[Step::Fill { to: own, length: LENGTH, pattern: 1 }, copy])?;
        let bytes = program.ask(Read { offset: 0, length: LENGTH })?;
        let other = bytes.iter().position(|byte| *byte != 0);
        require!(other.is_none(), "byte {at} + {other:?} of local memory is not zero");
    }
    Ok(())
}

fn local_zeroed(stage: &Stage) -> Result<(), Mismatch> {
    for user in [0, 1, 0] {
        let mut program = stage.program(user)?;
        let placed = program.ask(Allocate { size: FAR, shared: false, gpu: 0 })?;
        expect_zeroes(&mut program, placed.gpu_va)?;
        let fill = Step::Fill { to: placed.gpu_va, length: FAR, pattern: 0x0505_0505 };
        program.run(&[fill])?;
        program.kill();
    }
    Ok(())
}
