// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that composes frames for viewers, beside the one that scans out: however large a picture is, and however many
//! see it, VSYNCs and flips are where they would be without.
//!
//! Frames are read from the guest's memory in slices. Before each, the thread asks what the source shows: a flip that
//! happened meanwhile is seen from there on, as by a monitor that scans slowly, and what was taken away is read no more.
//! Nobody waits for a slice: what a flip that happened meanwhile has to report is left to this thread, which reports it
//! when the slice has ended. So if the guest's memory lets this thread stand still, its VSYNCs go on.
//!
//! Each guest has a thread of its own, since a guest's VMM can block whoever reads the guest's memory. A thread composes for
//! half of the time at most ([`State::composed`](super::state::State::composed)).

use super::GuestDisplay;
use super::change_detector::Look;
use super::compose::{Picture, Pointer};
use super::frame_buffer::Writing;
use super::state::{Job, Work};
use super::surface::Surface;
use bellhop_protocol::control::display::SourceMode;
use bellhop_protocol::rect::Rect;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// A slice that is being read of what a source shows.
struct Slice<'d>(&'d GuestDisplay);

impl<'d> Slice<'d> {
    /// Begins a slice: the flip that a source shows, and its picture. `None` if the source is not what it was.
    fn begin(
        display: &'d GuestDisplay,
        source: u32,
        mode: &SourceMode,
    ) -> Option<(Self, u64, Option<Surface>)> {
        let (flip, surface) = display.lock().shown(source, mode)?;
        Some((Self(display), flip, surface))
    }

    /// Begins a slice, if a source shows this.
    fn of(display: &'d GuestDisplay, source: u32, surface: &Surface) -> Option<Self> {
        let shows = display.lock().shows(source, surface);
        shows.then(|| Self(display))
    }
}

impl Drop for Slice<'_> {
    fn drop(&mut self) {
        self.0.lock().slice_ended();
        self.0.tell();
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
    /// Whether another flip is another picture, of which more than the parts to compose is new.
    is_partial: bool,
}

impl Picture for Shown<'_> {
    fn read(&mut self, part: Rect, onto: u32, words: &mut [u32]) -> bool {
        let width = part.width().max(1) as usize;
        let memory = self.display.partition.memory();
        {
            let slice = Slice::begin(self.display, self.source, &self.mode);
            let Some((_slice, flip, surface)) = slice else { return false };
            if flip != self.flip {
                if self.is_partial {
                    return false;
                }
                (self.flip, self.torn_at) = (flip, self.torn_at.max(onto));
            }
            match surface.as_ref().and_then(|surface| surface.rows(&memory)) {
                Some(picture) => {
                    for (row, words) in (part.top..).zip(words.chunks_exact_mut(width)) {
                        picture.read(row, part.left, words);
                    }
                }
                None => words.fill(0),
            }
        }
        for (row, words) in (part.top..).zip(words.chunks_exact_mut(width)) {
            words.iter_mut().for_each(|word| *word &= 0x00ff_ffff);
            if let Some(pointer) = &self.pointer {
                pointer.put(row, part.left, words);
            }
        }
        true
    }
}

fn compose(display: &GuestDisplay, job: &mut Job) {
    let Job { geometry, torn_at, filling, frame, cells, .. } = job;
    let latest = filling.latest.as_deref();
    // Above the line that an immediate flip was at, the screen shows what it showed before.
    if let Some(latest) =
        latest.filter(|latest| *torn_at > 0 && !std::ptr::eq(*latest, &raw const *filling.into))
    {
        filling.into.copy_rows(latest, *torn_at);
    }
    let mut shown = Shown {
        display,
        source: job.source,
        mode: job.mode,
        pointer: job.pointer.take(),
        flip: frame.flip,
        torn_at: *torn_at,
        is_partial: cells.is_some(),
    };
    let mut writing = Writing::new(&filling.into, latest);
    let is_whole = match cells {
        Some(cells) => geometry
            .compose_parts(&mut shown, cells, |row, from, words| writing.put(row, from, words)),
        None => {
            let rows = *torn_at..geometry.target.1;
            geometry.compose(&mut shown, rows, |row, words| writing.put(row, 0, words))
        }
    };
    let Writing { changed, bytes, .. } = writing;
    job.is_gone = !is_whole;
    job.is_news |= shown.flip != frame.flip;
    (frame.flip, frame.torn_at) = (shown.flip, shown.torn_at);
    (job.changed, job.bytes) = (changed, bytes);
}

fn make(display: &GuestDisplay, look: &mut Look) {
    let (source, expected) = (look.source, look.surface);
    look.make(|row, bytes| {
        let memory = display.partition.memory();
        // Another picture is looked at later, from the beginning.
        let slice = Slice::of(display, source, &expected);
        let picture = slice.as_ref().and_then(|_| expected.rows(&memory));
        picture.map(|picture| picture.bytes(row, bytes)).is_some()
    });
}
