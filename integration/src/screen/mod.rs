// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a person sees of guests' displays: pictures, recordings, and a server for VNC viewers.

mod animation;
mod files;
mod onlooker;
mod record;
mod serve;
mod view;

pub use animation::{Still, write_apng};
pub use files::write_png;
pub use onlooker::onlooker;
pub use record::Recording;
pub use serve::{Listen, serve};
pub use view::{Event, Frame, View};

use crate::inspect::ControlClient;
use crate::operator::OperatorClient;
use anyhow::{Context, bail};
use bellhop_protocol::operator::OperatorAction;
use bellhop_protocol::screen::{Connector, Screen, ScreenAction, ScreenReply};
use bellhop_rfb::Picture;
use std::path::Path;
use std::time::{Duration, Instant};

/// All connectors of all guests.
///
/// # Errors
/// If no daemon answers.
pub fn list(socket: &Path) -> anyhow::Result<Vec<Screen>> {
    match ControlClient::connect(socket)?.screen(ScreenAction::List)? {
        ScreenReply::Screens(screens) => Ok(screens),
        ScreenReply::Error(why) => bail!("the daemon refuses: {why}"),
        ScreenReply::Done => bail!("the daemon answers another question"),
    }
}

/// Plugs a monitor in, or unplugs it, on the operator's socket.
///
/// # Errors
/// If no daemon answers, or it has no such connector.
pub fn plug(socket: &Path, connector: Connector, plugged: bool) -> anyhow::Result<()> {
    let Connector { guest, name: connector } = connector;
    let guest = if guest == 0 { String::new() } else { guest.to_string() };
    let action = OperatorAction::Display { guest, connector, plugged };
    OperatorClient::connect(socket)?.operate(action).map(drop)
}

/// What a connector shows: a whole frame, never parts of two.
///
/// # Errors
/// If no daemon answers, or nothing is shown for this long.
pub fn capture(
    socket: &Path,
    connector: &Connector,
    patience: Duration,
) -> anyhow::Result<Picture> {
    let mut view = View::open(socket, connector)?;
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("nothing is shown there; `bellhop screen list` tells where something is");
        }
        if let Some(Event::Frame(frame)) = view.next(Some(left)).context("cannot take a picture")? {
            if frame.torn_at == 0 {
                let picture = view.picture(frame.buffer)?;
                view.end().context("the daemon does not let go of a viewer")?;
                return Ok(picture);
            }
            view.give_back(frame.buffer)?;
        }
    }
}
