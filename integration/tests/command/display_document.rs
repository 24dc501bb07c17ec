// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands of docs/display.md give its picture.

use crate::support::kernels::worker;
use crate::support::screens::read_png;
use crate::support::{await_that, bellhop, run};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A program that runs until the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The commands of the document from the one on that begins so, to the end of their block.
fn commands(document: &str, first: &str) -> Vec<String> {
    let lines = document.lines().skip_while(|line| !line.starts_with(first));
    lines.take_while(|line| *line != "```").map(str::to_owned).collect()
}

/// A command of the document, which it may start in the background.
fn command(line: &str, folder: &Path) -> Command {
    let words = shlex::split(line.trim_end_matches('&')).unwrap();
    assert_eq!(words[0], "bellhop", "{line}");
    let mut command = bellhop();
    command.args(&words[1..]).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Rings have many colours in each row; bars, which run down, have one.
fn has_rings(png: &Path) -> bool {
    let ((width, height), pixels) = read_png(png);
    let middle = pixels.chunks(width as usize).nth(height as usize / 2).unwrap();
    middle.iter().collect::<BTreeSet<_>>().len() > 100
}

#[test]
fn the_commands_for_a_display_show_the_rings_of_the_picture_above_them() {
    if worker("the display of docs/display.md is not tried").is_none() {
        return;
    }
    let root = Path::new(ROOT);
    assert!(has_rings(&root.join("docs/display.png")));
    let document = fs::read_to_string(root.join("docs/display.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (mut running, mut captured) = (Vec::new(), false);
    for line in commands(&document, "printf '[[adapter.displays]]") {
        if line.starts_with("printf ") {
            run(Command::new("sh").args(["-c", &line]).current_dir(folder.path()));
        } else if line.starts_with("bellhop daemon ") {
            running.push(Running(command(&line, folder.path()).spawn().unwrap()));
            let is_there = |name| folder.path().join(name).exists();
            await_that("the daemon listens", || is_there("control.sock") && is_there("gpu.sock"));
        } else if line.starts_with("bellhop present ") {
            running.push(Running(command(&line, folder.path()).spawn().unwrap()));
        } else if line.starts_with("bellhop screen capture ") {
            // Nothing is shown until the kernel is compiled.
            await_that("rings are shown", || {
                let output = command(&line, folder.path()).output().unwrap();
                output.status.success() && has_rings(&folder.path().join("screen.png"))
            });
            captured = true;
        }
    }
    assert!(captured && running.len() == 2);
}
