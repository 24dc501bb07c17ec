// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::disallowed_methods, reason = "tests wait for what they test")]

//! The real process with the keys, from the side of its owner.

use bellhop_protocol::security::{SecurityOutcome, Statement};
use bellhop_worker::owner::WorkerError;
use bellhop_worker::security::digest;
use bellhop_worker::security::owner::{About, Answer, Conversation, Job, Process, spawn};
use rustix::fd::AsFd;
use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

const GUEST: [u8; 32] = [1; 32];

fn about() -> About {
    About {
        adapter: digest(b""),
        daemon: [b'd'; 32],
        configuration: [3; 32],
        lasting: 0,
        reserved: 0,
    }
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn start(root: &[u8]) -> (Process, Result<(Conversation, [u8; 32]), WorkerError>) {
    let mut file = tempfile();
    file.write_all(root).unwrap();
    let command = Command::new(env!("CARGO_BIN_EXE_bellhop-worker"));
    let (process, mut conversation) = spawn(command, file.as_fd(), &about()).unwrap();
    let ready = conversation.ready(later());
    (process, ready.map(|key| (conversation, key)))
}

fn tempfile() -> File {
    let file = rustix::fs::memfd_create("root key", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    File::from(file)
}

fn key() -> Vec<u8> {
    (0..32).collect()
}

fn ask(worker: &mut Conversation, guest: [u8; 32], job: Job<'_>) -> (SecurityOutcome, Vec<u8>) {
    worker.begin(&guest, &job).unwrap();
    let Answer { outcome, length } = worker.poll(later()).unwrap().unwrap();
    let mut data = vec![0; length];
    worker.take(&mut data).unwrap();
    (outcome, data)
}

fn open(worker: &mut Conversation, guest: [u8; 32], data: &[u8]) -> (SecurityOutcome, Vec<u8>) {
    ask(worker, guest, Job::Open { data, associated: b"about" })
}

#[test]
fn it_seals_opens_and_attests_and_its_key_outlives_it() {
    let (process, started) = start(&key());
    let (mut worker, public_key) = started.unwrap();
    let text: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    let job = Job::Seal { data: &text, protected: true, associated: b"about" };
    let (outcome, sealed) = ask(&mut worker, GUEST, job);
    assert_eq!((outcome, sealed.len()), (SecurityOutcome::DONE, text.len() + 80));
    assert_eq!(open(&mut worker, GUEST, &sealed), (SecurityOutcome::DONE, text.clone()));
    let not_authentic = (SecurityOutcome::NOT_AUTHENTIC, Vec::new());
    assert_eq!(open(&mut worker, [2; 32], &sealed), not_authentic);
    let not_sealed = (SecurityOutcome::NOT_SEALED, Vec::new());
    assert_eq!(open(&mut worker, GUEST, &text), not_sealed);
    let (outcome, statement) = ask(&mut worker, GUEST, Job::Attest { nonce: [7; 32] });
    let statement = Statement::read_from_bytes(&statement).unwrap();
    assert_eq!((outcome, statement.nonce), (SecurityOutcome::DONE, [7; 32]));
    assert_eq!((statement.public_key, statement.guest), (public_key, GUEST));
    // Killed, and another with the same root key.
    drop(process);
    let job = Job::Open { data: &sealed, associated: b"about" };
    let lost = worker.begin(&GUEST, &job).and_then(|()| worker.poll(later()));
    assert!(lost.is_err(), "{lost:?}");
    let (_process, started) = start(&key());
    let (mut worker, again) = started.unwrap();
    assert_eq!(again, public_key);
    assert_eq!(open(&mut worker, GUEST, &sealed), (SecurityOutcome::DONE, text));
    // Another root key opens nothing of the first.
    let other: Vec<u8> = key().into_iter().rev().collect();
    let (_process, started) = start(&other);
    let (mut worker, other) = started.unwrap();
    assert_ne!(other, public_key);
    assert_eq!(open(&mut worker, GUEST, &sealed), not_authentic);
}

#[test]
fn a_root_key_must_be_32_bytes_that_are_not_all_the_same() {
    for (root, expected) in [
        (vec![], "the root key is shorter than 32 bytes"),
        ((0..31).collect(), "the root key is shorter than 32 bytes"),
        ((0..33).collect(), "the root key is longer than 32 bytes"),
        (vec![0; 32], "the root key is one byte, 32 times"),
    ] {
        let (_process, started) = start(&root);
        let Err(WorkerError::Refused(why)) = started else { panic!("it started") };
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn it_cannot_be_traced_or_read_and_has_no_file_of_its_owner_but_its_buffer() {
    let (process, started) = start(&key());
    let (mut worker, _) = started.unwrap();
    ask(&mut worker, GUEST, Job::Attest { nonce: [0; 32] });
    let of = |name: &str| format!("/proc/{}/{name}", process.id());
    // A process that is not dumpable belongs to root for these files.
    if !rustix::process::geteuid().is_root() {
        assert!(File::open(of("mem")).is_err());
    }
    let status = std::fs::read_to_string(of("status")).unwrap();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    assert_eq!(field("Seccomp:"), "2");
    assert_eq!(field("Threads:"), "1");
    // Root alone sees what a process has that is not dumpable.
    if rustix::process::geteuid().is_root() {
        let mut files: Vec<_> = std::fs::read_dir(of("fd"))
            .unwrap()
            .map(|fd| std::fs::read_link(fd.unwrap().path()).unwrap().display().to_string())
            .collect();
        files.sort();
        let [null, buffer, said, socket] = &files[..] else { panic!("{files:?}") };
        assert_eq!(null, "/dev/null");
        assert!(buffer.starts_with("/memfd:bellhop-security"), "{files:?}");
        assert!(said.starts_with("/memfd:said"), "{files:?}");
        assert!(socket.starts_with("socket:"), "{files:?}");
    }
}
