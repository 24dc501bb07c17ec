//! `bellhopd` as the person or the program sees it that starts it.

mod support;

use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use rustix::process::Signal;
use std::os::unix::net::UnixListener;
use std::process::Output;
use support::{Daemon, bellhopd};

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Asserts that it failed with one line that contains these words.
fn assert_refused(arguments: &[&str], words: &[&str]) {
    let output = bellhopd(arguments).output().unwrap();
    let message = stderr(&output);
    assert!(!output.status.success(), "{message}");
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
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
    // It serves when a guest gets an answer.
    let guest = FakeGuest::connect(&wait_for_listener(&path), GuestOptions::default());
    assert!(guest.is_ok());
    drop(guest);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!({ child }.wait().unwrap().success());
}

/// Waits until somebody listens at the path, which the abandoned socket's inode tells.
fn wait_for_listener(path: &std::path::Path) -> std::path::PathBuf {
    while std::os::unix::net::UnixStream::connect(path).is_err() {
        std::thread::yield_now();
    }
    path.to_owned()
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let path = "/nonexistent/folder/gpu.sock";
    assert_refused(&["--socket-path", path], &[path, "existing folder"]);
}

#[test]
fn a_folder_that_may_not_be_written_is_named() {
    // Not even root may make a socket in there.
    assert_refused(&["--socket-path", "/proc/gpu.sock"], &["/proc/gpu.sock", "write"]);
}

#[test]
fn a_configuration_that_cannot_be_used_says_what_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bellhopd.toml");
    let path = path.to_str().unwrap();
    let arguments = ["--socket-path", "/nonexistent", "--config", path];
    assert_refused(&arguments, &[path, "--config"]);
    std::fs::write(path, "[adapter]\nspin_us = \"long\"\n").unwrap();
    assert_refused(&arguments, &["line 2", "spin_us"]);
    std::fs::write(path, "[guest]\ndoorbells = 0\n").unwrap();
    assert_refused(&arguments, &["guest.doorbells is 0", "1 to 16384"]);
}

#[test]
fn sigterm_ends_it_at_once_and_removes_its_sockets() {
    let mut daemon = Daemon::start(2);
    let sockets = [daemon.socket(0), daemon.socket(1)];
    assert!(sockets.iter().all(|socket| socket.exists()));
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success());
    assert!(!sockets.iter().any(|socket| socket.exists()));
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
    for word in ["--socket-path", "--fd", "--config", "--print-capabilities", "qemu-system", "["] {
        assert!(help.contains(word), "the help lacks {word}");
    }
}
