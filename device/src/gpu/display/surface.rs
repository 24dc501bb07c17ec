// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures in a guest's memory. All that is read there is pixels: any bytes are a picture.

use super::cells::Grid;
use crate::gpu::memory::address_map::AddressMap;
use crate::gpu::memory::drawn::Picture;
use bellhop_host_kmd::hardware::PhysicalAddress;
use bellhop_protocol::handoff::drawing::Marks;
use bellhop_protocol::pixel_format::PixelFormat;
use vm_memory::VolatileSlice;
use zerocopy::IntoBytes;

/// A picture in one piece of a guest's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surface {
    /// Its first byte.
    pub address: PhysicalAddress,
    /// Bytes from a row to the next.
    pub pitch: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// How a pixel is encoded.
    pub format: PixelFormat,
}

/// The readable rows of a [`Surface`].
#[derive(Debug)]
pub struct Rows<'m> {
    bytes: VolatileSlice<'m>,
    surface: Surface,
    row: usize,
}

impl Surface {
    /// Bytes of a row.
    fn row(&self) -> Option<u32> {
        self.format.bytes()?.checked_mul(self.width)
    }

    /// It, as engines see where they draw; `None` unless its beginning is there. In another snapshot it may be elsewhere: then
    /// what engines draw is found by looking.
    pub fn drawn(&self, memory: &AddressMap) -> Option<Picture> {
        let pixel = u64::from(self.format.bytes()?);
        let (width, height) = Grid::of((self.width, self.height)).cell();
        Some(Picture {
            place: memory.locate_bytes(self.address, 1)?,
            pitch: self.pitch.into(),
            row: u64::from(self.row()?.max(1)),
            height: u64::from(self.height.max(1)),
            cell: (u64::from(width) * pixel, height.into()),
            marks: Marks::new(),
        })
    }

    /// Its rows in a snapshot of the guest's memory; `None` unless all of it is there. The control plane has checked
    /// this before; memory may have gone since.
    pub fn rows<'m>(&self, memory: &'m AddressMap) -> Option<Rows<'m>> {
        let row = usize::try_from(self.row()?).ok()?;
        let pitch = usize::try_from(self.pitch).ok().filter(|pitch| *pitch >= row)?;
        let before_last = usize::try_from(self.height).ok()?.checked_sub(1)?;
        let length = pitch.checked_mul(before_last)?.checked_add(row)?;
        let place = memory.locate_bytes(self.address, u64::try_from(length).ok()?)?;
        Some(Rows { bytes: memory.slice(place, length)?, surface: *self, row })
    }
}

impl Rows<'_> {
    /// Reads a row's bytes; none of a row that does not exist.
    pub fn bytes(&self, row: u32, into: &mut Vec<u8>) {
        let start = (self.surface.pitch as usize).saturating_mul(row as usize);
        into.resize(self.row, 0);
        match self.bytes.subslice(start, self.row) {
            Ok(bytes) => drop(bytes.copy_to(into.as_mut_slice())),
            Err(_) => into.clear(),
        }
    }

    /// Reads pixels of a row, from a column on, as words `0xAARRGGBB`, with the alpha as it is in memory, or 0 for formats
    /// without. Pixels that do not exist are black.
    pub fn read(&self, row: u32, from: u32, words: &mut [u32]) {
        let pixel = self.row / (self.surface.width as usize).max(1);
        let (before, length) = (pixel.saturating_mul(from as usize), pixel * words.len());
        let start = (self.surface.pitch as usize).saturating_mul(row as usize);
        let bytes = self.bytes.subslice(start.saturating_add(before), length).ok();
        let is_inside = before.saturating_add(length) <= self.row;
        let Some(bytes) = bytes.filter(|_| is_inside) else { return words.fill(0) };
        if self.surface.format == PixelFormat::R5G6B5 {
            let mut pixels = vec![0u16; words.len()];
            bytes.copy_to(pixels.as_mut_bytes());
            for (word, pixel) in words.iter_mut().zip(pixels) {
                *word = of_r5g6b5(u16::from_le(pixel));
            }
            return;
        }
        bytes.copy_to(words.as_mut_bytes());
        let format = self.surface.format;
        for word in words {
            let pixel = u32::from_le(*word);
            *word = match format {
                PixelFormat::A8R8G8B8 => pixel,
                PixelFormat::X2R10G10B10 => of_x2r10g10b10(pixel),
                _ => pixel & 0x00ff_ffff,
            };
        }
    }
}

/// The brightest value of 5 and of 6 bits is the brightest of 8: the highest bits are repeated.
fn of_r5g6b5(pixel: u16) -> u32 {
    let pixel = u32::from(pixel);
    let (red, green, blue) = (pixel >> 11, pixel >> 5 & 0x3f, pixel & 0x1f);
    let five = |value: u32| value << 3 | value >> 2;
    five(red) << 16 | (green << 2 | green >> 4) << 8 | five(blue)
}

/// The 8 highest bits of 10.
fn of_x2r10g10b10(pixel: u32) -> u32 {
    let ten = |shift: u32| pixel >> shift >> 2 & 0xff;
    ten(20) << 16 | ten(10) << 8 | ten(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn black_and_white_are_black_and_white_in_every_format() {
        assert_eq!((of_r5g6b5(0), of_r5g6b5(0xffff)), (0, 0x00ff_ffff));
        assert_eq!((of_x2r10g10b10(0xc000_0000), of_x2r10g10b10(0x3fff_ffff)), (0, 0x00ff_ffff));
    }

    #[test]
    fn channels_are_where_their_formats_have_them() {
        assert_eq!(
            [of_r5g6b5(0xf800), of_r5g6b5(0x07e0), of_r5g6b5(0x001f)],
            [0xff_0000, 0xff00, 0xff]
        );
        assert_eq!(of_r5g6b5(8 << 11 | 16 << 5 | 4), 0x42_4121);
        assert_eq!(of_x2r10g10b10(0x200 << 20 | 0x100 << 10 | 0x004), 0x80_4001);
    }
}
