// SPDX-License-Identifier: MIT OR Apache-2.0

//! A picture of a screen.

use anyhow::Context;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Pixels `0x00RRGGBB`, row by row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// As many as `width * height`.
    pub pixels: Vec<u32>,
}

impl Picture {
    /// A black picture.
    #[must_use]
    pub fn black(width: u32, height: u32) -> Self {
        Self { width, height, pixels: vec![0; width as usize * height as usize] }
    }

    /// Writes it as PNG, 8 bits a colour.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_png(&self, path: &Path) -> anyhow::Result<()> {
        let context = || format!("cannot write {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(context)?);
        let mut encoder = png::Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let bytes: Vec<u8> = self
            .pixels
            .iter()
            .flat_map(|pixel| {
                let [blue, green, red, _] = pixel.to_le_bytes();
                [red, green, blue]
            })
            .collect();
        let mut writer = encoder.write_header().with_context(context)?;
        writer.write_image_data(&bytes).with_context(context)?;
        writer.finish().with_context(context)?;
        file.flush().with_context(context)
    }
}
