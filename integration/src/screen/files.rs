// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures as files.

use anyhow::Context;
use bellhop_rfb::Picture;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The bytes of a picture in PNG: red, green and blue of each pixel.
pub(super) fn rgb(picture: &Picture) -> Vec<u8> {
    let pixels = picture.pixels.iter();
    let bytes = pixels.flat_map(|pixel| {
        let [blue, green, red, _] = pixel.to_le_bytes();
        [red, green, blue]
    });
    bytes.collect()
}

/// Writes a picture as PNG, 8 bits a colour.
///
/// # Errors
/// If the file cannot be written.
pub fn write_png(picture: &Picture, path: &Path) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(context)?);
    let mut encoder = png::Encoder::new(&mut file, picture.width, picture.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header().with_context(context)?;
    writer.write_image_data(&rgb(picture)).with_context(context)?;
    writer.finish().with_context(context)?;
    file.flush().with_context(context)
}
