// SPDX-License-Identifier: MIT OR Apache-2.0

//! The examples of the driver, as programs beside a real daemon.

use crate::support::examples::example;
use crate::support::video::VIDEO;
use crate::support::{self, DISPLAYS, Daemon, secrets, text};
use std::process::{Command, Output};

/// Runs an example beside the daemon.
fn beside(daemon: &Daemon, name: &str) -> Output {
    Command::new(example(name)).env("BELLHOP_SOCKET", daemon.socket(0)).output().unwrap()
}

/// What an example prints that must succeed.
#[track_caller]
fn printed(daemon: &Daemon, name: &str) -> String {
    support::succeed(beside(daemon, name))
}

/// What an example says that must fail.
#[track_caller]
fn said(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn the_example_of_a_copy_copies() {
    let daemon = Daemon::start(1);
    assert_eq!(printed(&daemon, "copy"), "the GPU copied: hello\n");
}

#[test]
fn the_example_of_video_encodes_and_decodes_or_says_what_is_missing() {
    let daemon = Daemon::start_with(1, VIDEO);
    let printed = printed(&daemon, "video");
    let pixel = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u8>().unwrap();
    let pixels: Vec<_> = printed.lines().map(pixel).collect();
    assert_eq!(pixels.len(), 10, "{printed}");
    assert!(pixels.iter().zip(0..).all(|(pixel, n)| pixel.abs_diff(40 + 10 * n) < 8), "{printed}");
    let without = said(beside(&Daemon::start(1), "video"));
    assert!(without.contains("video_encode_nodes"), "{without}");
}

#[test]
fn the_example_of_a_kernel_squares() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    // n (n + 1) (2 n + 1) / 6 for n = 999
    let expected = "the squares of the numbers below 1000 add up to 332833500\n";
    assert_eq!(printed(&daemon, "kernel"), expected);
}

#[test]
fn the_example_of_a_kernel_says_what_the_host_lacks() {
    let said = said(beside(&Daemon::start(1), "kernel"));
    assert!(said.contains("NotOffered"), "{said}");
}

#[test]
fn the_example_of_a_display_shows_each_frame_or_says_that_there_is_no_display() {
    let daemon = Daemon::start_with(1, DISPLAYS);
    assert_eq!(printed(&daemon, "display"), "120 frames presented, 120 shown\n");
    let without = said(beside(&Daemon::start(1), "display"));
    assert!(without.contains("NoDisplay"), "{without}");
}

#[test]
fn the_example_of_a_secret_seals_it_or_says_what_is_missing() {
    let daemon = Daemon::start_with(1, secrets::NODE);
    let printed = printed(&daemon, "secret");
    assert!(printed.starts_with("a key of 16 bytes, sealed in "), "{printed}");
    let without = said(beside(&Daemon::start(1), "secret"));
    assert!(without.contains("NotOffered"), "{without}");
}

#[test]
fn an_example_without_a_device_says_what_was_tried_and_what_to_do() {
    let mut program = Command::new(example("copy"));
    let said = said(program.env_remove("BELLHOP_SOCKET").output().unwrap());
    assert!(said.contains("BELLHOP_SOCKET: they are not set"), "{said}");
    assert!(said.contains("attach one to this VM"), "{said}");
}

#[test]
fn two_examples_take_one_socket_after_the_other() {
    let daemon = Daemon::start(1);
    for _ in 0..2 {
        assert_eq!(printed(&daemon, "copy"), "the GPU copied: hello\n");
    }
}
