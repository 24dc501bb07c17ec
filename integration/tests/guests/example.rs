// SPDX-License-Identifier: MIT OR Apache-2.0

//! The examples in the driver's documentation, run against a real daemon.

use crate::support::{self, Daemon};
use bellhop_guest_umd::KernelError;

mod copy {
    include!("../../../guest-umd/doc/copy.rs");
}

mod square {
    include!("../../../guest-umd/doc/square.rs");
}

#[test]
fn the_documented_example_works_as_it_stands() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    assert_eq!(copy::copy(guest).unwrap(), b"hello");
}

/// Where the daemon has nothing to run kernels with, the example says what is missing.
#[test]
fn the_documented_kernel_works_as_it_stands_or_says_what_is_missing() {
    let daemon = Daemon::start(1);
    match square::square(support::guest(&daemon, 0)) {
        Ok(squares) => assert!(squares.into_iter().eq((0..1000).map(|number| number * number))),
        Err(KernelError::NotOffered { missing }) => {
            assert!(!missing.is_empty());
            eprintln!("skipped: no kernel is run, since {missing}");
        }
        Err(error) => panic!("{error}"),
    }
}
