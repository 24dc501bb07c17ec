// SPDX-License-Identifier: MIT OR Apache-2.0

//! The extension block of CTA-861: what HDMI needs, and more timings. It promises neither wide colours nor high dynamic
//! range: a display has 8 bits of sRGB, whatever the pixels of a source have.
//!
//! Source: CTA-861-H, section 7.

use super::content::{BLOCK, Block, Edid};
use super::timing::{self, SIZE};
use crate::monitor::mode::lowest;
use crate::monitor::signal::Signal;
use bellhop_protocol::control::display::ConnectorKind;

/// The first byte of the block.
pub const TAG: u8 = 2;

/// Bytes before the data blocks, and the offset of the checksum.
const START: usize = 4;
const END: usize = BLOCK - 1;
/// Tags of data blocks, in the upper 3 bits.
const VIDEO: u8 = 2 << 5;
const VENDOR: u8 = 3 << 5;
const EXTENDED: u8 = 7 << 5;
/// HDMI Licensing's identifier, and the HDMI Forum's.
const HDMI: [u8; 3] = [0x03, 0x0c, 0x00];
const HDMI_FORUM: [u8; 3] = [0xd8, 0x5d, 0xc4];
/// The fastest clock of HDMI before 2.0, in the unit of EDIDs.
const TMDS: u64 = 34_000;
/// The range of RGB can be chosen, and nothing is cut off at the edges.
const VIDEO_CAPABILITY: [u8; 3] = [EXTENDED | 2, 0, 0x4a];
/// Nothing is cut off at the edges, and the first timing is the monitor's own.
const FLAGS: u8 = 0x80 | 1;

/// A code of each format that the monitor has, once.
fn codes(edid: &Edid<'_>) -> Vec<u8> {
    let mut codes: Vec<u8> = Vec::new();
    for signal in edid.signals {
        codes.extend(code(signal).filter(|code| !codes.contains(code)));
    }
    codes
}

/// The code of a signal's format.
fn code(signal: &Signal) -> Option<u8> {
    (1..=127).find(|code| {
        Signal::of_code(*code).is_some_and(|known| {
            let of_television = lowest(known.refresh.0 * 1000, 1001);
            let same_rate = [known.refresh, of_television].contains(&signal.refresh);
            (known.horizontal, known.vertical) == (signal.horizontal, signal.vertical) && same_rate
        })
    })
}

/// Whether the block tells of a signal even without a timing.
pub fn has_code(edid: &Edid<'_>, signal: &Signal) -> bool {
    edid.connector == ConnectorKind::HDMI && code(signal).is_some()
}

fn data_blocks(edid: &Edid<'_>) -> Vec<u8> {
    // Elsewhere a code would come before the timing that is preferred.
    let codes = if edid.connector == ConnectorKind::HDMI { codes(edid) } else { Vec::new() };
    let mut data = Vec::new();
    if !codes.is_empty() {
        data.push(VIDEO | codes.len().min(31) as u8);
        data.extend(codes.iter().take(31));
    }
    if edid.connector == ConnectorKind::HDMI {
        let fastest = edid.signals.iter().map(Signal::clock).max().unwrap_or(0);
        // Address 1.0.0.0, no further features, and the fastest clock in 5 MHz.
        let clock = |clock: u64| u8::try_from(clock.div_ceil(500)).unwrap_or(u8::MAX);
        data.push(VENDOR | 7);
        data.extend(HDMI);
        data.extend([0x10, 0x00, 0x00, clock(fastest.min(TMDS))]);
        if fastest > TMDS {
            data.push(VENDOR | 7);
            data.extend(HDMI_FORUM);
            // Version 1, and a status channel, which this speed needs.
            data.extend([1, clock(fastest), 0x80, 0]);
        }
    }
    data.extend(VIDEO_CAPABILITY);
    data
}

/// How many detailed timings fit.
pub fn room(edid: &Edid<'_>) -> usize {
    (END - START - data_blocks(edid).len()) / SIZE
}

/// The block without its checksum.
pub fn encode(edid: &Edid<'_>, signals: &[&Signal]) -> Block {
    let mut block = [0; BLOCK];
    let data = data_blocks(edid);
    let timings = START + data.len();
    // Revision 3; where the timings begin; no sound.
    block[..START].copy_from_slice(&[TAG, 3, timings as u8, FLAGS]);
    block[START..timings].copy_from_slice(&data);
    let slots = block[timings..END].as_chunks_mut::<SIZE>().0;
    for (slot, signal) in slots.iter_mut().zip(signals) {
        *slot = timing::encode(signal, edid.size_mm);
    }
    block
}

/// The signals of a block: of its detailed timings, and of the codes that are known here.
pub fn parse(block: &Block) -> Vec<Signal> {
    let timings = usize::from(block[2]);
    if !(START..=END).contains(&timings) {
        return Vec::new();
    }
    let slots = block[timings..END].as_chunks::<SIZE>().0;
    let mut signals: Vec<_> = slots.iter().map_while(timing::parse).collect();
    let mut data = &block[START..timings];
    while let [head, rest @ ..] = data {
        let (own, next) = rest.split_at(usize::from(head & 0x1f).min(rest.len()));
        if head & 0xe0 == VIDEO {
            // Bit 7 of a code below 65 says that the format is the monitor's own.
            let code = |byte: &u8| if (129..=192).contains(byte) { byte & 0x7f } else { *byte };
            signals.extend(own.iter().map(code).filter_map(Signal::of_code));
        }
        data = next;
    }
    signals
}
