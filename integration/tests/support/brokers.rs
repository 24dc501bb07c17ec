// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests that share their device among programs.

use super::examples::{copy_program, example};
use super::{Daemon, bellhop};
use bellhop_guest_umd::transport::broker::Broker;
use bellhop_guest_umd::{Adapter, transport::Transport};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Users without privileges.
pub const USERS: [u32; 3] = [65_534, 65_533, 65_532];

/// A running broker of one guest, killed when dropped.
pub struct Brokered {
    broker: Child,
    folder: TempDir,
}

impl Brokered {
    /// Starts a broker for the guest at this socket, with these options.
    pub fn start(daemon: &Daemon, number: usize, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Other users come here.
        let open = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let mut broker = bellhop();
        broker.args(["guest", "--socket-path"]).arg(daemon.socket(number));
        broker.args(["broker", "--mode", "666", "--listen"]).arg(folder.path().join("broker.sock"));
        broker.args(options).stderr(Stdio::piped());
        let mut broker = broker.spawn().unwrap();
        // It says when programs may connect; what it says later is read for it.
        let mut said = BufReader::new(broker.stderr.take().unwrap());
        let mut first = String::new();
        said.read_line(&mut first).unwrap();
        assert!(first.contains("programs may connect"), "{first}");
        std::thread::spawn(move || {
            said.lines().map_while(Result::ok).for_each(|line| eprintln!("{line}"))
        });
        Self { broker, folder }
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("broker.sock")
    }

    /// The broker's process.
    pub fn process(&self) -> u32 {
        self.broker.id()
    }

    /// An example, as a program of this user.
    pub fn program(&self, name: &str, user: u32) -> Command {
        // Where every user can run it.
        let copy = self.folder.path().join(name);
        if !copy.exists() {
            copy_program(&example(name), &copy);
        }
        let mut program = Command::new(copy);
        program.env_remove("BELLHOP_SOCKET").env("BELLHOP_BROKER", self.socket());
        program.uid(user).gid(user);
        program
    }

    /// This work of `bellhop guest`, as a program of this user's.
    pub fn work_of(&self, user: u32, work: &[&str]) -> Command {
        let copy = self.folder.path().join("bellhop");
        if !copy.exists() {
            copy_program(Path::new(env!("CARGO_BIN_EXE_bellhop")), &copy);
        }
        let mut program = Command::new(copy);
        program.env_remove("BELLHOP_SOCKET").arg("guest").arg("--broker").arg(self.socket());
        program.args(work).current_dir("/").uid(user).gid(user);
        program
    }

    /// This work of `bellhop guest`, as a program of the guest.
    pub fn work(&self, work: &[&str]) -> Command {
        let mut program = bellhop();
        program.env_remove("BELLHOP_SOCKET").arg("guest").arg("--broker").arg(self.socket());
        program.args(work);
        program
    }

    /// A connection of this process's.
    pub fn connect(&self) -> Arc<dyn Transport> {
        Broker::connect(&self.socket()).unwrap()
    }

    /// An adapter of this process's.
    pub fn adapter(&self) -> Adapter {
        Adapter::open(self.connect()).unwrap()
    }

    /// Ends the broker as a crash does.
    pub fn kill(&mut self) {
        // It may have ended.
        let _ = self.broker.kill();
        let _ = self.broker.wait();
    }
}

impl Drop for Brokered {
    fn drop(&mut self) {
        self.kill();
    }
}
