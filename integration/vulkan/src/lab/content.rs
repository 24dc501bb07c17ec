// SPDX-License-Identifier: MIT OR Apache-2.0

//! What images hold, as the processor sees it.

use super::form::Form;
use super::image::Image;
use super::{Buffer, Gpu, Outcome};

/// Words as bytes.
pub(crate) fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Gpu<'_> {
    /// A buffer with these bytes, and zeroes up to the next word.
    pub(crate) fn buffer_of_bytes(&self, bytes: &[u8]) -> Outcome<Buffer<'_>> {
        let word = |chunk: &[u8]| {
            let byte = |(place, byte): (usize, &u8)| u32::from(*byte) << (8 * place);
            chunk.iter().enumerate().map(byte).sum()
        };
        self.buffer_of(&bytes.chunks(4).map(word).collect::<Vec<u32>>())
    }

    /// An image in `GENERAL` whose levels hold these bytes. Levels that are not named hold anything.
    pub(crate) fn image_of(&self, form: Form, levels: &[Vec<u8>]) -> Outcome<Image> {
        let image = self.image(form)?;
        self.put_levels(image, levels)?;
        Ok(image)
    }

    /// Stores bytes in the levels of a new image, which is in `GENERAL` then.
    pub(crate) fn put_levels(&self, image: Image, levels: &[Vec<u8>]) -> Outcome {
        let buffers: Outcome<Vec<_>> =
            levels.iter().map(|bytes| self.buffer_of_bytes(bytes)).collect();
        let buffers = buffers?;
        self.run(|commands| {
            commands.ready(&[image]);
            for (level, buffer) in (0..).zip(&buffers) {
                commands.to_image(buffer, image, &[image.form.whole(level)]);
            }
            commands.barrier();
        })
    }

    /// The bytes of a level of an image that is in `GENERAL`.
    pub(crate) fn level_bytes(&self, image: Image, level: u32) -> Outcome<Vec<u8>> {
        let length = image.form.bytes(level);
        let buffer = self.buffer(length.div_ceil(4))?;
        self.run(|commands| {
            commands.barrier().out_of_image(image, &buffer, &[image.form.whole(level)]).barrier();
        })?;
        let mut bytes = bytes_of(&buffer.read());
        bytes.truncate(length);
        Ok(bytes)
    }

    /// The words of a level of an image that is in `GENERAL`.
    pub(crate) fn level_words(&self, image: Image, level: u32) -> Outcome<Vec<u32>> {
        let bytes = self.level_bytes(image, level)?;
        Ok(bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }
}
