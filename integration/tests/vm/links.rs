// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several GPUs as one adapter of a real guest.

use crate::support::{see_every_behaviour_of_a_chain, vms};

#[test]
fn every_behaviour_of_a_chain_is_seen_in_a_vm() {
    let Some(vm) = vms() else { return };
    see_every_behaviour_of_a_chain(&mut vm());
}
