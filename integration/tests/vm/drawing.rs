// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs of a VM's that draw, as users without privileges, who share its GPU.

use crate::support::cube::{self, CUBE, PLACE};
use crate::support::kernels::worker;
use crate::support::printed::send_lines;
use crate::support::screens::read_png;
use crate::support::standing::{
    Draws, PACKAGES, PATIENT, assert_drawn_natively, installed, native, packages, standing,
};
use crate::support::{await_that, bellhop, is_here, vm, vms};
use bellhop_vm::{Sources, fetch_vulkan_programs};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tempfile::NamedTempFile;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// A scene of the benchmark, and the colours of its picture at least.
const SCENE: (&str, usize) = ("cube", 500);
/// The package of the program that README.md shows.
const PLAYER: &str = "mpv";
/// The side of the benchmark's window and of its screen: each picture comes back by a serial port.
const SIDE: usize = 100;
/// The cube's, and that of a screen around its window.
const CUBE_SIZE: [usize; 2] = [100; 2];
const CUBE_SIDE: usize = PLACE[0] + CUBE_SIZE[0];
/// Pictures of the cube's that are looked at.
const CUBES: usize = 12;

/// A VM with an X server of its own, and a program that draws there.
struct Inside {
    vm: Child,
    said: Receiver<String>,
    /// The screen is a square of it.
    side: usize,
}

impl Inside {
    /// Starts it with these packages of Debian's. `None` where there is no such VM.
    fn start<'p>(
        packages: impl Iterator<Item = &'p str>,
        side: usize,
        program: impl IntoIterator<Item = OsString>,
    ) -> Option<Self> {
        let vm = vms()?;
        let loss = "no program in a VM draws";
        if worker(loss).is_none() || !is_here("Xvfb", loss) {
            return None;
        }
        let mut config = NamedTempFile::new().unwrap();
        config.write_all(PATIENT.as_bytes()).unwrap();
        let mut command = vm();
        command.args(["--vulkan", "debian-13", "--debian", "13", "--config"]).arg(config.path());
        for package in packages.chain(["xvfb", "coreutils", "dash"]) {
            command.args(["--install", package]);
        }
        command.arg("--file").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm/window.sh"));
        command.args(["--", "sh", "/files/window.sh", &side.to_string()]);
        command.args(program).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut vm = command.stderr(Stdio::inherit()).spawn().unwrap();
        let (sender, said) = channel();
        send_lines("VM", vm.stdout.take().unwrap(), sender);
        let inside = Self { vm, said, side };
        // The VM has read the configuration when it prints its first picture, which is an empty one.
        inside.pictures().next().expect("the VM ended before its screen was there");
        Some(inside)
    }

    /// The pictures on its screen that differ from the one before, until the VM ends.
    fn pictures(&self) -> impl Iterator<Item = Vec<u32>> {
        self.said.iter().filter_map(|line| {
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            let pixel =
                |word: &&str| u32::from_str_radix(word, 16).ok().map(|pixel| pixel & 0xFF_FFFF);
            let is_one = words.len() == self.side * self.side;
            is_one.then(|| words.iter().map(pixel).collect())?
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.vm.kill();
        let _ = self.vm.wait();
    }
}

#[test]
fn a_benchmark_in_a_window_of_a_vm_s_x_server_draws_what_lavapipe_does() {
    let (scene, colours) = SCENE;
    let program = installed(scene, SIDE);
    let Some(inside) = Inside::start(PACKAGES.into_iter(), SIDE, program) else { return };
    let mut pictures = inside.pictures();
    let drawn = pictures.find(|picture| picture.iter().collect::<BTreeSet<_>>().len() >= colours);
    let drawn = drawn.expect("the VM ended before it drew anything");
    let packages = packages();
    let native = native(&packages, &standing(&packages, scene, SIDE));
    assert_drawn_natively("the VM's picture", native, colours, SIDE, || drawn.clone());
}

#[test]
fn a_cube_in_a_window_of_a_vm_s_x_server_is_lavapipe_s_to_the_pixel() {
    // It begins anew before its matrix has lost so much that lavapipe's own does not come there.
    let cube = [&[CUBE.to_owned()], &cube::words(cube::FIFO, CUBE_SIZE, "600")[..]].concat();
    let program = ["sh".into(), "-c".into(), format!("while {}; do :; done", cube.join(" "))];
    let program = program.map(OsString::from);
    let packages = [cube::PACKAGE].into_iter();
    let Some(inside) = Inside::start(packages, CUBE_SIDE, program) else { return };
    let in_window = |picture: Vec<u32>| -> Vec<u32> {
        let lines = picture.chunks(CUBE_SIDE).skip(PLACE[1]);
        lines.flat_map(|line| line[PLACE[0]..].to_vec()).collect()
    };
    let pictures = inside.pictures().map(in_window).filter(|picture| cube::is_drawn(picture));
    let drawn: BTreeSet<_> = pictures.take(CUBES).collect();
    cube::assert_drawn_natively(&drawn, CUBE_SIZE, "");
}

/// The commands of a document from the one on that begins so, to the end of their block. One that ends with a backslash goes on.
fn commands(document: &str, first: &str) -> Vec<String> {
    let document = document.replace("\\\n", "");
    let lines = document.lines().skip_while(|line| !line.starts_with(first));
    lines.take_while(|line| *line != "```").map(str::to_owned).collect()
}

/// A Julia set has many colours, which a film of one colour does not.
fn has_a_julia_set(png: &Path) -> bool {
    let (size, pixels) = read_png(png);
    size == (640, 360) && pixels.iter().collect::<BTreeSet<_>>().len() > 1000
}

/// The commands of README.md give its picture. The last ones, which show it in a browser, are not tried here: what they serve is.
#[test]
fn the_commands_of_the_readme_show_a_program_that_draws_in_a_vm() {
    if vms().is_none() || worker("the picture of README.md is not tried").is_none() {
        return;
    }
    let root = Path::new(ROOT);
    assert!(has_a_julia_set(&root.join("docs/vm.png")));
    let document = std::fs::read_to_string(root.join("README.md")).unwrap();
    let commands = commands(&document, "bellhop daemon ");
    assert_eq!(commands.len(), 4, "{commands:#?}");
    // The VM's time does not begin with what is fetched.
    fetch_vulkan_programs(&[PLAYER.to_owned()], &Sources::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    symlink(root.join("docs").canonicalize().unwrap(), folder.path().join("docs")).unwrap();
    let command = |line: &str| {
        // One is tried until it succeeds; here it does.
        let line = line.trim_start_matches("until ").split(';').next().unwrap_or_default();
        let words = shlex::split(line.trim_end_matches('&')).unwrap();
        assert_eq!(words[0], "bellhop", "{line}");
        let mut command = if words[1] == "vm" { vm() } else { bellhop() };
        let skipped = if words[1] == "vm" { 2 } else { 1 };
        command.args(&words[skipped..]).current_dir(folder.path()).stdin(Stdio::null());
        command
    };
    let is_there = |name: &str| folder.path().join(name).exists();
    let _daemon = Draws::start(&mut command(&commands[0]));
    await_that("the daemon listens", || is_there("gpu.sock") && is_there("control.sock"));
    let mut vm = Draws::start(&mut command(&commands[1]));
    let png = folder.path().join("screen.png");
    let capture = || {
        let mut capture = Command::new(bellhop().get_program());
        capture.args(["screen", "capture", "--socket", "control.sock", "--png", "screen.png"]);
        let output = capture.current_dir(folder.path()).output().unwrap();
        output.status.success() && has_a_julia_set(&png)
    };
    // A VM without KVM takes a while to start, and the program in it to load.
    while !capture() {
        assert!(vm.runs(), "the VM ended before its program drew anything");
    }
    let _serves = Draws::start(&mut command(&commands[2]));
    await_that("viewers are served", || is_there("screen.sock"));
}
