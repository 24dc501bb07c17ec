// SPDX-License-Identifier: MIT OR Apache-2.0

//! Between a program of a guest and the compositor that has the guest's monitors, over a Unix stream socket.
//!
//! The program says what it wants to show ([`Window`]), and then one [`FromProgram`] after another. A picture is a shared primary:
//! the compositor opens it by its name, and copies it or flips to it. Every picture that is told with [`FromProgram::SHOW`] is
//! answered with [`FromCompositor::SHOWN`] when it is on the screen; the picture before it is then the program's again.
//!
//! While the program may flip the source itself ([`FromCompositor::LENT`]: IndependentFlip), it does, and tells with
//! [`FromProgram::FLIPPED`] what it shows. The device refuses its flips when the compositor has taken the source back: then it goes
//! on with [`FromProgram::SHOW`].

use crate::control::fence::NtHandle;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where a guest's compositor listens, unless its user chooses.
pub const USUAL_SOCKET: &str = "/run/bellhop/compositor.sock";

/// First bytes of [`Window`], `"BLHPwind"`.
pub const WINDOW_MAGIC: u64 = u64::from_le_bytes(*b"BLHPwind");

/// Most pictures of a window.
pub const MOST_PICTURES: u32 = 16;

/// What a program says first: what it wants to show. Pixels are of the format `X8R8G8B8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Window {
    /// [`WINDOW_MAGIC`].
    pub magic: u64,
    /// The program's process on the device, which may be lent the source.
    pub process: u32,
    /// The connector of the monitor.
    pub connector: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}
crate::assert_layout!(Window, 24, magic at 0, process at 8, connector at 12, width at 16, height at 20);

open_enum! {
    /// What a program tells.
    pub struct FromProgram: u32 {
        /// A picture is drawn, and shall be shown.
        SHOW = 1;
        /// The program has flipped to a picture itself. There is no answer.
        FLIPPED = 2;
    }
}

/// A message of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Told {
    /// What it tells.
    pub kind: FromProgram,
    /// Number of the picture, less than [`MOST_PICTURES`].
    pub picture: u32,
    /// Name of its allocation, the same each time.
    pub name: NtHandle,
}
crate::assert_layout!(Told, 16, kind at 0, picture at 4, name at 8);

open_enum! {
    /// What a compositor says.
    pub struct FromCompositor: u32 {
        /// The picture of this number is shown.
        SHOWN = 1;
        /// The program may flip the source of this number.
        LENT = 2;
    }
}

/// A message of a compositor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Said {
    /// What it says.
    pub kind: FromCompositor,
    /// A picture, or a source.
    pub number: u32,
}
crate::assert_layout!(Said, 8, kind at 0, number at 4);
