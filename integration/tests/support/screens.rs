// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a person or a program sees of a screen.

use super::python::python_with;
use super::{DISPLAYS, TIMEOUT, assert_every_behaviour_is_seen, conformance, outcomes};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::NamedTempFile;

/// Sees every behaviour of a display in a guest that this command starts, with two monitors.
#[track_caller]
pub fn see_every_behaviour(command: &mut Command) {
    let mut file = NamedTempFile::new().unwrap();
    write!(file, "{DISPLAYS}[debug]\npower_control = true\n").unwrap();
    command.arg("--config").arg(file.path()).args(["--", "selftest", "display.", "--json"]);
    let seen = conformance(command);
    assert_every_behaviour_is_seen(&seen, &[]);
    assert_eq!(outcomes(&seen, "passed").count(), seen["checks"].as_array().unwrap().len());
}

/// The size and the pixels (`0x00RRGGBB`) of a PNG.
pub fn read_png(path: &Path) -> ((u32, u32), Vec<u32>) {
    let mut reader =
        png::Decoder::new(BufReader::new(File::open(path).unwrap())).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let words = bytes[..info.buffer_size()].chunks_exact(info.color_type.samples());
    let pixel = |rgb: &[u8]| u32::from(rgb[0]) << 16 | u32::from(rgb[1]) << 8 | u32::from(rgb[2]);
    ((info.width, info.height), words.map(pixel).collect())
}

/// A server for viewers, and the address that it said.
pub struct Serves(Child, pub String);

impl Serves {
    /// Starts `bellhop screen serve`, as `command` has it, with the password `secret` in a file of this folder.
    pub fn start(mut command: Command, folder: &Path) -> Self {
        let password = folder.join("password");
        std::fs::write(&password, "secret\n").unwrap();
        command.arg("--password-file").arg(password).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().rsplit(' ').next().unwrap().to_owned();
        Self(child, address)
    }
}

impl Drop for Serves {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder of a Python with an independent viewer.
pub fn vncdotool() -> Option<PathBuf> {
    python_with("vncdotool==1.4.2", "import vncdotool", "no independent viewer takes the screen")
}

/// The independent viewer, with a password, about to look at a server.
pub fn viewer(python: &Path, serves: &Serves, password: &str) -> Command {
    let mut viewer = Command::new(python.join("bin/vncdo"));
    viewer.args(["--timeout", &TIMEOUT.as_secs().to_string()]);
    viewer.args(["--server", &serves.1.replace(':', "::"), "--password", password]);
    viewer
}
