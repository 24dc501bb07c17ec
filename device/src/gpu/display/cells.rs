// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which parts of a picture changed: a grid of 64 by 64 cells over the whole picture, whatever its size. So a set of parts
//! has one size, joins in 64 operations, and cannot grow, whoever changes what.

use bellhop_protocol::rect::Rect;

/// Cells of a side, as many as a word has bits.
const SIDE: u32 = u64::BITS;

/// A picture's cells: how large they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    size: (u32, u32),
    cell: (u32, u32),
}

impl Grid {
    /// The cells of a picture of this size.
    pub fn of(size: (u32, u32)) -> Self {
        let side = |pixels: u32| pixels.div_ceil(SIDE).max(1);
        Self { size, cell: (side(size.0), side(size.1)) }
    }

    /// Pixels of a row of a cell, and its rows.
    pub fn cell(&self) -> (u32, u32) {
        self.cell
    }

    /// The row of cells in which a row of pixels is.
    pub fn row_of(&self, row: u32) -> u32 {
        (row / self.cell.1).min(SIDE - 1)
    }
}

/// A set of cells, a word for each row of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cells([u64; SIDE as usize]);

impl Cells {
    /// No cell.
    pub const NONE: Self = Self([0; SIDE as usize]);
    /// All cells.
    pub const ALL: Self = Self([u64::MAX; SIDE as usize]);

    /// The cells that these words say.
    pub fn from_words(words: [u64; SIDE as usize]) -> Self {
        Self(words)
    }

    /// The rows in which there is a cell, a bit each.
    pub fn rows(&self) -> u64 {
        let rows = self.0.iter().zip(0u32..).filter(|(row, _)| **row != 0);
        rows.fold(0, |rows, (_, number)| rows | 1 << number)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|row| *row == 0)
    }

    /// Adds all cells of another set.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(row, other)| *row |= other);
    }

    /// Adds the cells in which there is something of a part.
    pub fn mark(&mut self, grid: &Grid, part: &Rect) {
        let (right, bottom) = (part.right.min(grid.size.0), part.bottom.min(grid.size.1));
        if part.left >= right || part.top >= bottom {
            return;
        }
        let (first, last) = (part.left / grid.cell.0, (right - 1) / grid.cell.0);
        let columns = u64::MAX >> (SIDE - 1 - (last - first)) << first;
        let rows = part.top / grid.cell.1..=(bottom - 1) / grid.cell.1;
        for row in rows {
            self.0.get_mut(row as usize).into_iter().for_each(|word| *word |= columns);
        }
    }

    /// The parts of a picture that these cells are, from above, with neighbours in a row of cells as one.
    pub fn parts(&self, grid: &Grid) -> impl Iterator<Item = Rect> {
        let Grid { size, cell } = *grid;
        let rows = self.0.into_iter().zip(0u32..);
        rows.flat_map(move |(word, row)| {
            let (top, bottom) = (row * cell.1, ((row + 1) * cell.1).min(size.1));
            Runs(word).map(move |(first, end)| Rect {
                left: first * cell.0,
                top,
                right: (end * cell.0).min(size.0),
                bottom,
            })
        })
        .filter(|part| !part.is_empty())
    }

    /// One part that has all of these cells, if there is a cell within the picture.
    pub fn bounds(&self, grid: &Grid) -> Option<Rect> {
        self.parts(grid).reduce(Rect::with)
    }
}

/// The runs of bits of a word that are set: the first bit of each, and the one behind its last.
struct Runs(u64);

impl Iterator for Runs {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        let first = (self.0 != 0).then(|| self.0.trailing_zeros())?;
        let end = first + (self.0 >> first).trailing_ones();
        self.0 &= u64::MAX.checked_shl(end).unwrap_or(0);
        Some((first, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part([left, top, right, bottom]: [u32; 4]) -> Rect {
        Rect { left, top, right, bottom }
    }

    #[test]
    fn cells_are_as_small_as_64_of_them_allow() {
        let grid = Grid::of((1920, 1080));
        let mut cells = Cells::NONE;
        cells.mark(&grid, &part([300, 170, 364, 234]));
        let parts: Vec<_> = cells.parts(&grid).collect();
        assert_eq!(parts.first(), Some(&part([300, 170, 390, 187])));
        assert_eq!((parts.len(), cells.bounds(&grid)), (4, Some(part([300, 170, 390, 238]))));
    }

    #[test]
    fn what_is_outside_of_the_picture_is_in_no_cell() {
        let grid = Grid::of((100, 3));
        let mut cells = Cells::NONE;
        for outside in [[100, 0, 101, 3], [0, 3, 100, 9], [5, 1, 5, 2], [9, 1, 5, 2]] {
            cells.mark(&grid, &part(outside));
        }
        assert!(cells.is_empty());
        assert_eq!(Cells::ALL.bounds(&grid), Some(part([0, 0, 100, 3])));
        assert_eq!(Cells::ALL.parts(&grid).count(), 3);
    }

    proptest! {
        #[test]
        fn what_is_marked_is_in_the_parts_and_they_do_not_overlap(
            width in 1u32..300, height in 1u32..300, edges: [u16; 4], other: [u16; 4],
        ) {
            let grid = Grid::of((width, height));
            let inside = |edges: [u16; 4]| {
                let [a, b, c, d] = edges.map(u32::from);
                let (x, y) = (a % width, b % height);
                part([x, y, x + 1 + c % (width - x), y + 1 + d % (height - y)])
            };
            let marked = [inside(edges), inside(other)];
            let mut cells = Cells::NONE;
            marked.iter().for_each(|part| cells.mark(&grid, part));
            let parts: Vec<_> = cells.parts(&grid).collect();
            for y in 0..height {
                for x in 0..width {
                    let has = |part: &&Rect| {
                        (part.left..part.right).contains(&x) && (part.top..part.bottom).contains(&y)
                    };
                    let count = parts.iter().filter(has).count();
                    prop_assert!(count <= 1);
                    prop_assert!(count == 1 || !marked.iter().any(|part| has(&part)));
                }
            }
        }
    }
}
