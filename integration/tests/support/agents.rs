// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's agent, and the operator that asks it.

use super::printed::send_lines;
use super::{Daemon, TIMEOUT, report};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What an agent says when it has become the guest's.
const REGISTERED: &str = "registered";
/// The longest that a start may take: the first VM after a change builds its program, and fetches what it consists of.
const START: Duration = Duration::from_secs(1200);

/// A running agent, or a VM that has one.
pub struct Agent {
    child: Child,
    said: Receiver<String>,
}

impl Agent {
    /// Starts an agent by this command, and waits until it is the guest's.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, said) = channel();
        send_lines("agent", child.stdout.take().unwrap(), sender);
        let agent = Self { child, said };
        agent.await_within(START, REGISTERED);
        agent
    }

    /// Waits until the agent has become the guest's.
    #[track_caller]
    pub fn await_registration(&self) {
        self.await_line(REGISTERED);
    }

    /// Waits until the agent says this.
    #[track_caller]
    pub fn await_line(&self, wanted: &str) -> String {
        self.await_within(TIMEOUT, wanted)
    }

    #[track_caller]
    fn await_within(&self, time: Duration, wanted: &str) -> String {
        loop {
            let line = self.said.recv_timeout(time);
            let line = line.unwrap_or_else(|_| panic!("the agent did not say {wanted:?}"));
            if line.contains(wanted) {
                return line;
            }
        }
    }

    /// Waits for the process's end.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Ends the process as a user does.
    pub fn end(&mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.wait()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `bellhop ctl` as the operator of this daemon.
pub fn ctl(daemon: &Daemon, arguments: &[&str]) -> Command {
    daemon.operate(&[&["ctl"], arguments].concat())
}

/// The monitors that show something, and their widths.
pub fn shown(daemon: &Daemon) -> Vec<(u64, u64)> {
    let screens = report(&mut daemon.tool(&["screen", "list", "--json"]));
    let screens = screens.as_array().unwrap().iter();
    screens
        .filter_map(|screen| Some((screen["target"].as_u64()?, screen["mode"]["width"].as_u64()?)))
        .collect()
}

/// Writes a hook.
pub fn hook(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}
