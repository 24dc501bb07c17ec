// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that composes frames for viewers, beside the one that scans out: however large a picture is, and however many
//! see it, VSYNCs and flips are where they would be without.
//!
//! Frames are read from the guest's memory in slices. Before each, the thread asks what the source shows: a flip that
//! happened meanwhile is seen from there on, as by a monitor that scans slowly, and what was taken away is read no more.
//! Whoever has flipped waits for the slice that is being read ([`Turns::pass`]) and for nothing else.

use super::GuestDisplay;
use super::change_detector::Look;
use super::compose::{Picture, Pointer};
use super::state::{Job, Work};
use bellhop_protocol::control::display::SourceMode;
use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Turns at the guest's pictures: one thread reads slices of them, and others let slices pass that began before.
#[derive(Debug, Default)]
pub struct Turns {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    is_reading: bool,
    /// Who lets a slice pass. No other slice begins meanwhile: the reader would be back before they are awake.
    passing: usize,
}

/// A slice that is being read.
struct Turn<'t>(&'t Turns);

impl Turns {
    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the slice that is being read has ended. Those that follow see what was flipped before this call.
    #[expect(
        clippy::disallowed_methods,
        reason = "the display's own thread: one slice of a frame, 16,384 pixels"
    )]
    pub fn pass(&self) {
        let mut state = self.lock();
        state.passing += 1;
        while state.is_reading {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.passing -= 1;
        self.changed.notify_all();
    }

    /// Begins a slice.
    #[expect(
        clippy::disallowed_methods,
        reason = "the composer of the same display: until its display's thread has passed"
    )]
    fn begin(&self) -> Turn<'_> {
        let mut state = self.lock();
        while state.passing > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_reading = true;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().is_reading = false;
        self.0.changed.notify_all();
    }
}

/// A running thread. Dropping it ends the thread, after the slice that it reads.
#[derive(Debug)]
pub struct Composer {
    /// `None` once it ends.
    work: Option<SyncSender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Composer {
    /// Starts it.
    ///
    /// # Errors
    /// If the operating system has no thread.
    pub fn start(display: &Arc<GuestDisplay>) -> io::Result<Self> {
        // The state gives out no work before earlier work is done.
        let (work, given) = sync_channel(1);
        let display = Arc::clone(display);
        let thread = Builder::new().name("viewers".into()).spawn(move || run(&display, &given))?;
        Ok(Self { work: Some(work), thread: Some(thread) })
    }

    /// Gives it work. Returns the work if the thread has ended, as only a panic ends it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the display's own thread: never full, since one frame is composed at a time"
    )]
    pub fn give(&self, work: Work) -> Result<(), Work> {
        match &self.work {
            Some(sender) => sender.send(work).map_err(|unsent| unsent.0),
            None => Err(work),
        }
    }
}

impl Drop for Composer {
    #[expect(clippy::disallowed_methods, reason = "whoever ends the display: one slice of a frame")]
    fn drop(&mut self) {
        self.work = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the composition of a display's frames panicked");
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the composer of one guest's display, which has nothing else to do"
)]
fn run(display: &GuestDisplay, given: &Receiver<Work>) {
    while let Ok(mut work) = given.recv() {
        let from = display.chip.now();
        for job in &mut work.jobs {
            compose(display, job);
        }
        for look in &mut work.looks {
            make(display, look);
        }
        display.lock().composed(work, (from, display.chip.now()));
        display.tell();
        // There may be a frame that was due meanwhile, and what a look saw is one.
        display.event.signal();
    }
}

/// What a source shows, as one job reads it.
struct Shown<'d> {
    display: &'d GuestDisplay,
    source: u32,
    mode: SourceMode,
    pointer: Option<Pointer>,
    /// The flip that is seen, and the row of the screen from which on it is.
    flip: u64,
    torn_at: u32,
}

impl Picture for Shown<'_> {
    fn read(&mut self, rows: Range<u32>, onto: u32, words: &mut [u32]) -> bool {
        let width = self.mode.width.max(1) as usize;
        let memory = self.display.partition.memory();
        {
            let _turn = self.display.turns.begin();
            let Some((flip, surface)) = self.display.shown(self.source, &self.mode) else {
                return false;
            };
            if flip != self.flip {
                (self.flip, self.torn_at) = (flip, self.torn_at.max(onto));
            }
            match surface.as_ref().and_then(|surface| surface.rows(&memory)) {
                Some(picture) => {
                    for (row, words) in rows.clone().zip(words.chunks_exact_mut(width)) {
                        picture.read(row, words);
                    }
                }
                None => words.fill(0),
            }
        }
        for (row, words) in rows.zip(words.chunks_exact_mut(width)) {
            words.iter_mut().for_each(|word| *word &= 0x00ff_ffff);
            if let Some(pointer) = &self.pointer {
                pointer.put(row, words);
            }
        }
        true
    }
}

fn compose(display: &GuestDisplay, job: &mut Job) {
    let Job { source, mode, geometry, torn_at, pointer, filling, frame, is_same, is_gone } = job;
    // Above the line that an immediate flip was at, the screen shows what it showed before.
    if let Some(latest) = filling.latest.as_ref().filter(|_| *torn_at > 0) {
        filling.into.copy_rows(latest, *torn_at);
    }
    let mut shown = Shown {
        display,
        source: *source,
        mode: *mode,
        pointer: pointer.take(),
        flip: frame.flip,
        torn_at: *torn_at,
    };
    let write = |row, words: &[u32]| {
        let before = filling.unless.as_ref();
        *is_same &= before.is_none_or(|before| before.has_row(row, words));
        filling.into.write_row(row, words);
    };
    *is_gone = !geometry.compose(&mut shown, *torn_at..geometry.target.1, write);
    if shown.flip != frame.flip {
        *is_same = false;
    }
    (frame.flip, frame.torn_at) = (shown.flip, shown.torn_at);
}

fn make(display: &GuestDisplay, look: &mut Look) {
    let (source, expected) = (look.source, look.surface);
    look.make(|row, bytes| {
        let memory = display.partition.memory();
        let _turn = display.turns.begin();
        // Another picture is looked at later, from the beginning.
        let is_shown = display.shows(source, &expected);
        let picture = is_shown.then(|| expected.rows(&memory)).flatten();
        picture.map(|picture| picture.bytes(row, bytes)).is_some()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_slice_is_waited_for_and_the_next_one_waits_for_who_did() {
        let turns = Turns::default();
        // Nobody reads.
        turns.pass();
        let turn = turns.begin();
        thread::scope(|threads| {
            let passing = threads.spawn(|| turns.pass());
            while turns.lock().passing == 0 {
                thread::yield_now();
            }
            assert!(!passing.is_finished());
            drop(turn);
            passing.join().unwrap();
            drop(turns.begin());
        });
        let state = turns.lock();
        assert_eq!((state.is_reading, state.passing), (false, 0));
    }

    #[test]
    fn who_has_flipped_gets_its_turn_however_fast_slices_follow_each_other() {
        let turns = Turns::default();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    drop(turns.begin());
                }
            });
            (0..1000).for_each(|_| turns.pass());
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
