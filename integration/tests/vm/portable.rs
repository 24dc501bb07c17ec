// SPDX-License-Identifier: MIT OR Apache-2.0

//! The agent of a guest that is a portable computer: Debian's own logind, UPower and system bus say what happens.

use crate::support::agents::{Agent, ctl, hook, shown};
use crate::support::{DISPLAYS, Daemon, await_that, run, vms};
use std::fs;

const CONFIG: &str = "[agent]\nhook_timeout = \"8s\"\n[lid]\nclosed = \"others\"\n[session]\naway = \"off\"\n\
     [power]\non_battery = \"saving\"\n";

/// What happens in the guest when the operator asks for a power policy. An operator has no hand for its lid and its plug, and no
/// finger for its keys. The lid's events are those of the kernel's own device: a type, a code, a value, and a report.
const SCRIPT: &str = "\
lid() {
    for device in /sys/class/input/event*; do
        [ \"$(cat $device/device/capabilities/sw)\" = 1 ] || continue
        { head -c 16 /dev/zero; printf \"\\\\005\\\\000\\\\000\\\\000\\\\00$1\\\\000\\\\000\\\\000\"; head -c 24 /dev/zero; } > /tmp/events
        # They are taken by one write.
        cat /tmp/events > /dev/input/${device##*/}
    done
}
plug() {
    printf \"\\\\00$1\" | dd of=/dev/port bs=1 seek=1023 conv=notrunc 2>/dev/null
    # A plug of metal has the firmware say so.
    for supply in ADP0 BAT0; do echo change > /sys/class/power_supply/$supply/uevent; done
}
echo \"hook $1 lid=$BELLHOP_LID session=$BELLHOP_SESSION power=$BELLHOP_POWER_SOURCE\"
lock() { loginctl $1-sessions; }
was=$(cat /tmp/steps 2>/dev/null | wc -l)
[ \"$1\" = power-policy ] || exit 0
echo >> /tmp/steps
case $was in
    0) lid 1 ;;
    1) lid 0 ;;
    2) lock lock & ;;
    3) lock unlock & ;;
    4) plug 1 & ;;
    5) plug 0 & ;;
esac";

#[test]
fn a_real_lid_a_real_session_and_a_real_plug_reach_the_agent_of_a_vm_by_upower_and_logind() {
    let Some(vm) = vms() else { return };
    let daemon = Daemon::start_with(1, DISPLAYS);
    let folder = tempfile::tempdir().unwrap();
    let hook = hook(folder.path(), "10-act", SCRIPT);
    let config = folder.path().join("agent.toml");
    fs::write(&config, CONFIG).unwrap();
    let mut command = vm();
    command.args(["--agent", "--portable", "--socket-path"]).arg(daemon.socket(0));
    command.arg("--file").arg(hook).arg("--file").arg(config);
    let agent = Agent::start(&mut command);
    agent.await_line("connector 1");
    let step = || {
        run(&mut ctl(&daemon, &["agent", "gpu0.sock", "power-policy", "balanced"]));
    };
    // Debian's services start while the agent does.
    agent.await_line("hook on-ac lid=open");

    step();
    agent.await_line("hook lid-closed lid=closed");
    await_that("the other monitor is left", || shown(&daemon) == [(1, 800)]);
    step();
    agent.await_line("hook lid-opened lid=open");
    await_that("both monitors show something", || shown(&daemon).len() == 2);
    step();
    agent.await_line("hook session-locked");
    await_that("nothing is shown", || shown(&daemon).is_empty());
    step();
    agent.await_line("hook session-unlocked");
    await_that("both monitors show something again", || shown(&daemon).len() == 2);
    step();
    agent.await_line("hook on-battery lid=open session=active power=battery");
    assert_eq!(daemon.snapshot().guests[0].agent.power_policy, "saving");
    step();
    agent.await_line("hook on-ac lid=open session=active power=ac");
}
