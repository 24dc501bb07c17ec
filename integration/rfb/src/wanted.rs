// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a viewer has asked for and has not been sent.

use super::{Encoder, Message, PixelFormat, Rectangle};

/// A viewer's requests that wait. However many it sends, it is one of each kind: the latest, which counts.
#[derive(Debug, Default)]
pub struct Wanted {
    request: Option<(Rectangle, bool)>,
    format: Option<PixelFormat>,
    encodings: Option<Vec<i32>>,
}

impl Wanted {
    /// Adds a message. Gives back one that is no request: what a person did.
    pub fn add(&mut self, message: Message) -> Option<Message> {
        match message {
            // All of the screen, once asked for, stays asked for.
            Message::Request { incremental, part } => {
                let whole = self.request.is_some_and(|(_, incremental)| !incremental);
                self.request = Some((part, incremental && !whole));
            }
            Message::PixelFormat(format) => self.format = Some(format),
            Message::Encodings(encodings) => self.encodings = Some(encodings),
            other => return Some(other),
        }
        None
    }

    /// Tells the encoder how the viewer wants pixels. Takes the part that it wants, and whether only what changed
    /// there, if there may be something to send: the screen has changed since the last update, or all is wanted.
    pub fn take(&mut self, encoder: &mut Encoder, is_changed: bool) -> Option<(Rectangle, bool)> {
        if let Some(format) = self.format.take() {
            encoder.format = format;
        }
        if let Some(encodings) = self.encodings.take() {
            encoder.set_encodings(&encodings);
        }
        self.request.take_if(|(_, incremental)| !*incremental || is_changed)
    }

    /// Nothing had changed in the part that was taken: it waits on, unless the viewer has asked for another meanwhile.
    pub fn keep(&mut self, part: Rectangle) {
        self.request.get_or_insert((part, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Rectangle = Rectangle { x: 0, y: 0, width: 8, height: 8 };
    const OTHER: Rectangle = Rectangle { x: 1, ..PART };

    fn request(part: Rectangle, incremental: bool) -> Message {
        Message::Request { incremental, part }
    }

    #[test]
    fn a_request_waits_for_a_change_and_the_latest_counts() {
        let (mut wanted, mut encoder) = (Wanted::default(), Encoder::new(8, 8));
        assert_eq!(wanted.take(&mut encoder, true), None);
        assert_eq!(wanted.add(request(PART, true)), None);
        assert_eq!(wanted.add(request(OTHER, true)), None);
        assert_eq!(wanted.take(&mut encoder, false), None);
        assert_eq!(wanted.take(&mut encoder, true), Some((OTHER, true)));
        assert_eq!(wanted.take(&mut encoder, true), None);
        wanted.keep(OTHER);
        wanted.add(request(PART, true));
        wanted.keep(OTHER);
        assert_eq!(wanted.take(&mut encoder, true), Some((PART, true)));
    }

    #[test]
    fn all_of_the_screen_is_sent_though_nothing_changed() {
        let (mut wanted, mut encoder) = (Wanted::default(), Encoder::new(8, 8));
        wanted.add(request(PART, false));
        wanted.add(request(OTHER, true));
        assert_eq!(wanted.take(&mut encoder, false), Some((OTHER, false)));
    }

    #[test]
    fn what_a_person_does_is_given_back() {
        let key = Message::Key { down: true, keysym: 0x61 };
        assert_eq!(Wanted::default().add(key.clone()), Some(key));
    }
}
