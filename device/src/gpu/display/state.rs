// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state of a guest's display: what is committed, plugged in, and watched. It has no thread and no clock: callers
//! tell the time, and [`State::step`] says what to do then.

use super::cells::{Cells, Grid};
use super::change_detector::Look;
use super::compose::{Geometry, Pointer};
use super::config::DisplayConfig;
use super::crtc::{ScannedLine, Vsync};
use super::reports::Reports;
use super::source::Source;
use super::surface::Surface;
use super::viewer::{Filling, Frame, ViewerId, Viewing};
use crate::gpu::memory::drawn::Picture;
use crate::gpu::shared::event::Event as Signal;
use bellhop_host_kmd::hardware::{DisplayPath, DisplayTicket, GuestId, Interrupt};
use bellhop_protocol::control::display::SourceMode;
use bellhop_protocol::event::{Event, EventKind, InputKind};
use bellhop_protocol::rect::Rect;
use bellhop_protocol::screen::Input;
use std::collections::BTreeMap;
use std::sync::Arc;
use zerocopy::FromZeros;

/// Most viewers of a guest's display at once. Each makes the display copy frames.
pub const MAX_VIEWERS: usize = 8;

/// How much longer than a guest's frames took the rest after them is, at least: viewers of one guest use at most half of a
/// processor, however large its screens are and however often it flips.
const REST: u64 = 1;

/// A connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connector {
    plugged: bool,
}

/// See the module.
#[derive(Debug)]
pub struct State {
    guest: GuestId,
    connectors: Vec<Connector>,
    paths: Vec<DisplayPath>,
    sources: BTreeMap<u32, Source>,
    /// The last version of a picture, so that none is used twice.
    versions: u64,
    /// The pictures into which engines tell what they draw, by source.
    watched: Vec<(u32, Surface)>,
    viewers: Vec<Viewing>,
    last_viewer: u64,
    /// What waits for the control plane.
    pub reports: Reports,
    /// The last ticket, and the last one that was reported.
    tickets: (u64, u64),
    /// Whether there is work for viewers that is not done.
    is_composing: bool,
    /// When there may be work for viewers again.
    rests_until: u64,
    /// Whether a slice is read of what was shown at its begin.
    is_reading: bool,
    /// Reports of flips that wait until that slice has ended.
    after_slice: Vec<Interrupt>,
    /// What was done for viewers.
    pub costs: Costs,
    /// Whether a thread runs.
    pub is_running: bool,
    /// Without power nothing is scanned, and all is kept.
    is_powered: bool,
    /// The guest is gone: the thread ends.
    pub is_closed: bool,
}

/// A frame to compose.
#[derive(Debug)]
pub struct Job {
    pub source: u32,
    /// The source's mode. While it has this one, the frame is of what it shows.
    pub mode: SourceMode,
    pub geometry: Geometry,
    /// The row from which on the screen is read from the source. Above it, it is as the viewer has seen it.
    pub torn_at: u32,
    pub pointer: Option<Pointer>,
    pub filling: Filling,
    pub frame: Frame,
    /// The cells of the source that are composed; `None` for the whole screen. The rest is in the buffer.
    pub cells: Option<Cells>,
    /// The version of the picture that is in the buffer then; 0 for a mixture.
    pub version: u64,
    /// Whether the viewer is told of the frame even if it is the same as the latest.
    pub is_news: bool,
    /// Where it differs from the latest, on the screen.
    pub changed: Cells,
    /// Bytes that were composed, and bytes that were compared.
    pub bytes: (u64, u64),
    /// Whether the source was gone before all of it was read, or has flipped and only a part was to be composed.
    pub is_gone: bool,
}

/// What was done for viewers of a guest, in sums that only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// Frames that were composed, wholly or in part.
    pub frames: u64,
    /// Bytes of frames that were composed.
    pub composed: u64,
    /// Bytes of frames that were compared with the frame before.
    pub compared: u64,
    /// Bytes that were looked at to find what nobody tells.
    pub looked_at: u64,
}

/// What is done for viewers, beside the thread that scans out.
#[derive(Debug, Default)]
pub struct Work {
    /// Frames to compose.
    pub jobs: Vec<Job>,
    /// Looks at what is shown.
    pub looks: Vec<Look>,
}

impl Work {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.looks.is_empty()
    }
}

/// What the thread does next.
#[derive(Debug, Default)]
pub struct Step {
    /// If others than before: the pictures into which engines tell what they draw, before work is begun.
    /// [`State::watch_drawn`] follows.
    pub watched: Option<Vec<(u32, Surface)>>,
    /// What viewers wait for. [`State::composed`] follows; until then there is no more of it.
    pub work: Work,
    /// VSYNCs that the guest is told of at once.
    pub events: Vec<Event>,
    /// Reports of flips, which wait until nothing is read that was shown before: [`State::flipped`].
    pub after: Vec<Interrupt>,
    /// When to look again, in ticks; `None`: when something happens.
    pub wakes_at: Option<u64>,
}

impl State {
    /// A display of which nothing is committed.
    pub fn new(guest: GuestId, config: &DisplayConfig) -> Self {
        let connector = |plugged| Connector { plugged };
        Self {
            guest,
            connectors: config.connectors.iter().map(|one| connector(one.plugged)).collect(),
            paths: Vec::new(),
            sources: BTreeMap::new(),
            versions: 0,
            watched: Vec::new(),
            viewers: Vec::new(),
            last_viewer: 0,
            reports: Reports::default(),
            tickets: (0, 0),
            is_composing: false,
            rests_until: 0,
            is_reading: false,
            after_slice: Vec::new(),
            costs: Costs::default(),
            is_running: false,
            is_powered: true,
            is_closed: false,
        }
    }

    /// The committed paths.
    pub fn paths(&self) -> &[DisplayPath] {
        &self.paths
    }

    /// Whether a monitor is plugged into a connector.
    pub fn is_plugged(&self, child: u32) -> bool {
        self.connectors.get(child as usize).is_some_and(|connector| connector.plugged)
    }

    /// Plugs a monitor in or unplugs it. Returns whether that changed anything.
    pub fn plug(&mut self, child: u32, plugged: bool) -> bool {
        let connector = self.connectors.get_mut(child as usize);
        let Some(connector) = connector.filter(|connector| connector.plugged != plugged) else {
            return false;
        };
        connector.plugged = plugged;
        self.reports.add(Interrupt::ChildStatusChanged { guest: self.guest, child })
    }

    /// The source with this number, if it is committed.
    pub fn source(&mut self, source: u32) -> Option<&mut Source> {
        self.sources.get_mut(&source)
    }

    /// See [`Display::commit_vidpn`](bellhop_host_kmd::hardware::Display::commit_vidpn).
    pub fn commit(&mut self, paths: &[DisplayPath], now: u64) {
        let mut before = std::mem::take(&mut self.sources);
        for path in paths {
            if self.sources.contains_key(&path.source) {
                continue;
            }
            let stayed = before.remove(&path.source).filter(|source| source.stays(path));
            let source = match stayed {
                Some(mut source) => {
                    let of_source = |other: &&DisplayPath| other.source == path.source;
                    if !self.paths.iter().filter(of_source).eq(paths.iter().filter(of_source)) {
                        source.set_first_path(path, now);
                        source.change(now);
                    }
                    source
                }
                None => Source::new(path, 0, now),
            };
            self.sources.insert(path.source, source);
        }
        self.paths = paths.to_vec();
        // A viewer compares versions of whatever its target shows.
        for source in self.sources.values_mut() {
            self.versions = self.versions.max(source.damage.version()) + 1;
            source.damage.begin_anew(self.versions);
        }
        for viewer in &mut self.viewers {
            match paths.iter().find(|path| path.target == viewer.target) {
                Some(path) => viewer.set_size(Self::geometry(path).target),
                None => viewer.lose_signal(),
            }
        }
    }

    /// Gives it power, or takes it.
    pub fn set_power(&mut self, on: bool, now: u64) {
        if std::mem::replace(&mut self.is_powered, on) == on {
            return;
        }
        if on {
            self.sources.values_mut().for_each(|source| source.power_up(now));
        } else {
            self.viewers.iter_mut().for_each(Viewing::lose_signal);
        }
    }

    /// See [`Display::reset_display`](bellhop_host_kmd::hardware::Display::reset_display).
    pub fn reset(&mut self, now: u64) {
        self.sources.values_mut().for_each(|source| source.reset(now));
    }

    /// The line that a source's preferred target scans; the blank if nothing is scanned.
    pub fn line(&self, source: u32, now: u64) -> ScannedLine {
        let source = self.sources.get(&source).filter(|_| self.is_powered);
        let blank = ScannedLine { line: 0, in_vertical_blank: true };
        source.map_or(blank, |source| source.line(now))
    }

    /// A ticket that is reported when no surface is read that was taken away before.
    pub fn quiesce(&mut self) -> DisplayTicket {
        self.tickets.0 += 1;
        if !self.is_reading {
            self.report_ticket();
        }
        DisplayTicket(self.tickets.0)
    }

    fn report_ticket(&mut self) {
        let (last, reported) = self.tickets;
        if last > reported {
            self.tickets.1 = last;
            let ticket = DisplayTicket(last);
            self.reports.add(Interrupt::DisplayQuiesced { guest: self.guest, ticket });
        }
    }

    /// The guest is gone, and nobody sees it any more.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.viewers.drain(..).for_each(|viewer| viewer.told.signal());
    }

    /// The thread ends. Another one begins anew.
    pub fn stop(&mut self) {
        self.is_running = false;
        self.watched.clear();
    }

    /// Adds a viewer of a target; `None` if there are too many.
    pub fn add_viewer(&mut self, target: u32, told: Arc<Signal>) -> Option<ViewerId> {
        if self.viewers.len() >= MAX_VIEWERS {
            return None;
        }
        self.last_viewer += 1;
        let id = ViewerId(self.last_viewer);
        self.viewers.push(Viewing::new(id, target, told));
        Some(id)
    }

    /// Removes a viewer, who lets go of all keys and buttons.
    pub fn remove_viewer(&mut self, id: ViewerId) {
        let Some(at) = self.viewers.iter().position(|viewer| viewer.id == id) else { return };
        let Viewing { target, mut held_down, .. } = self.viewers.remove(at);
        for input in held_down.let_go() {
            self.report_input(target, input);
        }
    }

    /// The viewer with this number.
    pub fn viewer(&mut self, id: ViewerId) -> Option<&mut Viewing> {
        self.viewers.iter_mut().find(|viewer| viewer.id == id)
    }

    /// Number of viewers of a target.
    pub fn viewers_of(&self, target: u32) -> usize {
        self.viewers.iter().filter(|viewer| viewer.target == target).count()
    }

    /// Has a viewer get frames from now on, the first by the next VSYNC; or none.
    pub fn watch(&mut self, id: ViewerId, watches: bool, now: u64) {
        let Some(viewer) = self.viewers.iter_mut().find(|viewer| viewer.id == id) else { return };
        viewer.watches = watches;
        if !watches {
            return;
        }
        let path = self.paths.iter().find(|path| path.target == viewer.target);
        let source = path.and_then(|path| self.sources.get(&path.source));
        viewer.refresh = Some(source.map_or(0, |source| source.last_vsync(now).count + 1));
    }

    fn geometry(path: &DisplayPath) -> Geometry {
        Geometry {
            source: (path.source_mode.width, path.source_mode.height),
            target: (path.target_mode.width, path.target_mode.height),
            scaling: path.scaling,
            rotation: path.rotation,
        }
    }

    /// Adds what a viewer did, if its target shows something. Returns false if it was dropped. What it lets go of is not
    /// dropped, if it was told of before.
    pub fn input(&mut self, id: ViewerId, input: Input) -> bool {
        let Some(viewer) = self.viewers.iter_mut().find(|viewer| viewer.id == id) else {
            return false;
        };
        let (target, mut held) = (viewer.target, viewer.held_down.clone());
        // A press that is dropped is not held, so that it does not come up either.
        let is_taken = held.follow(input) && self.report_input(target, input);
        let has_ended = matches!(input, Input::Key { down: false, .. });
        if is_taken || has_ended {
            self.viewer(id).into_iter().for_each(|viewer| viewer.held_down = held.clone());
        }
        is_taken
    }

    fn report_input(&mut self, target: u32, input: Input) -> bool {
        let Some(path) = self.paths.iter().find(|path| path.target == target) else { return false };
        let (kind, value) = match input {
            Input::Key { keysym, down } => {
                (InputKind::KEY, u64::from(keysym) << 1 | u64::from(down))
            }
            Input::Pointer { x, y, buttons } => {
                let (x, y) = Self::geometry(path).source_at((x, y));
                let place = u64::from(x) << 32 | u64::from(y.min(0xffff)) << 16;
                (InputKind::POINTER, place | u64::from(buttons))
            }
        };
        let (guest, source) = (self.guest, path.source);
        self.reports.add(Interrupt::DisplayInput { guest, source, kind, value })
    }

    /// Whoever composes, before a slice: the flip that a source shows, and its picture; `None` if the source is not what it
    /// was. [`Self::slice_ended`] follows.
    pub fn shown(&mut self, source: u32, mode: &SourceMode) -> Option<(u64, Option<Surface>)> {
        let is_lit = self.is_powered && !self.is_closed;
        let source = self.sources.get(&source).filter(|source| is_lit && source.has_mode(mode))?;
        self.is_reading = true;
        Some((source.flip(), source.surface()))
    }

    /// Whoever looks, before a row: whether a source shows this. As [`Self::shown`].
    pub fn shows(&mut self, source: u32, surface: &Surface) -> bool {
        let shown = self.sources.get(&source).and_then(Source::surface);
        self.is_reading = self.is_powered && !self.is_closed && shown.as_ref() == Some(surface);
        self.is_reading
    }

    /// Whoever composes or looks: nothing is read any more, until what is shown is asked for again. So what was shown before
    /// a flip, or was taken away, is read no more, and those who wait for that are told.
    pub fn slice_ended(&mut self) {
        self.is_reading = false;
        for report in std::mem::take(&mut self.after_slice) {
            self.reports.add(report);
        }
        self.report_ticket();
    }

    /// Thread: does what is due, and says what to compose. [`Self::flipped`] and [`Self::composed`] follow.
    pub fn step(&mut self, now: u64) -> Step {
        let mut step = Step::default();
        if !self.is_powered {
            return step;
        }
        let (guest, paths) = (self.guest, &self.paths);
        // One thing after another: who composes says when it is done, and then there is another step.
        let is_free = !self.is_composing && now >= self.rests_until;
        for (&number, source) in &mut self.sources {
            let target = source.target;
            if let Some(flipped) = source.flip_at_once(now) {
                let (flip, vsync) = (flipped.flip, flipped.vsync);
                let (count, time) = (vsync.count, vsync.time);
                let flipped_at = flipped.line;
                step.after.push(Interrupt::Flipped { guest, source: number, flip, count, time });
                if flipped_at > 0 && is_free {
                    let of_source = paths.iter().filter(|path| path.source == number);
                    for path in of_source {
                        let torn_at = flipped_at.min(path.target_mode.height);
                        let frame = Frame { torn_at, ..frame_of(flip, vsync) };
                        let jobs = &mut step.work.jobs;
                        frames(&mut self.viewers, path, source, frame, jobs, |_| true);
                    }
                }
            }
            if let Some(passed) = source.pass(now) {
                let Vsync { count, time } = passed.vsync;
                if let Some(flip) = passed.flip {
                    let vsync =
                        Interrupt::CrtcVsync { guest, source: number, target, flip, count, time };
                    step.after.push(vsync);
                }
                if passed.is_new {
                    let (told, known_as) = source.wanted_by();
                    step.events.extend(told.iter().map(|process| Event {
                        kind: EventKind::VSYNC,
                        process: *process,
                        object: known_as.into(),
                        value: source.number(),
                        cookie: count,
                        time,
                        ..Event::new_zeroed()
                    }));
                }
            }
            step.wakes_at = earliest(step.wakes_at, source.wakes_at(now));
        }
        let is_watched = |number: u32| {
            let shows = |path: &&DisplayPath| path.source == number;
            paths.iter().filter(shows).any(|path| {
                self.viewers.iter().any(|viewer| viewer.watches && viewer.target == path.target)
            })
        };
        let watched = self.sources.iter().filter(|(number, _)| is_watched(**number));
        let watched = watched.filter_map(|(number, source)| Some((*number, source.surface()?)));
        if !watched.clone().eq(self.watched.iter().copied()) {
            self.watched = watched.collect();
            step.watched = Some(self.watched.clone());
        }
        self.sources.values_mut().for_each(|source| source.take_drawn(now));
        // Once the rest is over, frames go on at VSYNCs.
        for path in paths.iter().filter(|_| !self.is_composing) {
            let Some(source) = self.sources.get(&path.source) else { continue };
            let vsync = source.last_vsync(now);
            let frame = frame_of(source.flip(), vsync);
            let version = source.damage.version();
            let is_due = |viewer: &Viewing| {
                viewer.wants_refresh(vsync.count)
                    || viewer.seen != version && source.seen_from <= vsync.count
            };
            if is_free {
                frames(&mut self.viewers, path, source, frame, &mut step.work.jobs, is_due);
            }
            let waits = |viewer: &Viewing| {
                viewer.target == path.target
                    && viewer.has_room()
                    && (viewer.refresh.is_some() || viewer.seen != version)
            };
            if self.viewers.iter().any(waits) {
                let from = now.max(self.rests_until.saturating_sub(1));
                step.wakes_at = earliest(step.wakes_at, Some(source.next_vsync(from).time));
            }
        }
        for (&number, source) in self.sources.iter_mut().filter(|_| !self.is_composing) {
            let shows = |viewer: &Viewing| {
                let is_it =
                    |path: &&DisplayPath| (path.source, path.target) == (number, viewer.target);
                viewer.has_room() && paths.iter().any(|path| is_it(&path))
            };
            if self.viewers.iter().any(shows) {
                let (look, next) = source.look(number, now, is_free);
                step.work.looks.extend(look);
                step.wakes_at = earliest(step.wakes_at, next.map(|at| at.max(self.rests_until)));
            }
        }
        self.is_composing |= !step.work.is_empty();
        step
    }

    /// Thread: engines tell from now on what they draw into these pictures of sources, and into no others.
    pub fn watch_drawn(&mut self, pictures: &[(u32, Arc<Picture>)]) {
        for (number, source) in &mut self.sources {
            let of_source = pictures.iter().find(|(of, _)| of == number);
            source.drawn = of_source.map(|(_, picture)| Arc::clone(picture));
        }
    }

    /// Thread: what was shown before these flips is read no more once a slice that is being read has ended.
    pub fn flipped(&mut self, after: Vec<Interrupt>) {
        if self.is_reading {
            self.after_slice.extend(after);
            return;
        }
        for report in after {
            self.reports.add(report);
        }
    }

    /// Thread: nobody can do this work. Viewers are shown the next change instead.
    pub fn undone(&mut self, Work { jobs, looks }: Work, now: u64) {
        for job in jobs {
            if let Some(viewer) = self.viewer(job.filling.viewer) {
                viewer.filled(&job.filling, 0, None);
            }
        }
        self.composed(Work { jobs: Vec::new(), looks }, (now, now));
    }

    /// Whoever composes: the frames of a step are composed, and its looks are made, from one time to another.
    pub fn composed(&mut self, work: Work, (from, now): (u64, u64)) {
        self.is_composing = false;
        if !work.jobs.is_empty() {
            let took = now.saturating_sub(from);
            self.rests_until = now.saturating_add(took.saturating_mul(REST));
        }
        for job in work.jobs {
            let Job { filling, geometry, changed, version, .. } = &job;
            self.costs.frames += 1;
            self.costs.composed += job.bytes.0;
            self.costs.compared += job.bytes.1;
            let viewer = self.viewers.iter_mut().find(|viewer| viewer.id == filling.viewer);
            let Some(viewer) = viewer else { continue };
            if job.is_gone {
                viewer.filled(filling, 0, None);
                // There may be another one in its place.
                viewer.refresh = Some(0);
                continue;
            }
            let changed = changed.bounds(&Grid::of(geometry.target)).unwrap_or(Rect::NONE);
            let is_told = job.is_news || changed != Rect::NONE;
            viewer.filled(filling, *version, is_told.then_some(Frame { changed, ..job.frame }));
        }
        for look in work.looks {
            self.costs.looked_at += look.bytes;
            if let Some(source) = self.sources.get_mut(&look.source) {
                let changed = source.changes.made(look, (from, now));
                source.change_cells(changed, now);
            }
        }
    }
}

/// A whole frame, before it is known what changes with it.
fn frame_of(flip: u64, Vsync { count, time }: Vsync) -> Frame {
    Frame { buffer: 0, flip, vsync: count, time, torn_at: 0, changed: Rect::NONE }
}

fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// Adds a frame for each viewer of a path for which it is due and that has room.
fn frames(
    viewers: &mut [Viewing],
    path: &DisplayPath,
    source: &Source,
    frame: Frame,
    jobs: &mut Vec<Job>,
    is_due: impl Fn(&Viewing) -> bool,
) {
    let geometry = State::geometry(path);
    let (version, torn_at) = (source.damage.version(), frame.torn_at);
    let of_path = viewers.iter_mut().filter(|viewer| viewer.target == path.target);
    for viewer in of_path.filter(|viewer| viewer.has_room() && is_due(viewer)) {
        if torn_at > 0 && !viewer.has_frame() {
            // Above the tear there would be nothing. A whole one follows.
            continue;
        }
        let is_news =
            torn_at > 0 || viewer.refresh.is_some() || viewer.seen < source.damage.whole();
        let filling = match viewer.fill(&geometry) {
            Ok(Some(filling)) => filling,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!(%error, target = path.target, "a viewer has no memory for frames");
                // Otherwise each VSYNC would try again.
                (viewer.seen, viewer.refresh) = (version, None);
                continue;
            }
        };
        if torn_at == 0 {
            (viewer.seen, viewer.refresh) = (version, None);
        }
        jobs.push(Job {
            source: path.source,
            mode: path.source_mode,
            geometry,
            torn_at,
            pointer: source.pointer(),
            frame: Frame { buffer: filling.buffer, ..frame },
            cells: source.damage.since(filling.version).filter(|_| torn_at == 0),
            version: if torn_at == 0 { version } else { 0 },
            filling,
            is_news,
            changed: Cells::NONE,
            bytes: (0, 0),
            is_gone: false,
        });
    }
}

#[cfg(test)]
mod tests;
