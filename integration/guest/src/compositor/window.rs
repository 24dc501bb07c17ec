// SPDX-License-Identifier: MIT OR Apache-2.0

//! A window of a program, as its screen has it.

use crate::listener::Peer;
use bellhop_guest_umd::display::{Primary, Surface};
use bellhop_protocol::compositor::{FromCompositor, Said};
use bellhop_protocol::rect::Rect;
use rustix::net::{SendFlags, send};
use std::fmt;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use zerocopy::IntoBytes;

/// Pixels between two windows that would be at one place.
const STEP: u32 = 32;

/// What a screen hears of a program.
pub(super) enum Event {
    /// It has a window.
    Opened(Window),
    /// A picture of this window is drawn, and perhaps the program shows it already.
    Drawn { window: u64, picture: Picture, is_shown: bool },
    /// The window is no more.
    Closed(u64),
}

/// A picture of a program's.
#[derive(Clone)]
pub(super) struct Picture {
    pub(super) number: u32,
    pub(super) primary: Arc<Primary>,
}

/// How often a window's pictures were shown, in which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) composed: u64,
    pub(super) direct: u64,
    pub(super) independent: u64,
    /// Bytes that were copied.
    pub(super) copied: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { composed, direct, independent, copied } = self;
        write!(
            f,
            "{composed} composed, {direct} by DirectFlip, {independent} by IndependentFlip, {copied} bytes copied"
        )
    }
}

/// A window.
pub(super) struct Window {
    pub(super) number: u64,
    peer: Peer,
    program: UnixStream,
    /// Has the reader read on.
    taken: Sender<()>,
    /// The program's process, by its word.
    pub(super) process: u32,
    pub(super) surface: Surface,
    /// The last picture; until there is one, the window is not seen.
    pub(super) picture: Option<Picture>,
    /// Whether the program waits for it to be shown.
    pub(super) waits: bool,
    pub(super) is_closed: bool,
    pub(super) counts: Counts,
}

impl Window {
    pub(super) fn new(
        number: u64,
        peer: Peer,
        (program, taken): (UnixStream, Sender<()>),
        process: u32,
        surface: Surface,
    ) -> Self {
        let counts = Counts::default();
        let (picture, waits, is_closed) = (None, false, false);
        Self { number, peer, program, taken, process, surface, picture, waits, is_closed, counts }
    }

    /// Takes a picture, which the program perhaps shows already.
    pub(super) fn take(&mut self, picture: Picture, is_shown: bool) {
        self.picture = Some(picture);
        if is_shown {
            self.counts.independent += 1;
        } else {
            self.waits = true;
        }
        // Without a reader the window is about to be closed.
        let _ = self.taken.send(());
    }

    /// The picture that is seen.
    pub(super) fn seen(&self) -> Option<&Picture> {
        self.picture.as_ref().filter(|_| !self.is_closed)
    }

    /// Whether it covers a surface.
    pub(super) fn covers(&self, surface: Surface) -> bool {
        self.surface == surface
    }

    /// Where it is on a surface, as its window of this number: in the middle, or a step beside the one before.
    pub(super) fn place(&self, on: Surface) -> Rect {
        let step = (self.number % 64) as u32 * STEP;
        let along = |most: u32, own: u32| {
            let room = most - own.min(most);
            (room / 2 + step) % (room + 1)
        };
        let Surface { width, height, .. } = self.surface;
        let (left, top) = (along(on.width, width), along(on.height, height));
        Rect::new(left, top, left + width, top + height)
    }

    /// Says something to the program. One that leaves too much unread loses its window: nobody waits for it.
    pub(super) fn say(&self, kind: FromCompositor, number: u32) {
        let said = Said { kind, number };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = send(&self.program, said.as_bytes(), flags);
        if sent != Ok(size_of::<Said>()) {
            // It may have gone.
            let _ = self.program.shutdown(Shutdown::Both);
        }
    }

    /// Tells the program that its picture is shown, if it waits for that.
    pub(super) fn answer(&mut self) {
        if let Some(picture) = self.picture.as_ref().filter(|_| std::mem::take(&mut self.waits)) {
            self.say(FromCompositor::SHOWN, picture.number);
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, surface: Surface { width, height, .. }, counts, .. } = self;
        write!(f, "a window of {peer}, {width}x{height}: {counts}")
    }
}
