// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's agent: who may be it, what it is asked for, and what its absence and its malice cost.

use crate::bench::{Bench, DEVICE_IDLE, Refused};
use bellhop_host_kmd::hardware::{EngineState, GpuOrdinal, GuestId, Interrupt};
use bellhop_host_kmd::port::{Command, RequestToken};
use bellhop_protocol::control::agent::{
    AGENT_VERSION, ALL_WISHES, AgentAnswer, AgentInfo, AgentResult, AgentTopology, AgentWish,
    AnswerAgentRequest, AskAgent, DevicePresence, PowerPolicy, QueryAgent, RecoveryKind,
    RegisterAgent, SetDevicePresence, SetPowerPolicy, UnregisterAgent, answer, printable,
};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::power::{DevicePowerState, QueryPower};
use bellhop_protocol::control::process::DestroyProcess;
use bellhop_protocol::control::{ReplyHeader, RequestCode, RequestHeader};
use bellhop_protocol::event::{Event, EventKind, FaultReason};
use bellhop_protocol::features::Version;
use bellhop_protocol::status::Status;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

const PATIENCE: Duration = Duration::from_secs(10);
const REGISTER: RegisterAgent = RegisterAgent { version: AGENT_VERSION, wishes: ALL_WISHES };

/// A guest with an agent and another process.
struct World {
    bench: Bench,
    guest: GuestId,
    agent: u32,
    other: u32,
}

fn wish(wish: AgentWish, argument: u32) -> AskAgent {
    AskAgent { wish, argument, connector: 0, width: 0, height: 0, refresh: 0 }
}

const STOP: AskAgent =
    AskAgent { wish: AgentWish::STOP, argument: 0, connector: 0, width: 0, height: 0, refresh: 0 };

impl World {
    fn new() -> Self {
        let mut bench = Bench::new(4);
        let guest = bench.guest(1);
        let (agent, other) = (bench.process(guest), bench.process(guest));
        let registered = bench.ask(guest, agent, &REGISTER).unwrap();
        assert_eq!((registered.version, registered.patience_ms), (AGENT_VERSION, 10_000));
        Self { bench, guest, agent, other }
    }

    fn info(&mut self) -> AgentInfo {
        self.bench.ask(self.guest, 0, &QueryAgent { reserved: 0 }).unwrap()
    }

    /// The events of the agent since the last call.
    fn told(&mut self) -> Vec<Event> {
        let events = std::mem::take(&mut self.bench.events).into_iter();
        let (guest, agent) = (self.guest, self.agent);
        events.filter(|(of, event)| *of == guest && event.process == agent).map(|of| of.1).collect()
    }

    /// A program asks the agent.
    fn ask(&mut self, request: &AskAgent) -> RequestToken {
        self.bench.send(self.guest, crate::bench::bytes(self.other, request))
    }

    /// What the program was answered.
    fn answered(&self, token: RequestToken) -> Option<AgentAnswer> {
        let (header, body) = self.bench.reply(self.guest, token)?;
        assert_eq!(header.status, Status::SUCCESS);
        Some(AgentAnswer::read_from_bytes(body).unwrap())
    }

    fn answer(&mut self, number: u64, answer: AgentAnswer) -> Result<(), Refused> {
        self.bench.ask(self.guest, self.agent, &AnswerAgentRequest { number, answer })
    }
}

#[test]
fn a_request_reaches_the_agent_as_an_event_and_its_answer_whoever_asked() {
    let mut world = World::new();
    let mode = AskAgent {
        connector: 1,
        width: 1920,
        height: 1080,
        refresh: 59_940,
        ..wish(AgentWish::TOPOLOGY, AgentTopology::MODE.0)
    };
    let program = world.ask(&mode);
    let [event] = world.told()[..] else { panic!() };
    assert_eq!((event.kind, event.value, event.object), (EventKind::TOPOLOGY_WANTED, 6, 1));
    assert_eq!((event.context, event.time), (1080 << 32 | 1920, 59_940));
    let policy = wish(AgentWish::POWER_POLICY, PowerPolicy::SAVING.0);
    let operator = world.bench.operator_asks(world.guest, policy);
    let [second] = world.told()[..] else { panic!() };
    assert_eq!((second.kind, second.value), (EventKind::POWER_POLICY_WANTED, 3));
    assert_ne!(second.cookie, event.cookie);
    assert!(world.answered(program).is_none() && world.bench.answers.is_empty());
    let done = answer(AgentResult::DONE, "saving");
    world.answer(second.cookie, done).unwrap();
    assert_eq!(world.bench.answers[&operator], done);
    let failed = answer(AgentResult::FAILED, "no such mode");
    world.answer(event.cookie, failed).unwrap();
    assert_eq!(world.answered(program), Some(failed));
    let info = world.info();
    assert_eq!((info.asked, info.answered, info.pending, info.refused), (2, 2, 0, 0));
}

#[test]
fn without_an_agent_each_who_asks_is_told_so_at_once() {
    let mut world = World::new();
    world.bench.ask(world.guest, world.agent, &UnregisterAgent { reserved: 0 }).unwrap();
    let program = world.ask(&STOP);
    assert_eq!(world.answered(program).unwrap().result, AgentResult::NO_AGENT);
    for guest in [world.guest, GuestId(99)] {
        let operator = world.bench.operator_asks(guest, STOP);
        let said = world.bench.answers[&operator];
        assert_eq!(said.result, AgentResult::NO_AGENT);
        assert_eq!(printable(&said), "no agent is running in the guest");
    }
    // An agent that knows only one wish is asked for nothing else.
    let only = RegisterAgent { wishes: 1 << AgentWish::START.0, ..REGISTER };
    world.bench.ask(world.guest, world.agent, &only).unwrap();
    let operator = world.bench.operator_asks(world.guest, STOP);
    assert_eq!(world.bench.answers[&operator].result, AgentResult::NOT_SUPPORTED);
    assert_eq!(world.told(), []);
}

#[test]
fn an_agent_that_never_answers_costs_those_who_ask_their_patience_and_nobody_else_anything() {
    let mut world = World::new();
    let operator = world.bench.operator_asks(world.guest, STOP);
    world.bench.later(PATIENCE / 2);
    let programs: Vec<_> = (0..3).map(|_| world.ask(&STOP)).collect();
    let fifth = world.bench.operator_asks(world.guest, STOP);
    assert_eq!(world.bench.answers[&fifth].result, AgentResult::BUSY);
    let neighbour = world.bench.guest(2);
    world.bench.client(neighbour);
    world.bench.later(PATIENCE / 2);
    assert_eq!(world.bench.answers[&operator].result, AgentResult::TIMED_OUT);
    assert!(programs.iter().all(|token| world.answered(*token).is_none()));
    world.bench.later(PATIENCE / 2);
    for token in programs {
        assert_eq!(world.answered(token).unwrap().result, AgentResult::TIMED_OUT);
    }
    // An answer that comes too late answers nothing.
    for event in world.told() {
        let late = world.answer(event.cookie, answer(AgentResult::DONE, ""));
        assert_eq!(late, Err((Status::INVALID_PARAMETER, event.cookie)));
    }
    assert_eq!(world.info().refused, 4);
}

#[test]
fn an_answer_counts_once_and_only_from_the_agent() {
    let mut world = World::new();
    let program = world.ask(&STOP);
    let number = world.told()[0].cookie;
    let done = answer(AgentResult::DONE, "");
    let request = AnswerAgentRequest { number, answer: done };
    let other = world.bench.ask(world.guest, world.other, &request);
    assert_eq!(other, Err((Status::NOT_SUPPORTED, world.other.into())));
    for wrong in [
        AgentAnswer { result: AgentResult::TIMED_OUT, ..done },
        AgentAnswer { result: AgentResult(77), ..done },
        AgentAnswer { length: 257, ..done },
        AgentAnswer { length: u32::MAX, ..done },
        AgentAnswer { length: 0, ..answer(AgentResult::DONE, "x") },
    ] {
        assert_eq!(world.answer(number, wrong).unwrap_err().0, Status::INVALID_PARAMETER);
    }
    assert!(world.answered(program).is_none());
    world.answer(number, done).unwrap();
    assert_eq!(world.answer(number, done), Err((Status::INVALID_PARAMETER, number)));
    assert_eq!(world.answered(program), Some(done));
    // Another guest's agent cannot answer either.
    let stranger = world.bench.guest(2);
    let process = world.bench.process(stranger);
    world.bench.ask(stranger, process, &REGISTER).unwrap();
    let program = world.ask(&STOP);
    let number = world.told()[0].cookie;
    let foreign = world.bench.ask(stranger, process, &AnswerAgentRequest { number, answer: done });
    assert_eq!(foreign, Err((Status::INVALID_PARAMETER, number)));
    assert!(world.answered(program).is_none());
    assert_eq!(world.info().refused, 7);
}

#[test]
fn a_guest_has_one_agent_and_of_one_version() {
    let mut world = World::new();
    let second = world.bench.ask(world.guest, world.other, &REGISTER);
    assert_eq!(second.unwrap_err(), (Status::DEVICE_BUSY, world.agent.into()));
    let version = Version { major: 2, minor: 0 };
    let newer = RegisterAgent { version, ..REGISTER };
    let newer = world.bench.ask(world.guest, world.other, &newer);
    assert_eq!(newer.unwrap_err(), (Status::REVISION_MISMATCH, 0x1_0001));
    world.bench.ask(world.guest, world.agent, &DestroyProcess { flags: 0 }).unwrap();
    world.bench.ask(world.guest, world.other, &REGISTER).unwrap();
    assert_eq!(world.info().process, world.other);
}

#[test]
fn the_end_of_an_agent_ends_what_it_was_asked_for_and_what_it_had_set() {
    let mut world = World::new();
    let saving = SetPowerPolicy { policy: PowerPolicy::SAVING, reserved: 0 };
    let stopped = SetDevicePresence { presence: DevicePresence::STOPPED, reserved: 0 };
    world.bench.ask(world.guest, world.agent, &saving).unwrap();
    world.bench.ask(world.guest, world.agent, &stopped).unwrap();
    let operator = world.bench.operator_asks(world.guest, STOP);
    let abnormal = DestroyProcess { flags: 1 };
    world.bench.ask(world.guest, world.agent, &abnormal).unwrap();
    assert_eq!(world.bench.answers[&operator].result, AgentResult::AGENT_ENDED);
    let info = world.info();
    assert_eq!(
        (info.process, info.policy, info.presence),
        (0, PowerPolicy::BALANCED, DevicePresence::STARTED)
    );
    // An agent of a guest that detaches ends too, and only the operator is told.
    world.bench.ask(world.guest, world.other, &REGISTER).unwrap();
    let operator = world.bench.operator_asks(world.guest, STOP);
    world.ask(&STOP);
    world.bench.input(bellhop_host_kmd::port::Input::Detach { guest: world.guest });
    assert_eq!(world.bench.answers[&operator].result, AgentResult::AGENT_ENDED);
    assert_eq!(world.bench.detached, [world.guest]);
    assert!(world.bench.model.is_empty());
}

#[test]
fn a_device_that_its_agent_stops_is_lost_and_takes_no_work_until_it_is_started() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let (client, _) = bench.connected(guest);
    let neighbour = bench.guest(2);
    bench.connected(neighbour);
    let agent = bench.process(guest);
    bench.ask(guest, agent, &REGISTER).unwrap();
    let set = |presence| SetDevicePresence { presence, reserved: 0 };
    let other = bench.call(client, &set(DevicePresence::STOPPED));
    assert_eq!(other.unwrap_err().0, Status::NOT_SUPPORTED);
    bench.ask(guest, agent, &set(DevicePresence::STOPPED)).unwrap();
    let lost = bench.events.iter().filter(|(_, event)| event.kind == EventKind::HW_QUEUE_ERROR);
    let faults: Vec<_> = lost.map(|(of, event)| (*of, event.reason)).collect();
    assert_eq!(faults, [(guest, FaultReason::DEVICE_STOPPED)]);
    let device = bench.call(client, &CreateDevice { reserved: 0 });
    assert_eq!(device.unwrap_err(), (Status::DEVICE_REMOVED, 0));
    bench.ask(guest, agent, &set(DevicePresence::STARTED)).unwrap();
    bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    let unknown = bench.ask(guest, agent, &set(DevicePresence(3)));
    assert_eq!(unknown.unwrap_err(), (Status::INVALID_PARAMETER, 3));
}

#[test]
fn an_agent_is_told_of_a_gpu_that_leaves_and_arrives_and_of_recoveries() {
    let mut world = World::new();
    world.bench.client(world.guest);
    world.bench.command(Command::TakeGpu(world.guest, GpuOrdinal::MASTER));
    world.bench.command(Command::GiveGpu(world.guest, GpuOrdinal::MASTER));
    let kinds = |events: Vec<Event>| events.iter().map(|event| event.kind).collect::<Vec<_>>();
    assert_eq!(kinds(world.told()), [EventKind::GPU_LEFT, EventKind::GPU_ARRIVED]);
    let client = world.bench.client(world.guest);
    world.bench.model.take_log();
    let fault = bellhop_host_kmd::hardware::Fault::new(
        FaultReason::ENGINE_TIMEOUT,
        bellhop_protocol::packet::Opcode::NOP,
        2000,
    );
    world.bench.hung(client.id, fault);
    let log = world.bench.model.take_log();
    let fence = log.iter().find_map(|call| match call {
        crate::model::Call::Preempt(_, fence) => Some(*fence),
        _ => None,
    });
    world.bench.preempted(0, fence.unwrap());
    let told = world.told();
    let [event] = told[..] else { panic!("{told:?}") };
    assert_eq!((event.kind, event.object), (EventKind::RECOVERED, 0));
    assert_eq!(event.value, u64::from(RecoveryKind::QUEUE.0));
}

/// All engines go to F1.
fn idle(bench: &mut Bench) {
    for node in 0..2 {
        let new_state = EngineState::TransitionToF1;
        bench.raise(Interrupt::GpuEngineStateChange { node, new_state });
    }
}

#[test]
fn guests_power_policies_decide_when_an_idle_adapter_powers_down() {
    const MOMENT: Duration = Duration::from_nanos(1);
    let (balanced, saving) = (PowerPolicy::BALANCED, PowerPolicy::SAVING);
    for (policies, expected) in [
        ([balanced, balanced], Some(DEVICE_IDLE)),
        ([saving, balanced], Some(DEVICE_IDLE)),
        ([saving, saving], Some(MOMENT)),
        ([saving, PowerPolicy::PERFORMANCE], None),
    ] {
        let mut bench = Bench::new(4);
        for (number, policy) in (1..).zip(policies) {
            let guest = bench.guest(number);
            let process = bench.process(guest);
            bench.ask(guest, process, &REGISTER).unwrap();
            bench.ask(guest, process, &SetPowerPolicy { policy, reserved: 0 }).unwrap();
        }
        idle(&mut bench);
        let device = |bench: &mut Bench| {
            bench.ask(GuestId(1), 0, &QueryPower { node: 0, reserved: 0 }).unwrap().device
        };
        let all = 10 * DEVICE_IDLE;
        let before = expected.unwrap_or(all) - MOMENT;
        if !before.is_zero() {
            bench.later(before);
            assert_eq!(device(&mut bench), DevicePowerState::D0, "{policies:?}");
        }
        bench.later(MOMENT);
        let is_off = device(&mut bench) == DevicePowerState::D3;
        assert_eq!(is_off, expected.is_some(), "{policies:?}");
    }
}

#[test]
fn escapes_that_there_are_not_are_refused_and_counted() {
    let mut world = World::new();
    for code in (0x9A..=0x9F).chain([0xFF_u32]) {
        let header = RequestHeader {
            code: RequestCode(code),
            length: 16,
            process: world.agent,
            reserved: 0,
        };
        let refused = world.bench.raw(world.guest, header.as_bytes().to_vec());
        assert_eq!(refused, (Status::INVALID_DEVICE_REQUEST, code.into()));
    }
    // 0xFF is in another namespace.
    assert_eq!(world.info().refused, 6);
    for request in [
        wish(AgentWish(0), 0),
        wish(AgentWish(5), 0),
        wish(AgentWish::STOP, 1),
        wish(AgentWish::TOPOLOGY, 0),
        wish(AgentWish::TOPOLOGY, AgentTopology::ROTATE.0),
        wish(AgentWish::TOPOLOGY, 8),
        wish(AgentWish::POWER_POLICY, 4),
        AskAgent { width: 1, ..wish(AgentWish::TOPOLOGY, AgentTopology::EXTEND.0) },
        AskAgent { connector: 1, ..STOP },
    ] {
        let token = world.ask(&request);
        let (header, _) = world.bench.reply(world.guest, token).unwrap();
        let ReplyHeader { status, .. } = header;
        assert_eq!(status, Status::INVALID_PARAMETER, "{request:?}");
    }
    assert_eq!(world.info().refused, 15);
    assert_eq!(world.told(), []);
    // Before the adapter is open there is no agent.
    let early = world.bench.attach(5);
    let refused = world.bench.ask(early, 0, &QueryAgent { reserved: 0 });
    assert_eq!(refused.unwrap_err().0, Status::INVALID_DEVICE_REQUEST);
}
