// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dispatches, as they are recorded.

use super::bound::Program;
use super::pushed::Pushed;
use super::recording::Recording;
use super::stream::HEADER;
use crate::descriptor::SetLayout;
use crate::device::DeviceMask;
use crate::pipeline::Pipeline;
use ash::vk;
use bellhop_protocol::vulkan::Dispatch;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

impl Recording {
    /// Binds a pipeline.
    pub(super) fn bind(&mut self, pipeline: &Pipeline) {
        let is_new = |cold: &&Arc<AtomicBool>| !self.cold.iter().any(|one| Arc::ptr_eq(one, cold));
        let cold = pipeline.cold().filter(is_new).map(Arc::clone);
        self.bound.program = Some(Program::new(pipeline, cold));
    }

    /// Runs the pipeline that is bound. The numbers of work groups are at `indirect`, unless that is 0.
    #[inline]
    pub(super) fn dispatch(&mut self, indirect: u64, base: [u32; 3], groups: [u32; 3]) {
        let Some(program) = &self.bound.program else {
            return self.fail(vk::Result::ERROR_UNKNOWN);
        };
        if !program.is_plain {
            return self.dispatch_apart(indirect, base, groups);
        }
        let command = Dispatch {
            header: HEADER,
            pipeline: program.address,
            indirect,
            base,
            groups,
            dynamic_offsets: program.dynamic_offsets,
            push_constants: program.push_constants,
        };
        let parts = self.bound.parts(program);
        let outcome = self.stream.push(self.heap, program.sets, command, parts);
        self.note(outcome);
    }

    /// Runs the pipeline that is bound, for the first time or on GPUs on each of which it is another one.
    #[cold]
    fn dispatch_apart(&mut self, indirect: u64, base: [u32; 3], groups: [u32; 3]) {
        let Some(program) = &mut self.bound.program else { return };
        program.is_plain = true;
        if let Some(cold) = program.cold.take() {
            if !self.stream.is_held() {
                // The host compiles it then, and a packet may not take long.
                self.stream.new_chunk();
            }
            self.cold.push(cold);
        }
        if program.others.is_empty() {
            return self.dispatch(indirect, base, groups);
        }
        let (first, others) = (program.address, mem::take(&mut program.others));
        let devices = self.stream.devices();
        for (device, address) in (0..DeviceMask::BITS).zip([&[first], &others[..]].concat()) {
            let device = devices & 1 << device;
            if device == 0 {
                continue;
            }
            self.set_devices(device);
            // For these GPUs it is the only one.
            if let Some(program) = &mut self.bound.program {
                program.address = address;
            }
            self.dispatch(indirect, base, groups);
        }
        self.set_devices(devices);
        if let Some(program) = &mut self.bound.program {
            (program.address, program.others, program.is_plain) = (first, others, false);
        }
    }

    /// Binds a set with what was pushed to this one before, and what `write` writes.
    pub(super) fn push_set(
        &mut self,
        number: u32,
        layout: &Arc<SetLayout>,
        write: impl FnOnce(&mut Pushed),
    ) {
        self.pushed.keep(layout);
        write(&mut self.pushed);
        match self.stream.put_set(self.heap, self.pushed.bytes()) {
            Ok(address) => self.bound.set(number, address),
            Err(why) => self.fail(why),
        }
    }
}
