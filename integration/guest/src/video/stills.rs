// SPDX-License-Identifier: MIT OR Apache-2.0

//! A folder with a PNG for each picture of a video.

use super::{still, y4m};
use anyhow::Context;
use bellhop_guest_umd::video::Picture;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A folder with a PNG for each picture of a video.
#[derive(Debug)]
pub struct Stills {
    folder: PathBuf,
}

impl Stills {
    /// A folder, which is made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Writes the picture with this number.
    pub(super) fn write(&self, number: usize, picture: &Picture) -> anyhow::Result<()> {
        let path = self.folder.join(format!("frame-{number:05}.png"));
        let unwritable = || format!("cannot write {}", path.display());
        let file = File::create(&path).with_context(unwritable)?;
        still::write_png(picture, file).with_context(unwritable)
    }

    /// Writes all pictures of a YUV4MPEG2 file. One without a byte has none.
    ///
    /// # Errors
    /// When it is no such file, or a picture cannot be written.
    pub fn write_all(&self, file: &[u8]) -> anyhow::Result<()> {
        if file.is_empty() {
            return Ok(());
        }
        let (y4m::Header { size, format, .. }, pictures) =
            y4m::read(file).context("the pictures of the guest cannot be read")?;
        for (number, picture) in pictures.into_iter().enumerate() {
            let bytes = y4m::to_session(picture, format, size);
            self.write(number, &Picture { format, size, bytes, time: number as u64 })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_picture_of_a_file_has_its_png_and_none_none() {
        let folder = tempfile::tempdir().unwrap();
        let stills = Stills::create(&folder.path().join("new")).unwrap();
        stills.write_all(b"").unwrap();
        // Odd rows have padding in a session, and none in a file: the grey ends where the black begins.
        let picture = [126, 126, 16].repeat(3).into_iter().chain([128; 8]);
        let picture: Vec<u8> = picture.collect();
        let file = [b"YUV4MPEG2 W3 H3 F25:1\nFRAME\n", &picture[..], b"FRAME\n", &picture].concat();
        stills.write_all(&file).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&stills.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["frame-00000.png", "frame-00001.png"]);
        let png = File::open(stills.folder.join("frame-00001.png")).unwrap();
        let mut reader = png::Decoder::new(std::io::BufReader::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let row = [128, 128, 128, 128, 128, 128, 0, 0, 0];
        assert_eq!(pixels, [row, row, row].concat());
        assert!(stills.write_all(b"RIFF\n").is_err());
    }
}
