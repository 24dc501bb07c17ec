// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a VNC viewer sends.

#[cfg(test)]
mod seeds;

use bellhop_rfb::{
    DESKTOP_SIZE, Encoder, Hello, Message, Password, Picture, PixelFormat, RAW, Rectangle,
    RfbError, Wanted, read_message, shake_hands,
};
use flate2::{Decompress, FlushDecompress};
use std::io::{self, Read, Write};

/// Most pixels of a side of the screen: a tile and the beginning of the next.
const SIDE: u16 = 72;
/// Pixels of a side of a tile of ZRLE.
const TILE: u16 = 64;
/// Most messages of one input.
const MOST: usize = 48;
/// What no screen shows.
const UNKNOWN: u32 = u32::MAX;

/// A viewer that says these bytes, whatever it hears.
struct Says<'a>(&'a [u8], Vec<u8>);

impl Read for Says<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl Write for Says<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How a conversation went.
#[derive(Debug, Default)]
struct Talk {
    is_let_in: bool,
    /// Rectangles in each encoding.
    raw: usize,
    zrle: usize,
    sizes: usize,
    end: Option<RfbError>,
}

/// What the viewer knows by what it was sent.
struct Viewer {
    format: PixelFormat,
    encodings: Vec<i32>,
    /// The screen's pixels, [`UNKNOWN`] where nothing was sent.
    pixels: Vec<u32>,
    stream: Decompress,
}

/// A viewer looks at a screen that draws when a key is pressed, and has another size when all buttons are. The first
/// byte says whether it has a password, the next two how large it is; the rest is what the viewer sends.
pub fn viewer(data: &[u8]) {
    play(data);
}

fn play(data: &[u8]) -> Talk {
    let mut talk = Talk::default();
    let [has_password, width, height, said @ ..] = data else { return talk };
    let side = |side: u8| u16::from(side) % SIDE + 1;
    let (width, height) = (side(*width), side(*height));
    let password = Password::new("secret").filter(|_| has_password % 2 == 1);
    let mut connection = Says(said, Vec::new());
    let hello = || Hello { width, height, name: "screen".into() };
    if let Err(error) = shake_hands(&mut connection, password.as_ref(), hello) {
        talk.end = Some(error);
        return talk;
    }
    assert!(password.is_none(), "the answer to a challenge was guessed");
    talk.is_let_in = true;
    let result = look(&mut connection, Picture::black(width.into(), height.into()), &mut talk);
    talk.end = result.err();
    talk
}

/// Looks at the screen until the viewer has said all.
fn look(from: &mut impl Read, mut screen: Picture, talk: &mut Talk) -> Result<(), RfbError> {
    let size = |side: u32| u16::try_from(side).unwrap();
    let mut encoder = Encoder::new(size(screen.width), size(screen.height));
    let mut viewer = Viewer {
        format: PixelFormat::OWN,
        encodings: Vec::new(),
        pixels: vec![UNKNOWN; screen.pixels.len()],
        stream: Decompress::new(true),
    };
    let mut wanted = Wanted::default();
    let mut is_changed = true;
    for _ in 0..MOST {
        let message = read_message(from)?;
        match &message {
            Message::PixelFormat(format) => viewer.format = *format,
            Message::Encodings(encodings) => viewer.encodings.clone_from(encodings),
            _ => {}
        }
        if let Some(done) = wanted.add(message) {
            is_changed |= react(&mut screen, &done);
        }
        while let Some((part, incremental)) = wanted.take(&mut encoder, is_changed) {
            is_changed = false;
            match encoder.update(&screen, Rectangle::ALL, part, incremental) {
                Ok(Some(update)) => viewer.see(&update, &screen, part, talk),
                Ok(None) => {
                    viewer.assert_knows(&screen, part);
                    if incremental {
                        wanted.keep(part);
                    }
                }
                Err(error) => {
                    assert!(matches!(error, RfbError::Size), "{error}");
                    assert!(!viewer.encodings.contains(&DESKTOP_SIZE));
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// The screen changes by what a person does. Returns whether it does.
fn react(screen: &mut Picture, done: &Message) -> bool {
    match *done {
        Message::Key { down: true, keysym } => {
            // As many colours as tiles of each kind have, in some rows.
            let (colours, seed) = (keysym % 32 + 1, keysym >> 8);
            let width = screen.width as usize;
            let row = seed as usize % screen.height as usize;
            let some = screen.pixels.iter_mut().skip(row * width).take(40 * width);
            for (pixel, at) in some.zip(0u32..) {
                *pixel = ((at % colours + seed).wrapping_mul(0x0001_0307)) & 0x00ff_ffff;
            }
            true
        }
        Message::Pointer { buttons: u8::MAX, x, y } => {
            *screen = Picture::black((x % SIDE + 1).into(), (y % SIDE + 1).into());
            true
        }
        _ => false,
    }
}

/// The part of a rectangle that is on the screen, as its edges.
fn clip(part: Rectangle, screen: &Picture) -> [usize; 4] {
    let (width, height) = (screen.width as usize, screen.height as usize);
    let [x, y] = [part.x, part.y].map(usize::from);
    let (right, bottom) = (x + usize::from(part.width), y + usize::from(part.height));
    [x.min(width), y.min(height), right.min(width), bottom.min(height)]
}

impl Viewer {
    /// Asserts that a part of the screen is known as it is.
    fn assert_knows(&self, screen: &Picture, part: Rectangle) {
        let [left, top, right, bottom] = clip(part, screen);
        for y in top..bottom {
            let row = y * screen.width as usize;
            let row = row + left..row + right;
            assert!(self.pixels[row.clone()] == screen.pixels[row], "a change was not sent");
        }
    }

    /// Reads an update, which has what the screen shows.
    fn see(&mut self, update: &[u8], screen: &Picture, part: Rectangle, talk: &mut Talk) {
        let mut rest = update;
        let two = |bytes: [u8; 2]| u16::from_be_bytes(bytes);
        let [0, 0, high, low] = take(&mut rest) else { panic!("no update") };
        let count = two([high, low]);
        assert!(count > 0, "an update of nothing");
        for _ in 0..count {
            let [x0, x1, y0, y1, w0, w1, h0, h1, encoding @ ..]: [u8; 12] = take(&mut rest);
            let (x, y) = (two([x0, x1]), two([y0, y1]));
            let rectangle = Rectangle { x, y, width: two([w0, w1]), height: two([h0, h1]) };
            let encoding = i32::from_be_bytes(encoding);
            assert!(encoding == RAW || self.encodings.contains(&encoding), "{encoding}");
            if encoding == DESKTOP_SIZE {
                let size = (rectangle.width.into(), rectangle.height.into());
                assert_eq!(size, (screen.width, screen.height));
                assert_eq!((count, rest.len()), (1, 0), "no pixels go with another size");
                self.pixels = vec![UNKNOWN; screen.pixels.len()];
                talk.sizes += 1;
                return;
            }
            let [inner, outer] = [rectangle, part].map(|part| clip(part, screen));
            let is_inside = inner[0] >= outer[0]
                && inner[1] >= outer[1]
                && inner[2] <= outer[2]
                && inner[3] <= outer[3];
            assert!(is_inside, "{rectangle:?} is not in {part:?}");
            if encoding == RAW {
                talk.raw += 1;
                self.see_tile(&mut rest, screen, rectangle, PixelFormat::put, 0);
            } else {
                talk.zrle += 1;
                let length = u32::from_be_bytes(take(&mut rest)) as usize;
                let (data, behind) = rest.split_at(length);
                rest = behind;
                self.see_zrle(data, screen, rectangle);
            }
        }
        assert!(rest.is_empty(), "bytes behind an update");
        self.assert_knows(screen, part);
    }

    fn see_zrle(&mut self, data: &[u8], screen: &Picture, part: Rectangle) {
        // All pixels as they are, and a byte for each tile.
        let mut plain = Vec::with_capacity(4 * screen.pixels.len() + 64);
        let before = self.stream.total_in();
        self.stream.decompress_vec(data, &mut plain, FlushDecompress::Sync).unwrap();
        assert_eq!((self.stream.total_in() - before) as usize, data.len());
        let mut rest = &*plain;
        for y in (0..part.height).step_by(TILE.into()) {
            for x in (0..part.width).step_by(TILE.into()) {
                let (width, height) = (TILE.min(part.width - x), TILE.min(part.height - y));
                let tile = Rectangle { x: part.x + x, y: part.y + y, width, height };
                let [kind] = take(&mut rest);
                assert!(kind <= 16, "a tile of kind {kind}");
                self.see_tile(&mut rest, screen, tile, PixelFormat::put_compressed, kind.into());
            }
        }
        assert!(rest.is_empty(), "bytes behind the tiles");
    }

    /// Reads pixels with a palette of so many colours, or as they are.
    fn see_tile(
        &mut self,
        rest: &mut &[u8],
        screen: &Picture,
        tile: Rectangle,
        put: fn(&PixelFormat, u32, &mut Vec<u8>),
        colours: usize,
    ) {
        let mut expected = Vec::new();
        put(&self.format, 0, &mut expected);
        let bytes = expected.len();
        let (palette, behind) = rest.split_at(colours * bytes);
        *rest = behind;
        let bits = match colours {
            0 | 1 => 0,
            2 => 1,
            3 | 4 => 2,
            _ => 4,
        };
        let mut last = 0;
        for y in tile.y..tile.y + tile.height {
            let row = (usize::from(tile.width) * bits).div_ceil(8);
            let (indices, behind) = rest.split_at(row);
            *rest = behind;
            for x in 0..tile.width {
                let at = usize::from(y) * screen.width as usize + usize::from(tile.x + x);
                let pixel = screen.pixels[at];
                if std::mem::replace(&mut last, pixel) != pixel {
                    expected.clear();
                    put(&self.format, pixel, &mut expected);
                }
                let seen = if colours == 0 {
                    let (seen, behind) = rest.split_at(bytes);
                    *rest = behind;
                    seen
                } else {
                    // The leftmost pixel is in the highest bits.
                    let bit = usize::from(x) * bits;
                    let index = indices.get(bit / 8).map_or(0, |byte| {
                        usize::from(*byte) >> (8 - bits - bit % 8) & ((1 << bits) - 1)
                    });
                    &palette[index * bytes..][..bytes]
                };
                assert_eq!(seen, expected, "the pixel at {at}");
                self.pixels[at] = pixel;
            }
        }
    }
}

/// Takes the first bytes of a message.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (first, behind) = rest.split_first_chunk().expect("a whole message");
    *rest = behind;
    *first
}
