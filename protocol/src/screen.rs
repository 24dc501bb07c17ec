// SPDX-License-Identifier: MIT OR Apache-2.0

//! What people see of guests' displays, and do to them: lines of JSON on a daemon's control socket.
//!
//! A client sends a [`ScreenRequest`] and gets a [`ScreenReply`]. After [`ScreenAction::View`] was answered, the
//! connection shows one connector until it ends: the daemon sends [`Shown`], the client [`Viewed`], whenever they like.
//!
//! With [`Shown::Buffers`] come two file descriptors (`SCM_RIGHTS`), of files in memory that hold a frame each: words
//! `0x00RRGGBB`, row by row without gaps. The daemon writes only into a buffer that the client does not hold. The
//! client holds a buffer from [`Shown::Frame`] until it gives the buffer back, so a slow client misses frames and delays
//! neither the guest nor other clients.

use crate::rect::Rect;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A line from a client to a control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScreenRequest {
    /// [`SNAPSHOT_VERSION`](crate::snapshot::SNAPSHOT_VERSION)
    pub version: u32,
    /// What the client wants.
    pub screen: ScreenAction,
}

/// What a client wants of guests' displays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScreenAction {
    /// All connectors of all guests.
    List,
    /// Plugs the monitor of a connector in, or unplugs it.
    Plug {
        /// Whose connector.
        connector: Connector,
        /// Whether the monitor is plugged in from now on.
        plugged: bool,
    },
    /// Shows a connector on this connection.
    View(Connector),
}

/// A guest's connector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connector {
    /// The guest; 0 if there is only one with displays.
    pub guest: u64,
    /// The connector's name; empty for the first one of which something is shown, or else the first.
    pub name: String,
}

/// The control socket's reply line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScreenReply {
    /// The connectors, by guest.
    Screens(Vec<Screen>),
    /// It is done; and, after [`ScreenAction::View`], [`Shown`] follows.
    Done,
    /// The request cannot be answered; one line says why.
    Error(String),
}

/// A connector of a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Screen {
    /// The guest.
    pub guest: u64,
    /// The socket that the guest's VMM connected to.
    pub socket: String,
    /// The connector's number.
    pub target: u32,
    /// The connector's name.
    pub name: String,
    /// Whether a monitor is plugged in.
    pub plugged: bool,
    /// What is scanned out there, if something is.
    pub mode: Option<ScreenMode>,
    /// Number of viewers.
    pub viewers: usize,
    /// How often the thread of the guest's displays has woken up.
    pub wakeups: u64,
}

/// What is scanned out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScreenMode {
    /// The source that is shown.
    pub source: u32,
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Frames in `refresh_denominator` seconds.
    pub refresh_numerator: u32,
    /// See `refresh_numerator`.
    pub refresh_denominator: u32,
}

/// What a daemon shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// Two buffers, whose descriptors come with this line. The client holds neither.
    Buffers {
        /// Pixels of a row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// A frame. The client holds its buffer.
    Frame {
        /// The buffer, 0 or 1.
        buffer: u32,
        /// The flip that is seen; 0 if nothing was flipped.
        flip: u64,
        /// The VSYNC that it was scanned out from, counted since the source was committed.
        vsync: u64,
        /// That VSYNC's time in nanoseconds, on the adapter's clock.
        time: u64,
        /// The row from which on `flip` is seen; above it, what was shown before. 0 for a whole frame.
        torn_at: u32,
        /// Outside of this part it is as the frame before, of whatever buffer.
        changed: Rect,
    },
    /// Nothing is shown, until buffers follow. Earlier buffers are gone.
    NoSignal,
}

/// What a client that views does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Viewed {
    /// It no longer holds a buffer.
    GiveBack(u32),
    /// Whether it wants frames from now on; it does at first. One that wants none costs the daemon nothing, and gets a
    /// frame when it wants them again.
    Watch(bool),
    /// It types or points.
    Input(Input),
}

/// What somebody who watches a screen does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// A key.
    Key {
        /// Its keysym of X11.
        keysym: u32,
        /// Whether it went down.
        down: bool,
    },
    /// The pointer is at a pixel of the target.
    Pointer {
        /// Pixels from the left.
        x: u32,
        /// Pixels from above.
        y: u32,
        /// Pressed buttons, as RFB numbers them.
        buttons: u16,
    },
}

/// Most keys that a viewer holds at once.
pub const MAX_HELD_KEYS: usize = 64;

/// The keys and buttons that a viewer holds down. When the viewer leaves, they must be released for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    keys: Vec<u32>,
    /// Where the pointer was last, with buttons that are pressed.
    pressed_at: Option<(u32, u32)>,
}

impl Held {
    /// Whether this key is down.
    #[must_use]
    pub fn has(&self, keysym: u32) -> bool {
        self.keys.contains(&keysym)
    }

    /// Follows what is done. Returns false for what has no effect: a key comes up that is not down, or one more is pressed
    /// than anybody holds.
    pub fn follow(&mut self, input: Input) -> bool {
        match input {
            Input::Key { keysym, down: true } => {
                let fits = self.has(keysym) || self.keys.len() < MAX_HELD_KEYS;
                if fits && !self.has(keysym) {
                    self.keys.push(keysym);
                }
                fits
            }
            Input::Key { keysym, down: false } => {
                let was_down = self.has(keysym);
                self.keys.retain(|key| *key != keysym);
                was_down
            }
            Input::Pointer { x, y, buttons } => {
                self.pressed_at = (buttons != 0).then_some((x, y));
                true
            }
        }
    }

    /// Lets go of everything. Returns what that is, as input.
    pub fn let_go(&mut self) -> Vec<Input> {
        let keys = core::mem::take(&mut self.keys).into_iter();
        let ups = keys.map(|keysym| Input::Key { keysym, down: false });
        let at = self.pressed_at.take();
        ups.chain(at.map(|(x, y)| Input::Pointer { x, y, buttons: 0 })).collect()
    }
}

/// Most bytes of a line of [`Viewed`] or [`Shown`].
pub const MAX_VIEW_LINE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keysym: u32, down: bool) -> Input {
        Input::Key { keysym, down }
    }

    #[test]
    fn who_leaves_lets_go_of_what_is_held_and_of_nothing_else() {
        let mut held = Held::default();
        let pressed = Input::Pointer { x: 3, y: 4, buttons: 1 };
        for input in [key(1, true), key(2, true), key(1, true), key(2, false), pressed] {
            assert!(held.follow(input), "{input:?}");
        }
        assert!(!held.follow(key(2, false)), "it is up already");
        assert_eq!(held.let_go(), [key(1, false), Input::Pointer { x: 3, y: 4, buttons: 0 }]);
        assert_eq!(held.let_go(), []);
        assert!(held.follow(pressed) && held.follow(Input::Pointer { x: 9, y: 9, buttons: 0 }));
        assert_eq!(held.let_go(), []);
    }

    #[test]
    fn parts_are_joined_and_cut() {
        let part = |left, top, right, bottom| Rect { left, top, right, bottom };
        let (one, other) = (part(1, 2, 5, 9), part(4, 8, 7, 10));
        assert_eq!((one.with(other), one.within(other)), (part(1, 2, 7, 10), part(4, 8, 5, 9)));
        assert_eq!((one.with(Rect::NONE), part(3, 9, 3, 11).with(one)), (one, one));
        assert!(one.within(part(5, 0, 9, 9)).is_empty() && !one.is_empty());
        assert_eq!((one.width(), one.height(), one.within(part(9, 9, 9, 9)).width()), (4, 7, 0));
    }

    #[test]
    fn nobody_holds_more_keys_than_are_remembered() {
        let mut held = Held::default();
        let taken = (0..1000).filter(|keysym| held.follow(key(*keysym, true))).count();
        assert_eq!((taken, held.let_go().len()), (MAX_HELD_KEYS, MAX_HELD_KEYS));
    }
}
