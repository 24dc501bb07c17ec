// SPDX-License-Identifier: MIT OR Apache-2.0

//! `STRETCH_RECT`: scales a rectangle of pixels.

use super::context::{BUFFER, Context};
use super::progress::Progress;
use super::surface::{Rows, bad};
use crate::gpu::memory::violation::Violation;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::surface::{MAX_STRETCH, StretchFilter, StretchRect};
use bellhop_protocol::pixel_format::PixelFormat;

/// Most pixels that a step draws.
const PIXELS: usize = 256;

/// A place between two pixels of a source's line or column: the pixel before, and how far behind it in units of 1/256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    pixel: u32,
    behind: u32,
}

/// How the pixels of one side of a rectangle, `source` pixels long, become `destination` pixels.
#[derive(Debug, Clone, Copy)]
struct Side {
    source: u32,
    destination: u32,
}

impl Side {
    /// Twice the place of the middle of a destination's pixel, in units of 1/256 of a source's pixel.
    fn middle(self, pixel: u32) -> u64 {
        (2 * u64::from(pixel) + 1) * 256 * u64::from(self.source) / u64::from(self.destination)
    }

    fn nearest(self, pixel: u32) -> Place {
        let doubled = (2 * u64::from(pixel) + 1) * u64::from(self.source);
        let nearest = doubled / (2 * u64::from(self.destination));
        // The middle of a pixel lies before the source's end.
        Place { pixel: nearest as u32, behind: 0 }
    }

    fn between(self, pixel: u32) -> Place {
        // A source's pixel has its place in its middle.
        let place = (self.middle(pixel) / 2).saturating_sub(128);
        Place { pixel: (place / 256) as u32, behind: (place % 256) as u32 }
    }

    /// The pixel behind a place's; the last one has itself behind it.
    fn next(self, place: Place) -> u32 {
        (place.pixel + 1).min(self.source - 1)
    }
}

/// Where a format has its channels: the lowest bit and the number of bits of each.
fn channels(format: PixelFormat) -> [(u32, u32); 4] {
    match format {
        PixelFormat::R5G6B5 => [(0, 5), (5, 6), (11, 5), (16, 0)],
        PixelFormat::X2R10G10B10 => [(0, 10), (10, 10), (20, 10), (30, 2)],
        _ => [(0, 8), (8, 8), (16, 8), (24, 8)],
    }
}

/// A `STRETCH_RECT` in progress.
#[derive(Debug)]
pub struct Stretching {
    source: Rows,
    destination: Rows,
    /// Bytes of a pixel.
    bytes: usize,
    channels: [(u32, u32); 4],
    is_bilinear: bool,
    across: Side,
    down: Side,
    /// Left and right end of what is drawn.
    columns: [u32; 2],
    /// The next pixel to draw, and the end of the rows.
    at: [u32; 2],
    bottom: u32,
}

impl Stretching {
    /// Starts the operation.
    ///
    /// # Errors
    /// `NOT_SUPPORTED_BY_NODE`, `BAD_RECTANGLE` or `ADDRESS_OUT_OF_RANGE`.
    pub fn new(context: &Context<'_>, packet: &StretchRect) -> Result<Self, Violation> {
        if context.engine_type != EngineType::THREE_D {
            let opcode = u64::from(Opcode::STRETCH_RECT.0);
            return Err(Violation::new(FaultReason::NOT_SUPPORTED_BY_NODE, opcode));
        }
        let is_bilinear = match packet.filter() {
            StretchFilter::NEAREST => false,
            StretchFilter::BILINEAR => true,
            StretchFilter(unknown) => return Err(bad(unknown)),
        };
        let bytes = packet.format().bytes().ok_or(bad(packet.format().0))?;
        let sizes = [packet.source_size, packet.destination_size].concat();
        if let Some(wrong) = sizes.iter().find(|size| !(1..=MAX_STRETCH).contains(*size)) {
            return Err(bad(*wrong));
        }
        let ([width, height], [wide, high]) = (packet.source_size, packet.destination_size);
        let [left, top, right, bottom] = packet.clip;
        for (start, end, most) in [(left, right, wide), (top, bottom, high)] {
            if end > most {
                return Err(bad(end));
            }
            if start > end {
                return Err(bad(start));
            }
        }
        let rows = |start, pitch, [width, height]: [u16; 2]| {
            Rows::new(start, pitch, u32::from(width) * bytes, height.into())
        };
        let at = if left < right { [left, top] } else { [left, bottom] };
        Ok(Self {
            source: rows(packet.source, packet.source_pitch, packet.source_size)?,
            destination: rows(
                packet.destination,
                packet.destination_pitch,
                packet.destination_size,
            )?,
            bytes: bytes as usize,
            channels: channels(packet.format()),
            is_bilinear,
            across: Side { source: width.into(), destination: wide.into() },
            down: Side { source: height.into(), destination: high.into() },
            columns: [left.into(), right.into()],
            at: at.map(u32::from),
            bottom: bottom.into(),
        })
    }

    /// See `Operation::step`: draws a part of a row.
    pub fn step(&mut self, context: &mut Context<'_>) -> Result<Progress, Violation> {
        let [left, right] = self.columns;
        let [x, y] = self.at;
        if y >= self.bottom {
            return Ok(Progress::Finished);
        }
        let place = |side: Side, pixel| match self.is_bilinear {
            true => side.between(pixel),
            false => side.nearest(pixel),
        };
        let last = |place: Place| match self.is_bilinear {
            true => self.across.next(place),
            false => place.pixel,
        };
        // As many pixels as come from what a buffer holds of the source's line.
        let first = place(self.across, x).pixel;
        let mut end = right.min(x + PIXELS as u32);
        let held = |end: u32| (last(place(self.across, end - 1)) - first + 1) as usize * self.bytes;
        while held(end) > BUFFER {
            end = x + (end - x).div_ceil(2);
        }
        let held = held(end);
        let row = place(self.down, y);
        let start = u64::from(first) * self.bytes as u64;
        let (above, below) =
            (&mut context.scratch.first[..held], &mut context.scratch.second[..held]);
        context.mmu.read(self.source.at(row.pixel) + start, above)?;
        if self.is_bilinear {
            context.mmu.read(self.source.at(self.down.next(row)) + start, below)?;
        }
        let mut drawn = [0; PIXELS * size_of::<u32>()];
        let length = (end - x) as usize * self.bytes;
        for (x, pixel) in (x..end).zip(drawn[..length].chunks_exact_mut(self.bytes)) {
            let column = place(self.across, x);
            let offset = |pixel: u32| (pixel - first) as usize * self.bytes;
            let (near, far) = (offset(column.pixel), offset(last(column)));
            if self.is_bilinear {
                let corners = [(&*above, near), (&*above, far), (&*below, near), (&*below, far)]
                    .map(|(line, at)| word(&line[at..at + self.bytes]));
                let mixed = mix(corners, self.channels, column.behind, row.behind).to_le_bytes();
                pixel.copy_from_slice(&mixed[..self.bytes]);
            } else {
                pixel.copy_from_slice(&above[near..near + self.bytes]);
            }
        }
        let to = self.destination.at(y) + u64::from(x) * self.bytes as u64;
        context.mmu.write(to, &drawn[..length])?;
        self.at = if end < right { [end, y] } else { [left, y + 1] };
        Ok(Progress::Moved(length))
    }
}

/// A pixel's word.
fn word(pixel: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..pixel.len()].copy_from_slice(pixel);
    u32::from_le_bytes(word)
}

/// Mixes four pixels (upper left, upper right, lower left, lower right) channel by channel.
fn mix(corners: [u32; 4], channels: [(u32, u32); 4], right: u32, down: u32) -> u32 {
    let weights =
        [(256 - right) * (256 - down), right * (256 - down), (256 - right) * down, right * down];
    channels.iter().fold(0, |mixed, (shift, bits)| {
        let mask = (1 << bits) - 1;
        let sum = corners.iter().zip(weights).fold(1 << 15, |sum, (corner, weight)| {
            sum + (corner.checked_shr(*shift).unwrap_or(0) & mask) * weight
        });
        mixed | (sum >> 16 & mask).checked_shl(*shift).unwrap_or(0)
    })
}
