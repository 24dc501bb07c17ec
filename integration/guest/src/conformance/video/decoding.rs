// SPDX-License-Identifier: MIT OR Apache-2.0

//! Decoding: which pictures there are, and what is told of wrong streams.

use super::lab::{EIGHT, SIZE, Studio, TEN, expect};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_protocol::control::video::VideoFormat;
use bellhop_protocol::packet::video::{Video, VideoFlags, VideoResult};
use xxhash_rust::xxh64::xxh64;
use zerocopy::IntoBytes;

pub(super) fn exact(scene: &Scene) -> Result<(), Mismatch> {
    for stream in [EIGHT, TEN] {
        let mut studio = Studio::decoding(scene, stream.format)?;
        let pictures = studio.decode_all(&stream.units()?)?;
        let hash = xxh64(&pictures, 0);
        require!(hash == stream.hash, "{}: the pictures' XXH64 is {hash:#x}", stream.format);
        let left = studio.run(&studio.packet(VideoFlags::DRAIN, 0, 0))?;
        expect(&left, VideoResult::END)?;
    }
    Ok(())
}

pub(super) fn formats(scene: &Scene) -> Result<(), Mismatch> {
    for (stream, interleaved) in [(EIGHT, VideoFormat::NV12), (TEN, VideoFormat::P010)] {
        let units = stream.units()?;
        let planar = Studio::decoding(scene, stream.format)?.decode_all(&units[..1])?;
        let pairs = Studio::decoding(scene, interleaved)?.decode_all(&units[..1])?;
        let sample = interleaved.sample() as usize;
        let value = |bytes: &[u8], at: usize| match bytes.get(at * sample..(at + 1) * sample) {
            Some([byte]) => u16::from(*byte),
            Some([low, high]) => u16::from_le_bytes([*low, *high]),
            _ => u16::MAX,
        };
        // In P010, samples are in the upper bits.
        let upper =
            |sample: u16| if interleaved == VideoFormat::P010 { sample >> 6 } else { sample };
        let (luma, chroma) = ((SIZE[0] * SIZE[1]) as usize, (SIZE[0] * SIZE[1] / 4) as usize);
        for at in 0..luma {
            let same = upper(value(&pairs, at)) == value(&planar, at);
            require!(same, "{interleaved}: sample {at} of luma differs");
        }
        for at in 0..chroma {
            let [u, v] = [0, 1].map(|plane| value(&planar, luma + plane * chroma + at));
            let pair = [0, 1].map(|plane| upper(value(&pairs, luma + 2 * at + plane)));
            require!(pair == [u, v], "{interleaved}: pair {at} is {pair:?}, not {u} and {v}");
        }
    }
    Ok(())
}

pub(super) fn corrupt(scene: &Scene) -> Result<(), Mismatch> {
    let units = EIGHT.units()?;
    let mut studio = Studio::decoding(scene, EIGHT.format)?;
    let right = studio.decode_all(&units[..1])?;
    // No OBUs at all; and a frame whose end is missing.
    let cut = &units[1][..units[1].len() / 2];
    for wrong in [&[0xFF; 64][..], cut] {
        expect(&studio.decode(wrong, 1)?, VideoResult::CORRUPT)?;
        expect(&studio.run(&studio.packet(VideoFlags::DRAIN, 0, 0))?, VideoResult::END)?;
    }
    let again = studio.decode_all(&units[..1])?;
    require!(again == right, "the next key frame decodes to another picture");
    Ok(())
}

pub(super) fn misfits(scene: &Scene) -> Result<(), Mismatch> {
    let units = EIGHT.units()?;
    let mut studio = Studio::decoding(scene, EIGHT.format)?;
    studio.bench.write(0, units[0])?;
    let packet = studio.packet(VideoFlags::empty(), units[0].len() as u32, 9);
    // The picture has 4,608 bytes.
    let status = studio.run(&Video { picture_size: 4607, ..packet })?;
    expect(&status, VideoResult::NO_ROOM)?;
    let size = [status.width, status.height];
    require!(size == SIZE, "it says that a picture of {size:?} has no room");
    // It is kept.
    let kept = studio.run(&studio.packet(VideoFlags::DRAIN, 0, 0))?;
    expect(&kept, VideoResult::DONE)?;
    require!(kept.time == 9, "the picture that was kept has the time {}", kept.time);
    let mut deep = Studio::decoding(scene, VideoFormat::P010)?;
    let status = deep.decode(units[0], 0)?;
    expect(&status, VideoResult::FORMAT_MISMATCH)?;
    require!(status.bit_depth == 8, "the stream has {} bits", status.bit_depth);
    Ok(())
}

pub(super) fn flush(scene: &Scene) -> Result<(), Mismatch> {
    let units = EIGHT.units()?;
    let mut studio = Studio::decoding(scene, EIGHT.format)?;
    studio.decode_all(&units[..2])?;
    let status = studio.run(&studio.packet(VideoFlags::FLUSH, 0, 0))?;
    expect(&status, VideoResult::END)?;
    // The third picture needs those before it.
    let status = studio.decode(units[2], 2)?;
    require!(status.result != VideoResult::DONE, "a picture came out of what was forgotten");
    studio.decode_all(&units[..1]).map(drop)
}

pub(super) fn kernel_mode(scene: &Scene) -> Result<(), Mismatch> {
    let mut studio = Studio::decoding(scene, EIGHT.format)?;
    let mut queue = studio.bench.context.create_kernel_mode_queue()?;
    let mut pictures = Vec::new();
    for (unit, time) in EIGHT.units()?.iter().zip(0..) {
        studio.bench.write(0, unit)?;
        let packet = studio.packet(VideoFlags::empty(), unit.len() as u32, time);
        studio.bench.commands.reset();
        studio.bench.commands.raw(packet.as_bytes())?;
        let value = queue.submit(&mut studio.bench.commands)?;
        queue.progress_fence().wait(value, TIMEOUT)?;
        expect(&studio.status()?, VideoResult::DONE)?;
        pictures.extend(studio.picture()?);
    }
    require!(xxh64(&pictures, 0) == EIGHT.hash, "the pictures are others");
    Ok(())
}

pub(super) fn neighbours(scene: &Scene) -> Result<(), Mismatch> {
    let units = EIGHT.units()?;
    let mut first = Studio::decoding(scene, EIGHT.format)?;
    let mut second = Studio::decoding(scene, EIGHT.format)?;
    let mut broken = Studio::decoding(scene, EIGHT.format)?;
    let mut pictures = [Vec::new(), Vec::new()];
    for (unit, time) in units.iter().zip(0..) {
        for (studio, pictures) in [&mut first, &mut second].into_iter().zip(&mut pictures) {
            expect(&studio.decode(unit, time)?, VideoResult::DONE)?;
            pictures.extend(studio.picture()?);
        }
        expect(&broken.decode(&[0xFF; 32], time)?, VideoResult::CORRUPT)?;
    }
    let same = pictures.iter().all(|pictures| xxh64(pictures, 0) == EIGHT.hash);
    require!(same, "the sessions' pictures are others");
    Ok(())
}
