// SPDX-License-Identifier: MIT OR Apache-2.0

//! How a viewer wants pixels. Source: RFC 6143, section 7.4.

use super::RfbError;

/// Bytes of a pixel format.
pub const SIZE: usize = 16;

/// One colour of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Channel {
    /// The brightest value, 1 to 255: one less than a power of 2.
    max: u32,
    shift: u8,
}

impl Channel {
    /// Its bits in a pixel.
    fn mask(self) -> u32 {
        self.max << self.shift
    }

    /// The number of its bits.
    fn width(self) -> u32 {
        self.max.count_ones()
    }
}

/// A pixel format with true colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PixelFormat {
    bytes: usize,
    depth: u8,
    big_endian: bool,
    channels: [Channel; 3],
}

impl PixelFormat {
    /// The server's own: `0x00RRGGBB`, little-endian.
    pub const OWN: Self = Self {
        bytes: 4,
        depth: 24,
        big_endian: false,
        channels: [
            Channel { max: 255, shift: 16 },
            Channel { max: 255, shift: 8 },
            Channel { max: 255, shift: 0 },
        ],
    };

    /// Reads a format.
    ///
    /// # Errors
    /// If it has a palette, or colours that do not fit into a pixel beside each other.
    pub fn parse(bytes: &[u8; SIZE]) -> Result<Self, RfbError> {
        let [bits, depth, big_endian, true_colour, maxes @ .., _, _, _] = bytes;
        let [red_max @ .., green_max_0, green_max_1, blue_max_0, blue_max_1, red, green, blue] =
            maxes;
        let two = |high: u8, low: u8| u32::from(u16::from_be_bytes([high, low]));
        let maxes = [
            two(red_max[0], red_max[1]),
            two(*green_max_0, *green_max_1),
            two(*blue_max_0, *blue_max_1),
        ];
        let channel = |max: u32, shift: u8| {
            let width = (max + 1).trailing_zeros();
            let fits = u32::from(shift) + width <= u32::from(*bits);
            ((1..=255).contains(&max) && (max + 1).is_power_of_two() && fits)
                .then_some(Channel { max, shift })
        };
        let channels = [(maxes[0], *red), (maxes[1], *green), (maxes[2], *blue)]
            .map(|(max, shift)| channel(max, shift));
        let [Some(red), Some(green), Some(blue)] = channels else {
            return Err(RfbError::PixelFormat);
        };
        if ![8, 16, 32].contains(bits) || *true_colour == 0 {
            return Err(RfbError::PixelFormat);
        }
        let bytes = usize::from(bits / 8);
        let (depth, big_endian) = (*depth, *big_endian != 0);
        let format = Self { bytes, depth, big_endian, channels: [red, green, blue] };
        // Colours that share a bit cannot be told apart.
        if format.used().count_ones() == format.channels.map(Channel::width).iter().sum::<u32>() {
            Ok(format)
        } else {
            Err(RfbError::PixelFormat)
        }
    }

    /// The format as it is sent.
    #[must_use]
    pub fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..4].copy_from_slice(&[self.bytes as u8 * 8, self.depth, self.big_endian.into(), 1]);
        for (place, channel) in self.channels.iter().enumerate() {
            bytes[4 + 2 * place..][..2].copy_from_slice(&(channel.max as u16).to_be_bytes());
            bytes[10 + place] = channel.shift;
        }
        bytes
    }

    /// A pixel `0x00RRGGBB` in this format.
    fn convert(&self, pixel: u32) -> u32 {
        if *self == Self::OWN {
            return pixel;
        }
        let colours = [pixel >> 16 & 0xff, pixel >> 8 & 0xff, pixel & 0xff];
        let parts = self.channels.iter().zip(colours);
        // Rounded to the nearest; the brightest stays the brightest.
        parts.fold(0, |pixel, (to, colour)| pixel | ((colour * to.max + 127) / 255) << to.shift)
    }

    /// The bits that have a colour.
    fn used(&self) -> u32 {
        self.channels.iter().fold(0, |used, channel| used | channel.mask())
    }

    /// The bits that have none, of the largest pixels. They mean nothing (RFC 6143, section 7.4), but noVNC 1.3, which
    /// Debian 12 has, shows them as opacity: so they are set.
    fn unused(&self) -> u32 {
        if self.bytes == 4 { !self.used() } else { 0 }
    }

    /// Appends a pixel.
    pub fn put(&self, pixel: u32, to: &mut Vec<u8>) {
        let pixel = self.convert(pixel) | self.unused();
        if self.big_endian {
            to.extend_from_slice(&pixel.to_be_bytes()[4 - self.bytes..]);
        } else {
            to.extend_from_slice(&pixel.to_le_bytes()[..self.bytes]);
        }
    }

    /// Appends a compressed pixel of ZRLE: three bytes where all colours are in three (RFC 6143, section 7.7.5).
    pub fn put_compressed(&self, pixel: u32, to: &mut Vec<u8>) {
        let used = self.used();
        if self.bytes < 4 || self.depth > 24 || used & 0xff00_0000 != 0 && used & 0xff != 0 {
            return self.put(pixel, to);
        }
        let pixel = self.convert(pixel);
        let pixel = if used & 0xff00_0000 == 0 { pixel } else { pixel >> 8 };
        let [low, middle, high, _] = pixel.to_le_bytes();
        to.extend_from_slice(&if self.big_endian {
            [high, middle, low]
        } else {
            [low, middle, high]
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(format: PixelFormat, pixel: u32) -> (Vec<u8>, Vec<u8>) {
        let (mut whole, mut compressed) = (Vec::new(), Vec::new());
        format.put(pixel, &mut whole);
        format.put_compressed(pixel, &mut compressed);
        (whole, compressed)
    }

    #[test]
    fn the_servers_own_format_reads_back() {
        let bytes = PixelFormat::OWN.encode();
        assert_eq!(bytes, [32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]);
        assert_eq!(PixelFormat::parse(&bytes).unwrap(), PixelFormat::OWN);
    }

    #[test]
    fn pixels_are_as_the_viewer_wants_them() {
        let format = |bytes| PixelFormat::parse(&bytes).unwrap();
        assert_eq!(
            put(PixelFormat::OWN, 0x0012_3456),
            (vec![0x56, 0x34, 0x12, 0xff], vec![0x56, 0x34, 0x12])
        );
        let high = format([32, 24, 1, 1, 0, 255, 0, 255, 0, 255, 24, 16, 8, 0, 0, 0]);
        assert_eq!(put(high, 0x0012_3456), (vec![0x12, 0x34, 0x56, 0xff], vec![0x12, 0x34, 0x56]));
        let small = format([16, 16, 0, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0]);
        assert_eq!(put(small, 0x00ff_ffff).0, [0xff, 0xff]);
        assert_eq!(put(small, 0x00ff_0000), (vec![0x00, 0xf8], vec![0x00, 0xf8]));
        let tiny = format([8, 8, 0, 1, 0, 7, 0, 7, 0, 3, 0, 3, 6, 0, 0, 0]);
        assert_eq!(put(tiny, 0x0000_00ff).0, [0xc0]);
    }

    #[test]
    fn colours_that_share_bits_are_refused() {
        for shifts in [[24, 16, 24], [16, 16, 0], [16, 8, 1], [0, 0, 0], [17, 10, 0]] {
            let [red, green, blue] = shifts;
            let bytes = [32, 24, 1, 1, 0, 255, 0, 255, 0, 255, red, green, blue, 0, 0, 0];
            assert!(PixelFormat::parse(&bytes).is_err(), "{shifts:?}");
        }
    }

    #[test]
    fn formats_that_no_pixel_fits_into_are_refused() {
        for bytes in [
            [32, 24, 0, 0, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0],
            [24, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0],
            [32, 24, 0, 1, 0, 0, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0],
            [32, 24, 0, 1, 0, 254, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0],
            [32, 24, 0, 1, 255, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0],
            [32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 25, 8, 0, 0, 0, 0],
            [8, 8, 0, 1, 0, 7, 0, 7, 0, 3, 0, 3, 7, 0, 0, 0],
        ] {
            assert!(PixelFormat::parse(&bytes).is_err(), "{bytes:?}");
        }
    }
}
