//! The example in the driver's documentation, run against a real daemon.

mod support;

use support::Daemon;

mod example {
    include!("../../guest-umd/doc/copy.rs");
}

#[test]
fn the_documented_example_works_as_it_stands() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    assert_eq!(example::copy(guest).unwrap(), b"hello");
}
