// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's window on a monitor that a compositor has.
//!
//! Source: Windows KMD overview, "Flip/Present" ("DirectFlip", "IndependentFlip").

use super::error::DisplayError;
use super::flip::Flip;
use super::object::Display;
use super::primary::{Primary, Surface};
use bellhop_protocol::compositor::{
    FromCompositor, FromProgram, Said, Told, USUAL_SOCKET, WINDOW_MAGIC, Window as Wanted,
};
use bellhop_protocol::control::fence::NtHandle;
use bellhop_protocol::event::FlipOutcome;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

/// The variable that names the socket of the guest's compositor.
pub const COMPOSITOR_VARIABLE: &str = "BELLHOP_COMPOSITOR";
/// The longest that a compositor, or a flip, may take: far longer than the slowest monitor scans.
const LONGEST: Duration = Duration::from_secs(10);

/// Where the guest's compositor listens: what [`COMPOSITOR_VARIABLE`] says, or the usual socket if it is there.
#[must_use]
pub fn compositor() -> Option<PathBuf> {
    let chosen = std::env::var_os(COMPOSITOR_VARIABLE).filter(|value| !value.is_empty());
    let usual = || Some(PathBuf::from(USUAL_SOCKET)).filter(|path| path.exists());
    chosen.map(PathBuf::from).or_else(usual)
}

/// A window, whose pictures are shared primaries ([`Device::create_shared_primary`](crate::Device::create_shared_primary)).
/// Where they are shown, and whether by copies or flips, is the compositor's decision.
pub struct Window {
    compositor: UnixStream,
    display: Display,
    /// The source that the program may flip itself.
    lent: Option<u32>,
    names: BTreeMap<u32, NtHandle>,
}

impl Display {
    /// Asks the compositor at a socket for a window of a surface's size, on the monitor of a connector.
    ///
    /// # Errors
    /// [`DisplayError::Compositor`]
    pub fn window(
        &self,
        socket: &Path,
        connector: u32,
        surface: Surface,
    ) -> Result<Window, DisplayError> {
        let Surface { width, height, .. } = surface;
        let process = self.session().process();
        let wanted = Wanted { magic: WINDOW_MAGIC, process, connector, width, height };
        let ask = || {
            let mut compositor = UnixStream::connect(socket)?;
            compositor.set_read_timeout(Some(LONGEST))?;
            compositor.set_write_timeout(Some(LONGEST))?;
            compositor.write_all(wanted.as_bytes())?;
            Ok(compositor)
        };
        let compositor = ask().map_err(DisplayError::Compositor)?;
        Ok(Window { compositor, display: self.clone(), lent: None, names: BTreeMap::new() })
    }
}

impl Window {
    /// Shows a picture of this number, which has been drawn. When this returns, it is on the screen, and the one before it may be
    /// drawn to again. The picture of a number is always the same. Where the program flips itself, the picture may be torn.
    ///
    /// # Errors
    /// [`DisplayError::Compositor`] when the compositor has ended or refuses the window.
    pub fn show(
        &mut self,
        number: u32,
        picture: &Primary,
        tears: bool,
    ) -> Result<(), DisplayError> {
        let name = match self.names.get(&number) {
            Some(name) => *name,
            None => *self.names.entry(number).or_insert(picture.allocation().share()?),
        };
        let flipped = self.flip(picture, tears)?;
        let kind = if flipped { FromProgram::FLIPPED } else { FromProgram::SHOW };
        let told = Told { kind, picture: number, name };
        self.compositor.write_all(told.as_bytes()).map_err(DisplayError::Compositor)?;
        if flipped { Ok(()) } else { self.await_shown(number) }
    }

    /// Flips to a picture, if the compositor has lent its source. Returns whether it is shown.
    fn flip(&mut self, picture: &Primary, tears: bool) -> Result<bool, DisplayError> {
        let Some(source) = self.lent else { return Ok(false) };
        let flip = Flip::to(picture);
        let flip = if tears { flip.immediate() } else { flip };
        let shown = self.display.flip(source, flip);
        let ended = shown.and_then(|flip| self.display.wait_for_flip(source, flip, LONGEST));
        let is_shown = match ended {
            Ok(ended) => ended.outcome == FlipOutcome::SHOWN,
            // The compositor has taken the source back.
            Err(DisplayError::NotInTopology { .. }) => false,
            Err(error) => return Err(error),
        };
        if !is_shown {
            self.lent = None;
        }
        Ok(is_shown)
    }

    fn await_shown(&mut self, picture: u32) -> Result<(), DisplayError> {
        loop {
            let mut said = Said::new_zeroed();
            let read = self.compositor.read_exact(said.as_mut_bytes());
            read.map_err(DisplayError::Compositor)?;
            match said {
                Said { kind: FromCompositor::SHOWN, number } if number == picture => return Ok(()),
                Said { kind: FromCompositor::LENT, number } => self.lent = Some(number),
                _ => {}
            }
        }
    }
}
