// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an agent may do to programs: it shows nothing beside them, asks before it changes what they show, and tells them
//! before it stops the device.

use crate::bench::{Bench, Client, Refused, USER_MODE, bytes};
use crate::display::{
    begin_commit, body, caps, commit, flip, monitor, path, primary, take_flipped,
};
use crate::model::Model;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::RequestToken;
use bellhop_protocol::control::agent::consent::{
    AnnounceStop, AnswerConsent, AskForConsent, Consent, Stayed,
};
use bellhop_protocol::control::agent::{
    AGENT_VERSION, ALL_WISHES, AgentResult, AgentTopology, DevicePresence, RegisterAgent,
    SetDevicePresence, UnregisterAgent, answer, printable,
};
use bellhop_protocol::control::device::DestroyDevice;
use bellhop_protocol::control::display::{CommitVidPn, Constraint, VidPnPath};
use bellhop_protocol::control::process::DestroyProcess;
use bellhop_protocol::event::{Event, EventKind, FlipOutcome};
use bellhop_protocol::status::Status;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A guest with two monitors, an agent, and two programs.
struct World {
    bench: Bench,
    guest: GuestId,
    agent: Client,
    one: Client,
    two: Client,
}

impl World {
    fn new() -> Self {
        let mut bench = Bench::of(vec![Model::with_displays(caps()).into()], Limits::default());
        let guest = bench.guest(1);
        for child in 0..2 {
            bench.model.plug(guest, child, Some(monitor()));
        }
        bench.interrupt();
        let [agent, one, two] = [(); 3].map(|()| bench.client_with(guest, USER_MODE));
        let register = RegisterAgent { version: AGENT_VERSION, wishes: ALL_WISHES };
        bench.call(agent, &register).unwrap();
        bench.events.clear();
        Self { bench, guest, agent, one, two }
    }

    fn commit(&mut self, client: Client, paths: &[VidPnPath]) -> Result<(), (Constraint, u32)> {
        commit(&mut self.bench, client, paths)
    }

    /// The events of a process since the last call, of these kinds.
    fn told(&mut self, process: u32, kind: EventKind) -> Vec<Event> {
        let is_it = |(_, event): &(GuestId, Event)| event.process == process && event.kind == kind;
        self.bench.events.extract_if(.., |event| is_it(event)).map(|(_, event)| event).collect()
    }

    /// The sources of programs that the agent is told of.
    fn sources(&mut self) -> Vec<u64> {
        let told = self.told(self.agent.process, EventKind::SOURCES_CHANGED);
        told.iter().map(|event| event.value).collect()
    }

    fn ask(&mut self) -> RequestToken {
        let question = AskForConsent {
            topology: AgentTopology::CLONE,
            connector: 0,
            width: 0,
            height: 0,
            refresh: 0,
            patience_ms: 5000,
        };
        self.bench.send(self.guest, bytes(self.agent.process, &question))
    }

    /// The question that a program got.
    fn asked(&mut self, client: Client) -> u64 {
        let [event] = self.told(client.process, EventKind::CONSENT_WANTED)[..] else { panic!() };
        assert_eq!(event.value, 5000 << 32 | u64::from(AgentTopology::CLONE.0));
        event.cookie
    }

    fn answer(
        &mut self,
        client: Client,
        number: u64,
        result: AgentResult,
        text: &str,
    ) -> Result<(), Refused> {
        let answer = answer(result, text);
        self.bench.call(client, &AnswerConsent { number, answer })
    }

    /// How a question ended: result, text and the sources of programs. `None` while it is open.
    fn consent(&self, token: RequestToken) -> Option<(AgentResult, String, u64)> {
        self.bench.reply(self.guest, token)?;
        let Consent { sources, answer } = body(&self.bench, self.guest, token);
        Some((answer.result, printable(&answer), sources))
    }
}

#[test]
fn an_agent_gives_way_to_a_program_and_shows_nothing_beside_it() {
    let mut world = World::new();
    let (agent, one) = (world.agent, world.one);
    world.commit(agent, &[path(0, 0), path(1, 1)]).unwrap();
    let shown = primary(&mut world.bench, agent);
    flip(&mut world.bench, agent, shown, 7).unwrap();
    assert!(world.sources().is_empty());
    // All of it goes, also what the program does not need. The answer comes when the hardware has let go of it.
    let committed = begin_commit(&mut world.bench, one, &[path(0, 0)]);
    assert!(world.bench.reply(world.guest, committed).is_none());
    world.bench.interrupt();
    assert_eq!(world.bench.outcome(one, committed), Some(Status::SUCCESS));
    assert_eq!(take_flipped(&mut world.bench), [(7, FlipOutcome::LOST)]);
    assert_eq!(world.sources(), [0b01]);
    let beside = world.commit(agent, &[path(1, 1)]);
    assert_eq!(beside, Err((Constraint::IN_USE, 0)));
    world.commit(agent, &[]).unwrap();
    // Programs stay apart from each other.
    let two = world.two;
    assert_eq!(world.commit(two, &[path(0, 1)]), Err((Constraint::IN_USE, 0)));
    world.commit(two, &[path(1, 1)]).unwrap();
    assert_eq!(world.sources(), [0b11]);
    world.commit(one, &[]).unwrap();
    world.bench.begin(two, &DestroyProcess { flags: 1 });
    assert_eq!(world.sources(), [0b10, 0]);
    world.commit(agent, &[path(0, 0), path(1, 1)]).unwrap();
    // A process that is the agent no longer keeps what it shows.
    world.bench.call(agent, &UnregisterAgent { reserved: 0 }).unwrap();
    assert_eq!(world.commit(one, &[path(0, 0)]), Err((Constraint::IN_USE, 0)));
}

#[test]
fn an_agent_is_told_who_shows_something_when_it_registers() {
    let mut world = World::new();
    let (agent, one) = (world.agent, world.one);
    world.bench.call(agent, &UnregisterAgent { reserved: 0 }).unwrap();
    world.commit(one, &[path(1, 0)]).unwrap();
    assert!(world.sources().is_empty());
    let register = RegisterAgent { version: AGENT_VERSION, wishes: ALL_WISHES };
    world.bench.call(agent, &register).unwrap();
    assert_eq!(world.sources(), [0b10]);
}

#[test]
fn a_question_is_settled_when_all_agree_or_one_refuses() {
    let mut world = World::new();
    let (one, two) = (world.one, world.two);
    let nobody = world.ask();
    assert_eq!(world.consent(nobody), Some((AgentResult::DONE, String::new(), 0)));
    world.commit(one, &[path(0, 0)]).unwrap();
    world.commit(two, &[path(1, 1)]).unwrap();
    let question = world.ask();
    let numbers = [world.asked(one), world.asked(two)];
    let second = world.ask();
    let (header, _) = world.bench.reply(world.guest, second).unwrap();
    assert_eq!(header.status, Status::DEVICE_BUSY);
    world.answer(one, numbers[0], AgentResult::DONE, "as it is").unwrap();
    for wrong in [AgentResult::DONE, AgentResult::FAILED] {
        assert!(world.answer(one, numbers[0], wrong, "again").is_err());
    }
    assert!(world.answer(world.agent, numbers[0], AgentResult::DONE, "").is_err());
    assert!(world.answer(two, numbers[1], AgentResult::TIMED_OUT, "").is_err());
    assert_eq!(world.consent(question), None);
    // Who lets go need not answer.
    world.commit(two, &[]).unwrap();
    let agreed = (AgentResult::DONE, "as it is".to_owned(), 0b01);
    assert_eq!(world.consent(question), Some(agreed));
    let question = world.ask();
    let number = world.asked(one);
    world.answer(one, number, AgentResult::FAILED, "a film runs").unwrap();
    let refused = (AgentResult::FAILED, "a film runs".to_owned(), 0b01);
    assert_eq!(world.consent(question), Some(refused));
}

#[test]
fn who_does_not_answer_in_time_loses_what_it_shows_and_may_show_again() {
    let mut world = World::new();
    let (one, two) = (world.one, world.two);
    world.commit(one, &[path(0, 0)]).unwrap();
    world.commit(two, &[path(1, 1)]).unwrap();
    let shown = primary(&mut world.bench, one);
    flip(&mut world.bench, one, shown, 7).unwrap();
    let question = world.ask();
    let number = world.asked(two);
    world.answer(two, number, AgentResult::DONE, "").unwrap();
    world.bench.later(4 * SECOND);
    assert_eq!(world.consent(question), None);
    world.bench.later(SECOND);
    let (result, _, sources) = world.consent(question).unwrap();
    assert_eq!((result, sources), (AgentResult::TIMED_OUT, 0b10));
    assert_eq!(take_flipped(&mut world.bench), [(7, FlipOutcome::LOST)]);
    let [taken] = world.told(one.process, EventKind::SOURCES_CHANGED)[..] else { panic!() };
    assert_eq!(taken.value, 0);
    assert_eq!(world.told(two.process, EventKind::SOURCES_CHANGED), []);
    let number = world.asked(one);
    assert!(world.answer(one, number, AgentResult::DONE, "late").is_err());
    world.commit(one, &[path(0, 0)]).unwrap();
}

#[test]
fn an_agent_that_ends_leaves_no_question() {
    let mut world = World::new();
    let (agent, one) = (world.agent, world.one);
    world.commit(one, &[path(0, 0)]).unwrap();
    let question = world.ask();
    let number = world.asked(one);
    let stop = bytes(agent.process, &AnnounceStop { patience_ms: 9000, reserved: 0 });
    let stop = world.bench.send(world.guest, stop);
    world.bench.call(agent, &UnregisterAgent { reserved: 0 }).unwrap();
    for token in [question, stop] {
        let (header, _) = world.bench.reply(world.guest, token).unwrap();
        assert_eq!(header.status, Status::NOT_SUPPORTED);
    }
    assert!(world.answer(one, number, AgentResult::DONE, "").is_err());
    world.bench.later(10 * SECOND);
    assert_eq!(world.told(one.process, EventKind::SOURCES_CHANGED), []);
}

#[test]
fn programs_are_told_to_leave_and_the_agent_waits_no_longer_than_it_said() {
    let mut world = World::new();
    let (agent, one, two) = (world.agent, world.one, world.two);
    let announce = bytes(agent.process, &AnnounceStop { patience_ms: 2000, reserved: 0 });
    let stayed = |world: &World, token| -> Option<u32> {
        world.bench.reply(world.guest, token)?;
        Some(body::<Stayed>(&world.bench, world.guest, token).processes)
    };
    let told = |world: &mut World| -> Vec<(u64, u64)> {
        let told = world.told(0, EventKind::PRESENCE_CHANGED);
        told.iter().map(|event| (event.value, event.cookie)).collect()
    };
    let [started, stopped] =
        [DevicePresence::STARTED, DevicePresence::STOPPED].map(|presence| u64::from(presence.0));
    let first = world.bench.send(world.guest, announce.clone());
    assert_eq!(told(&mut world), [(stopped, 2000)]);
    world.bench.begin(one, &DestroyProcess { flags: 1 });
    world.bench.pass_tickets();
    world.bench.later(SECOND);
    assert_eq!(stayed(&world, first), None);
    world.bench.later(SECOND);
    assert_eq!(stayed(&world, first), Some(1));
    // The other one keeps its process, and leaves the device.
    let second = world.bench.send(world.guest, announce);
    assert_eq!(stayed(&world, second), None);
    world.bench.begin(two, &DestroyDevice { device: two.device });
    world.bench.pass_tickets();
    assert_eq!(stayed(&world, second), Some(0));
    told(&mut world);
    let set = |world: &mut World, presence| {
        world.bench.begin(agent, &SetDevicePresence { presence, reserved: 0 });
        world.bench.pass_tickets();
    };
    set(&mut world, DevicePresence::STOPPED);
    set(&mut world, DevicePresence::STOPPED);
    assert_eq!(told(&mut world), [(stopped, 0)]);
    world.bench.call(agent, &UnregisterAgent { reserved: 0 }).unwrap();
    assert_eq!(told(&mut world), [(started, 0)]);
}

/// A commit of nothing, as bytes: it is no reason for the agent to give way.
#[test]
fn a_program_that_shows_nothing_takes_nothing() {
    let mut world = World::new();
    let (agent, one) = (world.agent, world.one);
    world.commit(agent, &[path(0, 0)]).unwrap();
    world
        .bench
        .call_with_list(one, &CommitVidPn { paths: 0, reserved: 0 }, &[] as &[VidPnPath])
        .unwrap();
    assert!(world.sources().is_empty());
    let beside = world.bench.events.iter().any(|(_, event)| event.kind == EventKind::FLIPPED);
    assert!(!beside);
}
