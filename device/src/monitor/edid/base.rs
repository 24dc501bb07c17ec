// SPDX-License-Identifier: MIT OR Apache-2.0

//! The base block. Source: E-EDID 1.4, section 3; and E-EDID 1.3 for HDMI, which asks for that version.

use super::content::{BLOCK, Block, Edid};
use super::timing::{self, SIZE};
use crate::monitor::mode::Mode;
use crate::monitor::signal::Signal;
use bellhop_protocol::control::display::ConnectorKind;

/// The first bytes.
pub const HEADER: [u8; 8] = [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0];
/// Detailed timings in a base block, beside the name and the range.
pub const TIMINGS: usize = 2;

/// Offsets of the descriptors.
const DESCRIPTORS: [usize; 4] = [54, 72, 90, 108];
/// The manufacturer `BHP`: five bits a letter, from 1.
const MANUFACTURER: [u8; 2] = ((2u16 << 10) | (8 << 5) | 16).to_be_bytes();
/// The model year, from 1990, with the week that says that it is one.
const MODEL_YEAR: [u8; 2] = [0xff, 36];
/// The year, without a week.
const YEAR: [u8; 2] = [0, 36];
/// Chromaticities of sRGB, in the encoding of section 3.7.
const SRGB: [u8; 10] = [0xee, 0x91, 0xa3, 0x54, 0x4c, 0x99, 0x26, 0x0f, 0x50, 0x54];
/// 640 x 480 at 60 Hz, in byte 35.
const ESTABLISHED_640_480_60: u8 = 0x20;
/// Tags of display descriptors.
const NAME: u8 = 0xfc;
const RANGE: u8 = 0xfd;
const DUMMY: u8 = 0x10;
/// Longest name.
const LETTERS: usize = 13;

/// The block without its checksum.
pub fn encode(edid: &Edid<'_>, signals: &[&Signal], extensions: usize) -> Block {
    let mut block = [0; BLOCK];
    block[..8].copy_from_slice(&HEADER);
    block[8..10].copy_from_slice(&MANUFACTURER);
    block[10..12].copy_from_slice(&[1, 0]);
    let is_hdmi = edid.connector == ConnectorKind::HDMI;
    block[16..18].copy_from_slice(if is_hdmi { &YEAR } else { &MODEL_YEAR });
    block[18..20].copy_from_slice(if is_hdmi { &[1, 3] } else { &[1, 4] });
    // Digital; and since 1.4: 8 bits a colour, and the interface.
    let depth = 0x20;
    let interface = if edid.connector == ConnectorKind::DISPLAYPORT { 5 } else { 0 };
    block[20] = 0x80 | if is_hdmi { 0 } else { depth | interface };
    let centimetres = |mm: u32| u8::try_from(mm.div_ceil(10)).unwrap_or(0);
    let (width, height) = (centimetres(edid.size_mm.0), centimetres(edid.size_mm.1));
    if width > 0 && height > 0 {
        block[21..23].copy_from_slice(&[width, height]);
    }
    // Gamma 2.2; RGB 4:4:4, sRGB, the first timing is the monitor's own, and whether any rate can be shown.
    block[23] = 120;
    block[24] = if is_hdmi { 0x0e } else { 0x06 | u8::from(edid.min_refresh > 0) };
    block[25..35].copy_from_slice(&SRGB);
    block[35] = ESTABLISHED_640_480_60;
    block[38..54].fill(1);
    let mut descriptors: Vec<_> =
        signals.iter().map(|signal| timing::encode(signal, edid.size_mm)).collect();
    descriptors.push(range(edid));
    descriptors.push(name(edid.name));
    let unused = descriptor(DUMMY, [0; LETTERS]);
    let all = descriptors.into_iter().chain(std::iter::repeat(unused));
    for (at, descriptor) in DESCRIPTORS.into_iter().zip(all) {
        block[at..at + SIZE].copy_from_slice(&descriptor);
    }
    block[126] = u8::try_from(extensions).unwrap_or(u8::MAX);
    block
}

fn descriptor(tag: u8, data: [u8; LETTERS]) -> [u8; SIZE] {
    let mut descriptor = [0; SIZE];
    descriptor[3] = tag;
    descriptor[5..].copy_from_slice(&data);
    descriptor
}

/// Section 3.10.3.4: letters of code page 437, a line feed, and spaces.
fn name(text: &str) -> [u8; SIZE] {
    let letter = |c: char| if c.is_ascii_graphic() || c == ' ' { c as u8 } else { b'?' };
    let mut data = [b' '; LETTERS];
    let letters = text.chars().map(letter).chain(std::iter::once(b'\n'));
    data.iter_mut().zip(letters).for_each(|(byte, letter)| *byte = letter);
    descriptor(NAME, data)
}

/// Section 3.10.3.3: the ranges of rates, without a formula for timings.
fn range(edid: &Edid<'_>) -> [u8; SIZE] {
    let rates = edid.signals.iter().map(|signal| {
        let (numerator, denominator) = signal.refresh;
        (numerator / denominator.max(1), numerator.div_ceil(denominator.max(1)))
    });
    let lines = edid.signals.iter().map(|signal| {
        let lines = u64::from(signal.total().1) * u64::from(signal.refresh.0);
        lines / u64::from(signal.refresh.1.max(1)) / 1000
    });
    let slowest = rates.clone().map(|rate| rate.0).min().unwrap_or(0).max(1);
    let slowest = if edid.min_refresh > 0 { slowest.min(edid.min_refresh) } else { slowest };
    let fastest = rates.map(|rate| rate.1).max().unwrap_or(0);
    let few = lines.clone().min().unwrap_or(0).max(1);
    let many = lines.max().unwrap_or(0) + 1;
    // A bit says that 255 is to be added; the lower limit has one only beside the upper one's.
    // 1.3 has no such bits, nor the 1 that says that there are limits only.
    let is_hdmi = edid.connector == ConnectorKind::HDMI;
    let known = |limit: u64| if is_hdmi { limit.min(255) } else { limit };
    let (vertical, low_rate, high_rate) = limits(known(slowest.into()), known(fastest.into()));
    let (horizontal, low_lines, high_lines) = limits(known(few), known(many));
    let clock = edid.signals.iter().map(Signal::clock).max().unwrap_or(0).div_ceil(1000);
    let clock = u8::try_from(clock).unwrap_or(u8::MAX);
    let only = u8::from(!is_hdmi);
    let data = [
        low_rate, high_rate, low_lines, high_lines, clock, only, b'\n', b' ', b' ', b' ', b' ',
        b' ', b' ',
    ];
    let mut range = descriptor(RANGE, data);
    range[4] = vertical | horizontal << 2;
    range
}

/// Two limits as bytes, and their bits of what is added.
fn limits(low: u64, high: u64) -> (u8, u8, u8) {
    let byte = |limit: u64| u8::try_from(limit.min(255)).unwrap_or(u8::MAX);
    match (low > 255, high > 255) {
        (true, _) => (3, byte(low - 255), byte(high.saturating_sub(255))),
        (false, true) => (2, byte(low), byte(high - 255)),
        (false, false) => (0, byte(low), byte(high)),
    }
}

/// The signals of the descriptors.
pub fn parse(block: &Block) -> Vec<Signal> {
    let at = |at: usize| block.get(at..)?.first_chunk::<SIZE>();
    DESCRIPTORS.into_iter().filter_map(at).filter_map(timing::parse).collect()
}

/// The signal that a bit stands for.
pub fn established(block: &Block) -> Option<Signal> {
    (block[35] & ESTABLISHED_640_480_60 != 0).then(|| Signal::of(&Mode::FAIL_SAFE)).flatten()
}
