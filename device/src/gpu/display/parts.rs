// SPDX-License-Identifier: MIT OR Apache-2.0

//! Composing some parts of a screen, with the rest as it was before.

use super::cells::{Cells, Grid};
use super::compose::{Geometry, Picture, SLICE};
use bellhop_protocol::control::display::Rotation;
use bellhop_protocol::rect::Rect;
use std::ops::Range;

impl Geometry {
    /// Composes what the screen shows of some cells of the source. `write` takes a row, a column, and the pixels from there
    /// on. Returns false if the picture was gone before all of it was read.
    pub fn compose_parts(
        &self,
        picture: &mut impl Picture,
        cells: &Cells,
        mut write: impl FnMut(u32, u32, &[u32]),
    ) -> bool {
        let places = self.places();
        let mut words = Vec::new();
        for part in cells.parts(&Grid::of(self.source)) {
            if !read(picture, part, &mut words) {
                return false;
            }
            self.put(&part, &words, &places, &mut write);
        }
        true
    }

    /// The columns and the rows of the screen on which there is something of the turned picture: where each is on the
    /// screen, and in the turned picture. Both only grow.
    fn places(&self) -> [Vec<(u32, u32)>; 2] {
        let columns = (0..).zip(self.columns());
        let columns = columns.filter_map(|(on_screen, at)| Some((on_screen, at?)));
        let rows = (0..self.target.1).filter_map(|row| Some((row, self.row_of_turned(row)?)));
        [columns.collect(), rows.collect()]
    }

    /// A part of the source, as it is turned.
    fn turned_part(&self, part: &Rect) -> Rect {
        let (width, height) = self.source;
        let Rect { left, top, right, bottom } = *part;
        let mirror = |range: Range<u32>, all: u32| {
            all.saturating_sub(range.end)..all.saturating_sub(range.start)
        };
        let (across, down) = match self.rotation {
            Rotation::ROTATE_90 => (top..bottom, mirror(left..right, width)),
            Rotation::ROTATE_180 => (mirror(left..right, width), mirror(top..bottom, height)),
            Rotation::ROTATE_270 => (mirror(top..bottom, height), left..right),
            _ => (left..right, top..bottom),
        };
        Rect { left: across.start, top: down.start, right: across.end, bottom: down.end }
    }

    /// Writes what the screen shows of a part of the source, whose pixels these are.
    fn put(
        &self,
        part: &Rect,
        words: &[u32],
        [columns, rows]: &[Vec<(u32, u32)>; 2],
        write: &mut impl FnMut(u32, u32, &[u32]),
    ) {
        let width = part.width() as usize;
        if self.is_copy() {
            for (row, words) in (part.top..part.bottom).zip(words.chunks_exact(width.max(1))) {
                write(row, part.left, words);
            }
            return;
        }
        let turned = self.turned_part(part);
        let columns = within(columns, turned.left..turned.right);
        let Some((first, _)) = columns.first() else { return };
        let mut line = vec![0; columns.len()];
        for (row, y) in within(rows, turned.top..turned.bottom) {
            for (word, (_, x)) in line.iter_mut().zip(columns) {
                let (x, y) = self.of_turned((*x, *y));
                let [x, y] = [x.saturating_sub(part.left), y.saturating_sub(part.top)];
                *word = words.get(y as usize * width + x as usize).copied().unwrap_or(0);
            }
            write(*row, *first, &line);
        }
    }
}

/// The places that show these columns, or rows, of the turned picture: they follow each other on the screen.
fn within(places: &[(u32, u32)], turned: Range<u32>) -> &[(u32, u32)] {
    let start = places.partition_point(|(_, at)| *at < turned.start);
    let end = places.partition_point(|(_, at)| *at < turned.end);
    places.get(start..end).unwrap_or_default()
}

/// Reads a part in slices.
fn read(picture: &mut impl Picture, part: Rect, words: &mut Vec<u32>) -> bool {
    let width = part.width() as usize;
    words.resize(width * part.height() as usize, 0);
    let at_once = (SLICE / width.max(1)).max(1);
    let tops = (part.top..part.bottom).step_by(at_once);
    let mut slices = tops.zip(words.chunks_mut(at_once * width.max(1)));
    slices.all(|(top, words)| {
        let bottom = top.saturating_add(at_once as u32).min(part.bottom);
        picture.read(Rect { top, bottom, ..part }, 0, words)
    })
}
