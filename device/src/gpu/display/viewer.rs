// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who sees a target: two buffers, of which the display fills one while the viewer reads the other.
//!
//! A frame is written only into a buffer that the viewer does not hold. So a viewer that is slow misses frames, and
//! neither a guest nor another viewer waits for it.

use super::compose::Geometry;
use super::frame_buffer::FrameBuffer;
use crate::gpu::shared::event::Event;
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
}

/// A frame that is wanted though nothing was flipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refresh {
    /// From this VSYNC on.
    pub from: u64,
    /// Only if it is not the same as the latest.
    pub unless_same: bool,
}

impl Refresh {
    const AT_ONCE: Self = Self { from: 0, unless_same: false };
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
    /// The keys and buttons that it holds down, as the guest was told.
    pub held_down: Held,
    /// Buffers that the viewer or a composition holds.
    held: [bool; 2],
    updates: VecDeque<Update>,
    /// Grows when buffers change, so that a composition for earlier ones is dropped.
    epoch: u64,
    /// The version of the picture that it was sent last.
    pub seen: u64,
    /// The VSYNC from which on it wants a frame even if nothing was flipped.
    pub refresh: Option<Refresh>,
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
    /// The latest frame, if it is in the other buffer.
    pub latest: Option<Arc<FrameBuffer>>,
    /// The latest frame, if this one is not worth telling of when it is the same.
    pub unless: Option<Arc<FrameBuffer>>,
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
            held_down: Held::default(),
            held: [false; 2],
            updates: VecDeque::new(),
            epoch: 0,
            seen: 0,
            refresh: Some(Refresh::AT_ONCE),
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
        (self.held, self.latest) = ([false; 2], None);
        self.epoch += 1;
        self.refresh = Some(Refresh::AT_ONCE);
        // These are about buffers that are gone.
        self.updates.clear();
    }

    /// Whether a frame could be written that it wants. A viewer that looks away gets the first frame of each size: it tells
    /// others how large the screen is.
    pub fn has_room(&self) -> bool {
        (self.watches || self.latest.is_none()) && self.held.iter().any(|held| !held)
    }

    /// Whether it wants a frame of a VSYNC though nothing was flipped.
    pub fn wants_refresh(&self, vsync: u64) -> bool {
        self.refresh.is_some_and(|refresh| refresh.from <= vsync)
    }

    /// A buffer for a frame of this geometry; `is_same` says that nothing was flipped since the latest.
    ///
    /// # Errors
    /// If the operating system has no memory for buffers.
    pub fn fill(&mut self, geometry: &Geometry, is_same: bool) -> io::Result<Option<Filling>> {
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
        let unless_same = is_same && self.refresh.is_none_or(|refresh| refresh.unless_same);
        let latest = self.latest.and_then(|buffer| buffers.get(buffer as usize)).cloned();
        // The latest frame stays there to compare with, if it can.
        let is_free = |buffer: &usize| self.held.get(*buffer) == Some(&false);
        let spared = usize::from(self.latest == Some(0));
        let Some(buffer) = [spared, 1 - spared].into_iter().find(is_free) else { return Ok(None) };
        let (Some(into), Some(held)) = (buffers.get(buffer), self.held.get_mut(buffer)) else {
            return Ok(None);
        };
        *held = true;
        let latest = latest.filter(|latest| !Arc::ptr_eq(latest, into));
        let unless = latest.clone().filter(|_| unless_same);
        let (viewer, into, epoch) = (self.id, Arc::clone(into), self.epoch);
        Ok(Some(Filling { viewer, buffer: buffer as u32, into, latest, unless, epoch }))
    }

    /// The buffer is filled, unless it has gone meanwhile; with a frame that is not worth telling of, if there is none.
    pub fn filled(&mut self, filling: &Filling, frame: Option<Frame>) {
        if filling.epoch != self.epoch {
            return;
        }
        match frame {
            Some(frame) => {
                self.latest = Some(frame.buffer);
                self.tell(Update::Frame(frame));
            }
            None => self.give_back(filling.buffer),
        }
    }
}
