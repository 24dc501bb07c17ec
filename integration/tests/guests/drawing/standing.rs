// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs whose picture stands still, compared with the same programs on lavapipe itself: it must be the same to the pixel.

use crate::support::standing::{
    Draws, PATIENT, assert_drawn_natively, native, packages, standing, unpacked,
};
use crate::support::vulkan::beside;
use crate::support::vulkan_programs::{programs, validation_errors};
use crate::support::windows::XServer;
use crate::support::{Daemon, await_that, python, text};
use bellhop_vm::{Mesa, Sources, fetch_vulkan};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::process::Command;

/// Scenes, and how many colours there are at least in a picture of each.
const SCENES: [(&str, usize); 9] = [
    ("vertex", 200),
    ("texture", 1000),
    ("shading:shading=gouraud", 200),
    ("shading:shading=phong", 200),
    ("shading:shading=cel", 3),
    ("effect2d:kernel=blur", 1000),
    ("effect2d:kernel=edge", 200),
    ("desktop", 700),
    ("cube", 1000),
];
/// A scene that is one colour, as the program is told, and its word in sRGB, which are the window's texels.
const CLEARED: (&str, u32) = ("clear:color=0.2,0.4,0.6,1", 0x007C_AACB);
const SIDE: usize = 200;

/// Has a program draw by a guest and on lavapipe itself, each in a window of its own server.
fn assert_same(daemon: &Daemon, words: &[OsString], native: Command, colours: usize) {
    let Some(server) = XServer::start() else { return };
    let mut guest = beside(daemon, 0);
    let _guest = Draws::start(guest.arg("--").args(words).env("DISPLAY", &server.display));
    let seen = || server.picture([0, 0], [SIDE; 2]);
    assert_drawn_natively(&format!("the same picture of {words:?}"), native, colours, SIDE, seen);
}

#[test]
fn each_scene_of_a_benchmark_is_lavapipe_s_to_the_pixel() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    let packages = packages();
    for (scene, colours) in SCENES {
        let words = standing(&packages, scene, SIDE);
        assert_same(&daemon, &words, native(&packages, &words), colours);
    }
}

#[test]
fn a_benchmark_clears_its_window_to_the_colour_that_it_is_told() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    let Some(server) = XServer::start() else { return };
    let (scene, colour) = CLEARED;
    let mut guest = beside(&daemon, 0);
    guest.arg("--").args(standing(&packages(), scene, SIDE)).env("DISPLAY", &server.display);
    let _guest = Draws::start(&mut guest);
    await_that("a window of one colour", || {
        server.picture([0, 0], [SIDE; 2]).iter().all(|pixel| *pixel == colour)
    });
}

/// What the validation layer finds in the benchmark, by a guest as on lavapipe itself: its fences are in use when they end, and nothing
/// orders its clears of depth.
const OWN: [&str; 2] = ["SYNC-HAZARD-WRITE-AFTER-WRITE", "VUID-vkDestroyFence-fence-01120"];

#[test]
fn the_validation_layer_finds_in_a_benchmark_what_it_finds_in_it_on_lavapipe() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    let Some(server) = XServer::start() else { return };
    let mut guest = beside(&daemon, 0);
    guest.args(["--validate", "--"]).args(unpacked(&packages())).env("DISPLAY", &server.display);
    guest.args(["--winsys", "xcb", "--benchmark", ":duration=0.2"]);
    for (scene, _) in SCENES {
        guest.args(["--benchmark", scene]);
    }
    let said = guest.output().unwrap();
    let (printed, found) = (text(&said.stdout), text(&said.stderr));
    assert!(printed.contains("vkmark Score"), "{printed}{found}");
    let errors = validation_errors(&found);
    assert!(errors.iter().all(|error| OWN.contains(error)), "{found}");
}

/// SDL's own test of Vulkan, where its package has it. Each of its frames is one colour, whose parts are of a turning wheel: together they
/// are one and a half.
const SDL_TEST: &str = "/usr/libexec/installed-tests/SDL2/testvulkan";
/// One and a half of the largest part of a colour, and what rounding may add or take.
const PARTS: RangeInclusive<u32> = 380..=385;

#[test]
fn a_window_of_sdl_s_turns_through_its_colours() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    let Some(server) = XServer::start() else { return };
    let mut guest = beside(&daemon, 0);
    guest.args(["--package", "libsdl2-tests", "--", SDL_TEST]).env("DISPLAY", &server.display);
    guest.args(["--geometry", "200x200", "--position", "0,0"]);
    let mut guest = Draws::start(&mut guest);
    let mut seen = BTreeSet::<u32>::new();
    await_that("many colours of the wheel", || {
        assert!(guest.runs());
        let colours: BTreeSet<_> = server.picture([0, 0], [SIDE; 2]).into_iter().collect();
        // A window that nobody has drawn into is black. A picture may be of two frames.
        let parts = |colour: &u32| [0, 8, 16].map(|bits| colour >> bits & 0xFF).iter().sum::<u32>();
        let drawn = colours.iter().filter(|colour| **colour != 0);
        assert!(drawn.clone().all(|colour| PARTS.contains(&parts(colour))), "{colours:x?}");
        seen.extend(drawn);
        seen.len() >= 50
    });
}

/// wgpu, as Python's packages have it, and what draws its windows.
const WGPU: &str = "wgpu==0.32.0 rendercanvas==2.7.2 glfw==2.11.0";

#[test]
fn a_triangle_of_wgpu_s_is_lavapipe_s_to_the_pixel() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    let loss = "nothing is drawn with wgpu";
    let Some(folder) = python::python_with(WGPU, "import wgpu, rendercanvas", loss) else { return };
    let (python, program) = (folder.join("bin/python"), programs().join("wgpu_program.py"));
    let vulkan = fetch_vulkan(Mesa::Debian13, &Sources::default()).unwrap();
    let mut native = vulkan.command(&python);
    native.arg(&program);
    assert_same(&daemon, &[python.into(), program.into()], native, 1000);
}
