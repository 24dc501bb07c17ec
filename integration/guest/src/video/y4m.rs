// SPDX-License-Identifier: MIT OR Apache-2.0

//! YUV4MPEG2: a line with size, rate and kind of chroma, and before each picture a line that begins with `FRAME`.

use anyhow::{Context, bail, ensure};
use bellhop_protocol::control::video::{MAX_VIDEO_SIZE, VideoFormat};
use std::fmt::Write as _;

/// The longest line.
const LINE: usize = 1024;

/// What the first line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Width and height.
    pub(super) size: [u32; 2],
    /// Pictures a second: numerator and denominator.
    pub(super) rate: [u32; 2],
    /// `I420` or `I010`.
    pub(super) format: VideoFormat,
}

/// Takes a line off.
fn line<'a>(rest: &mut &'a [u8]) -> anyhow::Result<&'a str> {
    let end =
        rest.iter().take(LINE).position(|byte| *byte == b'\n').context("a line has no end")?;
    let (line, after) = rest.split_at(end);
    *rest = &after[1..];
    std::str::from_utf8(line).context("a line is no text")
}

/// Reads a file: its header, and the bytes of each picture without gaps.
pub(super) fn read(file: &[u8]) -> anyhow::Result<(Header, Vec<&[u8]>)> {
    let mut rest = file;
    let first = line(&mut rest)?;
    let mut words = first.split(' ');
    ensure!(words.next() == Some("YUV4MPEG2"), "this is no YUV4MPEG2 file");
    let (mut size, mut rate, mut format) = ([0; 2], [25, 1], VideoFormat::I420);
    for word in words.filter(|word| !word.is_empty()) {
        let (kind, value) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        let number = || value.parse::<u32>().with_context(|| format!("{word:?} is no number"));
        match kind {
            "W" => size[0] = number()?,
            "H" => size[1] = number()?,
            "F" => {
                let (numerator, denominator) = value.split_once(':').context("a rate is F25:1")?;
                rate = [numerator.parse()?, denominator.parse()?];
            }
            "C" => {
                format = match value {
                    "420" | "420jpeg" | "420mpeg2" | "420paldv" => VideoFormat::I420,
                    "420p10" => VideoFormat::I010,
                    other => bail!("its pictures are {other}; 420 and 420p10 can be encoded"),
                }
            }
            // Interlacing, aspect and comments change no sample.
            _ => {}
        }
    }
    let within = |length: &u32| (1..=MAX_VIDEO_SIZE).contains(length);
    ensure!(size.iter().all(within), "its pictures have {} x {} samples", size[0], size[1]);
    ensure!(rate.iter().all(|rate| *rate > 0), "its rate is {}:{}", rate[0], rate[1]);
    let bytes = frame_bytes(format, size);
    let mut frames = Vec::new();
    while !rest.is_empty() {
        ensure!(line(&mut rest)?.starts_with("FRAME"), "picture {} does not begin", frames.len());
        let (frame, after) = rest.split_at_checked(bytes).context("the last picture is cut off")?;
        frames.push(frame);
        rest = after;
    }
    Ok((Header { size, rate, format }, frames))
}

/// Bytes of a picture: chroma of odd sizes is rounded up.
fn frame_bytes(format: VideoFormat, [width, height]: [u32; 2]) -> usize {
    let [width, height] = [width as usize, height as usize];
    let chroma = width.div_ceil(2) * height.div_ceil(2);
    (width * height + 2 * chroma) * format.sample() as usize
}

/// The first line of a file.
pub(super) fn header(header: Header) -> String {
    let Header { size: [width, height], rate: [numerator, denominator], format } = header;
    let chroma = if format == VideoFormat::I010 { "420p10" } else { "420jpeg" };
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(line, "YUV4MPEG2 W{width} H{height} F{numerator}:{denominator} Ip C{chroma}");
    line
}

/// A picture as a session takes it: rows of luma have a whole number of pairs.
pub(super) fn to_session(frame: &[u8], format: VideoFormat, size: [u32; 2]) -> Vec<u8> {
    rows(frame, format, size, true)
}

/// A picture as a file has it.
pub(super) fn from_session(picture: &[u8], format: VideoFormat, size: [u32; 2]) -> Vec<u8> {
    rows(picture, format, size, false)
}

/// Pads rows of luma of odd width by a sample, or takes the padding off. Chroma is the same in both.
fn rows(from: &[u8], format: VideoFormat, [width, height]: [u32; 2], pad: bool) -> Vec<u8> {
    let sample = format.sample() as usize;
    let (short, long) = (width as usize * sample, format.least_pitch(width) as usize);
    let (row, into) = if pad { (short, long) } else { (long, short) };
    let (luma, chroma) = from.split_at((row * height as usize).min(from.len()));
    let mut bytes = Vec::with_capacity(from.len() + height as usize * sample);
    for row in luma.chunks_exact(row.max(1)) {
        let end = bytes.len() + into;
        bytes.extend_from_slice(&row[..row.len().min(into)]);
        bytes.resize(end, 0);
    }
    bytes.extend_from_slice(chroma);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        let odd = Header { size: [3, 3], rate: [30_000, 1001], format: VideoFormat::I420 };
        let mut file = header(odd).into_bytes();
        // 9 of luma, and 2 x 2 of each chroma.
        let picture: Vec<u8> = (1..=17).collect();
        for _ in 0..2 {
            file.extend(b"FRAME\n");
            file.extend(&picture);
        }
        assert_eq!(read(&file).unwrap(), (odd, vec![&picture[..]; 2]));
        let padded = to_session(&picture, odd.format, odd.size);
        assert_eq!(padded, [1, 2, 3, 0, 4, 5, 6, 0, 7, 8, 9, 0, 10, 11, 12, 13, 14, 15, 16, 17]);
        assert_eq!(from_session(&padded, odd.format, odd.size), picture);
    }

    #[test]
    fn ten_bits_and_other_chroma_are_told_by_the_first_line() {
        let (header, _) =
            read(b"YUV4MPEG2 W2 H2 F25:1 Ip A1:1 C420p10 XCOLORRANGE=LIMITED\n").unwrap();
        assert_eq!(header, Header { size: [2, 2], rate: [25, 1], format: VideoFormat::I010 });
        assert_eq!(frame_bytes(VideoFormat::I010, [2, 2]), 12);
        let refused = |first: &str| read(format!("{first}\n").as_bytes()).unwrap_err().to_string();
        assert!(refused("YUV4MPEG2 W2 H2 C444").contains("444"));
        assert!(refused("YUV4MPEG2 W9999 H2").contains("9999"));
        assert!(refused("YUV4MPEG2 H2").contains("0 x 2"));
        assert!(refused("RIFF").contains("no YUV4MPEG2"));
        assert!(read(b"YUV4MPEG2 W2 H2\nFRAME\n12345").is_err());
        assert!(read(b"YUV4MPEG2 W2 H2\nFRA").is_err());
    }
}
