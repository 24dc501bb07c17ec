// SPDX-License-Identifier: MIT OR Apache-2.0

//! Daemons whose guests can run kernels, with the same Vulkan on every machine.

use super::{Daemon, bellhop, skip};
use bellhop_processes::daemon::worker_options;
use bellhop_vm::{Mesa, Sources};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// How to have a Vulkan for tests.
pub const HOW: &str =
    "let it fetch Debian's Mesa once, which needs a network, apt-get and dpkg-deb";

/// The words of a command line of workers with a correct Vulkan, as `bellhopd --worker` takes them. `None` if there is
/// no such Vulkan: then `loss` is not tested.
pub fn worker(loss: &str) -> Option<Vec<OsString>> {
    match bellhop_vm::fetch_vulkan(Mesa::Debian13, &Sources::default()) {
        Ok(vulkan) => Some(vulkan.words(Path::new(bellhop().get_program()), &["worker", "--"])),
        Err(error) => {
            skip(&format!("there is no Vulkan to run kernels with: {error:#}"), loss, HOW);
            None
        }
    }
}

impl Daemon {
    /// Starts a daemon whose guests can run kernels. `None` if there is no Vulkan for it: then kernels are not tested.
    pub fn start_with_kernels(sockets: usize, configuration: &str) -> Option<Self> {
        Some(Self::start_with_workers(sockets, configuration, &worker("no guest runs kernels")?))
    }

    /// Starts a daemon whose guests can run kernels, with these words of its workers' command line.
    pub fn start_with_workers(sockets: usize, configuration: &str, words: &[OsString]) -> Self {
        let mut configuration: toml::Table = configuration.parse().unwrap();
        let adapter = configuration.entry("adapter").or_insert_with(|| toml::Table::new().into());
        adapter.as_table_mut().unwrap().insert("kernels".into(), "auto".into());
        let configuration = configuration.to_string();
        let daemon = Self::spawn(sockets, &configuration, "info", |command, _| {
            command.args(worker_options(words));
        });
        daemon.await_log("guests can run kernels");
        daemon.await_log("ready");
        daemon
    }
}

/// A kernel and its input in a folder, as a person has them. It doubles numbers.
pub struct Doubling(TempDir);

/// How many numbers it doubles: a last work group is not full.
const NUMBERS: u32 = 1000;
const DOUBLE: &str = "
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(64)
fn double(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&numbers) { numbers[id.x] *= 2; }
}";

impl Doubling {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let numbers: Vec<u8> = (0..NUMBERS).flat_map(u32::to_le_bytes).collect();
        fs::write(folder.path().join("numbers"), numbers).unwrap();
        fs::write(folder.path().join("double.wgsl"), DOUBLE).unwrap();
        Self(folder)
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Has a command run the kernel, in the folder.
    pub fn ask<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(self.folder());
        command.args(["kernel", "double.wgsl", "--in", "numbers", "--out", "doubled"]);
        command.args(["--invocations", &NUMBERS.to_string()])
    }

    /// Asserts that the kernel has run, and that nothing but its output is there.
    #[track_caller]
    pub fn assert_done(&self) {
        let doubled: Vec<u8> = (0..NUMBERS).flat_map(|number| (2 * number).to_le_bytes()).collect();
        assert!(fs::read(self.folder().join("doubled")).unwrap() == doubled);
        assert_eq!(fs::read_dir(self.folder()).unwrap().count(), 3);
    }
}
