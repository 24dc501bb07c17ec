// SPDX-License-Identifier: MIT OR Apache-2.0

//! The host's part in jobs for several GPUs that a guest sees as one adapter.

use crate::hosted::{self, Outcome};
use crate::operator::OperatorClient;
use anyhow::{Context, bail};
use bellhop_guest::link::Cue;
use bellhop_guest::output::put_line;
use bellhop_processes::daemon::{self, Daemon, Options};
use bellhop_processes::process::{Signals, block_on, end};
use bellhop_protocol::operator::OperatorAction;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout};

/// Starts a daemon, and a guest that works on this GPU of its chain until it is taken away, and when it is brought back.
/// Does both as the daemon's operator.
///
/// # Errors
/// When one of them cannot be started, the daemon ends before the guest, or refuses.
pub fn detach(options: Options<'_>, gpu: u8, work: &[OsString]) -> anyhow::Result<Outcome> {
    let folder = daemon::folder()?;
    let (path, operator) = (folder.path().join("gpu.sock"), folder.path().join("operator.sock"));
    block_on(async {
        let mut signals = Signals::new()?;
        let mut daemon = Daemon::start(&[&path], Options { operator: Some(&operator), ..options })?;
        let mut guest = hosted::guest(&path, work)?;
        let mut guest = guest.stdout(Stdio::piped()).spawn().context("cannot start the guest")?;
        let said = guest.stdout.take().context("the guest has no standard output")?;
        let outcome = tokio::select! {
            outcome = follow(&mut guest, said, |cue| obey(&operator, gpu, cue)) => outcome?,
            status = daemon.ended() => bail!("bellhopd ended ({}) before the guest did", status?),
            () = signals.received() => Outcome::Interrupted,
        };
        end(guest).await?;
        daemon.end().await?;
        Ok(outcome)
    })
}

/// Obeys a guest's cues and passes on what else it says, until it ends.
async fn follow(
    guest: &mut Child,
    said: ChildStdout,
    obey: impl Fn(Cue) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let mut lines = BufReader::new(said).lines();
    while let Some(line) = lines.next_line().await? {
        match line.parse() {
            Ok(cue) => obey(cue)?,
            Err(()) => put_line(line)?,
        }
    }
    Ok(hosted::outcome(guest.wait().await?))
}

/// Takes a GPU of the only guest away, or brings it back.
fn obey(operator: &Path, gpu: u8, cue: Cue) -> anyhow::Result<()> {
    // The guest works, so the daemon listens.
    let mut client = OperatorClient::connect(operator)?;
    let guests = client.guests()?;
    let guest = guests.sockets.first().and_then(|socket| socket.guest);
    let guest = guest.context("the daemon has no guest")?.to_string();
    let action = OperatorAction::Gpu { guest, gpu, plugged: cue == Cue::Plug };
    client.operate(action).map(drop)
}
