// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhopd`, as seen by the person or program that starts it.

use crate::support::{Daemon, await_that, bellhopd};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest_umd::Adapter;
use rustix::process::Signal;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::process::Output;

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Asserts that `bellhopd` fails with one line that contains these words.
/// Returns its exit status.
fn assert_refused(arguments: &[&str], words: &[&str]) -> Option<i32> {
    let output = bellhopd(arguments).output().unwrap();
    let message = stderr(&output);
    assert!(!output.status.success(), "{message}");
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
    output.status.code()
}

#[test]
fn a_socket_that_another_process_serves_is_left_to_it() {
    let mut daemon = Daemon::start(1);
    let socket = daemon.socket(0);
    let path = socket.to_str().unwrap();
    assert_refused(&["--socket-path", path], &["another process serves", "--socket-path"]);
    assert!(daemon.is_running() && socket.exists());
}

#[test]
fn an_abandoned_socket_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gpu.sock");
    drop(UnixListener::bind(&path).unwrap());
    let child = bellhopd(&["--socket-path", path.to_str().unwrap()])
        .env("BELLHOP_LOG", "off")
        .spawn()
        .unwrap();
    // The daemon serves once a guest gets an answer.
    let guest = FakeGuest::connect(&wait_for_listener(&path), GuestOptions::default());
    assert!(guest.is_ok());
    drop(guest);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!({ child }.wait().unwrap().success());
}

/// Waits until a daemon listens at the path: the path then has another inode than the abandoned socket.
fn wait_for_listener(path: &std::path::Path) -> std::path::PathBuf {
    await_that("a daemon listens", || std::os::unix::net::UnixStream::connect(path).is_ok());
    path.to_owned()
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let path = "/nonexistent/folder/gpu.sock";
    assert_refused(&["--socket-path", path], &[path, "existing folder"]);
}

#[test]
fn a_folder_that_may_not_be_written_is_named() {
    // Not even root may make a socket there.
    assert_refused(&["--socket-path", "/proc/gpu.sock"], &["/proc/gpu.sock", "write"]);
}

#[test]
fn a_configuration_that_cannot_be_used_says_what_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bellhopd.toml");
    let path = path.to_str().unwrap();
    let arguments = ["--socket-path", "/nonexistent", "--config", path];
    assert_refused(&arguments, &[path, "--config"]);
    for (text, words) in [
        ("[adapter]\nspin = \"long\"\n", ["line 2, column 8", "adapter.spin is", "0s to 1s"]),
        ("[guest]\ndoorbells = 0\n", ["line 2, column 13", "guest.doorbells is 0", "1 to 16384"]),
        (
            "[adapter]\nspinning = \"20us\"\n",
            ["line 2, column 1", "unknown field `spinning`", "`spin`"],
        ),
        ("[log]\nfilter = \"x=y\"\n", ["line 2, column 1", "log.filter", "info"]),
    ] {
        std::fs::write(path, text).unwrap();
        let status = assert_refused(&arguments, &[path]);
        assert_eq!(status, Some(78));
        assert_refused(&arguments, &words);
        assert_eq!(assert_refused(&["--check-config", "--config", path], &words), Some(78));
        assert_eq!(assert_refused(&["--print-config", "--config", path], &words), Some(78));
    }
}

#[test]
fn engines_run_on_the_processors_that_the_configuration_names_and_on_no_other() {
    let first = *bellhop_guest::processors::allowed().first().unwrap();
    let configuration = format!("[adapter]\nengine_processors = \"{first}\"\n");
    let daemon = Daemon::start_with(1, &configuration);
    let line = |status: &str, key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().to_owned()
    };
    let threads = || -> Vec<_> {
        // A thread may end after it was listed.
        let statuses =
            daemon.tasks().filter_map(|task| std::fs::read_to_string(task.join("status")).ok());
        statuses
            .map(|status| (line(&status, "Name:"), line(&status, "Cpus_allowed_list:")))
            .collect()
    };
    let is_engine = |(name, _): &&(String, String)| name.starts_with("engine-");
    // A thread has its name when it first runs, which its processor may let it wait for.
    await_that("engines run", || threads().iter().filter(is_engine).count() == 4);
    let threads = threads();
    let engines: Vec<_> = threads.iter().filter(is_engine).collect();
    assert_eq!(engines.len(), 4, "{threads:?}");
    assert!(engines.iter().all(|(_, allowed)| *allowed == first.to_string()), "{threads:?}");
    let all = std::fs::read_to_string("/proc/self/status").unwrap();
    let others = threads.iter().filter(|thread| !is_engine(thread));
    for (name, allowed) in others {
        assert_eq!(*allowed, line(&all, "Cpus_allowed_list:"), "{name}");
    }
    let nodes = daemon.snapshot().nodes;
    assert!(nodes.iter().all(|node| node.processor == Some(first as u32)));
}

#[test]
fn a_processor_that_engines_cannot_run_on_is_refused_with_those_that_they_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bellhop.toml");
    std::fs::write(&path, "[adapter]\nengine_processors = \"1023\"\n").unwrap();
    let socket = folder.path().join("gpu.sock");
    let arguments = ["--config", path.to_str().unwrap(), "--socket-path", socket.to_str().unwrap()];
    let first = bellhop_guest::processors::allowed().first().unwrap();
    let allowed = format!("there and allowed: {first}");
    let words = ["bellhop.toml", "adapter.engine_processors is \"1023\"", &allowed];
    assert_eq!(assert_refused(&arguments, &words), Some(78));
}

#[test]
fn a_socket_that_is_named_and_not_served_is_refused_with_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let (config, socket) = (folder.path().join("bellhop.toml"), folder.path().join("vm0.sock"));
    let [config, socket] = [&config, &socket].map(|path| path.to_str().unwrap());
    std::fs::write(config, "[weights]\n\"vm0.sock\" = 1\n\"nosuch.sock\" = 2\n").unwrap();
    let arguments = ["--config", config, "--socket-path", socket];
    let words = [config, "line 3", "weights.\"nosuch.sock\"", socket];
    assert_eq!(assert_refused(&arguments, &words), Some(78));
    let checked = [&["--check-config"], arguments.as_slice()].concat();
    assert_eq!(assert_refused(&checked, &words), Some(78));
    assert!(!std::path::Path::new(socket).exists());
}

#[test]
fn the_configuration_that_it_prints_is_the_one_that_it_uses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bellhop.toml");
    let print = |arguments: &[&str]| {
        let output = bellhopd(arguments).env("BELLHOP_LOG", "debug").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let first = print(&["--print-config", "--control-socket", "/run/c.sock"]);
    assert!(first.contains("socket = \"/run/c.sock\"") && first.contains("filter = \"debug\""));
    std::fs::write(&path, &first).unwrap();
    assert_eq!(print(&["--print-config", "--config", path.to_str().unwrap()]), first);
    assert_eq!(print(&["--check-config", "--config", path.to_str().unwrap()]), "");
}

#[test]
fn its_sockets_have_the_group_and_the_mode_that_they_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gpu.sock");
    let group = rustix::process::getegid().as_raw();
    let options = ["--socket-group", &group.to_string(), "--socket-mode", "0606"];
    let arguments = [&["--socket-path", path.to_str().unwrap()], options.as_slice()].concat();
    let mut child = bellhopd(&arguments).env("BELLHOP_LOG", "off").spawn().unwrap();
    // The daemon serves once a guest gets an answer.
    drop(FakeGuest::connect(&wait_for_listener(&path), GuestOptions::default()).unwrap());
    let status = std::fs::metadata(&path).unwrap();
    assert_eq!((status.gid(), status.mode() & 0o7777), (group, 0o606));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn its_log_is_json_when_that_is_wanted_and_says_the_socket_of_each_guest() {
    for format in ["json", "text"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.sock");
        let arguments = ["--socket-path", path.to_str().unwrap(), "--log-format", format];
        let child = bellhopd(&arguments)
            .env("BELLHOP_LOG", "debug")
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let guest = FakeGuest::connect(&wait_for_listener(&path), GuestOptions::default()).unwrap();
        let adapter = Adapter::open(guest.clone()).unwrap();
        drop((adapter.create_device().unwrap(), adapter, guest));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        let log = stderr(&child.wait_with_output().unwrap());
        let mut of_guests = 0;
        for line in log.lines() {
            let (names_guest, names_socket) = match format {
                "json" => {
                    let line: serde_json::Value = serde_json::from_str(line).unwrap();
                    assert!(line["timestamp"].is_string() && line["message"].is_string(), "{line}");
                    if line["message"] == "guest attached" {
                        assert_eq!(line["pid"], std::process::id());
                        assert!(line["command"].is_string(), "{line}");
                    }
                    (line["guest"].is_u64(), line["socket"] == path.to_str().unwrap())
                }
                _ => (line.contains("guest="), line.contains(path.to_str().unwrap())),
            };
            assert!(!names_guest || names_socket, "{line}");
            of_guests += u32::from(names_guest);
        }
        assert!(of_guests > 0, "{log}");
    }
}

#[test]
fn signals_end_it_at_once_and_remove_its_sockets() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut daemon = Daemon::start(2);
        let sockets = [daemon.socket(0), daemon.socket(1)];
        assert!(sockets.iter().all(|socket| socket.exists()));
        daemon.signal(signal);
        assert!(daemon.wait().success());
        assert!(!sockets.iter().any(|socket| socket.exists()));
    }
}

#[test]
fn its_capabilities_are_one_json_object() {
    let output = bellhopd(&["--print-capabilities"]).output().unwrap();
    assert!(output.status.success());
    let capabilities: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(capabilities["virtio_id"], 39);
    assert_eq!(capabilities["features"][0], "USER_MODE_SUBMISSION");
}

#[test]
fn its_help_teaches() {
    let output = bellhopd(&["--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for word in [
        "--socket-path",
        "--fd",
        "--config",
        "--print-capabilities",
        "--print-config",
        "qemu-system",
    ] {
        assert!(help.contains(word), "the help lacks {word}");
    }
}
