// SPDX-License-Identifier: MIT OR Apache-2.0

//! First inputs: each version, each message, each way of sending pixels.

use super::{Talk, play};
use crate::seeds::is_in_corpus;
use bellhop_rfb::RfbError;

/// A screen of 70 x 68 pixels, which is four tiles: without a password, and with one.
const OPEN: &[u8] = &[0, 69, 67];
const LOCKED: &[u8] = &[1, 69, 67];
/// Says hello in each version, and shares the screen.
const V3: &[u8] = b"RFB 003.003\n\x01";
const V7: &[u8] = b"RFB 003.007\n\x01\x01";
const V8: &[u8] = b"RFB 003.008\n\x01\x01";

const KNOWS_ZRLE: &[u8] = &[2, 0, 0, 1, 0, 0, 0, 16];
const FOLLOWS_SIZE: &[u8] = &[2, 0, 0, 2, 0, 0, 0, 16, 0xff, 0xff, 0xff, 0x21];
const ALL: &[u8] = &[3, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
const CHANGES: &[u8] = &[3, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
const CHANGES_BELOW: &[u8] = &[3, 1, 0, 10, 0, 60, 0, 20, 0, 20];
const OUTSIDE: &[u8] = &[3, 0, 1, 0, 1, 0, 0, 1, 0, 1];
const RESIZE: &[u8] = &[5, 255, 0, 29, 0, 69];
const TEXT: &[u8] = &[6, 0, 0, 0, 0, 0, 0, 2, b'h', b'i'];
/// Sixteen bits, most significant byte first; eight bits; thirty-two with the colours above.
const R5G6B5: &[u8] = &[0, 0, 0, 0, 16, 16, 1, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0];
const R3G3B2: &[u8] = &[0, 0, 0, 0, 8, 8, 0, 1, 0, 7, 0, 7, 0, 3, 0, 3, 6, 0, 0, 0];
const HIGH: &[u8] = &[0, 0, 0, 0, 32, 24, 1, 1, 0, 255, 0, 255, 0, 255, 24, 16, 8, 0, 0, 0];
const PALETTE: &[u8] = &[0, 0, 0, 0, 8, 8, 0, 0, 0, 7, 0, 7, 0, 3, 0, 3, 6, 0, 0, 0];
/// Thirty-two bits, of which red and blue have the same.
const SHARED: &[u8] = &[0, 0, 0, 0, 32, 24, 1, 1, 0, 255, 0, 255, 0, 255, 24, 16, 24, 0, 0, 0];

/// A key that draws with so many colours.
const fn draw(colours: u8) -> [u8; 8] {
    [4, 1, 0, 0, 0, colours, 7, colours - 1]
}

fn seed(name: &str, said: &[&[u8]]) -> Talk {
    let bytes = said.concat();
    is_in_corpus("viewer", name, &bytes);
    play(&bytes)
}

/// The viewer has left, after it was let in.
#[track_caller]
fn looks(name: &str, said: &[&[u8]]) -> Talk {
    let talk = seed(name, said);
    assert!(talk.is_let_in && matches!(talk.end, Some(RfbError::Io(_))), "{name}: {talk:?}");
    talk
}

#[test]
fn seeds_are_in_the_corpus_and_see_the_screen() {
    for (name, version) in [("version-3", V3), ("version-7", V7), ("version-8", V8)] {
        assert_eq!(looks(name, &[OPEN, version, ALL]).raw, 2, "two rows of tiles");
    }
    let kinds = [1, 2, 3, 5, 16, 17, 32].map(draw);
    let drawn: Vec<_> = kinds.iter().flat_map(|key| [ALL, key]).chain([ALL]).collect();
    for (name, format) in [("own", &[][..]), ("16", R5G6B5), ("8", R3G3B2), ("high", HIGH)] {
        let said = |encodings| [&[OPEN, V8, format, encodings], &*drawn].concat();
        assert!(looks(&format!("plain-{name}"), &said(&[])).raw > 8);
        assert!(looks(&format!("zrle-{name}"), &said(KNOWS_ZRLE)).zrle > 8);
    }
    let changes = [OPEN, V8, CHANGES, CHANGES, &draw(3), CHANGES_BELOW, &draw(9), CHANGES_BELOW];
    assert!(looks("changes", &changes).raw > 2);
    assert_eq!(looks("outside-of-the-screen", &[OPEN, V8, OUTSIDE, TEXT]).raw, 0);
    let resized = [OPEN, V8, FOLLOWS_SIZE, ALL, RESIZE, CHANGES, &draw(4), CHANGES];
    let talk = looks("another-size", &resized);
    assert_eq!(talk.sizes, 1);
    assert!(talk.zrle > 2);
}

#[test]
fn seeds_are_in_the_corpus_and_end_conversations() {
    let ends = |name: &str, said: &[&[u8]]| seed(name, said).end.unwrap();
    let guess = [LOCKED, b"RFB 003.008\n\x02aaaaaaaaaaaaaaaa\x01", ALL];
    assert!(matches!(ends("password-guessed", &guess), RfbError::Password));
    assert!(matches!(ends("password-left-out", &[LOCKED, V8]), RfbError::Security(1)));
    let http = [OPEN, b"GET / HTTP/1.1\r\n"];
    assert!(matches!(ends("another-protocol", &http), RfbError::Version));
    assert!(matches!(ends("unknown-message", &[OPEN, V8, &[7]]), RfbError::Message(7)));
    let encodings = [OPEN, V8, &[2, 0, 0xff, 0xff]];
    assert!(matches!(ends("too-many-encodings", &encodings), RfbError::TooLong(_)));
    let text = [OPEN, V8, &[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]];
    assert!(matches!(ends("too-much-text", &text), RfbError::TooLong(_)));
    assert!(matches!(ends("palette", &[OPEN, V8, PALETTE]), RfbError::PixelFormat));
    let shared = [OPEN, V8, SHARED, &draw(3), ALL];
    assert!(matches!(ends("colours-that-share-bits", &shared), RfbError::PixelFormat));
    let stays = [OPEN, V8, ALL, RESIZE, CHANGES];
    assert!(matches!(ends("another-size-unknown", &stays), RfbError::Size));
}
