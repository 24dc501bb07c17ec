// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several GPUs as one adapter of a real guest.

use crate::support::links::{see_detach, see_frames, see_power, see_surface};
use crate::support::{Daemon, LINK, see_every_behaviour_of_a_chain, vms};

#[test]
fn every_behaviour_of_a_chain_is_seen_in_a_vm() {
    let Some(vm) = vms() else { return };
    see_every_behaviour_of_a_chain(&mut vm());
}

#[test]
fn two_gpus_draw_frames_in_a_vm_and_they_come_back() {
    let Some(vm) = vms() else { return };
    see_frames(&mut vm());
}

#[test]
fn a_second_gpu_of_a_vm_has_power_while_it_draws_and_a_surface_lies_on_the_monitors_of_both() {
    let Some(vm) = vms() else { return };
    see_power(&mut vm());
    see_surface(&mut vm());
}

#[test]
fn a_gpu_of_a_vm_leaves_under_work_and_comes_back() {
    let Some(vm) = vms() else { return };
    let daemon = Daemon::start_with(1, LINK);
    let mut job = vm();
    job.arg("--socket-path").arg(daemon.socket(0)).args(["--", "link", "detach", "--frames=2"]);
    see_detach(&daemon, &mut job);
}
