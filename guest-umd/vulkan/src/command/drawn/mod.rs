// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is bound and set for draws, and which of it the host was not told yet.
//!
//! The host forgets at the end of a chunk what it was told in it. So what is bound and set is kept here.

mod scene;
mod states;
mod vertices;

pub(super) use scene::{Available, Condition, Counting, Divided, Instance, Open, Scene, Storing};
pub(super) use states::{Faced, List, Single, States};
pub(super) use vertices::{Indices, Vertices};

use super::bound::{Bound, Program};
use super::pushed::Pushed;
use crate::heap::Piece;
use bellhop_protocol::vulkan::{MAX_TRANSFORM_BUFFERS, TransformBuffer};

/// What of draws the host was not told yet: bits.
pub(super) mod stale {
    /// A pipeline with its resources.
    pub(in super::super) const BOUND: u32 = 1;
    /// Dynamic states.
    pub(in super::super) const STATES: u32 = 1 << 1;
    /// Vertex buffers.
    pub(in super::super) const VERTICES: u32 = 1 << 2;
    /// The index buffer.
    pub(in super::super) const INDICES: u32 = 1 << 3;
    /// Everything.
    pub(in super::super) const ALL: u32 = BOUND | STATES | VERTICES | INDICES;
    /// The pipeline is another one on each GPU.
    pub(in super::super) const APART: u32 = 1 << 4;
}

/// What is bound and set for draws, and where they are.
#[derive(Default)]
pub(super) struct Drawing {
    pub(in super::super) program: Option<Program>,
    pub(in super::super) bound: Bound,
    pub(in super::super) pushed: Pushed,
    pub(in super::super) states: States,
    pub(in super::super) vertices: Vertices,
    pub(in super::super) indices: Option<Indices>,
    pub(in super::super) scene: Scene,
    /// What the rendering is for some GPUs.
    pub(in super::super) divided: Option<Divided>,
    /// The buffers that transformed vertices are stored in, without their counters.
    pub(in super::super) stored: [TransformBuffer; MAX_TRANSFORM_BUFFERS as usize],
    /// How they are being stored.
    pub(in super::super) storing: Option<Storing>,
    /// What draws depend on.
    pub(in super::super) condition: Option<Condition>,
    /// Memory that commands use beside the stream.
    pub(in super::super) pieces: Vec<Piece>,
    /// What is being counted.
    pub(in super::super) counting: Vec<Counting>,
    /// What is to be there when the rendering has ended.
    pub(in super::super) later: Vec<Available>,
    /// Whether barriers are between its chunks, and perhaps before the first or behind the last.
    pub(in super::super) has_barriers: bool,
    /// The chunk in which the host was told what is not stale.
    pub(in super::super) turn: u32,
}

impl Drawing {
    /// Whether something goes on in several renderings.
    pub(super) fn goes_on_outside(&self) -> bool {
        self.counting.iter().any(|query| !query.is_inside)
            || self.condition.is_some_and(|condition| !condition.is_inside)
    }

    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        self.program = None;
        self.bound = Bound::new();
        self.pushed.forget();
        self.states.forget();
        self.vertices.forget();
        self.indices = None;
        self.scene = Scene::Outside;
        self.divided = None;
        self.stored = Default::default();
        self.storing = None;
        self.condition = None;
        self.pieces.clear();
        self.counting.clear();
        self.later.clear();
        self.has_barriers = false;
    }
}
