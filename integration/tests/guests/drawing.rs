// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' programs that draw with Vulkan, compared with the same programs on lavapipe itself.

use crate::support::vulkan::beside;
use crate::support::windows::XServer;
use crate::support::{Daemon, text};
use bellhop_vm::{Mesa, Sources, fetch_programs, fetch_vulkan};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Different frames that must be the same to the pixel.
const FRAMES: usize = 5;
/// Colours of a frame in which something was drawn: a plain window has one or two.
const COLOURS: usize = 100;
/// Debian's package of the cube, and the program.
const PACKAGE: &str = "vulkan-tools";
const CUBE: &str = "vkcube";

/// The cube's arguments. It turns by 4 degrees from frame to frame, whatever time that takes.
fn arguments(command: &mut Command, mode: &str, frames: &str) -> Child {
    command.args(["--wsi", "xcb", "--suppress_popups", "--width", "200", "--height", "200"]);
    command.args(["--present_mode", mode, "--c", frames]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The cube on lavapipe itself, in a window of this server.
fn native(server: &XServer, mode: &str) -> Child {
    let sources = Sources::default();
    let packages = fetch_programs(&[PACKAGE.to_owned()], &sources).unwrap();
    let vulkan = fetch_vulkan(Mesa::Debian13, &sources).unwrap().command(Path::new(CUBE));
    let mut command = packages.command(OsStr::new(CUBE)).unwrap();
    let variables = vulkan.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(variables).env("DISPLAY", &server.display);
    arguments(&mut command, mode, "1000000")
}

/// Pictures of a server, as far as something was drawn, until this says that there are enough, or the program has ended.
fn look(
    server: &XServer,
    program: &mut Child,
    mut is_enough: impl FnMut(Vec<u32>) -> bool,
) -> bool {
    while program.try_wait().unwrap().is_none() {
        let picture = server.picture();
        let colours: BTreeSet<_> = picture.iter().collect();
        if colours.len() >= COLOURS && is_enough(picture) {
            return true;
        }
    }
    false
}

/// Draws the cube in both ways, in a mode of Vulkan's (`VkPresentModeKHR`), until frames were the same.
fn assert_same_frames(mode: &str) {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let (Some(ours), Some(theirs)) = (XServer::start(), XServer::start()) else { return };
    let mut command = beside(&daemon, 0);
    command.args(["--package", PACKAGE, "--", CUBE]).env("DISPLAY", &ours.display);
    let mut guest = arguments(&mut command, mode, "100000");
    // A frame that is caught while it is drawn is like no other.
    let mut drawn = BTreeSet::new();
    let has_drawn = look(&ours, &mut guest, |picture| {
        drawn.insert(picture);
        drawn.len() >= 4 * FRAMES
    });
    let mut native = native(&theirs, mode);
    let mut same = BTreeSet::new();
    let are_same = has_drawn
        && look(&theirs, &mut native, |picture| {
            if drawn.contains(&picture) {
                same.insert(picture);
            }
            same.len() >= FRAMES
        });
    let _ = (guest.kill(), native.kill());
    let said = guest.wait_with_output().unwrap();
    let _ = native.wait();
    assert!(are_same, "{} of {} frames: {}", same.len(), drawn.len(), text(&said.stderr));
}

#[test]
fn a_cube_in_a_window_is_lavapipe_s_to_the_pixel() {
    assert_same_frames("2");
}

#[test]
fn a_cube_in_a_window_that_shows_the_newest_frame_is_lavapipe_s_to_the_pixel() {
    assert_same_frames("1");
}

#[test]
fn the_validation_layer_finds_nothing_in_a_cube() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let Some(server) = XServer::start() else { return };
    let mut command = beside(&daemon, 0);
    command.args(["--validate", "--package", PACKAGE, "--", CUBE]).env("DISPLAY", &server.display);
    let said = arguments(&mut command, "2", "60").wait_with_output().unwrap();
    assert!(said.status.success(), "{}", text(&said.stderr));
}
