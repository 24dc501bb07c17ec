// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conformance suite of programs that share a guest's device, and brokers that suites start.

use super::arguments::SelftestArguments;
use super::ending::Ending;
use super::place::DeviceArguments;
use crate::conformance::{self, Report, Start};
use crate::files::NewFile;
use crate::guest::Guest;
use crate::output::put_line;
use anyhow::{Context, ensure};
use bellhop_guest_umd::transport::broker::Broker;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use tempfile::TempDir;

/// This program, wherever it is: a user executes it who may not come into its folder.
const THIS: &str = "/proc/self/exe";

/// The name of its socket.
const SOCKET: &str = "broker.sock";
/// What the broker of a suite of programs lets each have, in MiB of memory: in a VM it is pinned.
const LITTLE_MEMORY: [&str; 2] = ["--memory", "16"];

/// What the broker of one program lets it have: as many objects as behaviours about many of them take.
pub(super) const MANY_OBJECTS: [&str; 4] = ["--doorbells", "256", "--fences", "4096"];

/// A broker of a suite's own. It is killed when this is dropped.
pub(super) struct OwnBroker {
    process: Child,
    folder: TempDir,
}

impl OwnBroker {
    /// Starts one for a device. `words` make the executable of this process `bellhop-guest`.
    pub(super) fn start(
        device: &DeviceArguments,
        words: &[OsString],
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let folder = folder()?;
        // Programs of other users come here.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755))?;
        let mut command = Command::new(THIS);
        command.args(words).args(device.to_command_line()).arg("--end-with-parent");
        command.args(["broker", "--mode", "666"]).args(options).arg("--listen");
        command.arg(folder.path().join(SOCKET)).env_remove("BELLHOP_BROKER").stderr(Stdio::piped());
        let mut process = command.spawn().context("cannot start a broker")?;
        let said = process.stderr.take();
        let broker = Self { process, folder };
        let mut said = BufReader::new(said.context("a broker has no standard error")?);
        let mut first = String::new();
        said.read_line(&mut first)?;
        ensure!(first.contains("programs may connect"), "{}", first.trim_end());
        // What it says later is read, so that it can go on.
        thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        Ok(broker)
    }

    /// Where it listens.
    fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    /// This process as one of its programs.
    pub(super) fn connect(&self) -> anyhow::Result<Arc<dyn Guest>> {
        Ok(Broker::connect(&self.socket())?)
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder for a socket, where all users come if there is one: a VM's root may keep its temporary files to itself, and a
/// container have no writable file but shared memory.
fn folder() -> anyhow::Result<TempDir> {
    let places = [std::env::temp_dir(), "/dev/shm".into(), "/run".into(), "/".into()];
    let is_open = |place: &&PathBuf| {
        let may_pass = |folder: &Path| {
            folder.metadata().is_ok_and(|folder| folder.permissions().mode() & 0o001 != 0)
        };
        place.ancestors().all(may_pass) && tempfile::tempdir_in(place).is_ok()
    };
    let place = places.iter().find(is_open).unwrap_or(&places[0]);
    tempfile::tempdir_in(place).context("there is no folder for a broker's socket")
}

/// Runs the suite. `words` make the executable of this process `bellhop-guest`.
pub(super) fn selftest(
    device: &DeviceArguments,
    suite: &SelftestArguments,
    words: &[OsString],
) -> anyhow::Result<Ending> {
    let own = match device.broker() {
        Some(_) => None,
        None => Some(OwnBroker::start(device, words, &LITTLE_MEMORY)?),
    };
    let broker = match &own {
        Some(own) => own.socket(),
        None => device.broker().map(Path::to_owned).unwrap_or_default(),
    };
    let several_users = may_set_users();
    let start = Start { executable: THIS.into(), words: words.to_vec(), broker, several_users };
    suite.deliver(|verbose| conformance::run_programs(start, suite.selection(), verbose))
}

/// Whether this process may start programs of other users.
fn may_set_users() -> bool {
    use rustix::thread::CapabilitySet;
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

impl SelftestArguments {
    /// Runs a suite, and delivers its report as these arguments ask.
    pub(super) fn deliver(
        &self,
        run: impl FnOnce(bool) -> anyhow::Result<Report>,
    ) -> anyhow::Result<Ending> {
        // A file that cannot be written fails before there is work.
        let junit = self.junit.as_deref().map(NewFile::create).transpose()?;
        let report = run(!self.json)?;
        if let Some(junit) = junit {
            junit.finish_with(report.to_junit()?)?;
        }
        if self.json {
            put_line(serde_json::to_string(&report)?)?;
        }
        Ok(Ending::of(report.passed()))
    }
}
