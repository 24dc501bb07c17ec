// SPDX-License-Identifier: MIT OR Apache-2.0

//! The example in the driver's documentation, run against a real daemon.

use crate::support::{self, Daemon};

mod copy {
    include!("../../../guest-umd/doc/copy.rs");
}

#[test]
fn the_documented_example_works_as_it_stands() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    assert_eq!(copy::copy(guest).unwrap(), b"hello");
}
