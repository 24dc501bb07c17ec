// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a monitor shows: a source's picture with the pointer over it, rotated, scaled, on black.

use bellhop_protocol::control::display::{Rotation, Scaling};
use bellhop_protocol::rect::Rect;
use std::ops::Range;
use std::sync::Arc;

/// How a source's picture gets on a target's screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Width and height of the source.
    pub source: (u32, u32),
    /// Width and height of the target.
    pub target: (u32, u32),
    /// What is done where the two differ.
    pub scaling: Scaling,
    /// How far the picture is turned, counter-clockwise.
    pub rotation: Rotation,
}

/// The pointer over a source's picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    /// Pixels of a row.
    pub width: usize,
    /// Its pixels, `0xAARRGGBB`, with straight alpha, row by row.
    pub words: Arc<[u32]>,
    /// Position of its upper left corner on the source's picture, which may be outside of it.
    pub at: (i64, i64),
}

impl Pointer {
    /// The part of a source of this size that it lies over, if any.
    pub fn part(&self, size: (u32, u32)) -> Option<Rect> {
        let height = self.words.len().div_ceil(self.width.max(1));
        let within = |start: i64, length: usize, all: u32| {
            let clip = |place: i64| u32::try_from(place.clamp(0, all.into())).unwrap_or(0);
            (clip(start), clip(start.saturating_add(length as i64)))
        };
        let (left, right) = within(self.at.0, self.width, size.0);
        let (top, bottom) = within(self.at.1, height, size.1);
        (left < right && top < bottom).then_some(Rect { left, top, right, bottom })
    }

    /// Puts the pointer over a row of the source, of which `words` are the pixels from a column on.
    pub fn put(&self, row: u32, from: u32, words: &mut [u32]) {
        let (left, top) = (self.at.0 - i64::from(from), self.at.1);
        let Ok(own) = usize::try_from(i64::from(row) - top) else { return };
        let Some(own) = self.words.chunks_exact(self.width.max(1)).nth(own) else { return };
        let skipped = usize::try_from(-left).unwrap_or(0);
        let first = usize::try_from(left).unwrap_or(0);
        let under = words.get_mut(first..).unwrap_or_default();
        for (word, over) in under.iter_mut().zip(own.get(skipped..).unwrap_or_default()) {
            *word = blend(*over, *word);
        }
    }
}

/// A pixel with straight alpha over an opaque one, rounded to the nearest.
fn blend(over: u32, under: u32) -> u32 {
    let alpha = over >> 24;
    let channel = |shift: u32| {
        let (over, under) = (over >> shift & 0xff, under >> shift & 0xff);
        ((over * alpha + under * (255 - alpha) + 127) / 255) << shift
    };
    channel(16) | channel(8) | channel(0)
}

/// Most pixels that are read of a source at once, a row if that has more: a flip waits for as many at most.
pub const SLICE: usize = 16_384;

/// A source's picture, as it is read in slices.
pub trait Picture {
    /// Reads a part, row by row, as words `0x00RRGGBB`. They are for the screen from this row on. Returns false if the
    /// picture is gone.
    fn read(&mut self, part: Rect, onto: u32, words: &mut [u32]) -> bool;
}

/// A rectangle of the target's screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Placement {
    /// May be negative: a picture that is larger than the screen is cut on both sides.
    left: i64,
    top: i64,
    width: u32,
    height: u32,
}

impl Geometry {
    /// Width and height of the source's picture after it is turned.
    fn turned(&self) -> (u32, u32) {
        let (width, height) = self.source;
        if self.rotation.swaps_sides() { (height, width) } else { (width, height) }
    }

    /// These rows of the source.
    fn rows(&self, rows: Range<u32>) -> Rect {
        Rect { left: 0, top: rows.start, right: self.source.0, bottom: rows.end }
    }

    fn placement(&self) -> Placement {
        let ((width, height), target) = (self.turned(), self.target);
        let (width, height) = match self.scaling {
            Scaling::STRETCHED => target,
            Scaling::ASPECT_RATIO_CENTERED_MAX => fit((width, height), target),
            _ => (width, height),
        };
        let centred = |all: u32, part: u32| (i64::from(all) - i64::from(part)).div_euclid(2);
        Placement { left: centred(target.0, width), top: centred(target.1, height), width, height }
    }

    /// The pixel of the source at a pixel of the turned picture.
    pub(super) fn of_turned(&self, (x, y): (u32, u32)) -> (u32, u32) {
        let (width, height) = self.source;
        match self.rotation {
            Rotation::ROTATE_90 => (width.saturating_sub(1 + y), x),
            Rotation::ROTATE_180 => (width.saturating_sub(1 + x), height.saturating_sub(1 + y)),
            Rotation::ROTATE_270 => (y, height.saturating_sub(1 + x)),
            _ => (x, y),
        }
    }

    /// The pixel of the source that a pixel of the screen shows; the nearest one for a pixel beside the picture.
    pub fn source_at(&self, (x, y): (u32, u32)) -> (u32, u32) {
        let (placement, turned) = (self.placement(), self.turned());
        let within = |place: u32, start: i64, length: u32, pixels: u32| {
            let last = start + i64::from(length) - 1;
            let place = i64::from(place).clamp(start.max(0), last.max(0));
            let place = u32::try_from(place).unwrap_or(0);
            nearest(place, start, length, pixels).unwrap_or(0)
        };
        let x = within(x, placement.left, placement.width, turned.0);
        let y = within(y, placement.top, placement.height, turned.1);
        self.of_turned((x, y))
    }

    /// Composes rows of the target's screen. `write` takes a row and its pixels, `0x00RRGGBB`. Returns false if the
    /// picture was gone before all of it was read.
    pub fn compose(
        &self,
        picture: &mut impl Picture,
        rows: Range<u32>,
        write: impl FnMut(u32, &[u32]),
    ) -> bool {
        if self.rotation.swaps_sides() {
            self.compose_turned(picture, rows, write)
        } else if self.is_copy() {
            self.copy(picture, rows, write)
        } else {
            self.compose_by_rows(picture, rows, write)
        }
    }

    /// Whether the screen is the picture, pixel by pixel.
    pub(super) fn is_copy(&self) -> bool {
        self.rotation == Rotation::IDENTITY && self.source == self.target
    }

    /// Rows of the source that are read at once.
    fn rows_at_once(&self) -> usize {
        (SLICE / (self.source.0 as usize).max(1)).max(1)
    }

    /// The screen is the picture.
    fn copy(
        &self,
        picture: &mut impl Picture,
        rows: Range<u32>,
        mut write: impl FnMut(u32, &[u32]),
    ) -> bool {
        let width = (self.source.0 as usize).max(1);
        let mut words = vec![0; self.rows_at_once() * width];
        let mut rest = rows;
        while !rest.is_empty() {
            let end = rest.end.min(rest.start.saturating_add((words.len() / width) as u32));
            let slice = rest.start..end;
            let words = words.get_mut(..slice.len() * width).unwrap_or_default();
            if !picture.read(self.rows(slice.clone()), slice.start, words) {
                return false;
            }
            for (row, words) in slice.zip(words.chunks_exact(width)) {
                write(row, words);
            }
            rest.start = end;
        }
        true
    }

    /// A row of the screen is of one row of the picture.
    fn compose_by_rows(
        &self,
        picture: &mut impl Picture,
        rows: Range<u32>,
        mut write: impl FnMut(u32, &[u32]),
    ) -> bool {
        let columns = self.columns();
        let mut row = vec![0; self.target.0 as usize];
        let mut read = vec![0; self.source.0 as usize];
        let mut has_read = None;
        for at in rows {
            row.fill(0);
            if let Some(y) = self.row_of_turned(at) {
                let (_, of_source) = self.of_turned((0, y));
                if has_read != Some(of_source) {
                    if !picture.read(
                        self.rows(of_source..of_source.saturating_add(1)),
                        at,
                        &mut read,
                    ) {
                        return false;
                    }
                    has_read = Some(of_source);
                }
                for (word, x) in row.iter_mut().zip(&columns) {
                    let x = x.map(|x| self.of_turned((x, y)).0 as usize);
                    *word = x.and_then(|x| read.get(x)).copied().unwrap_or(0);
                }
            }
            write(at, &row);
        }
        true
    }

    /// A row of the screen is of a column of the picture, which is read whole before.
    fn compose_turned(
        &self,
        picture: &mut impl Picture,
        rows: Range<u32>,
        mut write: impl FnMut(u32, &[u32]),
    ) -> bool {
        let Some(picture) = self.read_all(picture) else { return false };
        let columns = self.columns();
        let mut row = vec![0; self.target.0 as usize];
        for at in rows {
            row.fill(0);
            if let Some(y) = self.row_of_turned(at) {
                for (word, x) in row.iter_mut().zip(&columns) {
                    let at = x.map(|x| self.of_turned((x, y)));
                    let index = at.map(|(x, y)| y as usize * self.source.0 as usize + x as usize);
                    *word = index.and_then(|index| picture.get(index)).copied().unwrap_or(0);
                }
            }
            write(at, &row);
        }
        true
    }

    fn read_all(&self, picture: &mut impl Picture) -> Option<Vec<u32>> {
        let (width, height) = ((self.source.0 as usize).max(1), self.source.1 as usize);
        let mut words = vec![0; width.saturating_mul(height)];
        let mut first = 0;
        for words in words.chunks_mut(self.rows_at_once().saturating_mul(width)) {
            let end = first + (words.len() / width) as u32;
            // A flip amid this is seen in columns: the screen is of two pictures from its second row on.
            if !picture.read(self.rows(first..end), u32::from(first > 0), words) {
                return None;
            }
            first = end;
        }
        Some(words)
    }

    /// For each column of the screen, the column of the turned picture; `None` beside the picture.
    pub(super) fn columns(&self) -> Vec<Option<u32>> {
        let Placement { left, width, .. } = self.placement();
        (0..self.target.0).map(|x| nearest(x, left, width, self.turned().0)).collect()
    }

    /// The row of the turned picture that is on a row of the screen; `None` above and below the picture.
    pub(super) fn row_of_turned(&self, row: u32) -> Option<u32> {
        let Placement { top, height, .. } = self.placement();
        nearest(row, top, height, self.turned().1)
    }
}

/// Which of `pixels` is nearest at a place of the screen, when they begin at `start` and are stretched to `length`.
fn nearest(place: u32, start: i64, length: u32, pixels: u32) -> Option<u32> {
    let inside = u32::try_from(i64::from(place) - start).ok().filter(|inside| *inside < length)?;
    // The middle of the place, so that a picture is stretched alike on both sides.
    let middle = (2 * u64::from(inside) + 1) * u64::from(pixels) / (2 * u64::from(length));
    u32::try_from(middle).ok()
}

/// The largest size with the proportions of `size` that fits.
fn fit(size: (u32, u32), target: (u32, u32)) -> (u32, u32) {
    let [width, height, across, down] = [size.0, size.1, target.0, target.1].map(u64::from);
    let scaled =
        |of: u64, by: u64, to: u64| u32::try_from((of * by / to.max(1)).max(1)).unwrap_or(u32::MAX);
    if width * down <= across * height {
        (scaled(width, down, height), target.1)
    } else {
        (target.0, scaled(height, across, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::display::cells::{Cells, Grid};
    use crate::gpu::display::surface::Surface;
    use crate::gpu::memory::address_map::AddressMap;
    use crate::gpu::memory::address_map::tests::shared_map;
    use bellhop_host_kmd::hardware::{PhysicalAddress, Segment};
    use bellhop_protocol::pixel_format::PixelFormat;

    /// A source of 3 x 2 pixels: 1 2 3 over 4 5 6.
    fn picture() -> (AddressMap, Surface) {
        let map = shared_map();
        let surface = Surface {
            address: PhysicalAddress { segment: Segment::Private, address: 0x100 },
            pitch: 16,
            width: 3,
            height: 2,
            format: PixelFormat::X8R8G8B8,
        };
        let place = map.locate_bytes(surface.address, 32).unwrap();
        let bytes = [1u32, 2, 3, 0xffff_ffff, 4, 5, 6, 0xffff_ffff].map(u32::to_le_bytes).concat();
        map.slice(place, 32).unwrap().copy_from(&bytes[..]);
        (map, surface)
    }

    /// A picture in memory, black where that is not there.
    struct InMemory<'m> {
        memory: &'m AddressMap,
        surface: Option<Surface>,
        pointer: Option<&'m Pointer>,
        /// Slices that are left until the picture is gone.
        left: usize,
        /// The most pixels that were read at once.
        most: usize,
        /// All pixels that were read.
        pixels: usize,
    }

    impl<'m> InMemory<'m> {
        fn new(memory: &'m AddressMap, surface: Option<Surface>) -> Self {
            Self { memory, surface, pointer: None, left: usize::MAX, most: 0, pixels: 0 }
        }
    }

    impl Picture for InMemory<'_> {
        fn read(&mut self, part: Rect, _onto: u32, words: &mut [u32]) -> bool {
            self.most = self.most.max(words.len());
            self.pixels += words.len();
            let picture = self.surface.as_ref().and_then(|surface| surface.rows(self.memory));
            let rows = words.chunks_exact_mut(part.width() as usize);
            for (row, words) in (part.top..part.bottom).zip(rows) {
                match &picture {
                    Some(picture) => picture.read(row, part.left, words),
                    None => words.fill(0),
                }
                self.pointer.into_iter().for_each(|pointer| pointer.put(row, part.left, words));
            }
            self.left -= 1;
            self.left > 0
        }
    }

    fn compose(
        target: (u32, u32),
        scaling: Scaling,
        rotation: Rotation,
        pointer: Option<&Pointer>,
    ) -> Vec<Vec<u32>> {
        let (memory, surface) = picture();
        let geometry = Geometry { source: (3, 2), target, scaling, rotation };
        let mut screen = Vec::new();
        let mut picture = InMemory { pointer, ..InMemory::new(&memory, Some(surface)) };
        let is_whole = geometry.compose(&mut picture, 0..target.1, |row, words| {
            assert_eq!(row as usize, screen.len());
            screen.push(words.to_vec());
        });
        assert!(is_whole);
        screen
    }

    const ROTATIONS: [Rotation; 4] =
        [Rotation::IDENTITY, Rotation::ROTATE_90, Rotation::ROTATE_180, Rotation::ROTATE_270];

    #[test]
    fn no_picture_is_read_in_larger_pieces_than_a_flip_may_wait_for() {
        let memory = shared_map();
        for source in [(16_384, 40), (4096, 50), (1000, 300), (1, 40_000), (20_000, 3)] {
            for rotation in ROTATIONS {
                for target in [source, (source.1, source.0), (50, 70)] {
                    let geometry =
                        Geometry { source, target, scaling: Scaling::STRETCHED, rotation };
                    let (mut picture, mut rows) = (InMemory::new(&memory, None), 0);
                    assert!(geometry.compose(&mut picture, 0..target.1, |_, _| rows += 1));
                    let most = SLICE.max(source.0 as usize);
                    assert!(picture.most <= most && rows == target.1, "{geometry:?}");
                }
            }
        }
    }

    #[test]
    fn a_picture_that_goes_meanwhile_is_read_no_more() {
        let memory = shared_map();
        for rotation in ROTATIONS {
            let geometry = Geometry {
                source: (4096, 50),
                target: (50, 70),
                scaling: Scaling::STRETCHED,
                rotation,
            };
            let mut picture = InMemory { left: 3, ..InMemory::new(&memory, None) };
            assert!(!geometry.compose(&mut picture, 0..70, |_, _| {}));
            assert_eq!(picture.left, 0);
        }
    }

    #[test]
    fn a_picture_is_turned_counter_clockwise() {
        let turned = |target, rotation| compose(target, Scaling::IDENTITY, rotation, None);
        assert_eq!(turned((3, 2), Rotation::IDENTITY), [[1, 2, 3], [4, 5, 6]]);
        assert_eq!(turned((2, 3), Rotation::ROTATE_90), [[3, 6], [2, 5], [1, 4]]);
        assert_eq!(turned((3, 2), Rotation::ROTATE_180), [[6, 5, 4], [3, 2, 1]]);
        assert_eq!(turned((2, 3), Rotation::ROTATE_270), [[4, 1], [5, 2], [6, 3]]);
    }

    #[test]
    fn a_picture_is_centred_stretched_or_as_large_as_fits() {
        let scaled = |target, scaling| compose(target, scaling, Rotation::IDENTITY, None);
        assert_eq!(
            scaled((5, 4), Scaling::CENTERED),
            [[0; 5], [0, 1, 2, 3, 0], [0, 4, 5, 6, 0], [0; 5]]
        );
        assert_eq!(
            scaled((6, 3), Scaling::STRETCHED),
            [[1, 1, 2, 2, 3, 3], [4, 4, 5, 5, 6, 6], [4, 4, 5, 5, 6, 6]]
        );
        assert_eq!(
            scaled((6, 6), Scaling::ASPECT_RATIO_CENTERED_MAX),
            [
                [0; 6],
                [1, 1, 2, 2, 3, 3],
                [1, 1, 2, 2, 3, 3],
                [4, 4, 5, 5, 6, 6],
                [4, 4, 5, 5, 6, 6],
                [0; 6]
            ]
        );
    }

    #[test]
    fn a_place_on_the_screen_is_the_pixel_that_it_shows() {
        let geometry =
            |target, scaling, rotation| Geometry { source: (3, 2), target, scaling, rotation };
        let turned = geometry((2, 3), Scaling::IDENTITY, Rotation::ROTATE_90);
        assert_eq!([turned.source_at((0, 0)), turned.source_at((1, 2))], [(2, 0), (0, 1)]);
        let centred = geometry((5, 4), Scaling::CENTERED, Rotation::IDENTITY);
        assert_eq!([centred.source_at((1, 1)), centred.source_at((3, 2))], [(0, 0), (2, 1)]);
        assert_eq!([centred.source_at((0, 0)), centred.source_at((u32::MAX, 9))], [(0, 0), (2, 1)]);
    }

    #[test]
    fn the_pointer_lies_over_the_picture_and_is_cut_at_its_edges() {
        let words: Arc<[u32]> = [0xff00_00aa, 0x0000_00ff, 0xff00_00bb, 0x8000_00ff].into();
        let mut pointer = Pointer { width: 2, words, at: (1, 0) };
        let screen = |pointer: &Pointer| {
            compose((3, 2), Scaling::IDENTITY, Rotation::IDENTITY, Some(pointer))
        };
        // 128/255 of 255 and 127/255 of 6.
        assert_eq!(screen(&pointer), [[1, 0xaa, 3], [4, 0xbb, 131]]);
        pointer.at = (-1, -1);
        assert_eq!(screen(&pointer), [[128, 2, 3], [4, 5, 6]]);
        pointer.at = (2, 1);
        assert_eq!(screen(&pointer), [[1, 2, 3], [4, 5, 0xaa]]);
        for at in
            [(3, 0), (-2, 0), (0, 2), (0, -2), (i64::from(i32::MAX), 0), (i64::from(i32::MIN), 0)]
        {
            pointer.at = at;
            assert_eq!(screen(&pointer), [[1, 2, 3], [4, 5, 6]]);
        }
    }

    #[test]
    fn a_picture_whose_memory_is_not_there_is_black() {
        let (memory, surface) = picture();
        let geometry = Geometry {
            source: (3, 2),
            target: (3, 2),
            scaling: Scaling::IDENTITY,
            rotation: Rotation::IDENTITY,
        };
        for surface in [
            Surface {
                address: PhysicalAddress { address: u64::MAX - 8, ..surface.address },
                ..surface
            },
            Surface { pitch: 8, ..surface },
            Surface { pitch: u32::MAX, ..surface },
            Surface { height: u32::MAX, ..surface },
            Surface { format: PixelFormat(0), ..surface },
        ] {
            let mut picture = InMemory::new(&memory, Some(surface));
            geometry.compose(&mut picture, 0..2, |_, words| assert_eq!(words, [0; 3]));
        }
        let mut picture = InMemory::new(&memory, None);
        geometry.compose(&mut picture, 0..2, |_, words| assert_eq!(words, [0; 3]));
    }

    /// Parts that are composed alone are as in the whole screen, and nothing else is written; whatever is read is theirs.
    #[test]
    fn parts_are_composed_as_they_are_in_the_whole() {
        let (memory, surface) = picture();
        let words: Arc<[u32]> = [0xff00_00aa].into();
        let pointer = Pointer { width: 1, words, at: (1, 1) };
        let grid = Grid::of((3, 2));
        for (target, scaling) in [
            ((3, 2), Scaling::IDENTITY),
            ((2, 3), Scaling::IDENTITY),
            ((6, 3), Scaling::STRETCHED),
            ((2, 1), Scaling::STRETCHED),
            ((7, 5), Scaling::CENTERED),
            ((6, 6), Scaling::ASPECT_RATIO_CENTERED_MAX),
        ] {
            for rotation in ROTATIONS {
                let geometry = Geometry { source: (3, 2), target, scaling, rotation };
                let whole = compose(target, scaling, rotation, Some(&pointer));
                for pixels in 1u32..1 << 6 {
                    let mut cells = Cells::NONE;
                    let is_in = |(x, y): (u32, u32)| pixels >> (y * 3 + x) & 1 == 1;
                    for at in 0..6 {
                        let (left, top) = (at % 3, at / 3);
                        if is_in((left, top)) {
                            let (right, bottom) = (left + 1, top + 1);
                            cells.mark(&grid, &Rect { left, top, right, bottom });
                        }
                    }
                    let mut picture = InMemory {
                        pointer: Some(&pointer),
                        ..InMemory::new(&memory, Some(surface))
                    };
                    let mut seen = vec![vec![None; target.0 as usize]; target.1 as usize];
                    assert!(geometry.compose_parts(&mut picture, &cells, |row, x, words| {
                        for (word, x) in words.iter().zip(x..) {
                            let before = seen[row as usize][x as usize].replace(*word);
                            assert_eq!(before, None, "written twice");
                        }
                    }));
                    assert_eq!(picture.pixels, pixels.count_ones() as usize);
                    for (y, row) in seen.iter().enumerate() {
                        for (x, word) in row.iter().enumerate() {
                            let at = (x as u32, y as u32);
                            let own = geometry.shows(at).filter(|at| is_in(*at));
                            let expected = own.map(|_| whole[y][x]);
                            assert_eq!(*word, expected, "{at:?} {geometry:?} {pixels:b}");
                        }
                    }
                }
            }
        }
    }

    impl Geometry {
        /// The pixel of the source that a pixel of the screen shows; `None` beside the picture.
        fn shows(&self, (x, y): (u32, u32)) -> Option<(u32, u32)> {
            let x = self.columns().get(x as usize).copied().flatten()?;
            Some(self.of_turned((x, self.row_of_turned(y)?)))
        }
    }
}
