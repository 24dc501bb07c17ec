// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhopd` under a service manager, and the files that systemd reads.

use crate::support::{bellhop, bellhopd, kernels};
use bellhop_processes::daemon::worker_options;
use command_fds::{CommandFdExt, FdMapping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use seccompiler::{BpfProgram, apply_filter, compile_from_json};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The longest that an event may take before it counts as not happening.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The files that a package installs.
const DIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../device/dist");

/// A service manager: listening sockets, and a socket for notifications.
struct Manager {
    folder: TempDir,
    listeners: Vec<UnixListener>,
    notifications: UnixDatagram,
}

impl Manager {
    fn listen(sockets: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = |number| UnixListener::bind(socket(folder.path(), number)).unwrap();
        let listeners = (0..sockets).map(listener).collect();
        let notifications = UnixDatagram::bind(folder.path().join("notify.sock")).unwrap();
        notifications.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { folder, listeners, notifications }
    }

    fn socket(&self, number: usize) -> PathBuf {
        socket(self.folder.path(), number)
    }

    /// Waits for a guest, as a socket unit does before it starts its service.
    fn await_guest(&self, number: usize) {
        let mut guest = [PollFd::new(&self.listeners[number], PollFlags::IN)];
        let timeout = Timespec::try_from(TIMEOUT).unwrap();
        assert_eq!(poll(&mut guest, Some(&timeout)).unwrap(), 1, "no guest came");
    }

    /// The daemon, not started yet, with the sockets as its descriptors from 3 on.
    fn service(&self, arguments: &[&str]) -> Command {
        // The shell passes its process id to the program that replaces it.
        let mut command = Command::new("sh");
        command
            .args(["-c", "LISTEN_PID=$$ exec \"$0\" daemon -- \"$@\""])
            .arg(bellhop().get_program())
            .args(arguments)
            .env("LISTEN_FDS", self.listeners.len().to_string())
            .env("NOTIFY_SOCKET", self.folder.path().join("notify.sock"))
            .env("BELLHOP_LOG", "warn")
            .stdin(Stdio::null());
        let mapping = |(fd, listener): (i32, &UnixListener)| FdMapping {
            parent_fd: OwnedFd::from(listener.try_clone().unwrap()),
            child_fd: fd,
        };
        command.fd_mappings((3..).zip(&self.listeners).map(mapping).collect()).unwrap();
        command
    }

    /// The next notification, a line for each variable.
    fn heard(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.notifications.recv(&mut bytes).expect("a notification");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }
}

fn socket(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("gpu{number}.sock"))
}

fn terminate(mut daemon: Child) -> ExitStatus {
    kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    daemon.wait().unwrap()
}

/// A guest that does the main job on a few kilobytes.
fn guest(socket: &Path) -> Child {
    bellhop()
        .args(["run", "--samples", "1", "--input"])
        .arg(Path::new(DIST).join("bellhop.toml"))
        .arg("--socket-path")
        .arg(socket)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The error of a daemon that does not start.
fn refusal(command: &mut Command) -> String {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn a_guest_that_comes_before_the_daemon_is_served_by_it() {
    let manager = Manager::listen(2);
    let mut first = guest(&manager.socket(0));
    manager.await_guest(0);
    let daemon = manager.service(&[]).env("LISTEN_FDNAMES", "first:second").spawn().unwrap();
    let heard = manager.heard();
    assert!(heard.lines().any(|line| line == "READY=1"), "{heard}");
    assert!(first.wait().unwrap().success());
    assert!(guest(&manager.socket(1)).wait().unwrap().success());
    assert!(terminate(daemon).success());
}

#[test]
fn a_socket_of_the_manager_serves_several_guests_at_once() {
    let manager = Manager::listen(1);
    let config = manager.folder.path().join("bellhop.toml");
    fs::write(&config, "[guest]\nconnections = 3\n").unwrap();
    // They come before the daemon, which takes them all.
    let guests: Vec<_> = (0..3).map(|_| guest(&manager.socket(0))).collect();
    manager.await_guest(0);
    let daemon = manager.service(&["--config", config.to_str().unwrap()]).spawn().unwrap();
    assert!(manager.heard().contains("READY=1"));
    for mut guest in guests {
        assert!(guest.wait().unwrap().success());
    }
    assert!(terminate(daemon).success());
}

#[test]
fn sockets_of_the_manager_stay_when_the_daemon_goes() {
    let manager = Manager::listen(1);
    let daemon = manager.service(&[]).spawn().unwrap();
    let ready = manager.heard();
    assert!(ready.contains("READY=1") && ready.contains("STATUS="), "{ready}");
    assert!(terminate(daemon).success());
    let stopping = manager.heard();
    assert!(stopping.lines().any(|line| line == "STOPPING=1"), "{stopping}");
    // The next daemon serves guests that connect meanwhile.
    let mut waiting = guest(&manager.socket(0));
    manager.await_guest(0);
    let next = manager.service(&[]).spawn().unwrap();
    assert!(waiting.wait().unwrap().success());
    assert!(terminate(next).success());
}

#[test]
fn sockets_of_the_manager_and_of_the_command_line_are_served_together() {
    let manager = Manager::listen(1);
    let own = manager.folder.path().join("own.sock");
    // A unit may name a descriptor twice.
    let arguments = ["--fd", "3", "--socket-path", own.to_str().unwrap()];
    let daemon = manager.service(&arguments).spawn().unwrap();
    assert!(manager.heard().contains("READY=1"));
    assert!(guest(&manager.socket(0)).wait().unwrap().success());
    assert!(guest(&own).wait().unwrap().success());
    assert!(terminate(daemon).success());
}

#[test]
fn sockets_for_another_process_are_not_taken() {
    let manager = Manager::listen(1);
    let mut command = bellhop();
    command.args(["daemon", "--"]).env("LISTEN_PID", std::process::id().to_string());
    command.env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "gpu");
    let listener = manager.listeners[0].try_clone().unwrap();
    command.fd_mappings(vec![FdMapping { parent_fd: listener.into(), child_fd: 3 }]).unwrap();
    let message = refusal(&mut command);
    assert!(message.contains("no socket") && message.contains("--socket-path"), "{message}");
}

#[test]
fn sockets_that_are_announced_but_not_there_are_refused() {
    let manager = Manager::listen(0);
    let message = refusal(manager.service(&[]).env("LISTEN_FDS", "1"));
    assert!(message.contains("LISTEN_FDS") && message.contains("socket unit"), "{message}");
}

#[test]
fn a_descriptor_of_the_manager_that_is_no_socket_is_named() {
    let manager = Manager::listen(0);
    let mut command = manager.service(&[]);
    command.env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "gpu");
    let file = fs::File::open("/dev/null").unwrap();
    command.fd_mappings(vec![FdMapping { parent_fd: file.into(), child_fd: 3 }]).unwrap();
    let message = refusal(&mut command);
    assert!(message.contains("\"gpu\"") && message.contains("not an open socket"), "{message}");
}

#[test]
fn the_daemon_serves_even_if_the_service_manager_does_not_listen() {
    let manager = Manager::listen(1);
    let mut command = manager.service(&[]);
    let daemon = command.env("NOTIFY_SOCKET", "/nonexistent/notify.sock").spawn().unwrap();
    assert!(guest(&manager.socket(0)).wait().unwrap().success());
    assert!(terminate(daemon).success());
}

#[test]
fn a_configuration_that_cannot_be_used_is_not_tried_again() {
    let manager = Manager::listen(1);
    let config = manager.folder.path().join("bellhop.toml");
    fs::write(&config, "[guest]\nfences = 0\n").unwrap();
    let mut command = manager.service(&["--config", config.to_str().unwrap()]);
    let status = command.stderr(Stdio::null()).status().unwrap().code().unwrap();
    let unit = fs::read_to_string(Path::new(DIST).join("bellhopd.service")).unwrap();
    assert!(unit.contains(&format!("\nRestartPreventExitStatus={status}\n")), "{status}");
}

/// The root of a file system with the units and a program for them.
fn installed() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("usr/lib/systemd/system");
    for folder in [&units, &root.path().join("usr/bin"), &root.path().join("etc")] {
        fs::create_dir_all(folder).unwrap();
    }
    for unit in ["bellhopd.service", "bellhopd.socket"] {
        fs::copy(Path::new(DIST).join(unit), units.join(unit)).unwrap();
    }
    // systemd's own units that every unit depends on.
    for target in ["sysinit.target", "basic.target", "sockets.target", "shutdown.target"] {
        fs::write(units.join(target), "[Unit]\n").unwrap();
    }
    fs::copy(bellhop().get_program(), root.path().join("usr/bin/bellhopd")).unwrap();
    root
}

/// Runs one of systemd's programs and returns its output; `None` if it is not installed.
fn systemd(program: &str, arguments: &[&str], root: Option<&Path>) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    match command.stdin(Stdio::null()).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8(said).unwrap();
            assert!(output.status.success(), "{program} {arguments:?}: {said}");
            Some(said)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let why = format!("{program} is not installed");
            crate::support::skip(&why, "the service is not checked by it", "install systemd");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

#[test]
fn the_units_are_what_systemd_understands() {
    let root = installed();
    let arguments = ["verify", "--man=no", "bellhopd.service", "bellhopd.socket"];
    if let Some(said) = systemd("systemd-analyze", &arguments, Some(root.path())) {
        // It succeeds even with unknown keys, so its output must be empty.
        assert_eq!(said, "");
    }
}

#[test]
fn the_service_is_confined() {
    let root = installed();
    // The threshold is in tenths; an unconfined service has nearly 10. This one has 0.4, and may have a little more
    // where a newer systemd checks more.
    let arguments =
        ["security", "--no-pager", "--offline=yes", "--threshold=15", "bellhopd.service"];
    systemd("systemd-analyze", &arguments, Some(root.path()));
}

/// The system calls that the unit allows, as systemd reads them. `None` without systemd.
fn allowed_calls() -> Option<BTreeSet<String>> {
    let sets = systemd("systemd-analyze", &["syscall-filter"], None)?;
    // A set is its name, and below it, indented, calls and other sets.
    let mut members: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut set = "";
    for line in sets.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if line.starts_with('@') {
            set = line.trim();
        } else if !line.trim().is_empty() {
            members.entry(set).or_default().push(line.trim());
        }
    }
    fn calls<'a>(name: &'a str, members: &BTreeMap<&str, Vec<&'a str>>, into: &mut Vec<&'a str>) {
        match members.get(name) {
            Some(names) => names.iter().for_each(|name| calls(name, members, into)),
            None => into.push(name),
        }
    }
    let unit = fs::read_to_string(Path::new(DIST).join("bellhopd.service")).unwrap();
    let mut allowed = BTreeSet::new();
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (removes, names) = match line.strip_prefix('~') {
            Some(names) => (true, names),
            None => (false, line),
        };
        let mut named = Vec::new();
        names.split(' ').for_each(|name| calls(name, &members, &mut named));
        for call in named {
            if removes {
                allowed.remove(call);
            } else {
                allowed.insert(call.to_owned());
            }
        }
    }
    Some(allowed)
}

/// A filter as systemd makes it of the unit's: what it does not allow fails with `EPERM`.
fn filter_of_the_unit() -> Option<BpfProgram> {
    let of = |names: &[&str]| {
        let rules: Vec<_> = names.iter().map(|name| json!({ "syscall": name })).collect();
        let filter = json!({ "": {
            "mismatch_action": { "errno": Errno::PERM.raw_os_error() }, "match_action": "allow", "filter": rules,
        }});
        let target = std::env::consts::ARCH.try_into().unwrap();
        compile_from_json(filter.to_string().as_bytes(), target)
    };
    let allowed = allowed_calls()?;
    // systemd's sets have calls of all processors.
    let known: Vec<_> =
        allowed.iter().map(String::as_str).filter(|name| of(&[*name]).is_ok()).collect();
    assert!(known.len() > 200 && !known.contains(&"mount"), "{known:?}");
    of(&known).unwrap().remove("")
}

#[test]
fn a_daemon_with_the_unit_s_system_calls_has_workers_that_compile_kernels() {
    let Some(words) = kernels::worker("no worker runs under the unit's filter") else { return };
    let Some(filter) = filter_of_the_unit() else { return };
    // The filter is this thread's and that of processes which it starts.
    let said = thread::spawn(move || {
        apply_filter(&filter).unwrap();
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(status.contains("Seccomp:\t2"), "{status}");
        // A worker can make its sandbox, too.
        assert!(bellhop().args(["worker", "--", "try-sandbox"]).status().unwrap().success());
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("gpu.sock");
        let mut daemon = bellhopd(&["--socket-path", socket.to_str().unwrap()])
            .args(worker_options(&words))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(daemon.stderr.take().unwrap()).lines().map(Result::unwrap);
        let said: Vec<_> = said.take(2).collect();
        assert!(terminate(daemon).success());
        said
    });
    let said = said.join().unwrap();
    assert!(said[0].contains("guests can run kernels") && said[0].contains("Mesa"), "{said:?}");
    assert!(said[1].contains("ready"), "{said:?}");
}

#[test]
fn the_user_and_the_group_are_made() {
    let root = installed();
    let file = Path::new(DIST).join("sysusers.d/bellhop.conf");
    if systemd("systemd-sysusers", &[file.to_str().unwrap()], Some(root.path())).is_some() {
        for made in ["etc/passwd", "etc/group"] {
            let text = fs::read_to_string(root.path().join(made)).unwrap();
            assert!(text.starts_with("bellhop:"), "{text}");
        }
    }
    // The package creates exactly the users that the units name.
    for (unit, name) in [("service", "User"), ("service", "Group"), ("socket", "SocketGroup")] {
        let unit = fs::read_to_string(Path::new(DIST).join(format!("bellhopd.{unit}"))).unwrap();
        assert!(unit.contains(&format!("\n{name}=bellhop\n")), "{unit}");
    }
}
