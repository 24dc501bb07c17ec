// SPDX-License-Identifier: MIT OR Apache-2.0

//! IVF: a header of 32 bytes, and before each temporal unit its length and time. All numbers are little-endian.

use anyhow::{Context, bail, ensure};
use bellhop_protocol::control::video::MAX_BITSTREAM;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 12;

/// A file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Width and height of the pictures.
    pub(super) size: [u16; 2],
    /// Units of time in a second: numerator and denominator.
    pub(super) rate: [u32; 2],
}

/// A temporal unit of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) time: u64,
    pub(super) data: &'a [u8],
}

/// What is in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents<'a> {
    pub(super) header: Header,
    /// The temporal units that are whole.
    pub(super) frames: Vec<Frame<'a>>,
    /// Whether the file ends within one more: a recording or a transfer broke off.
    pub(super) is_cut_off: bool,
}

/// Reads a file of AV1.
pub(super) fn read(file: &[u8]) -> anyhow::Result<Contents<'_>> {
    ensure!(file.len() >= HEADER && file.starts_with(b"DKIF"), "this is no IVF file");
    let [u16_at, _] = [|at: usize| u16::from_le_bytes([file[at], file[at + 1]]); 2];
    let u32_at =
        |at: usize| u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
    let codec = &file[8..12];
    ensure!(codec == b"AV01", "its codec is {:?}, not AV01", String::from_utf8_lossy(codec));
    let header = Header { size: [u16_at(12), u16_at(14)], rate: [u32_at(16), u32_at(20)] };
    let mut rest = file.get(usize::from(u16_at(6))..).context("its header is cut off")?;
    let mut frames = Vec::new();
    while let Some((start, after)) = rest.split_at_checked(FRAME_HEADER) {
        let length = u32::from_le_bytes([start[0], start[1], start[2], start[3]]);
        let time = u64::from_le_bytes(start[4..].try_into().unwrap_or_default());
        if length > MAX_BITSTREAM {
            bail!("frame {} has {length} bytes, more than {MAX_BITSTREAM}", frames.len());
        }
        let Some((data, after)) = after.split_at_checked(length as usize) else { break };
        frames.push(Frame { time, data });
        rest = after;
    }
    Ok(Contents { header, frames, is_cut_off: !rest.is_empty() })
}

/// Begins a file.
pub(super) fn header(header: Header, frames: u32) -> Vec<u8> {
    let mut file = b"DKIF\0\0\x20\0AV01".to_vec();
    header.size.iter().for_each(|length| file.extend(length.to_le_bytes()));
    header.rate.iter().for_each(|rate| file.extend(rate.to_le_bytes()));
    file.extend(frames.to_le_bytes());
    file.extend([0; 4]);
    file
}

/// Appends a temporal unit to a file.
pub(super) fn append(file: &mut Vec<u8>, frame: Frame<'_>) {
    file.extend((frame.data.len() as u32).to_le_bytes());
    file.extend(frame.time.to_le_bytes());
    file.extend(frame.data);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Header = Header { size: [64, 48], rate: [30, 1] };

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        let frames = [Frame { time: 0, data: b"first" }, Frame { time: 7, data: b"" }];
        let mut file = header(SMALL, 2);
        frames.iter().for_each(|frame| append(&mut file, *frame));
        let contents = Contents { header: SMALL, frames: frames.to_vec(), is_cut_off: false };
        assert_eq!(read(&file).unwrap(), contents);
        // The offsets of the format's description.
        assert_eq!((&file[..4], &file[8..14], file[24]), (&b"DKIF"[..], &b"AV01\x40\0"[..], 2));
    }

    #[test]
    fn of_a_file_that_is_cut_off_the_whole_frames_are_there() {
        let frames = [Frame { time: 0, data: b"unit" }, Frame { time: 1, data: b"another" }];
        let mut file = header(SMALL, 2);
        frames.iter().for_each(|frame| append(&mut file, *frame));
        // Where a frame ends, with the number of frames before it.
        let ends = [(32, 0), (48, 1), (file.len(), 2)];
        for length in 32..=file.len() {
            let (end, count) = *ends.iter().rfind(|(end, _)| *end <= length).unwrap();
            let contents = read(&file[..length]).unwrap();
            assert_eq!(contents.frames, frames[..count], "{length}");
            assert_eq!(contents.is_cut_off, length > end, "{length}");
        }
    }

    #[test]
    fn a_file_that_is_none_or_has_no_whole_header_is_refused() {
        let mut file = header(SMALL, 1);
        append(&mut file, Frame { time: 0, data: b"unit" });
        for length in 0..32 {
            assert!(read(&file[..length]).is_err(), "{length}");
        }
        // Whatever one byte becomes, it is an error or another file.
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut file = file.clone();
                file[at] ^= 1 << bit;
                let _ = read(&file);
            }
        }
        let changed = |at: usize, to: u8| {
            let mut file = file.clone();
            file[at] = to;
            read(&file).map(drop).unwrap_err().to_string()
        };
        assert!(changed(0, b'X').contains("no IVF"));
        assert!(changed(8, b'V').contains("VV01"));
        assert!(changed(35, 0x7F).contains("more than"));
    }
}
