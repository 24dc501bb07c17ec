// SPDX-License-Identifier: MIT OR Apache-2.0

//! The examples in the driver's documentation, run against a real daemon.

use crate::support::video::VIDEO;
use crate::support::{self, DISPLAYS, Daemon};
use bellhop_guest_umd::KernelError;
use bellhop_guest_umd::display::DisplayError;
use bellhop_guest_umd::video::VideoError;

mod copy {
    include!("../../../guest-umd/doc/copy.rs");
}

mod square {
    include!("../../../guest-umd/doc/square.rs");
}

mod animate {
    include!("../../../guest-umd/doc/animate.rs");
}

mod video {
    include!("../../../guest-umd/doc/video.rs");
}

#[test]
fn the_documented_video_works_as_it_stands_or_says_what_is_missing() {
    let daemon = Daemon::start_with(1, VIDEO);
    let pictures = video::there_and_back(support::guest(&daemon, 0)).unwrap();
    assert!(pictures.iter().map(|picture| picture.time).eq(0..10));
    assert!(
        pictures.iter().zip(0..).all(|(picture, n)| picture.bytes[0].abs_diff(40 + 10 * n) < 8)
    );
    let without = Daemon::start(1);
    match video::there_and_back(support::guest(&without, 0)) {
        Err(VideoError::NotOffered { missing }) => assert!(missing.contains("video_encode_nodes")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_documented_example_works_as_it_stands() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    assert_eq!(copy::copy(guest).unwrap(), b"hello");
}

#[test]
fn the_documented_kernel_works_as_it_stands() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let squares = square::square(support::guest(&daemon, 0)).unwrap();
    assert!(squares.into_iter().eq((0..1000).map(|number| number * number)));
}

/// Where the daemon has nothing to run kernels with, the example says what is missing.
#[test]
fn the_documented_kernel_says_what_is_missing() {
    let daemon = Daemon::start(1);
    match square::square(support::guest(&daemon, 0)) {
        Err(KernelError::NotOffered { missing }) => assert!(!missing.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_documented_animation_works_as_it_stands_or_says_that_there_is_no_display() {
    let daemon = Daemon::start_with(1, DISPLAYS);
    let statistics = animate::animate(support::guest(&daemon, 0), 30).unwrap();
    assert_eq!((statistics.presented, statistics.shown), (30, 30));
    let without = Daemon::start(1);
    let none = animate::animate(support::guest(&without, 0), 1);
    assert!(matches!(none, Err(DisplayError::NoDisplay)), "{none:?}");
}
