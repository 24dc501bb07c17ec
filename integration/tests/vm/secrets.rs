// SPDX-License-Identifier: MIT OR Apache-2.0

//! The security node of a real guest.

use crate::support::secrets::see_every_behaviour_in;
use crate::support::vms;

#[test]
fn every_behaviour_of_a_security_node_is_seen_in_a_vm() {
    let Some(vm) = vms() else { return };
    see_every_behaviour_in(&mut vm());
}
