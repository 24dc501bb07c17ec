// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host is told before a draw: states, buffers and the pipeline with its sets, if they are others than it was told.

use super::super::drawn::{Scene, stale};
use super::super::recording::Recording;
use super::super::stream::HEADER;
use ash::vk;
use bellhop_protocol::vulkan::{BindGraphics, SetIndexBuffer, SetState, SetVertexBuffers};
use std::mem;
use zerocopy::IntoBytes;

impl Recording {
    /// Tells the host what it was not told, with the pipeline of one GPU. Returns whether it was told.
    pub(super) fn tell_all(&mut self) -> bool {
        if self.stale & stale::APART != 0 {
            // Transformed vertices are stored with one pipeline.
            self.fail(vk::Result::ERROR_FEATURE_NOT_PRESENT);
            return false;
        }
        let outcome = if self.stale == 0 { Ok(()) } else { self.tell() };
        let is_told = outcome.is_ok();
        self.note(outcome);
        is_told
    }

    /// Tells the host what it was not told.
    pub(super) fn tell(&mut self) -> Result<(), vk::Result> {
        let unknown = vk::Result::ERROR_UNKNOWN;
        let Self { heap, stream, drawing, stale, .. } = self;
        let drawing = drawing.as_mut().ok_or(unknown)?;
        if matches!(drawing.scene, Scene::Outside) {
            return Err(unknown);
        }
        let program = drawing.program.as_ref().ok_or(unknown)?;
        let told = mem::take(stale);
        if told & stale::STATES != 0 {
            // Before the pipeline is bound, which sets what is not dynamic in it.
            while let Some((number, words)) = drawing.states.take_new() {
                let command = SetState { header: HEADER, words: words.len() as u32, reserved: 0 };
                stream.push(heap, number, command, [words.as_bytes()])?;
            }
        }
        if told & stale::VERTICES != 0
            && let Some((first, count, buffers)) = drawing.vertices.take_new()
        {
            let command = SetVertexBuffers { header: HEADER, count, reserved: 0 };
            stream.push(heap, first, command, [buffers])?;
        }
        if told & stale::INDICES != 0
            && let Some(indices) = drawing.indices
        {
            let (address, length) = (indices.address, indices.length);
            let command = SetIndexBuffer { header: HEADER, address, length };
            stream.push(heap, indices.kind, command, [])?;
        }
        if told & stale::BOUND != 0 {
            let command = BindGraphics {
                header: HEADER,
                pipeline: program.address,
                dynamic_offsets: program.dynamic_offsets,
                push_constants: program.push_constants,
            };
            // Push constants are those of dispatches, too.
            let parts = drawing.bound.parts_with(program, &self.bound);
            stream.push(heap, program.sets, command, parts)?;
        }
        Ok(())
    }
}
