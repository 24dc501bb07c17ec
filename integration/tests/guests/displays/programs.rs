// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's agent beside other programs of the guest, each a process of the operating system behind a broker: what it
//! shows, what it asks them, and what becomes of them when it stops the device.

use super::captured;
use crate::support::agents::{Agent, ctl, shown};
use crate::support::brokers::{Brokered, USERS};
use crate::support::{DISPLAYS, Daemon, await_that, report, run, text};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// A program that is killed when it is dropped.
struct Program(Child);

impl Program {
    fn start(mut command: Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon with two monitors, and a broker of its guest.
fn world() -> (Daemon, Brokered) {
    let daemon = Daemon::start_with(1, DISPLAYS);
    let brokered = Brokered::start(&daemon, 0, &[]);
    (daemon, brokered)
}

/// The agent, a program of root's.
fn agent(brokered: &Brokered, arguments: &[&str]) -> Agent {
    Agent::start(&mut brokered.work(&[&["agent"], arguments].concat()))
}

/// A user's animation on connector 0, which goes on.
fn animation(daemon: &Daemon, brokered: &Brokered, agent: &Agent) -> Program {
    let mut work = brokered.work_of(USERS[0], &["present", "--frames", "10000000"]);
    work.args(["--mode", "640x480@240"]);
    let program = Program::start(work);
    agent.await_line("a program shows something");
    await_that("the animation has its monitor alone", || shown(daemon) == [(0, 640)]);
    program
}

/// Settings, as root asks for them.
fn settings(brokered: &Brokered, arguments: &[&str]) -> Command {
    brokered.work(&[&["settings"], arguments].concat())
}

#[track_caller]
fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn an_agent_gives_way_to_a_program_and_shows_its_picture_again_when_that_has_ended() {
    let (daemon, brokered) = world();
    let agent = agent(&brokered, &[]);
    agent.await_line("connector 1");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
    let program = animation(&daemon, &brokered, &agent);
    // A monitor that comes is the program's affair.
    run(&mut ctl(&daemon, &["display", "unplug", "gpu0.sock", "VIRTUAL-2"]));
    run(&mut ctl(&daemon, &["display", "plug", "gpu0.sock", "VIRTUAL-2"]));
    assert_eq!(shown(&daemon), [(0, 640)]);
    drop(program);
    agent.await_line("source 1 on connector 1 at 800x600");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
}

#[test]
fn a_program_that_shows_something_agrees_to_another_topology_or_refuses_it() {
    let (daemon, brokered) = world();
    let agent = agent(&brokered, &[]);
    let program = animation(&daemon, &brokered, &agent);
    let said = run(&mut settings(&brokered, &["topology", "clone"]));
    assert!(said.contains("agrees") && said.contains("connector 1 at 800x600"), "{said}");
    assert_eq!(shown(&daemon), [(0, 640), (1, 800)]);
    let said = run(&mut settings(&brokered, &["mode", "0=1280x720@60"]));
    assert!(said.contains("connector 0 at 1280x720"), "{said}");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
    let report: serde_json::Value =
        report(&mut settings(&brokered, &["rotation", "1=180", "--json"]));
    assert_eq!(report["result"], "done");
    let why = refused(settings(&brokered, &["topology", "off"]));
    assert!(why.contains("refuses: an animation is shown; end it first"), "{why}");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
    let why = refused(settings(&brokered, &["mode", "0=641x480"]));
    assert!(why.contains("no such mode") && why.contains("nothing was changed"), "{why}");
    // What was chosen last holds when the agent shows something again.
    drop(program);
    agent.await_line("source 0 on connector 1 at 800x600");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
}

#[test]
fn an_agent_takes_over_from_a_program_that_does_not_answer_and_gives_way_to_it_again() {
    let (daemon, brokered) = world();
    let agent = agent(&brokered, &["--consent-timeout", "1"]);
    let program = animation(&daemon, &brokered, &agent);
    program.signal(Signal::STOP);
    let said = run(&mut settings(&brokered, &["topology", "extend"]));
    assert!(said.contains("did not answer in time lost its monitors"), "{said}");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
    // Another one shows something meanwhile.
    let second = animation(&daemon, &brokered, &agent);
    drop((second, program));
    agent.await_line("source 1 on connector 1");
}

#[test]
fn settings_say_who_may_change_them_and_what_to_do() {
    let (daemon, brokered) = world();
    let why = refused(settings(&brokered, &["topology", "clone"]));
    assert!(why.contains("no agent is running in the guest; start one:"), "{why}");
    let mut json = settings(&brokered, &["power-policy", "saving", "--json"]);
    let output = json.output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["result"], output.status.success()), (&"no_agent".into(), false));
    let agent = agent(&brokered, &[]);
    for asked in [&["topology", "clone"][..], &["programs"]] {
        let line = [&["settings"], asked].concat();
        let why = refused(brokered.work_of(USERS[0], &line));
        assert!(why.contains("ask as root"), "{why}");
    }
    let said = run(&mut settings(&brokered, &["power-policy", "saving"]));
    assert!(said.contains("the power policy is saving"), "{said}");
    let said = run(&mut settings(&brokered, &["rotation", "0=180"]));
    assert!(said.contains("connector 0") && said.contains("turned by 180 degrees"), "{said}");
    let program = animation(&daemon, &brokered, &agent);
    let said = run(&mut settings(&brokered, &["programs"]));
    let user = format!("of user {}): GPU 0; ", USERS[0]);
    let line = said.lines().find(|line| line.contains(&user));
    assert!(line.is_some_and(|line| line.contains("queues: ")), "{said}");
    let listed: serde_json::Value = report(&mut settings(&brokered, &["programs", "--json"]));
    assert_eq!(listed["programs"].as_array().unwrap().len(), 2, "{listed}");
    drop(program);
}

#[test]
fn programs_leave_a_device_that_stops_or_are_made_to_and_find_it_again_when_it_is_started() {
    let (daemon, brokered) = world();
    let agent = agent(&brokered, &["--leave-timeout", "1"]);
    // One leaves when it is told to, and another one does not listen.
    let mut leaves = animation(&daemon, &brokered, &agent);
    let deaf = ["present", "--frames", "10000000", "--connector", "1"];
    let mut deaf = Program::start(brokered.work_of(USERS[1], &deaf));
    await_that("the other one shows something, too", || shown(&daemon) == [(0, 640), (1, 800)]);
    deaf.signal(Signal::STOP);
    let said = run(&mut ctl(&daemon, &["agent", "gpu0.sock", "stop"]));
    assert!(
        said.contains("the device is stopped") && said.contains("a program had not left"),
        "{said}"
    );
    let ended = leaves.0.wait().unwrap();
    assert!(ended.success(), "the animation was told to leave, and ended with {ended}");
    deaf.signal(Signal::CONT);
    deaf.0.wait().unwrap();
    assert_eq!(shown(&daemon), []);
    // Nobody opens a device that is stopped.
    let works = || brokered.work_of(USERS[2], &["selftest", "fence.signal.poll"]);
    assert!(!works().output().unwrap().status.success());
    let said = run(&mut ctl(&daemon, &["agent", "gpu0.sock", "start"]));
    assert!(said.contains("the device is started"), "{said}");
    run(&mut works());
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
}

/// The colour of each line in this many rows from `first` on: all pixels of a row have one.
fn rows(pixels: &[u32], (width, first, count): (usize, usize, usize)) -> Vec<u32> {
    let rows = pixels.chunks_exact(width).skip(first).take(count);
    rows.map(|row| {
        assert!(row.iter().all(|pixel| *pixel == row[0]), "a row has several colours");
        row[0]
    })
    .collect()
}

/// As they are three users', each picture passes shared memory, two shared fences and a flip.
#[test]
fn a_compositor_shows_the_pictures_of_programs_of_other_users() {
    let (daemon, brokered) = world();
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let socket = place.path().join("compositor.sock");
    let compositor = |arguments: &[&str], user: usize| {
        let mut program = brokered.program("compositor", USERS[user]);
        program.args(arguments).arg(&socket).stdout(Stdio::piped());
        program.spawn().unwrap()
    };
    let shows = compositor(&["240"], 0);
    await_that("the compositor listens", || socket.exists());
    let red = compositor(&["client", "ff0000"], 1);
    let mut blue = compositor(&["client", "0000ff"], 2);
    await_that("both pictures are on the monitor", || {
        let folder = tempfile::tempdir().unwrap();
        let ((width, height), pixels) = captured(&daemon, "VIRTUAL-1", folder.path());
        let strip = height as usize / 4;
        // Each strip is of one picture whole: its pixels differ by nothing.
        let strip = |number| {
            let rows = rows(&pixels, (width as usize, number * strip, strip));
            assert!(rows.iter().all(|row| *row == rows[0]), "a strip of two pictures: {rows:x?}");
            rows[0] & 0x00F0_F0F0
        };
        // Whoever comes first is above.
        BTreeSet::from([strip(0), strip(1)]) == BTreeSet::from([0x00F0_0000, 0x0000_00F0])
    });
    // A program that stands still stops nobody.
    kill_process(Pid::from_child(&blue), Signal::STOP).unwrap();
    let printed = shows.wait_with_output().unwrap();
    let printed = text(&printed.stdout);
    assert!(printed.starts_with("240 frames presented, 240 shown\n"), "{printed}");
    let pictures = text(&red.wait_with_output().unwrap().stdout);
    let pictures: u64 = pictures.trim().strip_suffix(" pictures").unwrap().parse().unwrap();
    assert!(pictures > 10, "{pictures}");
    blue.kill().unwrap();
    blue.wait().unwrap();
}
