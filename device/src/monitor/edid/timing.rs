// SPDX-License-Identifier: MIT OR Apache-2.0

//! The detailed timing descriptor: 18 bytes in the base block and in CTA-861.
//!
//! Source: E-EDID 1.4, section 3.10.2, "Detailed Timing Descriptor".

use crate::monitor::signal::{Axis, Signal};

/// Bytes of a descriptor.
pub const SIZE: usize = 18;

/// A digital separate synchronisation; the bits of positive pulses.
const SEPARATE: u8 = 0x18;
const VERTICAL_POSITIVE: u8 = 0x04;
const HORIZONTAL_POSITIVE: u8 = 0x02;
const INTERLACED: u8 = 0x80;

/// Whether a signal fits into a descriptor.
pub fn fits(signal: &Signal) -> bool {
    let Signal { horizontal, vertical, .. } = signal;
    let side = |axis: &Axis| axis.active <= 0xfff && axis.blank() <= 0xfff;
    signal.clock() <= 0xffff
        && side(horizontal)
        && side(vertical)
        && horizontal.front_porch.max(horizontal.sync) <= 0x3ff
        && vertical.front_porch.max(vertical.sync) <= 0x3f
}

/// Encodes a signal that fits. Sizes that do not fit become 0, which is unknown.
pub fn encode(signal: &Signal, size_mm: (u32, u32)) -> [u8; SIZE] {
    let Signal { horizontal: h, vertical: v, .. } = signal;
    let clock = u16::try_from(signal.clock()).unwrap_or(0).to_le_bytes();
    let low = |number: u32| (number & 0xff) as u8;
    let high = |upper: u32, lower: u32| ((upper >> 8 & 0xf) << 4 | lower >> 8 & 0xf) as u8;
    let (width, height) = if size_mm.0.max(size_mm.1) <= 0xfff { size_mm } else { (0, 0) };
    let flags = SEPARATE
        | if v.positive { VERTICAL_POSITIVE } else { 0 }
        | if h.positive { HORIZONTAL_POSITIVE } else { 0 };
    [
        clock[0],
        clock[1],
        low(h.active),
        low(h.blank()),
        high(h.active, h.blank()),
        low(v.active),
        low(v.blank()),
        high(v.active, v.blank()),
        low(h.front_porch),
        low(h.sync),
        ((v.front_porch & 0xf) << 4 | v.sync & 0xf) as u8,
        ((h.front_porch >> 8 & 3) << 6
            | (h.sync >> 8 & 3) << 4
            | (v.front_porch >> 4 & 3) << 2
            | v.sync >> 4 & 3) as u8,
        low(width),
        low(height),
        high(width, height),
        0,
        0,
        flags,
    ]
}

/// The signal of a descriptor; `None` if it describes something else, or nothing that can be scanned here.
pub fn parse(bytes: &[u8; SIZE]) -> Option<Signal> {
    let clock = u16::from_le_bytes([bytes[0], bytes[1]]);
    let flags = bytes[17];
    if clock == 0 || flags & INTERLACED != 0 {
        return None;
    }
    let join = |low: u8, high: u8| u32::from(low) | u32::from(high & 0xf) << 8;
    let more =
        |low: u8, shift: u8, bits: u8| u32::from(bytes[11] >> shift & 3) << bits | u32::from(low);
    let axis = |active, blank: u32, front_porch: u32, sync: u32, positive| {
        let back_porch = blank.checked_sub(front_porch)?.checked_sub(sync)?;
        (active > 0).then_some(Axis { active, front_porch, sync, back_porch, positive })
    };
    let is_separate = flags & SEPARATE == SEPARATE;
    let horizontal = axis(
        join(bytes[2], bytes[4] >> 4),
        join(bytes[3], bytes[4]),
        more(bytes[8], 6, 8),
        more(bytes[9], 4, 8),
        is_separate && flags & HORIZONTAL_POSITIVE != 0,
    )?;
    let vertical = axis(
        join(bytes[5], bytes[7] >> 4),
        join(bytes[6], bytes[7]),
        more(bytes[10] >> 4, 2, 4),
        more(bytes[10] & 0xf, 0, 4),
        is_separate && flags & VERTICAL_POSITIVE != 0,
    )?;
    Signal { horizontal, vertical, refresh: (0, 1) }.with_clock(clock.into())
}
