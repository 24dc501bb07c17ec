// SPDX-License-Identifier: MIT OR Apache-2.0

//! The client of a daemon's control socket.

use crate::lines::{self, Lines, Whose};
use anyhow::bail;
use bellhop_guest::inspect::Source;
use bellhop_protocol::screen::{ScreenAction, ScreenReply, ScreenRequest};
use bellhop_protocol::snapshot::{ListReply, ListRequest, MAX_LIST_REPLY, SNAPSHOT_VERSION};
use bellhop_protocol::trace::{MAX_TRACE_REPLY, TraceReply, TraceRequest};
use serde::de::DeserializeOwned;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Where the packaged service has its control socket.
pub const CONTROL_SOCKET: &str = "/run/bellhopd/control.sock";

/// How long a daemon may take to answer: it needs far less for a page.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes in an answer's line: the objects, and the JSON around them.
const MAX_LINE: u64 = MAX_LIST_REPLY as u64 + 1024;

/// A connection to a control socket.
#[derive(Debug)]
pub struct ControlClient(Lines);

impl ControlClient {
    /// Connects.
    ///
    /// # Errors
    /// When no daemon serves the path, or it refuses this user; the error says what to do.
    pub fn connect(path: &Path) -> anyhow::Result<Self> {
        Lines::connect(path, Whose::Tools, Some(PATIENCE)).map(Self)
    }

    /// Asks about displays.
    ///
    /// # Errors
    /// When the daemon does not answer, or answers something else.
    pub fn screen(&mut self, screen: ScreenAction) -> anyhow::Result<ScreenReply> {
        self.0.ask(&ScreenRequest { version: SNAPSHOT_VERSION, screen }, MAX_LINE)
    }

    /// Requests the records of a trace.
    ///
    /// # Errors
    /// When the daemon does not answer, or answers something else.
    pub fn trace(&mut self, request: &TraceRequest) -> anyhow::Result<TraceReply> {
        self.0.ask(request, MAX_TRACE_REPLY as u64)
    }
}

impl Source for ControlClient {
    fn list<T: DeserializeOwned>(
        &mut self,
        request: &ListRequest,
    ) -> anyhow::Result<Option<(u64, Vec<T>)>> {
        match self.0.ask(request, MAX_LINE)? {
            ListReply::Objects { next, objects } => Ok(Some((next.0, objects))),
            ListReply::Gone(_) => Ok(None),
            ListReply::Error(why) => bail!("the daemon refuses: {why}"),
        }
    }
}

/// Connects to a control socket.
///
/// # Errors
/// When no daemon serves the path, or it refuses this user; the error says what to do.
pub fn connect(path: &Path) -> anyhow::Result<UnixStream> {
    lines::connect(path, Whose::Tools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};

    #[test]
    fn a_socket_that_is_not_there_or_not_served_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let error = ControlClient::connect(&path).unwrap_err().to_string();
        assert!(error.contains("start bellhopd with --control-socket"), "{error}");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let error = ControlClient::connect(&path).unwrap_err().to_string();
        assert!(error.contains("no process serves"), "{error}");
        let error = ControlClient::connect(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--socket"), "{error}");
    }

    #[test]
    fn a_daemon_that_ends_is_not_taken_for_another_kind_of_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let request = TraceRequest { version: 1, adapter: 0, trace: true, buffer_mib: 0 };
        let answer = r#"{"records":{"records":[],"more":false}}"#;
        for (answers, expected) in [(1, "has ended; start it again"), (0, "not a guest's socket")] {
            let daemon = listener.try_clone().unwrap();
            let daemon = std::thread::spawn(move || {
                let mut stream = BufReader::new(daemon.accept().unwrap().0);
                for _ in 0..answers {
                    stream.read_line(&mut String::new()).unwrap();
                    writeln!(stream.get_mut(), "{answer}").unwrap();
                }
            });
            let mut client = ControlClient::connect(&path).unwrap();
            for _ in 0..answers {
                client.trace(&request).unwrap();
            }
            daemon.join().unwrap();
            let error = client.trace(&request).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
