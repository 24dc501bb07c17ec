// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a command buffer records, and how far it is.

use super::bound::{Bound, Program};
use super::pushed::Pushed;
use super::stream::{Chunk, HEADER, Stream};
use crate::descriptor::SetLayout;
use crate::heap::Heap;
use crate::pipeline::Pipeline;
use ash::vk;
use bellhop_protocol::vulkan::{Copy, Dispatch, Encoded, Fill, Timestamp, Update, Wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most bytes of an update in the stream. A longer one is several.
const PART: usize = 16 << 10;

/// Commands as they are recorded.
pub(super) struct Recording {
    heap: &'static Heap,
    stream: Stream,
    pub(super) bound: Bound,
    pushed: Pushed,
    /// What to set when the commands are submitted: for each pipeline that the host compiles then.
    cold: Vec<Arc<AtomicBool>>,
    /// Why the commands cannot be executed.
    failure: Option<vk::Result>,
}

impl Recording {
    /// No commands.
    pub(super) fn new(heap: &'static Heap, is_primary: bool) -> Self {
        Self {
            heap,
            stream: Stream::new(is_primary),
            bound: Bound::new(),
            pushed: Pushed::default(),
            cold: Vec::new(),
            failure: None,
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
    fn note(&mut self, outcome: Result<(), vk::Result>) {
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
        let outcome = self.stream.barrier(self.heap);
        self.note(outcome);
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
        let Some(program) = &mut self.bound.program else {
            return self.fail(vk::Result::ERROR_UNKNOWN);
        };
        if let Some(cold) = program.cold.take() {
            // The host compiles it then, and a packet may not take long.
            self.stream.new_chunk();
            self.cold.push(cold);
        }
        let Some(program) = &self.bound.program else { return };
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
        let outcome = self.stream.append(self.heap, &other.stream, apart);
        self.note(outcome);
        if let Some(why) = other.failure {
            self.fail(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_heap;
    use super::*;
    use bellhop_protocol::vulkan::{Command, MAX_UPDATE, commands};

    fn recording(is_primary: bool) -> Recording {
        Recording::new(test_heap::heap(), is_primary)
    }

    /// Runs a test over the commands of each chunk.
    fn commands_of(recording: &Recording) -> Vec<Vec<String>> {
        let name = |command: Command<'_>| match command {
            Command::Barrier(..) => "barrier".to_owned(),
            Command::Copy(copy, _) => {
                format!("copy {} {} {}", copy.source, copy.destination, copy.length)
            }
            Command::Fill(fill, _) => {
                format!("fill {} {} {}", fill.destination, fill.length, fill.header.argument)
            }
            Command::Update(update, bytes) => {
                format!("update {} {}", update.destination, bytes.len())
            }
            Command::Dispatch(dispatch, data) => format!(
                "dispatch {:?} {} {}",
                dispatch.groups,
                dispatch.sets(data).len(),
                dispatch.constants(data).len()
            ),
            Command::Timestamp(time, _) => format!("time {}", time.destination),
            Command::Wait(wait, _) => format!("wait {} {}", wait.address, wait.header.argument),
            other => format!("{other:?}"),
        };
        let chunks = recording.chunks().iter().map(|chunk| {
            let bytes = recording.stream.bytes(chunk).unwrap();
            commands(&bytes).map(|command| name(command.unwrap().1)).collect()
        });
        chunks.collect()
    }

    fn program(cold: Option<&Arc<AtomicBool>>) -> Option<Program> {
        let cold = cold.map(Arc::clone);
        let (sets, dynamic_offsets, push_constants) = (1, 1, 8);
        Some(Program { address: 64, sets, dynamic_offsets, push_constants, cold })
    }

    #[test]
    fn barriers_without_a_command_between_are_one() {
        let mut recording = recording(true);
        recording.barrier();
        recording.copy(8, 16, 4);
        recording.barrier();
        recording.barrier();
        recording.fill(24, 0, 7);
        recording.fill(24, 4, 7);
        recording.wait(32, 1);
        recording.barrier();
        assert_eq!(recording.end(), vk::Result::SUCCESS);
        let expected = ["copy 8 16 4", "barrier", "fill 24 4 7", "wait 32 1", "barrier"];
        assert_eq!(commands_of(&recording), [expected]);
        recording.reset(false);
        assert_eq!((recording.end(), commands_of(&recording).len()), (vk::Result::SUCCESS, 0));
    }

    #[test]
    fn a_long_update_is_several() {
        let mut recording = recording(true);
        recording.update(64, &vec![1; MAX_UPDATE as usize - 4]);
        assert_eq!(recording.end(), vk::Result::SUCCESS);
        let expected =
            ["update 64 16384", "update 16448 16384", "update 32832 16384", "update 49216 16380"];
        assert_eq!(commands_of(&recording).concat(), expected);
    }

    #[test]
    fn a_dispatch_without_a_pipeline_fails_at_the_end() {
        let mut recording = recording(true);
        recording.dispatch(0, [0; 3], [1; 3]);
        assert_eq!(recording.end(), vk::Result::ERROR_UNKNOWN);
        recording.reset(true);
        recording.bound.program = program(None);
        recording.dispatch(0, [0; 3], [1, 2, 3]);
        assert_eq!(recording.end(), vk::Result::SUCCESS);
        assert_eq!(commands_of(&recording), [["dispatch [1, 2, 3] 1 8"]]);
    }

    #[test]
    fn the_first_dispatch_of_a_cold_pipeline_begins_a_chunk() {
        let mut recording = recording(true);
        let warm = Arc::default();
        recording.fill(64, 4, 0);
        recording.bound.program = program(Some(&warm));
        recording.dispatch(0, [0; 3], [1; 3]);
        recording.dispatch(0, [0; 3], [2; 3]);
        assert_eq!(recording.end(), vk::Result::SUCCESS);
        let lengths: Vec<_> = commands_of(&recording).iter().map(Vec::len).collect();
        assert_eq!(lengths, [1, 2]);
        assert!(!warm.load(Ordering::Relaxed));
        recording.submitted();
        assert!(warm.load(Ordering::Relaxed));
    }

    #[test]
    fn a_secondary_command_buffer_is_copied() {
        let mut secondary = recording(false);
        let warm = Arc::default();
        secondary.barrier();
        secondary.fill(64, 4, 1);
        secondary.bound.program = program(Some(&warm));
        secondary.dispatch(0, [0; 3], [1; 3]);
        assert_eq!(secondary.end(), vk::Result::SUCCESS);
        let mut primary = recording(true);
        primary.fill(128, 4, 2);
        primary.execute(&secondary);
        primary.barrier();
        primary.submitted();
        primary.execute(&secondary);
        assert_eq!(primary.end(), vk::Result::SUCCESS);
        let (fill, dispatch) = ("fill 64 4 1", "dispatch [1, 1, 1] 1 8");
        let first = vec!["fill 128 4 2"];
        // A secondary one begins with whatever is before it not done.
        let copied = vec!["barrier", fill];
        let last = vec![dispatch, "barrier", "barrier", fill, dispatch];
        assert_eq!(commands_of(&primary), [first, copied, last]);
    }

    #[test]
    fn many_commands_fill_several_chunks_none_of_which_is_too_long() {
        let mut recording = recording(true);
        for turn in 0..2 {
            recording.bound.program = program(None);
            for index in 0..4000 {
                recording.push_set(0, &Arc::default(), |_| ());
                recording.dispatch(0, [0; 3], [index, 1, 1]);
            }
            assert_eq!(recording.end(), vk::Result::SUCCESS, "{turn}");
            let all = commands_of(&recording).concat();
            assert_eq!((all.len(), all[3999].as_str()), (4000, "dispatch [3999, 1, 1] 1 8"));
            assert!(recording.chunks().iter().all(|chunk| chunk.length <= 64 << 10));
            recording.trim();
            recording.reset(turn == 0);
        }
    }
}
