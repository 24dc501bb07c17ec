// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whose the programs are, and what their user does not let them do.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::stage::Stage;
use crate::conformance::programs::wire::OpenFile;
use crate::conformance::source;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::DonateArea;
use bellhop_protocol::control::agent::consent::{AnnounceStop, AskForConsent};
use bellhop_protocol::control::agent::{AGENT_VERSION, ALL_WISHES, AgentTopology, RegisterAgent};
use bellhop_protocol::control::escape::{Escape, ObjectList};
use bellhop_protocol::control::power::{DevicePowerState, SetDevicePower};
use bellhop_protocol::control::process::CreateProcessWithBar;
use bellhop_protocol::status::Status;
use zerocopy::FromZeros;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.user.unprivileged", source::PROGRAMS, unprivileged)
        .shows("programs of several users, without a capability, submit through their doorbells"),
    Behaviour::new("program.user.files", source::PROGRAMS, files)
        .shows("a program opens neither the memory nor a descriptor of another user's program"),
    Behaviour::new("program.user.whole-guest", source::PROGRAMS, whole_guest)
        .shows("no program changes power or donates memory"),
    Behaviour::new("program.user.lists", source::PROGRAMS, lists)
        .shows("a program of a user without privileges does not list what other programs have"),
    Behaviour::new("program.user.agent", source::PROGRAMS, agent).shows(
        "a program of a user without privileges does not become the guest's agent, nor acts as it",
    ),
];

fn unprivileged(stage: &Stage) -> Result<(), Mismatch> {
    stage.needs_users()?;
    let mut programs = [stage.program(0)?, stage.program(1)?, stage.program(2)?];
    let mut users = Vec::new();
    for program in &mut programs {
        let introduction = program.introduction()?;
        let capabilities = introduction.capabilities;
        require!(capabilities == 0, "a program has capabilities: {capabilities:#x}");
        users.push(introduction.user);
        program.expect_works()?;
    }
    users.dedup();
    require!(users.len() == 3, "the programs are of users {users:?}");
    Ok(())
}

fn files(stage: &Stage) -> Result<(), Mismatch> {
    stage.needs_users()?;
    let [mut victim, mut other] = stage.pair()?;
    let process = victim.introduction()?.os_process;
    let descriptors = (0..32).map(|number| format!("fd/{number}"));
    for file in descriptors.chain(["mem".to_owned(), "maps".to_owned()]) {
        let path = format!("/proc/{process}/{file}");
        require!(!other.ask(OpenFile { path })?, "{file} of another user's program opens");
    }
    // What is refused is there.
    let path = format!("/proc/{process}/mem");
    require!(victim.ask(OpenFile { path })?, "a program does not open its own memory");
    Ok(())
}

fn whole_guest(stage: &Stage) -> Result<(), Mismatch> {
    let [mut victim, mut other] = stage.pair()?;
    let theirs = victim.introduction()?.process;
    let own = other.introduction()?.process;
    let refused = Status::NOT_SUPPORTED;
    let d3 = SetDevicePower { state: DevicePowerState::D3, reserved: 0 };
    other.expect_status(0, &d3, refused)?;
    other.expect_status(0, &DonateArea::new_zeroed(), refused)?;
    for beside in [theirs, own, 0] {
        let bar =
            CreateProcessWithBar { beside, extent_count: 0, doorbell_count: 0, fence_count: 0 };
        other.expect_status(0, &bar, refused)?;
    }
    victim.expect_works()
}

fn lists(stage: &Stage) -> Result<(), Mismatch> {
    stage.needs_users()?;
    let [mut victim, mut other] = stage.pair()?;
    let theirs = victim.introduction()?.process;
    let own = other.introduction()?.process;
    for list in [ObjectList::PROCESSES, ObjectList::DEVICES, ObjectList::CONTEXTS] {
        for process in [theirs, own, 0] {
            let escape = Escape { list, process, parent: Handle(0), after: 0 };
            other.expect_status(0, &escape, Status::NOT_SUPPORTED)?;
        }
    }
    victim.expect_works()
}

fn agent(stage: &Stage) -> Result<(), Mismatch> {
    stage.needs_users()?;
    for mut program in stage.pair()? {
        let process = program.introduction()?.process;
        let register = RegisterAgent { version: AGENT_VERSION, wishes: ALL_WISHES };
        program.expect_status(process, &register, Status::NOT_SUPPORTED)?;
        let mut question = AskForConsent::new_zeroed();
        (question.topology, question.patience_ms) = (AgentTopology::OFF, 1);
        program.expect_status(process, &question, Status::NOT_SUPPORTED)?;
        let stop = AnnounceStop { patience_ms: 1, reserved: 0 };
        program.expect_status(process, &stop, Status::NOT_SUPPORTED)?;
        program.expect_works()?;
    }
    Ok(())
}
