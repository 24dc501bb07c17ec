// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "an allocator that counts, for this program alone")]
#![allow(clippy::disallowed_methods, reason = "tests wait for what they test")]

//! What a stream leaves behind in the memory of its decoder's process: nothing.

use bellhop_codec::{Decoder, Encoder, EncoderSettings, Layout, Picture, Rate, start_threads};
use std::alloc::{GlobalAlloc, Layout as Room, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread that are not freed. The test's harness allocates on another.
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

fn count(change: i64) {
    LIVE.set(LIVE.get() + change);
}

struct Counts;

// SAFETY: the system's allocator does everything; a count beside it changes nothing.
unsafe impl GlobalAlloc for Counts {
    unsafe fn alloc(&self, room: Room) -> *mut u8 {
        count(1);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(room) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, room: Room) {
        count(-1);
        // SAFETY: as above; the pointer is from `alloc`.
        unsafe { System.dealloc(pointer, room) };
    }
}

#[global_allocator]
static ALLOCATOR: Counts = Counts;

const SIZE: [u32; 2] = [64, 48];

/// A stream of grey pictures.
fn stream() -> Vec<Vec<u8>> {
    start_threads(1).unwrap();
    let settings = EncoderSettings {
        size: SIZE,
        bit_depth: 8,
        frame_rate: [25, 1],
        rate: Rate::Quantizer(60),
        speed: 10,
        key_frame_interval: 3,
        tiles: 1,
    };
    let mut encoder = Encoder::new(&settings).unwrap();
    let mut units = Vec::new();
    for number in 0..6_u8 {
        let planes = [64 * 48, 32 * 24, 32 * 24].map(|length| vec![90 + number; length]);
        let (layout, time) = (Layout::I420, number.into());
        let picture = Picture { size: SIZE, bit_depth: 8, layout, planes, time, bytes: 0 };
        assert!(encoder.send(&picture, false));
        units.extend(std::iter::from_fn(|| encoder.encoded().unwrap()));
    }
    encoder.end();
    units.extend(std::iter::from_fn(|| encoder.encoded().unwrap()));
    units.into_iter().map(|unit| unit.data).collect()
}

/// Decodes these units with one decoder, and returns how many pictures there were.
fn decode(units: &[Vec<u8>]) -> usize {
    let mut decoder = Decoder::new(SIZE[0] * SIZE[1]).unwrap();
    let mut pictures = 0;
    for unit in units {
        // A broken unit is an error of `send` or of `picture`.
        let _ = decoder.send(unit, 0);
        while let Ok(Some(_)) = decoder.picture() {
            pictures += 1;
        }
    }
    decoder.flush();
    pictures
}

#[test]
fn a_stream_whole_or_broken_leaves_nothing_behind() {
    let right = stream();
    let mut broken = right.clone();
    let length = broken[1].len();
    broken[1].truncate(length / 2);
    broken[3] = vec![0xFF; 40];
    // What the decoder's library makes once for the process.
    assert_eq!(decode(&right), 6);
    for (units, pictures) in [(&right, 6..7), (&broken, 1..6)] {
        let before = LIVE.get();
        assert!(pictures.contains(&decode(units)));
        let after = LIVE.get();
        assert_eq!(after, before, "allocations of a stream that has ended");
    }
}
