// SPDX-License-Identifier: MIT OR Apache-2.0

//! A swap chain: primaries that take turns at being drawn on and shown.
//!
//! ```text
//!            acquire            present              VSYNC
//!   free ──────────► acquired ──────────► waiting ──────────► shown ──► free
//!    ▲                  │ release            │ dropped, lost             │
//!    └──────────────────┴────────────────────┴───────────────────────────┘
//! ```

use super::error::DisplayError;
use super::flip::Flip;
use super::object::Display;
use super::primary::{Primary, Surface};
use super::statistics::{Book, Frame, FrameStatistics};
use crate::device::Device;
use crate::fence::object::Fence;
use crate::link::display_events::Flipped;
use bellhop_protocol::event::FlipOutcome;
use std::time::{Duration, Instant};

/// When a frame is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresentMode {
    /// At a VSYNC of its own, after the frames before it: none is lost, none is torn.
    Vsync,
    /// At once: the picture may be torn.
    Immediate,
    /// At the next VSYNC; frames before it that are not shown by then never are. None is torn.
    Mailbox,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Acquired,
    Waiting { flip: u64, presented: Instant },
    Shown,
}

struct Image {
    primary: Primary,
    state: State,
}

/// An image that the program draws on. [`SwapChain::present`] shows it, [`SwapChain::release`] does not.
#[derive(Debug)]
#[must_use = "present it, or release it"]
pub struct Acquired {
    index: usize,
}

impl Acquired {
    /// Which of the chain's images it is.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }
}

/// Primaries that take turns at being drawn on and shown. Two show one while the other is drawn; three let a program draw
/// on while a frame waits for its VSYNC.
pub struct SwapChain {
    display: Display,
    source: u32,
    images: Vec<Image>,
    book: Book,
}

impl SwapChain {
    /// The most images: one is shown, and as many flips as can wait do.
    pub const MOST_IMAGES: usize = 9;

    /// Makes the images of a chain for a source: 2 to [`Self::MOST_IMAGES`].
    ///
    /// # Errors
    /// [`DisplayError::BadSurface`]; a refusal if there is no room for them.
    pub fn new(
        display: &Display,
        device: &Device,
        source: u32,
        surface: Surface,
        images: usize,
    ) -> Result<Self, DisplayError> {
        if !(2..=Self::MOST_IMAGES).contains(&images) {
            return Err(DisplayError::BadSurface("a swap chain has 2 to 9 images"));
        }
        let primaries = (0..images).map(|_| device.create_primary(surface));
        Self::over(display, source, primaries.collect::<Result<_, _>>()?)
    }

    /// Makes a chain of primaries that the program has made.
    ///
    /// # Errors
    /// [`DisplayError::BadSurface`] for fewer than 2 or more than [`Self::MOST_IMAGES`] of them.
    pub fn over(
        display: &Display,
        source: u32,
        primaries: Vec<Primary>,
    ) -> Result<Self, DisplayError> {
        if !(2..=Self::MOST_IMAGES).contains(&primaries.len()) {
            return Err(DisplayError::BadSurface("a swap chain has 2 to 9 images"));
        }
        let image = |primary| Image { primary, state: State::Free };
        let images = primaries.into_iter().map(image).collect();
        Ok(Self { display: display.clone(), source, images, book: Book::default() })
    }

    /// The images' primaries, by their index.
    pub fn primaries(&self) -> impl ExactSizeIterator<Item = &Primary> {
        self.images.iter().map(|image| &image.primary)
    }

    /// The primary of an acquired image.
    ///
    /// # Panics
    /// If it is another chain's, with more images.
    #[must_use]
    pub fn primary(&self, image: &Acquired) -> &Primary {
        &self.images[image.index].primary
    }

    /// Waits for an image that is neither shown nor waits to be.
    ///
    /// # Errors
    /// [`DisplayError::Timeout`] if none becomes free in time.
    pub fn acquire(&mut self, timeout: Duration) -> Result<Acquired, DisplayError> {
        let start = Instant::now();
        self.update()?;
        loop {
            if let Some(index) = self.images.iter().position(|image| image.state == State::Free) {
                self.set(index, State::Acquired);
                return Ok(Acquired { index });
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() || !self.take_end(left)? {
                return Err(DisplayError::Timeout("a free image"));
            }
        }
    }

    /// Gives an image back without showing it.
    pub fn release(&mut self, image: Acquired) {
        self.set(image.index, State::Free);
    }

    /// Shows an image when all of these fences have these values: those of its rendering. Returns the flip's number.
    ///
    /// # Errors
    /// As [`Display::flip`]; the image is then free again. [`DisplayError::QueueFull`] in mailbox mode never means frames
    /// of this chain.
    pub fn present(
        &mut self,
        image: Acquired,
        mode: PresentMode,
        fences: &[(&Fence, u64)],
    ) -> Result<u64, DisplayError> {
        let index = image.index;
        let presented = Instant::now();
        let flip = Flip::to(self.primary(&image)).after(fences);
        let flip = match mode {
            PresentMode::Vsync => flip,
            PresentMode::Immediate => flip.immediate(),
            PresentMode::Mailbox => flip.replace(),
        };
        match self.display.flip(self.source, flip) {
            Ok(flip) => {
                self.book.presented();
                self.set(index, State::Waiting { flip, presented });
                Ok(flip)
            }
            Err(error) => {
                self.set(index, State::Free);
                Err(error)
            }
        }
    }

    /// Waits until nothing that was presented still waits.
    ///
    /// # Errors
    /// [`DisplayError::Timeout`]
    pub fn finish(&mut self, timeout: Duration) -> Result<(), DisplayError> {
        let start = Instant::now();
        self.update()?;
        let waits = |image: &Image| matches!(image.state, State::Waiting { .. });
        while self.images.iter().any(waits) {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() || !self.take_end(left)? {
                return Err(DisplayError::Timeout("the end of a flip"));
            }
        }
        Ok(())
    }

    /// What became of all frames so far.
    ///
    /// # Errors
    /// None but those of every request.
    pub fn statistics(&mut self) -> Result<FrameStatistics, DisplayError> {
        self.update()?;
        Ok(self.book.totals())
    }

    /// What became of each frame that has ended since the last call, in the order of their ends: at most the last 1,024.
    ///
    /// # Errors
    /// None but those of every request.
    pub fn take_frames(&mut self) -> Result<Vec<Frame>, DisplayError> {
        self.update()?;
        Ok(self.book.take())
    }

    /// Notes all ends of flips that have come.
    fn update(&mut self) -> Result<(), DisplayError> {
        while self.take_end(Duration::ZERO)? {}
        Ok(())
    }

    /// Notes the next end of one of this chain's flips. Returns whether there was one.
    fn take_end(&mut self, timeout: Duration) -> Result<bool, DisplayError> {
        let source = self.source;
        let waits = |flip| {
            let is_it =
                |state: &State| matches!(*state, State::Waiting { flip: it, .. } if it == flip);
            self.images.iter().any(|image| is_it(&image.state))
        };
        let is_mine = |ended: &Flipped| ended.source == source && waits(ended.flip);
        let ended = self.display.wait(timeout, |inbox| inbox.flips.take(is_mine))?;
        if let Some(ended) = &ended {
            self.note(ended);
        }
        Ok(ended.is_some())
    }

    fn note(&mut self, ended: &Flipped) {
        let is_shown = ended.outcome == FlipOutcome::SHOWN;
        for image in &mut self.images {
            match image.state {
                State::Waiting { flip, presented } if flip == ended.flip => {
                    image.state = if is_shown { State::Shown } else { State::Free };
                    self.book.ended(presented, ended);
                }
                State::Shown if is_shown => image.state = State::Free,
                _ => {}
            }
        }
    }

    fn set(&mut self, index: usize, state: State) {
        if let Some(image) = self.images.get_mut(index) {
            image.state = state;
        }
    }
}
