// SPDX-License-Identifier: MIT OR Apache-2.0

//! Draws: each is preceded by what the host was not told yet.

use super::super::drawn::{Scene, stale};
use super::super::recording::Recording;
use super::super::stream::HEADER;
use crate::device::DeviceMask;
use ash::vk;
use bellhop_protocol::vulkan::{BindGraphics, Encoded, SetIndexBuffer, SetState, SetVertexBuffers};
use std::mem;
use zerocopy::IntoBytes;

impl Recording {
    /// Draws.
    #[inline]
    pub(super) fn draw<C: Encoded + Copy>(&mut self, argument: u32, command: C) {
        if (self.stale != 0 || self.stream.is_full()) && !self.prepare(argument, command) {
            return;
        }
        self.push(argument, command, []);
    }

    /// Tells the host what it was not told. Returns whether the draw is still to be recorded.
    #[cold]
    #[inline(never)]
    fn prepare<C: Encoded + Copy>(&mut self, argument: u32, command: C) -> bool {
        if self.stream.is_full() {
            self.make_room();
        }
        if self.stale & stale::APART != 0 {
            self.draw_apart(argument, command);
            return false;
        }
        let outcome = self.tell();
        let is_told = outcome.is_ok();
        self.note(outcome);
        is_told
    }

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
    fn tell(&mut self) -> Result<(), vk::Result> {
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

    /// Draws with a pipeline that is another one on each GPU.
    fn draw_apart<C: Encoded + Copy>(&mut self, argument: u32, command: C) {
        let Some(program) = self.drawing().program.as_mut() else { return };
        let (first, others) = (program.address, mem::take(&mut program.others));
        let devices = self.stream.devices();
        for (device, address) in (0..DeviceMask::BITS).zip([&[first], &others[..]].concat()) {
            let device = devices & 1 << device;
            if device == 0 {
                continue;
            }
            self.set_devices(device);
            // For these GPUs it is the only one.
            if let Some(program) = &mut self.drawing().program {
                program.address = address;
            }
            self.stale = self.stale & !stale::APART | stale::BOUND;
            self.draw(argument, command);
        }
        self.set_devices(devices);
        if let Some(program) = &mut self.drawing().program {
            (program.address, program.others) = (first, others);
        }
        self.stale |= stale::APART | stale::BOUND;
    }
}
