// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processes: of others, of nobody, that have ended, and without end.

use super::scene::{Group, Scene};
use super::session::{Session, encode, message};
use anyhow::ensure;
use bellhop_protocol::broker::MessageKind;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::status::Status;
use std::thread;
use zerocopy::IntoBytes;

pub(super) const ATTACKS: Group = &[
    ("forged-processes", forged),
    ("ended-processes", ended),
    ("ending-others-processes", ending_others),
    ("processes-to-the-limit", to_the_limit),
    ("processes-without-pause", without_pause),
    ("ending-while-it-is-used", ending_while_used),
    ("creating-beside-one-that-ends", beside),
];

/// How often something is done that is over at once.
const OFTEN: usize = 50;

/// Each request, in the name of others.
fn forged(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let own = session.process()?;
    for code in RequestCode::ALL {
        for process in [0, u32::MAX, scene.victim, own.wrapping_add(1), own | 1 << 31] {
            for length in [0, 8, 16, 48] {
                let body = scene.noise.bytes(length);
                let (status, _) = session.ask_bytes(&encode(*code, process, &body))?;
                // What is about the adapter names process 0.
                ensure!(!status.is_success() || process == 0, "{code} of {process}: {status}");
            }
        }
    }
    session.is_served()
}

fn ended(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let (ended, other) = (session.process()?, session.process()?);
    session.expect(ended, &DestroyProcess { flags: 0 }, &[], Status::SUCCESS)?;
    session.expect(ended, &DestroyProcess { flags: 0 }, &[], Status::INVALID_HANDLE)?;
    session.expect(ended, &CreateDevice { reserved: 0 }, &[], Status::INVALID_HANDLE)?;
    session.expect(other, &CreateDevice { reserved: 0 }, &[], Status::SUCCESS)?;
    // The last one takes the BAR with it, and the next one brings it back.
    session.expect(other, &DestroyProcess { flags: 0 }, &[], Status::SUCCESS)?;
    let again = session.process()?;
    session.expect(again, &CreateDevice { reserved: 0 }, &[], Status::SUCCESS)
}

/// Every process that there may be.
fn ending_others(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let near = scene.victim.saturating_sub(100)..scene.victim.saturating_add(1000);
    for process in near {
        for flags in [0, TERMINATED_ABNORMALLY] {
            let request = DestroyProcess { flags };
            session.expect(process, &request, &[], Status::INVALID_HANDLE)?;
        }
    }
    Ok(())
}

/// All that one program may have, several times, and left without a word.
fn to_the_limit(scene: &mut Scene) -> anyhow::Result<()> {
    for _ in 0..3 {
        let session = Session::open(&scene.socket)?;
        for _ in 0..scene.processes {
            session.device()?;
        }
        for _ in 0..OFTEN {
            session.expect(0, &CreateProcess { reserved: 0 }, &[], Status::QUOTA_EXCEEDED)?;
        }
    }
    Ok(())
}

fn without_pause(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    for _ in 0..OFTEN {
        let (process, _) = session.device()?;
        session.expect(process, &DestroyProcess { flags: 1 }, &[], Status::SUCCESS)?;
    }
    Ok(())
}

/// One channel ends processes that the other uses.
fn ending_while_used(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    for _ in 0..OFTEN {
        let process = session.process()?;
        let device = CreateDevice { reserved: 0 };
        let used = encode(RequestCode::CREATE_DEVICE, process, device.as_bytes());
        let destroy = DestroyProcess { flags: TERMINATED_ABNORMALLY };
        let ended = encode(RequestCode::DESTROY_PROCESS, process, destroy.as_bytes());
        session.say(1, &message(MessageKind::REQUEST, &used))?;
        let (status, _) = session.ask_bytes(&ended)?;
        ensure!(status.is_success(), "a process does not end: {status}");
        let (status, _) = session.reply(1)?;
        let expected = [Status::SUCCESS, Status::INVALID_HANDLE];
        ensure!(expected.contains(&status), "a device of a process that ends: {status}");
    }
    session.is_served()
}

/// A process beside one that ends has its BAR, or a new one.
fn beside(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let create = encode(RequestCode::CREATE_PROCESS, 0, CreateProcess { reserved: 0 }.as_bytes());
    for _ in 0..OFTEN {
        let first = session.process()?;
        let destroyed = thread::scope(|threads| {
            let create = threads.spawn(|| {
                session.say(1, &message(MessageKind::REQUEST, &create))?;
                session.reply(1)
            });
            let destroy = session.ask(first, &DestroyProcess { flags: 1 }, &[]);
            (destroy, create.join())
        });
        let (Ok((destroyed, _)), Ok(Ok((created, body)))) = destroyed else {
            anyhow::bail!("the broker ended the connection: {destroyed:?}");
        };
        ensure!(destroyed.is_success(), "a process does not end: {destroyed}");
        if created.is_success() {
            let process = body.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            session.expect(process, &CreateDevice { reserved: 0 }, &[], Status::SUCCESS)?;
            session.expect(process, &DestroyProcess { flags: 1 }, &[], Status::SUCCESS)?;
        }
    }
    Ok(())
}
