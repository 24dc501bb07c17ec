// SPDX-License-Identifier: MIT OR Apache-2.0

//! Seals and opens files.
//!
//! A sealed file is a header and a sequence of sealed parts, each of 1 MiB of the file but the last. A part's associated data
//! is the header, which has an identifier that no other file has and the number of parts, and the part's own number. So no
//! part can be left out, exchanged with one of this file or of another, or appended.

use super::verify::{describe, hex};
use crate::files::{NewFile, Readers};
use anyhow::{Context, bail, ensure};
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::security::SecureSession;
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::security::{MAX_SEALED, SEALED_OVERHEAD};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, little_endian};

const PART: usize = MAX_SEALED as usize;

fn session(transport: Arc<dyn Transport>) -> anyhow::Result<SecureSession> {
    let adapter = Adapter::open(transport)?;
    let device = adapter.create_device()?;
    Ok(SecureSession::new(&adapter, &device)?)
}

const MAGIC: [u8; 16] = *b"bellhop file 1\0\0";

/// What a sealed file begins with. Each part authenticates it.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    /// [`MAGIC`]
    magic: [u8; 16],
    /// Drawn at random for each file: a part of another file that the same guest sealed does not open in this one.
    id: [u8; 32],
    /// The number of parts, at least one.
    parts: little_endian::U64,
}

impl Header {
    fn draw(parts: usize) -> anyhow::Result<Self> {
        let mut id = [0; 32];
        let drawn = getrandom(&mut id[..], GetRandomFlags::empty())?;
        ensure!(drawn == id.len(), "Linux gives too few random bytes");
        Ok(Self { magic: MAGIC, id, parts: (parts as u64).into() })
    }

    /// Separates a sealed file into its header and its parts, of which all must be there.
    fn split(file: &[u8]) -> anyhow::Result<(Self, Vec<&[u8]>)> {
        let Ok((header, rest)) = Self::read_from_prefix(file) else {
            bail!("it is no sealed file: it is too short");
        };
        ensure!(header.magic == MAGIC, "it is no sealed file");
        let parts: Vec<_> = rest.chunks(PART + SEALED_OVERHEAD).collect();
        let (there, all) = (parts.len() as u64, header.parts.get());
        ensure!(there == all && all > 0, "it has {there} of {all} parts");
        Ok((header, parts))
    }

    /// What is authenticated with a part.
    fn about(&self, part: usize) -> Vec<u8> {
        [self.as_bytes(), &(part as u64).to_le_bytes()].concat()
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes to a file that these may read, or to standard output.
fn write(path: &Path, readers: Readers, bytes: &[u8]) -> anyhow::Result<()> {
    if path != Path::new("-") {
        return NewFile::create_for(readers, path)?.finish_with(bytes);
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
    let header = Header::draw(count)?;
    let mut sealed =
        Vec::with_capacity(size_of::<Header>() + bytes.len() + count * SEALED_OVERHEAD);
    sealed.extend(header.as_bytes());
    for number in 0..count {
        let part = &bytes[number * PART..bytes.len().min((number + 1) * PART)];
        let about = header.about(number);
        sealed.extend(match &memory {
            Some(memory) => {
                session.put(memory, 0, part)?;
                session.seal_protected(memory, 0, part.len(), &about)?
            }
            None => session.seal(part, &about)?,
        });
    }
    write(output, Readers::All, &sealed)?;
    Ok(sealed.len())
}

/// Opens a file that [`seal`] made, into one that only this user may read. Without an output, it opens into protected memory, which shows that it is authentic, and
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
    let (header, parts) = Header::split(&bytes).with_context(|| input.display().to_string())?;
    for (number, part) in parts.into_iter().enumerate() {
        let about = header.about(number);
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
        write(output, Readers::Owner, &opened)?;
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
        write(output, Readers::All, statement.as_bytes())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_all_its_parts_and_an_identifier_of_its_own() {
        let header = Header::draw(2).unwrap();
        assert_ne!(header.id, Header::draw(2).unwrap().id);
        let whole = [header.as_bytes(), &[1; PART + SEALED_OVERHEAD], &[2; 81]].concat();
        let (found, parts) = Header::split(&whole).unwrap();
        assert_eq!(found.id, header.id);
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [PART + 80, 81]);
        let abouts = [found.about(0), found.about(1)];
        assert!(abouts[0] != abouts[1] && abouts.iter().all(|about| about.len() == 64));
        let start = size_of::<Header>();
        for (length, expected) in [
            (0, "too short"),
            (start - 1, "too short"),
            (start, "0 of 2 parts"),
            (start + PART + SEALED_OVERHEAD, "1 of 2 parts"),
        ] {
            let error = Header::split(&whole[..length]).unwrap_err().to_string();
            assert!(error.contains(expected), "{length}: {error}");
        }
        assert!(Header::split(&whole[start..]).is_err());
        let none = Header { parts: 0.into(), ..header };
        assert!(Header::split(none.as_bytes()).is_err());
    }
}
