// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs of other people's in VMs, alone and several in one.

use crate::support::programs::{NOT_OFFERED, assert_seen};
use crate::support::stranger::{Source, Stranger};
use crate::support::{assert_program_sees_the_suite, conformance, run, vms};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_crate_outside_the_workspace_runs_in_a_vm() {
    let Some(vm) = vms() else { return };
    let stranger = Stranger::build(&Source::Path);
    for (program, printed) in
        [(stranger.first(), "the GPU's fence is 1\n"), (stranger.copy(), "the GPU copied: hello\n")]
    {
        assert_eq!(run(vm().arg("--guest-binary").arg(program)), printed);
    }
}

/// Starts the broker as root and a program of each of three users at once, and ends the broker.
const SHARED: &str = "#!/bin/sh
chmod 755 /tmp
mkdir -p /etc
/files/bellhop-guest broker --mode 666 2>/tmp/said &
broker=$!
until grep -q 'may connect' /tmp/said; do
    kill -0 $broker || { cat /tmp/said; exit 1; }
    sleep 0.1
done
programs=
for user in 1001 1002 1003; do
    echo user$user:x:$user:$user::/:/bin/sh >>/etc/passwd
    echo user$user:x:$user: >>/etc/group
    cp /files/copy /tmp/copy-$user
    start-stop-daemon -S -c user$user:user$user -x /tmp/copy-$user >/tmp/$user 2>&1 &
    programs=\"$programs $!\"
done
for program in $programs; do wait $program || echo failed; done
for user in 1001 1002 1003; do cat /tmp/$user; done
kill $broker
";

#[test]
fn programs_of_three_users_share_the_device_of_a_vm() {
    let Some(vm) = vms() else { return };
    let stranger = Stranger::build(&Source::Path);
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("shared");
    fs::write(&script, SHARED).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    // The static program for guests, as VMs have it.
    let guest = bellhop_integration::guest_binary::find(None).unwrap();
    let mut vm = vm();
    vm.arg("--guest-binary").arg(&script).arg("--file").arg(guest);
    vm.arg("--file").arg(stranger.copy());
    assert_eq!(run(&mut vm), "the GPU copied: hello\n".repeat(3));
}

/// The suite is root there, so its programs are of several users. It starts a broker of its own, whose programs have little
/// memory: in a VM as small as this one, it is pinned for each.
#[test]
fn every_behaviour_of_programs_is_seen_in_a_vm() {
    let Some(vm) = vms() else { return };
    let seen = conformance(vm().args(["--", "selftest", "--programs", "--json"]));
    assert_seen(&seen, NOT_OFFERED, true);
}

#[test]
fn a_user_without_privileges_sees_the_suite_in_a_vm_whose_broker_is_a_service() {
    let Some(vm) = vms() else { return };
    let seen = conformance(vm().args(["--broker", "--", "selftest", "--json"]));
    assert_program_sees_the_suite(&seen);
}
