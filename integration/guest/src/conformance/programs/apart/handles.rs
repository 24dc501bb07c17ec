// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.process.*`: processes' numbers and handles mean something to their own program alone.

use crate::conformance::behaviour::{Behaviour, Mismatch};
use crate::conformance::programs::program::Program;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{Allocate, CreateQueue, FenceKind};
use crate::conformance::source;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::DestroyAllocation;
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::fence::{DestroyNativeFence, ShareNativeFence};
use bellhop_protocol::control::hw_queue::DestroyHwQueue;
use bellhop_protocol::control::process::{DestroyProcess, SetObjectName, TERMINATED_ABNORMALLY};
use bellhop_protocol::status::Status;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.process.unknown", source::PROGRAMS, unknown)
        .shows("another program's process is as unknown as one that nobody has"),
    Behaviour::new("program.process.ended", source::PROGRAMS, ended)
        .shows("no program ends another program's process"),
    Behaviour::new("program.handle.apart", source::PROGRAMS, apart).shows(
        "a handle of one program's device, queue, fence or allocation destroys and names nothing from another",
    ),
];

fn unknown(stage: &Stage) -> Result<(), Mismatch> {
    let [mut victim, mut other] = stage.pair()?;
    let theirs = victim.introduction()?.process;
    for forged in [theirs, 0, u32::MAX] {
        let request = CreateDevice { reserved: 0 };
        other.expect_status(forged, &request, Status::INVALID_HANDLE)?;
    }
    let own = other.introduction()?.process;
    other.expect_status(own, &CreateDevice { reserved: 0 }, Status::SUCCESS)
}

fn ended(stage: &Stage) -> Result<(), Mismatch> {
    let [mut victim, mut other] = stage.pair()?;
    let theirs = victim.introduction()?.process;
    for flags in [0, TERMINATED_ABNORMALLY] {
        other.expect_status(theirs, &DestroyProcess { flags }, Status::INVALID_HANDLE)?;
        victim.expect_works()?;
    }
    Ok(())
}

/// Has a program create objects until its next handles are none that a program has that just began.
pub(super) fn use_up_handles(program: &mut Program) -> Result<(), Mismatch> {
    for _ in 0..64 {
        program.fence(FenceKind::Native, false)?;
    }
    Ok(())
}

fn apart(stage: &Stage) -> Result<(), Mismatch> {
    let [mut victim, mut other] = stage.pair()?;
    let own = other.introduction()?.process;
    use_up_handles(&mut victim)?;
    let process = victim.introduction()?.process;
    let device = victim.call(process, &CreateDevice { reserved: 0 })?;
    let queue = Handle(victim.ask(CreateQueue { node: 0 })?.handle);
    let fence = Handle(victim.fence(FenceKind::Native, true)?.handle);
    let allocation = victim.ask(Allocate { size: 4096, shared: false, gpu: 0 })?;
    let allocation = Handle(allocation.handle);
    let unknown = Status::INVALID_HANDLE;
    other.expect_status(own, &DestroyDevice { device }, unknown)?;
    other.expect_status(own, &DestroyHwQueue { hw_queue: queue }, unknown)?;
    other.expect_status(own, &DestroyNativeFence { fence }, unknown)?;
    other.expect_status(own, &ShareNativeFence { fence }, unknown)?;
    other.expect_status(own, &DestroyAllocation { allocation }, unknown)?;
    for object in [device, queue, fence, allocation] {
        other.expect_status(own, &SetObjectName::new(object, "theirs"), unknown)?;
        other.expect_status(process, &SetObjectName::new(object, "theirs"), unknown)?;
        victim.expect_status(process, &SetObjectName::new(object, "mine"), Status::SUCCESS)?;
    }
    // All of it is there.
    victim.expect_status(process, &ShareNativeFence { fence }, Status::SUCCESS)?;
    victim.expect_status(process, &DestroyDevice { device }, Status::SUCCESS)?;
    victim.expect_works()
}
