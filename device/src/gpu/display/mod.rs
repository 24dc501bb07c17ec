// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays: each guest has all connectors of its adapter for itself.
//!
//! A guest that shows nothing has no thread and no timer. Once a VidPN is committed, one thread scans all of the guest's
//! sources out (`scan_out`); once somebody views them, another composes their frames (`composer`). The control plane,
//! viewers and those threads share one `State` under one lock, which nobody holds while memory of the guest is read.
//! Whoever changes the state signals the thread's event after it; the thread clears the event before it looks. None of
//! this is on the way from a doorbell to a fence.
//!
//! Source: Windows KMD overview, "Display" and "Flip/Present".

mod cells;
mod change_detector;
mod compose;
mod composer;
pub mod config;
mod crtc;
mod damage;
mod frame_buffer;
mod parts;
mod reports;
mod scan_out;
mod source;
mod state;
mod surface;
mod viewer;

use crate::gpu::shared::chip::Chip;
use crate::gpu::shared::event::Event;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::{
    ConnectorCaps, ConnectorUse, DisplayCaps, DisplayPath, DisplayTicket, GuestId, Interrupt,
    Monitor, PointerShape, SourceAddress,
};
use bellhop_protocol::control::flip::ScanLine;
use bellhop_protocol::pixel_format::PixelFormat;
use bellhop_protocol::screen::Input;
use config::DisplayConfig;
pub use frame_buffer::FrameBuffer;
use scan_out::Timer;
use source::{Shape, Source};
use state::State;
pub use state::{Costs, MAX_VIEWERS};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use surface::Surface;
use viewer::ViewerId;
pub use viewer::{Frame, Update};

/// Widest and highest picture. Longer rows fit into no EDID.
const MAX_SIDE: u32 = 16_384;
/// Most pixels of a pointer's side.
const POINTER_SIDE: u32 = 64;

/// The displays of all guests of an adapter.
#[derive(Debug)]
pub struct Displays {
    config: Arc<DisplayConfig>,
    chip: Arc<Chip>,
    guests: Mutex<HashMap<GuestId, Arc<GuestDisplay>>>,
    /// What a guest that is attached begins with.
    is_powered: AtomicBool,
}

/// A guest's display.
#[derive(Debug)]
pub struct GuestDisplay {
    config: Arc<DisplayConfig>,
    chip: Arc<Chip>,
    partition: Arc<Partition>,
    state: Mutex<State>,
    /// Wakes the thread.
    event: Event,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// How often the thread was woken.
    wakeups: AtomicU64,
}

/// A connector, as tools see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// The guest.
    pub guest: GuestId,
    /// The connector's number.
    pub target: u32,
    /// The connector's name.
    pub name: String,
    /// Whether a monitor is plugged in.
    pub plugged: bool,
    /// What is committed, if anything is.
    pub path: Option<DisplayPath>,
    /// Number of viewers.
    pub viewers: usize,
    /// How often the display's thread was woken, for all of the guest's connectors.
    pub wakeups: u64,
    /// What was done for viewers of all of the guest's connectors.
    pub costs: Costs,
}

/// Why a viewer cannot see a target, or a connector cannot be plugged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScreenError {
    /// There is no such guest, or it has no display.
    #[error("there is no guest {0} with a display")]
    NoGuest(u64),
    /// There is no such connector.
    #[error("there is no connector {0}")]
    NoConnector(u32),
    /// Too many viewers.
    #[error("the guest's display already has {MAX_VIEWERS} viewers")]
    Full,
    /// The operating system has no file descriptors.
    #[error("the daemon is out of file descriptors")]
    NoDescriptor,
}

impl Displays {
    /// No guests.
    pub fn new(config: DisplayConfig, chip: Arc<Chip>) -> Self {
        Self {
            config: Arc::new(config),
            chip,
            guests: Mutex::default(),
            is_powered: AtomicBool::new(true),
        }
    }

    /// What each guest's display can do.
    pub fn caps(&self) -> DisplayCaps {
        let connectors = &self.config.connectors;
        let caps = connectors
            .iter()
            .map(|one| ConnectorCaps { kind: one.kind, max_pixel_rate: one.max_pixel_rate });
        DisplayCaps {
            sources: u32::try_from(connectors.len()).unwrap_or(u32::MAX),
            connectors: caps.collect(),
            total_pixel_rate: self.config.total_pixel_rate,
            max_width: MAX_SIDE,
            max_height: MAX_SIDE,
        }
    }

    /// Gives a guest its display, if the adapter has one.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn attach(&self, partition: &Arc<Partition>) -> io::Result<()> {
        if self.config.connectors.is_empty() {
            return Ok(());
        }
        let guest = partition.id();
        let display = GuestDisplay {
            config: Arc::clone(&self.config),
            chip: Arc::clone(&self.chip),
            partition: Arc::clone(partition),
            state: Mutex::new(State::new(guest, &self.config)),
            event: Event::new()?,
            thread: Mutex::default(),
            wakeups: AtomicU64::new(0),
        };
        let mut guests = self.guests();
        display.set_power(self.is_powered.load(Ordering::Relaxed));
        guests.insert(guest, Arc::new(display));
        Ok(())
    }

    /// Takes a guest's display away.
    pub fn detach(&self, guest: GuestId) {
        let display = self.guests().remove(&guest);
        if let Some(display) = display {
            display.close();
        }
    }

    /// Gives all displays power, or takes it.
    pub fn set_power(&self, on: bool) {
        let guests = self.guests();
        // Relaxed: all accesses are under the lock.
        self.is_powered.store(on, Ordering::Relaxed);
        guests.values().for_each(|display| display.set_power(on));
    }

    /// A guest's display.
    pub fn get(&self, guest: GuestId) -> Option<Arc<GuestDisplay>> {
        self.guests().get(&guest).cloned()
    }

    /// All connectors of all guests, by guest.
    pub fn screens(&self) -> Vec<Screen> {
        let mut displays: Vec<_> = self.guests().values().cloned().collect();
        displays.sort_by_key(|display| display.guest());
        displays.iter().flat_map(|display| display.screens()).collect()
    }

    /// Control plane: takes what displays report.
    pub fn take_interrupts(&self) -> Vec<Interrupt> {
        let guests = self.guests();
        guests.values().flat_map(|display| display.lock().reports.take()).collect()
    }

    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a look-up")]
    fn guests(&self) -> MutexGuard<'_, HashMap<GuestId, Arc<GuestDisplay>>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Displays {
    fn drop(&mut self) {
        let displays = std::mem::take(&mut *self.guests());
        displays.values().for_each(|display| display.close());
    }
}

impl GuestDisplay {
    /// Whose display it is.
    pub fn guest(&self) -> GuestId {
        self.partition.id()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a lock that is held for a few stores; frames are composed and copied without it"
    )]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and has the thread look at it.
    fn change<T>(&self, change: impl FnOnce(&mut State, u64) -> T) -> T {
        let changed = change(&mut self.lock(), self.chip.now());
        self.event.signal();
        changed
    }

    /// Changes a committed source; nothing if it is not committed.
    fn change_source(&self, source: u32, change: impl FnOnce(&mut Source, u64)) {
        self.change(|state, now| {
            if let Some(source) = state.source(source) {
                change(source, now);
            }
        });
    }

    /// Tells the control plane if there is something to report.
    fn tell(&self) {
        if !self.lock().reports.is_empty() {
            self.chip.interrupts.raise_display();
        }
    }

    fn set_power(&self, on: bool) {
        self.change(|state, now| state.set_power(on, now));
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the thread of the guest that goes: until its own display's thread has ended"
    )]
    fn close(&self) {
        self.change(|state, _| state.close());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(guest = self.guest().0, "a display panicked");
        }
    }

    /// What is plugged into a connector.
    pub fn monitor(&self, child: u32) -> Option<Monitor> {
        let connector = self.config.connectors.get(child as usize)?;
        self.lock().is_plugged(child).then(|| connector.monitor.clone())
    }

    /// What people made of a connector.
    pub fn connector_use(&self, child: u32) -> ConnectorUse {
        let connector = self.config.connectors.get(child as usize);
        let name = connector.map(|connector| connector.name.clone()).unwrap_or_default();
        ConnectorUse { name, viewers: self.lock().viewers_of(child) as u64 }
    }

    /// See [`Display::commit_vidpn`](bellhop_host_kmd::hardware::Display::commit_vidpn). Starts the thread if this is the
    /// first path.
    pub fn commit(self: &Arc<Self>, paths: &[DisplayPath]) {
        let starts = self.change(|state, now| {
            state.commit(paths, now);
            let starts = !state.paths().is_empty() && !state.is_running && !state.is_closed;
            state.is_running |= starts;
            starts
        });
        if starts && let Err(error) = self.start() {
            tracing::error!(%error, guest = self.guest().0, "cannot start a display's thread");
            self.lock().is_running = false;
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a lock that is held for one store")]
    fn start(self: &Arc<Self>) -> io::Result<()> {
        let timer = Timer::new(|| self.chip.now())?;
        let display = Arc::clone(self);
        let thread =
            Builder::new().name("display".into()).spawn(move || scan_out::run(&display, &timer))?;
        // An earlier thread has ended, or is about to: it no longer runs.
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Shows or blanks a source.
    pub fn set_visible(&self, source: u32, visible: bool) {
        self.change_source(source, |source, now| source.set_visible(visible, now));
    }

    /// Flips a source, or has it show black. Returns the flip that will not happen because of it.
    pub fn set_address(&self, source: u32, address: Option<SourceAddress>) -> Option<u64> {
        self.change(|state, now| state.source(source)?.set_address(address, now))
    }

    /// See [`Display::reset_display`](bellhop_host_kmd::hardware::Display::reset_display).
    pub fn reset(&self) {
        self.change(State::reset);
    }

    /// The line that a source's preferred target scans.
    pub fn scan_line(&self, source: u32) -> ScanLine {
        let now = self.chip.now();
        let line = self.lock().line(source, now);
        ScanLine { line: line.line, in_vertical_blank: line.in_vertical_blank.into() }
    }

    /// Has these processes told of each VSYNC of a source, which they know by another number.
    pub fn control_vsync(&self, source: u32, known_as: u32, wanted_by: &[u32]) {
        self.change_source(source, |source, now| source.control_vsync(known_as, wanted_by, now));
    }

    /// Gives a source's pointer a shape, which is read now.
    pub fn set_pointer(&self, source: u32, shape: Option<PointerShape>) {
        let shape = shape.and_then(|shape| self.read_shape(&shape));
        self.change_source(source, |source, now| source.set_shape(shape, now));
    }

    fn read_shape(&self, shape: &PointerShape) -> Option<Shape> {
        let sides = 1..=POINTER_SIDE;
        if !sides.contains(&shape.width) || !sides.contains(&shape.height) {
            return None;
        }
        let surface = Surface {
            address: shape.base,
            pitch: shape.pitch,
            width: shape.width,
            height: shape.height,
            format: PixelFormat::A8R8G8B8,
        };
        let memory = self.partition.memory();
        let rows = surface.rows(&memory)?;
        let width = shape.width as usize;
        let mut words = vec![0; width * shape.height as usize];
        for (words, row) in words.chunks_exact_mut(width).zip(0..) {
            rows.read(row, 0, words);
        }
        Some(Shape { width, words: words.into(), hot: (shape.hot_x, shape.hot_y) })
    }

    /// Moves a source's pointer.
    pub fn move_pointer(&self, source: u32, at: (i32, i32), visible: bool) {
        let at = visible.then_some(at);
        self.change_source(source, |source, now| source.move_pointer(at, now));
    }

    /// See [`Display::quiesce_display`](bellhop_host_kmd::hardware::Display::quiesce_display).
    pub fn quiesce(&self) -> DisplayTicket {
        let ticket = self.lock().quiesce();
        self.tell();
        ticket
    }

    fn screens(&self) -> Vec<Screen> {
        let wakeups = self.wakeups.load(Ordering::Relaxed);
        let state = self.lock();
        let connectors = self.config.connectors.iter().zip(0..);
        connectors
            .map(|(connector, target)| Screen {
                guest: self.guest(),
                target,
                name: connector.name.clone(),
                plugged: state.is_plugged(target),
                path: state.paths().iter().find(|path| path.target == target).copied(),
                viewers: state.viewers_of(target),
                wakeups,
                costs: state.costs,
            })
            .collect()
    }

    /// Plugs a monitor in or unplugs it.
    ///
    /// # Errors
    /// If there is no such connector.
    pub fn plug(&self, child: u32, plugged: bool) -> Result<(), ScreenError> {
        if child as usize >= self.config.connectors.len() {
            return Err(ScreenError::NoConnector(child));
        }
        self.lock().plug(child, plugged);
        self.tell();
        Ok(())
    }

    /// Begins to view a target.
    ///
    /// # Errors
    /// If there is no such connector, or no room for another viewer.
    pub fn view(self: &Arc<Self>, target: u32) -> Result<Viewer, ScreenError> {
        if target as usize >= self.config.connectors.len() {
            return Err(ScreenError::NoConnector(target));
        }
        let told = Arc::new(Event::new().map_err(|_| ScreenError::NoDescriptor)?);
        let gone = ScreenError::NoGuest(self.guest().0);
        let id = self.change(|state, _| {
            if state.is_closed {
                return Err(gone);
            }
            state.add_viewer(target, Arc::clone(&told)).ok_or(ScreenError::Full)
        })?;
        Ok(Viewer { display: Arc::clone(self), id, told })
    }
}

/// Who sees a target. Dropping it ends that.
#[derive(Debug)]
pub struct Viewer {
    display: Arc<GuestDisplay>,
    id: ViewerId,
    told: Arc<Event>,
}

impl Viewer {
    /// Takes what the viewer was told; `None` if the guest has gone. [`AsFd`] is readable while there is something. A
    /// viewer keeps the memory of a guest that has gone, so drop it then.
    pub fn take(&self) -> Option<Vec<Update>> {
        // First: what is told afterwards makes it readable again.
        self.told.clear();
        let mut state = self.display.lock();
        state.viewer(self.id).map(viewer::Viewing::take)
    }

    /// Gives a buffer back, for another frame.
    pub fn give_back(&self, buffer: u32) {
        self.display.change(|state, _| {
            if let Some(viewer) = state.viewer(self.id) {
                viewer.give_back(buffer);
            }
        });
    }

    /// Whether it wants frames; it does at first. One that does not costs nothing, and gets a frame when it does again.
    pub fn watch(&self, watches: bool) {
        self.display.change(|state, now| state.watch(self.id, watches, now));
    }

    /// A person's input. Returns false if it was dropped: nothing is shown there, or the guest is too slow for it.
    pub fn input(&self, input: Input) -> bool {
        let taken = self.display.lock().input(self.id, input);
        self.display.tell();
        taken
    }
}

impl AsFd for Viewer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.display.lock().remove_viewer(self.id);
        // What it let go of.
        self.display.tell();
    }
}
