// SPDX-License-Identifier: MIT OR Apache-2.0

//! The host's part in jobs for several GPUs that a guest sees as one adapter.

use crate::hosted::{self, Outcome};
use crate::operator::OperatorClient;
use crate::screen;
use anyhow::{Context, bail};
use bellhop_guest::link::{Cue, SurfaceReport};
use bellhop_guest::output::put_line;
use bellhop_processes::daemon::{self, Daemon, Options};
use bellhop_processes::process::{Signals, block_on, end};
use bellhop_protocol::operator::OperatorAction;
use bellhop_protocol::screen::{Connector, Screen};
use bellhop_rfb::Picture;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// How long a monitor may take to show something.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a daemon, and a guest that works on this GPU of its chain until it is taken away, and when it is brought back.
/// Does both as the daemon's operator.
///
/// # Errors
/// When one of them cannot be started, the daemon ends before the guest, or refuses.
pub fn detach(options: Options<'_>, gpu: u8, work: &[OsString]) -> anyhow::Result<Outcome> {
    let folder = daemon::folder()?;
    let operator = folder.path().join("operator.sock");
    let options = Options { operator: Some(&operator), ..options };
    let act = |cue| operate(&operator, gpu, cue);
    follow(folder.path(), options, work, act, |line| Ok(put_line(line)?))
}

/// What monitors showed of a large surface, and what is to be said of it.
#[derive(Debug)]
pub struct Seen {
    /// The guest's report, with what was seen.
    pub report: SurfaceReport,
    /// The pixels of each monitor, in the report's order.
    pub parts: Vec<Vec<u32>>,
}

/// Starts a daemon, and a guest that shows a large surface on its monitors. Looks at these meanwhile, and says in the report
/// whether they showed what the processor computes. There is none if the guest failed before.
///
/// # Errors
/// When one of them cannot be started, the daemon ends before the guest, or shows nothing.
pub fn surface(options: Options<'_>, work: &[OsString]) -> anyhow::Result<(Outcome, Option<Seen>)> {
    let folder = daemon::folder()?;
    let control = folder.path().join("control.sock");
    let options = Options { control: Some(&control), ..options };
    let (mut seen, mut said) = (BTreeMap::new(), String::new());
    let look = |_| {
        seen = captured(&control)?;
        Ok(())
    };
    let keep = |line: String| {
        said = line;
        Ok(())
    };
    let outcome = follow(folder.path(), options, work, look, keep)?;
    let Ok(mut report) = serde_json::from_str::<SurfaceReport>(&said) else {
        return Ok((outcome, None));
    };
    let wall = report.wall();
    let expected = wall.last_frame(report.frames);
    let mut parts = Vec::new();
    for (monitor, part) in report.parts.iter_mut().enumerate() {
        let picture = seen.remove(&part.connector);
        let picture = picture.with_context(|| format!("connector {} was dark", part.connector))?;
        anyhow::ensure!(
            (picture.width, picture.height) == (part.width, part.height),
            "connector {} shows {} x {} pixels",
            part.connector,
            picture.width,
            picture.height
        );
        part.captured_wrong_pixels = Some(wall.wrong(monitor, &picture.pixels, &expected));
        parts.push(picture.pixels);
    }
    let outcome = match outcome {
        Outcome::Succeeded if !report.is_right() => Outcome::Failed(1),
        outcome => outcome,
    };
    Ok((outcome, Some(Seen { report, parts })))
}

/// What the monitors show, by their connectors.
fn captured(control: &Path) -> anyhow::Result<BTreeMap<u32, Picture>> {
    let screens = screen::list(control)?;
    let lit = screens.into_iter().filter(|screen| screen.mode.is_some());
    let capture = |screen: Screen| {
        let connector = Connector { guest: screen.guest, name: screen.name };
        Ok((screen.target, screen::capture(control, &connector, PATIENCE)?))
    };
    lit.map(capture).collect()
}

/// Starts a daemon and a guest, does what the guest gives cues for, and passes on the other lines that it says. Answers a cue
/// with a line when it is obeyed.
fn follow(
    folder: &Path,
    options: Options<'_>,
    work: &[OsString],
    mut obey: impl FnMut(Cue) -> anyhow::Result<()>,
    mut pass: impl FnMut(String) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let path = folder.join("gpu.sock");
    block_on(async {
        let mut signals = Signals::new()?;
        let mut daemon = Daemon::start(&[&path], options)?;
        let mut guest = hosted::guest(&path, work)?;
        let guest = guest.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guest = guest.spawn().context("cannot start the guest")?;
        let (answers, said) = (guest.stdin.take(), guest.stdout.take());
        let mut answers = answers.context("the guest has no standard input")?;
        let mut lines = BufReader::new(said.context("the guest has no standard output")?).lines();
        let all = async {
            while let Some(line) = lines.next_line().await? {
                match line.parse() {
                    Ok(cue) => {
                        obey(cue)?;
                        // A guest that does not wait for it may have ended.
                        let _ = answers.write_all(b"\n").await;
                    }
                    Err(()) => pass(line)?,
                }
            }
            anyhow::Ok(hosted::outcome(guest.wait().await?))
        };
        let outcome = tokio::select! {
            outcome = all => outcome?,
            status = daemon.ended() => bail!("bellhopd ended ({}) before the guest did", status?),
            () = signals.received() => Outcome::Interrupted,
        };
        end(guest).await?;
        daemon.end().await?;
        Ok(outcome)
    })
}

/// Takes a GPU of the only guest away, or brings it back.
fn operate(operator: &Path, gpu: u8, cue: Cue) -> anyhow::Result<()> {
    // The guest works, so the daemon listens.
    let mut client = OperatorClient::connect(operator)?;
    let guests = client.guests()?;
    let guest = guests.sockets.first().and_then(|socket| socket.guest);
    let guest = guest.context("the daemon has no guest")?.to_string();
    let action = OperatorAction::Gpu { guest, gpu, plugged: cue == Cue::Plug };
    client.operate(action).map(drop)
}
