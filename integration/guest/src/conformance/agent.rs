// SPDX-License-Identifier: MIT OR Apache-2.0

//! `agent.*`: the guest's agent, and those who ask it.

use super::behaviour::{Behaviour, Mismatch, require};
use super::raw;
use super::scene::{Scene, TIMEOUT};
use super::source::KMD_ESCAPE;
use bellhop_guest_umd::agent::{
    ALL_WISHES, Agent, AgentEvent, AgentRequest, AgentResult, AgentWish, Answered, DevicePresence,
    PowerPolicy, PresenceChange, WantedTopology, Wish,
};
use bellhop_guest_umd::{Adapter, Error};
use bellhop_protocol::control::agent::{
    AGENT_CODES, AnswerAgentRequest, QueryAgent, RegisterAgent, SetPowerPolicy, answer,
};
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState, PowerInfo};
use bellhop_protocol::control::{RequestCode, RequestHeader};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::features::Version;
use bellhop_protocol::status::Status;
use std::thread;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("agent.one", KMD_ESCAPE, one)
        .shows("a guest has one agent; another process can be it when that has ended"),
    Behaviour::new("agent.version", KMD_ESCAPE, version)
        .shows("an agent of another version, or for wishes that there are not, is refused"),
    Behaviour::new("agent.asked", KMD_ESCAPE, asked)
        .shows("what a program asks for reaches the agent, and its answer the program"),
    Behaviour::new("agent.absent", KMD_ESCAPE, absent).shows(
        "a program that asks is told at once where there is no agent, or it grants no such wish",
    ),
    Behaviour::new("agent.ended", KMD_ESCAPE, ended)
        .shows("a program is told when the agent ends before it has answered"),
    Behaviour::new("agent.bounded", KMD_ESCAPE, bounded)
        .shows("an agent has four requests to answer at most, and a fifth is refused at once"),
    Behaviour::new("agent.answers-once", KMD_ESCAPE, answers_once)
        .shows("the agent alone answers, and once; other answers are refused and counted"),
    Behaviour::new("agent.unknown", KMD_ESCAPE, unknown)
        .shows("escapes that there are not are refused and counted"),
    Behaviour::new("agent.power-policy", KMD_ESCAPE, power_policy)
        .shows("the agent sets the guest's power policy, which goes with the agent"),
    Behaviour::new("agent.power-policy.saving", KMD_ESCAPE, saving).shows(
        "with the policy SAVING the device is in D3 as soon as all engines are in F1, and not \
         after the time that it usually waits",
    ),
    Behaviour::new("agent.power-policy.performance", KMD_ESCAPE, performance)
        .shows("with the policy PERFORMANCE the device does not go to D3, as it else does"),
    Behaviour::new("agent.stop-start", KMD_ESCAPE, stop_start)
        .shows("a device that the agent stops is lost and takes nothing new until it is started"),
    Behaviour::new("agent.stop-announced", KMD_ESCAPE, stop_announced).shows(
        "programs are told before the device stops, and the agent waits until they have left it",
    ),
];

/// From one look at what has no event to the next.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a guest looks again that may have had no processor, or no device for itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process that is the agent.
fn agent(scene: &Scene) -> Result<(Adapter, Agent), Mismatch> {
    let process = scene.adapter().open_process()?;
    let agent = process.register_agent(ALL_WISHES)?;
    Ok((process, agent))
}

/// Asserts that a request is refused with this status.
fn expect_refused<T>(result: Result<T, Error>, expected: Status) -> Result<(), Mismatch> {
    match result {
        Err(Error::Refused { status, .. }) if status == expected => Ok(()),
        Err(error) => Err(Mismatch::Seen(error.to_string())),
        Ok(_) => Err(Mismatch::Seen(format!("it was not refused with {expected}"))),
    }
}

/// The next request to the agent.
fn next_request(agent: &Agent) -> Result<(AgentRequest, AgentEvent), Mismatch> {
    let event = agent.next_event(TIMEOUT)?;
    let event = event.ok_or(Mismatch::Seen("the agent was not asked".into()))?;
    match event {
        AgentEvent::Topology(request, _)
        | AgentEvent::PowerPolicy(request, _)
        | AgentEvent::Stop(request)
        | AgentEvent::Start(request) => Ok((request, event)),
        other => Err(Mismatch::Seen(format!("the agent was told of {other:?}"))),
    }
}

/// What becomes of a wish while `act` has the agent do something.
fn ask(
    scene: &Scene,
    wish: Wish,
    act: impl FnOnce() -> Result<(), Mismatch>,
) -> Result<Answered, Mismatch> {
    thread::scope(|threads| {
        let asks = threads.spawn(|| -> Result<Answered, Mismatch> {
            Ok(scene.adapter().open_process()?.ask_agent(wish)?)
        });
        act()?;
        asks.join().map_err(|_| Mismatch::Seen("the program that asks panicked".into()))?
    })
}

fn one(scene: &Scene) -> Result<(), Mismatch> {
    let (first, agent_of_first) = agent(scene)?;
    let second = scene.adapter().open_process()?;
    expect_refused(second.register_agent(ALL_WISHES), Status::DEVICE_BUSY)?;
    let info = second.agent()?;
    require!(info.process == first.process(), "process {} is the agent", info.process);
    drop(agent_of_first);
    let agent_of_second = second.register_agent(ALL_WISHES)?;
    drop((first, agent_of_second, second));
    // An end of the process is one of the agent.
    let third = scene.adapter().open_process()?;
    let _third = third.register_agent(0)?;
    let info = third.agent()?;
    require!((info.process, info.wishes) == (third.process(), 0), "{info:?}");
    Ok(())
}

fn version(scene: &Scene) -> Result<(), Mismatch> {
    // A program that may be no agent hears nothing of versions.
    drop(agent(scene)?);
    let process = scene.adapter().open_process()?;
    let register = |major, wishes| RegisterAgent { version: Version { major, minor: 0 }, wishes };
    for (request, expected) in [
        (register(0, 0), Status::REVISION_MISMATCH),
        (register(2, 0), Status::REVISION_MISMATCH),
        (register(1, 1), Status::INVALID_PARAMETER),
        (register(1, u32::MAX), Status::INVALID_PARAMETER),
    ] {
        let (status, _) = raw::status(scene.transport(), process.process(), &request)?;
        require!(status == expected, "{request:?} ended with {status}");
    }
    require!(process.agent()?.process == 0, "it is the agent nevertheless");
    Ok(())
}

fn asked(scene: &Scene) -> Result<(), Mismatch> {
    let (_process, agent) = agent(scene)?;
    let mode = WantedTopology::Mode { connector: 1, width: 640, height: 480, refresh: 59_940 };
    let wishes = [
        Wish::Topology(WantedTopology::Extend),
        Wish::Topology(mode),
        Wish::PowerPolicy(PowerPolicy::SAVING),
        Wish::Stop,
        Wish::Start,
    ];
    for wish in wishes {
        let mut told = None;
        let answered = ask(scene, wish, || {
            let (request, event) = next_request(&agent)?;
            told = Some(event);
            Ok(agent.answer(request, AgentResult::FAILED, "not today")?)
        })?;
        let expected = (AgentResult::FAILED, "not today".to_owned());
        require!((answered.result, answered.text.clone()) == expected, "{answered:?}");
        let is_it = match (told, wish) {
            (Some(AgentEvent::Topology(_, seen)), Wish::Topology(wanted)) => seen == wanted,
            (Some(AgentEvent::PowerPolicy(_, seen)), Wish::PowerPolicy(wanted)) => seen == wanted,
            (Some(AgentEvent::Stop(_)), Wish::Stop) | (Some(AgentEvent::Start(_)), Wish::Start) => {
                true
            }
            _ => false,
        };
        require!(is_it, "{wish:?} reached the agent as {told:?}");
    }
    Ok(())
}

fn absent(scene: &Scene) -> Result<(), Mismatch> {
    let process = scene.adapter().open_process()?;
    let answered = process.ask_agent(Wish::Stop)?;
    require!(answered.result == AgentResult::NO_AGENT, "{answered:?}");
    let other = scene.adapter().open_process()?;
    let _agent = other.register_agent(1 << AgentWish::START.0)?;
    let answered = process.ask_agent(Wish::Stop)?;
    require!(answered.result == AgentResult::NOT_SUPPORTED, "{answered:?}");
    Ok(())
}

fn ended(scene: &Scene) -> Result<(), Mismatch> {
    let (process, agent) = agent(scene)?;
    let answered = ask(scene, Wish::Stop, || {
        next_request(&agent)?;
        process.terminate_abnormally()?;
        Ok(())
    })?;
    require!(answered.result == AgentResult::AGENT_ENDED, "{answered:?}");
    Ok(())
}

fn bounded(scene: &Scene) -> Result<(), Mismatch> {
    const MOST: usize = 4;
    let (process, agent) = agent(scene)?;
    let ask = || -> Result<Answered, Mismatch> {
        Ok(scene.adapter().open_process()?.ask_agent(Wish::Start)?)
    };
    thread::scope(|threads| {
        let waiting: Vec<_> = (0..MOST).map(|_| threads.spawn(ask)).collect();
        for _ in 0..MOST {
            next_request(&agent)?;
        }
        let fifth = process.ask_agent(Wish::Start)?;
        require!(fifth.result == AgentResult::BUSY, "{fifth:?}");
        require!(process.agent()?.pending == MOST as u32, "{:?}", process.agent()?);
        drop(agent);
        for asks in waiting {
            let asked = asks.join().map_err(|_| Mismatch::Seen("a program panicked".into()))??;
            require!(asked.result == AgentResult::AGENT_ENDED, "{asked:?}");
        }
        Ok(())
    })
}

fn answers_once(scene: &Scene) -> Result<(), Mismatch> {
    let (process, agent) = agent(scene)?;
    let before = process.agent()?;
    let stranger = scene.adapter().open_process()?;
    let transport = scene.transport();
    let mut seen = None;
    let answered = ask(scene, Wish::Start, || {
        let (request, _) = next_request(&agent)?;
        // Requests are numbered from 1.
        let number = process.agent()?.asked;
        let forged = AnswerAgentRequest { number, answer: answer(AgentResult::DONE, "by another") };
        let (status, _) = raw::status(transport, stranger.process(), &forged)?;
        require!(status == Status::NOT_SUPPORTED, "another process's answer ended with {status}");
        agent.answer(request, AgentResult::DONE, "by the agent")?;
        seen = Some(request);
        Ok(())
    })?;
    require!(answered.text == "by the agent", "{answered:?}");
    if let Some(request) = seen {
        let again = agent.answer(request, AgentResult::FAILED, "again");
        expect_refused(again, Status::INVALID_PARAMETER)?;
    }
    let nothing = AnswerAgentRequest { number: u64::MAX, answer: answer(AgentResult::DONE, "") };
    let (status, _) = raw::status(transport, process.process(), &nothing)?;
    require!(status == Status::INVALID_PARAMETER, "an answer to nothing ended with {status}");
    let after = process.agent()?;
    let counted = (after.answered - before.answered, after.refused - before.refused);
    require!(counted == (1, 3), "answered and refused: {counted:?}");
    Ok(())
}

fn unknown(scene: &Scene) -> Result<(), Mismatch> {
    scene.needs_whole_guest("count of requests that the broker refuses")?;
    let (process, _agent) = agent(scene)?;
    let before = process.agent()?.refused;
    let named = RequestCode::ALL.iter().map(|code| code.0).collect::<Vec<_>>();
    let codes: Vec<_> = AGENT_CODES.filter(|code| !named.contains(code)).collect();
    for code in &codes {
        let header = RequestHeader {
            code: RequestCode(*code),
            length: 16,
            process: process.process(),
            reserved: 0,
        };
        let status = raw::send(scene.transport(), header.as_bytes())?.status;
        require!(status == Status::INVALID_DEVICE_REQUEST, "{code:#x} ended with {status}");
    }
    let query = QueryAgent { reserved: 1 };
    let (status, _) = raw::status(scene.transport(), 0, &query)?;
    require!(status == Status::INVALID_PARAMETER, "a reserved field ended with {status}");
    let counted = process.agent()?.refused - before;
    require!(counted == codes.len() as u64 + 1, "{counted} counted");
    scene.show(format!("{counted} refused"));
    Ok(())
}

fn power_policy(scene: &Scene) -> Result<(), Mismatch> {
    let (process, agent) = agent(scene)?;
    for policy in [PowerPolicy::PERFORMANCE, PowerPolicy::BALANCED, PowerPolicy::SAVING] {
        agent.set_power_policy(policy)?;
        require!(process.agent()?.policy == policy, "{:?}", process.agent()?);
    }
    expect_refused(agent.set_power_policy(PowerPolicy(0)), Status::INVALID_PARAMETER)?;
    let stranger = scene.adapter().open_process()?.process();
    let request = SetPowerPolicy { policy: PowerPolicy::PERFORMANCE, reserved: 0 };
    let (status, _) = raw::status(scene.transport(), stranger, &request)?;
    require!(status != Status::SUCCESS, "another process set it");
    drop(agent);
    require!(process.agent()?.policy == PowerPolicy::BALANCED, "it outlasts its agent");
    Ok(())
}

/// How long engines, and then the device, usually keep their power with nothing to do, if they lose it by themselves
/// within this time.
fn usual_idle(process: &Adapter, most: Duration) -> Result<[Duration; 2], Mismatch> {
    let power = process.power(0)?;
    let idle = [power.engine_idle_ms, power.device_idle_ms];
    let idle = idle.map(|milliseconds| Duration::from_millis(milliseconds.into()));
    if idle.contains(&Duration::ZERO) || idle[0] + idle[1] > most {
        let long = "the device keeps its power for longer than this, or for ever";
        return Err(Mismatch::NotOffered(long.into()));
    }
    Ok(idle)
}

/// Asks for the power of the first node until it is like this: no event tells of it.
fn await_power(process: &Adapter, is_so: impl Fn(&PowerInfo) -> bool) -> Result<(), Mismatch> {
    let begin = Instant::now();
    loop {
        let power = process.power(0)?;
        if is_so(&power) {
            return Ok(());
        }
        require!(begin.elapsed() < TIMEOUT, "the power stays {power:?}");
        thread::sleep(PAUSE);
    }
}

fn saving(scene: &Scene) -> Result<(), Mismatch> {
    let (process, agent) = agent(scene)?;
    let usual: Duration = usual_idle(&process, TIMEOUT)?.iter().sum();
    let mut bench = scene.bench()?;
    agent.set_power_policy(PowerPolicy::SAVING)?;
    let begin = Instant::now();
    loop {
        let round = Instant::now();
        bench.commands.nop()?;
        bench.run()?;
        await_power(&process, |power| power.device == DevicePowerState::D3)?;
        // A guest that itself had no processor for that long learns nothing, and looks again.
        if round.elapsed() < usual {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE + 3 * usual {
            let why =
                "D3 comes no sooner than without the policy: perhaps another guest has another one";
            return Err(Mismatch::NotOffered(why.into()));
        }
    }
}

fn performance(scene: &Scene) -> Result<(), Mismatch> {
    let (process, agent) = agent(scene)?;
    let [_, device_idle] = usual_idle(&process, Duration::from_secs(2))?;
    agent.set_power_policy(PowerPolicy::PERFORMANCE)?;
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    bench.run()?;
    let before = process.power(0)?;
    require!(before.device == DevicePowerState::D0, "it works in {}", before.device);
    for node in 0..process.nodes()?.len() as u32 {
        let begin = Instant::now();
        while process.power(node)?.engine != EnginePowerState::F1 {
            if begin.elapsed() > PATIENCE + TIMEOUT / 4 {
                return Err(Mismatch::NotOffered(format!("other guests keep node {node} in F0")));
            }
            thread::sleep(PAUSE);
        }
    }
    // Longer than the device usually waits.
    thread::sleep(2 * device_idle);
    let after = process.power(0)?;
    let is_same = (after.device, after.device_transitions)
        == (DevicePowerState::D0, before.device_transitions);
    require!(is_same, "{before:?} became {after:?}");
    // It was the policy that kept it from that.
    agent.set_power_policy(PowerPolicy::BALANCED)?;
    await_power(&process, |power| power.device == DevicePowerState::D3)
}

fn stop_start(scene: &Scene) -> Result<(), Mismatch> {
    let (_process, agent) = agent(scene)?;
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    bench.run()?;
    agent.set_presence(DevicePresence::STOPPED)?;
    bench.commands.nop()?;
    let submitted = bench.submit().and_then(|value| bench.finish(value));
    match submitted {
        Err(Error::QueueLost { fault: Some(fault), .. }) => {
            require!(fault.reason == FaultReason::DEVICE_STOPPED, "{fault}");
        }
        other => return Err(Mismatch::Seen(format!("instead of a loss: {other:?}"))),
    }
    expect_refused(bench.process.create_device(), Status::DEVICE_REMOVED)?;
    agent.set_presence(DevicePresence::STARTED)?;
    let mut bench = scene.bench()?;
    bench.commands.nop()?;
    Ok(bench.run()?)
}

fn stop_announced(scene: &Scene) -> Result<(), Mismatch> {
    let (_process, agent) = agent(scene)?;
    let program = scene.adapter().open_process()?;
    let next = || -> Result<PresenceChange, Mismatch> {
        let change = program.next_presence(TIMEOUT)?;
        change.ok_or(Mismatch::Seen("a program is not told of the device's presence".into()))
    };
    // What other behaviours did is not forgotten.
    while program.next_presence(Duration::ZERO)?.is_some() {}
    let others = agent.announce_stop(Duration::from_millis(1))?;
    let told = next()?;
    let within = Duration::from_millis(1);
    require!(told == PresenceChange::Stops { within }, "it is told {told:?}");
    let device = program.create_device()?;
    let with_it = agent.announce_stop(Duration::from_millis(1))?;
    require!(with_it == others + 1, "{with_it} processes had not left, and {others} before");
    next()?;
    let left = thread::scope(|threads| -> Result<u32, Mismatch> {
        // Others that have a device stay, and the agent waits for all of them.
        let patience = if others == 0 { PATIENCE } else { Duration::from_millis(100) };
        let agent = &agent;
        let waits = threads.spawn(move || agent.announce_stop(patience));
        next()?;
        drop(device);
        let left = waits.join();
        Ok(left.map_err(|_| Mismatch::Seen("the agent panicked".into()))??)
    })?;
    require!(left == others, "{left} processes had not left");
    Ok(())
}
