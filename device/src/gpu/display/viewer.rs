// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who sees a target: two buffers, of which the display fills one while the viewer reads the other.
//!
//! A frame is written only into a buffer that the viewer does not hold. So a viewer that is slow misses frames, and
//! neither a guest nor another viewer waits for it.

use super::compose::Geometry;
use super::frame_buffer::FrameBuffer;
use crate::gpu::shared::event::Event;
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

/// A viewer, as the display knows it.
#[derive(Debug)]
pub struct Viewing {
    pub id: ViewerId,
    pub target: u32,
    /// Becomes readable when there are updates.
    pub told: Arc<Event>,
    /// Of the target's present size.
    buffers: Option<Buffers>,
    /// Buffers that the viewer or a composition holds.
    held: [bool; 2],
    updates: VecDeque<Update>,
    /// Grows when buffers change, so that a composition for earlier ones is dropped.
    epoch: u64,
    /// The version of the picture that it was sent last.
    pub seen: u64,
    /// The VSYNC from which on it wants a frame even if nothing changed.
    pub refresh: Option<u64>,
    has_signal: bool,
}

/// A buffer that is being filled.
#[derive(Debug)]
pub struct Filling {
    pub viewer: ViewerId,
    pub buffer: u32,
    pub into: Arc<FrameBuffer>,
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
            held: [false; 2],
            updates: VecDeque::new(),
            epoch: 0,
            seen: 0,
            refresh: Some(0),
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

    fn forget_buffers(&mut self) {
        self.buffers = None;
        self.held = [false; 2];
        self.epoch += 1;
        self.refresh = Some(0);
        // These are about buffers that are gone.
        self.updates.clear();
    }

    /// Whether a frame could be written.
    pub fn has_room(&self) -> bool {
        self.held.iter().any(|held| !held)
    }

    /// A buffer for a frame of this geometry.
    ///
    /// # Errors
    /// If the operating system has no memory for buffers.
    pub fn fill(&mut self, geometry: &Geometry) -> io::Result<Option<Filling>> {
        if self.buffers.as_ref().is_none_or(|[buffer, _]| buffer.size() != geometry.target) {
            self.forget_buffers();
            let new = || FrameBuffer::new(geometry.target).map(Arc::new);
            let buffers = [new()?, new()?];
            self.buffers = Some(buffers.clone());
            self.has_signal = true;
            self.tell(Update::Buffers(buffers));
        }
        let Some(buffers) = &self.buffers else { return Ok(None) };
        let free = (0..).zip(buffers).zip(&mut self.held).find(|(_, held)| !**held);
        Ok(free.map(|((buffer, into), held)| {
            *held = true;
            Filling { viewer: self.id, buffer, into: Arc::clone(into), epoch: self.epoch }
        }))
    }

    /// The buffer is filled, unless it has gone meanwhile.
    pub fn filled(&mut self, filling: &Filling, frame: Frame) {
        if filling.epoch == self.epoch {
            self.tell(Update::Frame(frame));
        }
    }
}
