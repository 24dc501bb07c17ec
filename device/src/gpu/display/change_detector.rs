// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sees what a guest draws into a picture that is shown already: no flip tells of that. Engines mark what they write
//! ([`drawn`](crate::gpu::memory::drawn)); the guest's processors and workers do not.
//!
//! So the display's thread looks, while somebody views, at every sixteenth row, and at others the next time. What is
//! sixteen rows high is found by one look, and a single row by sixteen. The order of the looks is such that eight rows
//! are found by two, and so on. A look that finds something sees all rows, and which of them are others. While nothing changes looks become rare, and a look that takes long is followed by a
//! longer rest, so that a still screen costs next to nothing whatever its size.

use super::cells::{Cells, Grid};
use super::surface::Surface;
use bellhop_protocol::rect::Rect;
use xxhash_rust::xxh64::xxh64;

/// Looks that see all rows.
const ROUND: u32 = 16;
/// How long a picture has been the same before the first look: one that is flipped all the time needs none.
const SETTLED: u64 = 200_000_000;
/// From a look to the next, in ticks, while the picture changed lately, and later.
const SOON: u64 = 33_000_000;
const LATER: u64 = 100_000_000;
/// Looks without a change after which they become rare.
const LATELY: u32 = 64;
/// How much longer than a look the rest after it is: looks take at most a quarter of a percent of a processor.
const REST: u64 = 400;

/// When to look at a source, and what was seen there.
#[derive(Debug, Default)]
pub struct ChangeDetector {
    /// The version of the picture that is looked at.
    version: u64,
    /// A hash of each row, when it was seen last; none before the first look at this picture.
    rows: Vec<u64>,
    /// Looks since the last change that was found.
    round: u32,
    /// Looks since the last change.
    idle: u32,
    /// Rows of cells into which engines drew, a bit each: since they were looked at whole, and since the last look. What is
    /// drawn there is composed when it is marked, and looked at later, once: something else may have been drawn beside it.
    drawn: u64,
    fresh: u64,
    /// When the next one is due, in ticks.
    next: u64,
}

/// A look at some rows of a picture; and at all of them, if these have changed.
#[derive(Debug)]
pub struct Look {
    /// The source.
    pub source: u32,
    version: u64,
    /// What is looked at.
    pub surface: Surface,
    first: u32,
    rows: Vec<u64>,
    /// As in [`ChangeDetector`]; those that are fresh are not looked at by this look.
    drawn: u64,
    fresh: u64,
    /// Rows of cells of which all was looked at.
    seen: u64,
    /// What has changed.
    changed: Cells,
    /// Bytes that were looked at.
    pub bytes: u64,
}

impl ChangeDetector {
    /// The look that is due now at a source which shows this version of its picture.
    pub fn due(
        &mut self,
        source: u32,
        (version, surface): (u64, Surface),
        now: u64,
    ) -> Option<Look> {
        if self.version != version {
            *self = Self { version, next: now.saturating_add(SETTLED), ..Self::default() };
        }
        if now < self.next {
            return None;
        }
        // 0, 8, 4, 12, 2 and so on.
        let first = (self.round % ROUND).reverse_bits() >> (u32::BITS - ROUND.ilog2());
        let rows = std::mem::take(&mut self.rows);
        let fresh = std::mem::take(&mut self.fresh);
        let drawn = self.drawn;
        self.drawn |= fresh;
        let (changed, seen, bytes) = (Cells::NONE, 0, 0);
        Some(Look { source, version, surface, first, rows, drawn, fresh, seen, changed, bytes })
    }

    /// Engines drew into these cells, which are composed.
    pub fn note_drawn(&mut self, cells: &Cells) {
        self.fresh |= cells.rows();
        self.idle = 0;
    }

    /// When the next look is due.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A look was made, from one time to another. Returns what has changed of the picture since the look before; that is not
    /// known after the first, so it is everything.
    pub fn made(&mut self, look: Look, (from, now): (u64, u64)) -> Cells {
        if self.version != look.version {
            // Something else is shown meanwhile.
            return Cells::NONE;
        }
        self.rows = look.rows;
        self.drawn &= !look.seen;
        let count = |looks: u32| if look.changed.is_empty() { looks.saturating_add(1) } else { 0 };
        (self.round, self.idle) = (count(self.round), count(self.idle));
        let pause = if self.idle < LATELY { SOON } else { LATER };
        let rest = now.saturating_sub(from).saturating_mul(REST);
        self.next = now.saturating_add(pause.max(rest));
        look.changed
    }
}

impl Look {
    /// Looks. `read` reads a row, and returns false if the picture is gone: then nothing was seen.
    pub fn make(&mut self, mut read: impl FnMut(u32, &mut Vec<u8>) -> bool) {
        let mut bytes = Vec::new();
        let looked = &mut self.bytes;
        let mut hash = |row| {
            read(row, &mut bytes).then(|| {
                *looked += bytes.len() as u64;
                xxh64(&bytes, 0)
            })
        };
        let Surface { width, height, .. } = self.surface;
        let grid = Grid::of((width, height));
        let is_of = |cells: u64, row: u32| cells >> grid.row_of(row) & 1 == 1;
        if self.rows.is_empty() {
            // Nobody knows what was drawn before.
            let rows: Option<Vec<u64>> = (0..height).map(hash).collect();
            if let Some(rows) = rows {
                (self.rows, self.seen, self.changed) = (rows, u64::MAX, Cells::ALL);
            }
            return;
        }
        let of_round = (0..height).zip(&self.rows).skip(self.first as usize);
        let mut others = of_round
            .step_by(ROUND as usize)
            .filter(|(row, _)| !is_of(self.fresh, *row))
            .filter(|(row, before)| hash(*row).is_some_and(|now| now != **before));
        let Some((first, _)) = others.next() else { return };
        // What engines drew explains what is another there, and nothing elsewhere.
        let is_explained =
            is_of(self.drawn, first) && others.all(|(row, _)| is_of(self.drawn, row));
        let found = if is_explained { self.drawn } else { u64::MAX };
        // What is drawn from here on is a change again; what was drawn before is in the frame that follows.
        let mut changed = Cells::NONE;
        for (row, before) in (0..height).zip(&mut self.rows).filter(|(row, _)| is_of(found, *row)) {
            // The picture may be gone.
            let Some(now) = hash(row) else { return self.rows.clear() };
            if std::mem::replace(before, now) != now {
                let part = Rect { left: 0, top: row, right: width, bottom: row.saturating_add(1) };
                changed.mark(&grid, &part);
            }
        }
        (self.seen, self.changed) = (found, changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::memory::address_map::AddressMap;
    use crate::gpu::memory::address_map::tests::shared_map;
    use bellhop_host_kmd::hardware::{PhysicalAddress, Segment};
    use bellhop_protocol::pixel_format::PixelFormat;

    const HEIGHT: u32 = 40;
    const PITCH: u32 = 64;

    /// A picture of 10 pixels a row, one version of it.
    fn picture() -> (u64, Surface) {
        let address = PhysicalAddress { segment: Segment::Private, address: 0x100 };
        let format = PixelFormat::X8R8G8B8;
        (7, Surface { address, pitch: PITCH, width: 10, height: HEIGHT, format })
    }

    fn draw(memory: &AddressMap, row: u32, byte: u8) {
        let address = PhysicalAddress { segment: Segment::Private, address: 0x100 };
        let place = memory.locate_bytes(address, u64::from(HEIGHT * PITCH)).unwrap();
        let slice = memory.slice(place, (HEIGHT * PITCH) as usize).unwrap();
        // The last byte of the row's last pixel.
        slice.subslice((row * PITCH + 39) as usize, 1).unwrap().copy_from(&[byte]);
    }

    fn make(look: &mut Look, memory: &AddressMap) {
        let surface = look.surface;
        look.make(|row, bytes| surface.rows(memory).map(|rows| rows.bytes(row, bytes)).is_some());
    }

    /// Looks when it is time to, and says what came of it.
    fn look(detector: &mut ChangeDetector, memory: &AddressMap, now: &mut u64) -> bool {
        !look_at(detector, memory, now).0.is_empty()
    }

    /// The next look: the cells that it has found changed, and the bytes that it has compared.
    fn look_at(detector: &mut ChangeDetector, memory: &AddressMap, now: &mut u64) -> (Cells, u64) {
        *now = detector.next().max(*now);
        let mut look = detector.due(0, picture(), *now).expect("it is time to look");
        make(&mut look, memory);
        let bytes = look.bytes;
        (detector.made(look, (*now, *now)), bytes)
    }

    /// Looks that have seen the picture.
    fn settled(memory: &AddressMap, now: &mut u64) -> ChangeDetector {
        let mut detector = ChangeDetector::default();
        assert!(detector.due(0, picture(), *now).is_none());
        assert!(look(&mut detector, memory, now), "nobody knows what was drawn before");
        assert!(!look(&mut detector, memory, now));
        detector
    }

    #[test]
    fn a_change_of_any_row_is_seen_by_sixteen_looks() {
        let (memory, mut now) = (shared_map(), 0);
        let mut detector = settled(&memory, &mut now);
        for row in 0..HEIGHT {
            draw(&memory, row, 1 + row as u8);
            let needed = (1..=16).find(|_| look(&mut detector, &memory, &mut now));
            assert!(needed.is_some(), "row {row}");
            assert!(
                !(0..16).any(|_| look(&mut detector, &memory, &mut now)),
                "row {row} is seen once"
            );
        }
    }

    #[test]
    fn what_is_sixteen_rows_high_is_seen_by_one_look_and_eight_by_two() {
        let (memory, mut now) = (shared_map(), 0);
        let (mut detector, mut colour) = (settled(&memory, &mut now), 0);
        for (height, most) in [(16, 1), (8, 2), (4, 4), (2, 8)] {
            for first in 0..=HEIGHT - height {
                colour += 1;
                (first..first + height).for_each(|row| draw(&memory, row, colour));
                let needed = (1..=most).find(|_| look(&mut detector, &memory, &mut now));
                assert!(needed.is_some(), "{height} rows from {first}");
            }
        }
    }

    #[test]
    fn only_rows_that_are_others_have_changed_and_a_look_without_a_change_sees_a_sixteenth() {
        let (memory, mut now) = (shared_map(), 0);
        let mut detector = settled(&memory, &mut now);
        let mut next = |detector: &mut ChangeDetector| look_at(detector, &memory, &mut now);
        // Rows 8 and 24 of forty, of 40 bytes each.
        assert_eq!(next(&mut detector), (Cells::NONE, 2 * 40));
        (4..20).chain([39]).for_each(|row| draw(&memory, row, 9));
        let (changed, _) = next(&mut detector);
        let grid = Grid::of((10, HEIGHT));
        let rows: Vec<_> = changed.parts(&grid).map(|part| (part.top, part.right)).collect();
        assert_eq!(rows, (4..20).chain([39]).map(|row| (row, 10)).collect::<Vec<_>>());
    }

    #[test]
    fn what_engines_drew_is_looked_at_once_and_what_others_drew_beside_it_is_found() {
        let (memory, mut now) = (shared_map(), 0);
        let mut detector = settled(&memory, &mut now);
        let mut next = |detector: &mut ChangeDetector| {
            let (changed, bytes) = look_at(detector, &memory, &mut now);
            (changed.rows(), bytes / 40)
        };
        // Each row of cells is a row.
        (8..12).for_each(|row| draw(&memory, row, 5));
        detector.note_drawn(&Cells::from_words(std::array::from_fn(|row| {
            u64::from((8..12).contains(&row))
        })));
        assert_eq!(next(&mut detector), (0, 1), "row 24: what is composed now is not looked at");
        let looks: Vec<_> =
            (0..16).map(|_| next(&mut detector)).filter(|look| look.0 != 0).collect();
        // A look meets one of these rows, and then sees those four.
        assert_eq!(looks, [(0b1111 << 8, looks[0].1)]);
        assert!(looks[0].1 <= 3 + 4, "{looks:?}");
        // Elsewhere, it is as without engines.
        detector.note_drawn(&Cells::from_words(std::array::from_fn(|row| u64::from(row == 3))));
        draw(&memory, 30, 9);
        let found = (0..16).map(|_| next(&mut detector)).find(|look| look.0 != 0);
        assert_eq!(found.map(|look| look.0), Some(1 << 30));
    }

    #[test]
    fn a_picture_that_changes_all_the_time_is_not_looked_at() {
        let (_, surface) = picture();
        let mut detector = ChangeDetector::default();
        for version in 1..100 {
            let now = version * (SETTLED - 1);
            assert!(detector.due(0, (version, surface), now).is_none());
        }
    }

    #[test]
    fn looks_become_rare_and_a_long_one_is_followed_by_a_long_rest() {
        let (memory, mut now) = (shared_map(), 0);
        let mut detector = settled(&memory, &mut now);
        let mut pause = |detector: &mut ChangeDetector| {
            let before = now;
            look(detector, &memory, &mut now);
            now - before
        };
        assert_eq!((0..4).map(|_| pause(&mut detector)).max(), Some(SOON));
        assert_eq!((0..100).map(|_| pause(&mut detector)).max(), Some(LATER));
        let mut made = detector.due(0, picture(), detector.next()).unwrap();
        make(&mut made, &memory);
        let from = detector.next();
        detector.made(made, (from, from + 1_000_000));
        assert_eq!(detector.next(), from + 401_000_000);
    }

    #[test]
    fn memory_that_has_gone_changes_nothing() {
        let memory = shared_map();
        let (version, surface) = picture();
        let gone = Surface { height: u32::MAX, ..surface };
        let mut detector = ChangeDetector::default();
        detector.due(0, (version, gone), 0);
        let mut look = detector.due(0, (version, gone), SETTLED).unwrap();
        make(&mut look, &memory);
        assert!(detector.made(look, (SETTLED, SETTLED)).is_empty());
    }
}
