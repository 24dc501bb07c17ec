// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures as files.

use anyhow::Context;
use bellhop_guest::pictures;
use bellhop_rfb::Picture;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a picture as PNG, 8 bits a colour.
///
/// # Errors
/// If the file cannot be written.
pub fn write_png(picture: &Picture, path: &Path) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(context)?);
    let (size, pixels) = ([picture.width, picture.height], picture.pixels.iter().copied());
    pictures::write_png(&mut file, size, &pictures::rgb(pixels)).with_context(context)?;
    file.flush().with_context(context)
}
