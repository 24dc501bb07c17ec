// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawing: commands that draw, what they are in, and what they need. A rendering is in one chunk, and a draw is preceded by what
//! the host was not told in that.

mod binding;
mod clears;
mod condition;
mod counting;
mod divided;
mod draws;
mod inside;
mod interrupted;
mod passes;
mod prepare;
mod set;
mod tell;
mod transform;

use super::bound::Program;
use super::drawn::stale;
use super::pushed::Pushed;
use super::recording::Recording;
use crate::descriptor::SetLayout;
use crate::pipeline::Pipeline;
use ash::vk;
use std::sync::Arc;

impl Recording {
    /// Binds a pipeline for draws.
    pub(super) fn bind_graphics(&mut self, pipeline: &Pipeline) {
        if pipeline.stores() {
            self.stream.uses.add_unknown();
        }
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
}

/// Finds an entry point by its name.
pub(super) fn lookup(name: &[u8]) -> Option<vk::PFN_vkVoidFunction> {
    draws::lookup(name)
        .or_else(|| binding::lookup(name))
        .or_else(|| set::lookup(name))
        .or_else(|| passes::lookup(name))
        .or_else(|| clears::lookup(name))
        .or_else(|| transform::lookup(name))
        .or_else(|| condition::lookup(name))
}
