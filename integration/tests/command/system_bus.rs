// SPDX-License-Identifier: MIT OR Apache-2.0

//! The agent of a guest whose operating system tells of a lid, of its power, of sessions and of sleep.

mod stand_in;

use crate::support::agents::{Agent, ctl, hook, shown};
use crate::support::{DISPLAYS, Daemon, await_that, bellhop, is_here, run};
use stand_in::{Bus, Says, Signal, StandIn, await_let_go, lie};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// Everything follows what the system says.
const EAGER: &str = "[lid]\nclosed = \"others\"\n[power]\non_battery = \"saving\"\n\
    on_ac = \"performance\"\n[session]\naway = \"off\"\n";
/// What monitors show, of two.
const BOTH: &[(u64, u64)] = &[(0, 1280), (1, 800)];
const SECOND: &[(u64, u64)] = &[(1, 800)];

/// A guest, its agent, and the folder of its bus, its configuration and its hooks.
struct Guest {
    daemon: Daemon,
    folder: TempDir,
}

impl Guest {
    fn new(config: &str) -> Self {
        let guest =
            Self { daemon: Daemon::start_with(1, DISPLAYS), folder: tempfile::tempdir().unwrap() };
        fs::write(guest.folder.path().join("agent.toml"), config).unwrap();
        let hooks = guest.folder.path().join("hooks.d");
        fs::create_dir(&hooks).unwrap();
        let words = "$BELLHOP_LID:$BELLHOP_POWER_SOURCE:$BELLHOP_SESSION:$BELLHOP_POWER_POLICY";
        hook(&hooks, "10-log", &format!("echo \"$1 {words}\" >> {}", guest.log().display()));
        guest
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn start_agent(&self) -> Agent {
        let path = |name| self.folder.path().join(name);
        let mut command = bellhop();
        command.args(["guest", "--", "--socket-path"]).arg(self.daemon.socket(0)).arg("agent");
        command.arg("--config").arg(path("agent.toml")).arg("--hooks").arg(path("hooks.d"));
        command.env("DBUS_SYSTEM_BUS_ADDRESS", Bus::address(&self.folder));
        let agent = Agent::start(&mut command);
        agent.await_line("connector 1");
        agent
    }

    /// Waits for the next line of the hooks, which begins so.
    #[track_caller]
    fn await_hook(&self, ran: &mut usize, line: &str) {
        let lines = || fs::read_to_string(self.log()).unwrap_or_default();
        await_that(line, || lines().lines().count() > *ran);
        let is_next = lines().lines().nth(*ran).is_some_and(|next| next.starts_with(line));
        assert!(is_next, "{line}\n{}", lines());
        *ran += 1;
    }

    #[track_caller]
    fn assert_shown(&self, expected: &[(u64, u64)]) {
        assert_eq!(shown(&self.daemon), expected);
    }

    fn power_policy(&self) -> String {
        self.daemon.snapshot().guests.swap_remove(0).agent.power_policy
    }
}

fn has_bus() -> bool {
    is_here("dbus-daemon", "agents hear of no lid, battery and session")
}

/// Monitors and power follow before the hook of each event runs.
#[test]
fn monitors_power_and_hooks_follow_the_lid_the_battery_sessions_and_sleep() {
    if !has_bus() {
        return;
    }
    let guest = Guest::new(EAGER);
    let bus = Bus::start(&guest.folder);
    let usual = Says { session: Some((true, false)), ..Says::default() };
    let system = StandIn::start(&bus, usual);
    let agent = guest.start_agent();
    let mut ran = 0;
    guest.await_hook(&mut ran, "on-ac open:ac:active:performance");
    assert_eq!(guest.power_policy(), "performance");

    let docked = Says { is_lid_closed: true, ..usual };
    system.say(docked);
    guest.await_hook(&mut ran, "lid-closed closed:ac:active:");
    guest.assert_shown(SECOND);
    // An operator's wish is kept under the lid, and shown with what is left.
    let said = run(&mut ctl(&guest.daemon, &["agent", "gpu0.sock", "topology", "clone"]));
    assert!(said.contains("connector 0 is dark, since the lid is closed"), "{said}");
    guest.assert_shown(SECOND);
    guest.await_hook(&mut ran, "topology :::");
    system.say(Says { is_on_battery: true, ..docked });
    guest.await_hook(&mut ran, "on-battery closed:battery:active:saving");
    assert_eq!(guest.power_policy(), "saving");
    system.say(Says { is_on_battery: true, ..usual });
    guest.await_hook(&mut ran, "lid-opened open:battery:active:");
    assert_eq!(shown(&guest.daemon).len(), 2);
    system.say(usual);
    guest.await_hook(&mut ran, "on-ac open:ac:active:performance");

    system.send(Signal::Lock);
    guest.await_hook(&mut ran, "session-locked open:ac:locked:");
    guest.assert_shown(&[]);
    system.send(Signal::Unlock);
    guest.await_hook(&mut ran, "session-unlocked open:ac:active:");
    assert_eq!(shown(&guest.daemon).len(), 2);
    // Its desktop says that it is locked; then another user's session has the seat.
    for session in [(true, true), (false, false)] {
        system.say(Says { session: Some(session), ..usual });
        guest.await_hook(&mut ran, "session-locked open:ac:locked:");
        guest.assert_shown(&[]);
        system.say(usual);
        guest.await_hook(&mut ran, "session-unlocked open:ac:active:");
    }
    // Nobody is logged in any more.
    system.say(Says { session: Some((false, false)), ..usual });
    guest.await_hook(&mut ran, "session-locked open:ac:locked:");
    system.say(Says { session: None, ..usual });
    guest.await_hook(&mut ran, "session-unlocked open:ac:active:");

    let held = system.held();
    system.send(Signal::Sleep(true));
    await_let_go(held);
    guest.await_hook(&mut ran, "prepare-for-sleep open:ac:active:");
    system.send(Signal::Sleep(false));
    guest.await_hook(&mut ran, "after-sleep open:ac:active:");
    drop(system.held());
    drop(agent);
}

#[test]
fn by_default_events_have_their_hooks_and_change_nothing() {
    if !has_bus() {
        return;
    }
    let guest = Guest::new("");
    let bus = Bus::start(&guest.folder);
    let says = Says { is_lid_closed: true, is_on_battery: true, session: Some((true, true)) };
    let _system = StandIn::start(&bus, says);
    let _agent = guest.start_agent();
    let mut ran = 0;
    for hook in ["on-battery", "lid-closed", "session-locked"] {
        guest.await_hook(&mut ran, &format!("{hook} closed:battery:locked:"));
    }
    guest.assert_shown(BOTH);
    assert_eq!(guest.power_policy(), "balanced");
}

#[test]
fn an_agent_without_a_bus_works_and_finds_the_bus_and_its_services_when_they_come_and_come_back() {
    if !has_bus() {
        return;
    }
    let guest = Guest::new(EAGER);
    let agent = guest.start_agent();
    run(&mut ctl(&guest.daemon, &["agent", "gpu0.sock", "topology", "single"]));
    guest.assert_shown(&[(0, 1280)]);
    run(&mut ctl(&guest.daemon, &["agent", "gpu0.sock", "topology", "extend"]));
    let mut ran = 0;
    for _ in 0..2 {
        guest.await_hook(&mut ran, "topology :::");
    }

    // The bus comes, and then the services.
    let bus = Bus::start(&guest.folder);
    let closed = Says { is_lid_closed: true, ..Says::default() };
    let system = StandIn::start(&bus, closed);
    guest.await_hook(&mut ran, "on-ac closed:ac:");
    guest.await_hook(&mut ran, "lid-closed closed:ac:");
    guest.assert_shown(SECOND);

    // What a service said last stays while it is away.
    drop(system);
    let system = StandIn::start(&bus, Says { is_on_battery: true, ..closed });
    guest.await_hook(&mut ran, "on-battery closed:battery:active:saving");
    guest.assert_shown(SECOND);

    // So it does while the bus is.
    drop(system);
    drop(bus);
    run(&mut ctl(&guest.daemon, &["agent", "gpu0.sock", "topology", "enumerate"]));
    guest.await_hook(&mut ran, "topology :::");
    guest.assert_shown(SECOND);
    let bus = Bus::start(&guest.folder);
    let _system = StandIn::start(&bus, Says { is_on_battery: true, ..Says::default() });
    guest.await_hook(&mut ran, "lid-opened open:battery:active:");
    guest.assert_shown(BOTH);
    drop(agent);
}

#[test]
fn what_others_on_the_bus_say_in_the_name_of_services_is_nothing() {
    if !has_bus() {
        return;
    }
    let guest = Guest::new(EAGER);
    let bus = Bus::start(&guest.folder);
    let usual = Says { session: Some((true, false)), ..Says::default() };
    let system = StandIn::start(&bus, usual);
    let _agent = guest.start_agent();
    let mut ran = 0;
    guest.await_hook(&mut ran, "on-ac open:ac:active:performance");
    lie(&bus);
    // The bus delivers in order: what comes next is what comes next.
    system.say(Says { is_lid_closed: true, ..usual });
    guest.await_hook(&mut ran, "lid-closed closed:ac:active:");
    guest.assert_shown(SECOND);
}
