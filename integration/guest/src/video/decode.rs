// SPDX-License-Identifier: MIT OR Apache-2.0

//! An IVF file, decoded.

use super::report::{Frame, Report};
use super::stills::Stills;
use super::{ivf, y4m};
use anyhow::{Context as _, ensure};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::video::{DecoderSettings, Picture, VideoDecoder, VideoError};
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use bellhop_protocol::control::video::VideoFormat;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// What to decode, and where to.
#[derive(Debug, Clone)]
pub struct Decode {
    /// The IVF file.
    pub file: PathBuf,
    /// The folder that gets a PNG for each picture.
    pub png: Option<PathBuf>,
}

/// Decodes a file; pictures go into the PNGs, and into a YUV4MPEG2 file if there is one.
///
/// # Errors
/// When a file cannot be read or written, or the device does not decode. A unit that is no valid AV1 is counted, and the
/// rest decoded; so is what there is of a file that is cut off.
pub fn decode(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    job: &Decode,
    y4m: Option<&mut dyn Write>,
) -> anyhow::Result<Report> {
    let name = job.file.display();
    let bytes = fs::read(&job.file).with_context(|| format!("cannot read {name}"))?;
    let ivf::Contents { header, frames: units, is_cut_off } =
        ivf::read(&bytes).with_context(|| format!("cannot decode {name}"))?;
    let size = header.size.map(u32::from);
    ensure!(size.iter().all(|length| *length > 0), "{name} has pictures without a size");
    let png = job.png.as_deref().map(Stills::create).transpose()?;
    let adapter = Adapter::open_with(transport, placement).context("cannot open the adapter")?;
    let device = adapter.create_device()?;
    let unit = units.iter().map(|unit| unit.data.len()).max().unwrap_or(1) as u32;
    let decoder =
        |format| VideoDecoder::new(&adapter, &device, DecoderSettings { format, size, unit });
    let mut work = Work {
        decoder: decoder(VideoFormat::I420)?,
        report: Report { is_cut_off, ..Report::new("decode", size, 8) },
        png,
        y4m,
        rate: header.rate,
    };
    for (number, unit) in units.iter().enumerate() {
        let start = Instant::now();
        let mut picture = work.decoder.decode(unit.data, unit.time);
        // The first picture tells how many bits the stream has.
        if number == 0 && matches!(picture, Err(VideoError::FormatMismatch { bit_depth: 10 })) {
            work.report.bit_depth = 10;
            work.decoder = decoder(VideoFormat::I010)?;
            picture = work.decoder.decode(unit.data, unit.time);
        }
        work.take(picture, unit.data.len() as u64, start)?;
    }
    loop {
        let start = Instant::now();
        let left = work.decoder.drain();
        if !work.take(left, 0, start)? {
            break;
        }
    }
    Ok(work.report)
}

struct Work<'w> {
    decoder: VideoDecoder,
    report: Report,
    png: Option<Stills>,
    y4m: Option<&'w mut dyn Write>,
    rate: [u32; 2],
}

impl Work<'_> {
    /// Takes what came out of a packet. Returns whether something did.
    fn take(
        &mut self,
        picture: Result<Option<Picture>, VideoError>,
        bytes: u64,
        start: Instant,
    ) -> anyhow::Result<bool> {
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let picture = match picture {
            Ok(Some(picture)) => picture,
            Ok(None) => return Ok(false),
            Err(VideoError::Corrupt) => {
                self.report.corrupt += 1;
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        let number = self.report.frames.len();
        if number == 0 {
            self.report.size = picture.size;
        }
        let time = picture.time;
        self.report.frames.push(Frame { time, bytes, nanoseconds, is_key: None });
        if let Some(stills) = &self.png {
            stills.write(number, &picture)?;
        }
        if let Some(file) = &mut self.y4m {
            let Picture { format, size, .. } = picture;
            if number == 0 {
                let header = y4m::Header { size, rate: self.rate, format };
                file.write_all(y4m::header(header).as_bytes()).context("cannot write pictures")?;
            }
            let frame = y4m::from_session(&picture.bytes, format, size);
            let written = file.write_all(b"FRAME\n").and_then(|()| file.write_all(&frame));
            written.context("cannot write pictures")?;
        }
        Ok(true)
    }
}
