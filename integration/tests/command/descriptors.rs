// SPDX-License-Identifier: MIT OR Apache-2.0

//! `--fd`: sockets that the daemon inherits.

use crate::support::bellhopd;
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest_umd::Adapter;
use command_fds::{CommandFdExt, FdMapping};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Child;

/// A daemon that inherits this descriptor.
fn daemon_with(descriptor: OwnedFd) -> Child {
    let mut command = bellhopd(&["--fd", "7"]);
    let mapping = FdMapping { parent_fd: descriptor, child_fd: 7 };
    command.env("BELLHOP_LOG", "off").fd_mappings(vec![mapping]).unwrap();
    command.spawn().unwrap()
}

#[test]
fn a_listening_descriptor_serves_one_guest_after_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gpu.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut daemon = daemon_with(listener.into());
    for _ in 0..3 {
        let guest = FakeGuest::connect(&path, GuestOptions::default()).unwrap();
        assert!(Adapter::open(guest).unwrap().nodes().unwrap().len() >= 3);
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn a_connected_descriptor_serves_its_guest_and_the_daemon_ends_with_it() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut daemon = daemon_with(theirs.into());
    let guest = FakeGuest::over(ours, GuestOptions::default()).unwrap();
    let adapter = Adapter::open(guest).unwrap();
    assert_eq!(adapter.nodes().unwrap().len(), 4);
    drop(adapter);
    assert!(daemon.wait().unwrap().success());
}
