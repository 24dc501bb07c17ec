// SPDX-License-Identifier: MIT OR Apache-2.0

//! The agent as a service of a real guest.

use crate::support::agents::{Agent, ctl, hook, shown};
use crate::support::{DISPLAYS, Daemon, run, vms};

/// The exit status after SIGTERM.
const INTERRUPTED: i32 = 130;

#[test]
fn a_vm_starts_the_agent_at_boot_and_again_when_it_was_killed() {
    let Some(vm) = vms() else { return };
    let daemon = Daemon::start_with(1, DISPLAYS);
    let folder = tempfile::tempdir().unwrap();
    // It kills the agent, as nothing but a fault of its own would.
    let script = "echo \"hook $1 $2\"\n[ \"$2\" != saving ] || kill -9 $PPID";
    let hook = hook(folder.path(), "10-say", script);
    let mut command = vm();
    command.arg("--agent").arg("--socket-path").arg(daemon.socket(0)).arg("--file").arg(hook);
    let mut agent = Agent::start(&mut command);
    agent.await_line("connector 1");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
    run(&mut ctl(&daemon, &["display", "unplug", "gpu0.sock", "VIRTUAL-2"]));
    agent.await_line("hook display-unplugged");
    run(&mut ctl(&daemon, &["agent", "gpu0.sock", "topology", "0=640x480@240"]));
    agent.await_line("hook topology");
    assert_eq!(shown(&daemon), [(0, 640)]);

    // The agent answers, then runs its hooks.
    run(&mut ctl(&daemon, &["agent", "gpu0.sock", "power-policy", "saving"]));
    agent.await_registration();
    run(&mut ctl(&daemon, &["display", "plug", "gpu0.sock", "VIRTUAL-2"]));
    let said = run(&mut ctl(&daemon, &["agent", "gpu0.sock", "topology", "extend"]));
    assert!(said.contains("connector 1"), "{said}");
    assert_eq!(shown(&daemon), [(0, 1280), (1, 800)]);
    assert_eq!(agent.end().code(), Some(INTERRUPTED));
}
