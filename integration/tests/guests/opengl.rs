// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' programs that draw with OpenGL, through Mesa's zink, compared with the same programs on lavapipe, through zink as well.

use crate::support::opengl::{
    PACKAGES, STILL, UNHURRIED, assert_gears, assert_still, native, packages, start, still,
};
use crate::support::vulkan::beside;
use crate::support::windows::XServer;
use crate::support::{Daemon, text};
use std::process::Command;

/// A program of a guest, in a window of this server.
fn guest(daemon: &Daemon, server: &XServer, words: &[&str]) -> Command {
    guest_with(daemon, server, &[], words)
}

/// The same with options of the command.
fn guest_with(daemon: &Daemon, server: &XServer, options: &[&str], words: &[&str]) -> Command {
    let mut command = beside(daemon, 0);
    command
        .args(options)
        .arg("--opengl")
        .args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    command.arg("--").args(words).env("DISPLAY", &server.display);
    command
}

/// Has a guest's gears turn as lavapipe's own do.
fn assert_same_gears(program: &str) {
    let Some(daemon) = Daemon::start_with_kernels(1, UNHURRIED) else { return };
    let Some(server) = XServer::start() else { return };
    assert_gears(program, start(&mut guest(&daemon, &server, &[program])), &server);
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
    let Some(daemon) = Daemon::start_with_kernels(1, UNHURRIED) else { return };
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
    let Some(daemon) = Daemon::start_with_kernels(1, UNHURRIED) else { return };
    let Some(server) = XServer::start() else { return };
    let data = packages().root().join("usr/share/glmark2");
    for program in ["glmark2", "glmark2-es2"] {
        let words = [&[program, "--data-path", data.to_str().unwrap()], &STILL[..]].concat();
        let mut seen = start(&mut guest(&daemon, &server, &words));
        assert_still(&still(&mut seen, &server), &words);
    }
}

/// All scenes but that of terrains: there zink reads an image in a vertex shader, and has its transition waited for by fragment shaders.
const SCENES: [&str; 15] = [
    "build",
    "texture",
    "shading",
    "bump",
    "effect2d",
    "pulsar",
    "desktop",
    "buffer",
    "ideas",
    "jellyfish",
    "shadow",
    "refract",
    "conditionals",
    "function",
    "loop",
];

#[test]
fn the_validation_layer_finds_nothing_in_scenes_of_opengl() {
    let Some(daemon) = Daemon::start_with_kernels(1, UNHURRIED) else { return };
    let Some(server) = XServer::start() else { return };
    let data = packages().root().join("usr/share/glmark2");
    for program in ["glmark2", "glmark2-es2"] {
        let mut words = vec![program, "--validate", "--data-path", data.to_str().unwrap()];
        words.extend(SCENES.iter().flat_map(|scene| ["-b", *scene]));
        let said = guest_with(&daemon, &server, &["--validate"], &words).output().unwrap();
        assert!(said.status.success(), "{}", text(&said.stderr));
    }
}
