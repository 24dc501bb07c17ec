// SPDX-License-Identifier: MIT OR Apache-2.0

//! The display of a real guest.

use crate::support::screens::see_every_behaviour;
use crate::support::vms;

#[test]
fn every_behaviour_of_a_display_is_seen_in_a_vm() {
    let Some(vm) = vms() else { return };
    see_every_behaviour(&mut vm());
}
