// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a person sees of guests' displays, and does to them: lines of JSON on a daemon's control socket.
//!
//! A client sends a [`ScreenRequest`] and gets a [`ScreenReply`]. After [`ScreenAction::View`] was answered, the
//! connection shows one connector until it ends: the daemon sends [`Shown`], the client [`Viewed`], whenever they like.
//!
//! With [`Shown::Buffers`] come two file descriptors (`SCM_RIGHTS`), of files in memory that hold a frame each: words
//! `0x00RRGGBB`, row by row without gaps. The daemon writes only into a buffer that the client does not hold. The
//! client holds a buffer from [`Shown::Frame`] until it gives the buffer back, so a client that is slow misses frames
//! and nobody waits for it.

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

/// Most bytes of a line of [`Viewed`] or [`Shown`].
pub const MAX_VIEW_LINE: usize = 256;
