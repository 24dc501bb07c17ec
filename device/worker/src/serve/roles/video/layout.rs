// SPDX-License-Identifier: MIT OR Apache-2.0

//! A codec's planes, and how a picture lies in a guest's memory.

use crate::messages::video::Format;
use bellhop_codec::{Layout, Picture};

/// The shift of a deep sample that is in the upper bits of its two bytes.
const UPPER: u32 = 6;

/// Stores a picture. `into` has room for it: [`Format::bytes`].
pub fn to_memory(picture: &Picture, into: &mut [u8], pitch: usize, format: Format) {
    let [luma, u, v] = &picture.planes;
    let sample = format.sample() as usize;
    let [_, height] = picture.size.map(|length| length as usize);
    let (rows, chroma) = into.split_at_mut(pitch * height);
    put_rows(luma, picture.size[0] as usize, rows, pitch, format);
    let [width, chroma_height] = Layout::I420.chroma(picture.size).map(|length| length as usize);
    // Without chroma, a picture is grey.
    let grey = (picture.layout == Layout::I400)
        .then(|| grey(width * chroma_height, picture.bit_depth, sample));
    let (u, v) = grey.as_ref().map_or((u, v), |grey| (grey, grey));
    if format.is_interleaved {
        let rows = u.chunks_exact(width * sample).zip(v.chunks_exact(width * sample));
        for (into, (u, v)) in chroma.chunks_exact_mut(pitch).zip(rows) {
            let pairs = u.chunks_exact(sample).zip(v.chunks_exact(sample));
            for (into, (u, v)) in into.chunks_exact_mut(2 * sample).zip(pairs) {
                into[..sample].copy_from_slice(u);
                into[sample..].copy_from_slice(v);
            }
            raise(&mut into[..2 * width * sample], format);
        }
    } else {
        let (first, second) = chroma.split_at_mut(pitch / 2 * chroma_height);
        put_rows(u, width, first, pitch / 2, format);
        put_rows(v, width, second, pitch / 2, format);
    }
}

/// The picture that lies in these bytes, of which there are enough: [`Format::bytes`].
pub fn from_memory(from: &[u8], size: [u32; 2], pitch: usize, format: Format) -> Picture {
    let sample = format.sample() as usize;
    let [width, height] = size.map(|length| length as usize);
    let (rows, chroma) = from.split_at(pitch * height);
    let luma = take_rows(rows, width, pitch, format);
    let [width, height] = Layout::I420.chroma(size).map(|length| length as usize);
    let (u, v) = if format.is_interleaved {
        let pairs = take_rows(&chroma[..pitch * height], 2 * width, pitch, format);
        let mut planes = [Vec::new(), Vec::new()];
        for pair in pairs.chunks_exact(2 * sample) {
            planes[0].extend_from_slice(&pair[..sample]);
            planes[1].extend_from_slice(&pair[sample..]);
        }
        planes.into()
    } else {
        let (u, v) = chroma.split_at(pitch / 2 * height);
        let take = |rows: &[u8]| take_rows(rows, width, pitch / 2, format);
        (take(u), take(&v[..pitch / 2 * height]))
    };
    let (bit_depth, layout) = (if format.is_deep { 10 } else { 8 }, Layout::I420);
    Picture { size, bit_depth, layout, planes: [luma, u, v], time: 0, bytes: 0 }
}

fn put_rows(plane: &[u8], width: usize, into: &mut [u8], pitch: usize, format: Format) {
    let row = width * format.sample() as usize;
    for (into, from) in into.chunks_exact_mut(pitch).zip(plane.chunks_exact(row)) {
        into[..row].copy_from_slice(from);
        raise(&mut into[..row], format);
    }
}

fn take_rows(from: &[u8], width: usize, pitch: usize, format: Format) -> Vec<u8> {
    let row = width * format.sample() as usize;
    let mut plane = Vec::with_capacity(from.len());
    for from in from.chunks_exact(pitch) {
        plane.extend_from_slice(&from[..row]);
    }
    if format.is_deep {
        let (samples, _) = plane.as_chunks_mut();
        for bytes in samples {
            let sample = u16::from_le_bytes(*bytes);
            let sample = if format.is_interleaved { sample >> UPPER } else { sample & 0x3FF };
            *bytes = sample.to_le_bytes();
        }
    }
    plane
}

/// Moves deep samples to the upper bits, where the format has them there.
fn raise(row: &mut [u8], format: Format) {
    if format.is_deep && format.is_interleaved {
        let (samples, _) = row.as_chunks_mut();
        for bytes in samples {
            *bytes = (u16::from_le_bytes(*bytes) << UPPER).to_le_bytes();
        }
    }
}

/// So many samples of chroma without colour.
fn grey(samples: usize, bit_depth: u32, sample: usize) -> Vec<u8> {
    let middle = 1_u16 << (bit_depth - 1);
    middle.to_le_bytes()[..sample].repeat(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture whose samples are all different, of an odd size.
    fn picture(format: Format) -> Picture {
        let size = [5, 3];
        let mut next = 0_u16;
        let mut plane = |samples: u32| {
            let mut plane = Vec::new();
            for _ in 0..samples {
                next += 1;
                plane.extend_from_slice(&next.to_le_bytes()[..format.sample() as usize]);
            }
            plane
        };
        let planes = [plane(15), plane(6), plane(6)];
        let bit_depth = if format.is_deep { 10 } else { 8 };
        Picture { size, bit_depth, layout: Layout::I420, planes, time: 0, bytes: 0 }
    }

    #[test]
    fn a_picture_comes_back_from_memory_in_every_format() {
        for number in 1..=4 {
            let format = Format::of_number(number).unwrap();
            let (picture, pitch) = (picture(format), 16);
            let mut bytes = vec![0; format.bytes(picture.size, pitch).unwrap() as usize];
            to_memory(&picture, &mut bytes, pitch as usize, format);
            assert_eq!(from_memory(&bytes, picture.size, pitch as usize, format), picture);
        }
    }

    #[test]
    fn samples_lie_where_the_formats_have_them() {
        let lie = |number, pitch: u32| {
            let format = Format::of_number(number).unwrap();
            let picture = picture(format);
            let mut bytes = vec![0; format.bytes(picture.size, pitch).unwrap() as usize];
            to_memory(&picture, &mut bytes, pitch as usize, format);
            bytes
        };
        // Luma 1 to 15 in rows of 5, U 16 to 21 and V 22 to 27 in rows of 3.
        let nv12 = lie(1, 8);
        assert_eq!(&nv12[..16], [1, 2, 3, 4, 5, 0, 0, 0, 6, 7, 8, 9, 10, 0, 0, 0]);
        assert_eq!(&nv12[24..], [16, 22, 17, 23, 18, 24, 0, 0, 19, 25, 20, 26, 21, 27, 0, 0]);
        let i420 = lie(2, 8);
        assert_eq!(&i420[24..], [16, 17, 18, 0, 19, 20, 21, 0, 22, 23, 24, 0, 25, 26, 27, 0]);
        // In P010 a sample is in the upper 10 of 16 bits, in I010 in the lower.
        assert_eq!(&lie(3, 12)[..4], [0x40, 0, 0x80, 0]);
        assert_eq!(&lie(4, 12)[..4], [1, 0, 2, 0]);
    }

    #[test]
    fn a_picture_without_chroma_is_grey() {
        let grey = Picture {
            size: [2, 2],
            bit_depth: 8,
            layout: Layout::I400,
            planes: [vec![9; 4], vec![], vec![]],
            time: 0,
            bytes: 0,
        };
        let format = Format::of_number(1).unwrap();
        let mut bytes = vec![0; 6];
        to_memory(&grey, &mut bytes, 2, format);
        assert_eq!(bytes, [9, 9, 9, 9, 128, 128]);
    }
}
