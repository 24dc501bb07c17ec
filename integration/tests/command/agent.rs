// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop-guest agent` in a guest of a real daemon, asked by `bellhop ctl`.

use crate::support::agents::{Agent, ctl, hook, shown};
use crate::support::{
    DISPLAYS, Daemon, TIMEOUT, adapter_of, await_that, bellhop, client_of, guest, run, submit_once,
    text,
};
use bellhop_guest::client::Shape;
use bellhop_guest_umd::agent::{ALL_WISHES, AgentEvent, AgentResult};
use bellhop_protocol::snapshot::Guest;
use std::process::Command;
use std::thread;

/// Starts an agent as the first guest of the daemon.
#[track_caller]
fn start(daemon: &Daemon, arguments: &[&str]) -> Agent {
    let mut command = bellhop();
    command.args(["guest", "--", "--socket-path"]).arg(daemon.socket(0)).arg("agent");
    Agent::start(command.args(arguments))
}

/// Why a command fails.
#[track_caller]
fn failure(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[track_caller]
fn refused(daemon: &Daemon, arguments: &[&str]) -> String {
    failure(ctl(daemon, arguments))
}

fn seen(daemon: &Daemon) -> Guest {
    daemon.snapshot().guests.swap_remove(0)
}

#[test]
fn an_agent_extends_onto_a_monitor_that_is_plugged_in_and_leaves_one_that_is_unplugged() {
    let daemon = Daemon::start_with(1, DISPLAYS);
    let agent = start(&daemon, &[]);
    agent.await_line("connector 1");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
    run(&mut ctl(&daemon, &["display", "unplug", "gpu0.sock", "VIRTUAL-2"]));
    agent.await_line("source 0 on connector 0");
    await_that("one monitor is left", || shown(&daemon) == [(0, 1280)]);
    run(&mut ctl(&daemon, &["display", "plug", "gpu0.sock", "VIRTUAL-2"]));
    agent.await_line("source 1 on connector 1 at 800x600");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
}

#[test]
fn the_operator_asks_the_agent_and_gets_its_answer() {
    let daemon = Daemon::start_with(1, DISPLAYS);
    let _agent = start(&daemon, &[]);
    let ask = |what: &[&str]| run(&mut ctl(&daemon, &[&["agent", "gpu0.sock"], what].concat()));
    let said = ask(&["topology", "single"]);
    assert!(said.contains("the agent of guest") && said.contains("connector 0"), "{said}");
    assert_eq!(shown(&daemon), [(0, 1280)]);
    ask(&["topology", "0=640x480@240"]);
    assert_eq!(shown(&daemon), [(0, 640)]);
    let why = refused(&daemon, &["agent", "gpu0.sock", "topology", "0=641x480"]);
    assert!(why.contains("failed") && why.contains("no such mode"), "{why}");
    assert_eq!(shown(&daemon), [(0, 640)]);
    ask(&["topology", "clone"]);
    assert_eq!(shown(&daemon).len(), 2);
    ask(&["topology", "off"]);
    assert_eq!(shown(&daemon), []);
    ask(&["topology", "enumerate"]);
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
    ask(&["power-policy", "saving"]);
    let guest = seen(&daemon);
    assert_eq!((guest.agent.power_policy.as_str(), guest.agent.answered), ("saving", 7));
    assert!(guest.changes.iter().any(|change| change.what == "agent"), "{:?}", guest.changes);
    let tree = run(&mut daemon.tool(&["inspect"]));
    assert!(tree.contains("power policy saving"), "{tree}");
}

#[test]
fn a_device_is_stopped_and_started_with_the_hooks_of_its_clients() {
    let daemon = Daemon::start_with(1, DISPLAYS);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    hook(folder.path(), "10-log", &format!("echo $1 $2 $BELLHOP_CONNECTOR >> {}", log.display()));
    hook(folder.path(), "20-fails", "exit 1");
    let hooks = folder.path().to_str().unwrap().to_owned();
    let agent = start(&daemon, &["--hooks", &hooks]);
    agent.await_line("connector 1");
    let said = run(&mut ctl(&daemon, &["agent", "gpu0.sock", "stop"]));
    assert!(said.contains("the device is stopped; 1 hooks ran"), "{said}");
    assert_eq!(seen(&daemon).gpu, "stopped");
    assert_eq!(shown(&daemon), []);
    let why = refused(&daemon, &["agent", "gpu0.sock", "topology", "extend"]);
    assert!(why.contains("the device is stopped; start it first"), "{why}");
    let said = run(&mut ctl(&daemon, &["agent", "gpu0.sock", "start"]));
    assert!(said.contains("the device is started"), "{said}");
    assert_eq!(seen(&daemon).gpu, "started");
    assert_eq!(shown(&daemon).len(), 2);
    run(&mut ctl(&daemon, &["display", "unplug", "gpu0.sock", "VIRTUAL-2"]));
    await_that("the hook for the monitor ran", || {
        std::fs::read_to_string(&log)
            .is_ok_and(|text| text.contains("display-unplugged connector 1 1"))
    });
    let text = std::fs::read_to_string(&log).unwrap();
    let events: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(events, ["stop", "start", "display-unplugged"]);
}

#[test]
fn an_agent_is_told_of_its_gpu_that_leaves_and_shows_its_monitors_again_when_it_is_back() {
    let daemon = Daemon::start_with(1, DISPLAYS);
    let agent = start(&daemon, &[]);
    agent.await_line("connector 1");
    run(&mut ctl(&daemon, &["gpu", "unplug", "gpu0.sock"]));
    agent.await_line("GPU 0 was taken away");
    assert_eq!(shown(&daemon), []);
    run(&mut ctl(&daemon, &["gpu", "plug", "gpu0.sock"]));
    agent.await_line("GPU 0 is there again");
    agent.await_line("connector 1");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
}

#[test]
fn a_hostile_agent_costs_the_operator_its_patience_and_a_neighbour_nothing() {
    let daemon = Daemon::start(2);
    let (first, second) = (guest(&daemon, 0), guest(&daemon, 1));
    let hostile = adapter_of(&first);
    let agent = hostile.register_agent(ALL_WISHES).unwrap();
    let mut neighbour = client_of(&second, Shape::default());
    // It floods the device with escapes that mean nothing, and answers nothing.
    thread::scope(|scope| {
        let command = ctl(&daemon, &["agent", "gpu0.sock", "stop"]);
        let asks = scope.spawn(|| failure(command));
        let event = agent.next_event(TIMEOUT).unwrap().unwrap();
        let AgentEvent::Stop(request) = event else { panic!("{event:?}") };
        while !asks.is_finished() {
            assert!(hostile.register_agent(ALL_WISHES).is_err());
            submit_once(&mut neighbour);
        }
        let why = asks.join().unwrap();
        assert!(why.contains("did not answer within 10 seconds"), "{why}");
        assert!(agent.answer(request, AgentResult::DONE, "late").is_err());
    });
    // Its words steer no terminal.
    thread::scope(|scope| {
        let command = ctl(&daemon, &["agent", "gpu0.sock", "stop"]);
        let asks = scope.spawn(|| failure(command));
        let event = agent.next_event(TIMEOUT).unwrap().unwrap();
        let AgentEvent::Stop(request) = event else { panic!("{event:?}") };
        let text = "\x1b[2J\nbellhop: all is well";
        agent.answer(request, AgentResult::FAILED, text).unwrap();
        assert!(agent.answer(request, AgentResult::DONE, "again").is_err());
        let why = asks.join().unwrap();
        assert!(!why.contains('\x1b') && why.trim_end().lines().count() == 1, "{why:?}");
    });
    assert!(seen(&daemon).agent.refused > 2);
    // It ends in the middle of a request.
    thread::scope(|scope| {
        let command = ctl(&daemon, &["agent", "gpu0.sock", "start"]);
        let asks = scope.spawn(|| failure(command));
        agent.next_event(TIMEOUT).unwrap().unwrap();
        drop(agent);
        assert!(asks.join().unwrap().contains("ended before it answered"));
    });
    submit_once(&mut neighbour);
}

#[test]
fn an_agent_that_ends_by_itself_leaves_a_guest_without_one() {
    let daemon = Daemon::start(1);
    let mut agent = start(&daemon, &["--seconds", "1"]);
    assert!(agent.wait().success());
    let why = refused(&daemon, &["agent", "gpu0.sock", "stop"]);
    assert!(why.contains("no guest is attached"), "{why}");
}
