// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.end.*`: programs that are killed, leave or stop, and those that they leave.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::program::Program;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{
    Allocate, FenceKind, OpenAllocation, OpenFence, ShareAllocation, ShareFence, Signal, Step,
    Submit, Wait,
};
use crate::conformance::source;
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess};
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.end.killed", source::UM_TERMINATION, killed)
        .shows("what a killed program has submitted is not executed any more"),
    Behaviour::new("program.end.fence-owner", source::FENCE_ALWAYS_SIGNALED, fence_owner)
        .shows("CPUs and queues of others continue that wait for a fence of a killed program"),
    Behaviour::new("program.end.allocation-owner", source::KMD_ALLOCATIONS, allocation_owner)
        .shows("a shared allocation of a killed program keeps its bytes for the others"),
    Behaviour::new("program.end.left", source::UM_TERMINATION, left)
        .shows("a program that ends by itself has its submissions executed first"),
    Behaviour::new("program.end.stopped", source::PROGRAMS, stopped).shows(
        "a program that is stopped in the middle delays nobody, its queue executes, and it goes on",
    ),
];

const SIZE: u64 = 64 << 10;

/// A fence of one program that the other has opened: by the number that each has for it.
pub(in crate::conformance::programs) fn shared_fence(
    one: &mut Program,
    other: &mut Program,
) -> Result<[usize; 2], Mismatch> {
    let created = one.fence(FenceKind::Native, true)?.fence;
    let name = one.ask(ShareFence { fence: created })?;
    Ok([created, other.ask(OpenFence { name })?.fence])
}

/// An allocation of one program, full of zeroes, that the other has opened: where each has it.
pub(in crate::conformance::programs) fn shared_memory(
    one: &mut Program,
    other: &mut Program,
) -> Result<[u64; 2], Mismatch> {
    let created = one.ask(Allocate { size: SIZE, shared: true, gpu: 0 })?;
    let name = one.ask(ShareAllocation { allocation: created.allocation })?;
    Ok([created.gpu_va, other.ask(OpenAllocation { name })?.gpu_va])
}

/// Kills a program; returns when its processes have ended on the device, which `other` sees.
pub(in crate::conformance::programs) fn kill_and_await_end(
    mut program: Program,
    other: &mut Program,
) -> Result<(), Mismatch> {
    let [_, fence] = shared_fence(&mut program, other)?;
    let waits = other.begin(Wait { fence, value: 1 })?;
    program.kill();
    // All waits for fences of a process that is gone end.
    waits.answer()
}

/// A word that a program's engine reads.
fn engines_word(program: &mut Program, gpu_va: u64) -> Result<u64, Mismatch> {
    let own = program.introduction()?.memory;
    program.run(&[Step::Copy { from: gpu_va, to: own, length: 8 }])?;
    program.word(0)
}

fn killed(stage: &Stage) -> Result<(), Mismatch> {
    for is_killed in [false, true] {
        let [mut one, mut other] = stage.pair()?;
        let [fence, its_fence] = shared_fence(&mut other, &mut one)?;
        let [at, its_at] = shared_memory(&mut other, &mut one)?;
        let steps =
            [Step::Wait { fence: its_fence, value: 5 }, Step::Store { to: its_at, word: 7 }];
        let value = one.submit(&steps)?;
        if is_killed {
            kill_and_await_end(one, &mut other)?;
            other.ask(Signal { fence, value: 5 })?;
        } else {
            // The same of a program that lives.
            other.ask(Signal { fence, value: 5 })?;
            one.finish(value)?;
        }
        other.expect_works()?;
        let word = engines_word(&mut other, at)?;
        let expected = if is_killed { 0 } else { 7 };
        require!(word == expected, "killed: {is_killed}; its packet left {word}");
    }
    Ok(())
}

fn fence_owner(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let [_, fence] = shared_fence(&mut one, &mut other)?;
    let held = other.submit(&[Step::Wait { fence, value: 5 }])?;
    let waits = other.begin(Wait { fence, value: 5 })?;
    one.kill();
    waits.answer()?;
    other.finish(held)?;
    other.ask(Wait { fence, value: 6 })?;
    other.expect_works()
}

fn allocation_owner(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let [at, its_at] = shared_memory(&mut one, &mut other)?;
    one.run(&[Step::Fill { to: at, length: SIZE, pattern: 3 }])?;
    kill_and_await_end(one, &mut other)?;
    for offset in [0, SIZE - 8] {
        let word = engines_word(&mut other, its_at + offset)?;
        require!(word == 0x0000_0003_0000_0003, "after its owner's end it holds {word:#x}");
    }
    other.run(&[Step::Fill { to: its_at, length: SIZE, pattern: 4 }])?;
    let word = engines_word(&mut other, its_at)?;
    require!(word == 0x0000_0004_0000_0004, "an engine's bytes are not there: {word:#x}");
    Ok(())
}

fn left(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let [at, its_at] = shared_memory(&mut other, &mut one)?;
    let own = one.introduction()?.memory;
    let fill = Step::Fill { to: own, length: 128 << 10, pattern: 1 };
    one.ask(Submit { queue: 0, steps: vec![fill; 16], times: 16 })?;
    one.submit(&[Step::Store { to: its_at, word: 7 }])?;
    one.leave()?;
    let word = engines_word(&mut other, at)?;
    require!(word == 7, "its last packet had not been executed: {word}");
    Ok(())
}

fn stopped(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let [begin, its_begin] = shared_fence(&mut other, &mut one)?;
    let [end, its_end] = shared_fence(&mut other, &mut one)?;
    let steps =
        [Step::Wait { fence: its_begin, value: 1 }, Step::Signal { fence: its_end, value: 1 }];
    let value = one.submit(&steps)?;
    let mut third = stage.program(2)?;
    one.stop()?;
    for _ in 0..20 {
        other.expect_works()?;
        let process = other.call(0, &CreateProcess { reserved: 0 })?.process;
        other.expect_status(process, &DestroyProcess { flags: 0 }, Status::SUCCESS)?;
    }
    third.expect_works()?;
    // Its queue executes without it.
    other.ask(Signal { fence: begin, value: 1 })?;
    other.ask(Wait { fence: end, value: 1 })?;
    one.go_on()?;
    one.finish(value)?;
    one.expect_works()
}
