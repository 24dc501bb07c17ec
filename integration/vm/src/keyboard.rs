// SPDX-License-Identifier: MIT OR Apache-2.0

//! Input of a VM's shell: from a person at a terminal, or from a program through a pipe.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::retry_on_intr;
use std::future::pending;
use std::io::{self, IsTerminal, stdin};
use std::thread;
use tokio::sync::oneshot;

/// The kind of standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyboard {
    /// A terminal: a person ends the VM.
    Terminal,
    /// A pipe or a socket, which may end.
    Pipe,
    /// Not open for input.
    Absent,
}

impl Keyboard {
    /// This program's standard input.
    #[must_use]
    pub fn find() -> Self {
        let stdin = stdin();
        if stdin.is_terminal() {
            return Self::Terminal;
        }
        let kind = fstat(&stdin).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::Fifo | FileType::Socket) => Self::Pipe,
            _ => Self::Absent,
        }
    }

    /// Waits until no more input can come. QEMU reads the input; this does not.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub async fn ended(self) -> io::Result<()> {
        match self {
            Self::Terminal => pending().await,
            Self::Absent => Ok(()),
            Self::Pipe => {
                let (send, ended) = oneshot::channel();
                // The thread ends with the pipe, or with this process.
                thread::Builder::new().name("keyboard".into()).spawn(move || {
                    // The receiver is gone when the VM has ended.
                    let _ = send.send(wait_for_hang_up());
                })?;
                ended.await.unwrap_or(Ok(()))
            }
        }
    }
}

/// Waits until the pipe's other end is closed.
fn wait_for_hang_up() -> io::Result<()> {
    let stdin = stdin();
    // `poll` reports a hang-up without being asked to.
    let mut pipe = [PollFd::new(&stdin, PollFlags::empty())];
    Ok(retry_on_intr(|| poll(&mut pipe, None)).map(drop)?)
}
