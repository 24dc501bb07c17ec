// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::disallowed_methods, reason = "tests wait for what they test")]

//! What is encoded can be decoded, and what is not AV1 is refused. That the pictures are dav1d's is a test of the whole.

use bellhop_codec::{
    DecodeError, Decoder, Encoded, Encoder, EncoderSettings, Layout, Picture, Rate, start_threads,
};

const SIZE: [u32; 2] = [64, 48];

fn settings(bit_depth: u32) -> EncoderSettings {
    EncoderSettings {
        size: SIZE,
        bit_depth,
        frame_rate: [25, 1],
        rate: Rate::Quantizer(40),
        speed: 10,
        key_frame_interval: 4,
        tiles: 1,
    }
}

/// A gradient that moves with its number.
fn picture(number: i64, bit_depth: u32) -> Picture {
    let planes = [SIZE, [32, 24], [32, 24]].map(|[width, height]| {
        let samples = (0..height).flat_map(|y| (0..width).map(move |x| x * 2 + y + number as u32));
        samples
            .flat_map(|sample| {
                let sample = (sample % 200 + 20) << (bit_depth - 8);
                sample.to_le_bytes().into_iter().take(if bit_depth > 8 { 2 } else { 1 })
            })
            .collect()
    });
    Picture { size: SIZE, bit_depth, layout: Layout::I420, planes, time: 100 + number, bytes: 0 }
}

fn encode(bit_depth: u32, count: i64) -> Vec<Encoded> {
    start_threads(1).unwrap();
    let mut encoder = Encoder::new(&settings(bit_depth)).unwrap();
    let mut units = Vec::new();
    for number in 0..count {
        assert!(encoder.send(&picture(number, bit_depth), false));
        units.extend(std::iter::from_fn(|| encoder.encoded().unwrap()));
    }
    encoder.end();
    units.extend(std::iter::from_fn(|| encoder.encoded().unwrap()));
    units
}

fn decode(units: &[Encoded], max_samples: u32) -> Vec<Result<Picture, DecodeError>> {
    decode_with(Decoder::new(max_samples).unwrap(), units)
}

fn decode_with(mut decoder: Decoder, units: &[Encoded]) -> Vec<Result<Picture, DecodeError>> {
    let mut pictures = Vec::new();
    for unit in units {
        match decoder.send(&unit.data, unit.time) {
            Ok(taken) => assert!(taken),
            Err(error) => pictures.push(Err(error)),
        }
        loop {
            match decoder.picture() {
                Ok(None) => break,
                Ok(Some(picture)) => pictures.push(Ok(picture)),
                Err(error) => {
                    pictures.push(Err(error));
                    break;
                }
            }
        }
    }
    pictures
}

#[test]
fn pictures_come_back_in_their_order_with_their_times_and_nearly_as_they_were() {
    for bit_depth in [8, 10] {
        let units = encode(bit_depth, 6);
        assert_eq!(
            units.iter().map(|unit| unit.time).collect::<Vec<_>>(),
            [100, 101, 102, 103, 104, 105]
        );
        // A key frame at the beginning, and at least each fourth picture.
        let keys: Vec<_> = units.iter().map(|unit| unit.is_key).collect();
        assert_eq!(keys, [true, false, false, false, true, false]);
        let pictures = decode(&units, SIZE[0] * SIZE[1]);
        assert_eq!(pictures.len(), 6);
        for (decoded, number) in pictures.iter().zip(0..) {
            let (decoded, sent) = (decoded.as_ref().unwrap(), picture(number, bit_depth));
            assert_eq!((decoded.size, decoded.bit_depth), (SIZE, bit_depth));
            assert_eq!((decoded.layout, decoded.time), (Layout::I420, 100 + number));
            let luma = decoded.planes[0].chunks(if bit_depth > 8 { 2 } else { 1 });
            let value = |bytes: &[u8]| {
                bytes.iter().rev().fold(0_i64, |all, byte| all << 8 | i64::from(*byte))
            };
            let sent = sent.planes[0].chunks(if bit_depth > 8 { 2 } else { 1 });
            let error: i64 =
                luma.zip(sent).map(|(one, other)| (value(one) - value(other)).abs()).sum();
            assert!(error >> (bit_depth - 8) < 3 * 64 * 48, "picture {number} differs by {error}");
        }
    }
}

#[test]
fn threads_change_no_picture_and_delay_none() {
    for bit_depth in [8, 10] {
        let units = encode(bit_depth, 6);
        let alone = decode(&units, SIZE[0] * SIZE[1]);
        assert!(alone.len() == 6 && alone.iter().all(Result::is_ok));
        // The most that a decoder has, at last.
        for threads in [2, 3, 8, 1000] {
            let decoder = Decoder::with_threads(SIZE[0] * SIZE[1], threads).unwrap();
            assert!(decode_with(decoder, &units) == alone, "{threads} threads");
        }
    }
}

#[test]
fn a_stream_that_is_none_or_too_large_is_an_error_and_the_decoder_goes_on() {
    let units = encode(8, 2);
    let mut decoder = Decoder::new(SIZE[0] * SIZE[1]).unwrap();
    assert_eq!(decoder.send(&[], 0), Err(DecodeError::Invalid));
    let failed = decoder.send(&[0xFF; 100], 0).is_err() || decoder.picture().is_err();
    assert!(failed);
    assert_eq!(decoder.send(&units[0].data, 5), Ok(true));
    assert_eq!(decoder.picture().unwrap().unwrap().time, 5);
    decoder.flush();
    assert_eq!(decoder.picture(), Ok(None));
    assert!(decode(&units, 64 * 47).contains(&Err(DecodeError::TooLarge)));
}

/// A player that jumps, and a network that loses packets, make such streams.
#[test]
fn frames_out_of_order_are_errors_and_the_decoder_goes_on_with_the_next_key_frame() {
    let units = encode(8, 5);
    let order = [0, 2, 1, 3, 3, 4].map(|at: usize| units[at].clone());
    let pictures = decode(&order, SIZE[0] * SIZE[1]);
    assert!(pictures.contains(&Err(DecodeError::Invalid)), "{pictures:?}");
    let right = decode(&units, SIZE[0] * SIZE[1]);
    assert!(units[4].is_key);
    assert_eq!(pictures.last(), right.last());
}

/// What comes behind a broken unit is right from the next key frame on, whichever bit of the unit is wrong.
#[test]
fn the_next_key_frame_decodes_whatever_broke_before_it() {
    let units = encode(8, 6);
    assert!(units[0].is_key && units[4].is_key);
    let right = decode(&units, SIZE[0] * SIZE[1]);
    for at in 0..units[0].data.len() {
        for bit in 0..8 {
            let mut broken = units.clone();
            broken[0].data[at] ^= 1 << bit;
            let pictures = decode(&broken, SIZE[0] * SIZE[1]);
            assert!(pictures.ends_with(&right[4..]), "bit {bit} of byte {at}: {pictures:?}");
        }
    }
}

#[test]
fn pictures_and_settings_that_do_not_fit_are_refused() {
    let mut encoder = Encoder::new(&settings(8)).unwrap();
    assert!(!encoder.send(&picture(0, 10), false));
    assert!(!encoder.send(&Picture { size: [64, 46], ..picture(0, 8) }, false));
    assert!(encoder.send(&picture(0, 8), false));
    encoder.end();
    assert!(!encoder.send(&picture(1, 8), false), "nothing comes after the end");
    assert!(Encoder::new(&EncoderSettings { size: [8, 8], ..settings(8) }).is_err());
    assert!(Encoder::new(&EncoderSettings { frame_rate: [0, 1], ..settings(8) }).is_err());
}
