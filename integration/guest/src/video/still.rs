// SPDX-License-Identifier: MIT OR Apache-2.0

//! A picture of a video as PNG: BT.601 with the range of video, which most streams have.

use crate::pictures;
use bellhop_guest_umd::video::Picture;
use bellhop_protocol::control::video::VideoFormat;
use std::io::Write;

/// Writes a picture of I420 or I010.
pub(super) fn write_png(picture: &Picture, to: impl Write) -> Result<(), png::EncodingError> {
    pictures::write_png(to, picture.size, &pixels(picture))
}

fn pixels(picture: &Picture) -> Vec<u8> {
    let [width, height] = picture.size.map(|length| length as usize);
    let pitch = picture.format.least_pitch(picture.size[0]) as usize;
    let is_deep = picture.format == VideoFormat::I010;
    let sample = |at: usize| {
        let at = if is_deep { at * 2 } else { at };
        let low = picture.bytes.get(at).copied().unwrap_or(0);
        let high = picture.bytes.get(at + 1).copied().unwrap_or(0);
        // The upper 8 of 10 bits.
        f32::from(if is_deep { (u16::from_le_bytes([low, high]) >> 2) as u8 } else { low })
    };
    let pitch = if is_deep { pitch / 2 } else { pitch };
    let (u, v) = (pitch * height, pitch * height + pitch / 2 * height.div_ceil(2));
    let mut pixels = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            let chroma = y / 2 * (pitch / 2) + x / 2;
            let luma = 1.164 * (sample(y * pitch + x) - 16.0);
            let (blue, red) = (sample(u + chroma) - 128.0, sample(v + chroma) - 128.0);
            let colour =
                [luma + 1.596 * red, luma - 0.392 * blue - 0.813 * red, luma + 2.017 * blue];
            pixels.extend(colour.map(|channel| channel.round().clamp(0.0, 255.0) as u8));
        }
    }
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn black_white_and_red_are_what_bt_601_says() {
        let pixel = |format: VideoFormat, samples: [u16; 3]| {
            let bytes = [samples[0]; 4].into_iter().chain([samples[1], samples[2]]);
            let bytes = bytes.flat_map(|sample| {
                let sample = if format == VideoFormat::I010 { sample << 2 } else { sample };
                sample.to_le_bytes().into_iter().take(format.sample() as usize)
            });
            let picture = Picture { format, size: [2, 2], bytes: bytes.collect(), time: 0 };
            pixels(&picture)[9..].to_vec()
        };
        for format in [VideoFormat::I420, VideoFormat::I010] {
            assert_eq!(pixel(format, [16, 128, 128]), [0, 0, 0]);
            assert_eq!(pixel(format, [235, 128, 128]), [255, 255, 255]);
            // 100 % red of ITU-R BT.601: Y 81, Cb 90, Cr 240.
            assert_eq!(pixel(format, [81, 90, 240]), [254, 0, 0]);
        }
    }
}
