// SPDX-License-Identifier: MIT OR Apache-2.0

//! A source: what is flipped, when it is shown, and what lies over it.

use super::cells::{Cells, Grid};
use super::change_detector::{ChangeDetector, Look};
use super::compose::Pointer;
use super::crtc::{Crtc, Timing, Vsync};
use super::damage::Damage;
use super::surface::Surface;
use crate::gpu::memory::drawn::Picture;
use bellhop_host_kmd::hardware::{DisplayPath, SourceAddress};
use bellhop_protocol::control::display::{SourceMode, TargetMode};
use std::num::NonZeroU32;
use std::sync::Arc;

/// A pointer's picture and its hot spot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub width: usize,
    /// `0xAARRGGBB`.
    pub words: Arc<[u32]>,
    pub hot: (u32, u32),
}

/// A flip that has not happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pending {
    address: SourceAddress,
    /// When it was asked for, in ticks.
    asked: u64,
}

/// A committed source.
#[derive(Debug)]
pub struct Source {
    mode: SourceMode,
    /// The preferred target: that of the first path.
    pub target: u32,
    target_mode: TargetMode,
    crtc: Crtc,
    pub visible: bool,
    shown: Option<SourceAddress>,
    pending: Option<Pending>,
    /// The processes that are told of each VSYNC.
    wanted_by: Vec<u32>,
    /// What those call it: the GPUs of a chain number their sources through.
    known_as: u32,
    /// The last VSYNC that they were told of, or that nobody wanted.
    told: u64,
    shape: Option<Shape>,
    pointer: Option<(i32, i32)>,
    /// What changed of what is seen.
    pub damage: Damage,
    /// The VSYNC from which on the latest change is seen.
    pub seen_from: u64,
    pub changes: ChangeDetector,
    /// What engines draw into what is shown, while somebody watches.
    pub drawn: Option<Arc<Picture>>,
}

/// What a VSYNC brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    pub vsync: Vsync,
    /// The flip that happened at it, if one did.
    pub flip: Option<u64>,
    /// Whether it is one of which nobody was told.
    pub is_new: bool,
}

/// An immediate flip that is about to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Immediate {
    pub flip: u64,
    pub vsync: Vsync,
    /// The line of the preferred target from which on it is seen in this frame; 0 in the blank.
    pub line: u32,
}

fn timing(mode: &TargetMode) -> Timing {
    let or_one = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
    Timing {
        lines: mode.height,
        total_lines: or_one(mode.total_height),
        refresh_numerator: or_one(mode.refresh_numerator),
        refresh_denominator: or_one(mode.refresh_denominator),
        min_refresh: NonZeroU32::new(mode.min_refresh),
    }
}

impl Source {
    /// The source of its first path, which is committed now.
    pub fn new(path: &DisplayPath, version: u64, now: u64) -> Self {
        Self {
            mode: path.source_mode,
            target: path.target,
            target_mode: path.target_mode,
            crtc: Crtc::new(timing(&path.target_mode), now),
            visible: true,
            shown: None,
            pending: None,
            wanted_by: Vec::new(),
            known_as: path.source,
            told: 0,
            shape: None,
            pointer: None,
            damage: Damage::new(version),
            seen_from: 0,
            changes: ChangeDetector::default(),
            drawn: None,
        }
    }

    /// Whether it has this mode.
    pub fn has_mode(&self, mode: &SourceMode) -> bool {
        self.mode == *mode
    }

    /// Whether it stays with this path, its first: if its own mode does.
    pub fn stays(&self, path: &DisplayPath) -> bool {
        self.has_mode(&path.source_mode)
    }

    /// This is its first path from now on. If its target has another mode, frames begin anew; what is shown and what
    /// waits stays, and VSYNCs are counted on.
    pub fn set_first_path(&mut self, path: &DisplayPath, now: u64) {
        self.target = path.target;
        if self.target_mode != path.target_mode {
            self.target_mode = path.target_mode;
            let count = self.crtc.last(now).count;
            self.crtc = Crtc::from(timing(&path.target_mode), Vsync { count, time: now });
            if let Some(pending) = &mut self.pending {
                pending.asked = now;
            }
        }
    }

    /// Something other than a flip changes all that is seen from the next frame on.
    pub fn change(&mut self, now: u64) {
        self.damage.change_all();
        self.seen_from = self.crtc.last(now).count.saturating_add(1);
    }

    /// Something changes these cells of what is seen from the next frame on.
    pub fn change_cells(&mut self, cells: Cells, now: u64) {
        if !cells.is_empty() {
            self.damage.change(cells);
            self.seen_from = self.crtc.last(now).count.saturating_add(1);
        }
    }

    /// Takes what engines drew into what is shown.
    pub fn take_drawn(&mut self, now: u64) {
        let Some(picture) = &self.drawn else { return };
        let cells = Cells::from_words(picture.take());
        if !cells.is_empty() {
            self.changes.note_drawn(&cells);
            self.change_cells(cells, now);
        }
    }

    /// The cells of its picture.
    pub fn grid(&self) -> Grid {
        Grid::of((self.mode.width, self.mode.height))
    }

    /// Changes the pointer: what it lay over before and what it lies over then is seen anew.
    fn change_pointer(&mut self, now: u64, change: impl FnOnce(&mut Self)) {
        let mut cells = Cells::NONE;
        let mut mark = |source: &Self| {
            let size = (source.mode.width, source.mode.height);
            let part = source.pointer().and_then(|pointer| pointer.part(size));
            part.into_iter().for_each(|part| cells.mark(&source.grid(), &part));
        };
        mark(self);
        change(self);
        mark(self);
        self.change_cells(cells, now);
    }

    /// The flip that is shown; 0 for none.
    pub fn flip(&self) -> u64 {
        self.shown.map_or(0, |shown| shown.flip)
    }

    /// The driver's number for the flip that is shown; 0 for none.
    pub fn number(&self) -> u64 {
        self.shown.map_or(0, |shown| shown.number)
    }

    /// The processes that are told of each VSYNC, and what they call the source.
    pub fn wanted_by(&self) -> (&[u32], u32) {
        (&self.wanted_by, self.known_as)
    }

    /// The look that is due, if there may be one now, and when another one is.
    pub fn look(&mut self, number: u32, now: u64, is_free: bool) -> (Option<Look>, Option<u64>) {
        let Some(surface) = self.surface() else { return (None, None) };
        let of = (self.damage.whole(), surface);
        let look = is_free.then(|| self.changes.due(number, of, now)).flatten();
        let next = look.is_none().then(|| self.changes.next());
        (look, next)
    }

    /// What is shown. Nothing while it is not visible.
    pub fn surface(&self) -> Option<Surface> {
        self.shown.filter(|_| self.visible).map(|shown| self.surface_at(&shown))
    }

    fn surface_at(&self, address: &SourceAddress) -> Surface {
        let SourceMode { width, height, format, .. } = self.mode;
        Surface { address: address.base, pitch: address.pitch, width, height, format }
    }

    /// Asks for a flip, or for black at once. Returns the flip that will not happen because of it.
    pub fn set_address(&mut self, address: Option<SourceAddress>, now: u64) -> Option<u64> {
        let pending = address.map(|address| Pending { address, asked: now });
        let before = std::mem::replace(&mut self.pending, pending);
        if address.is_none() {
            self.shown = None;
            self.change(now);
        }
        before.map(|before| before.address.flip)
    }

    /// There is power again: a pending flip waits for the next VSYNC from now on.
    pub fn power_up(&mut self, now: u64) {
        self.told = self.crtc.last(now).count;
        if let Some(pending) = &mut self.pending {
            pending.asked = now;
        }
        self.change(now);
    }

    /// Forgets a pending flip, and counts VSYNCs anew.
    pub fn reset(&mut self, now: u64) {
        self.crtc = Crtc::new(timing(&self.target_mode), now);
        (self.pending, self.told) = (None, 0);
        self.change(now);
    }

    /// These processes are told of each VSYNC from now on, under the source's number that they know.
    pub fn control_vsync(&mut self, known_as: u32, wanted_by: &[u32], now: u64) {
        if self.wanted_by.is_empty() {
            self.told = self.crtc.last(now).count;
        }
        (self.known_as, self.wanted_by) = (known_as, wanted_by.to_vec());
    }

    /// Shows or blanks it.
    pub fn set_visible(&mut self, visible: bool, now: u64) {
        if self.visible != visible {
            self.visible = visible;
            self.told = self.crtc.last(now).count;
            self.change(now);
            if !visible {
                // A blanked source has no VSYNC that viewers could wait for.
                self.seen_from = 0;
            }
        }
    }

    /// Gives the pointer another picture.
    pub fn set_shape(&mut self, shape: Option<Shape>, now: u64) {
        self.change_pointer(now, |source| source.shape = shape);
    }

    /// Moves the pointer.
    pub fn move_pointer(&mut self, at: Option<(i32, i32)>, now: u64) {
        if self.pointer != at {
            self.change_pointer(now, |source| source.pointer = at);
        }
    }

    /// The pointer, if it is seen.
    pub fn pointer(&self) -> Option<Pointer> {
        let ((x, y), shape) = (self.pointer.filter(|_| self.visible)?, self.shape.as_ref()?);
        let at = |place: i32, hot: u32| i64::from(place) - i64::from(hot);
        let at = (at(x, shape.hot.0), at(y, shape.hot.1));
        Some(Pointer { width: shape.width, words: Arc::clone(&shape.words), at })
    }

    /// The line that is scanned, and whether it is one of the vertical blank.
    pub fn line(&self, now: u64) -> super::crtc::ScannedLine {
        if self.visible {
            return self.crtc.line(now);
        }
        super::crtc::ScannedLine { line: self.target_mode.height, in_vertical_blank: true }
    }

    /// The last VSYNC.
    pub fn last_vsync(&self, now: u64) -> Vsync {
        self.crtc.last(now)
    }

    /// The next VSYNC, at which nothing is flipped.
    pub fn next_vsync(&self, now: u64) -> Vsync {
        self.crtc.next(now)
    }

    /// Does a flip that happens at once: an immediate one, or any if the source is not visible.
    pub fn flip_at_once(&mut self, now: u64) -> Option<Immediate> {
        let is_at_once = |pending: &Pending| pending.address.immediate || !self.visible;
        let address = self.pending.take_if(|pending| is_at_once(pending))?.address;
        let (line, last) = (self.line(now), self.crtc.last(now));
        self.shown = Some(address);
        self.damage.change_all();
        self.seen_from = if self.visible { last.count.saturating_add(1) } else { 0 };
        Some(Immediate {
            flip: address.flip,
            vsync: Vsync { time: now, ..last },
            line: if line.in_vertical_blank { 0 } else { line.line },
        })
    }

    /// Does the flip whose VSYNC has come. Returns the last VSYNC, unless none counts.
    pub fn pass(&mut self, now: u64) -> Option<Passed> {
        if !self.visible {
            return None;
        }
        let mut flip = None;
        if let Some(pending) = self.pending
            && !pending.address.immediate
        {
            let vsync = self.crtc.flip(pending.asked);
            if vsync.time <= now {
                self.crtc.flipped(vsync);
                self.shown = Some(pending.address);
                self.pending = None;
                self.damage.change_all();
                self.seen_from = 0;
                flip = Some(pending.address.flip);
            }
        }
        let vsync = self.crtc.last(now);
        let is_new = vsync.count > self.told;
        self.told = self.told.max(vsync.count);
        Some(Passed { vsync, flip, is_new })
    }

    /// When a VSYNC comes that has to be looked at; `None` while nobody wants one.
    pub fn wakes_at(&self, now: u64) -> Option<u64> {
        if !self.visible {
            return None;
        }
        match self.pending {
            Some(pending) => Some(self.crtc.flip(pending.asked).time),
            None => (!self.wanted_by.is_empty()).then(|| self.crtc.next(now).time),
        }
    }
}
