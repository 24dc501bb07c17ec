// SPDX-License-Identifier: MIT OR Apache-2.0

//! What comes out of a session, packet by packet: nothing late, nothing lost, and never more waits than is bounded.

use super::{Video, WAITING};
use crate::messages::video::{DRAIN, Session, VideoAnswer, VideoTask, result};
use crate::serve::memory::Memory;
use crate::serve::tasks::Tasks;
use bellhop_codec::{Encoded, Encoder, EncoderSettings, Layout, Picture, Rate, start_threads};

const SIZE: [u32; 2] = [64, 48];
/// Bytes of a picture, and for a bitstream behind it.
const PICTURE: u64 = 64 * 48 * 3 / 2;
const ROOM: u64 = 1 << 16;

/// A session, with the memory of its packets.
struct Desk {
    video: Video,
    session: Session,
    memory: Memory,
    bytes: Vec<u8>,
}

impl Desk {
    fn new(encodes: bool) -> Self {
        let mut bytes = vec![0; (PICTURE + ROOM) as usize];
        let start = bytes.as_mut_ptr().expose_provenance() as u64;
        let session = Session {
            encodes: encodes.into(),
            // I420
            format: 2,
            size: SIZE,
            is_bit_rate: 0,
            rate: 60,
            frame_rate: [25, 1],
            key_frame_interval: 0,
            speed: 10,
        };
        let memory = Memory::new(start..start + bytes.len() as u64);
        let samples = if encodes { 0 } else { SIZE[0] * SIZE[1] };
        Self { video: super::prepare(1, samples).unwrap(), session, memory, bytes }
    }

    fn task(&mut self, flags: u32, [picture, bitstream]: [u64; 2], time: u64) -> VideoAnswer {
        let start = self.bytes.as_mut_ptr().expose_provenance() as u64;
        let task = VideoTask {
            session: self.session,
            flags,
            pitch: SIZE[0],
            picture: start,
            picture_size: picture,
            bitstream: start + PICTURE,
            bitstream_size: bitstream,
            time,
        };
        let bytes = zerocopy::IntoBytes::as_bytes(&task);
        VideoAnswer::read(&self.video.task(bytes, &self.memory).unwrap()).unwrap()
    }

    /// Decodes data, and returns the result and the time of what came out.
    fn decode(&mut self, data: &[u8], time: u64) -> (u32, u64) {
        self.bytes[PICTURE as usize..][..data.len()].copy_from_slice(data);
        let answer = self.task(0, [PICTURE, data.len() as u64], time);
        (answer.result, answer.time)
    }

    fn drain(&mut self) -> (u32, u64) {
        let answer = self.task(DRAIN, [PICTURE, 0], 0);
        (answer.result, answer.time)
    }

    /// Encodes a grey picture into this much room.
    fn encode(&mut self, time: u64, room: u64) -> (u32, u64) {
        self.bytes[..PICTURE as usize].fill(90 + (time % 100) as u8);
        let answer = self.task(0, [PICTURE, room], time);
        (answer.result, answer.time)
    }

    /// Takes out what waits; no picture goes in.
    fn take(&mut self) -> (u32, u64) {
        let answer = self.task(0, [0, ROOM], 0);
        (answer.result, answer.time)
    }
}

/// A stream of grey pictures that begins with its only key frame.
fn stream(count: i64) -> Vec<Encoded> {
    start_threads(1).unwrap();
    let settings = EncoderSettings {
        size: SIZE,
        bit_depth: 8,
        frame_rate: [25, 1],
        rate: Rate::Quantizer(60),
        speed: 10,
        key_frame_interval: 0,
        tiles: 1,
    };
    let mut encoder = Encoder::new(&settings).unwrap();
    let mut units = Vec::new();
    for time in 0..count {
        let planes = [64 * 48, 32 * 24, 32 * 24].map(|length| vec![90 + time as u8; length]);
        let picture =
            Picture { size: SIZE, bit_depth: 8, layout: Layout::I420, planes, time, bytes: 0 };
        assert!(encoder.send(&picture, false));
        units.extend(std::iter::from_fn(|| encoder.encoded().unwrap()));
    }
    encoder.end();
    units.extend(std::iter::from_fn(|| encoder.encoded().unwrap()));
    assert_eq!(units.len() as i64, count);
    units
}

/// The OBUs of a unit behind its delimiter, as those of this spatial layer; the sequence header announces two layers.
fn layer(unit: &[u8], spatial_id: u8) -> Vec<u8> {
    assert_eq!(unit[..2], [0x12, 0], "a temporal delimiter");
    let (mut rest, mut layer) = (&unit[2..], Vec::new());
    while let [header, behind @ ..] = rest {
        let size = behind.iter().position(|byte| *byte < 0x80).unwrap() + 1;
        let length =
            behind[..size].iter().rev().fold(0, |all, byte| all << 7 | (byte & 0x7F) as usize);
        let (size, payload) = behind[..size + length].split_at(size);
        let mut payload = payload.to_vec();
        if header >> 3 & 15 == 1 {
            // `operating_point_idc[0]` is in the bits 12 to 23: temporal layer 0, spatial layers 0 and 1.
            payload[1] |= 3;
            payload[2] |= 1;
        }
        layer.extend([header | 4, spatial_id << 3]);
        layer.extend(size);
        layer.extend(payload);
        rest = &behind[size.len() + length..];
    }
    layer
}

#[test]
fn of_spatial_layers_the_highest_comes_out_of_its_own_packet() {
    let mut desk = Desk::new(false);
    let units = stream(2 * (WAITING as i64 + 8));
    let (pairs, _) = units.as_chunks::<2>();
    for (time, [lower, upper]) in (100..).zip(pairs) {
        let unit = [&[0x12, 0], &*layer(&lower.data, 0), &layer(&upper.data, 1)].concat();
        assert_eq!(desk.decode(&unit, time), (result::DONE, time));
        // Flat pictures are nearly as they were encoded.
        let upper = 90 + upper.time as u8;
        assert!(desk.bytes[0].abs_diff(upper) <= 1, "{} for {upper}", desk.bytes[0]);
    }
    assert_eq!(desk.drain().0, result::END);
}

#[test]
fn data_of_more_pictures_than_wait_is_kept_and_more_is_refused_until_they_are_taken_out() {
    let mut desk = Desk::new(false);
    let count = WAITING + 8;
    let units = stream(count as i64 + 1);
    let (last, units) = units.split_last().unwrap();
    let all: Vec<u8> = units.iter().flat_map(|unit| unit.data.iter().copied()).collect();
    assert_eq!(desk.decode(&all, 7), (result::DONE, 7));
    for _ in 0..3 {
        assert_eq!(desk.decode(&last.data, 8).0, result::REFUSED);
    }
    for _ in 1..count {
        assert_eq!(desk.drain(), (result::DONE, 7));
    }
    assert_eq!(desk.drain().0, result::END);
    assert_eq!(desk.decode(&last.data, 8), (result::DONE, 8));
}

#[test]
fn a_unit_without_room_is_taken_out_and_makes_no_later_one_late() {
    let mut desk = Desk::new(true);
    let first = (0..).find(|time| desk.encode(*time, 8).0 == result::NO_ROOM).unwrap();
    // Encoders hold pictures back: as many at the end as at the beginning.
    assert_eq!(desk.take(), (result::DONE, 0));
    assert_eq!(desk.take().0, result::NEEDS_MORE);
    for time in first + 1..first + 5 {
        assert_eq!(desk.encode(time, ROOM), (result::DONE, time - first));
    }
}

#[test]
fn units_that_nobody_takes_out_are_bounded() {
    let mut desk = Desk::new(true);
    let full = (0..).find(|time| desk.encode(*time, 0).0 == result::REFUSED).unwrap();
    assert!(full <= 2 * WAITING as u64, "{full} pictures went in");
    for time in 0..WAITING as u64 {
        assert_eq!(desk.take(), (result::DONE, time));
    }
    assert_ne!(desk.encode(full, ROOM).0, result::REFUSED);
}

#[test]
fn units_of_no_valid_av1_are_bounded_too() {
    let mut desk = Desk::new(false);
    let units = stream(1);
    let answer = |desk: &mut Desk, data: &[u8]| {
        desk.bytes[PICTURE as usize..][..data.len()].copy_from_slice(data);
        // The picture in front has no room.
        desk.task(0, [0, data.len() as u64], 0).result
    };
    assert_eq!(answer(&mut desk, &units[0].data), result::NO_ROOM);
    let results: Vec<_> = (0..2 * WAITING).map(|_| answer(&mut desk, &[0xFF; 8])).collect();
    assert_eq!(results[0], result::NO_ROOM);
    assert_eq!(results.last(), Some(&result::REFUSED));
}
