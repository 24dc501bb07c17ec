// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread of a swap chain, which waits for queues, and shows what they have drawn.

use super::chain::Chain;
use super::images::Images;
use crate::device::Device;
use crate::device::wait::{Deadline, Target, left, wait};
use crate::surface::screen::{Canvas, Screen};
use ash::vk;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// An image that is to be shown.
pub(super) struct Frame {
    pub(super) image: u32,
    /// What draws it, when it is done.
    pub(super) drawn: Vec<Target>,
    /// The program's identifier, or 0.
    pub(super) id: u64,
}

/// The thread of a swap chain.
pub(super) struct Presenter {
    frames: Option<Sender<Frame>>,
    thread: Option<JoinHandle<()>>,
}

impl Presenter {
    /// Begins to show images.
    ///
    /// # Errors
    /// When the screen shows none, or there is no thread.
    pub(super) fn new(
        device: &'static Device,
        screen: &dyn Screen,
        extent: vk::Extent2D,
        mode: vk::PresentModeKHR,
        images: &Arc<Images>,
        chain: &Arc<Chain>,
    ) -> Result<Self, vk::Result> {
        let canvas = screen.canvas(extent, mode)?;
        let pace = Pace::new(mode, screen.interval());
        let (images, chain) = (Arc::clone(images), Arc::clone(chain));
        let (frames, received) = channel();
        let showing = Showing { device, canvas, images, chain };
        let thread = Builder::new().name("vulkan-present".to_owned());
        let thread = thread.spawn(move || showing.run(&received, pace));
        let thread = thread.map_err(|_| vk::Result::ERROR_OUT_OF_HOST_MEMORY)?;
        Ok(Self { frames: Some(frames), thread: Some(thread) })
    }

    /// Has an image be shown.
    pub(super) fn show(&self, frame: Frame) {
        if let Some(frames) = &self.frames {
            // A thread that has ended shows nothing: the chain has failed.
            let _ = frames.send(frame);
        }
    }

    /// Ends the thread, when it has shown what it was given.
    pub(super) fn end(&mut self) {
        self.frames = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, it shows nothing, either.
            let _ = thread.join();
        }
    }
}

/// When images are shown.
struct Pace {
    /// From an image to the next, if they wait for the screen.
    interval: Option<Duration>,
    /// Whether a newer image takes the place of one that waits.
    takes_newest: bool,
    /// When the next one may be shown.
    next: Instant,
}

impl Pace {
    fn new(mode: vk::PresentModeKHR, interval: Option<Duration>) -> Self {
        let waits = mode != vk::PresentModeKHR::IMMEDIATE;
        let takes_newest = mode == vk::PresentModeKHR::MAILBOX;
        Self { interval: interval.filter(|_| waits), takes_newest, next: Instant::now() }
    }

    /// Waits until the next image may be shown. Returns one that takes the place of the one that waits.
    fn wait(&self, frames: &Receiver<Frame>) -> Option<Frame> {
        let due = self.interval.map(|_| self.next.saturating_duration_since(Instant::now()));
        let left = due.unwrap_or_default();
        if self.takes_newest {
            return frames.recv_timeout(left).ok();
        }
        // Nothing but the clock tells of this time.
        std::thread::sleep(left);
        None
    }

    /// Notes that an image is shown now, which may be late.
    fn shown(&mut self, now: Instant) {
        if let Some(interval) = self.interval {
            let due = self.next + interval;
            // After a pause the screen's time begins anew.
            self.next = if due < now { now + interval } else { due };
        }
    }
}

/// What the thread has.
struct Showing {
    device: &'static Device,
    canvas: Box<dyn Canvas>,
    images: Arc<Images>,
    chain: Arc<Chain>,
}

impl Showing {
    /// Shows images until there will be no more.
    fn run(mut self, frames: &Receiver<Frame>, mut pace: Pace) {
        while let Ok(frame) = frames.recv() {
            if let Err(why) = self.show_one(frame, frames, &mut pace) {
                self.chain.fail(why);
                return;
            }
        }
    }

    /// Shows an image when its time has come, or a newer one.
    fn show_one(
        &mut self,
        mut frame: Frame,
        frames: &Receiver<Frame>,
        pace: &mut Pace,
    ) -> Result<(), vk::Result> {
        self.wait(&frame)?;
        while let Some(newer) = pace.wait(frames) {
            self.chain.shown(frame.id, Some(frame.image));
            frame = newer;
            self.wait(&frame)?;
        }
        pace.shown(Instant::now());
        let picture = self.images.picture(frame.image).ok_or(vk::Result::ERROR_UNKNOWN)?;
        let shown = self.canvas.show(&picture)?;
        self.chain.shown(frame.id, shown.free);
        if shown.fits { Ok(()) } else { Err(vk::Result::ERROR_OUT_OF_DATE_KHR) }
    }

    /// Waits until an image has been drawn.
    fn wait(&self, frame: &Frame) -> Result<(), vk::Result> {
        let one = match &frame.drawn[..] {
            [(progress, value)] => Some((&**progress, *value)),
            _ => None,
        };
        let look = || left(frame.drawn.iter().cloned(), false);
        wait(self.device, false, &Deadline::NEVER, one, look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_wait_for_the_screen_come_at_its_times_and_anew_after_a_pause() {
        let interval = Duration::from_millis(10);
        let mut pace = Pace::new(vk::PresentModeKHR::FIFO, Some(interval));
        let begin = pace.next;
        pace.shown(begin + Duration::from_millis(3));
        assert_eq!(pace.next, begin + interval);
        let late = begin + Duration::from_millis(35);
        pace.shown(late);
        assert_eq!(pace.next, late + interval);
    }

    #[test]
    fn only_some_modes_wait_and_one_takes_the_newest() {
        let interval = Some(Duration::from_millis(10));
        let of = |mode| {
            let pace = Pace::new(mode, interval);
            (pace.interval.is_some(), pace.takes_newest)
        };
        assert_eq!(of(vk::PresentModeKHR::FIFO), (true, false));
        assert_eq!(of(vk::PresentModeKHR::FIFO_RELAXED), (true, false));
        assert_eq!(of(vk::PresentModeKHR::MAILBOX), (true, true));
        assert_eq!(of(vk::PresentModeKHR::IMMEDIATE), (false, false));
        assert!(Pace::new(vk::PresentModeKHR::FIFO, None).interval.is_none());
    }
}
