// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines of JSON to and from a daemon's sockets for tools.

use anyhow::{Context, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which of a daemon's sockets for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The control socket, which shows and changes nothing.
    Tools,
    /// The operator's.
    Operator,
}

impl Whose {
    fn name(self) -> &'static str {
        match self {
            Self::Tools => "a control socket",
            Self::Operator => "an operator's socket",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::Tools => "--control-socket",
            Self::Operator => "--operator-socket",
        }
    }

    fn refused(self) -> &'static str {
        match self {
            Self::Tools => {
                "its bellhopd answers root and its own user, so try `sudo bellhop inspect`, or `sudo -u bellhop bellhop \
                 inspect`"
            }
            Self::Operator => {
                "its bellhopd answers root, its own user and members of control.operator_group, so try `sudo bellhop ctl`"
            }
        }
    }
}

/// A connection that carries a line for each request, and one for each answer.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    whose: Whose,
    stream: BufReader<UnixStream>,
    /// The other end has answered as such a socket does.
    has_answered: bool,
}

impl Lines {
    /// Connects. An answer may take as long as `patience`; without one, any time.
    ///
    /// # Errors
    /// When no daemon serves the path, or it refuses this user; the error says what to do.
    pub fn connect(path: &Path, whose: Whose, patience: Option<Duration>) -> anyhow::Result<Self> {
        let stream = connect(path, whose)?;
        stream.set_read_timeout(patience).context("cannot wait for an answer")?;
        stream.set_write_timeout(patience).context("cannot wait for an answer")?;
        let stream = BufReader::new(stream);
        Ok(Self { path: path.to_owned(), whose, stream, has_answered: false })
    }

    /// Sends a request and reads its answer, of at most `limit` bytes.
    ///
    /// # Errors
    /// When the daemon does not answer, or answers something else.
    pub fn ask<T: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
        limit: u64,
    ) -> anyhow::Result<T> {
        let line = match self.exchange(request, limit) {
            Ok(line) => line,
            Err(error) if self.has_answered && is_end(error.kind()) => bail!(
                "the bellhopd at {} has ended; start it again, or name another with --socket",
                self.path.display()
            ),
            Err(error) => return Err(error).context(self.no_answer()),
        };
        let answer = serde_json::from_str(&line).with_context(|| self.no_answer())?;
        self.has_answered = true;
        Ok(answer)
    }

    fn no_answer(&self) -> String {
        format!(
            "{} does not answer as {} does; name the {} of a bellhopd of this version, and not a guest's socket",
            self.path.display(),
            self.whose.name(),
            self.whose.option()
        )
    }

    fn exchange(&mut self, request: &impl Serialize, limit: u64) -> std::io::Result<String> {
        let request = serde_json::to_string(request)? + "\n";
        // A daemon that refuses this user has answered already, and may have gone: its answer says why.
        let sent = self.stream.get_mut().write_all(request.as_bytes());
        let mut line = String::new();
        (&mut self.stream).take(limit).read_line(&mut line)?;
        if line.ends_with('\n') {
            Ok(line)
        } else {
            Err(sent.err().unwrap_or(ErrorKind::UnexpectedEof.into()))
        }
    }
}

/// Connects to a socket for tools.
///
/// # Errors
/// When no daemon serves the path, or it refuses this user; the error says what to do.
pub fn connect(path: &Path, whose: Whose) -> anyhow::Result<UnixStream> {
    let (shown, name) = (path.display(), whose.name());
    Ok(match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "there is no {} at {shown}; start bellhopd with {} {shown}, or name the one that it has with --socket",
            name.split_once(' ').map_or(name, |(_, name)| name),
            whose.option()
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            bail!("you may not connect to {shown}; {}", whose.refused())
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => bail!(
            "no process serves {shown}; its bellhopd has ended: start it again, or name another with --socket"
        ),
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot connect to {shown}; name {name} with --socket"));
        }
    })
}

/// Whether the other end has gone.
fn is_end(error: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error, BrokenPipe | ConnectionReset | UnexpectedEof)
}
