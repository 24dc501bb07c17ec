// SPDX-License-Identifier: MIT OR Apache-2.0

//! Looks at a guest's monitors while the guest tries what it was promised.

use super::{capture, list};
use anyhow::Context;
use bellhop_guest::onlooker::{Onlooker, Seen};
use bellhop_protocol::screen::Connector;
use bellhop_rfb::Picture;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a frame of what is scanned out may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tool of a daemon that looks at the last guest of a socket.
#[derive(Debug)]
struct Tool {
    control: PathBuf,
    guest: PathBuf,
}

/// Who looks at the last guest of a socket, by the daemon's control socket.
#[must_use]
pub fn onlooker(control: &Path, guest: &Path) -> Arc<dyn Onlooker> {
    Arc::new(Tool { control: control.to_owned(), guest: guest.to_owned() })
}

impl Onlooker for Tool {
    fn look(&self, connector: u32) -> anyhow::Result<Option<Seen>> {
        let screens = list(&self.control)?;
        let own = screens.iter().filter(|screen| Path::new(&screen.socket) == self.guest);
        // Earlier guests may be about to end. All GPUs of a chain know the guest by one number.
        let guest = own.map(|screen| screen.guest).max();
        let guest = guest.with_context(|| format!("no display is {}'s", self.guest.display()))?;
        let screen =
            screens.iter().find(|screen| (screen.guest, screen.target) == (guest, connector));
        let screen = screen.with_context(|| format!("there is no connector {connector}"))?;
        if screen.mode.is_none() {
            return Ok(None);
        }
        let connector = Connector { guest, name: screen.name.clone() };
        let Picture { width, height, pixels } = capture(&self.control, &connector, PATIENCE)?;
        Ok(Some(Seen { width, height, pixels }))
    }
}
