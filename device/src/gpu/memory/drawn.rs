// SPDX-License-Identifier: MIT OR Apache-2.0

//! What engines draw into pictures that somebody watches: so that nobody has to look for it.
//!
//! An engine knows where it writes, whatever a guest says. It notes the cells of a picture that it writes to while a turn
//! lasts, and marks them when the turn is over: after the writing, as [`Marks`] asks for, and with no system call. Where
//! nobody watches, that is one load for each run of bytes. What processors and workers write is not seen here, nor single
//! words.

use super::address_map::Place;
use arc_swap::ArcSwap;
use bellhop_protocol::handoff::drawing::{Marks, ROWS, Watching};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most pictures of a guest that are watched at once. What is drawn into others is found by looking.
pub const MOST: usize = 4;
const ALL: [u64; ROWS] = [u64::MAX; ROWS];

/// A picture that is watched.
#[derive(Debug)]
pub struct Picture {
    /// Its first byte.
    pub place: Place,
    /// Bytes from a row to the next, and of a row.
    pub pitch: u64,
    pub row: u64,
    /// Rows.
    pub height: u64,
    /// Bytes of a row of a cell, and its rows.
    pub cell: (u64, u64),
    /// What was drawn since somebody took it.
    pub marks: Marks,
}

impl Picture {
    /// Adds the cells in which there is something of bytes that are this far behind its first one.
    fn note(&self, cells: &mut [u64; ROWS], distance: i64, length: u64) {
        let end = u64::try_from(distance.saturating_add_unsigned(length)).unwrap_or(0);
        let start = u64::try_from(distance).unwrap_or(0);
        if self.pitch == 0 || start >= end || start >= self.pitch.saturating_mul(self.height) {
            return;
        }
        let (first, last) = (start / self.pitch, (end - 1) / self.pitch);
        let columns = if first == last {
            let (left, right) = (start % self.pitch, ((end - 1) % self.pitch).min(self.row - 1));
            if left > right {
                // Between two rows.
                return;
            }
            let [left, right] = [left, right].map(|byte| (byte / self.cell.0).min(63));
            u64::MAX >> (63 - (right - left)) << left
        } else {
            u64::MAX
        };
        for row in first / self.cell.1..=last.min(self.height - 1) / self.cell.1 {
            cells.get_mut(row as usize).into_iter().for_each(|word| *word |= columns);
        }
    }

    /// Takes what was drawn.
    pub fn take(&self) -> [u64; ROWS] {
        std::array::from_fn(|row| self.marks.take(row))
    }
}

/// The pictures of a guest that are watched.
#[derive(Debug, Default)]
pub struct Drawn {
    /// A hint: whether there is one.
    is_watched: AtomicBool,
    watching: Watching,
    pictures: ArcSwap<Vec<Arc<Picture>>>,
}

impl Drawn {
    /// These are watched from now on, the first [`MOST`] of them. What is in them must be read after this.
    pub fn watch(&self, pictures: Vec<Arc<Picture>>) {
        // Relaxed: the fence of the change orders it.
        self.is_watched.store(!pictures.is_empty(), Ordering::Relaxed);
        self.pictures.store(Arc::new(pictures));
        self.watching.change();
    }
}

/// What one turn of an engine drew.
#[derive(Debug)]
pub struct Strokes {
    /// The change of what is watched that the engine has seen, since its first write of the turn.
    begun: Option<u64>,
    pictures: Arc<Vec<Arc<Picture>>>,
    cells: Box<[[u64; ROWS]; MOST]>,
}

impl Default for Strokes {
    fn default() -> Self {
        Self { begun: None, pictures: Arc::default(), cells: Box::new([[0; ROWS]; MOST]) }
    }
}

/// Notes what one turn of an engine draws into a guest's pictures.
#[derive(Debug)]
pub struct Brush<'a> {
    drawn: &'a Drawn,
    strokes: &'a mut Strokes,
}

impl<'a> Brush<'a> {
    /// Nothing is noted.
    #[inline]
    pub fn new(drawn: &'a Drawn, strokes: &'a mut Strokes) -> Self {
        Self { drawn, strokes }
    }

    /// Bytes are about to be written in this turn.
    #[inline]
    pub fn note(&mut self, place: Place, length: usize) {
        // Relaxed: what is written just when the first picture begins to be watched is found by looking, like what
        // processors write.
        if self.strokes.begun.is_some() || self.drawn.is_watched.load(Ordering::Relaxed) {
            self.note_watched(place, length);
        }
    }

    #[cold]
    fn note_watched(&mut self, place: Place, length: usize) {
        let strokes = &mut *self.strokes;
        if strokes.begun.is_none() {
            strokes.begun = Some(self.drawn.watching.begin());
            strokes.pictures = self.drawn.pictures.load_full();
        }
        for (picture, cells) in strokes.pictures.iter().zip(strokes.cells.iter_mut()) {
            if let Some(distance) = place.distance_from(picture.place) {
                picture.note(cells, distance, length as u64);
            }
        }
    }

    /// The turn is over: marks what was drawn.
    #[inline]
    pub fn lift(&mut self) {
        if let Some(begun) = self.strokes.begun.take() {
            self.mark(begun);
        }
    }

    #[cold]
    fn mark(&mut self, begun: u64) {
        let strokes = &mut *self.strokes;
        for (picture, cells) in strokes.pictures.iter().zip(strokes.cells.iter_mut()) {
            for (row, word) in cells.iter_mut().enumerate().filter(|(_, word)| **word != 0) {
                picture.marks.mark(row, std::mem::take(word));
            }
        }
        if !self.drawn.watching.is_still(begun) {
            for picture in self.drawn.pictures.load().iter().take(MOST) {
                ALL.iter().enumerate().for_each(|(row, word)| picture.marks.mark(row, *word));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::memory::address_map::tests::shared_map;
    use bellhop_host_kmd::hardware::{PhysicalAddress, Segment};

    /// 64 x 32 pixels of four bytes, a cell each, 300 bytes from a row to the next.
    fn picture() -> Arc<Picture> {
        let address = PhysicalAddress { segment: Segment::Private, address: 0x100 };
        let place = shared_map().locate_bytes(address, 1).unwrap();
        let (row, marks) = (256, Marks::new());
        Arc::new(Picture { place, pitch: 300, row, height: 32, cell: (4, 1), marks })
    }

    /// The rows that are marked, with their cells.
    fn marked(picture: &Picture) -> Vec<(usize, u64)> {
        picture.take().into_iter().enumerate().filter(|(_, word)| *word != 0).collect()
    }

    #[test]
    fn a_turn_marks_the_cells_that_it_wrote_to_when_it_is_over() {
        let (drawn, mut strokes, picture) = (Drawn::default(), Strokes::default(), picture());
        drawn.watch(vec![Arc::clone(&picture)]);
        for (from, length, expected) in [
            (0, 1, vec![(0, 1)]),
            (4, 5, vec![(0, 0b110)]),
            (300 + 255, 1, vec![(1, 1 << 63)]),
            (300 + 256, 44, vec![]),
            (-5, 5, vec![]),
            (-5, 6, vec![(0, 1)]),
            (31 * 300 + 252, 4096, vec![(31, u64::MAX)]),
            (32 * 300, 4096, vec![]),
            (290, 20, vec![(0, u64::MAX), (1, u64::MAX)]),
        ] {
            let place = picture.place.plus(i64::cast_unsigned(from));
            let mut brush = Brush::new(&drawn, &mut strokes);
            brush.note(place, length);
            assert_eq!(marked(&picture), [], "the turn is not over");
            brush.lift();
            assert_eq!(marked(&picture), expected, "{length} bytes from {from}");
        }
        let mut brush = Brush::new(&drawn, &mut strokes);
        (0..3).for_each(|row| brush.note(picture.place.plus(row * 300), 4));
        brush.lift();
        assert_eq!(marked(&picture), [(0, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn what_is_drawn_while_another_picture_begins_to_be_watched_is_all_of_that() {
        let (drawn, mut strokes) = (Drawn::default(), Strokes::default());
        let pictures = [picture(), picture()];
        let mut brush = Brush::new(&drawn, &mut strokes);
        brush.note(pictures[0].place, 4);
        brush.lift();
        drawn.watch(vec![Arc::clone(&pictures[0])]);
        let mut brush = Brush::new(&drawn, &mut strokes);
        brush.note(pictures[0].place, 4);
        drawn.watch(vec![Arc::clone(&pictures[1])]);
        brush.lift();
        assert_eq!(marked(&pictures[0]), [(0, 1)]);
        assert_eq!(pictures[1].take(), ALL);
        drawn.watch(Vec::new());
        let mut brush = Brush::new(&drawn, &mut strokes);
        brush.note(pictures[1].place, 4);
        brush.lift();
        assert_eq!(marked(&pictures[1]), []);
    }
}
