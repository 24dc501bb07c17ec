// SPDX-License-Identifier: MIT OR Apache-2.0

//! Encodes ten grey pictures, each brighter than the one before, and decodes the stream.

use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::protocol::control::video::VideoFormat;
use bellhop_guest_umd::video::{
    DecoderSettings, EncoderRate, EncoderSettings, Picture, VideoDecoder, VideoEncoder, VideoError,
};

fn main() -> Result<(), VideoError> {
    let adapter = Adapter::open_default()?;
    let device = adapter.create_device()?;
    let (format, size) = (VideoFormat::NV12, [64, 48]);
    // Fails with what to configure, where the host has no video nodes.
    let settings = EncoderSettings {
        format,
        size,
        frame_rate: [25, 1],
        rate: EncoderRate::Quantizer(60),
        key_frame_interval: 0,
        speed: 10,
    };
    let mut encoder = VideoEncoder::new(&adapter, &device, settings)?;
    let mut units = Vec::new();
    for time in 0..10 {
        let mut bytes = vec![128; Picture::length(format, size) as usize];
        bytes[..64 * 48].fill(40 + 10 * time as u8);
        units.extend(encoder.encode(&Picture { format, size, bytes, time }, false)?);
    }
    // An encoder may keep pictures back.
    while let Some(unit) = encoder.drain()? {
        units.push(unit);
    }
    let settings = DecoderSettings { format, size, unit: 1 << 16 };
    let mut decoder = VideoDecoder::new(&adapter, &device, settings)?;
    let mut pictures = Vec::new();
    for unit in &units {
        pictures.extend(decoder.decode(&unit.data, unit.time)?);
    }
    while let Some(picture) = decoder.drain()? {
        pictures.push(picture);
    }
    for picture in &pictures {
        println!("picture {}: its first pixel is {}", picture.time, picture.bytes[0]);
    }
    Ok(())
}
