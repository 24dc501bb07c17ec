// SPDX-License-Identifier: MIT OR Apache-2.0

//! The client of a daemon's operator's socket.

use crate::lines::{Lines, Whose};
use anyhow::bail;
use bellhop_protocol::operator::{
    Guests, MAX_OPERATOR_REPLY, OPERATOR_VERSION, OperatorAction, OperatorReply, OperatorRequest,
};
use std::path::Path;
use std::time::Duration;

/// Where the packaged service has its operator's socket.
pub const OPERATOR_SOCKET: &str = "/run/bellhopd/operator.sock";

/// How long a daemon may take: an agent has ten seconds, and its adapter may take some to power down.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to an operator's socket.
#[derive(Debug)]
pub struct OperatorClient(Lines);

impl OperatorClient {
    /// Connects.
    ///
    /// # Errors
    /// When no daemon serves the path, or it refuses this user; the error says what to do.
    pub fn connect(path: &Path) -> anyhow::Result<Self> {
        Lines::connect(path, Whose::Operator, Some(PATIENCE)).map(Self)
    }

    /// Connects, to wait for as long as it takes.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_patiently(path: &Path) -> anyhow::Result<Self> {
        Lines::connect(path, Whose::Operator, None).map(Self)
    }

    /// Has the daemon do something. Returns what is done, in a line.
    ///
    /// # Errors
    /// When the daemon refuses, with what to do instead; or does not answer.
    pub fn operate(&mut self, operate: OperatorAction) -> anyhow::Result<String> {
        match self.ask(operate)? {
            OperatorReply::Done(text) => Ok(text),
            OperatorReply::Error(why) => bail!("{why}"),
            OperatorReply::Guests(_) => bail!("the daemon answers another question"),
        }
    }

    /// The daemon's sockets, and what was changed of them.
    ///
    /// # Errors
    /// As [`Self::operate`].
    pub fn guests(&mut self) -> anyhow::Result<Guests> {
        match self.ask(OperatorAction::Guests)? {
            OperatorReply::Guests(guests) => Ok(guests),
            OperatorReply::Error(why) => bail!("{why}"),
            OperatorReply::Done(_) => bail!("the daemon answers another question"),
        }
    }

    fn ask(&mut self, operate: OperatorAction) -> anyhow::Result<OperatorReply> {
        let request = OperatorRequest { version: OPERATOR_VERSION, operate };
        self.0.ask(&request, MAX_OPERATOR_REPLY as u64)
    }
}
