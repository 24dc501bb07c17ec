// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is bound and set for draws, and which of it the host was not told yet.
//!
//! The host forgets at the end of a chunk what it was told in it. So what is bound and set is kept here.

mod scene;
mod states;
mod vertices;

pub(super) use scene::{Available, Counting, Divided, Instance, Open, Scene};
pub(super) use states::{Faced, List, Single, States};
pub(super) use vertices::{Indices, Vertices};

use super::bound::{Bound, Program};
use super::pushed::Pushed;

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
        self.counting.clear();
        self.later.clear();
        self.has_barriers = false;
    }
}
