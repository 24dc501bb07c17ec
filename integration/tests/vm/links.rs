// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several GPUs as one adapter of a real guest.

use crate::support::links::see_frames;
use crate::support::{see_every_behaviour_of_a_chain, vms};

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
