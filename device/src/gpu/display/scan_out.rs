// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that scans a guest's sources out: it sleeps until a VSYNC that somebody wants, or until the control plane
//! or a viewer has something for it. It reads no pixel, and waits for nobody who does, so that no picture is too large for
//! it.

use super::GuestDisplay;
use super::composer::Composer;
use super::state::Work;
use super::surface::Surface;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SECOND: u64 = 1_000_000_000;

/// A timer for times of the adapter's clock.
#[derive(Debug)]
pub struct Timer {
    timer: OwnedFd,
    /// The adapter's clock and `CLOCK_MONOTONIC` advance alike; this is the latter's lead, in nanoseconds.
    lead: u64,
}

impl Timer {
    /// A timer that is not set. `now` reads the adapter's clock.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new(now: impl Fn() -> u64) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let time = clock_gettime(ClockId::Monotonic);
        let (seconds, rest) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
        Ok(Self { timer, lead: (seconds * SECOND + rest).saturating_sub(now()) })
    }

    /// Fires at a time, at once if that has passed; or never.
    fn set(&self, time: Option<u64>) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would never fire. A time beyond `i64` never comes either.
        let it_value = time.map_or(zero, |time| {
            let time = time.saturating_add(self.lead).max(1);
            let (seconds, rest) = (time / SECOND, time % SECOND);
            Timespec {
                tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(rest).unwrap_or(0),
            }
        });
        let value = Itimerspec { it_interval: zero, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)?;
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "does not wait: the timer is non-blocking")]
    fn clear(&self) {
        let mut count = [0; size_of::<u64>()];
        // Nothing to read, if the event woke the thread.
        let _ = read(&self.timer, &mut count);
    }
}

/// Scans out until nothing is committed any more, or the guest is gone.
pub fn run(display: &Arc<GuestDisplay>, timer: &Timer) {
    let now = || display.chip.now();
    // Starts with the first frame that a viewer wants, and ends with this thread.
    let mut composer = None;
    loop {
        // Before the state is looked at: what changes afterwards makes it readable again.
        display.event.clear();
        timer.clear();
        let step = {
            let mut state = display.lock();
            if state.is_closed || state.paths().is_empty() {
                // Under the lock: who commits next sees that no thread runs, and starts one.
                state.stop();
                display.partition.drawn().watch(Vec::new());
                return;
            }
            let mut step = state.step(now());
            // A picture that is not shown any more may be drawn to from then on.
            state.flipped(std::mem::take(&mut step.after));
            // Under the lock: a process that no longer wants VSYNCs gets none once that is set.
            step.events.iter().for_each(|event| display.partition.tell(*event));
            step
        };
        display.tell();
        if let Some(watched) = step.watched {
            watch(display, &watched);
        }
        if !step.work.is_empty() {
            compose(display, &mut composer, step.work);
        }
        if let Err(error) = timer.set(step.wakes_at).and_then(|()| wait(display, timer)) {
            let guest = display.guest().0;
            tracing::error!(%error, guest, "a display cannot wait for its next VSYNC");
            display.lock().stop();
            return;
        }
        // Relaxed: a figure for people.
        display.wakeups.fetch_add(1, Ordering::Relaxed);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "one guest's display: until its next VSYNC, or a change"
)]
fn wait(display: &GuestDisplay, timer: &Timer) -> io::Result<()> {
    let (event, timer) = (display.event.as_fd(), timer.timer.as_fd());
    loop {
        let mut fds = [PollFd::new(&event, PollFlags::IN), PollFd::new(&timer, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            outcome => return Ok(outcome.map(drop)?),
        }
    }
}

/// Has engines tell what they draw into these pictures of sources.
fn watch(display: &GuestDisplay, watched: &[(u32, Surface)]) {
    let memory = display.partition.memory();
    let pictures: Vec<_> = watched
        .iter()
        .filter_map(|(source, surface)| Some((*source, Arc::new(surface.drawn(&memory)?))))
        .collect();
    let all = pictures.iter().map(|(_, picture)| Arc::clone(picture)).collect();
    display.partition.drawn().watch(all);
    display.lock().watch_drawn(&pictures);
}

/// Has the work done on the thread for that.
fn compose(display: &Arc<GuestDisplay>, composer: &mut Option<Composer>, work: Work) {
    let started = match composer.take() {
        Some(running) => Ok(running),
        None => Composer::start(display),
    };
    let undone = match started {
        Ok(running) => composer.insert(running).give(work).err(),
        Err(error) => {
            let guest = display.guest().0;
            tracing::warn!(%error, guest, "no viewer can be shown a frame");
            Some(work)
        }
    };
    if let Some(work) = undone {
        display.lock().undone(work, display.chip.now());
        display.event.signal();
    }
}
