// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a command buffer records, and how far it is.

use super::bound::{Bound, Program};
use super::drawing::{Drawing, stale};
use super::pushed::Pushed;
use super::stream::{Chunk, HEADER, Stream};
use crate::descriptor::SetLayout;
use crate::device::DeviceMask;
use crate::heap::Heap;
use crate::pipeline::Pipeline;
use ash::vk;
use bellhop_protocol::vulkan::{Copy, Dispatch, Encoded, Fill, Timestamp, Update, Wait};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes of an update in the stream. A longer one is several.
const PART: usize = 16 << 10;

/// Commands as they are recorded.
pub(super) struct Recording {
    pub(super) heap: &'static Heap,
    pub(super) stream: Stream,
    /// What is bound for dispatches, and push constants, which are draws', too.
    pub(super) bound: Bound,
    pushed: Pushed,
    /// What to set when the commands are submitted: for each pipeline that the host compiles then.
    cold: Vec<Arc<AtomicBool>>,
    /// Why the commands cannot be executed.
    failure: Option<vk::Result>,
    /// What is bound for draws, from the first of it on.
    pub(super) drawing: Option<Box<Drawing>>,
    /// What of that the host was not told yet.
    pub(super) stale: u32,
}

impl Recording {
    /// No commands, for these GPUs.
    pub(super) fn new(heap: &'static Heap, is_primary: bool, devices: DeviceMask) -> Self {
        Self {
            heap,
            stream: Stream::new(is_primary, devices),
            bound: Bound::new(),
            pushed: Pushed::default(),
            cold: Vec::new(),
            failure: None,
            drawing: None,
            stale: stale::ALL,
        }
    }

    /// Forgets all commands. `release` gives back their memory.
    pub(super) fn reset(&mut self, release: bool) {
        if release {
            self.stream.release();
        } else {
            self.stream.reset();
        }
        self.bound = Bound::new();
        self.pushed.forget();
        self.cold.clear();
        self.failure = None;
        self.stale = stale::ALL;
        if let Some(drawing) = &mut self.drawing {
            drawing.forget();
        }
    }

    /// Gives back memory that no command uses.
    pub(super) fn trim(&mut self) {
        self.stream.trim();
    }

    /// Ends the recording.
    pub(super) fn end(&mut self) -> vk::Result {
        self.stream.new_chunk();
        self.failure.unwrap_or(vk::Result::SUCCESS)
    }

    /// What is recorded, after its end.
    pub(super) fn chunks(&self) -> &[Chunk] {
        self.stream.chunks()
    }

    /// Marks the pipelines of the commands as compiled.
    pub(super) fn submitted(&self) {
        for warm in &self.cold {
            warm.store(true, Ordering::Relaxed);
        }
    }

    /// Notes why the commands cannot be executed.
    #[cold]
    pub(super) fn fail(&mut self, why: vk::Result) {
        self.failure.get_or_insert(why);
    }

    #[inline]
    pub(super) fn note(&mut self, outcome: Result<(), vk::Result>) {
        if let Err(why) = outcome {
            self.fail(why);
        }
    }

    /// Appends a command, and behind it parts.
    #[inline]
    pub(super) fn push<C: Encoded, const N: usize>(
        &mut self,
        argument: u32,
        command: C,
        parts: [&[u8]; N],
    ) {
        let outcome = self.stream.push(self.heap, argument, command, parts);
        self.note(outcome);
    }

    /// Has what comes next wait for everything before it.
    pub(super) fn barrier(&mut self) {
        if self.stream.is_held() {
            return self.barrier_inside();
        }
        self.barrier_now();
    }

    /// As [`Self::barrier`], outside of renderings.
    pub(super) fn barrier_now(&mut self) {
        let outcome = self.stream.barrier(self.heap);
        self.note(outcome);
    }

    /// Has what comes next wait for everything before it on all GPUs that execute it.
    pub(super) fn meet(&mut self) {
        if self.stream.is_held() {
            return self.meet_inside();
        }
        self.meet_now();
    }

    /// As [`Self::meet`], outside of renderings.
    pub(super) fn meet_now(&mut self) {
        let outcome = self.stream.meet(self.heap);
        self.note(outcome);
    }

    /// Has these GPUs execute what comes next, and no others.
    pub(super) fn set_devices(&mut self, devices: DeviceMask) {
        if self.stream.is_held() {
            return self.set_devices_inside(devices);
        }
        self.stream.set_devices(devices);
    }

    /// Copies bytes.
    pub(super) fn copy(&mut self, source: u64, destination: u64, length: u64) {
        if length > 0 {
            self.push(0, Copy { header: HEADER, source, destination, length }, []);
        }
    }

    /// Repeats a word.
    pub(super) fn fill(&mut self, destination: u64, length: u64, word: u32) {
        if length > 0 {
            self.push(word, Fill { header: HEADER, destination, length }, []);
        }
    }

    /// Writes bytes.
    pub(super) fn update(&mut self, destination: u64, bytes: &[u8]) {
        for (part, bytes) in (0u64..).zip(bytes.chunks(PART)) {
            let destination = destination + part * PART as u64;
            self.push(bytes.len() as u32, Update { header: HEADER, destination }, [bytes]);
        }
    }

    /// Waits until a word has a value.
    pub(super) fn wait(&mut self, address: u64, value: u32) {
        self.push(value, Wait { header: HEADER, address }, []);
    }

    /// Writes the time.
    pub(super) fn timestamp(&mut self, destination: u64) {
        self.push(0, Timestamp { header: HEADER, destination }, []);
    }

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

    /// Appends what a secondary command buffer has recorded.
    pub(super) fn execute(&mut self, other: &Self) {
        let cold = other.cold.iter().filter(|cold| !cold.load(Ordering::Relaxed));
        let before = self.cold.len();
        self.cold.extend(cold.map(Arc::clone));
        let apart = self.cold.len() > before;
        if self.stream.is_held() {
            self.execute_inside(other);
        } else {
            let outcome = self.stream.append(self.heap, &other.stream, apart);
            self.note(outcome);
        }
        if other.drawing.is_some() {
            self.renew();
        }
        if let Some(why) = other.failure {
            self.fail(why);
        }
    }
}

#[cfg(test)]
mod tests;
