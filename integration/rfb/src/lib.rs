// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! The protocol of VNC viewers, from the server's side: RFB 3.3, 3.7 and 3.8.
//!
//! What a viewer sends is not trusted: each message is of bounded length and read whole before it is used, and what is
//! not known ends the connection.
//!
//! Source: RFC 6143.

mod auth;
mod encode;
mod error;
mod handshake;
mod messages;
mod picture;
mod pixel_format;
mod wanted;

pub use auth::Password;
pub use encode::{DESKTOP_SIZE, Encoder, RAW, ZRLE};
pub use error::RfbError;
pub use handshake::{Hello, shake_hands};
pub use messages::{Message, Rectangle, read_message};
pub use picture::Picture;
pub use pixel_format::PixelFormat;
pub use wanted::Wanted;
