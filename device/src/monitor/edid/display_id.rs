// SPDX-License-Identifier: MIT OR Apache-2.0

//! Blocks of DisplayID, for signals that are too large or too fast for a detailed timing of an EDID.
//!
//! Source: DisplayID 1.3, sections 2 ("Section") and 4.4.2 ("Video Timing Modes Type I - Detailed").

use super::content::{BLOCK, Block, Edid};
use crate::monitor::signal::{Axis, Signal};
use bellhop_protocol::control::display::ConnectorKind;

/// The first byte of the block.
pub const TAG: u8 = 0x70;
/// Timings in a block.
pub const TIMINGS: usize = 3;

/// Bytes of a timing.
const SIZE: usize = 20;
/// Offset of the first data block, bytes of a data block's head, and bytes of all data blocks: the section's own
/// checksum and the EDID's follow.
const START: usize = 5;
const HEAD: usize = 3;
const PAYLOAD: usize = BLOCK - START - 2;
/// A data block of type I timings.
const TYPE_I: u8 = 3;
const PREFERRED: u8 = 0x80;
/// The ratio of width and height is not said.
const NO_RATIO: u8 = 8;
const POSITIVE: u32 = 0x8000;

/// The product: 12 bytes of the manufacturer, a code, no number, the model year from 2000, and no name.
const PRODUCT: [u8; 15] = [0, 0, 12, b'B', b'H', b'P', 1, 0, 0, 0, 0, 0, 0xff, 26, 0];

/// The display: 12 bytes of its size in tenths of a millimetre and in pixels, no features, gamma 2.2, the ratio of its
/// sides (less 1, in hundredths), and 8 bits a colour.
fn parameters(signal: &Signal, size_mm: (u32, u32)) -> [u8; 15] {
    let two = |number: u32| u16::try_from(number).unwrap_or(0).to_le_bytes();
    let ([w0, w1], [h0, h1]) = (two(size_mm.0 * 10), two(size_mm.1 * 10));
    let (width, height) = (signal.horizontal.active, signal.vertical.active);
    let ([x0, x1], [y0, y1]) = (two(width), two(height));
    let (long, short) = (width.max(height), width.min(height).max(1));
    let ratio = u8::try_from((100 * long + short / 2) / short - 100).unwrap_or(u8::MAX);
    [1, 0, 12, w0, w1, h0, h1, x0, x1, y0, y1, 0, 120, ratio, 0x77]
}

/// The interface: 10 bytes of its kind with one link, no version, 8 bits a colour of RGB, no other colours, no
/// protection, and nothing more.
fn interface(edid: &Edid<'_>) -> [u8; 13] {
    let kind = match edid.connector {
        ConnectorKind::HDMI => 0x71,
        ConnectorKind::DISPLAYPORT => 0xa1,
        _ => 0xb1,
    };
    let depths = 0x02;
    [0x0f, 0, 10, kind, 0, depths, 0, 0, 0, 0, 0, 0, 0]
}

/// The block without its checksum.
pub fn encode(edid: &Edid<'_>, signals: &[&Signal]) -> Block {
    let mut block = [0; BLOCK];
    let preferred = edid.signals.first();
    let Some(first) = preferred.or(signals.first().copied()) else { return block };
    let about = [&PRODUCT[..], &parameters(first, edid.size_mm), &interface(edid)].concat();
    // Version 1.3, a display that stands alone, and no further section.
    block[..START].copy_from_slice(&[TAG, 0x13, PAYLOAD as u8, 3, 0]);
    let timings = START + about.len();
    block[START..timings].copy_from_slice(&about);
    block[timings] = TYPE_I;
    block[timings + 2] = (signals.len() * SIZE) as u8;
    let slots = block[timings + HEAD..].as_chunks_mut::<SIZE>().0;
    for (slot, signal) in slots.iter_mut().zip(signals) {
        *slot = timing(signal, preferred == Some(*signal));
    }
    let end = START + PAYLOAD;
    let sum = block[1..end].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    block[end] = sum.wrapping_neg();
    block
}

/// All numbers are one less than what they mean.
fn timing(signal: &Signal, is_preferred: bool) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    let clock = u32::try_from(signal.clock().saturating_sub(1)).unwrap_or(u32::MAX).to_le_bytes();
    bytes[..3].copy_from_slice(&clock[..3]);
    bytes[3] = NO_RATIO | if is_preferred { PREFERRED } else { 0 };
    let slots = bytes[4..].as_chunks_mut::<8>().0;
    for (slot, axis) in slots.iter_mut().zip([&signal.horizontal, &signal.vertical]) {
        let sign = if axis.positive { POSITIVE } else { 0 };
        let numbers =
            [axis.active - 1, axis.blank() - 1, (axis.front_porch - 1) | sign, axis.sync - 1];
        for (slot, number) in slot.as_chunks_mut::<2>().0.iter_mut().zip(numbers) {
            *slot = (number as u16).to_le_bytes();
        }
    }
    bytes
}

/// The signals of a block, each with whether it is preferred.
pub fn parse(block: &Block) -> Vec<(Signal, bool)> {
    let length = usize::from(block[2]).min(PAYLOAD);
    let mut data = &block[START..START + length];
    let mut signals = Vec::new();
    while let [tag, _, length, rest @ ..] = data {
        let (own, next) = rest.split_at(usize::from(*length).min(rest.len()));
        if *tag == TYPE_I {
            signals.extend(own.as_chunks::<SIZE>().0.iter().filter_map(of_timing));
        }
        data = next;
    }
    signals
}

fn of_timing(bytes: &[u8; SIZE]) -> Option<(Signal, bool)> {
    let clock = u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0])) + 1;
    // Interlaced ones are not scanned.
    if bytes[3] & 0x10 != 0 {
        return None;
    }
    let axis = |at: usize| {
        let number = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let (porch, sync) = (number(at + 4), number(at + 6) + 1);
        let front_porch = (porch & !POSITIVE) + 1;
        let back_porch = (number(at + 2) + 1).checked_sub(front_porch)?.checked_sub(sync)?;
        let (active, positive) = (number(at) + 1, porch & POSITIVE != 0);
        Some(Axis { active, front_porch, sync, back_porch, positive })
    };
    let signal = Signal { horizontal: axis(4)?, vertical: axis(12)?, refresh: (0, 1) };
    Some((signal.with_clock(clock)?, bytes[3] & PREFERRED != 0))
}
