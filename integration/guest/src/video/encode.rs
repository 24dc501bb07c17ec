// SPDX-License-Identifier: MIT OR Apache-2.0

//! A YUV4MPEG2 file, encoded.

use super::report::{Frame, Report};
use super::{ivf, y4m};
use anyhow::{Context as _, ensure};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::video::{EncoderRate, EncoderSettings, Picture, TemporalUnit, VideoEncoder};
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// What to encode, and how.
#[derive(Debug, Clone)]
pub struct Encode {
    /// The YUV4MPEG2 file.
    pub file: PathBuf,
    /// What decides how many bits there are.
    pub rate: EncoderRate,
    /// Most pictures from a key frame to the next; 0: as many as there are.
    pub key_frame_interval: u32,
    /// 0, the slowest, to 10.
    pub speed: u32,
}

/// Encodes a file. Returns the IVF file too.
///
/// # Errors
/// When the file cannot be read, or the device does not encode it.
pub fn encode(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    job: &Encode,
) -> anyhow::Result<(Report, Vec<u8>)> {
    let name = job.file.display();
    let bytes = fs::read(&job.file).with_context(|| format!("cannot read {name}"))?;
    let (header, pictures) = y4m::read(&bytes).with_context(|| format!("cannot encode {name}"))?;
    let y4m::Header { size, rate, format } = header;
    let length = |length: u32| u16::try_from(length).context("too large for an IVF file");
    let in_file = ivf::Header { size: [length(size[0])?, length(size[1])?], rate };
    ensure!(!pictures.is_empty(), "{name} has no picture");
    let adapter = Adapter::open_with(transport, placement).context("cannot open the adapter")?;
    let device = adapter.create_device()?;
    let settings = EncoderSettings {
        format,
        size,
        frame_rate: rate,
        rate: job.rate,
        key_frame_interval: job.key_frame_interval,
        speed: job.speed,
    };
    let mut encoder = VideoEncoder::new(&adapter, &device, settings)?;
    let mut frames = Vec::new();
    let mut file = ivf::header(in_file, pictures.len() as u32);
    let mut take = |unit: TemporalUnit, start: Instant| {
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let TemporalUnit { data, time, is_key } = unit;
        let (bytes, is_key) = (data.len() as u64, Some(is_key));
        frames.push(Frame { time, bytes, nanoseconds, is_key });
        ivf::append(&mut file, ivf::Frame { time, data: &data });
    };
    for (time, picture) in (0..).zip(pictures) {
        let bytes = y4m::to_session(picture, format, size);
        let start = Instant::now();
        if let Some(unit) = encoder.encode(&Picture { format, size, bytes, time }, false)? {
            take(unit, start);
        }
    }
    loop {
        let start = Instant::now();
        let Some(unit) = encoder.drain()? else { break };
        take(unit, start);
    }
    let bit_depth = format.bit_depth();
    Ok((Report { frames, ..Report::new("encode", size, bit_depth) }, file))
}
