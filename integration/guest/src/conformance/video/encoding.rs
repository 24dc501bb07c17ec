// SPDX-License-Identifier: MIT OR Apache-2.0

//! Encoding: what was encoded is what is decoded.

use super::lab::{BITSTREAM, BITSTREAM_ROOM, PICTURE, SIZE, Studio, expect};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::Scene;
use bellhop_protocol::control::video::VideoFormat;
use bellhop_protocol::packet::video::{
    STATUS_KEY_FRAME, Video, VideoFlags, VideoResult, VideoStatus,
};

/// Of 255, how much a sample may differ on average.
const TOLERANCE: u64 = 4;

/// A gradient that moves with its number, in NV12.
fn picture(number: u64) -> Vec<u8> {
    let rows = (0..u64::from(SIZE[1])).flat_map(|y| {
        (0..u64::from(SIZE[0])).map(move |x| ((2 * x + y + 4 * number) % 200 + 20) as u8)
    });
    let chroma = std::iter::repeat_n(128, (SIZE[0] * SIZE[1] / 2) as usize);
    rows.chain(chroma).collect()
}

/// A unit that came out.
struct Encoded {
    status: VideoStatus,
    data: Vec<u8>,
}

impl Studio {
    fn unit(&self, status: VideoStatus) -> Result<Encoded, Mismatch> {
        let data = self.bench.read(BITSTREAM as usize, status.bytes as usize)?;
        Ok(Encoded { status, data })
    }

    /// Encodes pictures, those of `keys` as key frames, and returns what came out.
    fn encode(&mut self, count: u64, keys: &[u64]) -> Result<Vec<Encoded>, Mismatch> {
        let mut units = Vec::new();
        for number in 0..count {
            self.bench.write(PICTURE as usize, &picture(number))?;
            let flags =
                if keys.contains(&number) { VideoFlags::KEY_FRAME } else { VideoFlags::empty() };
            let status = self.run(&self.packet(flags, BITSTREAM_ROOM, 1000 + number))?;
            if status.result != VideoResult::NEEDS_MORE {
                expect(&status, VideoResult::DONE)?;
                units.push(self.unit(status)?);
            }
        }
        loop {
            let status = self.run(&self.packet(VideoFlags::DRAIN, BITSTREAM_ROOM, 0))?;
            if status.result == VideoResult::END {
                return Ok(units);
            }
            expect(&status, VideoResult::DONE)?;
            units.push(self.unit(status)?);
        }
    }
}

/// Asserts that a decoded picture is nearly this one.
fn expect_near(decoded: &[u8], number: u64) -> Result<(), Mismatch> {
    let sent = picture(number);
    let error: u64 =
        decoded.iter().zip(&sent).map(|(one, other)| u64::from(one.abs_diff(*other))).sum();
    let mean = error / sent.len() as u64;
    require!(mean <= TOLERANCE, "picture {number} differs by {mean} of 255 on average");
    Ok(())
}

pub(super) fn round_trip(scene: &Scene) -> Result<(), Mismatch> {
    let units = Studio::encoding(scene, VideoFormat::NV12)?.encode(8, &[])?;
    let times: Vec<_> = units.iter().map(|unit| unit.status.time).collect();
    require!(times.iter().copied().eq(1000..1008), "the units' times are {times:?}");
    let mut decoder = Studio::decoding(scene, VideoFormat::NV12)?;
    for (unit, number) in units.iter().zip(0..) {
        expect(&decoder.decode(&unit.data, unit.status.time)?, VideoResult::DONE)?;
        expect_near(&decoder.picture()?, number)?;
    }
    let bytes: usize = units.iter().map(|unit| unit.data.len()).sum();
    scene.show(format!("8 pictures in {bytes} bytes"));
    Ok(())
}

pub(super) fn key_frames(scene: &Scene) -> Result<(), Mismatch> {
    let units = Studio::encoding(scene, VideoFormat::NV12)?.encode(6, &[4])?;
    let is_key = |unit: &Encoded| unit.status.flags & STATUS_KEY_FRAME != 0;
    let keys: Vec<_> = units.iter().map(is_key).collect();
    require!(keys == [true, false, false, false, true, false], "key frames are {keys:?}");
    let mut decoder = Studio::decoding(scene, VideoFormat::NV12)?;
    for (unit, number) in units.iter().zip(0..).skip(4) {
        expect(&decoder.decode(&unit.data, 0)?, VideoResult::DONE)?;
        expect_near(&decoder.picture()?, number)?;
    }
    Ok(())
}

pub(super) fn no_room(scene: &Scene) -> Result<(), Mismatch> {
    let mut encoder = Studio::encoding(scene, VideoFormat::NV12)?;
    encoder.bench.write(PICTURE as usize, &picture(0))?;
    let packet = encoder.packet(VideoFlags::empty(), BITSTREAM_ROOM, 5);
    let mut status = encoder.run(&Video { bitstream_size: 8, ..packet })?;
    if status.result == VideoResult::NEEDS_MORE {
        let packet = encoder.packet(VideoFlags::DRAIN, 8, 0);
        status = encoder.run(&packet)?;
    }
    expect(&status, VideoResult::NO_ROOM)?;
    let needed = status.bytes;
    require!(needed > 8, "{needed} bytes have no room in 8");
    // A packet without a picture takes it out, and puts nothing in.
    let take = encoder.packet(VideoFlags::empty(), needed as u32, 0);
    let take = Video { picture_size: 0, ..take };
    let status = encoder.run(&take)?;
    expect(&status, VideoResult::DONE)?;
    require!((status.bytes, status.time) == (needed, 5), "another unit came out: {status:?}");
    let unit = encoder.unit(status)?;
    let mut decoder = Studio::decoding(scene, VideoFormat::NV12)?;
    expect(&decoder.decode(&unit.data, 0)?, VideoResult::DONE)?;
    expect_near(&decoder.picture()?, 0)?;
    expect(&encoder.run(&encoder.packet(VideoFlags::DRAIN, BITSTREAM_ROOM, 0))?, VideoResult::END)?;
    // After the end nothing goes in.
    let status = encoder.run(&encoder.packet(VideoFlags::empty(), BITSTREAM_ROOM, 6))?;
    expect(&status, VideoResult::REFUSED)
}
