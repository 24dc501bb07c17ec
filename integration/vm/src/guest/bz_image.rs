// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel in a compressed image, as Linux's `Documentation/arch/x86/boot.rst` lays it out.
//!
//! A guest that starts without decompressing it saves seconds where no processor executes it.

use anyhow::Context;
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;

/// How many sectors before the protected-mode code there are, without the first.
const SETUP_SECTORS: usize = 0x1f1;
/// The number for zero sectors.
const USUAL_SECTORS: u8 = 4;
const SECTOR: usize = 512;
/// What marks a header, and its place.
const MARK: (usize, &[u8]) = (0x202, b"HdrS");
/// The version of the header, of which the place of the kernel is a part since 2.8.
const VERSION: usize = 0x206;
const FIRST_VERSION: u16 = 0x208;
/// Where the compressed kernel begins, from the protected-mode code on, and how long it is.
const PAYLOAD: [usize; 2] = [0x248, 0x24c];
/// How a kernel begins that is compressed as Debian's are: by Zstandard (RFC 8878, section 3.1.1).
const ZSTANDARD: &[u8] = &0xfd2f_b528_u32.to_le_bytes();

/// The ELF file in an image, or `None` if the image is of another kind or compressed in another way.
///
/// # Errors
/// When the image is damaged.
pub fn kernel(image: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(compressed) = payload(image).filter(|payload| payload.starts_with(ZSTANDARD)) else {
        return Ok(None);
    };
    let mut kernel = Vec::new();
    StreamingDecoder::new(compressed)
        .map_err(std::io::Error::other)
        // The size behind it is not a part of it.
        .and_then(|mut decoder| decoder.read_to_end(&mut kernel))
        .context("cannot decompress the kernel")?;
    Ok(Some(kernel))
}

/// The compressed kernel.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let (at, mark) = MARK;
    let has_payload = image.get(at..)?.starts_with(mark)
        && u16::from_le_bytes(bytes(image, VERSION)?) >= FIRST_VERSION;
    let sectors = match *image.get(SETUP_SECTORS)? {
        0 => USUAL_SECTORS,
        sectors => sectors,
    };
    let [offset, length] = PAYLOAD.map(|at| bytes(image, at).map(u32::from_le_bytes));
    let start = (usize::from(sectors) + 1) * SECTOR + usize::try_from(offset?).ok()?;
    let end = start.checked_add(usize::try_from(length?).ok()?)?;
    image.get(start..end).filter(|_| has_payload)
}

fn bytes<const SIZE: usize>(image: &[u8], at: usize) -> Option<[u8; SIZE]> {
    image.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    const KERNEL: &[u8] = b"\x7fELF and a kernel";

    /// An image with two sectors before the code, and three bytes of code before the kernel.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * SECTOR + 3];
        image[SETUP_SECTORS] = 2;
        image[0x202..0x208].copy_from_slice(b"HdrS\x0f\x02");
        image[0x248] = 3;
        image[0x24c..0x250].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        image.extend(payload);
        image.extend(b"and more");
        image
    }

    /// A compressed kernel, and its size behind it.
    fn compressed() -> Vec<u8> {
        let mut payload = compress_to_vec(KERNEL, CompressionLevel::Fastest);
        payload.extend(u32::try_from(KERNEL.len()).unwrap().to_le_bytes());
        payload
    }

    #[test]
    fn the_kernel_in_an_image_is_decompressed() {
        assert_eq!(kernel(&image(&compressed())).unwrap().unwrap(), KERNEL);
    }

    #[test]
    fn another_image_and_another_compression_are_left_as_they_are() {
        assert_eq!(kernel(KERNEL).unwrap(), None);
        assert_eq!(kernel(&image(b"\xfd7zXZ\0 and so on")).unwrap(), None);
        let mut old = image(&compressed());
        old[VERSION] = 7;
        assert_eq!(kernel(&old).unwrap(), None);
        let mut longer = image(&compressed());
        longer[0x24f] = 1;
        assert_eq!(kernel(&longer).unwrap(), None);
    }

    #[test]
    fn a_kernel_that_ends_early_is_an_error() {
        let compressed = compressed();
        assert!(kernel(&image(&compressed[..compressed.len() / 2])).is_err());
    }
}
