// SPDX-License-Identifier: MIT OR Apache-2.0

//! The input of a stream.

use anyhow::{Context, bail};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};
use vm_memory::{ReadVolatile, VolatileMemoryError, VolatileSlice};

/// Bytes that are read at once: they fit into a second-level cache.
const PIECE: usize = 128 << 10;

/// The file to stream.
#[derive(Debug)]
pub struct Input {
    file: File,
    path: PathBuf,
    size: Option<u64>,
}

impl Input {
    /// A file, pipe or device.
    ///
    /// # Errors
    /// When it cannot be read, or is a folder.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot read {}; name a file with --input", path.display());
        let file = File::open(path).with_context(cannot)?;
        let metadata = file.metadata().with_context(cannot)?;
        if metadata.is_dir() {
            bail!("{} is a folder; name a file with --input", path.display());
        }
        let size = metadata.is_file().then_some(metadata.len());
        Ok(Self { file, path: path.to_owned(), size })
    }

    /// A file without a name, in memory, of some words.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn in_memory(words: impl Iterator<Item = u64>) -> anyhow::Result<Self> {
        let no_room = "cannot make a file in memory";
        let file = memfd_create("bellhop-input", MemfdFlags::CLOEXEC).context(no_room)?;
        let mut file = File::from(file);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        file.write_all(&bytes).context(no_room)?;
        let mut input = Self { file, path: "memory".into(), size: Some(bytes.len() as u64) };
        input.rewind()?;
        Ok(input)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes. `None` unless it is a regular file.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Begins again.
    ///
    /// # Errors
    /// When it is a pipe.
    pub fn rewind(&mut self) -> anyhow::Result<()> {
        self.file.rewind().with_context(|| format!("cannot rewind {}", self.path.display()))
    }

    /// Reads a whole chunk, or the rest of the input, piece by piece into its destination: the kernel makes the only
    /// copy. Calls `with_piece` after each piece, while caches have it, with the bytes read so far, and returns
    /// their number in the end.
    pub(super) fn read(
        &mut self,
        chunk: &VolatileSlice<'_>,
        mut with_piece: impl FnMut(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<usize> {
        let mut length = 0;
        while length < chunk.len() {
            let mut piece = chunk.subslice(length, PIECE.min(chunk.len() - length))?;
            match self.file.read_volatile(&mut piece) {
                Ok(0) => break,
                Ok(more) => {
                    length += more;
                    with_piece(length)?;
                }
                Err(VolatileMemoryError::IOError(error))
                    if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot read {}", self.path.display()));
                }
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_whole_until_the_input_ends_and_comes_again() {
        let mut input = Input::in_memory(0..5).unwrap();
        assert_eq!(input.size(), Some(40));
        let mut read = |chunk: &mut [u8; 24]| {
            let mut lengths = Vec::new();
            let length = input.read(&VolatileSlice::from(&mut chunk[..]), |length| {
                lengths.push(length);
                Ok(())
            });
            (length.unwrap(), lengths)
        };
        let mut chunk = [0xFF; 24];
        assert_eq!(read(&mut chunk), (24, vec![24]));
        assert_eq!((chunk[0], chunk[8], chunk[16]), (0, 1, 2));
        assert_eq!(read(&mut chunk), (16, vec![16]));
        assert_eq!((chunk[0], chunk[8], chunk[16]), (3, 4, 2));
        assert_eq!(read(&mut chunk), (0, vec![]));
        input.rewind().unwrap();
        assert_eq!(input.read(&VolatileSlice::from(&mut chunk[..]), |_| Ok(())).unwrap(), 24);
        assert_eq!((chunk[0], chunk[8], chunk[16]), (0, 1, 2));
    }

    #[test]
    fn a_long_chunk_is_read_in_pieces_without_a_gap() {
        let words = (2 * PIECE + 8) as u64 / 8;
        let mut input = Input::in_memory(0..words).unwrap();
        let mut chunk = vec![0; 3 * PIECE];
        let mut lengths = Vec::new();
        let length = input.read(&VolatileSlice::from(&mut *chunk), |length| {
            lengths.push(length);
            Ok(())
        });
        assert_eq!(length.unwrap(), 2 * PIECE + 8);
        assert_eq!(lengths, [PIECE, 2 * PIECE, 2 * PIECE + 8]);
        let expected = (0..words).flat_map(u64::to_le_bytes);
        assert!(chunk[..2 * PIECE + 8].iter().copied().eq(expected));
    }
}
