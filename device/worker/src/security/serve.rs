// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(
    clippy::disallowed_methods,
    reason = "the process with the keys, which has nothing else to do"
)]

//! The process with the keys. Standard input is the socket to its owner.
//!
//! It has one thread, no Vulkan, no guest's memory and two files: the socket and the buffer. What it reads from the buffer
//! it copies first, and what it writes there it has finished before: nobody sees a plaintext that is not authentic.

use super::keys::{Keys, NotOpened};
use super::messages::{ATTEST, Begin, Buffer, Done, MAX_MESSAGE, OPEN, Ready, SEAL, Work, read};
use super::{BUFFER, DATA, MAX_DATA, ROOT_SIZE};
use crate::messages::{Malformed, Refused, Text};
use crate::serve::sandbox::{self, Confined, Limits};
use crate::socket::{receive, send};
use anyhow::{Context, bail, ensure};
use bellhop_protocol::security::{MAX_SEALED, SecurityOutcome};
use rustix::fd::OwnedFd;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::stdio::stdin;
use std::fs::File;
use std::os::unix::fs::FileExt;
use zerocopy::IntoBytes;
use zeroize::{Zeroize, Zeroizing};

/// Most bytes of the process's own memory: a buffer, copies of it, and the program.
const MEMORY: u64 = 64 << 20;

/// Serves the owner until it closes its end of the socket.
///
/// # Errors
/// When the owner sends something that is no request, or a system call fails.
pub fn serve() -> anyhow::Result<()> {
    sandbox::close_others();
    let mut bytes = [0; MAX_MESSAGE];
    let Some(first) = receive(stdin(), &mut bytes, RecvFlags::empty())? else { return Ok(()) };
    let begin: Begin = read(first.bytes)?;
    let root = first.descriptor()?;
    let Some(second) = receive(stdin(), &mut bytes, RecvFlags::empty())? else { return Ok(()) };
    let Buffer { length } = read(second.bytes)?;
    let buffer = File::from(second.descriptor()?);
    match prepare(&begin, root, length) {
        Ok(keys) => {
            send(stdin(), Ready { public_key: keys.public_key() }, None)?;
            Worker { keys, buffer }.obey()
        }
        Err(error) => {
            let why = Text::new(&format!("{error:#}"));
            Ok(send(stdin(), Refused { why }, None)?)
        }
    }
}

fn prepare(begin: &Begin, root: OwnedFd, length: u64) -> anyhow::Result<Keys> {
    ensure!(begin.about.reserved == 0, Malformed::Field("reserved field"));
    ensure!(length == BUFFER as u64, Malformed::Field("length"));
    // No process of the same user traces this one or reads its memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot hide its memory")?;
    let mut key = Zeroizing::new([0; ROOT_SIZE]);
    let root = File::from(root);
    root.read_exact_at(&mut key[..], 0).context("the root key is shorter than 32 bytes")?;
    let more = root.read_at(&mut [0], ROOT_SIZE as u64).context("cannot read the root key")?;
    ensure!(more == 0, "the root key is longer than 32 bytes");
    ensure!(key.iter().any(|byte| *byte != key[0]), "the root key is one byte, 32 times");
    drop(root);
    let mut salt = [0; 32];
    let drawn = getrandom(&mut salt[..], GetRandomFlags::empty()).context("cannot draw a salt")?;
    // Linux gives up to 256 bytes at once.
    ensure!(drawn == salt.len(), "cannot draw a salt");
    let keys = Keys::new(key, begin.about, salt);
    let limits = Limits { memory: MEMORY, reach: 0, file: sandbox::FILE.max(BUFFER as u64) };
    sandbox::enter(Confined::Keys, &limits)?;
    Ok(keys)
}

struct Worker {
    keys: Keys,
    buffer: File,
}

impl Worker {
    fn obey(&mut self) -> anyhow::Result<()> {
        let mut bytes = [0; MAX_MESSAGE];
        let mut data = Vec::with_capacity(MAX_DATA);
        while let Some(received) = receive(stdin(), &mut bytes, RecvFlags::empty())? {
            let work: Work = read(received.alone()?)?;
            let outcome = self.work(&work, &mut data)?;
            self.buffer.write_all_at(&data, DATA as u64).context("cannot write the buffer")?;
            let done =
                Done { sequence: work.sequence, outcome: outcome.0, length: data.len() as u32 };
            data.zeroize();
            send(stdin(), done, None)?;
        }
        Ok(())
    }

    /// Does it, with the data of the buffer; leaves there what came of it.
    fn work(&mut self, work: &Work, data: &mut Vec<u8>) -> anyhow::Result<SecurityOutcome> {
        let Work { operation, protected, length, associated, ref guest, nonce, .. } = *work;
        let (length, associated) = (length as usize, associated as usize);
        ensure!(protected <= 1, Malformed::Field("protection"));
        let most = if operation == SEAL { MAX_SEALED as usize } else { MAX_DATA };
        ensure!(length <= most && associated <= DATA, Malformed::Field("length"));
        let mut about = vec![0; associated];
        self.buffer.read_exact_at(&mut about, 0).context("cannot read the buffer")?;
        data.resize(length, 0);
        self.buffer.read_exact_at(data, DATA as u64).context("cannot read the buffer")?;
        match operation {
            SEAL => {
                self.keys.seal(guest, protected == 1, &about, data)?;
                Ok(SecurityOutcome::DONE)
            }
            OPEN => Ok(match self.keys.open(guest, &about, data) {
                Ok(()) => SecurityOutcome::DONE,
                Err(NotOpened::NotSealed) => SecurityOutcome::NOT_SEALED,
                Err(NotOpened::NotAuthentic) => SecurityOutcome::NOT_AUTHENTIC,
            }),
            ATTEST => {
                *data = self.keys.attest(guest, nonce).as_bytes().to_vec();
                Ok(SecurityOutcome::DONE)
            }
            _ => bail!("an operation that does not exist"),
        }
    }
}
