// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state of a guest's display: what is committed, plugged in, and watched. It has no thread and no clock: callers
//! tell the time, and [`State::step`] says what to do then.

use super::change_detector::Look;
use super::compose::{Geometry, Pointer};
use super::config::DisplayConfig;
use super::crtc::{ScannedLine, Vsync};
use super::reports::Reports;
use super::source::Source;
use super::surface::Surface;
use super::viewer::{Filling, Frame, Refresh, ViewerId, Viewing};
use crate::gpu::shared::event::Event as Signal;
use bellhop_host_kmd::hardware::{DisplayPath, DisplayTicket, GuestId, Interrupt};
use bellhop_protocol::control::display::SourceMode;
use bellhop_protocol::event::{Event, EventKind, InputKind};
use bellhop_protocol::screen::Input;
use std::collections::BTreeMap;
use std::sync::Arc;
use zerocopy::FromZeros;

/// Most viewers of a guest's display at once. Each makes the display copy frames.
pub const MAX_VIEWERS: usize = 8;

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
    viewers: Vec<Viewing>,
    last_viewer: u64,
    /// What waits for the control plane.
    pub reports: Reports,
    /// The last ticket, and the last one that was reported.
    tickets: (u64, u64),
    /// Whether there is work for viewers that is not done.
    is_composing: bool,
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
    /// Whether it is the same as the frame that [`Filling::unless`] names, as far as it is composed.
    pub is_same: bool,
    /// Whether the source was gone before all of it was read.
    pub is_gone: bool,
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
            viewers: Vec::new(),
            last_viewer: 0,
            reports: Reports::default(),
            tickets: (0, 0),
            is_composing: false,
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
            self.versions = self.versions.max(source.version) + 1;
            source.version = self.versions;
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
        if !self.is_composing {
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
        let from = source.map_or(0, |source| source.last_vsync(now).count + 1);
        viewer.refresh = Some(Refresh { from, unless_same: false });
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

    /// Whoever composes: the flip that a source shows, and its picture; `None` if the source is not what it was. What was
    /// taken away before this call is read no more.
    pub fn shown(&mut self, source: u32, mode: &SourceMode) -> Option<(u64, Option<Surface>)> {
        self.report_ticket();
        let is_lit = self.is_powered && !self.is_closed;
        let source = self.sources.get(&source).filter(|source| is_lit && source.has_mode(mode))?;
        Some((source.flip(), source.surface()))
    }

    /// Whoever looks: whether a source shows this. As [`Self::shown`].
    pub fn shows(&mut self, source: u32, surface: &Surface) -> bool {
        self.report_ticket();
        let shown = self.sources.get(&source).and_then(Source::surface);
        self.is_powered && !self.is_closed && shown.as_ref() == Some(surface)
    }

    /// Thread: does what is due, and says what to compose. [`Self::flipped`] and [`Self::composed`] follow.
    pub fn step(&mut self, now: u64) -> Step {
        let mut step = Step::default();
        if !self.is_powered {
            return step;
        }
        let (guest, paths) = (self.guest, &self.paths);
        // One thing after another: who composes says when it is done, and then there is another step.
        let is_free = !self.is_composing;
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
                        let frame = Frame { buffer: 0, flip, vsync: count, time, torn_at };
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
        for path in paths.iter().filter(|_| is_free) {
            let Some(source) = self.sources.get(&path.source) else { continue };
            let vsync = source.last_vsync(now);
            let frame = Frame {
                buffer: 0,
                flip: source.flip(),
                vsync: vsync.count,
                time: vsync.time,
                torn_at: 0,
            };
            let is_due = |viewer: &Viewing| {
                viewer.wants_refresh(vsync.count)
                    || viewer.seen != source.version && source.seen_from <= vsync.count
            };
            frames(&mut self.viewers, path, source, frame, &mut step.work.jobs, is_due);
            let waits = |viewer: &Viewing| {
                viewer.target == path.target
                    && viewer.has_room()
                    && (viewer.refresh.is_some() || viewer.seen != source.version)
            };
            if self.viewers.iter().any(waits) {
                step.wakes_at = earliest(step.wakes_at, Some(source.next_vsync(now).time));
            }
        }
        for (&number, source) in self.sources.iter_mut().filter(|_| is_free) {
            let shows = |viewer: &Viewing| {
                let is_it =
                    |path: &&DisplayPath| (path.source, path.target) == (number, viewer.target);
                viewer.has_room() && paths.iter().any(|path| is_it(&path))
            };
            if self.viewers.iter().any(shows) {
                let (look, next) = source.look(number, now);
                step.work.looks.extend(look);
                step.wakes_at = earliest(step.wakes_at, next);
            }
        }
        self.is_composing |= !step.work.is_empty();
        step
    }

    /// Thread: nothing is read any more that was shown before these flips.
    pub fn flipped(&mut self, after: Vec<Interrupt>) {
        for report in after {
            self.reports.add(report);
        }
    }

    /// Thread: nobody can do this work. Viewers are shown the next change instead.
    pub fn undone(&mut self, Work { jobs, looks }: Work, now: u64) {
        for job in jobs {
            if let Some(viewer) = self.viewer(job.filling.viewer) {
                viewer.filled(&job.filling, None);
            }
        }
        self.composed(Work { jobs: Vec::new(), looks }, (now, now));
    }

    /// Whoever composes: the frames of a step are composed, and its looks are made, from one time to another.
    pub fn composed(&mut self, work: Work, (from, now): (u64, u64)) {
        self.is_composing = false;
        for job in work.jobs {
            let viewer = self.viewers.iter_mut().find(|viewer| viewer.id == job.filling.viewer);
            if let Some(viewer) = viewer {
                let is_news = job.filling.unless.is_none() || !job.is_same;
                viewer.filled(&job.filling, (is_news && !job.is_gone).then_some(job.frame));
                if job.is_gone {
                    // There may be another one in its place.
                    viewer.refresh = Some(Refresh { from: 0, unless_same: false });
                }
            }
        }
        for look in work.looks {
            let number = look.source;
            let Some(source) = self.sources.get_mut(&number) else { continue };
            if source.changes.made(look, (from, now)) {
                let from = source.last_vsync(now).count + 1;
                for viewer in &mut self.viewers {
                    let target = viewer.target;
                    if self.paths.iter().any(|it| (it.source, it.target) == (number, target)) {
                        viewer.refresh.get_or_insert(Refresh { from, unless_same: true });
                    }
                }
            }
        }
        self.report_ticket();
    }
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
    let of_path = viewers.iter_mut().filter(|viewer| viewer.target == path.target);
    for viewer in of_path.filter(|viewer| viewer.has_room() && is_due(viewer)) {
        let is_same = frame.torn_at == 0 && viewer.seen == source.version;
        let filling = match viewer.fill(&geometry, is_same) {
            Ok(Some(filling)) => filling,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!(%error, target = path.target, "a viewer has no memory for frames");
                // Otherwise each VSYNC would try again.
                (viewer.seen, viewer.refresh) = (source.version, None);
                continue;
            }
        };
        if frame.torn_at == 0 {
            (viewer.seen, viewer.refresh) = (source.version, None);
        }
        jobs.push(Job {
            source: path.source,
            mode: path.source_mode,
            geometry,
            torn_at: frame.torn_at,
            pointer: source.pointer(),
            frame: Frame { buffer: filling.buffer, ..frame },
            filling,
            is_same: true,
            is_gone: false,
        });
    }
}

#[cfg(test)]
mod tests;
