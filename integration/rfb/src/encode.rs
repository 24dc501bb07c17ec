// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a viewer is sent: the parts of the screen that changed, plain or in ZRLE.
//!
//! Source: RFC 6143, sections 7.6.1 and 7.7.

use super::{Picture, PixelFormat, Rectangle, RfbError};
use flate2::{Compress, Compression, FlushCompress, Status};
use std::io;

/// The encoding of plain pixels, which every viewer knows.
pub const RAW: i32 = 0;
/// The encoding of compressed tiles.
pub const ZRLE: i32 = 16;
/// The encoding of no pixels: the screen has another size from now on.
pub const DESKTOP_SIZE: i32 = -223;

/// Pixels of a side of a tile, of damage and of ZRLE alike.
const TILE: u16 = 64;
/// Most colours of a tile that is sent with a palette.
const PALETTE: usize = 16;
/// What a viewer shows where nothing was sent yet: no pixel has this value.
const UNKNOWN: u32 = u32::MAX;

/// A viewer's picture, and how it wants what changes.
#[derive(Debug)]
pub struct Encoder {
    /// How it wants pixels.
    pub format: PixelFormat,
    knows_zrle: bool,
    follows_size: bool,
    /// What it has.
    sent: Picture,
    /// Outside of this part it has what the screen shows.
    stale: Rectangle,
    /// One stream for the whole connection.
    stream: Compress,
}

impl Encoder {
    /// A viewer that was told of a screen of this size, and has nothing of it yet.
    #[must_use]
    pub fn new(width: u16, height: u16) -> Self {
        Self {
            format: PixelFormat::OWN,
            knows_zrle: false,
            follows_size: false,
            sent: unknown(width.into(), height.into()),
            stale: Rectangle::ALL,
            stream: Compress::new(Compression::fast(), true),
        }
    }

    /// The viewer knows these encodings.
    pub fn set_encodings(&mut self, encodings: &[i32]) {
        self.knows_zrle = encodings.contains(&ZRLE);
        self.follows_size = encodings.contains(&DESKTOP_SIZE);
    }

    /// An update of a part of the viewer's picture, to what the screen shows; `None` if there is nothing to send. All of
    /// the part is sent unless the request is incremental: then only `changed` is compared, outside of which the picture is
    /// that of the update before, and what the viewer was not sent yet.
    ///
    /// # Errors
    /// If the screen has another size now, and the viewer cannot follow.
    pub fn update(
        &mut self,
        picture: &Picture,
        changed: Rectangle,
        part: Rectangle,
        incremental: bool,
    ) -> Result<Option<Vec<u8>>, RfbError> {
        self.stale = self.stale.with(changed);
        if (picture.width, picture.height) != (self.sent.width, self.sent.height) {
            if !self.follows_size {
                return Err(RfbError::Size);
            }
            self.sent = unknown(picture.width, picture.height);
            self.stale = Rectangle::ALL;
            let size = |side: u32| u16::try_from(side).unwrap_or(u16::MAX);
            let (width, height) = (size(picture.width), size(picture.height));
            let mut update = head(1);
            put_rectangle(Rectangle { x: 0, y: 0, width, height }, DESKTOP_SIZE, &mut update);
            // The next update has all of it, even if the viewer asks for changes alone, as noVNC does.
            return Ok(Some(update));
        }
        let rectangles = self.damage(picture, part, incremental);
        let is_all = (part.x, part.y) == (0, 0)
            && u32::from(part.width) >= picture.width
            && u32::from(part.height) >= picture.height;
        if is_all {
            self.stale = Rectangle::NONE;
        }
        if rectangles.is_empty() {
            return Ok(None);
        }
        let mut update = head(rectangles.len());
        for rectangle in rectangles {
            let rows = rows_of(picture, rectangle);
            if self.knows_zrle {
                put_rectangle(rectangle, ZRLE, &mut update);
                let data = self.zrle(picture, rectangle)?;
                update.extend((data.len() as u32).to_be_bytes());
                update.extend(data);
            } else {
                put_rectangle(rectangle, RAW, &mut update);
                rows.clone().flatten().for_each(|pixel| self.format.put(*pixel, &mut update));
            }
            let width = self.sent.width as usize;
            for (row, place) in rows.zip(usize::from(rectangle.y)..) {
                let start = place * width + usize::from(rectangle.x);
                if let Some(sent) = self.sent.pixels.get_mut(start..start + row.len()) {
                    sent.copy_from_slice(row);
                }
            }
        }
        Ok(Some(update))
    }

    /// The parts that differ from what the viewer has: rows of tiles, of which neighbours are joined.
    fn damage(&self, picture: &Picture, part: Rectangle, incremental: bool) -> Vec<Rectangle> {
        let clip = |start: u16, length: u16, all: u32| {
            let all = u16::try_from(all).unwrap_or(u16::MAX);
            let start = start.min(all);
            (start, start.saturating_add(length).min(all))
        };
        let (left, right) = clip(part.x, part.width, picture.width);
        let (top, bottom) = clip(part.y, part.height, picture.height);
        let mut damage: Vec<Rectangle> = Vec::new();
        for y in (top..bottom).step_by(TILE.into()) {
            let height = TILE.min(bottom - y);
            for x in (left..right).step_by(TILE.into()) {
                let tile = Rectangle { x, y, width: TILE.min(right - x), height };
                let is_known = || {
                    !tile.meets(self.stale) || rows_of(picture, tile).eq(rows_of(&self.sent, tile))
                };
                if incremental && is_known() {
                    continue;
                }
                match damage.last_mut() {
                    Some(last) if last.y == y && last.x + last.width == x => {
                        last.width += tile.width
                    }
                    _ => damage.push(tile),
                }
            }
        }
        damage
    }

    fn zrle(&mut self, picture: &Picture, part: Rectangle) -> Result<Vec<u8>, RfbError> {
        let mut plain = Vec::new();
        for y in (0..part.height).step_by(TILE.into()) {
            for x in (0..part.width).step_by(TILE.into()) {
                let (width, height) = (TILE.min(part.width - x), TILE.min(part.height - y));
                let tile = Rectangle { x: part.x + x, y: part.y + y, width, height };
                put_tile(&self.format, picture, tile, &mut plain);
            }
        }
        let mut compressed = Vec::new();
        let start = self.stream.total_in();
        loop {
            // Room for all of it, and for the mark at the end.
            compressed.reserve(plain.len() / 2 + 64);
            let done = usize::try_from(self.stream.total_in() - start).unwrap_or(usize::MAX);
            let rest = plain.get(done..).unwrap_or_default();
            let status = self.stream.compress_vec(rest, &mut compressed, FlushCompress::Sync);
            let status = status.map_err(io::Error::other)?;
            let done = usize::try_from(self.stream.total_in() - start).unwrap_or(usize::MAX);
            if status != Status::Ok
                || done >= plain.len() && compressed.len() < compressed.capacity()
            {
                return Ok(compressed);
            }
        }
    }
}

fn unknown(width: u32, height: u32) -> Picture {
    let mut picture = Picture::black(width, height);
    picture.pixels.fill(UNKNOWN);
    picture
}

/// Rows of a part of a picture that is inside of it.
fn rows_of(picture: &Picture, part: Rectangle) -> impl Iterator<Item = &[u32]> + Clone {
    let (x, width) = (usize::from(part.x), usize::from(part.width));
    let rows = picture.pixels.chunks_exact((picture.width as usize).max(1));
    let rows = rows.skip(part.y.into()).take(part.height.into());
    rows.map(move |row| row.get(x..x + width).unwrap_or_default())
}

/// The begin of an update with this many rectangles.
fn head(rectangles: usize) -> Vec<u8> {
    let [high, low] = u16::try_from(rectangles).unwrap_or(u16::MAX).to_be_bytes();
    vec![0, 0, high, low]
}

fn put_rectangle(part: Rectangle, encoding: i32, to: &mut Vec<u8>) {
    let sides = [part.x, part.y, part.width, part.height];
    to.extend(sides.iter().flat_map(|side| side.to_be_bytes()));
    to.extend(encoding.to_be_bytes());
}

/// A tile of ZRLE: of one colour, with a palette, or plain.
fn put_tile(format: &PixelFormat, picture: &Picture, tile: Rectangle, to: &mut Vec<u8>) {
    let mut palette: Vec<u32> = Vec::new();
    for pixel in rows_of(picture, tile).flatten() {
        if !palette.contains(pixel) {
            palette.push(*pixel);
            if palette.len() > PALETTE {
                break;
            }
        }
    }
    if palette.len() > PALETTE {
        to.push(0);
        rows_of(picture, tile).flatten().for_each(|pixel| format.put_compressed(*pixel, to));
        return;
    }
    to.push(palette.len() as u8);
    palette.iter().for_each(|pixel| format.put_compressed(*pixel, to));
    let bits = match palette.len() {
        0 | 1 => return,
        2 => 1,
        3 | 4 => 2,
        _ => 4,
    };
    for row in rows_of(picture, tile) {
        for pixels in row.chunks(8 / bits) {
            // The leftmost pixel is in the highest bits; a row begins with a byte.
            let index =
                |pixel: &u32| palette.iter().position(|colour| colour == pixel).unwrap_or(0);
            let places = pixels.iter().zip(1..);
            to.push(
                places.fold(0, |byte, (pixel, place)| {
                    byte | (index(pixel) << (8 - bits * place)) as u8
                }),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Decompress, FlushDecompress};

    const ALL: Rectangle = Rectangle::ALL;

    fn picture(pixels: impl Fn(u32, u32) -> u32) -> Picture {
        let mut picture = Picture::black(130, 70);
        for (pixel, at) in picture.pixels.iter_mut().zip(0..) {
            *pixel = pixels(at % 130, at / 130);
        }
        picture
    }

    /// The rectangles of an update, each with its encoding and its data.
    fn rectangles(update: &[u8], raw: bool) -> Vec<(Rectangle, Vec<u8>)> {
        let two = |at: usize| u16::from_be_bytes([update[at], update[at + 1]]);
        let mut at = 4;
        let read = (0..two(2)).map(|_| {
            let part =
                Rectangle { x: two(at), y: two(at + 2), width: two(at + 4), height: two(at + 6) };
            at += 12;
            let mut length = usize::from(part.width) * usize::from(part.height) * 4;
            if !raw {
                length = u32::from_be_bytes(*update[at..].first_chunk().unwrap()) as usize;
                at += 4;
            }
            at += length;
            (part, update[at - length..at].to_vec())
        });
        let read = read.collect();
        assert_eq!(at, update.len());
        read
    }

    #[test]
    fn only_what_differs_is_sent_and_neighbours_together() {
        let mut encoder = Encoder::new(130, 70);
        // Of the first update nothing is known to the viewer, not even what is black.
        for incremental in [true, false] {
            let update =
                encoder.update(&picture(|_, _| 0), ALL, ALL, incremental).unwrap().unwrap();
            assert_eq!(rectangles(&update, true).len(), 2, "two rows of tiles");
        }
        assert_eq!(encoder.update(&picture(|_, _| 0), ALL, ALL, true).unwrap(), None);
        // The last pixel of the first tile, and the first of the second.
        let changed =
            picture(|x, y| if y == 63 && (63..65).contains(&x) { 0x0001_0203 } else { 0 });
        let update = encoder.update(&changed, ALL, ALL, true).unwrap().unwrap();
        let [(part, pixels)] = &*rectangles(&update, true) else { panic!() };
        assert_eq!(*part, Rectangle { x: 0, y: 0, width: 128, height: 64 });
        assert_eq!(pixels[4 * (63 * 128 + 63)..][..8], [3, 2, 1, 0xff, 3, 2, 1, 0xff]);
        assert_eq!(encoder.update(&changed, ALL, ALL, true).unwrap(), None);
    }

    #[test]
    fn only_what_changed_is_compared_and_what_was_not_asked_for_is_not_forgotten() {
        let mut encoder = Encoder::new(130, 70);
        let first = Rectangle { x: 3, y: 3, width: 2, height: 2 };
        let second = Rectangle { x: 100, y: 3, width: 1, height: 1 };
        encoder.update(&picture(|_, _| 0), ALL, ALL, true).unwrap();
        let other = picture(|_, _| 5);
        // Of the four tiles and two narrow ones, one was said to have changed.
        let update = encoder.update(&other, first, ALL, true).unwrap().unwrap();
        let sent = rectangles(&update, true);
        assert_eq!(sent[0].0, Rectangle { x: 0, y: 0, width: 64, height: 64 });
        assert_eq!(sent.len(), 1);
        assert_eq!(encoder.update(&other, Rectangle::NONE, ALL, true).unwrap(), None);
        // A viewer that looks at another part for a while is sent the change when it looks there.
        let elsewhere = Rectangle { x: 0, y: 64, width: 64, height: 6 };
        assert_eq!(encoder.update(&other, second, elsewhere, true).unwrap(), None);
        let update = encoder.update(&other, Rectangle::NONE, ALL, true).unwrap().unwrap();
        let parts: Vec<_> = rectangles(&update, true).into_iter().map(|(part, _)| part).collect();
        assert_eq!(parts, [Rectangle { x: 64, y: 0, width: 64, height: 64 }]);
    }

    #[test]
    fn a_screen_of_another_size_is_said_to_who_follows() {
        let mut encoder = Encoder::new(64, 64);
        assert!(matches!(encoder.update(&picture(|_, _| 0), ALL, ALL, true), Err(RfbError::Size)));
        encoder.set_encodings(&[DESKTOP_SIZE]);
        let update = encoder.update(&picture(|_, _| 0), ALL, ALL, true).unwrap().unwrap();
        assert_eq!(update, [0, 0, 0, 1, 0, 0, 0, 0, 0, 130, 0, 70, 0xff, 0xff, 0xff, 0x21]);
        // What the viewer shows now is not defined: all is sent, the black too.
        let update = encoder.update(&picture(|_, _| 0), ALL, ALL, true).unwrap().unwrap();
        let sent = rectangles(&update, true).into_iter().map(|(_, pixels)| pixels.len());
        assert_eq!(sent.sum::<usize>(), 130 * 70 * 4);
    }

    /// The pixels of tiles, as a viewer reads them.
    fn tiles(part: Rectangle, data: &[u8]) -> Vec<(u16, u16, u32)> {
        let mut at = 0;
        let mut pixels = Vec::new();
        let colour = |at: &mut usize| {
            *at += 3;
            u32::from(data[*at - 3])
                | u32::from(data[*at - 2]) << 8
                | u32::from(data[*at - 1]) << 16
        };
        for y in (0..part.height).step_by(64) {
            for x in (0..part.width).step_by(64) {
                let (width, height) = (64.min(part.width - x), 64.min(part.height - y));
                let kind = usize::from(data[at]);
                at += 1;
                let palette: Vec<_> = (0..kind).map(|_| colour(&mut at)).collect();
                for row in 0..height {
                    let bits = match kind {
                        0 | 1 => 0,
                        2 => 1,
                        3 | 4 => 2,
                        _ => 4,
                    };
                    let start = at;
                    for column in 0..width {
                        let pixel = match kind {
                            0 => colour(&mut at),
                            1 => palette[0],
                            _ => {
                                let bit = usize::from(column) * bits;
                                at = start + bit / 8 + 1;
                                palette[usize::from(data[start + bit / 8] >> (8 - bits - bit % 8))
                                    & ((1 << bits) - 1)]
                            }
                        };
                        pixels.push((part.x + x + column, part.y + y + row, pixel));
                    }
                }
            }
        }
        assert_eq!(at, data.len());
        pixels
    }

    #[test]
    fn zrle_has_the_pixels_of_every_kind_of_tile_in_one_stream() {
        let mut encoder = Encoder::new(130, 70);
        encoder.set_encodings(&[ZRLE]);
        let mut stream = Decompress::new(true);
        for colours in [1, 2, 3, 5, 16, 17, 9000] {
            let wanted = picture(|x, y| ((x * 31 + y * 17) % colours * 0x0001_0307) & 0x00ff_ffff);
            let update = encoder.update(&wanted, ALL, ALL, false).unwrap().unwrap();
            let mut seen = 0;
            for (part, data) in rectangles(&update, false) {
                let mut plain = Vec::with_capacity(1 << 20);
                stream.decompress_vec(&data, &mut plain, FlushDecompress::Sync).unwrap();
                for (x, y, pixel) in tiles(part, &plain) {
                    assert_eq!(
                        pixel,
                        wanted.pixels[usize::from(y) * 130 + usize::from(x)],
                        "{colours}: {x}, {y}"
                    );
                    seen += 1;
                }
            }
            assert_eq!(seen, 130 * 70);
        }
    }
}
