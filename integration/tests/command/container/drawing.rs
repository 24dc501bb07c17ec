// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that draw in a container, in windows of the host's X server.

use super::vulkan_containers;
use crate::support::standing::{
    Draws, PACKAGES, PATIENT, assert_drawn_natively, installed, native, packages, standing,
};
use crate::support::windows::XServer;
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
