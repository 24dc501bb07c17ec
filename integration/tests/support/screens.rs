// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a person or a program sees of a screen.

use super::python::python_with;
use super::{DISPLAYS, TIMEOUT, assert_every_behaviour_is_seen, await_that, conformance, outcomes};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
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

/// An independent viewer that stays, and takes the screen when it is told to.
pub struct Watches {
    child: Child,
    said: BufReader<ChildStdout>,
}

/// Takes the screen to each file that it is told.
const WATCH: &str = "
import sys
from vncdotool import api
client = api.connect(sys.argv[1], password=sys.argv[2])
for line in sys.stdin:
    client.captureScreen(line.strip())
    # Of a screen of another size, this viewer goes on asking for the part that it had.
    client.protocol.width, client.protocol.height = client.protocol.screen.size
    print(line.strip(), flush=True)
client.disconnect()
api.shutdown()
";

impl Watches {
    /// A viewer of a server, which knows the password.
    pub fn start(python: &Path, serves: &Serves) -> Self {
        let mut watch = Command::new(python.join("bin/python"));
        watch.args(["-c", WATCH, &serves.1.replace(':', "::"), "secret"]);
        let mut child = watch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    /// The screen as the viewer has it now.
    pub fn take(&mut self, png: &Path) -> ((u32, u32), Vec<u32>) {
        writeln!(self.child.stdin.as_ref().unwrap(), "{}", png.display()).unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), png.to_str().unwrap(), "the viewer has ended");
        read_png(png)
    }

    /// Takes the screen until the viewer sees this.
    #[track_caller]
    pub fn await_picture(&mut self, png: &Path, size: (u32, u32), pixels: &[u32]) {
        await_that("the viewer sees the picture", || self.take(png) == (size, pixels.to_vec()));
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
