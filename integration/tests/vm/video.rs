// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video in a real guest.

use crate::support::video::{see_every_behaviour, see_stills};
use crate::support::vms;

#[test]
fn every_behaviour_of_video_is_seen_in_a_vm() {
    let Some(vm) = vms() else { return };
    see_every_behaviour(&mut vm());
}

#[test]
fn pictures_of_a_video_that_a_vm_decodes_come_back_as_stills() {
    let Some(vm) = vms() else { return };
    see_stills(&mut vm());
}
