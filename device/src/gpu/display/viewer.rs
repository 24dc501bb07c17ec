// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who sees a target: two buffers, of which the display fills one while the viewer reads the other.
//!
//! A frame is written only into a buffer that the viewer does not hold. So a viewer that is slow misses frames, and
//! neither a guest nor another viewer waits for it. A viewer that has given the latest frame back gets the next one in the
//! same buffer, where only what changed is written.

use super::compose::Geometry;
use super::frame_buffer::FrameBuffer;
use crate::gpu::shared::event::Event;
use bellhop_protocol::rect::Rect;
use bellhop_protocol::screen::Held;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A viewer's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewerId(pub u64);

/// The buffers of a viewer, both of one size.
pub type Buffers = [Arc<FrameBuffer>; 2];

/// What a viewer is told.
#[derive(Debug)]
pub enum Update {
    /// The target has other buffers. The viewer holds none of them.
    Buffers(Buffers),
    /// A frame. The viewer holds its buffer.
    Frame(Frame),
    /// Nothing is committed to the target: it shows nothing, and its buffers are gone.
    NoSignal,
}

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The buffer, 0 or 1.
    pub buffer: u32,
    /// The flip that it shows; 0 for none.
    pub flip: u64,
    /// The VSYNC at whose frame it was seen, counted as in the interrupt.
    pub vsync: u64,
    /// That VSYNC's time, in ticks of the adapter's clock.
    pub time: u64,
    /// The first row of this flip: rows above are of the flip before. 0 for a whole frame.
    pub torn_at: u32,
    /// The part of the screen outside of which it is as the frame before.
    pub changed: Rect,
}

/// A viewer, as the display knows it.
#[derive(Debug)]
pub struct Viewing {
    pub id: ViewerId,
    pub target: u32,
    /// Becomes readable when there are updates.
    pub told: Arc<Event>,
    /// Of the target's present size.
    buffers: Option<Buffers>,
    /// The version of the picture that each buffer has; 0 for none, or for a mixture.
    versions: [u64; 2],
    /// The keys and buttons that it holds down, as the guest was told.
    pub held_down: Held,
    /// Buffers that the viewer or a composition holds.
    held: [bool; 2],
    updates: VecDeque<Update>,
    /// Grows when buffers change, so that a composition for earlier ones is dropped.
    epoch: u64,
    /// The version of the picture that it was sent last.
    pub seen: u64,
    /// The VSYNC from which on it wants a frame even if nothing has changed.
    pub refresh: Option<u64>,
    /// Whether it wants frames at all.
    pub watches: bool,
    /// The buffer of the latest frame.
    latest: Option<u32>,
    has_signal: bool,
}

/// A buffer that is being filled.
#[derive(Debug)]
pub struct Filling {
    pub viewer: ViewerId,
    pub buffer: u32,
    pub into: Arc<FrameBuffer>,
    /// The latest frame: in the same buffer, or in the other one.
    pub latest: Option<Arc<FrameBuffer>>,
    /// The version of the picture that is in the buffer already; 0 for none.
    pub version: u64,
    epoch: u64,
}

impl Viewing {
    /// A viewer that wants a frame as soon as there is one.
    pub fn new(id: ViewerId, target: u32, told: Arc<Event>) -> Self {
        let mut viewing = Self {
            id,
            target,
            told,
            buffers: None,
            versions: [0; 2],
            held_down: Held::default(),
            held: [false; 2],
            updates: VecDeque::new(),
            epoch: 0,
            seen: 0,
            refresh: Some(0),
            watches: true,
            latest: None,
            has_signal: false,
        };
        viewing.tell(Update::NoSignal);
        viewing
    }

    fn tell(&mut self, update: Update) {
        self.updates.push_back(update);
        self.told.signal();
    }

    /// Takes what it was told. At most: new buffers, two frames in them, or that there is no signal.
    pub fn take(&mut self) -> Vec<Update> {
        self.updates.drain(..).collect()
    }

    /// The viewer no longer reads a buffer.
    pub fn give_back(&mut self, buffer: u32) {
        // A buffer that is being filled is not the viewer's to give. It does not know of it either: a frame is told
        // when it is filled.
        if let Some(held) = self.held.get_mut(buffer as usize) {
            *held = false;
        }
    }

    /// Nothing is committed to its target any more.
    pub fn lose_signal(&mut self) {
        if std::mem::take(&mut self.has_signal) {
            self.forget_buffers();
            self.tell(Update::NoSignal);
        }
    }

    /// Its target has this size from now on.
    pub fn set_size(&mut self, size: (u32, u32)) {
        if self.buffers.as_ref().is_some_and(|[buffer, _]| buffer.size() != size) {
            self.forget_buffers();
        }
    }

    fn forget_buffers(&mut self) {
        self.buffers = None;
        (self.held, self.versions, self.latest) = ([false; 2], [0; 2], None);
        self.epoch += 1;
        self.refresh = Some(0);
        // These are about buffers that are gone.
        self.updates.clear();
    }

    /// Whether a frame could be written that it wants. A viewer that looks away gets the first frame of each size: it tells
    /// others how large the screen is.
    pub fn has_room(&self) -> bool {
        (self.watches || self.latest.is_none()) && self.held.iter().any(|held| !held)
    }

    /// Whether there is a frame of which a part can stay.
    pub fn has_frame(&self) -> bool {
        self.latest.is_some()
    }

    /// Whether it wants a frame of a VSYNC though nothing has changed.
    pub fn wants_refresh(&self, vsync: u64) -> bool {
        self.refresh.is_some_and(|from| from <= vsync)
    }

    /// A buffer for a frame of this geometry: that of the latest frame if the viewer has given it back, so that only what
    /// has changed is written there.
    ///
    /// # Errors
    /// If the operating system has no memory for buffers.
    pub fn fill(&mut self, geometry: &Geometry) -> io::Result<Option<Filling>> {
        self.set_size(geometry.target);
        if self.buffers.is_none() {
            self.forget_buffers();
            let new = || FrameBuffer::new(geometry.target).map(Arc::new);
            let buffers = [new()?, new()?];
            self.buffers = Some(buffers.clone());
            self.has_signal = true;
            self.tell(Update::Buffers(buffers));
        }
        let Some(buffers) = &self.buffers else { return Ok(None) };
        let latest = self.latest.and_then(|buffer| buffers.get(buffer as usize)).cloned();
        let is_free = |buffer: &usize| self.held.get(*buffer) == Some(&false);
        let first = self.latest.map_or(0, |latest| latest as usize & 1);
        let Some(buffer) = [first, 1 - first].into_iter().find(is_free) else { return Ok(None) };
        let (Some(into), Some(held)) = (buffers.get(buffer), self.held.get_mut(buffer)) else {
            return Ok(None);
        };
        *held = true;
        // Until it is filled it has a part of two pictures.
        let version = self.versions.get_mut(buffer).map(std::mem::take).unwrap_or(0);
        let (viewer, into, epoch) = (self.id, Arc::clone(into), self.epoch);
        Ok(Some(Filling { viewer, buffer: buffer as u32, into, latest, version, epoch }))
    }

    /// The buffer is filled, unless it has gone meanwhile: with this version of the picture, or 0 for none. `None` if the
    /// frame is not worth telling of.
    pub fn filled(&mut self, filling: &Filling, version: u64, frame: Option<Frame>) {
        if filling.epoch != self.epoch {
            return;
        }
        if let Some(of_buffer) = self.versions.get_mut(filling.buffer as usize) {
            *of_buffer = version;
        }
        match frame {
            Some(frame) => {
                self.latest = Some(frame.buffer);
                self.tell(Update::Frame(frame));
            }
            None => {
                if version == 0 && self.latest == Some(filling.buffer) {
                    // What the viewer saw last is in no buffer any more.
                    self.latest = None;
                }
                self.give_back(filling.buffer);
            }
        }
    }
}
