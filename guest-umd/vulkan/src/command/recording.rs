// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a command buffer records, and how far it is.

use super::bound::Bound;
use super::drawn::{Drawing, stale};
use super::pushed::Pushed;
use super::stream::{Chunk, HEADER, Stream};
use crate::device::DeviceMask;
use crate::heap::Heap;
use ash::vk;
use bellhop_protocol::packet::transfer::{self, WRITE_DATA_MAX, WriteData};
use bellhop_protocol::vulkan::{Copy, Encoded, Fill, Timestamp, Update, Wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::{Immutable, IntoBytes};

/// Most bytes of an update in the stream. A longer one is several.
const PART: usize = 16 << 10;

/// Commands as they are recorded.
pub(super) struct Recording {
    pub(super) heap: &'static Heap,
    pub(super) stream: Stream,
    /// What is bound for dispatches, and push constants, which are draws', too.
    pub(super) bound: Bound,
    pub(super) pushed: Pushed,
    /// What to set when the commands are submitted: for each pipeline that the host compiles then.
    pub(super) cold: Vec<Arc<AtomicBool>>,
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

    /// Has what comes next wait for everything before it, outside of renderings.
    pub(super) fn barrier_now(&mut self) {
        let outcome = self.stream.barrier(self.heap);
        self.note(outcome);
    }

    /// Has what comes next wait for everything before it on all GPUs that execute it, outside of renderings.
    pub(super) fn meet_now(&mut self) {
        let outcome = self.stream.meet(self.heap);
        self.note(outcome);
    }

    /// Has these GPUs execute what comes next, and no others, outside of renderings.
    pub(super) fn set_devices_now(&mut self, devices: DeviceMask) {
        self.stream.set_devices(devices);
    }

    /// What is bound and set for draws.
    pub(super) fn drawing(&mut self) -> &mut Drawing {
        self.drawing.get_or_insert_default()
    }

    /// Has the host be told everything of draws again.
    pub(super) fn renew(&mut self) {
        if let Some(drawing) = &mut self.drawing {
            drawing.states.renew();
            drawing.vertices.renew();
        }
        self.stale |= stale::ALL;
    }

    /// Appends a packet, and behind it data.
    fn push_packet(&mut self, packet: &(impl IntoBytes + Immutable), data: &[u8]) {
        let outcome = self.stream.push_packet(self.heap, packet.as_bytes(), data);
        self.note(outcome);
    }

    /// Copies bytes.
    pub(super) fn copy(&mut self, source: u64, destination: u64, length: u64) {
        if length == 0 {
            return;
        }
        if self.stream.takes_packets() {
            self.push_packet(&transfer::Copy::new(source, destination, length), &[]);
        } else {
            self.push(0, Copy { header: HEADER, source, destination, length }, []);
        }
    }

    /// Repeats a word.
    pub(super) fn fill(&mut self, destination: u64, length: u64, word: u32) {
        if length == 0 {
            return;
        }
        if self.stream.takes_packets() {
            self.push_packet(&transfer::Fill::new(destination, length, word), &[]);
        } else {
            self.push(word, Fill { header: HEADER, destination, length }, []);
        }
    }

    /// Writes bytes.
    pub(super) fn update(&mut self, destination: u64, bytes: &[u8]) {
        if self.stream.takes_packets() {
            for (part, bytes) in (0u64..).zip(bytes.chunks(WRITE_DATA_MAX)) {
                let destination = destination + part * WRITE_DATA_MAX as u64;
                if let Some(packet) = WriteData::new(destination, bytes.len()) {
                    self.push_packet(&packet, bytes);
                }
            }
            return;
        }
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

    /// Takes over what a secondary command buffer has recorded, but for its commands. Returns whether the host has to compile
    /// something for these.
    pub(super) fn take_cold(&mut self, other: &Self) -> bool {
        let cold = other.cold.iter().filter(|cold| !cold.load(Ordering::Relaxed));
        let before = self.cold.len();
        self.cold.extend(cold.map(Arc::clone));
        if let Some(why) = other.failure {
            self.fail(why);
        }
        self.cold.len() > before
    }
}

#[cfg(test)]
mod tests;
