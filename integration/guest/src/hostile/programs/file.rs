// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program's file: whoever could take its pages away would end the guest's connection, whose memory they are.

use super::scene::{Group, Scene};
use super::session::Session;
use crate::hostile::Punch;
use anyhow::ensure;
use rustix::fs::{
    FallocateFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, ftruncate,
};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

pub(super) const ATTACKS: Group = &[
    ("truncate", truncate),
    ("seal", seal),
    ("collapse", collapse),
    ("reopen", reopen),
    ("punch-holes", holes),
    ("map-and-unmap", mappings),
];

/// How often it maps the file at once.
const MAPPINGS: usize = 20;

fn has_all_its_bytes(session: &Session) -> anyhow::Result<()> {
    let expected = session.welcome.bar + session.welcome.memory;
    ensure!(session.memory.metadata()?.len() == expected, "the file has another length");
    session.is_served()
}

/// Other lengths than it has.
fn truncate(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    session.process()?;
    let length = session.memory.metadata()?.len();
    for wrong in [0, 4096, length - 1, length + 1, length + 4096, i64::MAX as u64] {
        ensure!(ftruncate(&session.memory, wrong).is_err(), "it has {wrong} bytes now");
    }
    has_all_its_bytes(&session)
}

/// Seals that would keep the broker, or the device, from mapping it.
fn seal(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let before = fcntl_get_seals(&session.memory)?;
    for more in [SealFlags::WRITE, SealFlags::FUTURE_WRITE, SealFlags::EXEC] {
        ensure!(fcntl_add_seals(&session.memory, more).is_err(), "it took {more:?}");
    }
    ensure!(fcntl_get_seals(&session.memory)? == before, "its seals changed");
    session.process().map(drop)
}

/// Ranges that are taken out of the middle, or put there.
fn collapse(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    session.process()?;
    let flags = [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE];
    for flags in flags.into_iter().chain([FallocateFlags::empty()]) {
        let behind = if flags.is_empty() { session.memory.metadata()?.len() } else { 0 };
        let done = fallocate(&session.memory, flags, behind, 1 << 16);
        ensure!(done.is_err(), "{flags:?} was done");
    }
    has_all_its_bytes(&session)
}

/// Another description of the file, with other rights.
fn reopen(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    session.process()?;
    let path = format!("/proc/self/fd/{}", session.memory.as_raw_fd());
    let emptied = OpenOptions::new().write(true).truncate(true).open(&path);
    ensure!(emptied.is_err(), "it was opened empty");
    if let Ok(again) = OpenOptions::new().read(true).write(true).open(&path) {
        ensure!(again.set_len(0).is_err(), "it was truncated through another descriptor");
    }
    has_all_its_bytes(&session)
}

/// Holes in everything that the device has of the program, which is mapped often: the device waits meanwhile.
fn holes(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    session.process()?;
    let punch = Punch::prepare(&session.memory, MAPPINGS)?;
    for _ in 0..MAPPINGS {
        punch.punch()?;
    }
    drop(punch);
    has_all_its_bytes(&session)?;
    session.process().map(drop)
}

fn mappings(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    session.process()?;
    for _ in 0..MAPPINGS {
        drop(Punch::prepare(&session.memory, MAPPINGS)?);
    }
    has_all_its_bytes(&session)
}
