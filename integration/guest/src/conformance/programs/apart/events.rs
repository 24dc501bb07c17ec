// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.event.*`: an event reaches the program that it is for, and no other.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::program::Program;
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::{FenceKind, Signal, TakeEvents, Told};
use crate::conformance::source;
use bellhop_guest_umd::Error;
use bellhop_guest_umd::agent::ALL_WISHES;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{FenceValue, WaitForFences};
use bellhop_protocol::event::EventKind;
use bellhop_protocol::status::Status;
use std::time::Duration;
use zerocopy::IntoBytes;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.event.own", source::PROGRAMS, own).shows(
        "of two programs that wait with one cookie, each is told of its own fence and nothing else",
    ),
    Behaviour::new("program.event.process", source::PROGRAMS, processes)
        .shows("an event names the process that it is for, of several that a program has"),
    Behaviour::new("program.event.presence", source::PROGRAMS, presence)
        .shows("every program is told that the guest's agent will stop the device, and when"),
];

/// A wait of a program's, with this cookie: what it is told at its end.
pub(super) struct Awaited {
    fence: usize,
    told: Told,
}

impl Awaited {
    /// Begins to wait for a new fence.
    pub(super) fn begin(program: &mut Program, cookie: u64) -> Result<Self, Mismatch> {
        let process = program.introduction()?.process;
        let fence = program.fence(FenceKind::Native, false)?;
        let entry = FenceValue { fence: Handle(fence.handle), value: 1 };
        let wait = WaitForFences { cookie, flags: 0, count: 1 };
        let status = program.status_with_list(process, &wait, entry.as_bytes())?;
        require!(status == Status::PENDING, "a wait ended with {status}");
        let kind = EventKind::FENCE_SIGNALED.0;
        let told = Told { kind, process, object: fence.handle, cookie };
        Ok(Self { fence: fence.fence, told })
    }

    /// Signals the fence, and asserts that the program is told that next, and nothing before.
    pub(super) fn end(self, program: &mut Program) -> Result<(), Mismatch> {
        program.ask(Signal { fence: self.fence, value: 1 })?;
        let until = EventKind::FENCE_SIGNALED.0;
        let told = program.ask(TakeEvents { until, milliseconds: 60_000 })?;
        require!(told == [self.told], "a program is told {told:?}, not {:?}", self.told);
        Ok(())
    }
}

/// Asserts that nothing was told to a program that it has not taken.
pub(super) fn expect_told_nothing(program: &mut Program) -> Result<(), Mismatch> {
    Awaited::begin(program, 1 << 40)?.end(program)
}

fn own(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    for cookie in [1 << 41, u64::MAX] {
        let first = Awaited::begin(&mut one, cookie)?;
        let second = Awaited::begin(&mut other, cookie)?;
        first.end(&mut one)?;
        second.end(&mut other)?;
    }
    Ok(())
}

fn processes(stage: &Stage) -> Result<(), Mismatch> {
    use bellhop_protocol::control::device::CreateDevice;
    use bellhop_protocol::control::fence::{CreateNativeFence, SignalFences};
    use bellhop_protocol::control::process::CreateProcess;
    let [mut one, mut other] = stage.pair()?;
    let process = one.call(0, &CreateProcess { reserved: 0 })?.process;
    let device = one.call(process, &CreateDevice { reserved: 0 })?;
    let fence = one.call(process, &CreateNativeFence::new(device, 0))?.fence;
    let entry = FenceValue { fence, value: 1 };
    let wait = WaitForFences { cookie: 9, flags: 0, count: 1 };
    one.status_with_list(process, &wait, entry.as_bytes())?;
    let signal = SignalFences { count: 1, reserved: 0 };
    let status = one.status_with_list(process, &signal, entry.as_bytes())?;
    require!(status.is_success(), "a signal ended with {status}");
    let until = EventKind::FENCE_SIGNALED.0;
    let told = one.ask(TakeEvents { until, milliseconds: 60_000 })?;
    let expected = Told { kind: until, process, object: fence.0, cookie: 9 };
    require!(told == [expected], "a program is told {told:?}, not {expected:?}");
    expect_told_nothing(&mut other)
}

fn presence(stage: &Stage) -> Result<(), Mismatch> {
    let mut pair = stage.pair()?;
    let adapter = stage.adapter()?;
    let agent = match adapter.register_agent(ALL_WISHES) {
        Err(Error::Refused { status: Status::DEVICE_BUSY, .. }) => {
            return Err(Mismatch::NotOffered("the guest has an agent already".into()));
        }
        agent => agent?,
    };
    // Nobody leaves, and the device stays.
    agent.announce_stop(Duration::from_millis(7))?;
    for program in &mut pair {
        let until = EventKind::PRESENCE_CHANGED.0;
        let told = program.ask(TakeEvents { until, milliseconds: 60_000 })?;
        let expected = Told { kind: until, process: 0, object: 0, cookie: 7 };
        require!(told == [expected], "a program is told {told:?}, not {expected:?}");
        program.expect_works()?;
    }
    Ok(())
}
