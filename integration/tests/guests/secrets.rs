// SPDX-License-Identifier: MIT OR Apache-2.0

//! The security node: what guests seal, who opens it, and what becomes of it when the process with the keys is killed.

use crate::support::secrets::{NODE, see_every_behaviour};
use crate::support::{Daemon, adapter_of, await_that, guest, outcomes, run, text};
use bellhop_guest_umd::security::{SecureSession, SecurityError};
use bellhop_protocol::control::adapter::EngineType;
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn session(daemon: &Daemon, number: usize) -> SecureSession {
    let adapter = adapter_of(&guest(daemon, number));
    let device = adapter.create_device().unwrap();
    SecureSession::new(&adapter, &device).unwrap()
}

/// A configuration with a root key in a file of this folder.
fn with_key(folder: &Path) -> String {
    let key = folder.join("key");
    fs::write(&key, (0..32).collect::<Vec<u8>>()).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o400)).unwrap();
    format!("{NODE}security_key = {:?}\n", key.to_str().unwrap())
}

/// The process with the keys.
fn worker(daemon: &Daemon) -> Option<Pid> {
    let snapshot = daemon.snapshot();
    let worker = snapshot.workers.iter().find(|worker| worker.state == "keys")?;
    Pid::from_raw(worker.pid? as i32)
}

#[test]
fn every_behaviour_of_a_security_node_is_seen_in_a_guest() {
    let daemon = Daemon::start_with_kernels(1, NODE);
    let has_kernels = daemon.is_some();
    let daemon = daemon.unwrap_or_else(|| Daemon::start_with(1, NODE));
    see_every_behaviour(&mut daemon.work(&["selftest", "security.", "--json"]), has_kernels);
}

#[test]
fn without_a_node_nothing_of_it_is_there() {
    let daemon = Daemon::start(1);
    let adapter = adapter_of(&guest(&daemon, 0));
    let nodes = adapter.nodes().unwrap();
    assert!(nodes.iter().all(|node| node.engine_type != EngineType::CRYPTO));
    let device = adapter.create_device().unwrap();
    let refused = SecureSession::new(&adapter, &device);
    assert!(matches!(refused, Err(SecurityError::NotOffered)));
    assert_eq!(worker(&daemon), None);
    drop((device, adapter));
    let seen = daemon.selftest(&["security."]);
    assert_eq!(outcomes(&seen, "passed").count(), 0);
}

#[test]
fn no_guest_opens_what_another_sealed() {
    let daemon = Daemon::start_with(2, NODE);
    let [mut one, mut two] = [0, 1].map(|number| session(&daemon, number));
    let sealed = one.seal(b"for one", b"").unwrap();
    let opened = two.open(&sealed, b"");
    assert!(matches!(opened, Err(SecurityError::NotAuthentic)), "{opened:?}");
    assert_eq!(one.open(&sealed, b"").unwrap(), b"for one");
    // One adapter, so one key; two guests, each known by its socket.
    let statements = [one.attest([1; 32]).unwrap(), two.attest([1; 32]).unwrap()];
    assert_eq!(statements[0].public_key, statements[1].public_key);
    for (number, statement) in statements.iter().enumerate() {
        let socket = daemon.socket(number).canonicalize().unwrap();
        let name = Sha256::digest(socket.as_os_str().as_bytes());
        assert_eq!(statement.guest, name.as_slice());
    }
}

#[test]
fn adapters_have_keys_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let key = with_key(folder.path());
    let second = key.replace("[adapter]", "[adapters.second]");
    let daemon =
        Daemon::start_with(2, &format!("{key}{second}[attach]\n\"gpu1.sock\" = \"second\"\n"));
    let [mut one, mut two] = [0, 1].map(|number| session(&daemon, number));
    assert_ne!(one.caps().public_key, two.caps().public_key);
    assert!(one.caps().has_lasting_key());
    let sealed = one.seal(b"for one", b"").unwrap();
    assert!(matches!(two.open(&sealed, b""), Err(SecurityError::NotAuthentic)));
    let nothing: [u8; 32] = Sha256::digest(b"").into();
    assert_eq!(one.attest([1; 32]).unwrap().adapter, nothing);
    let second: [u8; 32] = Sha256::digest(b"second").into();
    assert_eq!(two.attest([1; 32]).unwrap().adapter, second);
}

#[test]
fn keys_outlive_the_process_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    // From a file, and drawn when the daemon starts.
    for configuration in [with_key(folder.path()), NODE.to_owned()] {
        let daemon = Daemon::start_with(1, &configuration);
        let mut session = session(&daemon, 0);
        let sealed = session.seal(b"secret", b"").unwrap();
        let public_key = session.attest([1; 32]).unwrap().public_key;
        for _ in 0..3 {
            let before = worker(&daemon).unwrap();
            kill_process(before, Signal::KILL).unwrap();
            // A packet that it was not working on waits for the next one.
            await_that("the keys are there again", || match session.open(&sealed, b"") {
                Ok(opened) => opened == b"secret",
                Err(SecurityError::Device(_)) => false,
                Err(error) => panic!("{error}"),
            });
            assert_ne!(worker(&daemon), Some(before));
        }
        assert_eq!(session.attest([2; 32]).unwrap().public_key, public_key);
    }
}

#[test]
fn a_root_key_that_others_may_read_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = with_key(folder.path());
    fs::set_permissions(folder.path().join("key"), Permissions::from_mode(0o644)).unwrap();
    let file = folder.path().join("bellhopd.toml");
    fs::write(&file, configuration).unwrap();
    let mut daemon = crate::support::bellhopd(&["--config", file.to_str().unwrap()]);
    let socket = folder.path().join("gpu.sock");
    let output = daemon.arg("--socket-path").arg(socket).output().unwrap();
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("adapter.security_key") && said.contains("run chmod 0400"), "{said}");
}

#[test]
fn people_seal_open_and_verify_by_commands() {
    let daemon = Daemon::start_with(2, NODE);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let letter: Vec<u8> = (0..(1 << 20) + 77_u32).map(|index| (index % 253) as u8).collect();
    fs::write(path("letter"), &letter).unwrap();
    run(&mut daemon.work(&["seal", &path("letter"), &path("sealed")]));
    let sealed = fs::read(path("sealed")).unwrap();
    assert_eq!(sealed.len(), 56 + letter.len() + 2 * 80);
    run(&mut daemon.work(&["open", &path("sealed"), &path("again")]));
    assert!(fs::read(path("again")).unwrap() == letter);
    let mode = fs::metadata(path("again")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others may read what was opened");
    let said = run(&mut daemon.work(&["open", &path("sealed")]));
    assert!(said.contains("authentic"), "{said}");
    // Its first part alone is not the letter, nor are its parts in another order.
    let parts = |sealed: &[u8]| {
        let (header, parts) = sealed.split_at(56);
        let (first, second) = parts.split_at((1 << 20) + 80);
        [header, first, second].map(<[u8]>::to_vec)
    };
    let [header, first, second] = parts(&sealed);
    // Nor is its first part with the second of another letter, under either header, or under one that counts otherwise.
    fs::write(path("other"), vec![9; letter.len()]).unwrap();
    run(&mut daemon.work(&["seal", &path("other"), &path("sealed-other")]));
    let [other_header, _, other] = parts(&fs::read(path("sealed-other")).unwrap());
    let mut one_part = header.clone();
    one_part[48] = 1;
    for wrong in [
        [&header[..], &first].concat(),
        [&one_part[..], &first].concat(),
        [&header[..], &second, &first].concat(),
        [&header[..], &first, &first].concat(),
        [&header[..], &first, &other].concat(),
        [&other_header[..], &first, &other].concat(),
        [&first[..], &second].concat(),
        header,
        Vec::new(),
    ] {
        fs::write(path("wrong"), wrong).unwrap();
        let output = daemon.work(&["open", &path("wrong"), &path("not")]).output().unwrap();
        assert!(!output.status.success() && !Path::new(&path("not")).exists());
    }
    run(&mut daemon.work(&["seal", "--protect", &path("letter"), &path("kept")]));
    run(&mut daemon.work(&["open", &path("kept")]));
    let output = daemon.work(&["open", &path("kept"), &path("not")]).output().unwrap();
    assert!(text(&output.stderr).contains("PROTECTED_MEMORY"), "{output:?}");

    let nonce = "0a".repeat(32);
    let key = run(&mut daemon.work(&["attest", "--key"]));
    run(&mut daemon.work(&["attest", "--nonce", &nonce, "--out", &path("statement")]));
    let verify = |nonce: &str, guest: &Path| {
        let mut command = crate::support::bellhop();
        command.args(["attest", "--verify", &path("statement"), "--nonce", nonce]);
        command.args(["--public-key", key.trim(), "--adapter", "", "--guest"]).arg(guest);
        command.output().unwrap()
    };
    let output = verify(&nonce, &daemon.socket(0));
    assert!(output.status.success(), "{output:?}");
    for (nonce, guest) in [("0b".repeat(32), daemon.socket(0)), (nonce, daemon.socket(1))] {
        assert!(!verify(&nonce, &guest).status.success());
    }
}

#[test]
fn a_statement_needs_no_configuration() {
    let mut attest = crate::support::bellhop();
    let key = run(attest.args(["attest", "--key"]));
    assert_eq!(key.trim().len(), 64, "{key}");
    assert!(key.trim().bytes().all(|digit| digit.is_ascii_hexdigit()), "{key}");
}
