// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a viewer sends. Source: RFC 6143, section 7.5.

use super::pixel_format::SIZE;
use super::{PixelFormat, RfbError};
use std::io::{self, Read};

/// Most encodings that a viewer names: there are far fewer.
const ENCODINGS: u16 = 1024;
/// Most bytes of text that it pastes. The text is read and dropped.
const CUT_TEXT: u32 = 1 << 20;

/// A part of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rectangle {
    /// From the left.
    pub x: u16,
    /// From above.
    pub y: u16,
    /// Pixels of a row.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

impl Rectangle {
    /// All of a screen, whatever its size.
    pub const ALL: Self = Self { x: 0, y: 0, width: u16::MAX, height: u16::MAX };
    /// Nothing.
    pub const NONE: Self = Self { x: 0, y: 0, width: 0, height: 0 };

    /// The column behind its last, and the row below its last.
    const fn end(self) -> (u16, u16) {
        (self.x.saturating_add(self.width), self.y.saturating_add(self.height))
    }

    /// Whether a pixel is in both.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        let ((right, bottom), (of_right, of_bottom)) = (self.end(), other.end());
        self.x.max(other.x) < right.min(of_right) && self.y.max(other.y) < bottom.min(of_bottom)
    }

    /// The least rectangle that has both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        if self.width == 0 || self.height == 0 {
            return other;
        }
        if other.width == 0 || other.height == 0 {
            return self;
        }
        let ((right, bottom), (of_right, of_bottom)) = (self.end(), other.end());
        let (x, y) = (self.x.min(other.x), self.y.min(other.y));
        Self { x, y, width: right.max(of_right) - x, height: bottom.max(of_bottom) - y }
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// How it wants pixels.
    PixelFormat(PixelFormat),
    /// Which encodings it knows.
    Encodings(Vec<i32>),
    /// It wants pixels: all of a part, or what has changed there.
    Request {
        /// Only what has changed.
        incremental: bool,
        /// The part.
        part: Rectangle,
    },
    /// A key.
    Key {
        /// Whether it went down.
        down: bool,
        /// Its keysym of X11.
        keysym: u32,
    },
    /// The pointer.
    Pointer {
        /// Pressed buttons.
        buttons: u8,
        /// From the left.
        x: u16,
        /// From above.
        y: u16,
    },
    /// Text that it pastes.
    CutText,
}

fn bytes<const N: usize>(from: &mut impl Read) -> Result<[u8; N], RfbError> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads the next message.
///
/// # Errors
/// If the viewer has disconnected, or sent what is no message.
pub fn read_message(from: &mut impl Read) -> Result<Message, RfbError> {
    let two = |high, low| u16::from_be_bytes([high, low]);
    Ok(match bytes::<1>(from)? {
        [0] => {
            let [_, _, _, format @ ..]: [u8; 3 + SIZE] = bytes(from)?;
            Message::PixelFormat(PixelFormat::parse(&format)?)
        }
        [2] => {
            let [_, high, low] = bytes(from)?;
            let count = two(high, low);
            if count > ENCODINGS {
                return Err(RfbError::TooLong(4 * u64::from(count)));
            }
            let encodings = (0..count).map(|_| bytes(from).map(i32::from_be_bytes));
            Message::Encodings(encodings.collect::<Result<_, _>>()?)
        }
        [3] => {
            let [incremental, x0, x1, y0, y1, w0, w1, h0, h1] = bytes(from)?;
            let part = Rectangle {
                x: two(x0, x1),
                y: two(y0, y1),
                width: two(w0, w1),
                height: two(h0, h1),
            };
            Message::Request { incremental: incremental != 0, part }
        }
        [4] => {
            let [down, _, _, keysym @ ..]: [u8; 7] = bytes(from)?;
            Message::Key { down: down != 0, keysym: u32::from_be_bytes(keysym) }
        }
        [5] => {
            let [buttons, x0, x1, y0, y1] = bytes(from)?;
            Message::Pointer { buttons, x: two(x0, x1), y: two(y0, y1) }
        }
        [6] => {
            let [_, _, _, length @ ..]: [u8; 7] = bytes(from)?;
            let length = u32::from_be_bytes(length);
            if length > CUT_TEXT {
                return Err(RfbError::TooLong(length.into()));
            }
            let read = io::copy(&mut from.take(length.into()), &mut io::sink())?;
            if read < u64::from(length) {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            Message::CutText
        }
        [other] => return Err(RfbError::Message(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Result<Message, RfbError>, usize) {
        let mut rest = bytes;
        let message = read_message(&mut rest);
        (message, rest.len())
    }

    #[test]
    fn messages_are_read_whole_and_no_byte_more() {
        let request = [3, 1, 0, 1, 0, 2, 1, 0, 2, 0, 9];
        let part = Rectangle { x: 1, y: 2, width: 256, height: 512 };
        let (message, rest) = read(&request);
        assert_eq!((message.unwrap(), rest), (Message::Request { incremental: true, part }, 1));
        let (message, rest) = read(&[2, 0, 0, 2, 0, 0, 0, 16, 0xff, 0xff, 0xff, 0x21, 4]);
        assert_eq!((message.unwrap(), rest), (Message::Encodings(vec![16, -223]), 1));
        let (message, _) = read(&[4, 1, 0, 0, 0, 0, 0xff, 0x0d]);
        assert_eq!(message.unwrap(), Message::Key { down: true, keysym: 0xff0d });
        let (message, _) = read(&[5, 1, 0, 7, 1, 0]);
        assert_eq!(message.unwrap(), Message::Pointer { buttons: 1, x: 7, y: 256 });
        let (message, rest) = read(&[6, 0, 0, 0, 0, 0, 0, 2, b'h', b'i', 3]);
        assert_eq!((message.unwrap(), rest), (Message::CutText, 1));
    }

    #[test]
    fn what_is_no_message_ends_the_connection() {
        assert!(matches!(read(&[1]).0, Err(RfbError::Message(1))));
        assert!(matches!(read(&[2, 0, 0xff, 0xff]).0, Err(RfbError::TooLong(262_140))));
        assert!(matches!(read(&[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).0, Err(RfbError::TooLong(_))));
        assert!(matches!(read(&[6, 0, 0, 0, 0, 0, 0, 2, b'h']).0, Err(RfbError::Io(_))));
        assert!(matches!(read(&[]).0, Err(RfbError::Io(_))));
    }
}
