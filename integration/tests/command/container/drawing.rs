// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that draw in a container, in windows of the host's X server.

use super::vulkan_containers;
use crate::support::cube::{CUBE, FIFO, MAILBOX, MANY, PACKAGE, PLACE, SMALL, assert_same_frames};
use crate::support::standing::{
    Draws, PACKAGES, PATIENT, assert_drawn_natively, installed, native, packages, standing,
};
use crate::support::windows::XServer;
use crate::support::{cube, opengl};
use std::io::Write;
use tempfile::NamedTempFile;

/// Where X servers have their sockets.
const SOCKETS: &str = "/tmp/.X11-unix";
/// Scenes of the benchmark, and the colours of their pictures at least.
const SCENES: [(&str, usize); 3] =
    [("cube", 1000), ("texture", 1000), ("effect2d:kernel=blur", 1000)];
const SIDE: usize = 200;

#[test]
fn a_benchmark_in_a_container_draws_into_a_window_of_the_host_s_what_lavapipe_does() {
    let Some(container) = vulkan_containers() else { return };
    let mut config = NamedTempFile::new().unwrap();
    config.write_all(PATIENT.as_bytes()).unwrap();
    let unpacked = packages();
    for (scene, colours) in SCENES {
        let Some(server) = XServer::start() else { return };
        let mut command = container();
        command.args(["--vulkan", "debian-13", "--vulkan-driver", "--folder", SOCKETS]);
        command.arg("--config").arg(config.path());
        for package in PACKAGES.into_iter().chain(["coreutils"]) {
            command.args(["--package", package]);
        }
        command.args(["--", "env", &format!("DISPLAY={}", server.display)]);
        let _inside = Draws::start(command.args(installed(scene, SIDE)));
        let native = native(&unpacked, &standing(&unpacked, scene, SIDE));
        let seen = || server.picture([0, 0], [SIDE; 2]);
        assert_drawn_natively("the container's picture", native, colours, SIDE, seen);
    }
}

#[test]
fn a_cube_in_a_container_is_lavapipe_s_to_the_pixel() {
    let Some(container) = vulkan_containers() else { return };
    for mode in [FIFO, MAILBOX] {
        let Some(server) = XServer::start() else { return };
        let mut command = container();
        command.args(["--vulkan", "debian-13", "--vulkan-driver", "--windows"]);
        command.args(["--package", PACKAGE, "--", CUBE]).env("DISPLAY", &server.display);
        let inside = cube::start(&mut command, mode, SMALL, MANY);
        assert_same_frames(inside, || server.picture(PLACE, SMALL), SMALL);
    }
}

#[test]
fn gears_in_a_container_turn_as_lavapipe_s_own() {
    let Some(container) = vulkan_containers() else { return };
    let mut config = NamedTempFile::new().unwrap();
    config.write_all(opengl::UNHURRIED.as_bytes()).unwrap();
    for program in ["glxgears", "es2gears_x11"] {
        let Some(server) = XServer::start() else { return };
        let mut command = container();
        command.args(["--vulkan", "debian-13", "--vulkan-driver", "--opengl", "--windows"]);
        command.args(opengl::PACKAGES.iter().flat_map(|package| ["--package", package]));
        command.arg("--config").arg(config.path()).args(["--", program]);
        let inside = opengl::start(command.env("DISPLAY", &server.display));
        opengl::assert_gears(program, inside, &server);
    }
}
