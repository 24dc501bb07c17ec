// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fuzz targets without a fuzzer: their corpora, and random mutations of those.

use bellhop_fuzz::{TARGETS, Target};
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a target gets random input.
const RANDOM: Duration = Duration::from_secs(2);
/// Most random inputs of a target.
const MOST: u64 = 2000;
/// How long an input may take before it is a hang.
const HANG: Duration = Duration::from_secs(60);

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

/// Gives inputs to a target, and names the input that it does not survive.
fn survives(target: Target, inputs: impl Iterator<Item = (String, Vec<u8>)> + Send + 'static) {
    let (begins, begun) = channel();
    let runs = thread::spawn(move || {
        for (name, input) in inputs {
            begins.send(name.clone()).unwrap();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
                eprintln!("{name}: {input:?}");
                resume_unwind(panic);
            }
        }
    });
    let mut running = String::new();
    loop {
        match begun.recv_timeout(HANG) {
            Ok(name) => running = name,
            Err(RecvTimeoutError::Timeout) => panic!("{running} hangs"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if let Err(panic) = runs.join() {
        resume_unwind(panic);
    }
}

/// Random input `number`, by which the input that a panic names can be made again.
fn random(number: u64, corpus: &[(PathBuf, Vec<u8>)]) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(number);
    let mut bytes = match number % 2 {
        0 => Vec::new(),
        _ => corpus[random.random_range(0..corpus.len())].1.clone(),
    };
    let more = random.random_range(0..512);
    bytes.extend((0..more).map(|_| random.random::<u8>()));
    for _ in 0..random.random_range(0..8) {
        let at = random.random_range(0..=bytes.len().saturating_sub(1));
        if let Some(byte) = bytes.get_mut(at) {
            *byte = random.random();
        }
    }
    bytes
}

#[test]
fn each_target_has_a_corpus_and_each_corpus_a_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, TARGETS.map(|(name, _)| name));
}

#[test]
fn targets_survive_their_corpora_and_what_is_like_them() {
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        let files = corpus.clone().into_iter();
        survives(target, files.map(|(path, bytes)| (path.display().to_string(), bytes)));
        let start = Instant::now();
        let numbers = (0..MOST).take_while(move |_| start.elapsed() < RANDOM);
        survives(
            target,
            numbers.map(move |number| {
                (format!("{name}, random input {number}"), random(number, &corpus))
            }),
        );
        println!("{name}: {:.1?}", start.elapsed());
    }
}
