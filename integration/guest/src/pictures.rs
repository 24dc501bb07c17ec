// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures as PNG: red, green and blue of 8 bits.

use std::io::Write;

/// The bytes of pixels in PNG, of words as in `X8R8G8B8`.
pub fn rgb(pixels: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let bytes = pixels.into_iter().flat_map(|pixel| {
        let [blue, green, red, _] = pixel.to_le_bytes();
        [red, green, blue]
    });
    bytes.collect()
}

/// What writes pictures of this width and height.
pub fn encoder<W: Write>(to: W, [width, height]: [u32; 2]) -> png::Encoder<'static, W> {
    let mut encoder = png::Encoder::new(to, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    encoder
}

/// Writes one picture.
///
/// # Errors
/// If it cannot be written, or has another number of bytes.
pub fn write_png(to: impl Write, size: [u32; 2], rgb: &[u8]) -> Result<(), png::EncodingError> {
    let mut writer = encoder(to, size).write_header()?;
    writer.write_image_data(rgb)?;
    writer.finish()
}

/// Writes an animation that is played again and again, whose pictures last `delay` seconds: a fraction.
///
/// # Errors
/// As [`write_png`]; if there is no picture.
pub fn write_loop<'a>(
    to: impl Write,
    size: [u32; 2],
    delay: (u16, u16),
    pictures: impl ExactSizeIterator<Item = &'a [u32]>,
) -> Result<(), png::EncodingError> {
    let mut encoder = encoder(to, size);
    encoder.set_animated(u32::try_from(pictures.len()).unwrap_or(u32::MAX), 0)?;
    encoder.set_frame_delay(delay.0, delay.1)?;
    let mut writer = encoder.write_header()?;
    for picture in pictures {
        writer.write_image_data(&rgb(picture.iter().copied()))?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn pixels_of_all_pictures_of_a_loop_come_back() {
        let pictures = [[0x0001_0203u32, 0xFF04_0506], [0x00FF_0000, 0x0000_00FF]];
        let mut file = Vec::new();
        write_loop(&mut file, [2, 1], (1, 30), pictures.iter().map(<[u32; 2]>::as_slice)).unwrap();
        let mut reader = png::Decoder::new(Cursor::new(&file)).read_info().unwrap();
        let control = *reader.info().animation_control().unwrap();
        assert_eq!((control.num_frames, control.num_plays), (2, 0));
        let mut bytes = [0; 6];
        reader.next_frame(&mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6]);
        reader.next_frame(&mut bytes).unwrap();
        assert_eq!(bytes, [255, 0, 0, 0, 0, 255]);
    }
}
