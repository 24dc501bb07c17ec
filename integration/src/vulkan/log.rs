// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program writes into a pipe that has a name, read while the program runs: nothing of it is written to a disk.

use anyhow::{Context, anyhow};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, chmod, mknodat, open};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::JoinHandle;

/// The most bytes that are kept; what is beyond is dropped, so that a program that writes without end takes no memory.
const KEPT: usize = 16 << 20;
/// The most bytes that Linux lets a user's pipe have in it.
const IN_PIPE: usize = 1 << 20;
/// The bytes that are read at once.
const CHUNK: usize = 1 << 16;

/// A log that every user who finds its path may write to.
pub struct Log {
    reader: JoinHandle<io::Result<Vec<u8>>>,
    /// Closing it tells the reader that no more is to come.
    open: OwnedFd,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Log {
    /// Makes a log at a path where nothing is yet.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot make {}", path.display());
        let all = Mode::from_raw_mode(0o666);
        mknodat(CWD, path, FileType::Fifo, all, 0).with_context(cannot)?;
        // The mask of this process has taken modes away.
        chmod(path, all).with_context(cannot)?;
        // With a writer of its own, the pipe never ends before the log does, and who opens it never waits for a reader.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = open(path, flags, Mode::empty()).with_context(cannot)?;
        let (closed, open) = pipe_with(PipeFlags::CLOEXEC).with_context(cannot)?;
        let reader = std::thread::spawn(move || written(&pipe, &closed));
        Ok(Self { reader, open })
    }

    /// All that was written until now. Who writes later waits for nobody.
    ///
    /// # Errors
    /// When it could not be read.
    pub fn end(self) -> anyhow::Result<String> {
        drop(self.open);
        let written = self.reader.join().map_err(|_| anyhow!("the reader of a log ended"))?;
        Ok(String::from_utf8_lossy(&written?).into_owned())
    }
}

/// Reads from `pipe` until `closed` has no writer any more, and what the pipe has in it then.
fn written(pipe: &OwnedFd, closed: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut written = Vec::new();
    let mut chunk = vec![0; CHUNK];
    let mut left = usize::MAX;
    while left > 0 {
        let mut events =
            [PollFd::new(pipe, PollFlags::IN), PollFd::new(closed, PollFlags::empty())];
        match poll(&mut events, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        if !events[1].revents().is_empty() {
            left = left.min(IN_PIPE);
        }
        match read(pipe, &mut chunk[..CHUNK.min(left)]) {
            Ok(count) => {
                let kept = count.min(KEPT - written.len());
                written.extend_from_slice(&chunk[..kept]);
                if left <= IN_PIPE {
                    left -= count;
                }
            }
            Err(Errno::AGAIN) if left <= IN_PIPE => left = 0,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn log() -> (tempfile::TempDir, PathBuf, Log) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Log::new(&path).unwrap();
        (folder, path, log)
    }

    #[test]
    fn a_log_has_what_one_writer_after_the_other_wrote_and_any_user_may() {
        let (_folder, path, log) = log();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        fs::write(&path, "one, ").unwrap();
        fs::write(&path, [b'x'; 3 * CHUNK]).unwrap();
        // As a program that its end leaves behind.
        let mut open = OpenOptions::new().write(true).open(&path).unwrap();
        open.write_all(b", last").unwrap();
        let written = log.end().unwrap();
        assert!(written.starts_with("one, xxx") && written.ends_with("xxx, last"));
        assert_eq!(written.len(), 11 + 3 * CHUNK);
    }

    #[test]
    fn what_is_too_much_is_dropped_and_the_writer_does_not_wait() {
        let (_folder, path, log) = log();
        fs::write(&path, vec![b'x'; KEPT + 5 * CHUNK]).unwrap();
        assert_eq!(log.end().unwrap().len(), KEPT);
    }

    #[test]
    fn a_log_that_nobody_wrote_to_is_empty() {
        let (_folder, path, log) = log();
        assert_eq!(log.end().unwrap(), "");
        assert!(Log::new(&path).is_err());
    }
}
