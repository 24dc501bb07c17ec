// SPDX-License-Identifier: MIT OR Apache-2.0

//! Seals and opens files.
//!
//! A sealed file is a sequence of sealed parts, each of 1 MiB of the file but the last. A part's associated data is its number
//! and whether it is the last: so none can be left out, exchanged or appended.

use super::verify::{describe, hex};
use crate::files::NewFile;
use anyhow::{Context, ensure};
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::security::SecureSession;
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::security::{MAX_SEALED, SEALED_OVERHEAD};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use zerocopy::IntoBytes;

const PART: usize = MAX_SEALED as usize;

fn session(transport: Arc<dyn Transport>) -> anyhow::Result<SecureSession> {
    let adapter = Adapter::open(transport)?;
    let device = adapter.create_device()?;
    Ok(SecureSession::new(&adapter, &device)?)
}

/// What is authenticated with a part.
fn about(number: u64, is_last: bool) -> Vec<u8> {
    [b"bellhop file 1".as_slice(), &number.to_le_bytes(), &[is_last.into()]].concat()
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes to a file, or to standard output.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if path != Path::new("-") {
        return NewFile::create(path)?.finish_with(bytes);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(crate::output::Unwritable::from)?;
    Ok(())
}

/// Seals a file. With `protect`, it goes through protected memory, and opens there only. Returns the bytes written.
///
/// # Errors
/// When a file cannot be read or written, or there is no security node.
pub fn seal(
    transport: Arc<dyn Transport>,
    input: &Path,
    output: &Path,
    protect: bool,
) -> anyhow::Result<usize> {
    let bytes = read(input)?;
    let mut session = session(transport)?;
    let memory = if protect { Some(session.protected(PART as u64)?) } else { None };
    let count = bytes.len().div_ceil(PART).max(1);
    let mut sealed = Vec::with_capacity(bytes.len() + count * SEALED_OVERHEAD);
    for number in 0..count {
        let part = &bytes[number * PART..bytes.len().min((number + 1) * PART)];
        let about = about(number as u64, number + 1 == count);
        sealed.extend(match &memory {
            Some(memory) => {
                session.put(memory, 0, part)?;
                session.seal_protected(memory, 0, part.len(), &about)?
            }
            None => session.seal(part, &about)?,
        });
    }
    write(output, &sealed)?;
    Ok(sealed.len())
}

/// Opens a file that [`seal`] made. Without an output, it opens into protected memory, which shows that it is authentic, and
/// no more. Returns the bytes that it held.
///
/// # Errors
/// As [`seal`], and when it is not authentic.
pub fn open(
    transport: Arc<dyn Transport>,
    input: &Path,
    output: Option<&Path>,
) -> anyhow::Result<usize> {
    let bytes = read(input)?;
    let mut session = session(transport)?;
    let memory = if output.is_none() { Some(session.protected(PART as u64)?) } else { None };
    let (mut opened, mut length) = (Vec::new(), 0);
    let count = bytes.len().div_ceil(PART + SEALED_OVERHEAD);
    ensure!(count > 0, "{} is empty", input.display());
    for (number, part) in bytes.chunks(PART + SEALED_OVERHEAD).enumerate() {
        let about = about(number as u64, number + 1 == count);
        let part_length = match &memory {
            Some(memory) => session.open_protected(part, &about, memory, 0),
            None => session.open(part, &about).map(|part| {
                opened.extend_from_slice(&part);
                part.len()
            }),
        };
        length += part_length.with_context(|| format!("{}, part {number}", input.display()))?;
    }
    if let Some(output) = output {
        write(output, &opened)?;
    }
    Ok(length)
}

/// Asks for a statement over this nonce, and writes it to a file if one is named. Returns what it says.
///
/// # Errors
/// When there is no security node, or the file cannot be written.
pub fn attest(
    transport: Arc<dyn Transport>,
    nonce: [u8; 32],
    output: Option<&Path>,
) -> anyhow::Result<String> {
    let statement = session(transport)?.attest(nonce)?;
    if let Some(output) = output {
        write(output, statement.as_bytes())?;
    }
    Ok(describe(&statement))
}

/// The key that verifies the adapter's statements, in hexadecimal.
///
/// # Errors
/// When there is no security node.
pub fn key(transport: Arc<dyn Transport>) -> anyhow::Result<String> {
    Ok(format!("{}\n", hex(&session(transport)?.caps().public_key)))
}
