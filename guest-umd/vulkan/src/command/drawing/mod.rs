// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawing: what is bound and set for draws, the rendering that they are in, and commands for all that.
//!
//! The host forgets at the end of a chunk what it was told in it, and a rendering is in one chunk. So what is bound and set is kept
//! here, and a draw is preceded by what of it the host was not told.

mod binding;
mod clears;
mod counting;
mod draws;
mod inside;
mod passes;
mod prepare;
mod set;
mod states;
mod vertices;

use super::bound::{Bound, Program};
use super::pushed::Pushed;
use super::recording::Recording;
use crate::descriptor::SetLayout;
use crate::pipeline::Pipeline;
use ash::vk;
use counting::{Available, Counting};
use inside::Scene;
use states::States;
use std::sync::Arc;
use vertices::{Indices, Vertices};

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
    program: Option<Program>,
    bound: Bound,
    pushed: Pushed,
    states: States,
    vertices: Vertices,
    indices: Option<Indices>,
    scene: Scene,
    /// What is being counted.
    counting: Vec<Counting>,
    /// What is to be there when the rendering has ended.
    later: Vec<Available>,
    /// Whether barriers are between its chunks, and perhaps before the first or behind the last.
    has_barriers: bool,
    /// The chunk in which the host was told what is not stale.
    turn: u32,
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
        self.counting.clear();
        self.later.clear();
        self.has_barriers = false;
    }
}

impl Recording {
    /// What is bound and set for draws.
    fn drawing(&mut self) -> &mut Drawing {
        self.drawing.get_or_insert_default()
    }

    /// Binds a pipeline for draws.
    pub(super) fn bind_graphics(&mut self, pipeline: &Pipeline) {
        // A rendering is not divided for what the host compiles in it.
        let program = Program::new(pipeline, None);
        let is_apart = !program.others.is_empty();
        let is_new = |old: &Program| old.address != program.address;
        let drawing = self.drawing();
        let is_new = drawing.program.as_ref().is_none_or(is_new);
        drawing.program = Some(program);
        if is_new {
            self.stale |= stale::BOUND;
        }
        self.stale &= !stale::APART;
        if is_apart {
            self.stale |= stale::APART;
        }
    }

    /// Binds a set for draws.
    pub(super) fn bind_graphics_set(&mut self, number: u32, address: u64) {
        if self.drawing().bound.replace(number, address) {
            self.stale |= stale::BOUND;
        }
    }

    /// Binds dynamic offsets for draws, behind those of sets before.
    pub(super) fn bind_graphics_offsets(&mut self, first: u32, offsets: &[u32]) {
        self.drawing().bound.offsets(first, offsets);
        self.stale |= stale::BOUND;
    }

    /// Binds a set for draws with what was pushed to this one before, and what `write` writes.
    pub(super) fn push_graphics_set(
        &mut self,
        number: u32,
        layout: &Arc<SetLayout>,
        write: impl FnOnce(&mut Pushed),
    ) {
        let Self { heap, stream, drawing, .. } = self;
        let drawing = drawing.get_or_insert_default();
        drawing.pushed.keep(layout);
        write(&mut drawing.pushed);
        match stream.put_set(heap, drawing.pushed.bytes()) {
            Ok(address) => self.bind_graphics_set(number, address),
            Err(why) => self.fail(why),
        }
    }

    /// Has the host be told everything again.
    pub(super) fn renew(&mut self) {
        if let Some(drawing) = &mut self.drawing {
            drawing.states.renew();
            drawing.vertices.renew();
        }
        self.stale |= stale::ALL;
    }
}

/// Finds an entry point by its name.
pub(super) fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    draws::lookup(name)
        .or_else(|| binding::lookup(name))
        .or_else(|| set::lookup(name))
        .or_else(|| passes::lookup(name))
        .or_else(|| clears::lookup(name))
}
