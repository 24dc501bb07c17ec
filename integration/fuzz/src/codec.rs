// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's AV1 stream, broken anywhere, for the decoder that workers have.

mod ivf;
#[cfg(test)]
mod seeds;

pub use ivf::ivf;

use crate::actions;
use arbitrary::Arbitrary;
use bellhop_codec::{Decoder, Encoder, EncoderSettings, Layout, Picture, Rate, start_threads};
use std::sync::OnceLock;

/// Width and height of the pictures of the stream that is right.
const SIZE: [u32; 2] = [32, 16];
/// Most samples of a picture that decoders take: more than the right stream has, so that broken headers may ask for more.
const MOST_SAMPLES: u32 = 64 * 64;
/// Most pictures of a temporal unit: one for each of 32 operating points.
const MOST_PICTURES: usize = 32;
/// Temporal units of the right stream.
const UNITS: i64 = 4;
/// Most actions of one input.
const MOST: usize = 24;

/// What a guest gives its decoder.
#[derive(Debug, Arbitrary)]
enum Action {
    /// A temporal unit of the right stream, with changed bytes: where, and to what. Then so many of its bytes, of 65,536.
    Unit { number: u8, changes: [(u16, u8); 3], length: u16 },
    /// Anything.
    Bytes(Vec<u8>),
    /// Forgets the stream.
    Flush,
}

/// Decodes what a guest makes of a stream. No picture is larger than the decoder's limit or than its planes, and a stream
/// that begins anew is decoded right whatever came before it.
pub fn codec(data: &[u8]) {
    let right = right();
    let mut decoder = Decoder::new(MOST_SAMPLES).expect("there is memory for a decoder");
    for action in actions::<Action>(data, MOST) {
        match action {
            Action::Unit { number, changes, length } => {
                let unit = &right.units[usize::from(number) % right.units.len()];
                let mut unit = unit.clone();
                for (at, byte) in changes {
                    let at = usize::from(at) % unit.len();
                    unit[at] ^= byte;
                }
                let length = (unit.len() * (usize::from(length) + 1)).div_ceil(1 << 16);
                unit.truncate(length);
                decode(&mut decoder, &unit);
            }
            Action::Bytes(bytes) => {
                decode(&mut decoder, &bytes);
            }
            Action::Flush => decoder.flush(),
        }
    }
    decoder.flush();
    for (unit, picture) in right.units.iter().zip(&right.pictures) {
        assert_eq!(decode(&mut decoder, unit), std::slice::from_ref(picture));
    }
}

/// The pictures that come of data, before the first that is wrong.
fn decode(decoder: &mut Decoder, data: &[u8]) -> Vec<Picture> {
    let mut pictures = Vec::new();
    let mut sent = decoder.send(data, 0);
    loop {
        while let Ok(Some(picture)) = decoder.picture() {
            check(&picture);
            pictures.push(picture);
            assert!(pictures.len() <= 2 * MOST_PICTURES, "pictures without end");
        }
        // It had pictures to give first.
        if sent != Ok(false) {
            return pictures;
        }
        sent = decoder.send(data, 0);
        assert_ne!(sent, Ok(false), "a decoder without pictures takes no data");
    }
}

fn check(picture: &Picture) {
    let [width, height] = picture.size;
    assert!(width > 0 && height > 0 && width * height <= MOST_SAMPLES, "{:?}", picture.size);
    let sample = if picture.bit_depth > 8 { 2 } else { 1 };
    let chroma = picture.layout.chroma(picture.size);
    for (plane, [width, height]) in picture.planes.iter().zip([picture.size, chroma, chroma]) {
        assert_eq!(plane.len(), (width * height * sample) as usize);
    }
}

/// A stream, and its pictures.
struct Right {
    units: Vec<Vec<u8>>,
    pictures: Vec<Picture>,
}

/// The stream that is right, encoded once. Its first unit is a key frame, the others are not.
fn right() -> &'static Right {
    static RIGHT: OnceLock<Right> = OnceLock::new();
    RIGHT.get_or_init(|| {
        start_threads(1).expect("Linux allows a thread");
        let settings = EncoderSettings {
            size: SIZE,
            bit_depth: 8,
            frame_rate: [25, 1],
            rate: Rate::Quantizer(60),
            speed: 10,
            key_frame_interval: 0,
            tiles: 1,
        };
        let mut encoder = Encoder::new(&settings).expect("the settings are right");
        let mut units = Vec::new();
        for number in 0..UNITS {
            assert!(encoder.send(&gradient(number), false));
            units.extend(std::iter::from_fn(|| encoder.encoded().expect("it encodes")));
        }
        encoder.end();
        units.extend(std::iter::from_fn(|| encoder.encoded().expect("it encodes")));
        let units: Vec<Vec<u8>> = units.into_iter().map(|unit| unit.data).collect();
        let mut decoder = Decoder::new(MOST_SAMPLES).expect("there is memory for a decoder");
        let pictures: Vec<_> = units.iter().flat_map(|unit| decode(&mut decoder, unit)).collect();
        assert_eq!((units.len(), pictures.len()), (UNITS as usize, UNITS as usize));
        Right { units, pictures }
    })
}

/// A gradient that moves with its number.
fn gradient(number: i64) -> Picture {
    let plane = |[width, height]: [u32; 2]| {
        let row = move |y: u32| (0..width).map(move |x| (x * 2 + y + number as u32 * 3) as u8);
        (0..height).flat_map(row).collect()
    };
    let chroma = Layout::I420.chroma(SIZE);
    let planes = [SIZE, chroma, chroma].map(plane);
    Picture { size: SIZE, bit_depth: 8, layout: Layout::I420, planes, time: number, bytes: 0 }
}
