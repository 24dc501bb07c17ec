// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' programs that draw with OpenGL, through Mesa's zink, compared with the same programs on lavapipe, through zink as well.

use crate::support::vulkan::beside;
use crate::support::windows::XServer;
use crate::support::{Daemon, text};
use bellhop_integration::vulkan::opengl;
use bellhop_vm::{Mesa, Packaged, Sources, fetch_programs, fetch_vulkan};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Debian's packages of the programs.
const PACKAGES: [&str; 3] = ["mesa-utils", "glmark2-x11", "glmark2-es2-x11"];
/// Where a program has its window, and how large gears are.
const PLACE: [usize; 2] = [0, 0];
const GEARS: [usize; 2] = [300, 300];
/// Pictures of a guest's gears that are looked at, and of lavapipe's own: as many as they have phases that can be told apart. A picture
/// and the nearest of the others differ where teeth have moved by less than a phase: in few of the pixels.
const LOOKS: usize = 20;
const PHASES: usize = 400;
const DIFFERENT: usize = GEARS[0] * GEARS[1] / 50;
/// Colours of a picture in which gears are drawn: a plain window has one.
const COLOURS: usize = 20;
/// A scene of glmark2's that does not move, and how large it is.
const STILL: [&str; 4] = ["-b", "effect2d:duration=10", "--size", "400x300"];
const STILL_SIZE: [usize; 2] = [400, 300];

/// A configuration for a machine on which shaders take long to compile.
const PATIENT: &str = "[adapter]\ntimeout = \"120s\"\n";

fn packages() -> Packaged {
    let packages = opengl::with_packages(&PACKAGES.map(str::to_owned));
    fetch_programs(&packages, &Sources::default()).unwrap()
}

/// A program of a guest, in a window of this server.
fn guest(daemon: &Daemon, server: &XServer, words: &[&str]) -> Command {
    let mut command = beside(daemon, 0);
    command.arg("--opengl").args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    command.arg("--").args(words).env("DISPLAY", &server.display);
    command
}

/// The same on lavapipe itself.
fn native(server: &XServer, words: &[&str]) -> Command {
    let packages = packages();
    let [program, arguments @ ..] = words else { panic!("no program") };
    let mut command = packages.command(OsStr::new(program)).unwrap();
    let lavapipe = fetch_vulkan(Mesa::Debian13, &Sources::default()).unwrap();
    let lavapipe = lavapipe.command(Path::new("none"));
    command.envs(lavapipe.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.envs(opengl::variables(&packages.root()));
    // Zink takes a Vulkan of the processor's for no other.
    command.env("LIBGL_ALWAYS_SOFTWARE", "1");
    command.args(arguments).env("DISPLAY", &server.display);
    command
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Different pictures of a part of the screen in which something is drawn, until there are so many.
fn pictures(
    program: &mut Child,
    server: &XServer,
    size: [usize; 2],
    count: usize,
) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = Vec::new();
    while all.len() < count && program.try_wait().unwrap().is_none() {
        let picture = server.picture(PLACE, size);
        let colours: BTreeSet<_> = picture.iter().collect();
        if colours.len() >= COLOURS && !all.contains(&picture) {
            all.push(picture);
        }
    }
    let _ = program.kill();
    let _ = program.wait();
    all
}

fn difference(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count()
}

/// Has a guest's gears turn, and lavapipe's own; each picture must be nearly one of the others.
fn assert_same_gears(program: &str) {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    let Some(server) = XServer::start() else { return };
    let mut gears = start(&mut guest(&daemon, &server, &[program]));
    let drawn = pictures(&mut gears, &server, GEARS, LOOKS);
    assert_eq!(drawn.len(), LOOKS, "{}", text(&gears.wait_with_output().unwrap().stderr));
    let server = XServer::start().unwrap();
    let right = pictures(&mut start(&mut native(&server, &[program])), &server, GEARS, PHASES);
    assert_eq!(right.len(), PHASES);
    let nearest = |picture: &Vec<u32>| right.iter().map(|right| difference(picture, right)).min();
    let mut off: Vec<_> = drawn.iter().filter_map(nearest).collect();
    off.sort_unstable();
    // Some pictures are caught while they are drawn.
    assert!(off[LOOKS / 2] <= DIFFERENT, "pixels that differ: {off:?}");
}

#[test]
fn glxgears_of_a_guest_turn_as_lavapipe_s_own() {
    assert_same_gears("glxgears");
}

#[test]
fn es2gears_of_a_guest_turn_as_lavapipe_s_own() {
    assert_same_gears("es2gears_x11");
}

/// The scenes of glmark2, and what it says of the picture of each, as it looks at some pixels itself.
fn validated(mut command: Command) -> Vec<String> {
    let said = command.output().unwrap();
    let lines = text(&said.stdout);
    let scenes = lines.lines().filter(|line| line.contains("Validation: "));
    let scenes: Vec<_> = scenes.map(str::to_owned).collect();
    assert!(said.status.success() && scenes.len() > 30, "{lines}{}", text(&said.stderr));
    scenes
}

fn assert_scenes_are_right(program: &str) {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    let Some(server) = XServer::start() else { return };
    let data = packages().root().join("usr/share/glmark2");
    let words = [program, "--validate", "--data-path", data.to_str().unwrap()];
    let seen = validated(guest(&daemon, &server, &words));
    assert_eq!(seen, validated(native(&server, &words)));
    assert!(seen.iter().all(|scene| !scene.contains("Failure")), "{seen:#?}");
    assert!(seen.iter().filter(|scene| scene.ends_with("Success")).count() > 20, "{seen:#?}");
}

#[test]
fn glmark2_finds_its_scenes_right_in_a_guest() {
    assert_scenes_are_right("glmark2");
}

#[test]
fn glmark2_finds_its_scenes_of_opengl_es_right_in_a_guest() {
    assert_scenes_are_right("glmark2-es2");
}

#[test]
fn a_scene_that_does_not_move_is_lavapipe_s_to_the_pixel() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    let Some(server) = XServer::start() else { return };
    let data = packages().root().join("usr/share/glmark2");
    for program in ["glmark2", "glmark2-es2"] {
        let words = [&[program, "--data-path", data.to_str().unwrap()], &STILL[..]].concat();
        let mut seen = start(&mut guest(&daemon, &server, &words));
        let seen = pictures(&mut seen, &server, STILL_SIZE, 1);
        let other = XServer::start().unwrap();
        let right = pictures(&mut start(&mut native(&other, &words)), &other, STILL_SIZE, 1);
        assert!(seen == right && seen.len() == 1, "{program}: {} pictures", seen.len());
    }
}
